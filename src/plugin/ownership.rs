//! What the marks on a floating IP say about a pool, in words. The controllers' code decides it.

use std::collections::BTreeMap;

use super::session::object_name;
use crate::allocation::ledger::LedgerEntry;
use crate::allocation::mark::{Ownership, claim_in_description};
use crate::allocation::{ClaimKey, PoolPolicy};
use crate::controllers::inspect::Inspection;
use crate::object_name::ObjectName;

/// The existing claims, by their key in marks.
pub(super) type ClaimNames = BTreeMap<ClaimKey, ObjectName>;

/// The claims on pools of ours.
pub(super) fn claim_names(inspection: &Inspection) -> ClaimNames {
    let ours = inspection.claims().into_iter().filter(|claim| claim.spec.pool_ref.is_ours());
    let names = ours.map(|claim| object_name(claim.as_ref()));
    names.map(|name| (ClaimKey::of(&name.namespace, &name.name), name)).collect()
}

pub(super) fn describe_ownership(entry: &LedgerEntry, pool: &PoolPolicy, claims: &ClaimNames) -> String {
    match entry.marks.ownership(&pool.id) {
        Ownership::Unmarked => "no pool has marked it".into(),
        Ownership::Foreign | Ownership::Contested if entry.marks.is_newer => {
            "it carries a mark of a newer version of caip-openstack, and is left alone: upgrade the controller".into()
        }
        Ownership::Foreign => "it carries the mark of another pool, or one that cannot be read".into(),
        Ownership::Contested => {
            "it carries the marks of two owners: it is not allocated until one of them is removed".into()
        }
        Ownership::Unclaimed => "the pool owns it, and no claim holds it".into(),
        Ownership::Claimed(key) => format!("it is marked for {}", describe_claim(&key, entry, claims)),
        Ownership::Released { claim: key, at } => {
            format!("{} released it at {at}, and it is cooling down", describe_claim(&key, entry, claims))
        }
    }
}

fn describe_claim(key: &ClaimKey, entry: &LedgerEntry, claims: &ClaimNames) -> String {
    if let Some(name) = claims.get(key) {
        return format!("claim {name}");
    }
    let once = claim_in_description(&entry.fip.description)
        .map_or(String::new(), |(namespace, name)| format!(", formerly {namespace}/{name}"));
    format!("a claim that does not exist (key {key}{once})")
}

pub(super) fn describe_attachment(entry: &LedgerEntry) -> String {
    match (&entry.fip.port, entry.fip.is_forwarded) {
        (Some(port), _) => format!("attached to port {port}"),
        (None, true) => "in use by port forwardings".into(),
        (None, false) => "not attached".into(),
    }
}
