#!/usr/bin/env bash
# Installs the Debian packages that the servers and tests need, and only those that are missing.
# The toolchains (go, python3, cargo) are never installed from here: their versions are the user's choice.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

require_toolchains() {
  have python3 || die "python3 is needed (3.10 or newer): it runs Keystone and Neutron"
  python3 -V >/dev/null 2>&1 || die "python3 does not work: 'python3 -V' fails"
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || die "python3 is $(python3 -V | cut -d' ' -f2); 3.10 or newer is needed"
  have go || die "go is needed (1.26, or from 1.21 on one that may fetch it): it builds Kubernetes and Cluster API"
  local version
  version=$(go env GOVERSION 2>/dev/null) || die "go does not work: 'go env' fails"
  if ! [[ $version =~ ^go1\.([0-9]+) ]] || ((BASH_REMATCH[1] < 21)); then
    die "go is ${version:-too old}; 1.26 is needed, or from 1.21 on one that may fetch it"
  fi
}

missing_packages() {
  # The -core packages are the programs without the service: no MariaDB of the system's is started.
  [ -x /usr/sbin/mariadbd ] || have mariadbd || echo mariadb-server-core
  have mariadb || echo mariadb-client-core
  have gcc || printf '%s\n' gcc libc6-dev # uWSGI comes as source
  python3 -c 'import sysconfig, os, sys; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' || echo python3-dev
  python3 -c 'import venv, ensurepip' 2>/dev/null || echo python3-venv
  have openssl || echo openssl
  have curl || echo curl
  [ -e /etc/ssl/certs/ca-certificates.crt ] || echo ca-certificates
}

# Prometheus' package brings a service, which would run now and after each boot. Only its two programs are wanted.
has_prometheus() {
  local program
  for program in prometheus promtool; do
    [ -x "$BIN/$program" ] || have "$program" || return
  done
}
unpack_prometheus() {
  local folder=$CAIP_CACHE/prometheus.tmp
  rm -rf "$folder" && mkdir -p "$folder" "$BIN" &&
    (cd "$folder" && apt-get download -q prometheus && dpkg-deb -x prometheus_*.deb .) &&
    mv "$folder"/usr/bin/{promtool,prometheus} "$BIN" && rm -rf "$folder"
}

require_toolchains
missing=$(missing_packages)
mapfile -t packages <<<"$missing"
[ -z "$missing" ] || "$HERE/install.sh" "${packages[@]}"
if ! has_prometheus; then
  have apt-get || die "missing: prometheus (Debian's name); there is no apt-get here, install it by hand"
  say "packages: unpacking prometheus"
  log=$CAIP_CACHE/log/prometheus.log
  mkdir -p "$CAIP_CACHE/log"
  # Where apt has no list of packages yet, an installation fetches it.
  { unpack_prometheus || { "$HERE/install.sh" ca-certificates && unpack_prometheus; }; } >"$log" 2>&1 ||
    { tail -n 5 "$log" >&2; die "prometheus cannot be unpacked; the output is $log"; }
fi
