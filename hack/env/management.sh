#!/usr/bin/env bash
# Starts the first or second management cluster of this set on loopback: etcd, kube-apiserver, kube-controller-manager
# (garbage collection, namespaces, service accounts, aggregated roles) and Cluster API's core manager with its CRDs,
# admission and conversion webhooks. The CRDs of the Prometheus operator are there too, for the chart's monitors. Safe to
# run again.
#   CAIP_CLUSTER_API   v1beta2 (default), or v1beta1: an older Cluster API that serves only that version. A second run with
#                      v1beta2 upgrades it; or a version, such as v1.12.10, of which build-programs.sh has built capi-core
#   CAIP_CONTROLLERS   more controllers of Kubernetes, such as deployment-controller,replicaset-controller
#   CAIP_KUBERNETES    another version of Kubernetes, of which build-programs.sh has built the programs
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

if [ $# -gt 1 ] || ! [[ ${1:-1} =~ ^[12]$ ]]; then die "usage: management.sh [1|2]"; fi
management_cluster "${1:-1}"
PROMETHEUS_OPERATOR=github.com/prometheus-operator/prometheus-operator@v0.85.0
LOG=$MANAGEMENT_DIR/log PKI=$MANAGEMENT_DIR/pki
case ${CAIP_CLUSTER_API:=v1beta2} in
  v1beta2) CAPI_PROGRAM=capi-core CAPI_VERSION=$(capi_version "$HERE/programs") ;;
  v1beta1) CAPI_PROGRAM=capi-core-v1beta1 CAPI_VERSION=$(capi_version "$HERE/cluster-api-v1beta1") ;;
  v1.*) CAPI_PROGRAM=capi-core@$CAIP_CLUSTER_API CAPI_VERSION=$CAIP_CLUSTER_API ;;
  *) die "CAIP_CLUSTER_API must be v1beta1, v1beta2 or a version, not '$CAIP_CLUSTER_API'" ;;
esac
OF_VERSION=${CAIP_KUBERNETES:+@$CAIP_KUBERNETES}
CAPI_SOURCE=$CAIP_CACHE/src/cluster-api-$CAPI_VERSION
CAPI_CONFIG=$CAPI_SOURCE/config
[ -d "$CAPI_CONFIG" ] || CAPI_CONFIG=$CAPI_SOURCE/core/config # since Cluster API 1.14
export KUBECONFIG=$KUBECONFIG_FILE
kubectl() { "$BIN/kubectl" --cache-dir "$MANAGEMENT_DIR/kubectl-cache" "$@"; }

make_keys() {
  [ -d "$PKI" ] && return
  local new=$PKI.tmp
  rm -rf "$new" && mkdir -m 700 "$new"
  {
    openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj /CN=caip-openstack-test-ca -keyout "$new/ca.key" -out "$new/ca.crt"
    openssl genrsa -out "$new/service-accounts.key" 2048
    openssl req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout "$new/tls.key" -out "$new/tls.csr"
    openssl x509 -req -in "$new/tls.csr" -CA "$new/ca.crt" -CAkey "$new/ca.key" -CAcreateserial -days 3650 -out "$new/tls.crt" \
      -extfile <(echo 'subjectAltName=IP:127.0.0.1,DNS:localhost')
  } 2>"$LOG/openssl.log" || { tail -n 3 "$LOG/openssl.log" >&2; die "openssl failed; see $LOG/openssl.log"; }
  echo "$(openssl rand -hex 16),admin,admin,system:masters" >"$new/tokens.csv"
  mv "$new" "$PKI"
}

write_kubeconfig() {
  cat >"$KUBECONFIG.tmp" <<EOT
apiVersion: v1
kind: Config
current-context: $MANAGEMENT_CLUSTER
clusters:
- name: $MANAGEMENT_CLUSTER
  cluster: {server: "https://127.0.0.1:$APISERVER_PORT", certificate-authority-data: $(base64 -w0 "$PKI/ca.crt")}
users:
- name: admin
  user: {token: $(cut -d, -f1 "$PKI/tokens.csv")}
contexts:
- name: $MANAGEMENT_CLUSTER
  context: {cluster: $MANAGEMENT_CLUSTER, user: admin}
EOT
  chmod 600 "$KUBECONFIG.tmp" && mv "$KUBECONFIG.tmp" "$KUBECONFIG"
}

start_kubernetes() {
  start "$ETCD" "$LOG/etcd.log" "$BIN/etcd" --data-dir "$MANAGEMENT_DIR/etcd" --unsafe-no-fsync --log-level warn \
    --listen-client-urls "http://127.0.0.1:$ETCD_PORT" --advertise-client-urls "http://127.0.0.1:$ETCD_PORT" \
    --listen-peer-urls http://127.0.0.1:0
  # Where owners' deletion may be blocked only by those who may, as on some platforms. Old versions are forgotten after a
  # minute or two instead of five or ten, so that watches and pages meet that. And the issuer is a name, not this server's address: the ports may be moved, tokens stay good.
  start "$APISERVER" "$LOG/kube-apiserver.log" "$BIN/kube-apiserver$OF_VERSION" --etcd-servers "http://127.0.0.1:$ETCD_PORT" \
    --bind-address 127.0.0.1 --advertise-address 127.0.0.1 --secure-port "$APISERVER_PORT" \
    --tls-cert-file "$PKI/tls.crt" --tls-private-key-file "$PKI/tls.key" --client-ca-file "$PKI/ca.crt" \
    --token-auth-file "$PKI/tokens.csv" --authorization-mode RBAC --service-cluster-ip-range 10.0.0.0/24 \
    --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$PKI/service-accounts.key" \
    --service-account-signing-key-file "$PKI/service-accounts.key" --endpoint-reconciler-type none \
    --enable-admission-plugins OwnerReferencesPermissionEnforcement --etcd-compaction-interval 1m \
    --audit-policy-file "$HERE/audit-policy.yaml" --audit-log-path "$AUDIT_LOG" --audit-log-maxsize 2000
  wait_for 60 kube-apiserver "$LOG/kube-apiserver.log" "$APISERVER" kubectl get --raw /readyz
  # By default it sends 20 requests in a second, so that a burst of deleted objects is collected in minutes.
  start "$CONTROLLER_MANAGER" "$LOG/kube-controller-manager.log" "$BIN/kube-controller-manager$OF_VERSION" --kubeconfig "$KUBECONFIG" \
    --service-account-private-key-file "$PKI/service-accounts.key" --root-ca-file "$PKI/ca.crt" --leader-elect=false \
    --bind-address 127.0.0.1 --secure-port 0 --kube-api-qps 200 --kube-api-burst 400 --controllers \
    garbage-collector-controller,namespace-controller,serviceaccount-controller,serviceaccount-token-controller,root-ca-certificate-publisher-controller,clusterrole-aggregation-controller"${CAIP_CONTROLLERS:+,$CAIP_CONTROLLERS}"
  wait_for 60 kube-controller-manager "$LOG/kube-controller-manager.log" "$CONTROLLER_MANAGER" \
    kubectl -n default get serviceaccount default
}

install_monitoring_kinds() {
  local log=$LOG/apply-monitoring.log folder kind kinds=()
  folder=$(go -C "$MANAGEMENT_DIR" mod download -json "$PROMETHEUS_OPERATOR" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p') ||
    die "$PROMETHEUS_OPERATOR cannot be downloaded"
  for kind in podmonitors prometheusrules servicemonitors; do
    kinds+=(-f "$folder/example/prometheus-operator-crd/monitoring.coreos.com_$kind.yaml")
  done
  kubectl apply --server-side "${kinds[@]}" >"$log" 2>&1 ||
    { tail -n 5 "$log" >&2; die "the Prometheus operator's CRDs were not accepted; see $log"; }
}

# There is no pod network here, so webhooks are reached by URL instead of by Service.
start_cluster_api() {
  local manifest=$MANAGEMENT_DIR/cluster-api.yaml
  "$VENV/bin/python" "$HERE/localize.py" "$CAPI_CONFIG" "https://127.0.0.1:$CAPI_PORT" "$PKI/ca.crt" cluster-api >"$manifest"
  local kinds=(-f "$manifest")
  [ -e "$MANAGEMENT_DIR/capo.yaml" ] || kinds+=(-f "$HERE/capo-kinds.yaml") # the stand-ins do not replace the real ones
  kubectl apply --server-side --force-conflicts "${kinds[@]}" >"$LOG/apply-cluster-api.log" 2>&1 ||
    { tail -n 5 "$LOG/apply-cluster-api.log" >&2; die "Cluster API's CRDs were not accepted; see $LOG/apply-cluster-api.log"; }
  kubectl create namespace capi-system --dry-run=client -o yaml | kubectl apply -f - >>"$LOG/apply-cluster-api.log" 2>&1
  local running=$MANAGEMENT_DIR/cluster-api-version
  [ "$(cat "$running" 2>/dev/null)" = "$CAIP_CLUSTER_API" ] || stop "$CAPI"
  POD_NAMESPACE=capi-system POD_NAME=capi-core POD_UID=0 start "$CAPI" "$LOG/capi-core.log" "$BIN/$CAPI_PROGRAM" \
    --webhook-port "$CAPI_PORT" --webhook-cert-dir "$PKI" --diagnostics-address 127.0.0.1:0 --insecure-diagnostics \
    --health-addr 127.0.0.1:0 --leader-elect=false --feature-gates ClusterTopology=true
  wait_for 60 "Cluster API's core manager" "$LOG/capi-core.log" "$CAPI" admits_claims
  echo "$CAIP_CLUSTER_API" >"$running"
}

# The record that `clusterctl init` keeps of each provider, and that `clusterctl move` compares.
write_inventory() {
  local log=$LOG/apply-inventory.log
  {
    kubectl apply --server-side -f "$CAPI_SOURCE/cmd/clusterctl/config/manifest/clusterctl-api.yaml" &&
      kubectl wait --for=condition=Established --timeout=30s crd/providers.clusterctl.cluster.x-k8s.io &&
      kubectl apply --server-side -f - <<EOT
apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3
kind: Provider
metadata: {name: cluster-api, namespace: capi-system}
providerName: cluster-api
type: CoreProvider
version: $CAPI_VERSION
EOT
  } >"$log" 2>&1 || { tail -n 5 "$log" >&2; die "clusterctl's inventory was not accepted; see $log"; }
}

# A dry run of a claim of the old version passes through the conversion and the admission webhooks.
admits_claims() {
  kubectl create --dry-run=server -f - <<'EOT'
apiVersion: ipam.cluster.x-k8s.io/v1beta1
kind: IPAddressClaim
metadata: {name: probe, namespace: default}
spec: {poolRef: {apiGroup: ipam.cluster.x-k8s.io, kind: OpenStackFloatingIPPool, name: probe}}
EOT
}

mkdir -p "$LOG"
make_keys
write_kubeconfig
start_kubernetes
install_monitoring_kinds
start_cluster_api
write_inventory
say "management cluster $MANAGEMENT_CLUSTER: up after $SECONDS s: KUBECONFIG=$KUBECONFIG"
