//! How a floating IP stands towards a pool, in words. What is decided about it is the controllers' to say.

use std::collections::BTreeMap;

use kube::ResourceExt;

use crate::allocation::ClaimKey;
use crate::allocation::PoolPolicy;
use crate::allocation::ledger::LedgerEntry;
use crate::allocation::mark::{Ownership, claim_in_description};
use crate::controllers::inspect::Inspection;
use crate::object_name::ObjectName;

/// The claims that there are, by their key in marks.
pub(super) type Keys = BTreeMap<ClaimKey, ObjectName>;

/// Every claim on a pool of ours.
pub(super) fn keys(inspection: &Inspection) -> Keys {
    let ours = inspection.claims().into_iter().filter(|claim| claim.spec.pool_ref.is_ours());
    let named = ours.map(|claim| ObjectName::new(claim.namespace().unwrap_or_default(), claim.name_any()));
    named.map(|claim| (ClaimKey::of(&claim.namespace, &claim.name), claim)).collect()
}

/// What the marks say.
pub(super) fn describe(entry: &LedgerEntry, pool: &PoolPolicy, keys: &Keys) -> String {
    let claim = |key: &ClaimKey| match keys.get(key) {
        Some(claim) => format!("claim {claim}"),
        None => {
            let claim = claim_in_description(&entry.fip.description);
            let once = claim.map_or(String::new(), |(namespace, name)| format!(", once {name} in {namespace}"));
            format!("a claim that does not exist (key {key}{once})")
        }
    };
    match entry.marks.ownership(&pool.id) {
        Ownership::Unmarked => "no pool has marked it".into(),
        Ownership::Foreign => "it carries the mark of another pool, which is not in this management cluster".into(),
        Ownership::Contested => {
            "it carries the marks of two owners: nobody may have it until one of them is off".into()
        }
        Ownership::Idle => "the pool owns it, and no claim has it".into(),
        Ownership::Held(key) => format!("it is marked for {}", claim(&key)),
        Ownership::Released { claim: key, at } => {
            format!("{} gave it back at {at}, and it is on its way out", claim(&key))
        }
    }
}

/// What is attached, or the lack of it.
pub(super) fn attachment(entry: &LedgerEntry) -> String {
    match (&entry.fip.port, entry.fip.is_forwarded) {
        (Some(port), _) => format!("attached to port {port}"),
        (None, true) => "in use by port forwardings".into(),
        (None, false) => "not attached".into(),
    }
}
