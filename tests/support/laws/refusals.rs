//! Law 7: a claim that has no address says why, and that is so.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use caip_openstack::allocation::claim::{ClaimRequest, Decision};
use caip_openstack::allocation::ledger::{CreationBlock, Ledger};
use caip_openstack::allocation::mark::Marks;
use caip_openstack::allocation::{PoolPolicy, Refusal};
use caip_openstack::api::names::{GROUP, NETWORK_ID_ANNOTATION, POOL_ID_ANNOTATION, POOL_KIND};
use caip_openstack::floating_ip::{FloatingIp, NetworkId};
use caip_openstack::object_name::ObjectName;
use jiff::SignedDuration;
use serde_json::Value;

use super::objects::{
    address_of, annotation, claim_key, cluster_name, cluster_of, condition, describe, is_deleting, is_left_alone,
    of_kind, pool_id, pool_of, text,
};
use super::oracle::{NamedAddresses, Oracle};
use super::spec::policy;
use super::{Snapshot, Violation};

pub fn check(snapshot: &Snapshot, site: usize) -> Vec<Violation> {
    let objects = &snapshot.clusters[site];
    let mut violations = Vec::new();
    for claim in of_kind(objects, "IPAddressClaim") {
        let is_ours = text(claim, "/spec/poolRef/apiGroup") == GROUP && text(claim, "/spec/poolRef/kind") == POOL_KIND;
        if is_ours && !is_deleting(claim) && !is_left_alone(objects, claim) && !is_served(objects, claim) {
            let why = unjustified(snapshot, objects, claim);
            violations.extend(why.map(|why| Violation::new(7, format!("{} of site {site}", describe(claim)), why)));
        }
    }
    violations
}

/// Whether its address is published and its status says so.
fn is_served(objects: &[Arc<Value>], claim: &Value) -> bool {
    let name = text(claim, "/metadata/name");
    let has_address = address_of(objects, claim)
        .is_some_and(|address| text(address, "/spec/claimRef/name") == name && !is_deleting(address));
    has_address
        && text(claim, "/status/addressRef/name") == name
        && condition(claim, "Ready").is_some_and(|ready| text(ready, "/status") == "True")
}

/// Why the claim's condition is wrong, if it is.
fn unjustified(snapshot: &Snapshot, objects: &[Arc<Value>], claim: &Value) -> Option<String> {
    let ready = condition(claim, "Ready");
    match (ready.map_or("", |ready| text(ready, "/reason")), pool_of(objects, claim)) {
        ("PoolExhausted", Some(pool)) => is_exhausted(snapshot, objects, pool, claim).err(),
        ("PoolNotReady", Some(pool)) => {
            let is_ready = condition(pool, "Ready").is_some_and(|ready| text(ready, "/status") == "True");
            (is_ready && !is_deleting(pool)).then(|| "PoolNotReady, although its pool is ready".to_owned())
        }
        ("PoolNotReady", None) => None,
        ("AllocationFailed", _) => can_succeed(snapshot, objects, claim)
            .then(|| format!("AllocationFailed: {}", ready.map_or("", |ready| text(ready, "/message")))),
        ("", _) => Some("no condition".to_owned()),
        (other, _) => Some(other.to_owned()),
    }
}

/// Whether nothing is in the way that only a person can fix.
fn can_succeed(snapshot: &Snapshot, objects: &[Arc<Value>], claim: &Value) -> bool {
    let Some(pool) = pool_of(objects, claim) else { return false };
    let is_spoilt = |fip: &FloatingIp| {
        let marks = Marks::read(fip);
        let names_it = pool_id(pool).is_some_and(|id| marks.claims_of(&id).contains(&claim_key(claim)));
        names_it && (snapshot.forged.contains(&fip.id) || marks.pools().len() > 1)
    };
    // What its address names may be gone, spoilt, or no longer allowed.
    (cluster_name(claim).is_none() || cluster_of(objects, claim).is_some())
        && address_of(objects, claim).is_none()
        && !snapshot.fips.iter().any(is_spoilt)
}

fn is_exhausted(snapshot: &Snapshot, objects: &[Arc<Value>], pool: &Value, claim: &Value) -> Result<(), String> {
    let Some(policy) = policy(pool, snapshot.network.as_ref()) else { return Ok(()) };
    let request = ClaimRequest {
        key: claim_key(claim),
        object: ObjectName::new(text(claim, "/metadata/namespace"), text(claim, "/metadata/name")),
        since: text(claim, "/metadata/creationTimestamp").parse().unwrap_or(snapshot.now),
        bound: None,
        was_bound: false,
    };
    let named = named_addresses(objects);
    let creatable = creatable_for(pool, claim, &snapshot.subnets, &snapshot.creatable);
    let ledger = settled_ledger(snapshot, &creatable, &policy, &named);
    let (waiting, now) = (BTreeSet::new(), snapshot.now);
    let oracle = Oracle { ledger: &ledger, named: &named, pool: &policy, waiting: &waiting, claim: &request, now };
    let refusal = policy.max_ips.map_or(Refusal::ListUsedUp, Refusal::LimitReached);
    oracle.judge(&Decision::Refuse(refusal))
}

/// What Neutron would create in the subnets of the pool, and the claim may get: neither excluded nor reserved for another.
pub fn creatable_for(
    pool: &Value,
    claim: &Value,
    subnets: &BTreeMap<String, BTreeSet<IpAddr>>,
    creatable: &BTreeSet<IpAddr>,
) -> BTreeSet<IpAddr> {
    let Some(policy) = policy(pool, None) else { return BTreeSet::new() };
    let wanted = pool.pointer("/spec/subnets").and_then(Value::as_array).into_iter().flatten();
    let names = wanted.map(|subnet| subnet["id"].as_str().unwrap_or_else(|| text(subnet, "/filter/name")));
    let named: Option<Vec<_>> = names.map(|name| subnets.get(name)).collect();
    let named = named.filter(|named| !named.is_empty());
    let is_in = |address: &IpAddr| named.as_ref().is_none_or(|named| named.iter().any(|all| all.contains(address)));
    let may_have = |address: &&IpAddr| is_in(address) && policy.allows(**address, &claim_key(claim));
    creatable.iter().filter(may_have).copied().collect()
}

/// What a controller knows once all is quiet: the floating IPs, and whether Neutron would refuse to create one.
fn settled_ledger(
    snapshot: &Snapshot,
    creatable: &BTreeSet<IpAddr>,
    policy: &PoolPolicy,
    named: &NamedAddresses,
) -> Ledger {
    let mut ledger = Ledger::default();
    let began = ledger.begin(snapshot.now);
    ledger.record_listing(began, snapshot.fips.clone(), snapshot.now);
    let is_published = |address: &IpAddr| named.published.iter().any(|(published, _)| published == address);
    if creatable.iter().all(is_published) {
        let until = snapshot.now + SignedDuration::from_secs(1);
        ledger.block_creation(policy.id.clone(), CreationBlock { refusal: Refusal::NetworkExhausted, until });
    }
    ledger
}

fn named_addresses(objects: &[Arc<Value>]) -> NamedAddresses {
    let mut named = NamedAddresses::default();
    for address in of_kind(objects, "IPAddress") {
        if let Ok(published) = text(address, "/spec/address").parse() {
            let network = annotation(address, POOL_ID_ANNOTATION).and(annotation(address, NETWORK_ID_ANNOTATION));
            named.published.push((published, network.map(NetworkId::new)));
        }
    }
    // CAPO's too: their kind has the same name.
    for pool in objects.iter().filter(|object| text(object, "/kind") == POOL_KIND) {
        let listed = pool.pointer("/spec/preAllocatedFloatingIPs").and_then(Value::as_array).into_iter().flatten();
        named.listed.extend(listed.filter_map(|address| address.as_str()?.parse::<IpAddr>().ok()));
        let reserved = pool.pointer("/spec/reservations").and_then(Value::as_array).into_iter().flatten();
        named.listed.extend(reserved.filter_map(|it| text(it, "/address").parse::<IpAddr>().ok()));
    }
    named.listed.extend(of_kind(objects, "OpenStackCluster").flat_map(named_by));
    named
}

/// The addresses that a cluster names for its API server and its bastion.
fn named_by(cluster: &Value) -> impl Iterator<Item = IpAddr> + use<> {
    let paths = ["/spec/apiServerFloatingIP", "/spec/bastion/floatingIP"];
    paths.map(|path| text(cluster, path).parse().ok()).into_iter().flatten()
}
