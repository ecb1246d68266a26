#!/usr/bin/env bash
# Other versions of Cluster API, Kubernetes, CAPO and OpenStack than those of `make test`, on real servers: `make compat`.
# Prints a table.
#   compat.sh [NAME VERSION]...   default: all of the list below
#   CAPO_SOURCES                  a folder with capo-VERSION.tar.gz, and capo-src.tar.gz for main; by default CAPO is fetched
#                                 from its repository
# For Cluster API, Kubernetes and OpenStack: the scenarios of test/v1beta1-scenarios, and those with `clusterctl move`, with the
# clusterctl of that version. For CAPO, with the Cluster API that it is made for: a server that gets an address and gives it
# back, and machines that wait for one.
set -euo pipefail
CAIP_ENV=compat
export CAIP_ENV
# shellcheck source=test/lib.sh
. "$(dirname "$0")/test/lib.sh"

(($# > 0)) || set -- cluster-api v1.9.11 cluster-api v1.10.10 cluster-api v1.11.10 cluster-api v1.12.10 \
  cluster-api v1.13.6 cluster-api v1.14.2 kubernetes v1.31.4 kubernetes v1.37.2 \
  capo v0.12.7 capo v0.13.9 capo v0.14.7 capo main openstack 2023.1
(($# % 2 == 0)) || die "usage: compat.sh [NAME VERSION]..."

# Every scenario of the list, and the moves.
scenarios() { # [EXCEPT]
  local names
  mapfile -t names < <(v1beta1_scenarios | grep -vE "${1:-^$}")
  test_program it --test-threads 4 --exact "${names[@]}" && test_program it life::clusterctl
}

with_cluster_api() { # VERSION
  local programs=$CAIP_CACHE/bin/cluster-api-$1
  hack/env/build-programs.sh "capi-core@$1" "clusterctl@$1" || return
  mkdir -p "$programs"
  ln -sf "$BIN/clusterctl@$1" "$programs/clusterctl"
  ln -sf "$BIN/clusterctl@$1" "$programs/clusterctl-v1beta1"
  CAIP_CLUSTER_API=$1 hack/env/up.sh --second || return
  (use_servers && PATH=$programs:$PATH && scenarios)
}

with_kubernetes() { # VERSION
  hack/env/build-programs.sh "kube-apiserver@$1" "kube-controller-manager@$1" || return
  CAIP_KUBERNETES=$1 hack/env/up.sh --second || return
  (use_servers && scenarios)
}

with_capo() { # VERSION
  local source=https://github.com/kubernetes-sigs/cluster-api-provider-openstack@$1 archive=capo-$1
  local cluster_api=v1beta2 cases=(a_server_gets a_machine_waits)
  case $1 in
    # Its Cluster API has no v1beta2, of which the machines here are.
    v0.12.*) cluster_api=v1.9.11 cases=(a_server_gets) ;;
    v0.13.*) cluster_api=v1.11.10 ;;
    v0.14.*) cluster_api=v1.12.10 ;;
  esac
  [ $cluster_api = v1beta2 ] || hack/env/build-programs.sh "capi-core@$cluster_api" || return
  # hack/env/capo.sh has the commit of main.
  [ "$1" != main ] || source="" archive=capo-src
  [ -z "${CAPO_SOURCES:-}" ] || source=$CAPO_SOURCES/$archive.tar.gz
  CAIP_ENV=compat-capo CAIP_CLUSTER_API=$cluster_api CAPO_SOURCE=$source hack/e2e-capo.sh "${cases[@]}"
}

with_openstack() { # RELEASE
  export CAIP_OPENSTACK=$1
  hack/env/up.sh --second || return
  # In 2023.1 a project does not see the subnets of an external network.
  (use_servers && scenarios subnet_id_that_neutron_refuses)
}

try() { # NAME VERSION
  local began=$SECONDS result=passed log=$CAIP_CACHE/log/compat-$1-$2.log
  say "compat: $1 $2; the output is in $log"
  hack/env/down.sh --purge
  ("with_${1//-/_}" "$2") >"$log" 2>&1 || result=FAILED
  printf '%-12s %-10s %s after %d s\n' "$1" "$2" "$result" $((SECONDS - began)) | tee -a "$RUN/table" >&2
}

prepare_run "tries other versions"
RUN=$(mktemp -d)
export RUN
trap 'status=$?; rm -rf "$RUN"; end_run $status' EXIT
compile_tests --test it -- it
while (($# > 0)); do
  declare -F "with_${1//-/_}" >/dev/null || die "no such name: $1 (cluster-api, kubernetes, capo, openstack)"
  try "$1" "$2"
  shift 2
done
cat "$RUN/table"
! grep -q FAILED "$RUN/table"
