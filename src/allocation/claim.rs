//! What to do for a claim that wants an address: recover first, then choose (design 3, steps 2 to 4).
//!
//! Called again after every effect, with what was learnt, until the answer is [`Decision::Keep`] or [`Decision::Refuse`].
//! Whatever was lost in between (a reply, the process, a status), the answer is the same for the same claim.

mod candidates;
mod choose;
mod recover;

use std::net::IpAddr;

use jiff::Timestamp;

pub(super) use candidates::{is_listable, is_ownable, is_reusable, surplus};
use choose::choose;
pub use recover::may_keep;
use recover::{chosen, finish, keep, keep_published, recover, stranded};

use super::identity::{ClaimKey, Nonce, PoolId};
use super::ledger::{Hold, Ledger, LedgerEntry, QueuePosition};
use super::mark::{CreationMark, claim_tag};
use super::policy::PoolPolicy;
use super::published::PublishedAddresses;
use super::refusal::Refusal;
use crate::floating_ip::{FloatingIpId, NetworkId, SubnetId};
use crate::object_name::ObjectName;

/// How often another address is asked for when Neutron offers one that the pool may not give.
pub const UNWANTED_LIMIT: usize = 8;

/// A claim that wants an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimRequest {
    /// Its identity in marks.
    pub key: ClaimKey,
    /// Its namespace and name.
    pub object: ObjectName,
    /// When it was created: its place among those that wait.
    pub since: Timestamp,
    /// What its IPAddress names, when it has one of ours.
    pub bound: Option<BoundAddress>,
}

impl ClaimRequest {
    /// Its place among those that wait.
    pub fn place(&self) -> QueuePosition {
        QueuePosition { since: self.since, object: self.object.clone() }
    }

    /// Its exclusive right to work on an address.
    pub fn hold(&self, pool: &PoolId) -> Hold {
        Hold::Claim { pool: pool.clone(), claim: self.key.clone() }
    }
}

/// What the claim's IPAddress names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BoundAddress {
    /// The address.
    pub address: IpAddr,
    /// The floating IP.
    pub fip: FloatingIpId,
}

/// Where an address came from, in the order of choice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Origin {
    /// It was the claim's already.
    Recovered,
    /// The claim's reservation.
    Reserved,
    /// The pool's list.
    List,
    /// The pool owned it: preallocated, retained, or on its way out.
    Owned,
    /// A free floating IP of the project.
    Reuse,
    /// Created.
    Created,
}

impl Origin {
    /// Each of them.
    pub const ALL: [Self; 6] = [Self::Recovered, Self::Reserved, Self::List, Self::Owned, Self::Reuse, Self::Created];

    /// The one word for logs, metrics and the IPAddress' annotation.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Recovered => "recovered",
            Self::Reserved => "reserved",
            Self::List => "list",
            Self::Owned => "owned",
            Self::Reuse => "reuse",
            Self::Created => "created",
        }
    }
}

/// The one write that makes an address the claim's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MarkWrite {
    /// Rewrite the description: we created it.
    Describe(CreationMark),
    /// Add the tag: we did not.
    Tag(String),
}

/// The next thing to do for a claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// The address is the claim's, for certain: publish it, tell the published, and only then give up the hold.
    Keep(FloatingIpId),
    /// MarkWrite the mark; it is held for the claim meanwhile.
    Mark(FloatingIpId, Origin, MarkWrite),
    /// It is the claim's again: take these release tags off, holding it, so that no other claim takes it meanwhile.
    TakeBack(FloatingIpId, Vec<String>),
    /// The tag is written: look again before anything is published.
    Confirm(FloatingIpId),
    /// Somebody else's mark or a port is there too: take ours off (the tag, or the claim's part of the description) and
    /// choose again. Held as [given back](Hold::GivingBack) from here on: what is withdrawn is not taken again half way.
    Withdraw(FloatingIpId, String),
    /// Ask Neutron for a new one.
    Create(NetworkId, Option<SubnetId>),
    /// A write's outcome is not known yet: read, and ask again.
    Settle,
    /// A predecessor's late writes may still land until then; after it, the project is listed before anything is done.
    Fenced(Timestamp),
    /// There is nothing to give.
    Refuse(Refusal),
    /// The floating IP that the IPAddress names cannot be found or taken again; only a person can mend that.
    Lost(LostAddress),
}

impl Decision {
    /// Whether it is about an address that was not the claim's before, or that there is none.
    pub fn is_choice(&self) -> bool {
        match self {
            Self::Mark(_, origin, _) => *origin != Origin::Recovered,
            Self::Create(..) | Self::Refuse(_) => true,
            _ => false,
        }
    }
}

/// Why a published address is no longer the claim's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LostAddress {
    /// Deleted in Neutron.
    #[error(
        "floating IP {0} no longer exists in the project: if the credentials are those of another project, put the right ones back; else delete the machine to get another address"
    )]
    Deleted(IpAddr),
    /// Marked by somebody else.
    #[error(
        "floating IP {0} now carries another owner's mark: remove that mark, or delete the machine to get another address"
    )]
    Taken(IpAddr),
}

/// Decides the next thing to do for a claim.
pub fn decide(
    ledger: &Ledger,
    published: &PublishedAddresses,
    pool: &PoolPolicy,
    claim: &ClaimRequest,
    now: Timestamp,
) -> Decision {
    if ledger.listed().is_none() {
        return Decision::Settle;
    }
    if let Some(published) = &claim.bound {
        return keep_published(ledger, pool, claim, published, now);
    }
    if let Some(entry) = recover(ledger, published, pool, claim) {
        return match (keep(ledger, pool, claim, entry, now), &entry.marks.created) {
            // A predecessor may have been about to take the tag off, or to delete what was released.
            (Decision::TakeBack(..), _) | (Decision::Keep(_), None) if ledger.fence(pool).is_some() => {
                fenced(ledger, pool, now)
            }
            (decision, _) => decision,
        };
    }
    if let Some(entry) = chosen(ledger, pool, claim) {
        return finish(published, pool, claim, entry);
    }
    if let Some(entry) = stranded(ledger, pool, claim) {
        return Decision::Withdraw(entry.fip.id.clone(), claim_tag(&pool.id, &claim.key));
    }
    if ledger.creations(&pool.id).any(|(_, creation)| creation.claim.as_ref() == Some(&claim.key)) {
        return Decision::Settle;
    }
    choose(ledger, published, pool, claim, now)
}

/// Nobody is at work on it, no late write can land on it, and nothing answers on it.
pub(super) fn is_free(entry: &LedgerEntry) -> bool {
    entry.hold.is_none() && entry.doubts.is_empty() && !entry.fip.is_attached()
}

fn fenced(ledger: &Ledger, pool: &PoolPolicy, now: Timestamp) -> Decision {
    ledger.fence(pool).filter(|until| now < *until).map_or(Decision::Settle, Decision::Fenced)
}

/// The mark of a floating IP that is created for a claim, or for the pool when there is none.
pub fn creation_mark(pool: &PoolPolicy, claim: Option<&ClaimKey>, nonce: Nonce) -> CreationMark {
    CreationMark { pool: pool.id.clone(), nonce, claim: claim.cloned(), released: None, is_retained: false }
}

#[cfg(test)]
mod tests;
