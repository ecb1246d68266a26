#!/usr/bin/env bash
# Fails when something generated is not what `make generate` would write. Changes nothing, and asks the working tree
# rather than the last commit, so that it can be satisfied before a commit.
set -euo pipefail
cd "$(dirname "$0")/.."

generated=$(mktemp -d)
trap 'rm -rf "$generated"' EXIT
hack/generate.sh "$generated"
status=0
while read -r file; do
  diff -u "$file" "$generated/$file" || {
    echo "error: $file is not what its sources say; run make generate" >&2
    status=1
  }
done < <(cd "$generated" && find . -type f | sed 's|^\./||' | sort)
exit $status
