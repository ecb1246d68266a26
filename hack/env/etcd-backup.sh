#!/usr/bin/env bash
# Backs up the etcd of a set's first management cluster, and restores it as an operator does.
#   etcd-backup.sh save FILE
#   etcd-backup.sh restore FILE [N]    with N, later versions of objects are larger by N: etcdutl's --bump-revision N and
#                                      --mark-compacted
# A restore stops the whole cluster, and starts it again. Controllers that a user or a test started go on.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

usage() { die "usage: etcd-backup.sh save FILE, or restore FILE [N]"; }
save() { # FILE
  [ $# = 1 ] || usage
  "$VENV/bin/python" "$HERE/etcd_snapshot.py" "http://127.0.0.1:$ETCD_PORT" "$1"
}

restore() { # FILE [N]
  local options=() server
  case $# in
    1) ;;
    2) options=(--bump-revision "$2" --mark-compacted) ;;
    *) usage ;;
  esac
  [ -s "$1" ] || die "$1 is missing or empty"
  "$HERE/build-programs.sh" etcdutl
  # What writes stops before what stores.
  for server in "$CAPI" "$CONTROLLER_MANAGER" "$APISERVER" "$ETCD"; do stop "$server" 5; done
  rm -rf "$MANAGEMENT_DIR/etcd"
  "$BIN/etcdutl" snapshot restore "$1" --data-dir "$MANAGEMENT_DIR/etcd" "${options[@]}" \
    >"$MANAGEMENT_DIR/log/etcdutl.log" 2>&1 ||
    { tail -n 5 "$MANAGEMENT_DIR/log/etcdutl.log" >&2; die "the backup cannot be restored"; }
  "$HERE/management.sh"
}

[ $# -gt 0 ] || usage
case $1 in
  save | restore) "$@" ;;
  *) usage ;;
esac
