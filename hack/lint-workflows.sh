#!/usr/bin/env bash
# Checks the workflows with actionlint, and that every action is pinned by the digest of a commit: a part of `make lint`.
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/go-tool.sh

if unpinned=$(grep -rnE '\buses: ' .github | grep -vE 'uses: (\./[^@]*|[^@ ]+@[0-9a-f]{40} # v[0-9.]+)$'); then
  die "these actions are not pinned by a digest, with the version in a comment: $unpinned"
fi
need_go_tool actionlint
actionlint .github/workflows/*.yaml
