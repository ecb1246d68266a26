#!/usr/bin/env bash
# Starts MariaDB, Keystone and Neutron of this set on loopback: no agents, no message bus.
# Safe to run again: running servers stay, and unfinished steps are repeated.
#
# Each request to Keystone or Neutron is one line of log/{keystone,neutron}-access.log:
#   epoch method uri status milliseconds
# Tests and the benchmark count Neutron calls there: they depend on the format.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
export PYTHONWARNINGS=ignore

LOG=$OPENSTACK_DIR/log

sql() { mariadb --no-defaults -S "$MARIADB_SOCKET" -uroot -e "$1"; }
database_url() { echo "mysql+pymysql://root@localhost/$1?unix_socket=$MARIADB_SOCKET&charset=utf8"; }

# A user's PATH on Debian has no sbin.
PATH=$PATH:/usr/sbin

# The databases before users and networks are created are the same for every set, and creating them takes half a minute of
# two processors. So they are created once, and copied.
DATABASES=$CAIP_CACHE/databases-$({ echo "$VENV" && mariadbd --version && cat "$0"; } | sha256sum | cut -c1-10)

create_data_folder() {
  mariadb-install-db --no-defaults --user="$(id -un)" --datadir="$OPENSTACK_DIR/mariadb.tmp" \
    --auth-root-authentication-method=normal --skip-test-db >"$LOG/mariadb-install.log" 2>&1 ||
    { tail -n 5 "$LOG/mariadb-install.log" >&2; die "MariaDB could not create its data folder; see $LOG/mariadb-install.log"; }
}
copy_databases() {
  cp -a "$DATABASES"/{fernet,credential,.migrated} .
  cp -a "$DATABASES/mariadb" mariadb.tmp
}
keep_databases() {
  local new=$DATABASES-$CAIP_ENV
  stop "$MARIADB" 30
  rm -rf "$new" && mkdir "$new"
  cp -a mariadb fernet credential .migrated "$new"
  mv -T "$new" "$DATABASES" 2>/dev/null || rm -rf "$new" # another set was faster
  start_mariadb
}

start_mariadb() {
  # Durability is off: it doubles the speed, and the data need not survive a reboot.
  cat >my.cnf <<EOT
[mariadbd]
user=$(id -un)
datadir=$OPENSTACK_DIR/mariadb
socket=$MARIADB_SOCKET
pid-file=$OPENSTACK_DIR/mariadbd-own.pid
skip-networking
max_connections=300
innodb_flush_log_at_trx_commit=0
innodb_doublewrite=0
EOT
  if [ ! -d mariadb ]; then
    rm -rf mariadb.tmp fernet credential .migrated .seeded
    if [ -d "$DATABASES" ]; then copy_databases; else create_data_folder; fi
    mv mariadb.tmp mariadb
  fi
  start "$MARIADB" "$LOG/mariadb.log" mariadbd --defaults-file="$OPENSTACK_DIR/my.cnf"
  wait_for 60 MariaDB "$LOG/mariadb.log" "$MARIADB" sql 'select 1'
}

write_keystone_config() {
  cat >keystone.conf <<EOT
[DEFAULT]
log_file = $LOG/keystone.log
[database]
connection = $(database_url keystone)
[token]
provider = fernet
expiration = 3600
[fernet_tokens]
key_repository = $OPENSTACK_DIR/fernet
# Not used, but keystone-manage creates it, by default under /etc.
[fernet_receipts]
key_repository = $OPENSTACK_DIR/fernet
[credential]
key_repository = $OPENSTACK_DIR/credential
[identity]
# The minimum: password hashing is not tested.
password_hash_rounds = 4
EOT
}

write_neutron_config() {
  cat >neutron.conf <<EOT
[DEFAULT]
core_plugin = ml2
service_plugins = router
transport_url = fake:/
log_file = $LOG/neutron.log
state_path = $OPENSTACK_DIR/state
api_paste_config = $VENV/etc/neutron/api-paste.ini
notify_nova_on_port_status_changes = false
notify_nova_on_port_data_changes = false
[oslo_concurrency]
lock_path = $OPENSTACK_DIR/state/lock
[database]
connection = $(database_url neutron)
[keystone_authtoken]
auth_type = password
auth_url = $KEYSTONE_URL
www_authenticate_uri = $KEYSTONE_URL
username = neutron
password = neutron
project_name = service
user_domain_id = default
project_domain_id = default
service_type = network
[ml2]
type_drivers = flat,geneve
project_network_types = geneve
# Its name in older releases.
tenant_network_types = geneve
mechanism_drivers = openvswitch
[ml2_type_flat]
flat_networks = *
[ml2_type_geneve]
vni_ranges = 1:65535
max_header_size = 38
EOT
}

write_uwsgi_config() { # keystone|neutron PORT
  local program="module = $1.wsgi.api:application" processes=2 threads=4
  # Older releases have a script instead, and eventlet, which gives each request to the thread that it likes.
  [ ! -e "$VENV/bin/$1-api" ] || program="wsgi-file = $VENV/bin/$1-api" processes=8 threads=1
  cat >"$1.ini" <<EOT
[uwsgi]
http-socket = 127.0.0.1:$2
$program
env = OS_${1^^}_CONFIG_DIR=$OPENSTACK_DIR
env = OS_${1^^}_CONFIG_FILES=$1.conf
venv = $VENV
master = true
# Workers must not outlive a killed master and hold the port.
no-orphans = true
processes = $processes
threads = $threads
enable-threads = true
listen = 100
buffer-size = 65535
lazy-apps = true
die-on-term = true
need-app = true
add-header = Connection: close
req-logger = file:$LOG/$1-access.log
log-format = %(epoch) %(method) %(uri) %(status) %(msecs)
EOT
}

migrate() {
  [ -e .migrated ] && return
  local job manage=("$VENV/bin/keystone-manage" --config-file keystone.conf)
  say "openstack: creating the databases (about half a minute)"
  rm -rf fernet credential .seeded
  mkdir -m 700 fernet credential
  sql 'drop database if exists keystone; create database keystone character set utf8mb3;
       drop database if exists neutron; create database neutron character set utf8mb3'
  "$VENV/bin/neutron-db-manage" --config-file neutron.conf upgrade heads >"$LOG/neutron-db.log" 2>&1 &
  job=$!
  {
    "${manage[@]}" db_sync &&
      "${manage[@]}" fernet_setup --keystone-user "$(id -un)" --keystone-group "$(id -gn)" &&
      "${manage[@]}" credential_setup --keystone-user "$(id -un)" --keystone-group "$(id -gn)" &&
      "${manage[@]}" bootstrap --bootstrap-password admin --bootstrap-region-id RegionOne \
        --bootstrap-public-url "$KEYSTONE_URL" --bootstrap-internal-url "$KEYSTONE_URL"
  } >"$LOG/keystone-manage.log" 2>&1 || { tail -n 5 "$LOG/keystone-manage.log" >&2; die "Keystone's database failed; see $LOG/keystone-manage.log and $LOG/keystone.log"; }
  wait "$job" || { tail -n 5 "$LOG/neutron-db.log" >&2; die "Neutron's database failed; see $LOG/neutron-db.log"; }
  touch .migrated
  keep_databases
}

# CAIP_PORT_BASE may have changed since the catalogue was written.
move_endpoints() {
  sql "update keystone.endpoint set url = regexp_replace(url, ':[0-9]+/v3\$', ':$KEYSTONE_PORT/v3');
       update keystone.endpoint set url = regexp_replace(url, ':[0-9]+\$', ':$NEUTRON_PORT')"
}

seed() {
  local mark
  mark="$CAIP_PORT_BASE $(sha256sum <"$HERE/seed.py")"
  [ "$(cat .seeded 2>/dev/null)" = "$mark" ] && [ -s "$CLOUDS_FILE" ] && return
  say "openstack: creating users, networks and quotas"
  "$VENV/bin/python" "$HERE/seed.py" "$KEYSTONE_URL" "$NEUTRON_URL" "$CLOUDS_FILE" >"$LOG/seed.log" 2>&1 ||
    { tail -n 5 "$LOG/seed.log" >&2; die "the users and networks could not be created; see $LOG/seed.log"; }
  echo "$mark" >.seeded
}

mkdir -p "$LOG" "$OPENSTACK_DIR/state/lock"
cd "$OPENSTACK_DIR"
start_mariadb
write_keystone_config
write_neutron_config
write_uwsgi_config keystone "$KEYSTONE_PORT"
write_uwsgi_config neutron "$NEUTRON_PORT"
migrate
move_endpoints
start "$KEYSTONE" "$LOG/keystone-uwsgi.log" "$VENV/bin/uwsgi" --ini "$OPENSTACK_DIR/keystone.ini"
start "$NEUTRON" "$LOG/neutron-uwsgi.log" "$VENV/bin/uwsgi" --ini "$OPENSTACK_DIR/neutron.ini"
wait_for 60 Keystone "$LOG/keystone-uwsgi.log" "$KEYSTONE" curl -sf "$KEYSTONE_URL"
wait_for 60 Neutron "$LOG/neutron-uwsgi.log" "$NEUTRON" curl -sf "$NEUTRON_URL/"
seed
"$VENV/bin/python" "$HERE/warm_up.py" "$CLOUDS_FILE" 2>"$LOG/warm-up.log" || die "$(tail -n 1 "$LOG/warm-up.log")"
say "openstack: up after $SECONDS s: Keystone $KEYSTONE_URL, Neutron $NEUTRON_URL"
