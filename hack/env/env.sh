#!/usr/bin/env bash
# Prints the environment for using a set of servers:  eval "$(hack/env/env.sh)"
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

# Those of another cloud would count more than the file.
[ -z "${!OS_*}" ] || printf 'unset %s\n' "${!OS_@}"
printf 'export KUBECONFIG=%q\n' "$KUBECONFIG_FILE"
management_cluster 2
printf 'export CAIP_SECOND_KUBECONFIG=%q\n' "$KUBECONFIG_FILE"
printf 'export OS_CLIENT_CONFIG_FILE=%q\n' "$CLOUDS_FILE"
printf 'export CAIP_NEUTRON_LOG=%q\n' "$OPENSTACK_DIR/log/neutron-access.log"
# shellcheck disable=SC2016 # the reader's PATH, not this one's
printf 'export PATH=%q:"$PATH"\n' "$BIN"
