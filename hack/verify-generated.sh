#!/usr/bin/env bash
# Fails when a generated file differs from what `make generate` would write. Changes nothing. Compares with the working
# tree, not with the last commit.
set -euo pipefail
cd "$(dirname "$0")/.."

generated=$(mktemp -d)
trap 'rm -rf "$generated"' EXIT
hack/generate.sh "$generated"
status=0
while read -r file; do
  diff -u "$file" "$generated/$file" || {
    echo "error: $file is not up to date; run make generate" >&2
    status=1
  }
done < <(cd "$generated" && find . -type f | sed 's|^\./||' | sort)
exit $status
