#!/usr/bin/env bash
# Writes what is generated: the CRD from the Rust types, the chart's copies of the CRD and of the permissions, and the
# table of the chart's values in docs/install.md.
#   generate.sh [FOLDER]      into a folder laid out like the repository; by default the repository itself
set -euo pipefail
cd "$(dirname "$0")/.."

out=${1:-.}
crd=crds/ipam.cluster.x-k8s.io_openstackfloatingippools.yaml
table=docs/install.md
mkdir -p "$out/crds" "$out/config/chart/generated" "$out/docs"

# Each is moved into place when it is whole.
write() { # FILE COMMAND...
  local file=$out/$1
  shift
  "$@" >"$file.tmp" || { rm -f "$file.tmp"; exit 1; }
  mv "$file.tmp" "$file"
}
write "$crd" cargo run --locked -q --example crdgen
write config/chart/generated/crd.yaml cat "$out/$crd"
write config/chart/generated/role.yaml cat config/rbac/role.yaml
write "$table" awk -f hack/chart-values.awk config/chart/values.yaml "$table"
