#!/usr/bin/env bash
# Coverage-guided fuzzing of every parser of received data (src/fuzzing.rs) with cargo-fuzz: `make fuzz`. Needs no servers.
#   hack/fuzz.sh             every target
#   hack/fuzz.sh marks text  these targets
#   FUZZ_RUNS                how many inputs of each (default 1000000)
#   FUZZ_SEED                for other inputs (default 1); the same seed gives similar ones, not the same
#
# A find is a panic, an overflow, an input that takes more than 5 s, or memory out of proportion to the input. It ends the
# target, and the file and the command that repeats it are printed. The first inputs are tests/fuzz/corpus; those that
# were added on the way are in target/fuzz/corpus, and the complete output in target/fuzz/log.
#
# Stable Rust is enough without a sanitizer: there is no unsafe code here that one could check.
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/cargo-tool.sh
need_cargo_tool fuzz 0.13.2
runs=${FUZZ_RUNS:-1000000}
seed=${FUZZ_SEED:-1}
output=${CARGO_TARGET_DIR:-$PWD/target}/fuzz
programs=$output/$(rustc -vV | sed -n 's/^host: //p')/release

targets=("$@")
[ $# -gt 0 ] || mapfile -t targets < <(cd tests/fuzz/corpus && printf '%s\n' *)

# cargo-fuzz itself would change a lock file that is out of date.
cargo fetch --locked --quiet --manifest-path tests/fuzz/Cargo.toml
cargo fuzz build --fuzz-dir tests/fuzz --target-dir "$output" --sanitizer none --codegen-units 16

rm -rf "$output/corpus" "$output/finds" "$output/log"
mkdir -p "$output/finds" "$output/log"
status=0
printf '%-14s %10s %8s %8s %8s\n' TARGET INPUTS COVERAGE FEATURES SECONDS
for target in "${targets[@]}"; do
  log=$output/log/$target
  mkdir -p "$output/corpus/$target"
  begun=$SECONDS
  found=
  "$programs/$target" -runs="$runs" -seed="$seed" -max_len=4096 -timeout=5 -rss_limit_mb=512 \
    -artifact_prefix="$output/finds/$target-" -print_final_stats=1 \
    "$output/corpus/$target" "tests/fuzz/corpus/$target" 2>"$log" || found=yes
  inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  # The last line with the state of the fuzzer.
  read -r coverage features < <(sed -n 's/.* cov: \([0-9]*\) ft: \([0-9]*\).*/\1 \2/p' "$log" | tail -1) || true
  printf '%-14s %10s %8s %8s %8s\n' "$target" "${inputs:-?}" "${coverage:-?}" "${features:-?}" $((SECONDS - begun))
  if [ -n "$found" ]; then
    status=1
    grep -m 1 -A 3 'panicked at\|ERROR: libFuzzer' "$log" >&2 || true
    find "$output/finds" -name "$target-*" -printf "FOUND: $programs/$target %p\n" >&2
    echo "the complete output: $log" >&2
  fi
done
exit $status
