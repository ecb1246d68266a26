#!/usr/bin/env bash
# All tests: `make test`. Starts servers, runs everything against them, and stops them however it ends.
# The scenarios mostly wait, so what only compiles runs beside them. Six tracks:
#   test/servers.sh    starts the servers
#   test/programs.sh   compiles the tests, those of the scenarios first
#   test/scenarios.sh  what needs servers
#   test/unit.sh       what needs no server, in the time that the scenarios leave
#   test/checks.sh     lints, a sample of mutants, what 300 claims cost, and traces, also in that time
#   test/image.sh      builds the image and installs it as the documents say, in that time before the other two
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

finish() {
  local status=$?
  trap '' INT TERM
  end_tracks
  if [ "${CAIP_KEEP_ENV:-}" = 1 ]; then
    say "the servers stay: eval \"\$(CAIP_ENV=$CAIP_ENV make -s env)\"; make env-down CAIP_ENV=$CAIP_ENV"
  else
    hack/env/down.sh || status=1
    with_older_cluster_api hack/env/down.sh || status=1
    with_cluster_for_installs hack/env/down.sh || status=1
  fi
  { echo && cat "$RUN/summary" && printf '%5d s  in all\n' $SECONDS; } >&2
  rm -rf "$RUN"
  exit "$status"
}

require_cargo
for tool in fmt clippy; do
  cargo $tool --version >/dev/null 2>&1 || die "cargo $tool is needed: rustup component add rustfmt clippy"
done
hack/env/packages.sh # before anything is compiled: cargo needs its linker
lock 7 "$CAIP_CACHE/env/.$CAIP_ENV-run" "tests on '$CAIP_ENV'"
RUN=$(mktemp -d)
export RUN RUN_PID=$$
touch "$RUN/summary"
note_commit
trap finish EXIT
trap 'exit 130' INT TERM
start_track hack/test/servers.sh
start_track hack/test/programs.sh
start_track hack/test/scenarios.sh
# In sessions of their own, since some kernels share the processor among sessions first.
for track in unit checks image; do
  setsid hack/test/$track.sh & TRACKS+=($!)
done
await_tracks
