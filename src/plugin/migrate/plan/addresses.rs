//! What becomes of the addresses of CAPO's pool.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

use super::super::input::{InTreeClaim, MigrationInput};
use super::{LIST, MachineChange, text};

/// The addresses that the new pool lists: those that CAPO's pool lists, and to keep them all, the others that it has.
pub(super) fn list_kept(input: &MigrationInput) -> Vec<String> {
    let mut kept = strings(&input.pool, &format!("/spec/{LIST}"));
    if input.keeps_addresses {
        // CAPO also counts addresses as claimed or available that it did not find in Neutron.
        let failed = strings(&input.pool, "/status/failedIPs");
        let status = ["/status/claimedIPs", "/status/availableIPs"].map(|path| strings(&input.pool, path)).concat();
        let found = status.into_iter().filter(|address| !failed.contains(address));
        let bastions: Vec<_> = input.claims.iter().filter(|claim| claim.is_of_bastion()).collect();
        // CAPO deletes them, or attaches them again: the OpenStackCluster says which.
        let is_of_bastion = |address: &String| bastions.iter().any(|claim| claim.address.as_ref() == Some(address));
        let others = found.chain(input.published.iter().cloned()).filter(|address| !is_of_bastion(address));
        let others: BTreeSet<String> = others.collect();
        // A person runs commands with them.
        let is_address = |text: &String| text.parse::<IpAddr>().is_ok();
        let mut others: Vec<String> = others.into_iter().filter(is_address).collect();
        others.sort_by_key(|address| address.parse::<IpAddr>().ok());
        kept.extend(others);
    }
    let mut seen = BTreeSet::new();
    kept.retain(|address| seen.insert(address.clone()));
    kept
}

/// CAPO deletes the free addresses of its pool with the pool, except for listed ones.
pub(super) fn describe_lost(input: &MigrationInput, kept: &[String]) -> Option<String> {
    let free = strings(&input.pool, "/status/availableIPs");
    let lost: Vec<String> = free.into_iter().filter(|address| !kept.contains(address)).collect();
    (!lost.is_empty()).then(|| {
        format!(
            "CAPO deletes these free addresses in OpenStack with its pool: {}; --keep-addresses keeps them",
            lost.join(", ")
        )
    })
}

pub(super) fn describe_machine(claim: &InTreeClaim, input: &MigrationInput, kept: &[String]) -> MachineChange {
    let deletes = text(&input.pool, "/spec/reclaimPolicy") == Some("Delete");
    let change = match &claim.address {
        None if input.is_closed() => {
            "gets no address of CAPO's pool, which is being deleted; its replacement uses the new pool"
        }
        None => "waits for CAPO's pool; its replacement uses the new pool",
        Some(_) if claim.is_of_bastion() => {
            "keeps its address until it is replaced, and then gets another one; CAPO deletes the address, unless bastion.floatingIP of the OpenStackCluster names it"
        }
        Some(address) if kept.contains(address) => {
            "keeps its address until it is replaced; the address is then free for the new pool, and the new machine gets one of the list"
        }
        Some(_) if deletes => {
            "keeps its address until it is replaced; CAPO then deletes the address, and the new machine gets another one"
        }
        Some(_) => {
            "keeps its address until it is replaced; CAPO's pool then retains it, and the new machine gets another one"
        }
    };
    MachineChange {
        machine: claim.owner.clone().unwrap_or_else(|| claim.name.clone()),
        claim: claim.name.clone(),
        cluster: claim.cluster.clone(),
        address: claim.address.clone(),
        change: change.into(),
    }
}

pub(super) fn strings(object: &Value, pointer: &str) -> Vec<String> {
    let found = object.pointer(pointer).and_then(Value::as_array);
    found.into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}
