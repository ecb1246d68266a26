#!/usr/bin/env bash
# A track of `make test`: starts all servers from nothing, since what an earlier run left behind must not decide this one.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

older_cluster_api() {
  hack/env/build-programs.sh capi-core-v1beta1 etcdutl &&
    with_older_cluster_api hack/env/down.sh --purge &&
    CAIP_CLUSTER_API=v1beta1 with_older_cluster_api hack/env/management.sh
}

hack/env/down.sh --purge
stage "start the servers" hack/env/up.sh --second
reached servers
stage "start an older Cluster API" older_cluster_api
reached older-cluster-api
