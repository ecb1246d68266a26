#!/usr/bin/env bash
# All tests: `make test`. Compiles while the servers start, and stops them however it ends.
#   CAIP_KEEP_ENV=1   leaves the servers running, to look at what a failed test left
#   CAIP_TEST_THREADS how many scenarios run side by side
#   CAIP_FAULTS=all   all sixteen cases of trouble on the wire, not three: ten minutes more
#   CAIP_ENV          another set of servers than `test`, for two runs side by side
set -euo pipefail
CAIP_ENV=${CAIP_ENV:-test}
export CAIP_ENV
# shellcheck source=env/lib.sh
. "$(dirname "$0")/env/lib.sh"
cd "$HERE/../.."

summary=() up=
stage() { # NAME COMMAND...
  local name=$1 began=$SECONDS status=0
  shift
  echo "== $name" >&2
  "$@" || status=$?
  summary+=("$(printf '%4d s  %s%s' $((SECONDS - began)) "$name" "$([ $status = 0 ] || echo ': FAILED')")")
  [ $status = 0 ] || exit $status
}

finish() {
  local status=$?
  trap '' INT TERM
  if [ -n "$up" ]; then
    # An interrupted start ends its compilers itself; a job of this shell does not hear of Ctrl-C.
    kill "$up" 2>/dev/null || true
    wait "$up" || true
  fi
  if [ "${CAIP_KEEP_ENV:-}" = 1 ]; then
    echo "the servers stay: eval \"\$(CAIP_ENV=$CAIP_ENV make -s env)\"; make env-down CAIP_ENV=$CAIP_ENV" >&2
  else
    hack/env/down.sh || status=1
    at_older hack/env/down.sh || status=1
  fi
  printf '%s\n' "" "${summary[@]}" "$(printf '%4d s  in all' $SECONDS)" >&2
  exit "$status"
}

# Another management cluster for the same OpenStack, with an older Cluster API, on ports of its own.
at_older() { CAIP_ENV=$CAIP_ENV-v1beta1 CAIP_PORT_BASE=$((CAIP_PORT_BASE + 3000)) "$@"; }
older_from_nothing() {
  hack/env/build-programs.sh capi-core-v1beta1
  at_older hack/env/down.sh --purge
  CAIP_CLUSTER_API=v1beta1 at_older hack/env/management.sh
}

# From nothing each time: what an earlier run left behind must not decide this one.
servers_from_nothing() {
  hack/env/down.sh --purge
  exec hack/env/up.sh --second
}
servers_are_up() { wait "$up" && up=; }

require_cargo
hack/env/packages.sh # before anything is compiled: cargo needs its linker
lock 7 "$CAIP_CACHE/env/.$CAIP_ENV-run" "tests on '$CAIP_ENV'"
trap finish EXIT
trap 'exit 130' INT TERM
stage "format" cargo fmt --check
servers_from_nothing & up=$!
stage "compile the tests" cargo test --locked --no-run
stage "unit and property tests" cargo test --locked --lib --bins --test docs --test choice --test model --test simulation
stage "mutants of the core, a sample" hack/mutants.sh sample
stage "documentation tests" cargo test --locked --doc
# The one target that tells the feature from none; everything else is tested as it is shipped.
stage "traces (feature otel)" cargo test --locked --features otel --test traces
stage "lints" hack/lint.sh
stage "generated files" hack/verify-generated.sh
stage "wait for the servers" servers_are_up
eval "$(hack/env/env.sh)"
# A scenario mostly waits: for the servers, for a watch, for a time to pass.
scenarios() { cargo test --locked --test it -- --test-threads "${CAIP_TEST_THREADS:-4}" "$@"; }
stage "contract, CRD and controller tests" scenarios
# What the scenarios needed, and nothing else, is what the controller may do.
audit_logs() { (management_cluster 1 && printf '%s:' "$AUDIT_LOG"; management_cluster 2 && printf '%s' "$AUDIT_LOG"); }
export CAIP_AUDIT_LOGS
CAIP_AUDIT_LOGS=$(audit_logs)
stage "permissions" cargo test --locked --test permissions
stage "the image" hack/image/test.sh
stage "start an older Cluster API" older_from_nothing
# shellcheck disable=SC2016 # that shell's variable
KUBECONFIG=$(at_older bash -c '. hack/env/lib.sh; echo "$KUBECONFIG_FILE"')
export KUBECONFIG
# A move and a restore are between management clusters of one version.
stage "controller tests with v1beta1 alone" scenarios life bad_input --skip life::clusterctl --skip life::restored
stage "an upgrade of Cluster API" at_older cargo test --locked --test upgrade
