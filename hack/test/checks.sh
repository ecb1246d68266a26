#!/usr/bin/env bash
# A track of `make test`: what only compiles. It takes the processor time that the scenarios leave, so that none of them
# is late because of it.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

yield_the_processor() {
  chrt --idle --pid 0 $$ 2>/dev/null || renice -n 19 -p $$ >/dev/null
  # Where the kernel gives each session a share of its own (autogroup), it asks for the priority of the session.
  { echo 19 >/proc/self/autogroup; } 2>/dev/null || true
}

yield_the_processor
await programs
stage_beside "documentation tests" cargo test --locked --doc
stage_beside "lints" hack/lint.sh
stage_beside "generated files" hack/verify-generated.sh
stage_beside "build the image" image_test --build
reached image
stage_beside "a sample of the mutants of the core" hack/mutants.sh sample
SIMULATION_STEP=1 stage_beside "10,000 pools and claims" test_program simulation records
