#!/usr/bin/env bash
# A track of `make test`: the tests that need no server, in the time that the scenarios leave.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

yield_the_processor 19
await programs
stage_beside "unit and property tests" cargo test --locked --lib --bins --test docs --test choice --test model --test simulation
