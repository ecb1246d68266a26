#!/usr/bin/env bash
# Publishes the GitHub release of a tag:  publish.sh DIST TAG IMAGE@DIGEST CHART@DIGEST
# Its text is this version's part of the changelog, its files are those of DIST. Needs GitHub's gh, and GH_TOKEN.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

[ $# = 4 ] || die "usage: publish.sh DIST TAG IMAGE@DIGEST CHART@DIGEST"
dist=$(realpath "$1") tag=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{
  "$PROJECT/hack/release/notes.sh"
  # shellcheck disable=SC2016 # Markdown
  printf '\n- Image: `%s`\n- Chart: `oci://%s`\n' "$3" "$4"
  printf '\nHow to verify them: [docs/releases.md](%s/blob/%s/docs/releases.md#verifying-a-download)\n' "$RELEASE_SOURCE" "$tag"
} >"$work/notes.md"
flags=()
[[ $tag != *-* ]] || flags=(--prerelease)
gh release create "$tag" --verify-tag --title "$tag" --notes-file "$work/notes.md" "${flags[@]}" "$dist"/*
