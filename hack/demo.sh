#!/usr/bin/env bash
# Demonstrates the controller step by step on real servers: `make demo`.
# Each step says what it will do, shows the command and checks the result: an unexpected result ends the demo with an
# error. Safe to interrupt and to run again.
set -euo pipefail
CAIP_ENV=${CAIP_ENV:-demo}
export CAIP_ENV
# shellcheck source=env/lib.sh
. "$(dirname "$0")/env/lib.sh"
cd "$HERE/../.."

# A development build: it is compiled in a third of the time.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target} # also where cargo's configuration names another folder
PROGRAM=$CARGO_TARGET_DIR/debug/caip-openstack
NAMESPACE=demo
LISTED=(203.0.113.20 203.0.113.21)
SPARE=203.0.113.30
CAPO_FINALIZER=openstackmachine.infrastructure.cluster.x-k8s.io/ip-claim
TIMEOUT=60 # of each wait, in seconds

# --- output -------------------------------------------------------------------
STEP=preparation
step() { STEP="step $1: $2"; printf '\n\e[1m%s. %s\e[0m\n' "$1" "$2"; }
tell() { printf '\n' && printf '\e[36m# %s\e[0m\n' "$@"; }
[ -t 1 ] || { step() { STEP="step $1: $2"; printf '\n%s. %s\n' "$1" "$2"; }; tell() { printf '\n' && printf '# %s\n' "$@"; }; }

show() { # COMMAND...: prints it as a reader would type it
  printf '\n$'
  local word
  for word in "$@"; do
    if [[ $word =~ ^[][A-Za-z0-9_./:=,@%+-]+$ && $word != *[][]* ]]; then printf ' %s' "$word"; else printf " '%s'" "$word"; fi
  done
  printf '\n'
}
run() { show "$@"; "$@"; }
apply() { # MANIFEST: prints it and applies it
  printf '\n$ kubectl apply -f - <<EOF\n%s\nEOF\n' "$1"
  kubectl apply -f - <<<"$1"
}

failed() {
  {
    printf '\nThe demo failed at %s\n  expected: %s\n' "$STEP" "$1"
    [ -z "${2:-}" ] || printf '  found:    %s\n' "$2"
    printf 'The servers and the controller keep running, so that you can look into it. The log ends with:\n'
    tail -n 5 "$CONTROLLER_LOG" 2>/dev/null || true
    how_to_go_on
  } >&2
  trap - ERR
  exit 1
}
expect() { [ "$2" = "$3" ] || failed "$1 is '$3'" "$2"; } # WHAT FOUND WANTED
eventually() { # WHAT COMMAND...
  local what=$1 deadline=$((SECONDS + TIMEOUT))
  shift
  until "$@"; do
    ((SECONDS < deadline)) || failed "$what, within $TIMEOUT s"
    sleep .5
  done
}
wait_until() { # WHAT KUBECTL-WAIT-ARGUMENTS...
  local what=$1
  shift
  show kubectl -n "$NAMESPACE" wait "$@" "--timeout=${TIMEOUT}s"
  kubectl -n "$NAMESPACE" wait "$@" "--timeout=${TIMEOUT}s" || failed "$what"
}

# --- Neutron ------------------------------------------------------------------
neutron() { run openstack floating ip list --long -c 'Floating IP Address' -c Port -c Description -c Tags --sort-column 'Floating IP Address'; }
# All that could differ, without the times.
snapshot() { openstack floating ip list --long -f csv --sort-column ID -c ID -c 'Floating IP Address' -c Port -c Description -c Tags; }
floating_ip() { openstack floating ip list --long --floating-ip-address "$1" -f value -c "$2"; } # ADDRESS COLUMN
is_gone() { local id; id=$(floating_ip "$1" ID) && [ -z "$id" ]; }
has_no_tags() { [ "$(floating_ip "$1" Tags)" = '[]' ]; }
has_tags() { local tags; tags=$(floating_ip "$1" Tags) && [ -n "$tags" ] && [ "$tags" != '[]' ]; }

delete_props() {
  local address id
  for address in "${LISTED[@]}" "$SPARE"; do
    id=$(floating_ip "$address" ID)
    [ -z "$id" ] || openstack floating ip delete "$id"
  done
}

# --- CAPO's part --------------------------------------------------------------
# CAPO creates an OpenStackServer for each machine, and a claim of exactly this form for it. Its finalizer keeps the claim
# until the VM is gone, and the garbage collector deletes the claim after its OpenStackServer.
claim_name() { echo "$1-floating-ip-address"; }
claim_of() { # SERVER POOL
  local uid
  kubectl -n "$NAMESPACE" create -f - >/dev/null <<EOT
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: OpenStackServer
metadata: {name: $1, labels: {cluster.x-k8s.io/cluster-name: web}}
EOT
  uid=$(kubectl -n "$NAMESPACE" get openstackserver "$1" -o jsonpath='{.metadata.uid}')
  cat <<EOT
apiVersion: ipam.cluster.x-k8s.io/v1beta2
kind: IPAddressClaim
metadata:
  name: $(claim_name "$1")
  namespace: $NAMESPACE
  labels:
    cluster.x-k8s.io/cluster-name: web
  finalizers:
  - $CAPO_FINALIZER
  ownerReferences:
  - apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
    kind: OpenStackServer
    name: $1
    uid: $uid
spec:
  poolRef:
    apiGroup: ipam.cluster.x-k8s.io
    kind: OpenStackFloatingIPPool
    name: $2
EOT
}
create_machine() { # SERVER POOL
  local manifest
  manifest=$(claim_of "$1" "$2")
  kubectl apply -f - <<<"$manifest"
}
# Only CAPO's own finalizer. It is the first one, since the claim was created with it.
REMOVE_FINALIZER="[{\"op\":\"test\",\"path\":\"/metadata/finalizers/0\",\"value\":\"$CAPO_FINALIZER\"},{\"op\":\"remove\",\"path\":\"/metadata/finalizers/0\"}]"
delete_machine() { # SERVER
  run kubectl -n "$NAMESPACE" patch ipaddressclaim "$(claim_name "$1")" --type=json -p "$REMOVE_FINALIZER"
  run kubectl -n "$NAMESPACE" delete openstackserver "$1"
}
# Kubernetes has a kind IPAddress of its own, hence the long name.
IPADDRESS=ipaddresses.ipam.cluster.x-k8s.io
address_of() { kubectl -n "$NAMESPACE" get "$IPADDRESS" "$(claim_name "$1")" -o jsonpath='{.spec.address}'; }
is_bound() { wait_until "the claim of $1 is Ready" --for=condition=Ready "ipaddressclaim/$(claim_name "$1")"; }
claims() {
  run kubectl -n "$NAMESPACE" get ipaddressclaims -o 'custom-columns=CLAIM:.metadata.name,POOL:.spec.poolRef.name,READY:.status.conditions[?(@.type=="Ready")].status,REASON:.status.conditions[?(@.type=="Ready")].reason'
}

# --- setup and cleanup -------------------------------------------------------
# The times are those of two cores, with nothing built yet.
announce() {
  local program programs=() minutes=2
  for program in etcd kube-apiserver kube-controller-manager kubectl capi-core; do
    [ -x "$BIN/$program" ] || programs+=("$program")
  done
  tell "Real servers on loopback: OpenStack's Keystone and Neutron, Kubernetes' API, Cluster API. Then the controller, and" \
    "eight steps. Everything that is built is kept in $CAIP_CACHE and in target/."
  if [ ${#programs[@]} != 0 ]; then
    echo "  to build:    ${programs[*]} (about $((3 * ${#programs[@]})) minutes)"
    ((minutes += 3 * ${#programs[@]}))
  fi
  if [ ! -e "$VENV/.complete" ]; then
    echo "  to install:  Keystone and Neutron (about 2 minutes, at the same time)"
  fi
  if [ ! -e "$OPENSTACK_DIR/.seeded" ]; then
    echo "  to create:   databases, users and networks (about a minute)"
    ((minutes += 1))
  fi
  if [ ! -e "$PROGRAM" ]; then
    echo "  to compile:  the controller and its dependencies (about 3 minutes)"
    ((minutes += 3))
  elif [ -n "$(find src Cargo.toml Cargo.lock -newer "$PROGRAM" -print -quit)" ]; then
    echo "  to compile:  the controller (less than a minute)"
  fi
  echo "  all of it:   about $minutes minutes"
}

start_servers() {
  hack/env/up.sh
  use_servers
  export OS_CLOUD=demo
}

# On a terminal cargo shows how far it is; elsewhere a line does, every 20 seconds.
compile() {
  local command=(cargo build --locked --bin caip-openstack) log=$ENV_DIR/cargo.log
  if [ -t 2 ]; then
    "${command[@]}"
    return
  fi
  CARGO_TERM_PROGRESS_WHEN=always CARGO_TERM_PROGRESS_WIDTH=80 "${command[@]}" >"$log" 2>&1 &
  await_compiler $! controller crates_done "$log" ||
    { tr '\r' '\n' <"$log" | grep -v ' Building \[' | tail -n 20 >&2; failed "the controller compiles"; }
}
# The last of cargo's "Building [===>    ] 120/263: …".
crates_done() { # LOG
  local numbers
  numbers=$(tr '\r' '\n' <"$1" | sed -n 's|.*\] \([0-9]*\)/\([0-9]*\).*|\1 of \2 crates|p' | tail -n 1)
  echo "${numbers:-no crate}"
}

start_controller() {
  compile
  stop "$CONTROLLER_PID"
  kubectl apply --server-side --force-conflicts -f crds/ >/dev/null
  kubectl wait --for=condition=Established "--timeout=${TIMEOUT}s" crd/openstackfloatingippools.ipam.cluster.x-k8s.io >/dev/null
  require_port "$CONTROLLER_PID" "$HEALTH_PORT" "the controller's health checks"
  require_port "$CONTROLLER_PID" "$METRICS_PORT" "the controller's metrics"
  : >"$CONTROLLER_LOG"
  show caip-openstack --leader-elect=false "--health-addr=127.0.0.1:$HEALTH_PORT" "--diagnostics-address=127.0.0.1:$METRICS_PORT" --insecure-diagnostics \
    --openstack-hosts=127.0.0.1
  start "$CONTROLLER_PID" "$CONTROLLER_LOG" "$PROGRAM" --leader-elect=false \
    "--health-addr=127.0.0.1:$HEALTH_PORT" "--diagnostics-address=127.0.0.1:$METRICS_PORT" --insecure-diagnostics \
    --openstack-hosts=127.0.0.1
  wait_for "$TIMEOUT" "the controller" "$CONTROLLER_LOG" "$CONTROLLER_PID" curl -sf "http://127.0.0.1:$HEALTH_PORT/readyz"
}

# What an interrupted run left is deleted the regular way, so that the controller releases the addresses.
remove_earlier_run() {
  if kubectl get namespace "$NAMESPACE" >/dev/null 2>&1; then
    tell "An earlier run was interrupted: its claims and pools are deleted first."
    for claim in $(kubectl -n "$NAMESPACE" get ipaddressclaims -o name); do
      kubectl -n "$NAMESPACE" patch "$claim" --type=json -p "$REMOVE_FINALIZER" >/dev/null 2>&1 || true
    done
    for kind in openstackservers ipaddressclaims openstackfloatingippools; do
      kubectl -n "$NAMESPACE" delete "$kind" --all "--timeout=${TIMEOUT}s" >/dev/null ||
        failed "the $kind of an earlier run can be deleted (make demo-stop removes everything)"
    done
    kubectl delete namespace "$NAMESPACE" "--timeout=${TIMEOUT}s" >/dev/null || failed "the namespace of an earlier run can be deleted"
  fi
  delete_props
}

how_to_go_on() {
  cat <<EOT

To continue by hand, in this shell:
  export KUBECONFIG=$KUBECONFIG_FILE
  export OS_CLIENT_CONFIG_FILE=$CLOUDS_FILE OS_CLOUD=demo
  export PATH=$BIN:\$PATH          # kubectl and openstack
The controller's log is $CONTROLLER_LOG.
Its metrics are at http://127.0.0.1:$METRICS_PORT/metrics.
To stop the servers and the controller:  make env-down CAIP_ENV=$CAIP_ENV   (make demo-stop also removes their data)
EOT
}

trap 'failed "\"$BASH_COMMAND\" succeeds"' ERR
set -o errtrace

lock 7 "$CAIP_CACHE/env/.$CAIP_ENV-run" "runs the demo on '$CAIP_ENV'"
require_cargo
hack/env/packages.sh
announce
start_servers
start_controller
remove_earlier_run
before=$(snapshot)

step 1 "The floating IPs and the cluster"
tell "The project has three floating IPs: two that the network team has opened in its firewalls, and" \
  "one that is tagged as spare."
for address in "${LISTED[@]}" "$SPARE"; do
  # Only an administrator may request a specific address.
  openstack --os-cloud admin floating ip create public --project demo --floating-ip-address "$address" >/dev/null
done
openstack floating ip set --tag spare "$(floating_ip "$SPARE" ID)"
with_props=$(snapshot)
neutron
tell "A Cluster, and the credentials of its project."
run kubectl create namespace "$NAMESPACE"
run kubectl -n "$NAMESPACE" create secret generic cloud "--from-file=clouds.yaml=$CLOUDS_FILE"
apply "apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: web, namespace: $NAMESPACE}
spec:
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: OpenStackCluster, name: web}"

step 2 "Two pools"
tell "One creates floating IPs on a network, two at most. The other has a fixed list."
apply "apiVersion: ipam.cluster.x-k8s.io/v1alpha1
kind: OpenStackFloatingIPPool
metadata: {name: public, namespace: $NAMESPACE}
spec:
  identityRef: {name: cloud, cloudName: demo}
  floatingIPNetwork: {filter: {name: public}}
  maxIPs: 2
  reuse: {policy: Never}
---
apiVersion: ipam.cluster.x-k8s.io/v1alpha1
kind: OpenStackFloatingIPPool
metadata: {name: listed, namespace: $NAMESPACE}
spec:
  identityRef: {name: cloud, cloudName: demo}
  preAllocatedFloatingIPs: [${LISTED[0]}, ${LISTED[1]}]"
wait_until "both pools are Ready" --for=condition=Ready fippool/public fippool/listed
run kubectl -n "$NAMESPACE" get fippool

step 3 "Machines request an address"
tell "CAPO creates a claim of exactly this form for each machine (CAPO is not installed here; the demo" \
  "plays its part). The finalizer is CAPO's, and keeps the claim until the VM is gone."
apply "$(claim_of web-0 public)"
tell "The same for web-1, and for gateway-0, which needs one of the two listed addresses."
create_machine web-1 public
create_machine gateway-0 listed
for server in web-0 web-1 gateway-0; do is_bound "$server"; done
claims
run kubectl -n "$NAMESPACE" get "$IPADDRESS"
web_0=$(address_of web-0) web_1=$(address_of web-1) gateway_0=$(address_of gateway-0)
expect "the address of gateway-0, the first of the list," "$gateway_0" "${LISTED[0]}"
[ "$web_0" != "$web_1" ] || failed "web-0 and web-1 have different addresses" "both have $web_0"
tell "The same in Neutron. A mark names the owner: in the description of a floating IP that the pool" \
  "created, as a tag on one that it did not create."
neutron
for address in "$web_0" "$web_1"; do
  [ -n "$(floating_ip "$address" Description)" ] || failed "a mark in the description of $address" "none"
done
has_tags "${LISTED[0]}" || failed "a mark among the tags of ${LISTED[0]}" "none"
has_no_tags "${LISTED[1]}" || failed "no mark on ${LISTED[1]}, which no claim uses" "$(floating_ip "${LISTED[1]}" Tags)"

step 4 "A free floating IP of the project is used before a new one"
tell "By default a pool reuses floating IPs without a tag, a description or a name, five minutes after" \
  "their last change. This pool reuses those with the tag spare, immediately."
apply "apiVersion: ipam.cluster.x-k8s.io/v1alpha1
kind: OpenStackFloatingIPPool
metadata: {name: thrifty, namespace: $NAMESPACE}
spec:
  identityRef: {name: cloud, cloudName: demo}
  floatingIPNetwork: {filter: {name: public}}
  reuse: {policy: Tagged, tags: [spare], minIdleSeconds: 0}"
create_machine batch-0 thrifty
is_bound batch-0
run kubectl -n "$NAMESPACE" get "$IPADDRESS" "$(claim_name batch-0)"
expect "the address of batch-0, the spare one," "$(address_of batch-0)" "$SPARE"
tell "The mark was added to the tag that was there."
neutron

step 5 "A pool is exhausted, and says so"
tell "web-2 needs an address too, but the pool is limited to two."
create_machine web-2 public
wait_until "the claim of web-2 says PoolExhausted" \
  '--for=jsonpath={.status.conditions[?(@.type=="Ready")].reason}=PoolExhausted' "ipaddressclaim/$(claim_name web-2)"
claims
run kubectl -n "$NAMESPACE" get ipaddressclaim "$(claim_name web-2)" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].message}{"\n"}'
run kubectl -n "$NAMESPACE" get fippool public
run kubectl -n "$NAMESPACE" events --for "ipaddressclaim/$(claim_name web-2)"
if kubectl -n "$NAMESPACE" get "$IPADDRESS" "$(claim_name web-2)" >/dev/null 2>&1; then failed "web-2 has no address yet"; fi

step 6 "A release serves the waiting claim"
tell "The VM of web-0 is deleted: CAPO removes its finalizer from the claim, and the claim is deleted" \
  "after its OpenStackServer. The claim of web-2 is not touched."
delete_machine web-0
wait_until "the claim of web-0 is gone" --for=delete "ipaddressclaim/$(claim_name web-0)"
is_bound web-2
claims
run kubectl -n "$NAMESPACE" get "$IPADDRESS"
expect "the address of web-2, which web-0 had," "$(address_of web-2)" "$web_0"

step 7 "A released floating IP is tagged first, then deleted"
tell "To make this visible, a grace period of 15 seconds is set. Then the VM of web-1 is deleted."
run kubectl -n "$NAMESPACE" patch fippool public --type=merge -p '{"spec":{"reuseGracePeriodSeconds":15}}'
delete_machine web-1
wait_until "the claim of web-1 is gone" --for=delete "ipaddressclaim/$(claim_name web-1)"
has_tags "$web_1" || failed "a release tag on $web_1" "$(floating_ip "$web_1" Tags)"
tell "The claim is gone immediately; $web_1 is tagged for release."
neutron
eventually "$web_1 is deleted" is_gone "$web_1"
tell "Now it is gone: the pool created it, so the pool deleted it."
neutron

step 8 "Everything is deleted, and Neutron is as it was"
tell "The other machines are deleted in the same way, then the pools."
for server in web-2 gateway-0 batch-0; do delete_machine "$server"; done
wait_until "all claims are gone" --for=delete "ipaddressclaim/$(claim_name web-2)" "ipaddressclaim/$(claim_name gateway-0)" "ipaddressclaim/$(claim_name batch-0)"
run kubectl -n "$NAMESPACE" delete fippool --all "--timeout=${TIMEOUT}s"
run kubectl delete namespace "$NAMESPACE" "--timeout=${TIMEOUT}s"
neutron
after=$(snapshot)
expect "what Neutron has of the project" "$after" "$with_props"
tell "What the pools created is deleted; what they only used is still there, without their marks. The" \
  "demo deletes its own three floating IPs, and the project is as it was before."
delete_props
expect "what Neutron has of the project" "$(snapshot)" "$before"

printf '\nThe demo is complete (%s s).\n' "$SECONDS"
how_to_go_on
