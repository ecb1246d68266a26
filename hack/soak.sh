#!/usr/bin/env bash
# Many generated histories of the controllers in simulated time: `make soak`. Needs no servers.
#   SOAK_HISTORIES   how many of each kind (default 100000)
#   SOAK_SEED        where to begin (default: another place each day, so that each run has new histories)
#   SOAK_WORKERS     how many processes share them (default: one for each processor)
# A history that breaks a law is shrunk and printed, and ends the run; SIMULATION_SEED and SIMULATION_HISTORIES=1 repeat it.
set -euo pipefail
# shellcheck source=env/lib.sh
. "$(dirname "$0")/env/lib.sh"
cd "$HERE/../.."
histories=${SOAK_HISTORIES:-100000}
today=$(($(date +%s) / 86400))
seed=${SOAK_SEED:-${today}000000}
workers=${SOAK_WORKERS:-$(nproc)}
share=$(((histories + workers - 1) / workers))

require_cargo
have cc || hack/env/install.sh gcc libc6-dev
cargo test --locked --profile long-soak --test simulation --no-run
require_test --profile long-soak --test simulation -- generated::the_laws
echo "$histories histories of each kind from seed $seed, $workers processes" >&2
trap end_tracks EXIT
trap 'exit 130' INT TERM
for ((worker = 0; worker < workers; worker++)); do
  start_track env SIMULATION_SEED=$((seed + worker * share)) SIMULATION_HISTORIES=$share RUST_BACKTRACE=0 \
    cargo test --locked -q --profile long-soak --test simulation -- --nocapture --test-threads 1 generated::the_laws
done
await_tracks
# Every point of the enumerations, of which a plain run has some.
SIMULATION_STEP=1 RUST_BACKTRACE=0 \
  cargo test --locked -q --profile long-soak --test simulation -- --nocapture --skip generated::the_laws
echo "$((share * workers)) histories of each kind: every law held, in $SECONDS s" >&2
