#!/usr/bin/env bash
# Prints this version's part of the changelog, whose heading is "## VERSION (DATE)":  notes.sh [CHANGELOG]
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

[ $# -le 1 ] || die "usage: notes.sh [CHANGELOG]"
changelog=${1:-$PROJECT/CHANGELOG.md}
heading="## $VERSION ("
notes=$(awk -v heading="$heading" '/^## / { inside = index($0, heading) == 1; next } inside' "$changelog" | sed '/./,$!d')
[ -n "$notes" ] || die "$changelog has no text below a heading \"## $VERSION (YEAR-MONTH-DAY)\""
grep -qE "^## ${VERSION//./\\.} \([0-9]{4}-[0-9]{2}-[0-9]{2}\)$" "$changelog" ||
  die "the heading of $VERSION in $changelog has no date: \"## $VERSION (YEAR-MONTH-DAY)\""
echo "$notes"
