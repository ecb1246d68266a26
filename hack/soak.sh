#!/usr/bin/env bash
# Many generated histories of the controllers in simulated time: `make soak`. Needs no servers.
#   SOAK_HISTORIES   how many of each kind (default 100000)
#   SOAK_SEED        where to begin (default: another place each day, so that each run has new histories)
#   SOAK_WORKERS     how many processes share them (default: one for each processor)
# A history that breaks a law is shrunk and printed, and ends the run; SIMULATION_SEED and SIMULATION_HISTORIES=1 repeat it.
set -euo pipefail
cd "$(dirname "$0")/.."
histories=${SOAK_HISTORIES:-100000}
today=$(($(date +%s) / 86400))
seed=${SOAK_SEED:-${today}000000}
workers=${SOAK_WORKERS:-$(nproc)}
share=$(((histories + workers - 1) / workers))

cargo test --locked --profile soak --test simulation --no-run
echo "$histories histories of each kind from seed $seed, $workers processes" >&2
jobs=()
trap 'kill "${jobs[@]}" 2>/dev/null || true' EXIT
for ((worker = 0; worker < workers; worker++)); do
  SIMULATION_SEED=$((seed + worker * share)) SIMULATION_HISTORIES=$share RUST_BACKTRACE=0 \
    cargo test --locked -q --profile soak --test simulation -- --nocapture --test-threads 1 generated::the_laws &
  jobs+=($!)
done
status=0
for job in "${jobs[@]}"; do
  wait "$job" || status=1
done
trap - EXIT
# Every point of the enumerations, of which a plain run has some.
SIMULATION_STEP=1 RUST_BACKTRACE=0 \
  cargo test --locked -q --profile soak --test simulation -- --nocapture --skip generated::the_laws || status=1
[ $status = 0 ] && echo "$((share * workers)) histories of each kind: every law held, in $SECONDS s" >&2
exit $status
