#!/usr/bin/env bash
# A track of `make test`: compiles the tests.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

# The list names scenarios of tests/; one that was renamed must not drop out silently.
check_v1beta1_list() {
  local unknown
  unknown=$(comm -23 <(v1beta1_scenarios | sort) <(test_program it --list --format terse | sed -n 's/: test$//p' | sort))
  [ -z "$unknown" ] || die "hack/test/v1beta1-scenarios names tests that do not exist:"$'\n'"$unknown"
}

stage "format" cargo fmt --check
# Only this target needs the feature; everything else is tested as it is shipped. It comes first, since it leaves its own
# program where the scenarios look for theirs.
stage "traces (feature otel)" cargo test --locked --features otel --test traces
stage "compile the tests" compile_tests --lib --bins --tests --benches -- \
  bench it permissions perturb restore upgrade
stage "the list of scenarios for v1beta1" check_v1beta1_list
reached programs
