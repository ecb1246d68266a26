//! The rows that Kubernetes knows: the IPAddresses of the pools with their claims, and what the pools' specs name.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;

use crate::api::names::{CLUSTER_NAME_LABEL, FLOATING_IP_ID_ANNOTATION, ORIGIN_ANNOTATION};
use crate::api::{IpAddress, IpAddressClaim, OpenStackFloatingIPPool};
use crate::object_name::ObjectName;
use crate::plugin::cli::AddressState;
use crate::plugin::session::object_name;
use crate::text::one_line;

/// Longer than a word or a UUID.
const ANNOTATION_LENGTH: usize = 64;

#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub(super) struct AddressRow {
    pub(super) address: IpAddr,
    pub(super) state: AddressState,
    pub(super) namespace: String,
    pub(super) pool: String,
    /// The claim that has it, or that it is reserved for.
    pub(super) claim: Option<String>,
    /// The IPAddress that names it.
    pub(super) ip_address: Option<String>,
    /// The owner of the claim: an OpenStackServer, which has the name of its Machine.
    pub(super) machine: Option<String>,
    pub(super) cluster: Option<String>,
    pub(super) origin: Option<String>,
    #[serde(rename = "floatingIPID")]
    pub(super) floating_ip_id: Option<String>,
    /// Its port, as Neutron says: with `--neutron` only.
    pub(super) port: Option<String>,
    /// When the IPAddress was created.
    pub(super) since: Option<Timestamp>,
    /// Why it cannot be allocated.
    pub(super) message: Option<String>,
}

impl AddressRow {
    pub(super) fn new(pool: &ObjectName, address: IpAddr, state: AddressState) -> Self {
        Self {
            address,
            state,
            namespace: pool.namespace.clone(),
            pool: pool.name.clone(),
            claim: None,
            ip_address: None,
            machine: None,
            cluster: None,
            origin: None,
            floating_ip_id: None,
            port: None,
            since: None,
            message: None,
        }
    }

    pub(super) fn claim_name(&self) -> Option<ObjectName> {
        Some(ObjectName::new(&self.namespace, self.claim.as_ref()?))
    }

    pub(super) fn key(&self) -> (&str, &str, IpAddr, Option<&str>) {
        (&self.namespace, &self.pool, self.address, self.ip_address.as_deref())
    }
}

/// By pool and address.
pub(super) fn address_rows(
    pools: &[Arc<OpenStackFloatingIPPool>],
    claims: &[Arc<IpAddressClaim>],
    addresses: &[Arc<IpAddress>],
) -> Vec<AddressRow> {
    let claims: BTreeMap<ObjectName, &IpAddressClaim> =
        claims.iter().map(|claim| (object_name(claim.as_ref()), claim.as_ref())).collect();
    let mut rows: Vec<AddressRow> = pools.iter().flat_map(|pool| pool_rows(pool, &claims, addresses)).collect();
    rows.sort_by(|one, other| one.key().cmp(&other.key()));
    rows
}

fn pool_rows(
    pool: &OpenStackFloatingIPPool,
    claims: &BTreeMap<ObjectName, &IpAddressClaim>,
    addresses: &[Arc<IpAddress>],
) -> Vec<AddressRow> {
    let name = object_name(pool);
    let of_pool = addresses.iter().filter(|address| address.is_of(&name.namespace, &name.name));
    let mut rows: Vec<AddressRow> = of_pool.filter_map(|address| published_row(&name, claims, address)).collect();
    for reservation in &pool.spec.reservations {
        if let Some(row) = add_unless_present(&mut rows, &name, &reservation.address, AddressState::Reserved) {
            row.claim = Some(reservation.claim.clone());
        }
    }
    for address in &pool.spec.pre_allocated_floating_ips {
        add_unless_present(&mut rows, &name, address, AddressState::Listed);
    }
    for failed in pool.status.iter().flat_map(|status| &status.failed) {
        add_unless_present(&mut rows, &name, &failed.address, AddressState::Failed);
        let unclaimed = |row: &&mut AddressRow| row.ip_address.is_none() && failed.address.parse() == Ok(row.address);
        if let Some(row) = rows.iter_mut().find(unclaimed) {
            (row.state, row.message) = (AddressState::Failed, Some(failed.message.clone()));
        }
    }
    rows
}

/// Cluster API admits only IPAddresses with an address.
fn published_row(
    pool: &ObjectName,
    claims: &BTreeMap<ObjectName, &IpAddressClaim>,
    address: &IpAddress,
) -> Option<AddressRow> {
    // Anyone may create an IPAddress, with any claim in it. That of a claim has the claim's name.
    let claim = claims
        .get(&object_name(address))
        .filter(|claim| address.spec.claim_ref.name == claim.name_any() && claim.is_of(&pool.namespace, &pool.name));
    let is_deleted = address.metadata.deletion_timestamp.is_some()
        || claim.is_some_and(|claim| claim.metadata.deletion_timestamp.is_some());
    let state = match claim {
        None => AddressState::Stray,
        Some(_) if is_deleted => AddressState::Releasing,
        Some(_) => AddressState::Allocated,
    };
    // Anyone may write it, and a template prints it as it is.
    let annotation = |name: &str| Some(one_line(address.annotation(name)?, ANNOTATION_LENGTH));
    let label = |labels: &BTreeMap<String, String>| labels.get(CLUSTER_NAME_LABEL).cloned();
    let owners = claim.map(|claim| claim.owner_references()).unwrap_or_default();
    Some(AddressRow {
        claim: Some(address.spec.claim_ref.name.clone()),
        ip_address: Some(address.name_any()),
        machine: owners.first().map(|owner| owner.name.clone()),
        cluster: claim
            .and_then(|claim| claim.spec.cluster_name.clone().or_else(|| label(claim.labels())))
            .or_else(|| label(address.labels())),
        origin: annotation(ORIGIN_ANNOTATION),
        floating_ip_id: annotation(FLOATING_IP_ID_ANNOTATION),
        since: address.metadata.creation_timestamp.as_ref().map(|time| time.0),
        ..AddressRow::new(pool, address.spec.address.parse().ok()?, state)
    })
}

/// Adds a row for an address of the spec or status, unless there is one.
fn add_unless_present<'a>(
    rows: &'a mut Vec<AddressRow>,
    pool: &ObjectName,
    address: &str,
    state: AddressState,
) -> Option<&'a mut AddressRow> {
    let address: IpAddr = address.parse().ok()?;
    if rows.iter().any(|row| row.address == address) {
        return None;
    }
    rows.push(AddressRow::new(pool, address, state));
    rows.last_mut()
}

#[cfg(test)]
pub(super) mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn read<K: DeserializeOwned>(object: Value) -> Arc<K> {
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn pool(spec: Value, status: Value) -> Arc<OpenStackFloatingIPPool> {
        let mut pool = json!({
            "apiVersion": "ipam.cluster.x-k8s.io/v1alpha1", "kind": "OpenStackFloatingIPPool",
            "metadata": {"name": "public", "namespace": "team"},
            "spec": {"identityRef": {"name": "cloud", "cloudName": "openstack"}}, "status": status
        });
        pool["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        read(pool)
    }

    fn pool_ref() -> Value {
        json!({"apiGroup": "ipam.cluster.x-k8s.io", "kind": "OpenStackFloatingIPPool", "name": "public"})
    }

    fn claim(name: &str, metadata: Value) -> Arc<IpAddressClaim> {
        let mut claim = json!({"metadata": {"name": name, "namespace": "team"}, "spec": {"poolRef": pool_ref()}});
        claim["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        read(claim)
    }

    fn published(name: &str, claim: &str, address: &str) -> Arc<IpAddress> {
        read(json!({
            "metadata": {"name": name, "namespace": "team", "creationTimestamp": "2026-11-21T09:00:00Z", "annotations": {
                "openstackfloatingippool.ipam.cluster.x-k8s.io/origin": "created",
                "openstackfloatingippool.ipam.cluster.x-k8s.io/floating-ip-id": "7b"
            }},
            "spec": {"claimRef": {"name": claim}, "poolRef": pool_ref(), "address": address, "prefix": 32}
        }))
    }

    fn states(rows: &[AddressRow]) -> Vec<(String, AddressState)> {
        rows.iter().map(|row| (row.address.to_string(), row.state)).collect()
    }

    #[test]
    fn a_claimed_address_is_listed_with_its_machine_and_cluster() {
        let owner = json!([{"apiVersion": "a/v1", "kind": "OpenStackServer", "name": "web-0", "uid": "u"}]);
        let labels = json!({"cluster.x-k8s.io/cluster-name": "demo"});
        let claim = claim("web-0-fip", json!({"ownerReferences": owner, "labels": labels}));
        let rows = address_rows(
            &[pool(json!({}), json!({}))],
            &[claim],
            &[published("web-0-fip", "web-0-fip", "203.0.113.7")],
        );
        let expected = AddressRow {
            claim: Some("web-0-fip".into()),
            ip_address: Some("web-0-fip".into()),
            machine: Some("web-0".into()),
            cluster: Some("demo".into()),
            origin: Some("created".into()),
            floating_ip_id: Some("7b".into()),
            since: Some("2026-11-21T09:00:00Z".parse().unwrap()),
            ..AddressRow::new(
                &ObjectName::new("team", "public"),
                "203.0.113.7".parse().unwrap(),
                AddressState::Allocated,
            )
        };
        assert_eq!(rows, [expected]);
    }

    #[test]
    fn an_address_of_a_claim_that_is_deleted_is_being_released() {
        let deleted = claim("a", json!({"deletionTimestamp": "2026-11-21T09:00:00Z"}));
        let rows = address_rows(&[pool(json!({}), json!({}))], &[deleted], &[published("a", "a", "203.0.113.7")]);
        assert_eq!(states(&rows), [("203.0.113.7".into(), AddressState::Releasing)]);
    }

    /// A user who may create IPAddresses must not be able to put any address into an allow-list.
    #[test]
    fn an_ip_address_that_no_claim_has_is_a_stray() {
        let claims = [claim("a", json!({})), claim("b", json!({}))];
        let made_up = [
            published("a", "a", "203.0.113.7"),
            published("x", "a", "198.51.100.1"),
            published("b", "a", "198.51.100.2"),
            published("gone", "gone", "198.51.100.3"),
        ];
        let rows = address_rows(&[pool(json!({}), json!({}))], &claims, &made_up);
        let stray = |address: &str| (address.to_owned(), AddressState::Stray);
        assert_eq!(
            states(&rows),
            [
                stray("198.51.100.1"),
                stray("198.51.100.2"),
                stray("198.51.100.3"),
                ("203.0.113.7".into(), AddressState::Allocated)
            ]
        );
    }

    #[test]
    fn what_the_spec_names_is_listed_until_a_claim_has_it() {
        let spec = json!({
            "preAllocatedFloatingIPs": ["203.0.113.30", "203.0.113.9", "203.0.113.7", "203.0.113.8"],
            "reservations": [{"claim": "db-0", "address": "203.0.113.8"}]
        });
        let status = json!({"failed": [{"address": "203.0.113.9", "reason": "Attached", "message": "is attached"}]});
        let claims = [claim("a", json!({}))];
        let rows = address_rows(&[pool(spec, status)], &claims, &[published("a", "a", "203.0.113.7")]);
        let expected = [
            ("203.0.113.7".into(), AddressState::Allocated),
            ("203.0.113.8".into(), AddressState::Reserved),
            ("203.0.113.9".into(), AddressState::Failed),
            ("203.0.113.30".into(), AddressState::Listed),
        ];
        assert_eq!(states(&rows), expected, "in the order of numbers");
        assert_eq!(rows[1].claim.as_deref(), Some("db-0"));
        assert_eq!(rows[2].message.as_deref(), Some("is attached"));
    }
}
