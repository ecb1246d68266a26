//! The bodies of Neutron's answers. Unknown fields are ignored; optional fields are missing in older releases.

use std::net::IpAddr;

use bytes::Bytes;
use http::Response;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use super::super::{Error, ErrorKind, Network, Quota, Subnet};
use crate::floating_ip::{FloatingIp, FloatingIpId, NetworkId, PortId, ProjectId, SubnetId};

#[derive(Deserialize)]
pub(super) struct FloatingIpBody {
    pub(super) floatingip: Value,
}

#[derive(Deserialize)]
struct FloatingIpRow {
    id: String,
    floating_ip_address: IpAddr,
    floating_network_id: String,
    project_id: Option<String>,
    // The older name of `project_id`; newer releases send both.
    tenant_id: Option<String>,
    port_id: Option<String>,
    // Missing without the extension `expose-port-forwarding-in-fip`; then forwardings cannot be detected.
    port_forwardings: Option<Vec<IgnoredAny>>,
    description: Option<String>,
    tags: Option<Vec<String>>,
    dns_name: Option<String>,
    created_at: Option<String>,
    updated_at: Option<String>,
}

#[derive(Deserialize)]
struct NetworkRow {
    id: String,
    name: Option<String>,
    #[serde(rename = "router:external")]
    is_external: Option<bool>,
}

#[derive(Deserialize)]
struct SubnetRow {
    id: String,
    name: Option<String>,
    network_id: String,
}

#[derive(Deserialize)]
pub(super) struct Extensions {
    pub(super) extensions: Vec<Extension>,
}

#[derive(Deserialize)]
pub(super) struct Extension {
    pub(super) alias: String,
}

#[derive(Deserialize)]
pub(super) struct QuotaDetails {
    quota: Quotas,
}

#[derive(Deserialize)]
struct Quotas {
    floatingip: QuotaRow,
}

#[derive(Deserialize)]
struct QuotaRow {
    limit: i64,
    used: i64,
}

impl From<QuotaDetails> for Quota {
    fn from(details: QuotaDetails) -> Self {
        let row = details.quota.floatingip;
        // Unlimited is -1.
        Self { limit: row.limit.try_into().ok(), used: row.used.try_into().unwrap_or(0) }
    }
}

pub(super) fn parse<T: DeserializeOwned>(operation: &'static str, response: &Response<Bytes>) -> Result<T, Error> {
    serde_json::from_slice(response.body()).map_err(|_| malformed(operation))
}

pub(super) fn malformed(operation: &'static str) -> Error {
    Error::new(ErrorKind::Malformed, operation, "the answer is a success, but not what Neutron would say")
}

pub(super) fn floating_ip(row: Value, operation: &'static str) -> Result<FloatingIp, Error> {
    let row: FloatingIpRow = serde_json::from_value(row).map_err(|_| malformed(operation))?;
    Ok(row.into())
}

/// None for a floating IP that cannot be read, so that it does not hide the others.
///
/// Without id, address and network it cannot be assigned, so no address is assigned twice. If it carries a mark, it is
/// reported as an orphan once it can be read.
pub(super) fn listed_floating_ip(row: Value) -> Option<FloatingIp> {
    let id = row["id"].as_str().unwrap_or("none").to_owned();
    let row: Option<FloatingIpRow> = serde_json::from_value(row).ok();
    if row.is_none() {
        tracing::warn!(fip.id = id, "a floating IP in Neutron's listing cannot be read and is left out");
    }
    row.map(FloatingIp::from)
}

impl From<FloatingIpRow> for FloatingIp {
    fn from(row: FloatingIpRow) -> Self {
        let parse = |time: Option<String>| time.and_then(|time| time.parse::<Timestamp>().ok());
        let created_at = parse(row.created_at);
        Self {
            id: FloatingIpId::new(row.id),
            address: row.floating_ip_address,
            network: NetworkId::new(row.floating_network_id),
            project: ProjectId::new(row.project_id.or(row.tenant_id).unwrap_or_default()),
            port: row.port_id.filter(|port| !port.is_empty()).map(PortId::new),
            is_forwarded: row.port_forwardings.is_some_and(|forwardings| !forwardings.is_empty()),
            description: row.description.unwrap_or_default(),
            tags: row.tags.unwrap_or_default().into_iter().collect(),
            dns_name: row.dns_name.unwrap_or_default(),
            changed_at: parse(row.updated_at).or(created_at),
            created_at,
        }
    }
}

pub(super) fn network(row: Value, operation: &'static str) -> Result<Network, Error> {
    let row: NetworkRow = serde_json::from_value(row).map_err(|_| malformed(operation))?;
    // Missing without the extension `external-net`; then no network is external.
    let is_external = row.is_external.unwrap_or(false);
    Ok(Network { id: NetworkId::new(row.id), name: row.name.unwrap_or_default(), is_external })
}

pub(super) fn subnet(row: Value, operation: &'static str) -> Result<Subnet, Error> {
    let row: SubnetRow = serde_json::from_value(row).map_err(|_| malformed(operation))?;
    let network = NetworkId::new(row.network_id);
    Ok(Subnet { id: SubnetId::new(row.id), name: row.name.unwrap_or_default(), network })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by it")]
mod tests {
    use serde_json::json;

    use super::*;

    fn row() -> Value {
        json!({"id": "f1", "floating_ip_address": "203.0.113.5", "floating_network_id": "n1", "tenant_id": "p1",
            "project_id": "p1", "port_id": null, "description": "", "status": "DOWN"})
    }

    fn with(field: &str, value: Value) -> FloatingIp {
        let mut row = row();
        row[field] = value;
        floating_ip(row, "read").unwrap()
    }

    #[test]
    fn fields_that_older_releases_omit_are_empty() {
        let ip = floating_ip(row(), "read").unwrap();
        assert!(ip.tags.is_empty() && ip.dns_name.is_empty() && ip.changed_at.is_none() && !ip.is_attached());
        assert_eq!(ip.project, ProjectId::new("p1"));
        assert_eq!(with("description", Value::Null).description, "");
    }

    #[test]
    fn a_floating_ip_with_a_port_or_a_forwarding_is_attached() {
        assert!(with("port_id", json!("port")).is_attached());
        assert!(with("port_forwardings", json!([{"protocol": "tcp"}])).is_attached());
        assert!(!with("port_forwardings", json!([])).is_attached());
    }

    #[test]
    fn the_last_change_is_the_update_else_the_creation_else_unknown() {
        let created = with("created_at", json!("2026-11-21T09:33:43Z"));
        assert_eq!(created.changed_at, Some("2026-11-21T09:33:43Z".parse().unwrap()));
        assert_eq!(with("updated_at", json!("yesterday")).changed_at, None);
    }

    #[test]
    fn an_unreadable_floating_ip_is_left_out_of_a_listing_but_is_an_error_alone() {
        for bad in [json!({"id": "x"}), json!(7), json!(null), json!({"floating_ip_address": null})] {
            assert_eq!(listed_floating_ip(bad.clone()), None);
            assert_eq!(floating_ip(bad, "read").unwrap_err().kind, ErrorKind::Malformed);
        }
    }
}
