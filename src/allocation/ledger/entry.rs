//! What the ledger holds of a floating IP, of a creation, and of those that wait. Data only.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::Step;
use crate::allocation::Refusal;
use crate::allocation::identity::{ClaimKey, PoolId};
use crate::allocation::mark::Marks;
use crate::floating_ip::FloatingIp;
use crate::object_name::ObjectName;

/// A floating IP as it was last seen or written.
#[derive(Clone, Debug)]
pub struct LedgerEntry {
    /// The floating IP.
    pub fip: FloatingIp,
    /// Its marks, parsed once.
    pub marks: Marks,
    /// The step at which all of it was true: the start of the listing or the reply that showed it.
    pub seen: Step,
    /// The step of our last write to it.
    pub written: Step,
    /// Who is at work on it.
    pub hold: Option<Hold>,
    /// Writes to it whose outcome is not known, and which may still land.
    pub doubts: Vec<UncertainWrite>,
    /// Marks that their claim does not stand by: it began to take them off, or they landed late, when nobody was at work
    /// on it for that claim. What is attached then was attached by somebody else.
    pub disowned: BTreeSet<(PoolId, ClaimKey)>,
    /// Since when it belongs to no claim of a pool although it says that it does, for each pool whose mark it has.
    pub orphaned_since: BTreeMap<PoolId, Timestamp>,
}

/// A write whose outcome is not known. Reading it back does not settle it: what is not there may still come, and what is
/// there may still go. Time does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UncertainWrite {
    /// Who wrote: the hold at that time; none for a claim that gave it back.
    pub by: Option<Hold>,
    /// When the outcome became unknown.
    pub since: Timestamp,
}

impl LedgerEntry {
    /// Whether it was seen whole after our last write to it.
    pub fn is_confirmed(&self) -> bool {
        self.seen > self.written
    }
}

/// Who is at work on an address. Nobody else chooses or sweeps it meanwhile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Hold {
    /// A claim chose it, and it is not yet the claim's for certain.
    Claim {
        /// The pool.
        pool: PoolId,
        /// The claim.
        claim: ClaimKey,
    },
    /// It is being given back.
    GivingBack,
    /// It was created for a claim that may not have it.
    Unwanted,
}

/// A POST that is under way, or whose outcome is not known. It counts under `maxIPs`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Creation {
    /// The pool.
    pub pool: PoolId,
    /// For whom; none for a preallocated one.
    pub claim: Option<ClaimKey>,
    /// When the outcome became unknown.
    pub unknown_since: Option<Timestamp>,
}

/// Why a pool creates nothing for now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreationBlock {
    /// What Neutron answered.
    pub refusal: Refusal,
    /// When to ask again.
    pub until: Timestamp,
}

/// A claim's place among those that wait: the oldest first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct QueuePosition {
    /// When the claim was created.
    pub since: Timestamp,
    /// Its namespace and name, to tell those of one second apart.
    pub object: ObjectName,
}
