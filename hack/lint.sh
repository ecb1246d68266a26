#!/usr/bin/env bash
# Format and lints; every warning is an error.
set -euo pipefail
cd "$(dirname "$0")/.."

skipped=()
cargo fmt --check
# The package of `make fuzz`: its format, and that its lock file fits our dependencies.
cargo fmt --check --manifest-path tests/fuzz/Cargo.toml
cargo update --locked --workspace --quiet --manifest-path tests/fuzz/Cargo.toml
cargo clippy --locked --all-targets -- -D warnings
# With all features, only the targets that can differ.
cargo clippy --locked --all-features --lib --bins --test traces -- -D warnings
if command -v cargo-deny >/dev/null; then
  # Without the advisories, which need a network.
  cargo deny --log-level error check bans licenses sources
else
  skipped+=("the dependencies' licenses, sources and bans (cargo-deny is not installed)")
fi
if command -v shellcheck >/dev/null; then
  shellcheck .ci/run hack/*.sh hack/*/*.sh
else
  skipped+=("the shell scripts (shellcheck is not installed)")
fi
for what in "${skipped[@]}"; do echo "NOT CHECKED: $what" >&2; done
