# shellcheck shell=bash disable=SC2031 # a subshell means another cluster than the one of the caller
# What the scripts of `make test` share. Sourced, never run.
#   RUN      a folder of this run: its summary, what its tracks have reached, where the test programs are
#   RUN_PID  the process of hack/test.sh
# shellcheck source=../env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../env/lib.sh"
cd "$HERE/../.." || exit
# So that what a test says of a failure is not lost among frames.
export RUST_BACKTRACE=0

stage() { # NAME COMMAND...
  local name=$1 began=$SECONDS status=0
  shift
  say "== $name"
  ("$@") || status=$?
  end_stage "$name" $((SECONDS - began)) $status
}

# The same beside other stages: its output appears in one piece when it ends.
stage_beside() { # NAME COMMAND...
  local name=$1 began=$SECONDS status=0
  shift
  ("$@") >"$RUN/output-$$" 2>&1 || status=$?
  { say "== $name" && cat "$RUN/output-$$"; } >&2
  end_stage "$name" $((SECONDS - began)) $status
}

end_stage() { # NAME SECONDS STATUS
  printf '%5d s  %s%s\n' "$2" "$1" "$([ "$3" = 0 ] || echo ': FAILED')" >>"$RUN/summary"
  [ "$3" = 0 ] || exit "$3"
}

# For a track that takes the processor time that the scenarios leave, so that none of them is late because of it. Of such
# tracks, those with the lower niceness come first; with 19, a track runs only when nothing else wants to.
yield_the_processor() { # NICENESS
  if [ "$1" != 19 ] || ! chrt --idle --pid 0 $$ 2>/dev/null; then renice -n "$1" -p $$ >/dev/null; fi
  # Where the kernel gives each session a share of its own (autogroup), it asks for the priority of the session.
  { echo "$1" >/proc/self/autogroup; } 2>/dev/null || true
}

# Tracks wait for each other by name.
reached() { touch "$RUN/reached-$1"; }
await() {
  until [ -e "$RUN/reached-$1" ]; do
    kill -0 "$RUN_PID" 2>/dev/null || die "the run was killed"
    sleep .2
  done
}

# Compiles tests, and remembers where cargo put these.
compile_tests() { # KIND_FLAGS... -- NAME...
  local programs=$RUN/programs.json flags=() name
  while [ "$1" != -- ]; do flags+=("$1") && shift; done
  shift
  cargo test --locked --no-run "${flags[@]}" --message-format=json-render-diagnostics >"$programs" || return
  for name in "$@"; do
    sed -nE "s/.*\"kind\":\[\"(test|bench)\"\].*\"name\":\"$name\".*\"executable\":\"([^\"]*)\".*/\2/p" "$programs" >"$RUN/program-$name"
    [ -s "$RUN/program-$name" ] || die "cargo did not say where it put the test '$name'"
  done
}

# Not by cargo, which would wait for the lock of a check that compiles.
test_program() { # NAME ARGUMENT...
  local program
  program=$(cat "$RUN/program-$1")
  shift
  "$program" "$@"
}

# The image is built and checked at different times, and a commit may be made in between.
note_commit() {
  git rev-parse -q --verify HEAD >/dev/null 2>&1 || return 0
  (. hack/image/lib.sh && declare -p CAIP_OPENSTACK_COMMIT SOURCE_DATE_EPOCH) >"$RUN/commit"
}
of_this_commit() ( # COMMAND...
  # shellcheck source=/dev/null
  [ ! -e "$RUN/commit" ] || . "$RUN/commit"
  "$@"
)
image_test() { of_this_commit hack/image/test.sh "$1"; } # --build|--built

# Cargo's folder for the image: the dependencies are compiled once for all clones. A folder that no test used for a week
# goes.
image_build_dir() {
  local folder
  folder=$CAIP_CACHE/image/target-$(cat Cargo.lock <(rustc -vV) | sha256sum | cut -c1-10)
  mkdir -p "$folder"
  touch "$folder"
  find "$CAIP_CACHE/image" -maxdepth 1 -name 'target-*' -mtime +7 -exec rm -rf {} +
  echo "$folder"
}

# Another management cluster for the same OpenStack, on ports of its own.
with_older_cluster_api() { CAIP_ENV=$CAIP_ENV-v1beta1 CAIP_PORT_BASE=$((CAIP_PORT_BASE + 3000)) "$@"; }

# A management cluster in which nothing else is installed.
with_cluster_for_installs() { CAIP_ENV=$CAIP_ENV-installs CAIP_PORT_BASE=$((CAIP_PORT_BASE + 4000)) "$@"; }

v1beta1_scenarios() { sed 's/#.*//; s/ *$//; /^$/d' hack/test/v1beta1-scenarios; }
