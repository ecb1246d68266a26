//! Builds the request for an address, with what the claim's IPAddress names. Every user of the namespace can create an
//! IPAddress, so it is checked.

use std::net::IpAddr;

use kube::ResourceExt;

use super::observe::Observed;
use crate::allocation::claim::{BoundAddress, ClaimRequest};
use crate::allocation::mark::Ownership;
use crate::api::names::{FLOATING_IP_ID_ANNOTATION, POOL_ID_ANNOTATION};
use crate::api::{IpAddress, IpAddressClaim};
use crate::controllers::memory::ResolvedPool;
use crate::floating_ip::FloatingIpId;

/// # Errors
///
/// A message for the claim's condition, when its IPAddress was not created by this pool for this claim.
pub(in crate::controllers) fn build_request(observed: &Observed, pool: &ResolvedPool) -> Result<ClaimRequest, String> {
    let bound = match observed.address.as_deref() {
        None => None,
        Some(address) => Some(read_bound(address, &observed.claim, pool).or_else(|| recognize(address, observed, pool)).ok_or_else(
            || {
                format!(
                    "IPAddress {} exists, but was not created by this pool for this claim: delete it, and the claim gets an address",
                    address.name_any()
                )
            },
        )?),
    };
    Ok(ClaimRequest {
        key: observed.key.clone(),
        object: observed.name.clone(),
        since: observed.claim.created_at(),
        bound,
        was_bound: observed.is_bound(),
    })
}

/// What the claim's IPAddress names, by its annotations.
pub(super) fn read_bound(address: &IpAddress, claim: &IpAddressClaim, pool: &ResolvedPool) -> Option<BoundAddress> {
    let is_of_pool = address.annotation(POOL_ID_ANNOTATION) == Some(pool.policy.id.as_str());
    let fip = address.annotation(FLOATING_IP_ID_ANNOTATION).filter(|_| is_of_pool && is_for(address, claim))?;
    Some(BoundAddress { address: address.spec.address.parse().ok()?, fip: FloatingIpId::new(fip) })
}

/// What an IPAddress without our annotations names: they are lost when an interrupted move is repeated, and a user may
/// remove one. It is ours if its address carries the claim's mark in Neutron.
fn recognize(address: &IpAddress, observed: &Observed, pool: &ResolvedPool) -> Option<BoundAddress> {
    let is_of_another_pool = address.annotation(POOL_ID_ANNOTATION).is_some_and(|id| id != pool.policy.id.as_str());
    let named: IpAddr = address.spec.address.parse().ok()?;
    if is_of_another_pool || !is_for(address, &observed.claim) {
        return None;
    }
    let (ledger, id) = (pool.project.ledger(), &pool.policy.id);
    let held = Ownership::Claimed(observed.key.clone());
    let mut marked = ledger.of_claim(id, &observed.key);
    let entry = marked.find(|entry| entry.fip.address == named && entry.marks.ownership(id) == held)?;
    Some(BoundAddress { address: named, fip: entry.fip.id.clone() })
}

/// Whether the IPAddress can be [recognized] only once the project has been listed.
///
/// [recognized]: recognize
pub(super) fn needs_listing(observed: &Observed, pool: &ResolvedPool) -> bool {
    let is_unknown = |address: &IpAddress| read_bound(address, &observed.claim, pool).is_none();
    pool.project.ledger().is_unlisted(pool.policy.viewer) && observed.address.as_deref().is_some_and(is_unknown)
}

fn is_for(address: &IpAddress, claim: &IpAddressClaim) -> bool {
    address.spec.claim_ref.name == claim.name_any() && address.spec.pool_ref == claim.spec.pool_ref
}
