#!/usr/bin/env bash
# Pushes the image and the chart of a release:  push.sh DIST
# Prints image=NAME@DIGEST, image_name=NAME and image_digest=DIGEST, and the same for the chart.
#   DIST                 a folder of hack/dist.sh
#   REGISTRY_USERNAME, REGISTRY_PASSWORD     the account, if the registry needs a login and has none yet
# May be repeated; but a tag of the registry never gets another image or chart.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

[ $# = 1 ] || die "usage: push.sh DIST"
require_owner
dist=$(realpath "$1")
need_go_tool crane
"$PROJECT/hack/env/build-programs.sh" helm
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$dist" && sha256sum --quiet -c SHA256SUMS)
grep -qF "image: $IMAGE_NAME:$TAG" "$dist/ipam-components.yaml" || die "the manifests in $dist do not name the image $IMAGE_NAME:$TAG"

if [ -n "${REGISTRY_USERNAME:-}" ]; then
  crane auth login "${RELEASE_REGISTRY%%/*}" --username "$REGISTRY_USERNAME" --password-stdin <<<"$REGISTRY_PASSWORD" >&2
fi

digest=$(archive_digest "$dist")
# Prints nothing if the registry has no such tag.
digest_of() { # NAME:TAG
  if ! crane digest "$1" 2>"$work/crane"; then
    grep -qE 'MANIFEST_UNKNOWN|NAME_UNKNOWN|404' "$work/crane" || die "$1 cannot be looked up: $(cat "$work/crane")"
  fi
}
present=$(digest_of "$IMAGE_NAME:$TAG")
[ -z "$present" ] || [ "$present" = "$digest" ] || die "$IMAGE_NAME:$TAG exists with another image: $present, not $digest"
tar -C "$work" -xf "$dist/$ARCHIVE"
pushed=$(crane push "$work" "$IMAGE_NAME:$TAG")
[ "$pushed" = "$IMAGE_NAME@$digest" ] || die "pushed $pushed, expected $IMAGE_NAME@$digest"

options=()
[[ $RELEASE_REGISTRY != 127.0.0.1:* ]] || options=(--plain-http)
present=$(digest_of "$CHART_NAME:$VERSION")
if [ -n "$present" ]; then
  { helm pull "${options[@]}" "oci://$CHART_NAME" --version "$VERSION" --destination "$work" >"$work/helm" 2>&1 &&
    cmp -s "$work/caip-openstack-$VERSION.tgz" "$dist/caip-openstack-$VERSION.tgz"; } ||
    die "$CHART_NAME:$VERSION exists with another chart"
fi
helm push "${options[@]}" "$dist/caip-openstack-$VERSION.tgz" "oci://${CHART_NAME%/*}" >"$work/helm" 2>&1 ||
  { cat "$work/helm" >&2; die "the chart cannot be pushed to ${CHART_NAME%/*}"; }
chart_digest=$(sed -n 's/^Digest: \(sha256:[0-9a-f]\{64\}\)$/\1/p' "$work/helm")
[ -n "$chart_digest" ] || die "helm did not print the chart's digest: $(cat "$work/helm")"

print() { printf '%s\n' "$1=$2@$3" "$1_name=$2" "$1_digest=$3"; }
print image "$IMAGE_NAME" "$digest"
print chart "$CHART_NAME" "$chart_digest"
