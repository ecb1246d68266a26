#!/usr/bin/env bash
# Machines of the real CAPO with addresses of our pools (tests/capo.rs): `make e2e-capo`. On servers of its own, which it
# stops; CAIP_KEEP_ENV=1 leaves them.
#   CAPO_SOURCE           where CAPO comes from: hack/env/capo.sh
#   CAIP_PREVIOUS_BINARY  the controller of an earlier release, for the upgrade and the rollback; default: the same program
# Arguments select tests, as those of `cargo test`. One runs at a time: each keeps the servers busy, and measures delays.
set -euo pipefail
CAIP_ENV=${CAIP_ENV:-capo}
export CAIP_ENV
# shellcheck source=env/lib.sh
. "$(dirname "$0")/env/lib.sh"
cd "$HERE/../.."

prepare_run "boots machines"
cargo test --locked --test capo --no-run
start_new_servers --second
hack/env/nova.sh
hack/env/capo.sh 1
hack/env/capo.sh 2
RUST_BACKTRACE=0 cargo test --locked --test capo -- --nocapture --test-threads 1 "$@"
