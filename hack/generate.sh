#!/usr/bin/env bash
# Writes the generated files: the CRD and the reference of its fields from the Rust types, the chart's copies of the CRD
# and of the permissions, the table of the chart's values in its README and in docs/install.md, and the lists of the
# maintainers for Prow (OWNERS) and GitHub (CODEOWNERS).
#   generate.sh [FOLDER]      a folder laid out like the repository (default: the repository)
set -euo pipefail
cd "$(dirname "$0")/.."

out=${1:-.}
crd=crds/ipam.cluster.x-k8s.io_openstackfloatingippools.yaml
mkdir -p "$out/crds" "$out/config/chart/generated" "$out/docs" "$out/.github"
. hack/release/owner.env

# A file is replaced only when the new one is complete.
write() { # FILE COMMAND...
  local file=$out/$1
  shift
  "$@" >"$file.tmp" || { rm -f "$file.tmp"; exit 1; }
  mv "$file.tmp" "$file"
}
owners() {
  echo "# Written by make generate: the maintainers are named in hack/release/owner.env."
  printf '%s: [%s]\n' approvers "${MAINTAINERS// /, }" reviewers "${MAINTAINERS// /, }"
}
code_owners() {
  echo "# Written by make generate: the maintainers are named in hack/release/owner.env."
  [ -z "$MAINTAINERS" ] || echo "* @${MAINTAINERS// / @}"
}
write OWNERS owners
write .github/CODEOWNERS code_owners
write "$crd" cargo run --locked -q --example crdgen
write docs/api.md cargo run --locked -q --example apidocs
write config/chart/generated/crd.yaml cat "$out/$crd"
write config/chart/generated/role.yaml cat config/rbac/role.yaml
write config/chart/generated/identity_role.yaml cat config/cluster-identities/role.yaml
write config/chart/generated/address_role.yaml cat config/address-config-maps/role.yaml
write config/chart/generated/user_roles.yaml cat config/rbac/user_roles.yaml
write config/chart/generated/admission_policy.yaml cat config/rbac/admission_policy.yaml
for page in config/chart/README.md docs/install.md; do
  write "$page" awk -f hack/chart-values.awk config/chart/values.yaml "$page"
done
