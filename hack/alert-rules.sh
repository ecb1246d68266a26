#!/usr/bin/env bash
# Prints the chart's alerts as a rule file for a Prometheus without the operator: `make -s alert-rules`.
# Takes helm's flags, such as --values FILE or --set monitoring.prometheusRule.alerts.poolExhausted.enabled=false.
set -euo pipefail
# shellcheck source=env/lib.sh
. "$(dirname "$0")/env/lib.sh"
PATH=$PATH:$BIN
have helm || "$HERE/build-programs.sh" helm

# The oldest version that the chart accepts: an older Helm renders for an older one by default.
helm template caip-openstack "$HERE/../../config/chart" --kube-version 1.31.0 "$@" --set monitoring.prometheusRule.enabled=true \
  --show-only templates/monitoring/prometheusrule.yaml | sed '1,/^spec:$/d; s/^  //'
