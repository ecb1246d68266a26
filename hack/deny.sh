#!/usr/bin/env bash
# Checks the dependencies with cargo-deny: licenses, sources, bans, and known vulnerabilities where the database of
# advisories can be fetched.
#
#   hack/deny.sh               installs cargo-deny if it is missing: `make deny`
#   hack/deny.sh --installed   does nothing without it: a part of `make lint`
#
# DENY_ADVISORIES=required makes it an error if the database cannot be fetched.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.20.2
tools=${CAIP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/caip-openstack}/cargo
export PATH="$tools/bin:$PATH"

if ! cargo deny --version 2>/dev/null | grep -q " $version$"; then
  if [ "${1:-}" = --installed ]; then
    echo "NOT CHECKED: the dependencies' licenses, sources, bans and advisories (make deny installs cargo-deny)" >&2
    exit 0
  fi
  cargo install --locked --quiet --root "$tools" "cargo-deny@$version"
fi

cargo deny --log-level error check bans licenses sources
if reason=$(cargo deny --log-level error fetch db 2>&1); then
  cargo deny --log-level error check --disable-fetch advisories
else
  echo "NOT CHECKED: the dependencies' advisories: the database cannot be fetched: ${reason%%$'\n'*}" >&2
  [ "${DENY_ADVISORIES:-}" != required ]
fi
