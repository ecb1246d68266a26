#!/usr/bin/env bash
# Signs a release with cosign:  sign.sh DIST IMAGE@DIGEST CHART@DIGEST
# The image of all platforms and that of each, the chart, the SBOM of each image as an attestation, and SHA256SUMS, whose
# signature is SHA256SUMS.sigstore.json.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

[ $# = 3 ] || die "usage: sign.sh DIST IMAGE@DIGEST CHART@DIGEST"
dist=$(realpath "$1") image=$2 chart=$3
need_go_tool cosign crane

cosign sign --yes "${SIGNER[@]}" --recursive "$image"
cosign sign --yes "${SIGNER[@]}" "$chart"
while read -r platform file; do
  cosign attest --yes "${SIGNER[@]}" --type cyclonedx --predicate "$file" "$(platform_image "$image" "$platform")"
done < <(sboms "$dist")
cosign sign-blob --yes "${SIGNER[@]}" --bundle "$dist/SHA256SUMS.sigstore.json" "$dist/SHA256SUMS"
