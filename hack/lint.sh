#!/usr/bin/env bash
# Format and lints; every warning is an error.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --check
# The package of `make fuzz`: its format, and that its lock file fits our dependencies.
cargo fmt --check --manifest-path tests/fuzz/Cargo.toml
cargo update --locked --workspace --quiet --manifest-path tests/fuzz/Cargo.toml
cargo clippy --locked --all-targets -- -D warnings
# With all features, only the targets that can differ.
cargo clippy --locked --all-features --lib --bins --test traces -- -D warnings
hack/deny.sh --installed
if command -v go >/dev/null; then
  hack/lint-workflows.sh
else
  echo "NOT CHECKED: the workflows (go is not installed)" >&2
fi
if command -v shellcheck >/dev/null; then
  shellcheck .ci/run hack/*.sh hack/*/*.sh
else
  echo "NOT CHECKED: the shell scripts (shellcheck is not installed)" >&2
fi
