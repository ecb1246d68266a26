#!/usr/bin/env bash
# Builds `kubectl fippool` for the system and processor that it runs on. For macOS, where hack/image/program.sh cannot run:
#   plugin.sh FOLDER     writes FOLDER/kubectl-fippool-darwin-arm64 or -amd64, and runs its --version
# Written for bash 3.2 and the programs of macOS.
set -euo pipefail
die() { echo "error: $*" >&2; exit 1; }
[ $# = 1 ] || die "usage: plugin.sh FOLDER"
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."

case $(uname -m) in
  x86_64) architecture=amd64 ;;
  arm64 | aarch64) architecture=arm64 ;;
  *) die "the plugin is built on x86_64 and arm64, not on $(uname -m)" ;;
esac
program=$folder/kubectl-fippool-$(uname -s | tr '[:upper:]' '[:lower:]')-$architecture
[ -z "$(git status --porcelain)" ] || die "there are uncommitted changes: a release is built from a commit"
commit=$(git rev-parse HEAD | cut -c1-12)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

# The program must not contain paths of this machine.
cargo_home=${CARGO_HOME:-$HOME/.cargo}
export RUSTFLAGS="--remap-path-prefix=$PWD=/source --remap-path-prefix=$cargo_home=/cargo"
CAIP_OPENSTACK_COMMIT=$commit cargo build --locked --release --bin kubectl-fippool
install -m 755 "${CARGO_TARGET_DIR:-target}/release/kubectl-fippool" "$program"
! grep -aqF "$cargo_home" "$program" || die "$program contains the path $cargo_home of this machine"
said=$("$program" --version)
case $said in
  *"$version ($commit)"*) echo "$program: $said" ;;
  *) die "--version says '$said', expected $version ($commit)" ;;
esac
