#!/usr/bin/env bash
# Prints this version's part of the changelog, whose heading is "## VERSION":  notes.sh
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

[ $# = 0 ] || die "usage: notes.sh"
changelog=$PROJECT/CHANGELOG.md
notes=$(awk -v heading="## $VERSION" '/^## / { inside = $0 == heading; next } inside' "$changelog" | sed '/./,$!d')
[ -n "$notes" ] || die "$changelog has no text below a heading \"## $VERSION\""
echo "$notes"
