//! The bodies of Neutron's answers. Unknown fields are ignored; optional fields are missing in older releases.

use std::collections::BTreeSet;
use std::net::IpAddr;

use bytes::Bytes;
use http::Response;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IgnoredAny};

use super::super::{Network, Quota, Subnet};
use super::each::Each;
use super::pages::Row;
use crate::floating_ip::{FloatingIp, FloatingIpId, NetworkId, PortId, ProjectId, SubnetId};

/// In bytes. Neutron's ids are UUIDs; Keystone's are shorter than 65.
const MAX_ID: usize = 64;
/// In bytes: the 255 characters of Neutron's names, descriptions and tags, of up to 4 bytes.
const MAX_TEXT: usize = 4 * 255;
/// Neutron allows 50.
const MAX_TAGS: usize = 64;

/// A text of at most `MAX` bytes.
pub(super) struct Text<const MAX: usize>(String);

impl<'de, const MAX: usize> Deserialize<'de> for Text<MAX> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        let text = String::deserialize(json)?;
        match text.len() > MAX {
            true => Err(serde::de::Error::custom(format_args!("over {MAX} bytes"))),
            false => Ok(Self(text)),
        }
    }
}

type Id = Text<MAX_ID>;

/// At most [`MAX_TAGS`].
#[derive(Default)]
struct Tags(BTreeSet<String>);

impl<'de> Deserialize<'de> for Tags {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        let mut tags = BTreeSet::new();
        let insert = |Text(tag): Text<MAX_TEXT>| {
            if tags.len() <= MAX_TAGS {
                tags.insert(tag);
            }
        };
        Each::new(insert).deserialize(json)?;
        match tags.len() > MAX_TAGS {
            true => Err(serde::de::Error::custom(format_args!("over {MAX_TAGS} tags"))),
            false => Ok(Self(tags)),
        }
    }
}

#[derive(Deserialize)]
struct FloatingIpBody {
    floatingip: FloatingIpRow,
}

#[derive(Deserialize)]
pub(super) struct FloatingIpRow {
    id: Id,
    floating_ip_address: IpAddr,
    floating_network_id: Id,
    project_id: Option<Id>,
    // The older name of `project_id`; newer releases send both.
    tenant_id: Option<Id>,
    port_id: Option<Id>,
    // Missing without the extension `expose-port-forwarding-in-fip`; then forwardings cannot be detected.
    port_forwardings: Option<Vec<IgnoredAny>>,
    description: Option<Text<MAX_TEXT>>,
    tags: Option<Tags>,
    dns_name: Option<Text<MAX_TEXT>>,
    created_at: Option<Text<MAX_ID>>,
    updated_at: Option<Text<MAX_ID>>,
}

/// What identifies a row that cannot be read.
#[derive(Deserialize)]
pub(super) struct RowId {
    id: Id,
}

impl RowId {
    pub(super) fn into_string(self) -> String {
        self.id.0
    }
}

#[derive(Deserialize)]
pub(super) struct NetworkRow {
    id: Id,
    name: Option<Text<MAX_TEXT>>,
    #[serde(rename = "router:external")]
    is_external: Option<bool>,
}

#[derive(Deserialize)]
pub(super) struct SubnetRow {
    id: Id,
    name: Option<Text<MAX_TEXT>>,
    network_id: Id,
}

/// With how many earlier rows a row shares ids: a project has few networks.
const SHARED_WITH: usize = 4;

impl Row for FloatingIp {
    type Json = FloatingIpRow;

    fn id(&self) -> &str {
        self.id.as_str()
    }

    fn size(&self) -> usize {
        self.memory_size()
    }

    fn share_texts(&mut self, earlier: &[Self]) {
        earlier.iter().rev().take(SHARED_WITH).for_each(|other| self.share_ids(other));
    }
}

impl Row for Network {
    type Json = NetworkRow;

    fn id(&self) -> &str {
        self.id.as_str()
    }

    #[expect(clippy::arithmetic_side_effects, reason = "these are sizes of what is in memory")]
    fn size(&self) -> usize {
        size_of::<Self>() + MAX_ID + self.name.len()
    }
}

impl Row for Subnet {
    type Json = SubnetRow;

    fn id(&self) -> &str {
        self.id.as_str()
    }

    #[expect(clippy::arithmetic_side_effects, reason = "these are sizes of what is in memory")]
    fn size(&self) -> usize {
        size_of::<Self>() + 2 * MAX_ID + self.name.len()
    }
}

#[derive(Deserialize)]
pub(super) struct Extensions {
    pub(super) extensions: Vec<Extension>,
}

#[derive(Deserialize)]
pub(super) struct Extension {
    pub(super) alias: Text<MAX_TEXT>,
}

impl Extension {
    pub(super) fn is(&self, alias: &str) -> bool {
        self.alias.0 == alias
    }
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

/// None if the body is not what Neutron would send.
pub(super) fn parse<T: DeserializeOwned>(response: &Response<Bytes>) -> Option<T> {
    serde_json::from_slice(response.body()).ok()
}

/// The floating IP of an answer that has one.
pub(super) fn floating_ip(response: &Response<Bytes>) -> Option<FloatingIp> {
    parse::<FloatingIpBody>(response).map(|body| body.floatingip.into())
}

impl From<FloatingIpRow> for FloatingIp {
    fn from(row: FloatingIpRow) -> Self {
        let parse = |time: Option<Id>| time.and_then(|time| time.0.parse::<Timestamp>().ok());
        let text = |text: Option<Text<MAX_TEXT>>| text.map(|text| text.0).unwrap_or_default();
        let created_at = parse(row.created_at);
        Self {
            id: FloatingIpId::new(row.id.0),
            address: row.floating_ip_address,
            network: NetworkId::new(row.floating_network_id.0),
            project: ProjectId::new(row.project_id.or(row.tenant_id).map(|id| id.0).unwrap_or_default()),
            port: row.port_id.filter(|port| !port.0.is_empty()).map(|port| PortId::new(port.0)),
            is_forwarded: row.port_forwardings.is_some_and(|forwardings| !forwardings.is_empty()),
            description: text(row.description),
            tags: row.tags.unwrap_or_default().0,
            dns_name: text(row.dns_name),
            changed_at: parse(row.updated_at).or(created_at),
            created_at,
        }
    }
}

impl From<NetworkRow> for Network {
    fn from(row: NetworkRow) -> Self {
        let name = row.name.map(|name| name.0).unwrap_or_default();
        // Missing without the extension `external-net`; then no network is external.
        Self { id: NetworkId::new(row.id.0), name, is_external: row.is_external.unwrap_or(false) }
    }
}

impl From<SubnetRow> for Subnet {
    fn from(row: SubnetRow) -> Self {
        let (name, network) = (row.name.map(|name| name.0).unwrap_or_default(), NetworkId::new(row.network_id.0));
        Self { id: SubnetId::new(row.id.0), name, network }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn row() -> Value {
        json!({"id": "f1", "floating_ip_address": "203.0.113.5", "floating_network_id": "n1", "tenant_id": "p1",
            "project_id": "p1", "port_id": null, "description": "", "status": "DOWN"})
    }

    fn read(row: &Value) -> Option<FloatingIp> {
        floating_ip(&Response::new(json!({"floatingip": row}).to_string().into()))
    }

    fn with(field: &str, value: Value) -> FloatingIp {
        try_with(field, value).unwrap()
    }

    fn try_with(field: &str, value: Value) -> Option<FloatingIp> {
        let mut row = row();
        row[field] = value;
        read(&row)
    }

    #[test]
    fn fields_that_older_releases_omit_are_empty() {
        let ip = read(&row()).unwrap();
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
    fn a_floating_ip_that_neutron_would_not_describe_so_cannot_be_read() {
        for bad in [json!({"id": "x"}), json!(7), json!(null), json!({"floating_ip_address": null})] {
            assert_eq!(read(&bad), None);
        }
        let tags = |count: usize| json!((0..count).map(|number| number.to_string()).collect::<Vec<_>>());
        for (field, at_the_limit, beyond) in [
            ("id", json!("f".repeat(MAX_ID)), json!("f".repeat(MAX_ID + 1))),
            ("project_id", json!("p".repeat(MAX_ID)), json!("p".repeat(MAX_ID + 1))),
            ("description", json!("d".repeat(MAX_TEXT)), json!("d".repeat(MAX_TEXT + 1))),
            ("tags", json!(["t".repeat(MAX_TEXT)]), json!(["t".repeat(MAX_TEXT + 1)])),
            ("tags", tags(MAX_TAGS), tags(MAX_TAGS + 1)),
        ] {
            assert!(try_with(field, at_the_limit).is_some(), "{field}");
            assert_eq!(try_with(field, beyond), None, "{field}");
        }
    }
}
