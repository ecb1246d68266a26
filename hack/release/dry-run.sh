#!/usr/bin/env bash
# shellcheck disable=SC2154 # image, chart and their parts are set by what push.sh prints
# Makes a release without publishing it: `make release-dry-run`. Builds it, pushes image and chart to a registry on
# loopback, signs them with a new key, verifies everything, and runs every image that the chart and the manifests name.
# It does the steps of .github/workflows/release.yaml but these: keyless signatures, provenance, and GitHub's release.
# The plugins for macOS, which only macOS can build, are placeholders.
#   IMAGE_PLATFORMS    default "linux/amd64 linux/arm64"; images of another architecture run in an emulator
#   DIST               a folder that an earlier dry run built, instead of building it again
set -euo pipefail
export CAIP_ENV=${CAIP_ENV:-release}
# shellcheck source=../env/lib.sh
. "$(dirname "$0")/../env/lib.sh"
export RELEASE_REGISTRY=127.0.0.1:$CAIP_PORT_BASE RELEASE_SOURCE=https://example.com/caip-openstack
mkdir -p "$ENV_DIR"
lock 7 "$CAIP_CACHE/env/.$CAIP_ENV-run" "makes a release"
WORK=$(mktemp -d)
export RELEASE_KEY=$WORK/release.key COSIGN_PASSWORD=
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
cd "$PROJECT"

finish() {
  local status=$?
  trap '' INT TERM
  stop "$REGISTRY"
  rm -rf "$WORK"
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

refuses() { # WHAT COMMAND...
  local what=$1
  shift
  ! "$@" >"$WORK/output" 2>&1 || die "$what was verified"
  say "refused: $what"
}

# What verify.sh is for: it must fail for another file, and for another signer.
check_refusals() {
  cp -R "$DIST" "$WORK/changed"
  echo changed >>"$WORK/changed/metadata.yaml"
  refuses "a changed file" hack/release/verify.sh "$WORK/changed" "$image" "$chart"
  (cd "$WORK/changed" && sed -i "s/^.*  metadata.yaml$/$(sha256sum metadata.yaml)/" SHA256SUMS)
  refuses "a changed file with its checksum" hack/release/verify.sh "$WORK/changed" "$image" "$chart"
  (cd "$WORK" && cosign generate-key-pair --output-key-prefix other >/dev/null 2>&1)
  RELEASE_KEY=$WORK/other.key refuses "another key" hack/release/verify.sh "$DIST" "$image" "$chart"
  refuses "another tag" hack/release/check.sh v99.0.0
}

# Every image that the chart, as it is in the registry, and the manifests name.
named_images() {
  {
    helm template caip-openstack "oci://$chart_name" --version "$VERSION" --plain-http
    cat "$DIST/caip-openstack.yaml" "$DIST/ipam-components.yaml"
  } | sed -n 's/^[ -]*image: *"\{0,1\}\([^" ]*\)"\{0,1\}$/\1/p' | sort -u
}

run_images() {
  local names name platform
  names=$(named_images)
  [ "$names" = "$image_name:$TAG" ] || die "the chart and the manifests name these images: ${names:-none}"
  for name in $names; do
    while read -r platform _; do run_image "$name" "$platform"; done < <(sboms "$DIST")
  done
}

# The archives of the plugin are those of its krew manifest, each has an SBOM, and this system's runs.
run_plugin() {
  local archive file sum platform
  for archive in "$DIST"/kubectl-fippool-*.tar.gz; do
    file=${archive##*/} platform=${archive##*fippool-}
    grep -q "/$file$" "$DIST/fippool.yaml" || die "fippool.yaml does not name $file"
    [ -s "$DIST/kubectl-fippool-$VERSION-${platform%.tar.gz}.cdx.json" ] || die "$file has no SBOM"
  done
  archive=kubectl-fippool-linux-$(this_architecture).tar.gz
  while read -r file sum; do
    [ "$(sha256sum <"$DIST/$file" | cut -d' ' -f1)" = "$sum" ] || die "fippool.yaml has another checksum of $file"
  done < <(sed -n 's|^ *uri: .*/||p; s/^ *sha256: //p' "$DIST/fippool.yaml" | paste -d' ' - -)
  [ ! -e "$DIST/$archive" ] || { tar -C "$WORK" -xf "$DIST/$archive" kubectl-fippool && "$WORK/kubectl-fippool" --version >&2; }
}

need_go_tool crane cosign
hack/env/build-programs.sh kubectl helm
if [ -z "${DIST:-}" ]; then
  DIST=$TARGET_DIR/release/dist
  mkdir "$WORK/macos"
  for architecture in amd64 arm64; do
    echo "a placeholder for macOS on $architecture" >"$WORK/macos/kubectl-fippool-darwin-$architecture"
  done
  MACOS_PLUGINS=$WORK/macos hack/dist.sh "$DIST"
fi
DIST=$(realpath "$DIST")

hack/release/check.sh "$TAG"

start_registry
(cd "$WORK" && cosign generate-key-pair --output-key-prefix release >/dev/null 2>&1)
hack/release/push.sh "$DIST" >"$WORK/pushed"
# shellcheck source=/dev/null
. "$WORK/pushed"
hack/release/sign.sh "$DIST" "$image" "$chart" >"$WORK/signed" 2>&1 || { cat "$WORK/signed" >&2; exit 1; }
hack/release/verify.sh "$DIST" "$image" "$chart"
check_refusals
run_images
run_plugin
say "the release $VERSION in $DIST was pushed, signed, verified and run; nothing was published"
