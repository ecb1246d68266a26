# shellcheck shell=bash disable=SC2034 # what is set here is used where it is sourced
# What the scripts of this folder share: paths, and how servers are started and stopped. Sourced, never run. Sourcing it
# starts, builds and changes nothing.
#
#   CAIP_CACHE      the folder of everything that is built or stored (default ~/.cache/caip-openstack)
#   CAIP_ENV        name of one set of servers with its own data (default dev)
#   CAIP_PORT_BASE  the first of the ten loopback ports that the set uses; Nova and CAPO use nine from 6000 above it

shopt -s inherit_errexit

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

CAIP_CACHE=$(realpath -m "${CAIP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/caip-openstack}")
CAIP_ENV=${CAIP_ENV:-dev}

# No proxy reaches the servers of this machine.
[[ ,${no_proxy:-}, = *,127.0.0.1,* ]] || export no_proxy=127.0.0.1,localhost${no_proxy:+,$no_proxy}
export NO_PROXY=$no_proxy

die() { echo "error: $*" >&2; exit 1; }
say() { echo "$*" >&2; }
have() { command -v "$1" >/dev/null; }
# The version that a FOLDER's go.mod requires. The module also stands there as a tool, without a version.
module_version() { awk -v module="$2" '$1 == module && $2 ~ /^v/ { print $2 }' "$1/go.mod"; } # FOLDER MODULE
capi_version() { module_version "$1" sigs.k8s.io/cluster-api; } # FOLDER

require_cargo() {
  have cargo || die "cargo is needed (Rust $(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$HERE/../../Cargo.toml") or newer), and is not in PATH"
}

# The name becomes a folder and part of a unix socket's path, which Linux limits to 107 characters.
[[ $CAIP_ENV =~ ^[a-z0-9][a-z0-9-]{0,30}$ ]] ||
  die "CAIP_ENV must be at most 31 lower case letters, digits and dashes, not '$CAIP_ENV'"

ENV_DIR=$CAIP_CACHE/env/$CAIP_ENV
OPENSTACK_DIR=$ENV_DIR/openstack
NOVA_DIR=$OPENSTACK_DIR/nova
MARIADB_SOCKET=$OPENSTACK_DIR/mariadb.sock
[ ${#MARIADB_SOCKET} -le 107 ] ||
  die "the path $MARIADB_SOCKET is too long for a unix socket; set CAIP_CACHE to a shorter folder"

BIN=$CAIP_CACHE/bin
REQUIREMENTS=$HERE/requirements.txt
# CAIP_OPENSTACK is an older release of OpenStack, whose pins are here.
CONSTRAINTS=$HERE/constraints${CAIP_OPENSTACK:+-$CAIP_OPENSTACK}.txt
[ -e "$CONSTRAINTS" ] || die "CAIP_OPENSTACK must be a release that hack/env has constraints of, not '$CAIP_OPENSTACK'"
# Each set of pins has a virtual environment of its own, since servers may be running from another one.
VENV=$CAIP_CACHE/venv-$(cat "$CONSTRAINTS" "$REQUIREMENTS" | sha256sum | cut -c1-10)

# Each well-known set has its own ports, so that they can run at the same time.
port_base() {
  case $CAIP_ENV in
    dev) echo 21000 ;;
    test) echo 21010 ;;
    demo) echo 21020 ;;
    bench) echo 21030 ;;
    *) echo $((21100 + $(cksum <<<"$CAIP_ENV" | cut -d' ' -f1) % 200 * 10)) ;;
  esac
}
CAIP_PORT_BASE=${CAIP_PORT_BASE:-$(port_base)}
if ! [[ $CAIP_PORT_BASE =~ ^[0-9]{4,5}$ ]] || ((CAIP_PORT_BASE < 1024 || CAIP_PORT_BASE > 65526)); then
  die "CAIP_PORT_BASE must be a port from 1024 to 65526, not '$CAIP_PORT_BASE'"
fi
KEYSTONE_PORT=$CAIP_PORT_BASE
NEUTRON_PORT=$((CAIP_PORT_BASE + 1))
HEALTH_PORT=$((CAIP_PORT_BASE + 5)) # of a controller started by hand or by the demo
METRICS_PORT=$((CAIP_PORT_BASE + 6))
# Of Nova and what it needs; away from the others, since only `make e2e-capo` starts them.
NOVA_PORT_BASE=$((CAIP_PORT_BASE + 6000))

KEYSTONE_URL=http://127.0.0.1:$KEYSTONE_PORT/v3
NEUTRON_URL=http://127.0.0.1:$NEUTRON_PORT

CLOUDS_FILE=$OPENSTACK_DIR/clouds.yaml
MARIADB=$OPENSTACK_DIR/mariadb.pid
KEYSTONE=$OPENSTACK_DIR/keystone.pid
NEUTRON=$OPENSTACK_DIR/neutron.pid
CONTROLLER_PID=$ENV_DIR/controller.pid
CONTROLLER_LOG=$ENV_DIR/controller.log

# A set has one OpenStack, and one or two management clusters. Selects the one that the names below mean.
management_cluster() { # 1|2
  local first=$((CAIP_PORT_BASE + 2)) suffix=
  [ "$1" = 1 ] || { first=$((CAIP_PORT_BASE + 7)) suffix=-$1; }
  APISERVER_PORT=$first
  ETCD_PORT=$((first + 1))
  CAPI_PORT=$((first + 2))
  CAPO_PORT=$((NOVA_PORT_BASE + 6 + $1))
  MANAGEMENT_CLUSTER=$CAIP_ENV$suffix
  MANAGEMENT_DIR=$ENV_DIR/management$suffix
  KUBECONFIG_FILE=$MANAGEMENT_DIR/kubeconfig
  ETCD=$MANAGEMENT_DIR/etcd.pid
  APISERVER=$MANAGEMENT_DIR/kube-apiserver.pid
  CONTROLLER_MANAGER=$MANAGEMENT_DIR/kube-controller-manager.pid
  CAPI=$MANAGEMENT_DIR/capi-core.pid
  CAPO=$MANAGEMENT_DIR/capo.pid
  AUDIT_LOG=$MANAGEMENT_DIR/audit.log # the requests of the controller's ServiceAccount
}
management_cluster 1

# --- servers ------------------------------------------------------------------
# A server is named by its pid file and has CAIP_SERVER=PIDFILE in its environment. The variable identifies its
# processes: a pid may be reused by another program, and a killed parent may leave children that hold its port.

server_pids() { # PIDFILE: all running processes of that server
  local environ
  # shellcheck disable=SC2013 # one path a line, without blanks
  for environ in $(grep -slzxF "CAIP_SERVER=$1" /proc/[0-9]*/environ); do
    environ=${environ#/proc/}
    echo "${environ%/environ}"
  done
}

alive() { # PIDFILE
  [ -s "$1" ] && grep -qszxF "CAIP_SERVER=$1" "/proc/$(<"$1")/environ"
}

start() { # PIDFILE LOG COMMAND...: in a session of its own, so that Ctrl-C does not reach it
  local pidfile=$1 log=$2 pid deadline=$((SECONDS + 60))
  shift 2
  alive "$pidfile" && return
  stop "$pidfile"
  # The locks are not inherited: a server that held one would lock out all later runs.
  CAIP_SERVER=$pidfile setsid nohup "$@" >>"$log" 2>&1 </dev/null 7>&- 8>&- 9>&- &
  pid=$!
  echo $pid >"$pidfile.tmp" && mv "$pidfile.tmp" "$pidfile"
  # The variable appears when the program has replaced the forked shell: after seconds where the disk is busy.
  while ! alive "$pidfile" && kill -0 $pid 2>/dev/null && ((SECONDS < deadline)); do sleep .02; done
}

stop() { # PIDFILE [SECONDS]: TERM to the server, then KILL to what remains of it
  local pidfile=$1 deadline=$((SECONDS + ${2:-15})) pid
  if alive "$pidfile"; then kill "$(<"$pidfile")" 2>/dev/null || true; fi
  while alive "$pidfile" && ((SECONDS < deadline)); do sleep .1; done
  while pid=$(server_pids "$pidfile") && [ -n "$pid" ]; do
    # shellcheck disable=SC2086 # a list
    kill -9 $pid 2>/dev/null || true
    sleep .1
  done
  rm -f "$pidfile"
}

wait_for() { # SECONDS WHAT LOG PIDFILE COMMAND...: until the command succeeds; fails when the server has ended
  local seconds=$1 what=$2 log=$3 pidfile=$4 deadline=$((SECONDS + $1))
  shift 4
  until "$@" >/dev/null 2>&1; do
    if ! alive "$pidfile" || ((SECONDS > deadline)); then
      "$@" >/dev/null 2>&1 && return
      tail -n 15 "$log" >&2 || true
      alive "$pidfile" || die "$what ended right after it was started; its log is $log"
      die "$what did not answer within $seconds s; its log is $log"
    fi
    sleep .2
  done
}

port_is_free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

require_port() { # PIDFILE PORT WHAT: to be called before anything is started
  alive "$1" && return
  [ -n "$(server_pids "$1")" ] && return # a process of ours that start() will end
  port_is_free "$2" || die "port $2 on 127.0.0.1, for $3, is in use; set CAIP_PORT_BASE (now $CAIP_PORT_BASE) to move all ports"
}

# --- side by side -------------------------------------------------------------
# Each track has a process group, so that it can be ended together with its compilers. Servers have sessions of their own
# and stay.
TRACKS=()
start_track() { # COMMAND...
  set -m
  "$@" & TRACKS+=($!)
  set +m
}

await_tracks() { # fails as soon as one has failed
  local _
  for _ in "${TRACKS[@]}"; do wait -n || return; done
}

end_tracks() { # TERM, and KILL to what still runs after a minute: a track may have servers to stop
  local pid signal deadline
  for signal in TERM KILL; do # MariaDB does not stop for TERM while it makes its data folder
    for pid in "${TRACKS[@]}"; do kill "-$signal" -- "-$pid" 2>/dev/null || true; done
    deadline=$((SECONDS + 60))
    while ((SECONDS < deadline)); do
      tracks_run || return 0
      sleep .1
    done
  done
}
tracks_run() {
  local pid
  for pid in "${TRACKS[@]}"; do kill -0 -- "-$pid" 2>/dev/null && return; done
  return 1
}

# A filter that selects no test would pass.
require_test() { # FLAGS OF CARGO TEST -- NAME
  [[ $(cargo test --locked -q "${@:1:$#-1}" --list "${!#}") = *': test'* ]] || die "no test has '${!#}' in its name"
}

# --- compilers ----------------------------------------------------------------
await_compiler() { # PID NAME COMMAND...: says at times how much is compiled, which the command prints; fails as it does
  local pid=$1 name=$2 began=$SECONDS said=$SECONDS
  shift 2
  while sleep .2 && kill -0 "$pid" 2>/dev/null; do
    ((SECONDS - said >= 20)) || continue
    said=$SECONDS
    say "$name: $("$@") compiled in $((SECONDS - began)) s"
  done
  wait "$pid" || return
  say "$name: compiled in $((SECONDS - began)) s"
}

# --- a run on servers of its own ------------------------------------------------
# The caller is in the project's folder.
prepare_run() { # WHAT IT DOES: also has the servers stopped when the script ends, unless CAIP_KEEP_ENV=1
  require_cargo
  hack/env/packages.sh
  lock 7 "$CAIP_CACHE/env/.$CAIP_ENV-run" "$1 on '$CAIP_ENV'"
  trap end_run EXIT
  trap 'exit 130' INT TERM
}

end_run() { # [STATUS]
  local status=${1:-$?}
  trap '' INT TERM
  [ "${CAIP_KEEP_ENV:-}" = 1 ] || hack/env/down.sh || status=1
  exit "$status"
}

start_new_servers() { # [--second]
  hack/env/down.sh --purge
  hack/env/up.sh "$@"
  use_servers
}

use_servers() { # sets the variables of env.sh
  local variables
  variables=$("$HERE/env.sh") || return
  eval "$variables"
}

# --- one at a time ------------------------------------------------------------
# Descriptor 7 holds the lock of a whole test run, 8 that of a set of servers, 9 that of a build. The kernel releases a
# lock when the process and its children have ended.
lock() { # 7|8|9 FILE [WHAT]: waits for another run; WHAT says in a message what that run does
  mkdir -p "$(dirname "$2")"
  eval "exec $1>>\"\$2\""
  flock -n "$1" && return
  [ -z "${3:-}" ] || say "waiting for another run that $3"
  flock "$1"
}
