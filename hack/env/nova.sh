#!/usr/bin/env bash
# Adds Nova to the OpenStack of this set: RabbitMQ, Placement, Glance, and Nova with its fake driver, all on loopback.
# Servers are real objects of Nova's API: they are scheduled, their ports are bound, and they become ACTIVE; no machine
# runs behind them. A member of project `demo` can boot flavor `m1.tiny` and image `tiny` on network `private`.
# Safe to run again. openstack.sh comes first.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
export PYTHONWARNINGS=ignore PIP_DISABLE_PIP_VERSION_CHECK=1

((NOVA_PORT_BASE + 8 <= 65535)) || die "Nova's and CAPO's ports would be above 65535; set CAIP_PORT_BASE to 59500 or less"
read -r first_of_connections _ </proc/sys/net/ipv4/ip_local_port_range
((NOVA_PORT_BASE + 8 < first_of_connections)) ||
  say "warning: an outgoing connection may have one of Nova's ports; CAIP_PORT_BASE below $((first_of_connections - 6008)) prevents that"
NOVA_PORT=$NOVA_PORT_BASE
GLANCE_PORT=$((NOVA_PORT_BASE + 1))
PLACEMENT_PORT=$((NOVA_PORT_BASE + 2))
RABBITMQ_PORT=$((NOVA_PORT_BASE + 3))
ERLANG_PORT=$((NOVA_PORT_BASE + 4))
EPMD_PORT=$((NOVA_PORT_BASE + 5))
LOG=$NOVA_DIR/log
NOVA_VENV=$CAIP_CACHE/venv-nova-$(cat "$HERE/nova-constraints.txt" "$HERE/nova-requirements.txt" | sha256sum | cut -c1-10)
server() { echo "$NOVA_DIR/$1.pid"; } # NAME

sql() { mariadb --no-defaults -S "$MARIADB_SOCKET" -uroot -N "$@"; }
database_url() { echo "mysql+pymysql://root@localhost/$1?unix_socket=$MARIADB_SOCKET&charset=utf8"; }

build() {
  local log=$CAIP_CACHE/log/pip-nova.log
  mkdir -p "$CAIP_CACHE/log"
  (
    lock 9 "$CAIP_CACHE/lock-nova" "builds Nova"
    [ "$(cat "$NOVA_VENV/.complete" 2>/dev/null)" != "$(python3 -V)" ] || exit 0
    say "nova: building Nova, Placement and Glance (about three minutes)"
    rm -rf "$NOVA_VENV"
    {
      python3 -m venv "$NOVA_VENV" &&
        "$NOVA_VENV/bin/pip" install -q -c "$HERE/nova-constraints.txt" -r "$HERE/nova-requirements.txt"
    } >"$log" 2>&1 || { tail -n 5 "$log" >&2; die "pip failed; its output is $log"; }
    python3 -V >"$NOVA_VENV/.complete"
  )
}

# --- configuration ------------------------------------------------------------
write_credentials() { # SECTION
  cat <<EOT
[$1]
auth_type = password
auth_url = $KEYSTONE_URL
www_authenticate_uri = $KEYSTONE_URL
username = nova
password = nova
project_name = service
user_domain_id = default
project_domain_id = default
region_name = RegionOne
EOT
}

write_nova_config() {
  cat <<EOT
[DEFAULT]
state_path = $NOVA_DIR/state
my_ip = 127.0.0.1
host = fakehost
transport_url = rabbit://guest:guest@127.0.0.1:$RABBITMQ_PORT/
compute_driver = fake.PredictableNodeUUIDDriver
# The fake driver has two processors.
initial_cpu_allocation_ratio = 1000
initial_ram_allocation_ratio = 1000
initial_disk_allocation_ratio = 1000
[api]
auth_strategy = keystone
[database]
connection = $(database_url nova)
[api_database]
connection = $(database_url nova_api)
[glance]
api_servers = http://127.0.0.1:$GLANCE_PORT
[oslo_concurrency]
lock_path = $NOVA_DIR/state/lock
[vnc]
enabled = false
[conductor]
workers = 1
[scheduler]
workers = 1
[quota]
instances = -1
cores = -1
ram = -1
EOT
  local section
  for section in keystone_authtoken neutron placement service_user; do write_credentials $section; done
  echo "send_service_user_token = true"
}

write_placement_config() {
  printf '[placement_database]\nconnection = %s\n[api]\nauth_strategy = keystone\n' "$(database_url placement)"
  write_credentials keystone_authtoken
}

write_glance_config() {
  cat <<EOT
[DEFAULT]
enabled_backends = fs:file
transport_url = fake:/
[database]
connection = $(database_url glance)
[glance_store]
default_backend = fs
[fs]
filesystem_store_datadir = $NOVA_DIR/images
[paste_deploy]
flavor = keystone
config_file = $NOVA_VENV/etc/glance/glance-api-paste.ini
[oslo_concurrency]
lock_path = $NOVA_DIR/state/lock
EOT
  write_credentials keystone_authtoken
}

write_uwsgi_config() { # NAME PORT MODULE [CONFIG_FILES]
  cat <<EOT
[uwsgi]
http-socket = 127.0.0.1:$2
module = $3
env = OS_${1^^}_CONFIG_DIR=$NOVA_DIR
${4:+env = OS_${1^^}_CONFIG_FILES=$4}
env = OS_NOVA_DISABLE_EVENTLET_PATCHING=true
venv = $NOVA_VENV
master = true
no-orphans = true
processes = 1
threads = 4
enable-threads = true
listen = 100
buffer-size = 65535
lazy-apps = true
die-on-term = true
need-app = true
add-header = Connection: close
EOT
}

write_configs() {
  write_nova_config >nova.conf
  write_placement_config >placement.conf
  write_glance_config >glance-api.conf
  write_uwsgi_config nova "$NOVA_PORT" nova.wsgi.osapi_compute:application >nova.ini
  write_uwsgi_config glance "$GLANCE_PORT" glance.wsgi.api:application glance-api.conf >glance.ini
  write_uwsgi_config placement "$PLACEMENT_PORT" placement.wsgi.api:application placement.conf >placement.ini
  cp "$NOVA_VENV/etc/nova/api-paste.ini" . # nova-api looks for it beside its configuration
  # The driver derives its node's id from the host's name; nova-compute refuses a second start without it in this file.
  python3 -c 'import uuid; print(uuid.uuid5(uuid.NAMESPACE_DNS, "fakehost"))' >state/compute_id
  echo "listeners.tcp.1 = 127.0.0.1:$RABBITMQ_PORT" >rabbitmq.conf
  : >enabled_plugins
}

# --- servers ------------------------------------------------------------------
# Erlang's port mapper is started here, so that it listens on loopback alone and is stopped with the rest.
start_rabbitmq() {
  start "$(server epmd)" "$LOG/epmd.log" epmd -address 127.0.0.1 -port "$EPMD_PORT"
  start "$(server rabbitmq)" "$LOG/rabbitmq.log" env HOME="$NOVA_DIR/rabbitmq" ERL_EPMD_ADDRESS=127.0.0.1 \
    ERL_EPMD_PORT="$EPMD_PORT" RABBITMQ_NODENAME=nova@localhost RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 \
    RABBITMQ_NODE_PORT="$RABBITMQ_PORT" RABBITMQ_DIST_PORT="$ERLANG_PORT" RABBITMQ_MNESIA_BASE="$NOVA_DIR/rabbitmq" \
    RABBITMQ_LOG_BASE="$LOG" RABBITMQ_ENABLED_PLUGINS_FILE="$NOVA_DIR/enabled_plugins" \
    RABBITMQ_CONFIG_FILE="$NOVA_DIR/rabbitmq.conf" RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-kernel \
      inet_dist_use_interface {127,0,0,1} +S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none" \
    /usr/lib/rabbitmq/bin/rabbitmq-server
}

migrate() {
  [ -e .migrated ] && return
  local database job manage=("$NOVA_VENV/bin/nova-manage" --config-file nova.conf)
  say "nova: creating the databases (about a minute)"
  for database in nova nova_api nova_cell0 placement glance; do
    sql -e "drop database if exists $database; create database $database character set utf8mb3"
  done
  { "$NOVA_VENV/bin/placement-manage" --config-file placement.conf db sync &&
    "$NOVA_VENV/bin/glance-manage" --config-file glance-api.conf db_sync; } >"$LOG/db-sync-other.log" 2>&1 &
  job=$!
  {
    "${manage[@]}" api_db sync &&
      "${manage[@]}" cell_v2 map_cell0 --database_connection "$(database_url nova_cell0)" &&
      "${manage[@]}" cell_v2 create_cell --name cell1 &&
      "${manage[@]}" db sync
  } >"$LOG/db-sync-nova.log" 2>&1 || { tail -n 5 "$LOG/db-sync-nova.log" >&2; die "Nova's database failed; see $LOG/db-sync-nova.log"; }
  wait "$job" || { tail -n 5 "$LOG/db-sync-other.log" >&2; die "a database failed; see $LOG/db-sync-other.log"; }
  touch .migrated
}

# One row lets ML2 bind ports on this host. The triggers do what an L3 agent reports: a floating IP is ACTIVE while it is
# associated with a port, else DOWN.
replace_agents() {
  sql neutron <<'EOT'
insert into agents (id, agent_type, `binary`, topic, host, admin_state_up, created_at, started_at, heartbeat_timestamp, description, configurations, resource_versions, `load`, availability_zone)
  select uuid(), 'Open vSwitch agent', 'neutron-openvswitch-agent', 'N/A', 'fakehost', 1, now(), now(), '2099-01-01', null,
         '{"tunnel_types": ["geneve"], "tunneling_ip": "127.0.0.1", "bridge_mappings": {"physnet0": "br0", "physnet1": "br1", "physnet2": "br2"}}', '', 0, 'nova'
  from dual where not exists (select 1 from agents where host = 'fakehost');
create or replace trigger fip_status_insert before insert on floatingips for each row set new.status = if(new.fixed_port_id is null, 'DOWN', 'ACTIVE');
create or replace trigger fip_status_update before update on floatingips for each row set new.status = if(new.fixed_port_id is null, 'DOWN', 'ACTIVE');
EOT
}

# Neutron tells Nova about ports and floating IPs, as in any deployment. Without it a server shows its floating IP only
# after Nova's periodic refresh.
notify_nova() {
  local config=$OPENSTACK_DIR/neutron.conf
  if ! grep -q '^\[nova\]' "$config"; then
    sed -i 's/^\(notify_nova_on_port_.*_changes\) = .*/\1 = true/' "$config"
    write_credentials nova >>"$config"
  fi
  [ "$(cat .notified 2>/dev/null)" = "$(cat "$NEUTRON")" ] && return
  kill -HUP "$(cat "$NEUTRON")" # uWSGI starts its workers again
  cp "$NEUTRON" .notified
}

seed() { "$VENV/bin/python" "$HERE/seed_nova.py" "$1" "$CLOUDS_FILE" "http://127.0.0.1" "$NOVA_PORT" "$GLANCE_PORT" "$PLACEMENT_PORT" >"$LOG/seed.log" 2>&1 || { tail -n 5 "$LOG/seed.log" >&2; die "Nova's objects could not be created; see $LOG/seed.log"; }; } # services|objects

compute_has_reported() {
  [ "$(sql nova -e "select count(*) from services where \`binary\` = 'nova-compute' and last_seen_up >= '$1'")" = 1 ]
}

start_nova() {
  local name since
  for name in placement glance nova; do
    start "$(server $name)" "$LOG/$name.log" "$NOVA_VENV/bin/uwsgi" --ini "$NOVA_DIR/$name.ini"
  done
  port_is_taken() { ! port_is_free "$1"; }
  wait_for 60 RabbitMQ "$LOG/rabbitmq.log" "$(server rabbitmq)" port_is_taken "$RABBITMQ_PORT"
  since='2000-01-01'
  alive "$(server nova-compute)" || since=$(date -u '+%F %T')
  # They set titles for their processes. Without the variable these replace the environment, by which a server is found
  # when it is stopped.
  for name in conductor scheduler compute; do
    start "$(server nova-$name)" "$LOG/nova-$name.log" env SPT_NOENV=1 "$NOVA_VENV/bin/nova-$name" --config-file nova.conf
  done
  wait_for 120 Placement "$LOG/placement.log" "$(server placement)" curl -s "http://127.0.0.1:$PLACEMENT_PORT/"
  wait_for 120 Glance "$LOG/glance.log" "$(server glance)" curl -s "http://127.0.0.1:$GLANCE_PORT/"
  wait_for 120 Nova "$LOG/nova.log" "$(server nova)" curl -s "http://127.0.0.1:$NOVA_PORT/"
  wait_for 120 nova-compute "$LOG/nova-compute.log" "$(server nova-compute)" compute_has_reported "$since"
  for name in conductor scheduler; do
    alive "$(server nova-$name)" || { tail -n 5 "$LOG/nova-$name.log" >&2; die "nova-$name has ended"; }
  done
  if [ "$(sql nova_api -e "select count(*) from host_mappings where host = 'fakehost'")" = 0 ]; then
    "$NOVA_VENV/bin/nova-manage" --config-file nova.conf cell_v2 discover_hosts >"$LOG/discover-hosts.log" 2>&1 ||
      { tail -n 5 "$LOG/discover-hosts.log" >&2; die "Nova did not find its host; see $LOG/discover-hosts.log"; }
  fi
}

alive "$NEUTRON" || die "Neutron of '$CAIP_ENV' is not up; run hack/env/up.sh first"
# The ports come first: otherwise a build of minutes may turn out useless.
require_port "$(server nova)" "$NOVA_PORT" Nova
require_port "$(server glance)" "$GLANCE_PORT" Glance
require_port "$(server placement)" "$PLACEMENT_PORT" Placement
require_port "$(server rabbitmq)" "$RABBITMQ_PORT" RabbitMQ
require_port "$(server rabbitmq)" "$ERLANG_PORT" RabbitMQ
require_port "$(server epmd)" "$EPMD_PORT" "Erlang's port mapper"
"$HERE/packages.sh" --nova
build
mkdir -p "$LOG" "$NOVA_DIR"/{rabbitmq,images,state/lock}
cd "$NOVA_DIR"
write_configs
start_rabbitmq
migrate
replace_agents
seed services
notify_nova
start_nova
wait_for 60 Neutron "$OPENSTACK_DIR/log/neutron-uwsgi.log" "$NEUTRON" curl -sf "$NEUTRON_URL/"
seed objects
say "nova: up after $SECONDS s: http://127.0.0.1:$NOVA_PORT/v2.1"
