#!/usr/bin/env bash
# Verifies a release as its users can:  verify.sh DIST IMAGE@DIGEST CHART@DIGEST
# Checksums and their signature, and the signatures of the image, of the chart, and of each SBOM.
#   RELEASE_IDENTITY, RELEASE_ISSUER     who must have signed, instead of the release workflow of RELEASE_SOURCE
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

[ $# = 3 ] || die "usage: verify.sh DIST IMAGE@DIGEST CHART@DIGEST"
dist=$(realpath "$1") image=$2 chart=$3
need_go_tool cosign crane

verified() { # WHAT COMMAND...
  local what=$1 output
  shift
  output=$("$@" 2>&1) || { echo "$output" >&2; die "$what cannot be verified"; }
  say "verified: $what"
}

verified "the signature of SHA256SUMS" \
  cosign verify-blob "${SIGNED_BY[@]}" --bundle "$dist/SHA256SUMS.sigstore.json" "$dist/SHA256SUMS"
verified "the checksums of all files" env -C "$dist" sha256sum --quiet -c SHA256SUMS
verified "$image" cosign verify "${SIGNED_BY[@]}" "$image"
verified "$chart" cosign verify "${SIGNED_BY[@]}" "$chart"
while read -r platform file; do
  part=$(platform_image "$image" "$platform")
  verified "$part ($platform)" cosign verify "${SIGNED_BY[@]}" "$part"
  verified "the SBOM of that image" cosign verify-attestation "${SIGNED_BY[@]}" --type cyclonedx "$part"
done < <(sboms "$dist")
