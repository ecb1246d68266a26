#!/usr/bin/env bash
# All tests: `make test`. Starts servers, runs everything against them, and stops them however it ends.
# The scenarios mostly wait, so what only compiles runs beside them. Three tracks:
#   test/servers.sh    starts the servers, while the tests compile
#   test/scenarios.sh  what needs servers
#   test/checks.sh     lints, documentation tests, the image and a sample of mutants, in the time that the scenarios leave
# The first failure ends all of them.
#   CAIP_KEEP_ENV=1    leaves the servers running, to look into a failure
#   CAIP_TEST_THREADS  how many scenarios run at the same time (default 4)
#   CAIP_FAULTS=all    all sixteen network faults instead of three: ten minutes more
#   CAIP_ENV           the name of the set of servers (default test): two runs at the same time need two names
set -euo pipefail
CAIP_ENV=${CAIP_ENV:-test}
export CAIP_ENV
# shellcheck source=test/lib.sh
. "$(dirname "$0")/test/lib.sh"

compile_tests() {
  local programs=$RUN/programs.json name
  cargo test --locked --no-run --message-format=json-render-diagnostics >"$programs" || return
  for name in it permissions upgrade; do
    sed -n "s/.*\"kind\":\[\"test\"\].*\"name\":\"$name\".*\"executable\":\"\([^\"]*\)\".*/\1/p" "$programs" >"$RUN/program-$name"
    [ -s "$RUN/program-$name" ] || die "cargo did not say where it put the test '$name'"
  done
}

# The list names scenarios of tests/; one that was renamed must not drop out silently.
check_v1beta1_list() {
  local unknown
  unknown=$(comm -23 <(v1beta1_scenarios | sort) <(test_program it --list --format terse | sed -n 's/: test$//p' | sort))
  [ -z "$unknown" ] || die "hack/test/v1beta1-scenarios names tests that do not exist:"$'\n'"$unknown"
}

finish() {
  local status=$?
  trap '' INT TERM
  end_tracks
  if [ "${CAIP_KEEP_ENV:-}" = 1 ]; then
    say "the servers stay: eval \"\$(CAIP_ENV=$CAIP_ENV make -s env)\"; make env-down CAIP_ENV=$CAIP_ENV"
  else
    hack/env/down.sh || status=1
    with_older_cluster_api hack/env/down.sh || status=1
  fi
  { echo && cat "$RUN/summary" && printf '%5d s  in all\n' $SECONDS; } >&2
  rm -rf "$RUN"
  exit "$status"
}

require_cargo
hack/env/packages.sh # before anything is compiled: cargo needs its linker
lock 7 "$CAIP_CACHE/env/.$CAIP_ENV-run" "tests on '$CAIP_ENV'"
RUN=$(mktemp -d)
export RUN
touch "$RUN/summary"
note_commit
trap finish EXIT
trap 'exit 130' INT TERM
stage "format" cargo fmt --check
start_track hack/test/servers.sh
# Only this target needs the feature; everything else is tested as it is shipped. It comes first, since it leaves its own
# program where the scenarios look for theirs.
stage "traces (feature otel)" cargo test --locked --features otel --test traces
stage "compile the tests" compile_tests
stage "the list of scenarios for v1beta1" check_v1beta1_list
stage "unit and property tests" cargo test --locked --lib --bins --test docs --test choice --test model --test simulation
# In a session of its own, since some kernels share the processor among sessions first.
setsid hack/test/checks.sh & TRACKS+=($!)
start_track hack/test/scenarios.sh
await_tracks
