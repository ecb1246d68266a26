#!/usr/bin/env bash
# Makes what a release publishes: `make dist`.
#   dist.sh [FOLDER]     writes into it (default dist, made anew): the image of all platforms, its SBOMs, the manifests,
#                        and the checksums of all of them
#   IMAGE_PLATFORMS      default "linux/amd64 linux/arm64"
set -euo pipefail
# shellcheck source=image/lib.sh
. "$(dirname "$0")/image/lib.sh"

[ $# -le 1 ] || die "usage: dist.sh [FOLDER]"
OUT=$(realpath -m "${1:-$PROJECT/dist}")
[[ $COMMIT != *-dirty ]] || die "there are changes that are not committed: a release is built of a commit"
[ ! -e "$OUT" ] || [ -e "$OUT/SHA256SUMS" ] || [ -z "$(ls -A "$OUT")" ] || die "$OUT holds something else than a release"

NEW=$OUT.new
rm -rf "$NEW" && mkdir -p "$NEW"
IMAGE_PLATFORMS=${IMAGE_PLATFORMS:-linux/amd64 linux/arm64} "$ROOM/build.sh" "$NEW"
install -m 644 "$PROJECT"/crds/*.yaml "$PROJECT/LICENSE" "$PROJECT/CHANGELOG.md" "$NEW"
(cd "$NEW" && LC_ALL=C sha256sum -- * >"$OUT.sums")
mv "$OUT.sums" "$NEW/SHA256SUMS"
rm -rf "$OUT" && mv "$NEW" "$OUT"
say "release $VERSION ($COMMIT):"
cat "$OUT/SHA256SUMS"
