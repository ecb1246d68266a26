#!/usr/bin/env bash
# The benchmark: `make bench`. On servers of its own, which it stops; CAIP_KEEP_ENV=1 leaves them.
#   CAIP_BALLAST=10000   that many floating IPs of another owner are in the project
set -euo pipefail
CAIP_ENV=${CAIP_ENV:-bench}
export CAIP_ENV
# shellcheck source=env/lib.sh
. "$(dirname "$0")/env/lib.sh"
cd "$HERE/../.."

finish() {
  local status=$?
  trap '' INT TERM
  [ "${CAIP_KEEP_ENV:-}" = 1 ] || hack/env/down.sh || status=1
  exit "$status"
}

require_cargo
hack/env/packages.sh
lock 7 "$CAIP_CACHE/env/.$CAIP_ENV-run" "measures on '$CAIP_ENV'"
trap finish EXIT
trap 'exit 130' INT TERM
# Nothing is compiled while it measures.
cargo bench --locked --bench bench --no-run
hack/env/down.sh --purge
hack/env/up.sh
[ -z "${CAIP_BALLAST:-}" ] || hack/env/ballast.sh "$CAIP_BALLAST"
eval "$(hack/env/env.sh)"
cargo bench --locked --bench bench -- "$@"
