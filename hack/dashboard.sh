#!/usr/bin/env bash
# Draws the dashboard of the chart as it looks after eight minutes of work on real servers: `make dashboard`. Grafana is
# not needed: its file says which panels there are, and a real Prometheus answers their queries.
#   dashboard.sh [FILE]      the picture (default: docs/images/dashboard.svg)
set -euo pipefail
CAIP_ENV=${CAIP_ENV:-dashboard}
export CAIP_ENV
# shellcheck source=env/lib.sh
. "$(dirname "$0")/env/lib.sh"
cd "$HERE/../.."

picture=$(realpath -m "${1:-docs/images/dashboard.svg}")
PROMETHEUS_PORT=$((CAIP_PORT_BASE + 9)) # the second management cluster's, which is not started
PROMETHEUS=$ENV_DIR/prometheus.pid
PROMETHEUS_LOG=$ENV_DIR/prometheus.log
DRAWING=hack/dashboard
DRAWING_VENV=$CAIP_CACHE/venv-dashboard-$(sha256sum <"$DRAWING/requirements.txt" | cut -c1-10)
# A development build, as in the demo.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target} # also where cargo's configuration names another folder
PROGRAM=$CARGO_TARGET_DIR/debug/caip-openstack
STEPS=96
STEP_SECONDS=5

prepare_drawing() {
  [ -e "$DRAWING_VENV/.complete" ] && return
  rm -rf "$DRAWING_VENV"
  python3 -m venv "$DRAWING_VENV"
  "$DRAWING_VENV/bin/pip" install -q -r "$DRAWING/requirements.txt"
  touch "$DRAWING_VENV/.complete"
}

start_controller() {
  kubectl apply --server-side -f crds/ >/dev/null
  kubectl wait --for=condition=Established --timeout=60s crd/openstackfloatingippools.ipam.cluster.x-k8s.io >/dev/null
  start "$CONTROLLER_PID" "$CONTROLLER_LOG" "$PROGRAM" "--health-addr=127.0.0.1:$HEALTH_PORT" \
    --leader-election-namespace=default "--diagnostics-address=127.0.0.1:$METRICS_PORT" --insecure-diagnostics \
    --openstack-hosts=127.0.0.1
  wait_for 60 "the controller" "$CONTROLLER_LOG" "$CONTROLLER_PID" curl -sf "http://127.0.0.1:$HEALTH_PORT/readyz"
}

start_prometheus() {
  rm -rf "$ENV_DIR/prometheus"
  cat >"$ENV_DIR/prometheus.yaml" <<EOT
global: {scrape_interval: 5s}
scrape_configs:
- job_name: caip-openstack
  honor_labels: true
  static_configs:
  - targets: [127.0.0.1:$METRICS_PORT]
EOT
  start "$PROMETHEUS" "$PROMETHEUS_LOG" prometheus "--config.file=$ENV_DIR/prometheus.yaml" \
    "--storage.tsdb.path=$ENV_DIR/prometheus" "--web.listen-address=127.0.0.1:$PROMETHEUS_PORT"
  wait_for 60 "Prometheus" "$PROMETHEUS_LOG" "$PROMETHEUS" curl -sf "http://127.0.0.1:$PROMETHEUS_PORT/-/ready"
}

create_pools() {
  kubectl create namespace web >/dev/null
  kubectl -n web create secret generic cloud "--from-file=clouds.yaml=$CLOUDS_FILE" >/dev/null
  local address
  for address in 203.0.113.20 203.0.113.21; do
    # Only an administrator may request a specific address.
    openstack --os-cloud admin floating ip create public --project demo --floating-ip-address "$address" >/dev/null
  done
  kubectl -n web apply -f - >/dev/null <<EOT
apiVersion: ipam.cluster.x-k8s.io/v1alpha1
kind: OpenStackFloatingIPPool
metadata: {name: machines}
spec:
  identityRef: {name: cloud, cloudName: demo}
  floatingIPNetwork: {filter: {name: public-large}}
  maxIPs: 20
  minFree: 2
  reuseGracePeriodSeconds: 30
---
apiVersion: ipam.cluster.x-k8s.io/v1alpha1
kind: OpenStackFloatingIPPool
metadata: {name: gateways}
spec:
  identityRef: {name: cloud, cloudName: demo}
  preAllocatedFloatingIPs: [203.0.113.20, 203.0.113.21]
EOT
  kubectl -n web wait --for=condition=Ready --timeout=60s fippool --all >/dev/null
}

create_claim() { # NAME POOL
  kubectl -n web create -f - >/dev/null <<EOT
apiVersion: ipam.cluster.x-k8s.io/v1beta2
kind: IPAddressClaim
metadata: {name: $1}
spec:
  poolRef: {apiGroup: ipam.cluster.x-k8s.io, kind: OpenStackFloatingIPPool, name: $2}
EOT
}

# The machines become more until some wait, and then fewer, while some wait still. One gateway after the other takes its
# address.
work() {
  local step created=0 deleted=0
  for ((step = 0; step < STEPS; step++)); do
    ((step != 10 && step != 60)) || create_claim "gateway-$step" gateways
    if ((step < 70 ? step % 3 == 0 : step % 10 == 0)); then
      create_claim "machine-$created" machines
      ((created += 1))
    fi
    if ((step > 70 && step % 4 == 0)); then
      kubectl -n web delete ipaddressclaim "machine-$deleted" --wait=false >/dev/null
      ((deleted += 1))
    fi
    sleep "$STEP_SECONDS"
  done
}

end_drawing() {
  local status=$?
  stop "$PROMETHEUS"
  stop "$CONTROLLER_PID"
  end_run "$status"
}

prepare_run "draws the dashboard"
trap end_drawing EXIT
prepare_drawing
cargo build --locked --bin caip-openstack
# shellcheck disable=SC2119 # without a second management cluster
start_new_servers
start_controller
start_prometheus
create_pools
began=$(date +%s)
work
mkdir -p "$(dirname "$picture")"
"$DRAWING_VENV/bin/python" "$DRAWING/draw.py" config/chart/files/dashboard.json "http://127.0.0.1:$PROMETHEUS_PORT" \
  "$began" "$(date +%s)" "$picture"
say "the dashboard is drawn in $picture"
