#!/usr/bin/env bash
# Stops a set of servers by its pid files, with what else was started on it: a controller, a node, a registry.
#   down.sh [--purge]      --purge also removes its data, and keeps the programs
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

[ $# = 0 ] || [ "$*" = --purge ] || die "usage: down.sh [--purge]"
[ -d "$ENV_DIR" ] || exit 0
lock 8 "$ENV_DIR/lock" "starts or stops '$CAIP_ENV'"

# What writes stops before what stores.
for server in "$ENV_DIR"/*.pid; do [ ! -e "$server" ] || stop "$server"; done
for which in 1 2; do
  management_cluster "$which"
  for server in "$CAPO" "$CAPI" "$CONTROLLER_MANAGER" "$APISERVER" "$ETCD"; do stop "$server" 5 & done
done
for server in "$KEYSTONE" "$NEUTRON" "$NOVA_DIR"/*.pid; do stop "$server" & done
wait
stop "$MARIADB" 30

if [ "${1:-}" = --purge ]; then
  # The lock stays, since another run may be waiting for it.
  find "$ENV_DIR" -mindepth 1 -maxdepth 1 ! -name lock -exec rm -rf {} +
  say "'$CAIP_ENV' is stopped and its data are removed"
else
  say "'$CAIP_ENV' is stopped"
fi
