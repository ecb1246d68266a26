#!/usr/bin/env bash
# The benchmark: `make bench`. On servers of its own, which it stops; CAIP_KEEP_ENV=1 leaves them.
#   CAIP_BALLAST=10000   that many floating IPs of another owner are in the project
set -euo pipefail
CAIP_ENV=${CAIP_ENV:-bench}
export CAIP_ENV
# shellcheck source=env/lib.sh
. "$(dirname "$0")/env/lib.sh"
cd "$HERE/../.."

prepare_run measures
# Nothing is compiled while it measures.
cargo bench --locked --bench bench --no-run
# shellcheck disable=SC2119 # without a second management cluster
start_new_servers
[ -z "${CAIP_BALLAST:-}" ] || hack/env/ballast.sh "$CAIP_BALLAST"
cargo bench --locked --bench bench -- "$@"
