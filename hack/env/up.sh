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
# The ports come first: otherwise a build of minutes may turn out useless.
require_port "$KEYSTONE" "$KEYSTONE_PORT" Keystone
require_port "$NEUTRON" "$NEUTRON_PORT" Neutron
for cluster in "${clusters[@]}"; do
  management_cluster "$cluster"
  require_port "$APISERVER" "$APISERVER_PORT" kube-apiserver
  require_port "$ETCD" "$ETCD_PORT" etcd
  require_port "$CAPI" "$CAPI_PORT" "Cluster API's webhooks"
done
"$HERE/packages.sh"

# management.sh reads Cluster API's CRDs with the yaml module of the virtual environment.
openstack_track() { "$HERE/build-openstack.sh" && "$HERE/openstack.sh"; }
management_track() {
  local cluster pid pids=()
  "$HERE/build-programs.sh" "${programs[@]}" || return
  "$HERE/build-openstack.sh" || return
  for cluster in "${clusters[@]}"; do "$HERE/management.sh" "$cluster" & pids+=($!); done
  for pid in "${pids[@]}"; do wait "$pid" || return; done
}

trap end_tracks EXIT
trap 'exit 130' INT TERM
start_track openstack_track
start_track management_track
await_tracks || exit 1
say "'$CAIP_ENV' is up after $SECONDS s"
