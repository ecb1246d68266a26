//! What to do for a claim that needs an address: recover the one that it has, otherwise choose one.
//!
//! The caller calls [`decide`] again after every effect, until it returns [`Decision::Keep`] or [`Decision::Refuse`]. What
//! is lost in between (a reply, the process, a status) does not change the result.

mod choose;
mod recover;

use std::net::IpAddr;

use jiff::Timestamp;

use super::identity::{ClaimKey, PoolId};
use super::ledger::{Hold, LedgerEntry};
use super::mark::{CreationMark, claim_tag};
use super::origin::Origin;
use super::refusal::Refusal;
use super::situation::{QueuePosition, Situation};
use super::supply::{CreationPlace, Unavailable};
use crate::floating_ip::{FloatingIp, FloatingIpId};
use crate::object_name::ObjectName;

/// A claim that needs an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimRequest {
    pub key: ClaimKey,
    pub object: ObjectName,
    /// When the claim was created.
    pub since: Timestamp,
    /// What its IPAddress names, if that is one of ours.
    pub bound: Option<BoundAddress>,
    /// Whether its status references an IPAddress, even if that is gone: the claim has had an address since it last
    /// [forgot](Decision::ForgetAddress) one.
    pub was_bound: bool,
}

impl ClaimRequest {
    pub fn queue_position(&self) -> QueuePosition {
        QueuePosition { since: self.since, object: self.object.clone(), key: self.key.clone() }
    }

    /// The claim's exclusive right to write to a floating IP.
    pub fn hold(&self, pool: &PoolId) -> Hold {
        Hold::Claim { pool: pool.clone(), claim: self.key.clone() }
    }
}

/// What a claim's IPAddress names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BoundAddress {
    pub address: IpAddr,
    pub fip: FloatingIpId,
}

/// The one write that makes an address the claim's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MarkWrite {
    /// Rewrite the description of a floating IP that the pool created.
    Describe(CreationMark),
    /// Add a tag to a floating IP that the pool did not create.
    Tag(String),
}

/// The next thing to do for a claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// The address is certainly the claim's: publish it, and end the hold only when it is known as published.
    Keep(FloatingIpId),
    /// Write the mark, holding the address for the claim.
    Mark(FloatingIpId, Origin, MarkWrite),
    /// The address is the claim's again: remove these release tags, holding it so that no other claim takes it meanwhile.
    TakeBack(FloatingIpId, Vec<String>),
    /// A tag was written or removed: list again before the address is published.
    Confirm(FloatingIpId),
    /// The claim may not have the address: remove the claim's mark (this tag, or its part of the description) and choose
    /// again.
    Withdraw(FloatingIpId, String),
    /// The claim's own address carries another owner's mark, too, which that owner is expected to remove: list, [count
    /// that](super::ledger::Ledger::note_owner_awaited), and ask again later.
    AwaitOwner(FloatingIpId),
    /// A clean-up of the claim's own address may still take effect, or another claim may be taking it: list, and ask again
    /// later. Or the mark was copied to another floating IP: ask again later, since a person must clear the copy.
    AwaitMark(FloatingIpId),
    /// The address that the claim had is gone. First remove the reference from its status: a mark that is found later is
    /// then not taken for that of an address that the claim had.
    ForgetAddress,
    /// Create a floating IP.
    Create(CreationPlace),
    /// A write's outcome is not known yet: list, and ask again.
    Settle,
    /// Late writes of a previous process may still land until then.
    Fenced(Timestamp),
    Refuse(Refusal),
    /// The IPAddress's floating IP cannot be found or taken again without manual action.
    Lost(LostAddress),
}

impl Decision {
    /// Whether it chooses a new address for the claim, is about to, or refuses one.
    pub fn is_choice(&self) -> bool {
        match self {
            Self::Mark(_, origin, _) => *origin != Origin::Recovered,
            Self::ForgetAddress | Self::Create(..) | Self::Refuse(_) => true,
            _ => false,
        }
    }
}

/// Why a published address is no longer the claim's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LostAddress {
    #[error(
        "floating IP {0} no longer exists in the project: if the credentials are for another project, restore the right ones; otherwise delete the machine to get another address"
    )]
    Deleted(IpAddr),
    #[error(
        "floating IP {0} now carries another owner's mark: remove that mark, or delete the machine to get another address"
    )]
    Taken(IpAddr),
    #[error(
        "floating IP {0} now carries a mark of a newer version of caip-openstack: upgrade the controller, or delete the machine to get another address"
    )]
    MarkedByNewerVersion(IpAddr),
    /// It was released and the claim restored, or it was deleted and created again: it does not count under the limit yet.
    #[error(
        "floating IP {0} is not marked for the claim any more, and the pool has reached spec.maxIPs: raise it, or delete the machine to get another address"
    )]
    AboveLimit(IpAddr),
    /// Something is attached to it, or the pool may not give it to a claim that finds it so, and neither its marks nor the
    /// claim's status say that the claim has it.
    #[error(
        "floating IP {address} is not marked for the claim any more, and is not free for it: if the claim's machine uses it, add the tag {tag} to it; otherwise delete this claim's IPAddress to get another address"
    )]
    NotFree {
        address: IpAddr,
        /// The claim's mark.
        tag: String,
    },
    /// Its mark names another claim of the pool: the claim's IPAddress was copied, forged or restored.
    #[error("floating IP {0} is marked for another claim: delete this claim's IPAddress to get another address")]
    MarkedForAnother(IpAddr),
}

impl LostAddress {
    /// Every [`Self::reason`].
    pub const REASONS: [&str; 6] =
        ["Deleted", "Taken", "MarkedForAnother", "MarkedByNewerVersion", "AboveLimit", "NotFree"];

    /// As metrics name it.
    pub const fn reason(&self) -> &'static str {
        let [deleted, taken, marked_for_another, marked_by_newer_version, above_limit, not_free] = Self::REASONS;
        match self {
            Self::Deleted(_) => deleted,
            Self::Taken(_) => taken,
            Self::MarkedForAnother(_) => marked_for_another,
            Self::MarkedByNewerVersion(_) => marked_by_newer_version,
            Self::AboveLimit(_) => above_limit,
            Self::NotFree { .. } => not_free,
        }
    }
}

/// Decides the next thing to do for a claim.
pub fn decide(situation: &Situation<'_>, claim: &ClaimRequest) -> Decision {
    ClaimCase { situation: *situation, claim }.decide()
}

/// Whether the pool's spec and the published addresses let the claim have a floating IP. A new floating IP that the claim
/// may not keep is [unwanted](Hold::Unwanted).
pub fn may_keep(situation: &Situation<'_>, claim: &ClaimRequest, fip: &FloatingIp) -> bool {
    let pool = situation.pool;
    pool.allows(fip.address, &claim.key)
        && !situation.relevant_addresses().is_published_for_another(fip, &pool.id, &claim.key)
}

/// Whether a claim may keep a floating IP that Neutron has created for it just now. Another floating IP that the project
/// had at this address is gone: if it was another claim's, that one's IPAddress may be on its way.
pub fn may_keep_created(situation: &Situation<'_>, claim: &ClaimRequest, fip: &FloatingIp) -> bool {
    may_keep(situation, claim, fip) && !situation.was_anothers(fip, Some(&claim.key))
}

/// One claim in its situation.
struct ClaimCase<'a> {
    situation: Situation<'a>,
    claim: &'a ClaimRequest,
}

impl<'a> ClaimCase<'a> {
    fn decide(&self) -> Decision {
        let Situation { ledger, pool, .. } = self.situation;
        if ledger.is_unlisted(pool.viewer) {
            return Decision::Settle;
        }
        if let Some(bound) = &self.claim.bound {
            return self.keep_published(bound);
        }
        if let Some(entry) = self.find_marked() {
            return self.recover(entry);
        }
        let begun = self.find_begun();
        let is_contested = |entry: &LedgerEntry| self.choice_of(entry).is_none() && entry.marks.are_shared();
        if let Some(entry) = begun.filter(|entry| !is_contested(entry)) {
            return self.complete(entry);
        }
        if let Some(decision) = self.wait_for_other_owner() {
            return decision;
        }
        if let Some(entry) = begun {
            return self.complete(entry);
        }
        if let Some(entry) = self.find_stranded().or_else(|| self.find_unwanted()) {
            return match self.situation.fence() {
                Some(_) => self.wait_for_fence(),
                None => Decision::Withdraw(entry.fip.id.clone(), self.tag()),
            };
        }
        if ledger.is_creating_for(&pool.id, &self.claim.key) {
            return Decision::Settle;
        }
        match self.choose() {
            Decision::Mark(..) | Decision::Create(_) | Decision::Refuse(_) if self.claim.was_bound => {
                self.forget_address()
            }
            decision => decision,
        }
    }

    fn mark(&self, entry: &LedgerEntry, origin: Origin) -> Decision {
        let write = match self.situation.created_here(entry) {
            Some(mark) => MarkWrite::Describe(mark.given_to(&self.claim.key)),
            None => MarkWrite::Tag(self.tag()),
        };
        Decision::Mark(entry.fip.id.clone(), origin, write)
    }

    fn wait_for_fence(&self) -> Decision {
        let until = self.situation.fence().filter(|until| self.situation.now < *until);
        until.map_or(Decision::Settle, Decision::Fenced)
    }

    fn refuse(&self, unavailable: Unavailable) -> Decision {
        match unavailable {
            Unavailable::Refused(refusal) => Decision::Refuse(refusal),
            Unavailable::Fenced => self.wait_for_fence(),
        }
    }

    fn tag(&self) -> String {
        claim_tag(&self.situation.pool.id, &self.claim.key)
    }

    fn owner(&self) -> (PoolId, ClaimKey) {
        (self.situation.pool.id.clone(), self.claim.key.clone())
    }
}

#[cfg(test)]
mod tests;
