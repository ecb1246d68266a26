#!/usr/bin/env bash
# Builds everything that a release publishes: `make dist`.
#   dist.sh [FOLDER]     replaces it (default dist) with: the image of all platforms, the manifests, the chart,
#                        kubectl fippool with its krew manifest, SBOMs, and the checksums of all of them
#   IMAGE_SOURCE         the URL of the sources; default RELEASE_SOURCE of hack/release/owner.env
#   IMAGE                the reference that the image is pushed to, such as registry.example.com/caip-openstack:v0.1.0;
#                        default RELEASE_REGISTRY/caip-openstack:vVERSION
#   RELEASE_URL          the URL of these files; default IMAGE_SOURCE/releases/download/vVERSION
#   IMAGE_PLATFORMS      default "linux/amd64 linux/arm64"
#   MACOS_PLUGINS        a folder with what hack/release/plugin.sh built on macOS for both architectures (default: none)
set -euo pipefail
# shellcheck source=release/lib.sh
. "$(dirname "$0")/release/lib.sh"

[ $# -le 1 ] || die "usage: dist.sh [FOLDER]"
OUT=$(realpath -m "${1:-$PROJECT/dist}")
[[ $COMMIT != *-dirty ]] || die "there are uncommitted changes: a release is built from a commit"
[ ! -e "$OUT" ] || [ -e "$OUT/SHA256SUMS" ] || [ -z "$(ls -A "$OUT")" ] || die "$OUT does not contain a release, and is not replaced"

export IMAGE_SOURCE=${IMAGE_SOURCE:-$RELEASE_SOURCE}
[ -n "${IMAGE:-}" ] || [ -z "$RELEASE_REGISTRY" ] || IMAGE=$IMAGE_NAME:$TAG
[ -n "$IMAGE_SOURCE" ] || die "IMAGE_SOURCE must be the URL of the sources: the image, the chart and the plugin's manifest name it"
[ -n "${IMAGE:-}" ] || die "IMAGE must be the reference that the image is pushed to: the manifests and the chart name it"
RELEASE_URL=${RELEASE_URL:-$IMAGE_SOURCE/releases/download/v$VERSION}

NEW=$OUT.new
rm -rf "$NEW" && mkdir -p "$NEW"
export IMAGE_PLATFORMS=${IMAGE_PLATFORMS:-linux/amd64 linux/arm64}
"$ROOM/build.sh" "$NEW"

MADE=$TARGET_DIR/dist
rm -rf "$MADE" && mkdir -p "$MADE"
plugins=()
plugin() { # OS-ARCHITECTURE PROGRAM TARGET OTHERS
  plugins+=("$1=$2")
  "$ROOM/sbom.sh" "$3" "$MADE/crates" <"$4" >"$NEW/kubectl-fippool-$VERSION-$1.cdx.json"
}
for platform in $IMAGE_PLATFORMS; do
  architecture=${platform#linux/}
  "$ROOM/program.sh" "$architecture" "$MADE/$architecture" kubectl-fippool >"$MADE/$architecture.others"
  plugin "linux-$architecture" "$MADE/$architecture" "$(rust_target "$architecture")" "$MADE/$architecture.others"
done
if [ -n "${MACOS_PLUGINS:-}" ]; then
  for architecture in amd64 arm64; do
    target=$(rust_target "$architecture")
    plugin "darwin-$architecture" "$MACOS_PLUGINS/kubectl-fippool-darwin-$architecture" \
      "${target%%-*}-apple-darwin" /dev/null
  done
fi
"$PROJECT/hack/krew.sh" "$IMAGE_SOURCE" "$RELEASE_URL" "${plugins[@]}" >/dev/null
"$PROJECT/hack/manifests.sh" "$MADE" "$IMAGE"
install -m 644 "$PROJECT"/target/krew/* "$MADE"/ipam-openstack/*/*.yaml "$MADE"/*.yaml "$MADE"/*.tgz "$NEW"
install -m 644 "$PROJECT"/crds/*.yaml "$PROJECT/LICENSE" "$PROJECT/CHANGELOG.md" "$NEW"
(cd "$NEW" && LC_ALL=C sha256sum -- * >"$OUT.sums")
mv "$OUT.sums" "$NEW/SHA256SUMS"
rm -rf "$OUT" && mv "$NEW" "$OUT"
say "release $VERSION ($COMMIT):"
cat "$OUT/SHA256SUMS"
