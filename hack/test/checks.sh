#!/usr/bin/env bash
# A track of `make test`: lints, a sample of mutants and a long simulation, in the time that the scenarios leave.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

yield_the_processor
await programs
SIMULATION_STEP=1 stage_beside "10,000 pools and claims" test_program simulation records
stage_beside "documentation tests" cargo test --locked --doc
stage_beside "lints" hack/lint.sh
stage_beside "generated files" hack/verify-generated.sh
stage_beside "a sample of the mutants of the core" hack/mutants.sh sample
