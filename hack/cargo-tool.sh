# The cargo subcommands of hack/, in a folder of their own below the cache. Sourced.
# shellcheck shell=bash

tools=${CAIP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/caip-openstack}/cargo
export PATH="$tools/bin:$PATH"

# Rust links with it.
command -v cc >/dev/null || "$(dirname "${BASH_SOURCE[0]}")/env/install.sh" gcc libc6-dev

# has_cargo_tool NAME VERSION
has_cargo_tool() {
  cargo "$1" --version 2>/dev/null | grep -q " $2$"
}

# need_cargo_tool NAME VERSION: installs cargo-NAME unless it is there in this version.
need_cargo_tool() {
  has_cargo_tool "$1" "$2" || cargo install --locked --quiet --root "$tools" "cargo-$1@$2"
}
