#!/usr/bin/env bash
# Creates many floating IPs of other owners in the project `demo`, as in a large cloud:
#   ballast.sh COUNT [NETWORK]      default public-large
# By SQL, since Neutron takes a tenth of a second for each. Their addresses belong to no subnet, so that the addresses of
# all subnets stay free. To be run once for a set of servers; down.sh --purge removes them.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

[[ $# -ge 1 && $# -le 2 && $1 =~ ^[1-9][0-9]*$ ]] || die "usage: ballast.sh COUNT [NETWORK]"
((2 * $1 < 1 << 22)) || die "COUNT must be less than 2097152"
[ -S "$MARIADB_SOCKET" ] || die "the servers of '$CAIP_ENV' are not up: hack/env/up.sh starts them"

mariadb --no-defaults -S "$MARIADB_SOCKET" -uroot neutron <<SQL
SET @network = (SELECT id FROM networks WHERE name = '${2:-public-large}');
SET @project = (SELECT id FROM keystone.project WHERE name = 'demo');
SET @base = (SELECT MAX(id) FROM standardattributes);
UPDATE quotas SET \`limit\` = -1 WHERE project_id = @project AND resource = 'floatingip';
INSERT INTO standardattributes (id, resource_type, description, revision_number, created_at, updated_at)
  SELECT @base + seq, IF(seq <= $1, 'ports', 'floatingips'), IF(seq <= $1, '', 'ballast'), 0, NOW(), NOW()
  FROM seq_1_to_$((2 * $1));
INSERT INTO ports (id, standard_attr_id, project_id, name, network_id, mac_address, admin_state_up, status, device_id,
    device_owner)
  SELECT UUID(), @base + seq, '', '', @network,
    INSERT(INSERT(INSERT(INSERT(INSERT(CONCAT('fa17', LPAD(HEX(seq), 8, '0')), 11, 0, ':'), 9, 0, ':'), 7, 0, ':'),
      5, 0, ':'), 3, 0, ':'),
    1, 'N/A', UUID(), 'network:floatingip'
  FROM seq_1_to_$1;
INSERT INTO floatingips (id, standard_attr_id, project_id, floating_ip_address, floating_network_id, floating_port_id,
    status)
  SELECT UUID(), @base + $1 + seq, @project, INET_NTOA(INET_ATON('100.64.0.0') + seq), @network, ports.id, 'DOWN'
  FROM seq_1_to_$1 JOIN ports ON ports.standard_attr_id = @base + seq;
SQL
say "$1 floating IPs of other owners are in the project demo"
