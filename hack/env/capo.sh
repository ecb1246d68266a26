#!/usr/bin/env bash
# Builds CAPO (Cluster API Provider OpenStack), applies its CRDs and webhooks in place of the stand-ins of
# capo-kinds.yaml, and starts its manager on loopback, for the first or second management cluster of this set.
# Safe to run again; another CAPO_SOURCE replaces the one that runs.
#   capo.sh [1|2]
#   CAPO_SOURCE   a folder, a .tar.gz archive, or a git URL, with @COMMIT if it is not the default branch. In a folder or an
#                 archive CAPO may stand in capo/, beside what its go.mod replaces. Default: CAPO's repository at a commit
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

if [ $# -gt 1 ] || ! [[ ${1:-1} =~ ^[12]$ ]]; then die "usage: capo.sh [1|2]"; fi
management_cluster "${1:-1}"
CAPO_SOURCE=${CAPO_SOURCE:-https://github.com/kubernetes-sigs/cluster-api-provider-openstack@e52de58abe6f70f4ad3ad7f7f51632bfd70354b7}
LOG=$MANAGEMENT_DIR/log PKI=$MANAGEMENT_DIR/pki
export KUBECONFIG=$KUBECONFIG_FILE GOFLAGS=-mod=mod CGO_ENABLED=0
kubectl() { "$BIN/kubectl" --cache-dir "$MANAGEMENT_DIR/kubectl-cache" "$@"; }

fetch_commit() { # URL COMMIT FOLDER
  git init -q "$3" && git -C "$3" fetch -q --depth 1 "$1" "$2" && git -C "$3" checkout -q FETCH_HEAD
}

# Prints the name of the build: that of what it was built from.
identity() {
  if [ -f "$CAPO_SOURCE" ]; then
    sha256sum <"$CAPO_SOURCE" | cut -c1-12
  elif [ -d "$CAPO_SOURCE" ]; then
    find "$CAPO_SOURCE" -type f -not -path '*/.git/*' -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -c1-12
  else
    sha256sum <<<"$CAPO_SOURCE" | cut -c1-12
  fi
}

get_source() { # FOLDER
  local url=$CAPO_SOURCE commit=HEAD
  rm -rf "$1.tmp" && mkdir -p "$1.tmp"
  if [ -f "$CAPO_SOURCE" ]; then
    tar xzf "$CAPO_SOURCE" -C "$1.tmp" || die "CAPO_SOURCE=$CAPO_SOURCE is not a .tar.gz archive"
  elif [ -d "$CAPO_SOURCE" ]; then
    cp -r "$CAPO_SOURCE/." "$1.tmp" && chmod -R u+w "$1.tmp"
  elif [[ $CAPO_SOURCE =~ ^(https|ssh|git|file):// ]]; then
    have git || "$HERE/install.sh" git
    [[ $url != *@* || ${url##*@} == */* ]] || { commit=${url##*@} url=${url%@*}; }
    fetch_commit "$url" "$commit" "$1.tmp" >"$LOG/capo-source.log" 2>&1 ||
      die "CAPO's source is not at $url: $(tail -n 1 "$LOG/capo-source.log"). Set CAPO_SOURCE to a folder, an archive or a git URL that has it"
  else
    die "CAPO_SOURCE=$CAPO_SOURCE is no folder, no file and no git URL"
  fi
  rm -rf "$1" && mv "$1.tmp" "$1"
}

# Its webhook server listens on every interface and has no flag for that; one line makes it listen on loopback.
listen_on_loopback() { # FOLDER
  sed -i 's|^\(\t*\)Port: *webhookPort,|\1Host: "127.0.0.1",\n&|' "$1/main.go"
  grep -q 'Host: "127.0.0.1",' "$1/main.go" || die "this CAPO sets up its webhook server in another way: see listen_on_loopback in $0"
}

build() { # FOLDER PROGRAM
  local log=$CAIP_CACHE/log/build-capo.log
  mkdir -p "$CAIP_CACHE/log"
  say "programs: building CAPO from $CAPO_SOURCE (about three minutes)"
  go -C "$1" build -buildvcs=false -ldflags '-s -w' -o "$2.tmp" . >"$log" 2>&1 ||
    { tail -n 8 "$log" >&2; die "the build of CAPO failed; its output is $log"; }
  mv "$2.tmp" "$2"
}

# CAPO watches the kind Image of another project, whose CRD is in that project's module.
image_crd() { # FOLDER
  local module
  module=$(go -C "$1" list -m -f '{{.Path}} {{.Dir}}' all | grep openstack-resource-controller | head -n 1 | cut -d' ' -f2)
  find "${module:-/nonexistent}" -name 'openstack.k-orc.cloud_images.yaml' | head -n 1
}

apply_kinds() { # FOLDER
  local crd
  crd=$(image_crd "$1") || crd=
  [ -n "$crd" ] || die "the CRD of Image, which CAPO watches, is not in the module openstack-resource-controller"
  "$VENV/bin/python" "$HERE/localize.py" "$1/config" "https://127.0.0.1:$CAPO_PORT" "$PKI/ca.crt" capo >"$MANAGEMENT_DIR/capo.yaml"
  {
    kubectl apply --server-side --force-conflicts -f "$MANAGEMENT_DIR/capo.yaml" -f "$crd" &&
      kubectl wait --for=condition=Established --timeout=60s crd --all &&
      kubectl create namespace capo-system --dry-run=client -o yaml | kubectl apply -f -
  } >"$LOG/apply-capo.log" 2>&1 || { tail -n 5 "$LOG/apply-capo.log" >&2; die "CAPO's CRDs were not accepted; see $LOG/apply-capo.log"; }
}

# A dry run passes through the webhooks.
admits_machine_templates() {
  kubectl create --dry-run=server -f - <<'EOT'
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: OpenStackMachineTemplate
metadata: {name: probe, namespace: default}
spec: {template: {spec: {flavor: m1.tiny, image: {filter: {name: tiny}}}}}
EOT
}

start_manager() { # PROGRAM
  [ "$(cat "$MANAGEMENT_DIR/capo-program" 2>/dev/null)" = "$1" ] || stop "$CAPO"
  echo "$1" >"$MANAGEMENT_DIR/capo-program"
  POD_NAMESPACE=capo-system start "$CAPO" "$LOG/capo.log" "$1" --webhook-port "$CAPO_PORT" --webhook-cert-dir "$PKI" \
    --diagnostics-address 127.0.0.1:0 --insecure-diagnostics --health-addr 127.0.0.1:0 --v=2
  wait_for 60 CAPO "$LOG/capo.log" "$CAPO" admits_machine_templates
}

alive "$APISERVER" || die "the management cluster $MANAGEMENT_CLUSTER is not up; run hack/env/up.sh first"
require_port "$CAPO" "$CAPO_PORT" "CAPO's webhooks"
mkdir -p "$CAIP_CACHE/src"
lock 9 "$CAIP_CACHE/lock-capo" "builds CAPO"
name=$(identity)
source=$CAIP_CACHE/src/capo-$name program=$BIN/capo-$name
[ -d "$source" ] || get_source "$source"
[ ! -d "$source/capo" ] || source=$source/capo
[ -f "$source/main.go" ] || die "CAPO_SOURCE=$CAPO_SOURCE has no main.go, neither at its top nor in capo/"
if [ ! -x "$program" ]; then
  grep -q 'Host: "127.0.0.1",' "$source/main.go" || listen_on_loopback "$source"
  build "$source" "$program"
fi
apply_kinds "$source"
start_manager "$program"
say "CAPO: up in $MANAGEMENT_CLUSTER after $SECONDS s"
