#!/usr/bin/env bash
# Starts a whole set of servers from nothing: `make env-up`. Builds what is missing first.
#   up.sh [--second]       --second also starts a second management cluster for the same OpenStack, and builds
#                          clusterctl, which moves objects from one to the other, its older version, and helm
# Two tracks run side by side, since one waits for the network and the other for the processor:
# OpenStack (MariaDB, Keystone, Neutron) and the management clusters (Kubernetes, Cluster API).
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

[ $# = 0 ] || [ "$*" = --second ] || die "usage: up.sh [--second]"
clusters=(1) programs=(etcd kube-apiserver kube-controller-manager kubectl capi-core)
[ $# = 0 ] || { clusters+=(2); programs+=(clusterctl clusterctl-v1beta1 helm); }
lock 8 "$ENV_DIR/lock" "starts or stops '$CAIP_ENV'"
# All ports before anything else: a build takes minutes, and would have been for nothing.
require_port "$KEYSTONE" "$KEYSTONE_PORT" Keystone
require_port "$NEUTRON" "$NEUTRON_PORT" Neutron
for cluster in "${clusters[@]}"; do
  management_cluster "$cluster"
  require_port "$APISERVER" "$APISERVER_PORT" kube-apiserver
  require_port "$ETCD" "$ETCD_PORT" etcd
  require_port "$CAPI" "$CAPI_PORT" "Cluster API's webhooks"
done
"$HERE/packages.sh"

# Cluster API's CRDs are read with the virtual environment's yaml, hence the wait for its mark.
openstack_track() { "$HERE/build-openstack.sh" && "$HERE/openstack.sh"; }
management_track() {
  local cluster
  "$HERE/build-programs.sh" "${programs[@]}" || return
  "$HERE/build-openstack.sh" || return
  for cluster in "${clusters[@]}"; do "$HERE/management.sh" "$cluster" || return; done
}

# Job control gives each track a process group, so that the other one, its compilers included, can be
# ended when one fails or Ctrl-C comes. The servers have sessions of their own and stay.
tracks=()
end_tracks() {
  local pid signal
  for signal in TERM KILL; do # MariaDB does not stop for TERM while it makes its data folder
    for pid in "${tracks[@]}"; do kill "-$signal" -- "-$pid" 2>/dev/null || true; done
    for _ in {1..20}; do
      living_tracks || return 0
      sleep .1
    done
  done
}
living_tracks() {
  local pid
  for pid in "${tracks[@]}"; do kill -0 -- "-$pid" 2>/dev/null && return; done
  return 1
}
trap end_tracks EXIT
trap 'exit 130' INT TERM
set -m
openstack_track & tracks+=($!)
management_track & tracks+=($!)
set +m

wait -n || exit 1
wait -n || exit 1
say "'$CAIP_ENV' is up after $SECONDS s"
