#!/usr/bin/env bash
# Mutates the allocation core with cargo-mutants, and fails when its tests do not notice a mutant.
#
#   hack/mutants.sh              every mutant: `make mutants`
#   hack/mutants.sh sample       one in sixty, the same each time: a part of `make test`
#   hack/mutants.sh histories    one in sixty, by the generated histories of the whole controllers alone: minutes for each
#                                (MUTANTS_SHARD, default 0/60; SIMULATION_HISTORIES, default 60 of each kind). It tells how
#                                much the histories see, and fails if they miss any
#   hack/mutants.sh --file …     any other arguments of `cargo mutants`
#
# It works in a scratch copy below target/, in which the core is a package of its own: that needs neither kube nor HTTP,
# so a mutant builds and is tested in seconds. Its unit tests and tests/choice.rs are what must notice.
# hack/mutants.toml lists the mutants that change nothing, with reasons.
set -euo pipefail
# shellcheck source=env/lib.sh
. "$(dirname "$0")/env/lib.sh"
cd "$HERE/../.."
. hack/cargo-tool.sh
need_cargo_tool mutants 27.1.0
scratch=${CARGO_TARGET_DIR:-$PWD/target}/mutants core=core
if [ "${1:-}" = sample ]; then
  core=sample # it need not wait for a long run
  set -- --sharding round-robin --shard 0/60
fi

by_histories() {
  local whole=$scratch/whole
  lock 9 "$whole.lock" "mutates the core"
  rm -rf "$whole/src" "$whole/tests" && mkdir -p "$whole"
  git ls-files -z | xargs -0 cp --parents -t "$whole"
  # In a target folder of its own: in another one, cargo would take a mutant for the program.
  export SIMULATION_HISTORIES=${SIMULATION_HISTORIES:-60} RUST_BACKTRACE=0 CARGO_TARGET_DIR=$whole/target
  (cd "$whole" && require_test --profile soak --test simulation -- generated::the_laws)
  exec cargo mutants --in-place --dir "$whole" --output "$whole" --config hack/mutants.toml --file 'src/allocation/**' \
    --no-shuffle --colors never --profile soak --timeout 900 --sharding round-robin --shard "${MUTANTS_SHARD:-0/60}" \
    --cargo-arg=--test=simulation -- generated::the_laws
}
if [ "${1:-}" = histories ]; then by_histories; fi

core=$scratch/$core
lock 9 "$core.lock" "mutates the core"

# lines_of SECTION NAMES: the lines of Cargo.toml for these packages, of that section alone.
lines_of() { sed -n "/^\[$1\]/,/^\[/p" Cargo.toml | grep -E "^($2) = "; }

rm -rf "$core/src" "$core/tests"
mkdir -p "$core/src" "$core/tests/support/laws"
cp -R src/allocation* src/floating_ip.rs src/object_name.rs src/time.rs "$core/src/"
cp tests/choice.rs "$core/tests/"
cp tests/support/laws/oracle.rs "$core/tests/support/laws/"
cp Cargo.lock "$core/"
(cd "$core/src" && printf 'pub mod %s;\n' ./*.rs | sed 's|\./||; s|\.rs;|;|') >"$core/lib.rs"
mv "$core/lib.rs" "$core/src/lib.rs"
cat >"$core/Cargo.toml" <<MANIFEST
[package]
name = "caip-openstack"
version = "0.0.0"
edition = "2024"
[workspace]
[profile.dev]
debug = false
[dependencies]
$(lines_of dependencies 'ipnet|jiff|serde|sha2|thiserror')
[dev-dependencies]
$(lines_of dev-dependencies proptest)
MANIFEST

# The same situations each time, so that a sample gives the same answer each time; what fails is not shrunk.
export PROPTEST_RNG_SEED=1 PROPTEST_CASES=${PROPTEST_CASES:-1000} PROPTEST_MAX_SHRINK_ITERS=0
export PROPTEST_DISABLE_FAILURE_PERSISTENCE=1 CARGO_TARGET_DIR="$core/target"
exec cargo mutants --in-place --dir "$core" --output "$core" --config hack/mutants.toml \
  --no-shuffle --colors never "$@" -- --lib --test choice
