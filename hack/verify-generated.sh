#!/usr/bin/env bash
# Fails when crds/ is not what `make generate` would write. Changes nothing, and asks the working tree
# rather than the last commit, so that it can be satisfied before a commit.
set -euo pipefail
cd "$(dirname "$0")/.."

file=crds/ipam.cluster.x-k8s.io_openstackfloatingippools.yaml
generated=$(mktemp)
trap 'rm -f "$generated"' EXIT
cargo run --locked -q --example crdgen >"$generated"
diff -u "$file" "$generated" || {
  echo "error: $file is not what the Rust types say; run make generate" >&2
  exit 1
}
