#!/usr/bin/env bash
# shellcheck disable=SC2031 # a subshell means another cluster
# Installs as the documents say: `make installs`. Takes the `sh` blocks of the pages below as they stand, and runs every
# command, page by page, against a management cluster of its own and a registry on loopback. Only the places that a page
# leaves open are filled in: registry.example.com, for example, is a part of that registry, another one for each page, so
# that no page installs what another one has pushed.
# A node of hack/test/node.py pulls each image that a pod names and executes it with the pod's arguments and the
# permissions of its ServiceAccount. After each block, every Deployment must be available.
#   installs.sh [--all]   --all also runs the commands of the list SLOW, and installs what `make dist` has built
#   CAIP_KEEP_ENV=1       leaves the servers running, to look into a failure
#   IMAGE_BUILD_DIR       cargo's folder for the image (default: one in the cache)
set -euo pipefail
export CAIP_ENV=${CAIP_ENV:-installs}
# Sources without git can be tested too.
git -C "$(dirname "$0")" rev-parse -q --verify HEAD >/dev/null 2>&1 ||
  export CAIP_OPENSTACK_COMMIT=${CAIP_OPENSTACK_COMMIT:-0000000} SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-1000000000}
# shellcheck source=../env/lib.sh
. "$(dirname "$0")/../env/lib.sh"
HOST=127.0.0.1:$CAIP_PORT_BASE
export RELEASE_REGISTRY=$HOST RELEASE_SOURCE=https://example.com/caip-openstack
# shellcheck source=../release/lib.sh
. "$(dirname "$0")/../release/lib.sh"
# shellcheck source=lib.sh
. "$PROJECT/hack/test/lib.sh"

# --- what is not run ------------------------------------------------------------
# PAGE|COMMAND|REASON, where COMMAND is a pattern. Every other command of the pages is run.
NOT_RUN=(
  "docs/install.md|skopeo copy *docker-daemon:*|there is no Docker here"
  "docs/install.md|kind load docker-image *|kind needs Docker"
  "docs/image.md|skopeo copy *docker-daemon:*|there is no Docker here"
  "docs/image.md|ctr -n k8s.io images import *|there is no containerd here"
)
# Only with --all.
SLOW=(
  "docs/image.md|make image IMAGE_PLATFORMS=*|it compiles for another architecture"
  "docs/image.md|make image-test*|it is a stage of make test"
  "docs/image.md|make dist *|it compiles for another architecture; make release-dry-run runs it too"
  "docs/image.md|git clone *make -C a image|it compiles the program again"
  "docs/image.md|sha256sum a/*|it is about the image of that clone"
)
declare -A USED=()
RUNNING= # the process of the command that runs

[ $# = 0 ] || [ "$*" = --all ] || die "usage: installs.sh [--all]"
ALL=${1:-}
PATIENCE=300 # of a step, in seconds; what compiles may take longer
SYSTEM=caip-openstack-system
CRD=openstackfloatingippools.ipam.cluster.x-k8s.io
CLUSTER_WIDE=clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings
IMAGES='{range .items[*]}{.metadata.namespace} {.metadata.name} {.spec.template.spec.containers[*].image}{"\n"}{end}'
NODE=$ENV_DIR/node.pid
NODE_LOG=$ENV_DIR/node.log
OPERATOR=$ENV_DIR/capi-operator.pid
OPERATOR_LOG=$ENV_DIR/capi-operator.log
WORK=$(mktemp -d)
CLONE=$WORK/caip-openstack # a copy, since the commands write target/ and out/

finish() {
  local status=$?
  trap '' INT TERM
  [ -z "$RUNNING" ] || kill "$RUNNING" || true # `timeout` gives it a process group of its own
  if [ "${CAIP_KEEP_ENV:-}" = 1 ]; then
    say "the servers stay: eval \"\$(CAIP_ENV=$CAIP_ENV make -s env)\"; make env-purge CAIP_ENV=$CAIP_ENV; rm -r $WORK"
  else
    hack/env/down.sh --purge || status=1
    rm -rf "$WORK"
  fi
  exit "$status"
}

# --- servers --------------------------------------------------------------------
start_servers() {
  hack/env/down.sh --purge
  require_port "$REGISTRY" "$CAIP_PORT_BASE" "a registry"
  hack/env/build-programs.sh etcd kube-apiserver kube-controller-manager capi-core kubectl helm clusterctl \
    capi-operator
  hack/env/build-openstack.sh # management.sh needs its yaml module
  need_go_tool crane
  CAIP_CONTROLLERS=deployment-controller,replicaset-controller hack/env/management.sh
  start_registry
  start "$NODE" "$NODE_LOG" python3 hack/test/node.py "https://127.0.0.1:$APISERVER_PORT" "$MANAGEMENT_DIR/pki" "$HOST" \
    "$WORK/images" "caip-openstack $VERSION ($SHORT_COMMIT)"
}

# What clusterctl reads from GitHub otherwise: cert-manager, of which it needs only the kinds here, and the contract of
# Cluster API, which is installed. The rest of its configuration is on a page.
prepare_clusterctl() {
  local kind version core cert_manager=$WORK/cert-manager/v1.0.0
  version=$(capi_version hack/env/programs)
  core=$WORK/cluster-api/$version
  mkdir -p "$core" "$cert_manager" "$XDG_CONFIG_HOME/cluster-api"
  touch "$core/core-components.yaml"
  cat >"$core/metadata.yaml" <<EOT
apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3
kind: Metadata
releaseSeries: [{major: 1, minor: $(cut -d. -f2 <<<"$version"), contract: v1beta2}]
EOT
  for kind in Issuer Certificate; do
    cat <<EOT
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ${kind,,}s.cert-manager.io}
spec:
  group: cert-manager.io
  scope: Namespaced
  names: {kind: $kind, plural: ${kind,,}s, singular: ${kind,,}}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
EOT
  done >"$cert_manager/cert-manager.yaml"
  CLUSTERCTL_CONFIG=$XDG_CONFIG_HOME/cluster-api/clusterctl.yaml
  CORE_PROVIDER="  - {name: cluster-api, type: CoreProvider, url: $core/core-components.yaml}"
  CERT_MANAGER="cert-manager: {url: $cert_manager/cert-manager.yaml, version: v1.0.0}"
}

# skopeo reads from its home folder which registries have no TLS; the other programs recognize loopback, or have a flag.
accept_registry() {
  local home=$WORK/home skopeo
  skopeo=$(type -P skopeo)
  mkdir -p "$home/.config/containers" "$WORK/bin"
  printf '[[registry]]\nlocation = "%s"\ninsecure = true\n' "$HOST" >"$home/.config/containers/registries.conf"
  printf '#!/bin/sh\nHOME=%q XDG_CONFIG_HOME= exec %q "$@"\n' "$home" "$skopeo" >"$WORK/bin/skopeo"
  chmod +x "$WORK/bin/skopeo"
  PATH=$WORK/bin:$PATH
}

# What a user's shell has: programs, a kubeconfig, and configuration that is not this user's.
enter_shell() {
  export PATH=$BIN:$PATH KUBECONFIG=$KUBECONFIG_FILE XDG_CONFIG_HOME=$WORK/config CAIP_CACHE
  export HELM_CACHE_HOME=$WORK/helm/cache HELM_CONFIG_HOME=$WORK/helm/config HELM_DATA_HOME=$WORK/helm/data
  export KUBECACHEDIR=$WORK/kubectl-cache CLUSTERCTL_DISABLE_VERSIONCHECK=true
  mkdir -p "$XDG_CONFIG_HOME" "$CLONE"
  accept_registry
  # With the times of the files, so that cargo compiles only what it has not compiled yet.
  tar --exclude=./.git --exclude=target --exclude=./out --exclude=./dist -c . | tar -C "$CLONE" -x
  export IMAGE_BUILD_DIR=${IMAGE_BUILD_DIR:-$(image_build_dir)}
  unset CARGO_TARGET_DIR IMAGE IMAGE_SOURCE IMAGE_PLATFORMS
}

# --- pages ----------------------------------------------------------------------
# The part of the registry that a page pushes to and pulls from.
registry_of() { # PAGE
  local name=${1%.md}
  name=${name//\//-}
  echo "$HOST/${name,,}"
}

# Fills in the places that the pages leave open.
filled_in() {
  local registry
  registry=$(registry_of "$PAGE")
  sed -E -e "s|registry\.example\.com|$registry|g" -e "s|\bREGISTRY\b|$registry|g" -e "s|\bvVERSION\b|$TAG|g" \
    -e "s|\bVERSION\b|$VERSION|g" -e "s|https://…|$RELEASE_SOURCE|g" -e "s|\bSOURCE\b|$PROJECT|g" \
    -e "s|\bREVISION\b|$COMMIT|g" -e "s|/path/to/out|$CLONE/out|g" -e "s|\bCHART\b|${CHART:-CHART}|g"
}

# Reads a block into COMMANDS. A command may have several lines, and comments are commands of their own.
read_commands() { # FILE
  local line command=
  COMMANDS=()
  while IFS= read -r line; do
    command+=${command:+$'\n'}$line
    if [[ -z $command || $line == *\\ ]] || [ -n "$(bash -n <<<"$command" 2>&1)" ]; then continue; fi
    COMMANDS+=("$command")
    command=
  done < <(filled_in <"$1")
  [ -z "$command" ] || die "$PAGE: this is not a whole command: $command"
}

# Whether a command is in one of the lists above; WHY is then the reason.
is_excused() { # COMMAND
  local entry page pattern
  local excused=("${NOT_RUN[@]}")
  [ -n "$ALL" ] || excused+=("${SLOW[@]}")
  for entry in "${excused[@]}"; do
    IFS='|' read -r page pattern WHY <<<"$entry"
    # shellcheck disable=SC2053 # a pattern
    [[ $PAGE = "$page" && $1 = $pattern ]] || continue
    USED[$entry]=1
    return 0
  done
  return 1
}

# An entry for a command that has gone might excuse another one later.
all_are_used() {
  local entry
  for entry in "${NOT_RUN[@]}" "${SLOW[@]}"; do
    [ -n "${USED[$entry]:-}" ] || [[ -n $ALL && " ${SLOW[*]} " = *" $entry "* ]] || die "no page has this command: $entry"
  done
}

# Runs a command. The node ends when an image does not work, and the command would then wait in vain.
watched() { # COMMAND...
  local status=0
  timeout "$PATIENCE" "$@" >"$WORK/said" 2>&1 </dev/null & RUNNING=$!
  while kill -0 "$RUNNING" 2>/dev/null; do
    alive "$NODE" || kill "$RUNNING" || true
    sleep .1
  done
  wait "$RUNNING" || status=$?
  RUNNING=
  alive "$NODE" || { cat "$WORK/said" >&2; die "$(tail -n 20 "$NODE_LOG" | sed -n '/^error: /,$ { s/^error: //; p }')"; }
  if [ $status != 0 ] || grep -q '^Warning:' "$WORK/said"; then
    say "this fails, or prints a warning: $*"
    cat "$WORK/said" >&2
    return 1
  fi
}

# Every pod that a Deployment wants is running. And clusterctl has no probe of cert-manager left, whose namespace it does
# not wait for: while that is being deleted, another clusterctl fails.
await_deployments() {
  local namespace name image deployments
  watched kubectl wait --for=delete namespace/cert-manager-test --timeout=60s
  deployments=$(kubectl get deployments -A -o jsonpath="$IMAGES")
  [ -n "$deployments" ] || return 0
  while read -r namespace name image; do
    [[ $image = "$(registry_of "$PAGE")"/* ]] || die "$PAGE: $namespace/$name has the image $image"
    watched kubectl -n "$namespace" rollout status "deployment/$name" ||
      die "$PAGE: $namespace/$name does not become available"
  done <<<"$deployments"
}

# Runs the commands that were collected, in one shell.
run_collected() {
  local command reference began=$SECONDS
  ((${#SCRIPT[@]})) || return 0
  before "${SCRIPT[0]}"
  { printf 'set -euo pipefail\n%s\n' "$PRELUDE" && printf '%s\n' "${SCRIPT[@]}"; } >"$WORK/script"
  if [[ ${SCRIPT[*]} = *"make "* ]]; then
    PATIENCE=7200 watched bash -x "$WORK/script"
  else
    watched bash -x "$WORK/script"
  fi || die "$PAGE:$LINE: the commands above fail"
  await_deployments
  for command in "${SCRIPT[@]}"; do
    [[ $command =~ ^skopeo[[:space:]]copy.*docker://([^[:space:]]+) ]] || continue
    reference=${BASH_REMATCH[1]}
    run_image "$reference" "linux/$(this_architecture)"
  done
  after "${SCRIPT[0]}"
  say "$(printf '%3d s  %s:%s  %s' $((SECONDS - began)) "$PAGE" "$LINE" "$(one_line "${SCRIPT[0]}")")"
  SCRIPT=()
}

one_line() { sed -zE 's/ *\\\n */ /g; s/\n+$//' <<<"$1"; }

run_block() { # FILE
  local command line
  SCRIPT=() PRELUDE="cd $CLONE"
  read_commands "$1"
  for command in "${COMMANDS[@]}"; do
    line=$(one_line "$command")
    if [[ $line = '# or '* ]]; then # another way instead of the one before
      run_collected
      start_anew
    elif is_excused "$line"; then
      say "not run: $PAGE:$LINE  $line  ($WHY)"
    elif [[ $line != '#'* ]]; then
      SCRIPT+=("$command")
    fi
  done
  run_collected
}

page() { # PAGE [HEADING]
  local blocks=$WORK/blocks file files
  PAGE=$1
  rm -rf "$blocks" && mkdir "$blocks"
  start_anew
  files=$(awk -v folder="$blocks" -v heading="${2:-}" -f hack/test/page.awk "$CLONE/$1")
  [ -n "$files" ] || die "$1 has no commands"
  for file in $files; do
    LINE=$(basename "${file%.*}" | sed 's/^0*//')
    case $file in
      *.sh) run_block "$file" ;;
      *.yaml) use_manifest "$file" ;;
    esac
  done
}

# --- what a page takes for granted ------------------------------------------------
# Removes everything, also the CRD.
start_anew() {
  watched kubectl delete namespace "$SYSTEM" caip-team-a team-a --ignore-not-found
  watched kubectl delete "$CLUSTER_WIDE" -l cluster.x-k8s.io/provider=ipam-openstack
  watched kubectl delete crd "$CRD" --ignore-not-found
  nothing_is_installed
}

# What every uninstallation leaves: at most the CRD.
nothing_is_installed() {
  local left
  left=$(kubectl get "deployments,$CLUSTER_WIDE" -A -o name)
  left=$(grep caip-openstack <<<"$left") || return 0
  die "$PAGE: these objects are left: $left"
}

# A controller and a pool on which it works.
install_pool() {
  start_anew
  watched helm install caip-openstack "$CLONE/config/chart" --namespace "$SYSTEM" --create-namespace \
    --set "image.registry=$(registry_of "$PAGE")"
  await_deployments
  kubectl create namespace team-a >/dev/null
  kubectl apply -f - >/dev/null <<'EOT'
apiVersion: ipam.cluster.x-k8s.io/v1alpha1
kind: OpenStackFloatingIPPool
metadata: {name: public, namespace: team-a}
spec: {identityRef: {name: cloud, cloudName: openstack}}
EOT
  watched kubectl -n team-a wait --for=condition=Ready=False fippool/public --timeout=60s
}

before() { # COMMAND: what must be there
  case $PAGE:$1 in
    docs/install.md:"helm install team-a "*) kubectl create namespace team-a >/dev/null ;;
    docs/install.md:"make manifests "*) start_anew ;;
    docs/install.md:"clusterctl upgrade apply "*) publish_version "$1" ;;
    docs/install.md:"kubectl create namespace "*) prepare_operator ;;
    *:"kubectl delete fippool "*) install_pool ;;
    docs/image.md:"git clone "*) PRELUDE="cd $WORK; unset CAIP_OPENSTACK_COMMIT SOURCE_DATE_EPOCH" ;;
  esac
}

after() { # COMMAND: what must have become of it
  local left
  case $PAGE:$1 in
    # The pods so far were admitted before.
    docs/install.md:"kubectl label namespace "*)
      watched kubectl -n "$SYSTEM" delete pods --all
      await_deployments
      ;;
    *:"helm uninstall "* | docs/install.md:"kubectl delete namespace "*) nothing_is_installed ;;
    docs/install.md:"clusterctl delete "*) [[ ${SCRIPT[*]} != *"kubectl delete "* ]] || nothing_is_installed ;;
    docs/install.md:"kubectl -n caip-openstack-system delete ipamprovider "*) end_operator ;;
    docs/install.md:"kubectl create namespace "*) await_operator ;;
    *:"kubectl delete fippool "*)
      nothing_is_installed
      left=$(kubectl get crd "$CRD" --ignore-not-found -o name)
      [ -z "$left" ] || die "$PAGE: the CRD is left"
      ;;
    docs/image.md:"make image "*) [ ! -e "$CLONE/dist" ] || install_release ;;
    docs/image.md:"git clone "*) cmp "$WORK/a/target/image/$ARCHIVE" "$CLONE/target/image/$ARCHIVE" ;;
  esac
}

# A later version: another tag of the same image, with components of its own.
publish_version() { # COMMAND
  local next=$WORK/next registry version minor
  version=${1##*:v}
  minor=$(cut -d. -f2 <<<"$version")
  registry=$(registry_of "$PAGE")
  mkdir "$next"
  cp -R "$CLONE"/{Cargo.toml,config,crds,hack} "$next"
  sed -i "s/^version = \"$VERSION\"/version = \"$version\"/" "$next/Cargo.toml"
  echo "  - {major: ${version%%.*}, minor: $minor, contract: v1beta1}" >>"$next/config/clusterctl/metadata.yaml"
  "$next/hack/manifests.sh" "$next/out" "$registry/caip-openstack:v$version"
  mv "$next/out/ipam-openstack/v$version" "$CLONE/out/ipam-openstack"
  crane copy "$registry/caip-openstack:$TAG" "$registry/caip-openstack:v$version" >/dev/null 2>&1
}

# What `make dist` has built, by each of the ways.
install_release() {
  local registry dist=$CLONE/dist repository=$WORK/release/ipam-openstack/$TAG config=$WORK/release/clusterctl.yaml
  registry=$(registry_of "$PAGE")
  RELEASE_REGISTRY=$registry watched "$CLONE/hack/release/push.sh" "$dist"
  start_anew
  watched helm install caip-openstack "oci://$registry/charts/caip-openstack" --plain-http --version "$VERSION" \
    --namespace "$SYSTEM" --create-namespace
  await_deployments
  tar -C "$WORK" -xf "$dist/kubectl-fippool-linux-$(this_architecture).tar.gz" kubectl-fippool
  watched "$WORK/kubectl-fippool" version
  [ "$(grep -c "$VERSION ($SHORT_COMMIT)" "$WORK/said")" -gt 0 ] || die "the plugin says: $(cat "$WORK/said")"
  start_anew
  watched kubectl apply --server-side -f "$dist/caip-openstack.yaml"
  await_deployments
  start_anew
  mkdir -p "$repository"
  cp "$dist"/{ipam-components,metadata}.yaml "$repository"
  sed "s|url: .*/ipam-components.yaml|url: $repository/ipam-components.yaml|" "$CLUSTERCTL_CONFIG" >"$config"
  watched clusterctl init --ipam openstack --config "$config"
  await_deployments
}

# cluster-api-operator itself, as a process, and without its webhooks, which set defaults that the page does not use.
# Cluster API is a process, too, with no Deployment that the operator could watch: its CoreProvider is only said to be
# ready. The page has the reader edit the image in the IPAMProvider.
prepare_operator() {
  local source=$CAIP_CACHE/src/cluster-api-operator-
  source+=$(module_version hack/env/cluster-api-operator sigs.k8s.io/cluster-api-operator)
  start_anew
  watched kubectl apply --server-side -f "$source/config/crd/bases"
  watched kubectl wait --for=condition=Established --timeout=30s crd/ipamproviders.operator.cluster.x-k8s.io
  start "$OPERATOR" "$OPERATOR_LOG" "$BIN/capi-operator" --webhook-port "$((CAIP_PORT_BASE + 9))" \
    --webhook-cert-dir "$MANAGEMENT_DIR/pki" --health-addr 127.0.0.1:0 --profiler-address "" \
    --diagnostics-address 127.0.0.1:0 --insecure-diagnostics
  kubectl apply -f - >/dev/null <<'EOT'
apiVersion: operator.cluster.x-k8s.io/v1alpha2
kind: CoreProvider
metadata: {name: cluster-api, namespace: capi-system}
spec: {version: v0.0.0, fetchConfig: {selector: {matchLabels: {none: has-this}}}}
EOT
  kubectl -n capi-system patch coreprovider cluster-api --subresource status --type merge -p "{\"status\": {\"conditions\": [
    {\"type\": \"Ready\", \"status\": \"True\", \"reason\": \"Test\", \"message\": \"\", \"lastTransitionTime\": \"$(date -u +%FT%TZ)\"}]}}" >/dev/null
  watched make -C "$CLONE" manifests "IMAGE=$(registry_of "$PAGE")/caip-openstack:$TAG"
  filled_in <config/operator/ipam-provider.yaml >"$CLONE/config/operator/ipam-provider.yaml"
}

await_operator() {
  watched kubectl -n "$SYSTEM" wait ipamprovider/openstack --for=condition=Ready --timeout=120s ||
    { tail -n 20 "$OPERATOR_LOG" >&2; die "$PAGE: cluster-api-operator does not install the provider"; }
  await_deployments
  [ -n "$(kubectl get deployments -n "$SYSTEM" -o name)" ] || die "$PAGE: cluster-api-operator has installed nothing"
}

end_operator() {
  nothing_is_installed
  kubectl get crd "$CRD" >/dev/null || die "$PAGE: the CRD has gone with the IPAMProvider"
  stop "$OPERATOR"
  watched kubectl -n capi-system patch coreprovider cluster-api --type merge -p '{"metadata": {"finalizers": null}}'
  watched kubectl -n capi-system delete coreprovider cluster-api
}

# The blocks of YAML that the commands of a page need.
use_manifest() { # FILE
  local overlay=$WORK/overlay
  case $PAGE:$(head -n 1 "$1") in
    docs/install.md:providers:) # of clusterctl
      { filled_in <"$1" && printf '%s\n' "$CORE_PROVIDER" "$CERT_MANAGER"; } >"$CLUSTERCTL_CONFIG"
      ;;
    docs/install.md:images:) # of clusterctl, instead of IMAGE
      start_anew
      { cat "$CLUSTERCTL_CONFIG" && filled_in <"$1"; } >"$WORK/clusterctl.yaml"
      watched make -C "$CLONE" manifests
      watched clusterctl init --ipam openstack --config "$WORK/clusterctl.yaml"
      await_deployments
      ;;
    "docs/install.md:apiVersion: kustomize.config.k8s.io/v1beta1")
      mkdir "$overlay"
      ln -s "$CLONE" "$overlay/caip-openstack"
      filled_in <"$1" >"$overlay/kustomization.yaml"
      start_anew
      watched kubectl apply --server-side -k "$overlay"
      await_deployments
      ;;
    docs/install.md:*) # values of the chart
      helm template caip-openstack config/chart --namespace default --values "$1" >"$WORK/rendered"
      watched kubectl apply --server-side --force-conflicts --dry-run=server -f "$WORK/rendered"
      ;;
    *) die "$PAGE:$LINE: this script does not know what to do with this YAML" ;;
  esac
  say "       $PAGE:$LINE  (YAML)"
}

# The chart's page is for the folder, for the archive, and for the registry.
chart_page() {
  local page=config/chart/README.md registry
  registry=$(registry_of "$page")
  skopeo copy -q --all "oci-archive:$CLONE/target/image/$ARCHIVE" "docker://$registry/caip-openstack:$TAG"
  CHART=config/chart page "$page"
  # That one names its image, so the page says to leave the registry out.
  make -C "$CLONE" -s manifests "IMAGE=$registry/caip-openstack:$TAG"
  helm push --plain-http "$CLONE/out/caip-openstack-$VERSION.tgz" "oci://$registry/charts" >/dev/null 2>&1
  sed -i -z 's/ \\\n *--set image.registry=registry.example.com//' "$CLONE/$page"
  CHART=out/caip-openstack-$VERSION.tgz page "$page"
  CHART="oci://$registry/charts/caip-openstack --plain-http" page "$page"
}

[[ -z $ALL || $COMMIT != *-dirty ]] || die "there are uncommitted changes: --all builds what a release publishes"
cd "$PROJECT"
lock 7 "$CAIP_CACHE/env/.$CAIP_ENV-run" "installs on '$CAIP_ENV'"
mkdir -p "$ENV_DIR"
trap finish EXIT
trap 'exit 130' INT TERM
missing=()
for program in skopeo bwrap; do have $program || missing+=("${program/bwrap/bubblewrap}"); done
[ ${#missing[@]} = 0 ] || hack/env/install.sh "${missing[@]}"
start_servers
enter_shell
prepare_clusterctl
page docs/install.md
page docs/image.md
page README.md "## Install"
chart_page
all_are_used
say "pulled and executed, in $SECONDS s:"
sed -n 's/^ready \([^ ]*\) .*/\1/p' "$NODE_LOG" | sort | uniq -c >&2
