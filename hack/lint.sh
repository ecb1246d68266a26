#!/usr/bin/env bash
# Format and lints; every warning is an error.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --check
cargo clippy --locked --all-targets -- -D warnings
# What else there is with every feature: the rest would only be looked at twice.
cargo clippy --locked --all-features --lib --bins --test traces -- -D warnings
if command -v cargo-deny >/dev/null; then
  # Without the advisories, which need a network.
  cargo deny --log-level error check bans licenses sources
else
  echo "cargo-deny is not installed: the dependencies are not checked" >&2
fi
if command -v shellcheck >/dev/null; then
  shellcheck .ci/run hack/*.sh hack/env/*.sh hack/image/*.sh
else
  echo "shellcheck is not installed: the shell scripts are not linted" >&2
fi
