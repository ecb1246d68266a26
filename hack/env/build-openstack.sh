#!/usr/bin/env bash
# Builds the virtual environment of Keystone, Neutron and the `openstack` command. Safe to interrupt.
# A second run waits for the first.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
export PIP_DISABLE_PIP_VERSION_CHECK=1

stamp=$VENV/.complete # written last, so that an incomplete one is built again

is_complete() { [ "$(cat "$stamp" 2>/dev/null)" = "$(python3 -V)" ] && "$VENV/bin/python" -c '' 2>/dev/null; }

lock 9 "$CAIP_CACHE/lock-openstack"
if ! is_complete; then
  say "openstack: building Keystone and Neutron (about a minute and a half)"
  began=$SECONDS log=$CAIP_CACHE/log/pip.log
  mkdir -p "$CAIP_CACHE/log"
  rm -rf "$VENV"
  {
    python3 -m venv "$VENV" &&
      "$VENV/bin/pip" install -q -c "$CONSTRAINTS" -r "$REQUIREMENTS"
  } >"$log" 2>&1 || { tail -n 5 "$log" >&2; die "pip failed; its output is $log"; }
  python3 -V >"$stamp"
  say "openstack: built in $((SECONDS - began)) s"
fi
mkdir -p "$BIN"
ln -sfn "$VENV/bin/openstack" "$BIN/openstack"
