#!/usr/bin/env bash
# Prepares the container in which the workflows run, Debian with the official Rust image: adds what `make test` and
# `make dist` expect and do not install.
set -euo pipefail
cd "$(dirname "$0")/.."

# The clone belongs to another user than the container's root.
git config --global --add safe.directory "$PWD"
hack/env/install.sh make python3 shellcheck zstd
rustup component add clippy rustfmt
rustup target add x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu
