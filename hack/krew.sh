#!/usr/bin/env bash
# Packs `kubectl fippool` for krew and fills in its manifest: a step of `make dist`.
#   krew.sh HOMEPAGE URL OS-ARCH=PROGRAM...     krew.sh https://example.com/caip-openstack \
#     https://example.com/caip-openstack/releases/v0.1.0 linux-amd64=target/release/kubectl-fippool
# URL is the future folder of the archives. Writes them, and fippool.yaml with the given platforms, into target/krew/.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { echo "usage: krew.sh HOMEPAGE URL OS-ARCH=PROGRAM..." >&2; exit 2; }
[ $# -ge 3 ] || usage
homepage=$1 url=$2 out=target/krew
shift 2
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
rm -rf "$out" && mkdir -p "$out"
manifest=$(<config/krew/fippool.yaml)
given=" "
for pair; do
  platform=${pair%%=*} program=${pair#*=}
  [[ $platform =~ ^(linux|darwin)-(amd64|arm64)$ && -f $program ]] || usage
  given+="$platform "
  folder=$(mktemp -d)
  install -m 755 "$program" "$folder/kubectl-fippool"
  install -m 755 config/krew/kubectl_complete-fippool "$folder/kubectl_complete-fippool"
  install -m 644 LICENSE "$folder/LICENSE"
  # The archive depends only on the program.
  archive=$out/kubectl-fippool-$platform.tar.gz
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C "$folder" \
    -c kubectl-fippool kubectl_complete-fippool LICENSE | gzip -n >"$archive"
  rm -r "$folder"
  sum=$(sha256sum "$archive" | cut -d' ' -f1)
  placeholder=SHA256_${platform^^}
  manifest=${manifest//@${placeholder/-/_}@/$sum}
done
manifest=${manifest//@VERSION@/$version}
manifest=${manifest//@HOMEPAGE@/$homepage}
manifest=${manifest//@URL@/$url}
# A platform that was not given is removed, from its selector on.
for platform in {linux,darwin}-{amd64,arm64}; do
  [[ $given == *" $platform "* ]] || manifest=$(sed "/os: ${platform%-*}, arch: ${platform#*-}}/,+7d" <<<"$manifest")
done
sed '/^#/d' <<<"$manifest" >"$out/fippool.yaml"
! grep -n '@[A-Z]' "$out/fippool.yaml" || { echo "error: these placeholders are not filled in" >&2; exit 1; }
echo "$out/fippool.yaml"
