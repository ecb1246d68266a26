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
. hack/cargo-tool.sh

if [ "${1:-}" = --installed ] && ! has_cargo_tool deny "$version"; then
  echo "NOT CHECKED: the dependencies' licenses, sources, bans and advisories (make deny installs cargo-deny)" >&2
  exit 0
fi
need_cargo_tool deny "$version"

cargo deny --log-level error check bans licenses sources
if reason=$(cargo deny --log-level error fetch db 2>&1); then
  cargo deny --log-level error check --disable-fetch advisories
else
  echo "NOT CHECKED: the dependencies' advisories: the database cannot be fetched: ${reason%%$'\n'*}" >&2
  [ "${DENY_ADVISORIES:-}" != required ]
fi
