#!/usr/bin/env bash
# The benchmark: `make bench`. On servers of its own, which it stops; CAIP_KEEP_ENV=1 leaves them.
#   CAIP_BALLAST=10000   that many floating IPs of another owner are in the project
#   CAIP_PIN=1           Neutron runs on the first core, all else on the second
#   CAIP_BESIDE_CAPO=1   CAPO runs too (CAPO_SOURCE: hack/env/capo.sh)
set -euo pipefail
CAIP_ENV=${CAIP_ENV:-bench}
export CAIP_ENV
# shellcheck source=env/lib.sh
. "$(dirname "$0")/env/lib.sh"
cd "$HERE/../.."

pin() {
  local pidfile pid core
  for pidfile in "$ENV_DIR"/*/*.pid; do
    if [ "$pidfile" = "$NEUTRON" ]; then core=0; else core=1; fi
    for pid in $(server_pids "$pidfile"); do taskset -apc "$core" "$pid" >/dev/null; done
  done
  taskset -apc 1 $$ >/dev/null # what it starts, too
}

prepare_run measures
# Nothing is compiled while it measures.
cargo bench --locked --bench bench --no-run
# shellcheck disable=SC2119 # without a second management cluster
start_new_servers
[ -z "${CAIP_BALLAST:-}" ] || hack/env/ballast.sh "$CAIP_BALLAST"
if [ -n "${CAIP_BESIDE_CAPO:-}" ]; then
  hack/env/capo.sh
  CAIP_CAPO_PID=$(<"$CAPO")
  export CAIP_CAPO_PID
fi
[ -z "${CAIP_PIN:-}" ] || pin
cargo bench --locked --bench bench -- "$@"
