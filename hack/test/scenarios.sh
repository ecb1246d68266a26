#!/usr/bin/env bash
# A track of `make test`: what needs servers.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

# A scenario mostly waits: for a server, for a watch, for a period to pass.
scenarios() { test_program it --test-threads "${CAIP_TEST_THREADS:-4}" "$@"; }
scenarios_for_v1beta1() {
  local names
  mapfile -t names < <(v1beta1_scenarios)
  scenarios --exact "${names[@]}"
}
# shellcheck disable=SC2031 # of that cluster
audit_log() { (management_cluster "$1" && echo "$AUDIT_LOG"); }
# shellcheck disable=SC2016 # a variable of the other shell
older_kubeconfig() { with_older_cluster_api bash -c '. hack/env/lib.sh; echo "$KUBECONFIG_FILE"'; }

await compiled-scenarios
await servers
use_servers
# Of 36; by hand all of them run: docs/laws.md.
CONTRACT_HISTORIES=${CONTRACT_HISTORIES:-12} stage "scenarios" scenarios --skip life::hostile_tenants
# Alone: it keeps both cores busy, and others measure how long they wait.
stage "hostile tenants" scenarios life::hostile_tenants
reached hostile-tenants
await programs
# Others each day; `make perturb` runs all of them.
PERTURB_SAMPLE=${PERTURB_SAMPLE:-8} stage "a sample of the perturbed runs" test_program perturb --nocapture
# The controller may do what the scenarios needed, and nothing else.
CAIP_AUDIT_LOGS=$(audit_log 1):$(audit_log 2) stage "permissions" test_program permissions
await older-cluster-api
kubeconfig=$KUBECONFIG
KUBECONFIG=$(older_kubeconfig)
stage "scenarios with v1beta1 alone" scenarios_for_v1beta1
stage "an upgrade of Cluster API" with_older_cluster_api test_program upgrade
# No other test uses that cluster, and it serves v1beta2 by now.
stage "restores of etcd" with_older_cluster_api test_program restore
KUBECONFIG=$kubeconfig
reached last-scenario
await image
stage "the image works" image_test --built
