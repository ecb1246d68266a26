//! The answers that Keystone and Neutron would give, about what the liar says exists: the honest tenant's floating IPs,
//! and others. Nothing is remembered: every write is accepted, and the next listing knows nothing of it.

use serde_json::{Value, json};

use super::victim::Victim;
use super::wire::{Request, Response};

/// What one Secret leads to.
pub(super) struct Place<'a> {
    /// Of the Secret: the first part of the path.
    pub(super) name: &'a str,
    /// Of the server, without a path.
    pub(super) url: &'a str,
    pub(super) victim: &'a Victim,
}

impl Place<'_> {
    /// Every other Secret claims to be for the honest tenant's project.
    pub(super) fn project(&self) -> String {
        let is_copied = self.name.bytes().last().is_some_and(|last| last % 2 == 0);
        if is_copied { self.victim.project.clone() } else { format!("project-{}", self.name) }
    }

    pub(super) fn answer(&self, request: &Request, random: &mut fastrand::Rng) -> Response {
        let path = request.path.split('?').next().unwrap_or_default();
        if path.ends_with("/auth/tokens") {
            return token(self.token(&format!("{}/{}", self.url, self.name)), format!("token-{:x}", random.u64(..)));
        }
        let path = path.split_once("/v2.0/").map_or(path, |(_, path)| path);
        let parts: Vec<&str> = path.split('/').collect();
        match (request.method.as_str(), parts.as_slice()) {
            ("GET", ["extensions"]) => {
                let alias = ["standard-attr-tag", "external-net"][usize::from(random.u8(0..8) == 0)];
                ok(json!({"extensions": [{"alias": alias, "name": alias}]}))
            }
            ("GET", ["networks"]) => {
                ok(json!({"networks": [{"id": self.victim.network, "name": "public-large", "router:external": true}]}))
            }
            ("GET", ["subnets"]) => {
                ok(json!({"subnets": [{"id": "subnet", "name": "s", "network_id": self.victim.network}]}))
            }
            ("GET", ["quotas", ..]) => {
                let used = random.u32(0..9);
                ok(json!({"quota": {"floatingip": {"limit": 50, "used": used, "reserved": 0}}}))
            }
            ("GET", ["floatingips"]) => ok(json!({"floatingips": self.rows(random)})),
            ("POST", ["floatingips"]) => self.written(201, request, random),
            ("GET" | "PUT", ["floatingips", _]) => self.written(200, request, random),
            ("PUT", ["floatingips", _, "tags", _]) => Response::new(201, "{}"),
            ("DELETE", _) => Response::new(204, ""),
            _ => Response::new(
                404,
                json!({"NeutronError": {"type": "HTTPNotFound", "message": "no", "detail": ""}}).to_string(),
            ),
        }
    }

    /// A token for an hour, with Neutron at this URL.
    pub(super) fn token(&self, neutron: &str) -> Value {
        let now = jiff::Timestamp::now();
        let endpoint = json!({"id": "e", "interface": "public", "region": "RegionOne", "url": neutron});
        json!({"token": {
            "issued_at": now.to_string(),
            "expires_at": (now + jiff::SignedDuration::from_hours(1)).to_string(),
            "user": {"id": "u", "name": "u", "domain": {"id": "default", "name": "Default"}},
            "project": {"id": self.project(), "name": "p", "domain": {"id": "default", "name": "Default"}},
            "roles": [{"id": "r", "name": "member"}],
            "catalog": [{"id": "s", "type": "network", "name": "neutron", "endpoints": [endpoint]}],
        }})
    }

    /// The copied floating IPs of the honest tenant, and some that do not exist, in any order.
    fn rows(&self, random: &mut fastrand::Rng) -> Vec<Value> {
        let copied = self.victim.rows.iter().map(|row| self.own(row.clone(), random));
        let mut rows: Vec<Value> = copied.collect();
        rows.extend((0..random.usize(0..6)).map(|_| self.unknown_row(random)));
        random.shuffle(&mut rows);
        rows
    }

    /// Of the project that the token is for; at times free, at times attached.
    fn own(&self, mut row: Value, random: &mut fastrand::Rng) -> Value {
        row["project_id"] = self.project().into();
        row["tenant_id"] = self.project().into();
        match random.u8(0..6) {
            0 => (row["tags"], row["description"]) = (json!([]), json!("")),
            1 => row["port_id"] = json!("00000000-0000-4000-8000-000000000000"),
            2 => row["tags"] = json!([format!("caip.{}.{:032x}", self.victim.pool_id, random.u128(..))]),
            3 => row["id"] = json!(id(random)),
            _ => {}
        }
        row
    }

    pub(super) fn unknown_row(&self, random: &mut fastrand::Rng) -> Value {
        let address = format!("198.18.{}.{}", random.u8(0..16), random.u8(1..255));
        json!({
            "id": id(random), "floating_ip_address": address, "floating_network_id": self.victim.network,
            "project_id": self.project(), "tenant_id": self.project(), "port_id": null, "router_id": null,
            "fixed_ip_address": null, "status": "DOWN", "description": "", "tags": [], "dns_name": "",
            "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z", "revision_number": 1,
        })
    }

    /// A floating IP with the description that was asked for, at any address.
    fn written(&self, status: u16, request: &Request, random: &mut fastrand::Rng) -> Response {
        let copied = self.victim.rows.get(random.usize(0..=self.victim.rows.len())).cloned();
        let mut row = match copied {
            Some(row) => self.own(row, random),
            None => self.unknown_row(random),
        };
        let asked: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        for field in ["description", "floating_network_id"] {
            if let Some(text) = asked["floatingip"][field].as_str() {
                row[field] = text.into();
            }
        }
        Response::new(status, json!({"floatingip": row}).to_string())
    }
}

fn ok(body: Value) -> Response {
    Response::new(200, body.to_string())
}

pub(super) fn token(body: Value, id: String) -> Response {
    Response::new(201, body.to_string()).header("X-Subject-Token", id)
}

/// Like a UUID.
pub(super) fn id(random: &mut fastrand::Rng) -> String {
    let hex = format!("{:032x}", random.u128(..));
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}
