#!/usr/bin/env bash
# Perturbed runs of the controllers (tests/perturb.rs): `make perturb`. On servers of its own, which it stops;
# CAIP_KEEP_ENV=1 leaves them. A run that was interrupted goes on where it was, unless the program or the tests changed
# since: target/perturb has the results.
#   PERTURB_AT_ONCE   how many runs there are at the same time (default 12)
#   PERTURB_SHARD     2/4: only the second quarter of the plans
#   PERTURB_PLAN      only the plans whose identifier begins so, also those that have a result
#   PERTURB_SAMPLE    only so many plans of some workloads; PERTURB_SEED chooses them (default: others each day)
#   PERTURB_LIST      1: prints the identifiers of all plans
set -euo pipefail
CAIP_ENV=${CAIP_ENV:-perturb}
export CAIP_ENV
# shellcheck source=env/lib.sh
. "$(dirname "$0")/env/lib.sh"
cd "$HERE/../.."

prepare_run perturbs
cargo test --locked --test perturb --no-run
start_new_servers --second
RUST_BACKTRACE=0 cargo test --locked -q --test perturb -- --nocapture
