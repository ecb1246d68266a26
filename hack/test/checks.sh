#!/usr/bin/env bash
# A track of `make test`: lints, a sample of mutants, what many claims cost, and traces, in the time that the scenarios
# leave.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

# Calls, writes and memory: `make bench-scale` measures more claims, and times.
costs() (
  use_servers
  test_program bench --scale --costs --total 300 --pools 6 --projects 3 --waiting 30 --settled-seconds 80 --json "$RUN/scale.json"
)

yield_the_processor 19
await programs
stage_beside "documentation tests" cargo test --locked --doc
stage_beside "lints" hack/lint.sh
stage_beside "generated files" hack/verify-generated.sh
await servers
stage_beside "the costs of 300 claims" costs
stage_beside "a sample of the mutants of the core" hack/mutants.sh sample
# Only this target needs the feature; everything else is tested as it is shipped. It comes when no scenario runs any more:
# it leaves its own program where they look for theirs.
await last-scenario
stage_beside "traces (feature otel)" cargo test --locked --features otel --test traces
