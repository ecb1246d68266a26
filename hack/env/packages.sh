#!/usr/bin/env bash
# Installs the Debian packages that the servers and tests need and that are missing. Toolchains (go, python3, cargo) are
# never installed: their versions are the user's choice.
#   packages.sh [--nova]     --nova: also what Nova needs
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

require_toolchains() {
  have python3 || die "python3 is needed (3.10 or newer): it runs Keystone and Neutron"
  python3 -V >/dev/null 2>&1 || die "python3 does not work: 'python3 -V' fails"
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || die "python3 is $(python3 -V | cut -d' ' -f2); 3.10 or newer is needed"
  have go || die "go is needed (1.26, or 1.21 and newer with GOTOOLCHAIN=auto): it builds Kubernetes and Cluster API"
  local version
  version=$(go env GOVERSION 2>/dev/null) || die "go does not work: 'go env' fails"
  if ! [[ $version =~ ^go1\.([0-9]+) ]] || ((BASH_REMATCH[1] < 21)); then
    die "go is ${version:-too old}; 1.26 is needed, or 1.21 and newer with GOTOOLCHAIN=auto"
  fi
}

missing_packages() {
  # The -core packages contain the programs without a service, so that apt starts no MariaDB.
  [ -x /usr/sbin/mariadbd ] || have mariadbd || echo mariadb-server-core
  have mariadb || echo mariadb-client-core
  have gcc || printf '%s\n' gcc libc6-dev # uWSGI is compiled from source
  python3 -c 'import sysconfig, os, sys; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' || echo python3-dev
  python3 -c 'import venv, ensurepip' 2>/dev/null || echo python3-venv
  have openssl || echo openssl
  have curl || echo curl
  have jq || echo jq
  [ -e /etc/ssl/certs/ca-certificates.crt ] || echo ca-certificates
}

# Prometheus' package would start a service now and at each boot. Only its two programs are needed.
has_prometheus() {
  local program
  for program in prometheus promtool; do
    [ -x "$BIN/$program" ] || have "$program" || return
  done
}
unpack_prometheus() {
  local folder
  mkdir -p "$BIN" && folder=$(mktemp -d "$CAIP_CACHE/prometheus.XXXXXX") && chmod 755 "$folder" &&
    (cd "$folder" && apt-get download -q prometheus && dpkg-deb -x prometheus_*.deb .) &&
    mv "$folder"/usr/bin/{promtool,prometheus} "$BIN" && rm -rf "$folder"
}

# Debian starts the broker that it installs, unless a policy forbids it, and again at each boot. Here another one is started.
install_rabbitmq() (
  policy=/usr/sbin/policy-rc.d as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo)
  if [ ! -e $policy ] || grep -q caip-openstack $policy; then
    trap '"${as_root[@]}" rm -f $policy' EXIT
    printf '#!/bin/sh\n# of caip-openstack\nexit 101\n' | "${as_root[@]}" tee $policy >/dev/null
    "${as_root[@]}" chmod +x $policy
  fi
  "$HERE/install.sh" rabbitmq-server
  ! have systemctl || "${as_root[@]}" systemctl disable -q rabbitmq-server.service epmd.service epmd.socket 2>/dev/null || true
)

[ $# = 0 ] || [ "$*" = --nova ] || die "usage: packages.sh [--nova]"
require_toolchains
[ "${1:-}" != --nova ] || [ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || install_rabbitmq
missing=$(missing_packages)
mapfile -t packages <<<"$missing"
[ -z "$missing" ] || "$HERE/install.sh" "${packages[@]}"
if ! has_prometheus; then
  have apt-get || die "missing: prometheus (Debian's name); there is no apt-get here, install it by hand"
  say "packages: unpacking prometheus"
  log=$CAIP_CACHE/log/prometheus.log
  mkdir -p "$CAIP_CACHE/log"
  # If apt has no package lists yet, an installation fetches them.
  { unpack_prometheus || { "$HERE/install.sh" ca-certificates && unpack_prometheus; }; } >"$log" 2>&1 ||
    { tail -n 5 "$log" >&2; die "prometheus cannot be unpacked; the output is $log"; }
fi
