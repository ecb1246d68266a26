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

# The scenarios need nothing else, and take longest.
stage "compile the scenarios" compile_tests --test it -- it
stage "the list of scenarios for v1beta1" check_v1beta1_list
reached compiled-scenarios
stage "compile the other tests" compile_tests --test permissions --test perturb --test restore --test upgrade --bench bench -- \
  bench permissions perturb restore upgrade
reached programs
