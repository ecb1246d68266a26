#!/usr/bin/env bash
# Machines of the real CAPO with addresses of our pools (tests/capo.rs): `make e2e-capo`. On servers of its own, which it
# stops; CAIP_KEEP_ENV=1 leaves them.
#   CAPO_SOURCE           where CAPO comes from: hack/env/capo.sh
#   CAIP_PREVIOUS_BINARY  the controller of an earlier version, for the upgrade and the rollback. Without it, that of the
#                         commit below is built
# Arguments select tests, as those of `cargo test`. One runs at a time: each keeps the servers busy, and measures delays.
set -euo pipefail
CAIP_ENV=${CAIP_ENV:-capo}
export CAIP_ENV
# shellcheck source=env/lib.sh
. "$(dirname "$0")/env/lib.sh"
cd "$HERE/../.."

# There is no release yet: an earlier commit with the same CRD stands for one.
PREVIOUS=77538e12dcaa38eeac0b7e3accc1f062b6df47ba
build_previous() {
  local folder=${CARGO_TARGET_DIR:-$PWD/target}/previous
  git cat-file -e "$PREVIOUS^{commit}" 2>/dev/null ||
    die "this checkout does not have the commit $PREVIOUS for the upgrade and the rollback: fetch it (git fetch --unshallow), or set CAIP_PREVIOUS_BINARY to the controller of an earlier version"
  rm -rf "$folder/source" && mkdir -p "$folder/source"
  git archive "$PREVIOUS" | tar xm -C "$folder/source"
  # In a target folder of its own: in the other one, cargo would take it for the program under test.
  CARGO_TARGET_DIR=$folder/target cargo build --locked --manifest-path "$folder/source/Cargo.toml" --bin caip-openstack
  export CAIP_PREVIOUS_BINARY=$folder/target/debug/caip-openstack
}

prepare_run "boots machines"
cargo test --locked --test capo --no-run
for name in "$@"; do [[ $name = -* ]] || require_test --test capo -- "$name"; done
# Worth the time only for the test that needs it.
selected=$(cargo test --locked -q --test capo -- --list "$@")
if [[ $selected = *rolled_back* ]] && [ -z "${CAIP_PREVIOUS_BINARY:-}" ]; then build_previous; fi
start_new_servers --second
hack/env/nova.sh
hack/env/capo.sh 1
hack/env/capo.sh 2
RUST_BACKTRACE=0 cargo test --locked --test capo -- --nocapture --test-threads 1 "$@"
