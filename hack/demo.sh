#!/usr/bin/env bash
# The main job, step by step, on real servers: `make demo`.
# Each step says what is about to happen, shows the command, and checks what came of it: a step that
# shows something else than it says ends the demo with an error. Safe to interrupt and to run again.
set -euo pipefail
CAIP_ENV=${CAIP_ENV:-demo}
export CAIP_ENV
# shellcheck source=env/lib.sh
. "$(dirname "$0")/env/lib.sh"
cd "$HERE/../.."

PROGRAM=${CARGO_TARGET_DIR:-target}/release/caip-openstack
NAMESPACE=demo
LISTED=(203.0.113.20 203.0.113.21)
SPARE=203.0.113.30
CAPO_FINALIZER=openstackmachine.infrastructure.cluster.x-k8s.io/ip-claim
TIMEOUT=60 # for each thing that is waited for

# --- telling ------------------------------------------------------------------
STEP=preparation
step() { STEP="step $1: $2"; printf '\n\e[1m%s. %s\e[0m\n' "$1" "$2"; }
tell() { printf '\n' && printf '\e[36m# %s\e[0m\n' "$@"; }
[ -t 1 ] || { step() { STEP="step $1: $2"; printf '\n%s. %s\n' "$1" "$2"; }; tell() { printf '\n' && printf '# %s\n' "$@"; }; }

show() { # COMMAND...: as a reader would type it
  printf '\n$'
  local word
  for word in "$@"; do
    if [[ $word =~ ^[][A-Za-z0-9_./:=,@%+-]+$ && $word != *[][]* ]]; then printf ' %s' "$word"; else printf " '%s'" "$word"; fi
  done
  printf '\n'
}
run() { show "$@"; "$@"; }
apply() { # MANIFEST, shown whole
  printf '\n$ kubectl apply -f - <<EOF\n%s\nEOF\n' "$1"
  kubectl apply -f - <<<"$1"
}

failed() {
  {
    printf '\nThe demo failed at %s\n  expected: %s\n' "$STEP" "$1"
    [ -z "${2:-}" ] || printf '  found:    %s\n' "$2"
    printf 'The servers and the controller go on, to look into it; the controller says:\n'
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
# Everything that could differ, without the times.
snapshot() { openstack floating ip list --long -f csv --sort-column ID -c ID -c 'Floating IP Address' -c Port -c Description -c Tags; }
floating_ip() { openstack floating ip list --long --floating-ip-address "$1" -f value -c "$2"; } # ADDRESS COLUMN
is_gone() { [ -z "$(floating_ip "$1" ID)" ]; }
has_no_tags() { [ "$(floating_ip "$1" Tags)" = '[]' ]; }
has_tags() { local tags; tags=$(floating_ip "$1" Tags) && [ -n "$tags" ] && [ "$tags" != '[]' ]; }

forget_props() {
  local address id
  for address in "${LISTED[@]}" "$SPARE"; do
    id=$(floating_ip "$address" ID)
    [ -z "$id" ] || openstack floating ip delete "$id"
  done
}

# --- CAPO's part --------------------------------------------------------------
# CAPO makes an OpenStackServer for each machine, and for it a claim of exactly this form; it holds
# the claim by its finalizer until the VM is gone, and the garbage collector deletes the claim after
# its OpenStackServer.
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
machine_asks() { # SERVER POOL
  local manifest
  manifest=$(claim_of "$1" "$2")
  kubectl apply -f - <<<"$manifest"
}
# Only CAPO's own finalizer, which is the first since the claim was made with it.
LIFT="[{\"op\":\"test\",\"path\":\"/metadata/finalizers/0\",\"value\":\"$CAPO_FINALIZER\"},{\"op\":\"remove\",\"path\":\"/metadata/finalizers/0\"}]"
machine_goes() { # SERVER
  run kubectl -n "$NAMESPACE" patch ipaddressclaim "$(claim_name "$1")" --type=json -p "$LIFT"
  run kubectl -n "$NAMESPACE" delete openstackserver "$1"
}
# Kubernetes has a kind IPAddress of its own, hence the long name.
IPADDRESS=ipaddresses.ipam.cluster.x-k8s.io
address_of() { kubectl -n "$NAMESPACE" get "$IPADDRESS" "$(claim_name "$1")" -o jsonpath='{.spec.address}'; }
is_bound() { wait_until "the claim of $1 is Ready" --for=condition=Ready "ipaddressclaim/$(claim_name "$1")"; }
claims() {
  run kubectl -n "$NAMESPACE" get ipaddressclaims -o 'custom-columns=CLAIM:.metadata.name,POOL:.spec.poolRef.name,READY:.status.conditions[?(@.type=="Ready")].status,REASON:.status.conditions[?(@.type=="Ready")].reason'
}

# --- before and after ---------------------------------------------------------
start_servers() {
  require_cargo
  hack/env/packages.sh
  tell "Real servers on loopback: OpenStack's Keystone and Neutron, Kubernetes' API, Cluster API." \
    "They are built once (about ten minutes), and start in ten seconds from then on."
  hack/env/up.sh
  eval "$(hack/env/env.sh)"
  export OS_CLOUD=demo
}

start_controller() {
  cargo build --locked --release
  stop "$CONTROLLER_PID"
  kubectl apply --server-side --force-conflicts -f crds/ >/dev/null
  kubectl wait --for=condition=Established "--timeout=${TIMEOUT}s" crd/openstackfloatingippools.ipam.cluster.x-k8s.io >/dev/null
  require_port "$CONTROLLER_PID" "$HEALTH_PORT" "the controller's health checks"
  require_port "$CONTROLLER_PID" "$METRICS_PORT" "the controller's metrics"
  : >"$CONTROLLER_LOG"
  show caip-openstack --leader-elect=false "--health-addr=127.0.0.1:$HEALTH_PORT" "--diagnostics-address=127.0.0.1:$METRICS_PORT" --insecure-diagnostics
  start "$CONTROLLER_PID" "$CONTROLLER_LOG" "$PROGRAM" --leader-elect=false \
    "--health-addr=127.0.0.1:$HEALTH_PORT" "--diagnostics-address=127.0.0.1:$METRICS_PORT" --insecure-diagnostics
  wait_for "$TIMEOUT" "the controller" "$CONTROLLER_LOG" "$CONTROLLER_PID" curl -sf "http://127.0.0.1:$HEALTH_PORT/readyz"
}

# What an interrupted run left goes the regular way: the controller gives the addresses back.
remove_earlier_run() {
  if kubectl get namespace "$NAMESPACE" >/dev/null 2>&1; then
    tell "An earlier run was interrupted: its claims and pools go first."
    for claim in $(kubectl -n "$NAMESPACE" get ipaddressclaims -o name); do
      kubectl -n "$NAMESPACE" patch "$claim" --type=json -p "$LIFT" >/dev/null 2>&1 || true
    done
    for kind in openstackservers ipaddressclaims openstackfloatingippools; do
      kubectl -n "$NAMESPACE" delete "$kind" --all "--timeout=${TIMEOUT}s" >/dev/null ||
        failed "the $kind of an earlier run can be deleted (make demo-stop removes everything)"
    done
    kubectl delete namespace "$NAMESPACE" "--timeout=${TIMEOUT}s" >/dev/null || failed "the namespace of an earlier run can be deleted"
  fi
  forget_props
}

how_to_go_on() {
  cat <<EOT

To go on by hand, in this shell:
  export KUBECONFIG=$KUBECONFIG_FILE
  export OS_CLIENT_CONFIG_FILE=$CLOUDS_FILE OS_CLOUD=demo
  export PATH=$BIN:\$PATH          # kubectl and openstack
The controller's log is $CONTROLLER_LOG,
its metrics are at http://127.0.0.1:$METRICS_PORT/metrics.
To stop the servers and the controller:  make env-down CAIP_ENV=$CAIP_ENV   (make demo-stop also removes their data)
EOT
}

trap 'failed "\"$BASH_COMMAND\" succeeds"' ERR
set -o errtrace

lock 7 "$CAIP_CACHE/env/.$CAIP_ENV-run" "shows on '$CAIP_ENV'"
start_servers
start_controller
remove_earlier_run
before=$(snapshot)

step 1 "What is there"
tell "The project has three floating IPs of its own: two that the network team has opened in its" \
  "firewalls, and one that somebody tagged as spare."
for address in "${LISTED[@]}" "$SPARE"; do
  # Only an administrator may ask for a certain address.
  openstack --os-cloud admin floating ip create public --project demo --floating-ip-address "$address" >/dev/null
done
openstack floating ip set --tag spare "$(floating_ip "$SPARE" ID)"
with_props=$(snapshot)
neutron
tell "A cluster, as Cluster API knows it, and the credentials of its project."
run kubectl create namespace "$NAMESPACE"
run kubectl -n "$NAMESPACE" create secret generic cloud "--from-file=clouds.yaml=$CLOUDS_FILE"
apply "apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: web, namespace: $NAMESPACE}
spec:
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: OpenStackCluster, name: web}"

step 2 "Two pools"
tell "One takes new floating IPs from a network, two at most; the other has a closed list."
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

step 3 "Machines ask for an address"
tell "For each machine CAPO makes a claim of exactly this form (CAPO is not installed here; the demo" \
  "plays its part). The finalizer is CAPO's, and holds the claim until the VM is gone."
apply "$(claim_of web-0 public)"
tell "The same for web-1, and for gateway-0, which needs one of the opened addresses."
machine_asks web-1 public
machine_asks gateway-0 listed
for server in web-0 web-1 gateway-0; do is_bound "$server"; done
claims
run kubectl -n "$NAMESPACE" get "$IPADDRESS"
web_0=$(address_of web-0) web_1=$(address_of web-1) gateway_0=$(address_of gateway-0)
expect "the address of gateway-0, the first of the list," "$gateway_0" "${LISTED[0]}"
[ "$web_0" != "$web_1" ] || failed "web-0 and web-1 have different addresses" "both have $web_0"
tell "The same in Neutron. The mark that says whose it is: in the description of a floating IP that" \
  "the pool created, as a tag on one that it did not."
neutron
for address in "$web_0" "$web_1"; do
  [ -n "$(floating_ip "$address" Description)" ] || failed "a mark in the description of $address" "none"
done
has_tags "${LISTED[0]}" || failed "a mark among the tags of ${LISTED[0]}" "none"
has_no_tags "${LISTED[1]}" || failed "no mark on ${LISTED[1]}, which nobody claims" "$(floating_ip "${LISTED[1]}" Tags)"

step 4 "A free floating IP of the project is used before a new one"
tell "By default a pool may take those that nobody gave a tag, a description or a name, five minutes" \
  "after their last change; this one takes those with the tag spare, at once."
apply "apiVersion: ipam.cluster.x-k8s.io/v1alpha1
kind: OpenStackFloatingIPPool
metadata: {name: thrifty, namespace: $NAMESPACE}
spec:
  identityRef: {name: cloud, cloudName: demo}
  floatingIPNetwork: {filter: {name: public}}
  reuse: {policy: Tagged, tags: [spare], minIdleSeconds: 0}"
machine_asks batch-0 thrifty
is_bound batch-0
run kubectl -n "$NAMESPACE" get "$IPADDRESS" "$(claim_name batch-0)"
expect "the address of batch-0, the spare one," "$(address_of batch-0)" "$SPARE"
tell "The mark stands beside the tag of whoever made it."
neutron

step 5 "A pool is exhausted, and says so"
tell "web-2 wants an address too, but the pool may not hold more than two."
machine_asks web-2 public
wait_until "the claim of web-2 says PoolExhausted" \
  '--for=jsonpath={.status.conditions[?(@.type=="Ready")].reason}=PoolExhausted' "ipaddressclaim/$(claim_name web-2)"
claims
run kubectl -n "$NAMESPACE" get ipaddressclaim "$(claim_name web-2)" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].message}{"\n"}'
run kubectl -n "$NAMESPACE" get fippool public
run kubectl -n "$NAMESPACE" events --for "ipaddressclaim/$(claim_name web-2)"
if kubectl -n "$NAMESPACE" get "$IPADDRESS" "$(claim_name web-2)" >/dev/null 2>&1; then failed "web-2 has no address yet"; fi

step 6 "A release serves the claim that waits"
tell "The VM of web-0 goes: CAPO takes its finalizer off the claim, and the claim is deleted after its" \
  "OpenStackServer. Nobody touches the claim of web-2."
machine_goes web-0
wait_until "the claim of web-0 is gone" --for=delete "ipaddressclaim/$(claim_name web-0)"
is_bound web-2
claims
run kubectl -n "$NAMESPACE" get "$IPADDRESS"
expect "the address of web-2, the one that web-0 had," "$(address_of web-2)" "$web_0"

step 7 "A released floating IP is tagged first, then deleted"
tell "So that this can be seen, a released address shall rest for 15 seconds. Then the VM of web-1 goes."
run kubectl -n "$NAMESPACE" patch fippool public --type=merge -p '{"spec":{"reuseGracePeriodSeconds":15}}'
machine_goes web-1
wait_until "the claim of web-1 is gone" --for=delete "ipaddressclaim/$(claim_name web-1)"
has_tags "$web_1" || failed "a release tag on $web_1" "$(floating_ip "$web_1" Tags)"
tell "The claim is gone at once; $web_1 is tagged for release."
neutron
eventually "$web_1 is deleted" is_gone "$web_1"
tell "And now it is gone: the pool had created it, so the pool deletes it."
neutron

step 8 "Everything goes, and Neutron is as it was"
tell "The other machines go the same way; then the pools."
for server in web-2 gateway-0 batch-0; do machine_goes "$server"; done
wait_until "all claims are gone" --for=delete "ipaddressclaim/$(claim_name web-2)" "ipaddressclaim/$(claim_name gateway-0)" "ipaddressclaim/$(claim_name batch-0)"
run kubectl -n "$NAMESPACE" delete fippool --all "--timeout=${TIMEOUT}s"
run kubectl delete namespace "$NAMESPACE" "--timeout=${TIMEOUT}s"
neutron
after=$(snapshot)
expect "what Neutron has of the project" "$after" "$with_props"
tell "What the pools created is deleted; what they only used is there, without their marks. The demo" \
  "takes its own three floating IPs away, and the project is as it was before the demo."
forget_props
expect "what Neutron has of the project" "$(snapshot)" "$before"

printf '\nThe demo is complete (%s s).\n' "$SECONDS"
how_to_go_on
