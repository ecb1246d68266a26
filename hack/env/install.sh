#!/usr/bin/env bash
# Installs Debian packages, as root or by sudo:  install.sh PACKAGE...
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

[ $# -gt 0 ] || die "usage: install.sh PACKAGE..."
mkdir -p "$CAIP_CACHE/log"
lock 9 "$CAIP_CACHE/lock-packages" "installs Debian packages"
have apt-get || die "missing: $* (Debian's names); there is no apt-get here, install them by hand"
as_root=()
if [ "$(id -u)" != 0 ]; then
  have sudo || die "missing: run as root: apt-get install --no-install-recommends $*"
  as_root=(sudo)
  [ -t 0 ] || as_root+=(-n)
  "${as_root[@]}" true || die "sudo did not work; run as root: apt-get install --no-install-recommends $*"
fi
say "packages: installing $*"
log=$CAIP_CACHE/log/apt.log
{
  "${as_root[@]}" apt-get update -q &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends "$@"
} >"$log" 2>&1 || { tail -n 5 "$log" >&2; die "apt-get failed; its output is $log"; }
