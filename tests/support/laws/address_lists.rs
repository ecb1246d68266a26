//! Law 11: the ConfigMap that a pool at rest asks for has every address that the pool and its machines use, and no other.
//! Two bounds, from what Neutron and Kubernetes say: the exact rules are tested below the core.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use caip_openstack::allocation::PoolPolicy;
use caip_openstack::allocation::mark::{Marks, Ownership};
use caip_openstack::api::names::POOL_KIND;
use caip_openstack::floating_ip::{FloatingIp, FloatingIpId};
use serde_json::Value;

use super::objects::{binding, condition, is_deleting, is_left_alone, of_kind, text};
use super::spec::policy;
use super::{Snapshot, Violation};

pub fn check(snapshot: &Snapshot, site: usize) -> Vec<Violation> {
    let objects = &snapshot.clusters[site];
    let mut violations = Vec::new();
    for pool in of_kind(objects, POOL_KIND).filter(|pool| is_judged(snapshot, objects, pool)) {
        let name = text(pool, "/metadata/name");
        let Some(policy) = policy(pool, snapshot.network.as_ref()) else { continue };
        let mut broken = |how: String| violations.push(Violation::new(11, format!("pool {name} of site {site}"), how));
        let Some(listed) = listed(objects, pool) else {
            broken("asks for a ConfigMap with its addresses, and has none".to_owned());
            continue;
        };
        let (used, may_use) = bounds(snapshot, site, &policy);
        let missing: Vec<_> = used.difference(&listed).collect();
        let strange: Vec<_> = listed.difference(&may_use).collect();
        if !missing.is_empty() {
            broken(format!("uses {missing:?}, and its ConfigMap has {listed:?}"));
        }
        if !strange.is_empty() {
            broken(format!("its ConfigMap has {strange:?}, and these are not its addresses"));
        }
    }
    violations
}

/// Why there may be no current list: the user was told what to do.
const TOLD: [&str; 3] = ["ConfigMapNameTaken", "ConfigMapsDisabled", "ConfigMapTooLarge"];

/// Whether the pool asks for a ConfigMap, and its conditions do not say that it cannot be current. What users forged, or
/// a cloud hid, may look different to the controllers.
fn is_judged(snapshot: &Snapshot, objects: &[Arc<Value>], pool: &Value) -> bool {
    let is_true = |name: &str| condition(pool, name).is_some_and(|condition| condition["status"] == "True");
    let is_excused = is_deleting(pool) || is_left_alone(objects, pool) || snapshot.was_altered;
    pool.pointer("/spec/addressConfigMap").is_some()
        && is_true("Ready")
        && !is_excused
        && snapshot.forged.is_empty()
        && !condition(pool, "AddressConfigMapCurrent").is_some_and(|it| TOLD.contains(&text(it, "/reason")))
}

/// The addresses of the pool's ConfigMap.
fn listed(objects: &[Arc<Value>], pool: &Value) -> Option<BTreeSet<IpAddr>> {
    let is_it = |object: &&Arc<Value>| {
        text(object, "/kind") == "ConfigMap"
            && text(object, "/metadata/name") == text(pool, "/spec/addressConfigMap/name")
            && text(object, "/metadata/namespace") == text(pool, "/metadata/namespace")
    };
    let found = objects.iter().find(is_it)?;
    let lines = text(found, "/data/addresses").lines().map(|line| line.parse().ok()).collect::<Option<_>>();
    let ranges = text(found, "/data/cidrs").lines().map(|line| line.split('/').next()?.parse().ok());
    lines.filter(|lines| ranges.collect::<Option<BTreeSet<IpAddr>>>().as_ref() == Some(lines))
}

/// The addresses that the pool uses or keeps, and those that it may list.
fn bounds(snapshot: &Snapshot, site: usize, pool: &PoolPolicy) -> (BTreeSet<IpAddr>, BTreeSet<IpAddr>) {
    let objects = &snapshot.clusters[site];
    let bindings = of_kind(objects, "IPAddress").filter_map(|address| binding(objects, address, site));
    let of_pool = bindings.filter(|binding| binding.pool == pool.id);
    let bound: BTreeSet<FloatingIpId> =
        of_pool.filter(|binding| binding.has_claim).map(|binding| binding.fip).collect();
    let is_named = |fip: &FloatingIp| {
        pool.listed.contains(&fip.address) || pool.reservations.values().any(|address| *address == fip.address)
    };
    let (mut used, mut may_use) = (BTreeSet::new(), BTreeSet::new());
    for fip in &snapshot.fips {
        let marks = Marks::read(fip);
        let created = marks.created.as_ref().is_some_and(|mark| mark.pool == pool.id);
        let nonce = marks.created.as_ref().map(|mark| &mark.nonce);
        let is_copy = |other: &FloatingIp| Marks::read(other).created.map(|mark| mark.nonce).as_ref() == nonce;
        let is_copied = created && snapshot.fips.iter().filter(|other| is_copy(other)).count() > 1;
        let (is_used, is_allowed) = match marks.ownership(&pool.id) {
            _ if bound.contains(&fip.id) => (true, true),
            _ if is_copied => (false, false),
            Ownership::Claimed(_) | Ownership::Unclaimed => (true, true),
            Ownership::Released { .. } => {
                (false, fip.is_attached() || if created { !pool.deletes } else { is_named(fip) })
            }
            Ownership::Unmarked => (false, is_named(fip) && !fip.is_attached()),
            Ownership::Contested | Ownership::Foreign => (false, false),
        };
        used.extend(is_used.then_some(fip.address));
        may_use.extend(is_allowed.then_some(fip.address));
    }
    (used, may_use)
}
