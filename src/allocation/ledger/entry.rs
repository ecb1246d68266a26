//! The ledger's records of floating IPs and creations. Data only.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::viewers::{Viewer, Viewers};
use super::{CallStart, Sequence};
use crate::allocation::Refusal;
use crate::allocation::identity::{ClaimKey, PoolId};
use crate::allocation::mark::{Marks, TAG_LIMIT};
use crate::allocation::origin::Origin;
use crate::floating_ip::FloatingIp;

/// A floating IP as it was last seen or written.
#[derive(Clone, Debug)]
pub struct LedgerEntry {
    pub fip: FloatingIp,
    /// The marks on `fip`, parsed once.
    pub marks: Marks,
    /// When the listing, or the call whose reply showed all of it, began.
    pub seen: CallStart,
    pub(super) viewers: Viewers,
    /// The ledger's sequence number when it was first recorded.
    pub known_since: Sequence,
    /// The sequence number of our last write to it.
    pub written: Sequence,
    /// Who may write to it now.
    pub hold: Option<Hold>,
    /// The marks that it had when it was held as unwanted or for a clean-up: once they change, it is not deleted.
    pub cleaned_up_with: Option<Box<Marks>>,
    /// Writes to it that may still land.
    pub uncertain_writes: Vec<UncertainWrite>,
    /// How claims chose it that do not certainly have it yet: by the hold, a mark, or a write that may still land. Until it
    /// has been read back, a port on the address is not the claim's.
    pub choices: BTreeMap<(PoolId, ClaimKey), Choice>,
    /// Claim marks that do not count. A port on the address is then not the claim's.
    pub disowned: BTreeMap<(PoolId, ClaimKey), Disowned>,
    /// Since when it is an orphan of each pool: the pool's mark names a claim that does not have it.
    pub orphaned_since: BTreeMap<PoolId, Timestamp>,
    /// How often it was seen with another owner's mark beside that of a claim that waits for the other owner.
    pub owner_awaited: Option<OwnerAwaited>,
    /// When Neutron first showed it again after it had answered that it was deleted.
    pub deleted_in_vain: Option<Timestamp>,
    /// A claim backed off from it: until then it is left to another pool.
    pub yielded_until: Option<Timestamp>,
    /// Neutron refused the mark of each of these pools: until then the pool chooses others before it.
    pub refused_until: BTreeMap<PoolId, Timestamp>,
}

/// A write whose outcome is not known. A read does not settle it, since the write may still land afterwards; only time
/// does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UncertainWrite {
    /// The hold under which it was sent; none for a release.
    pub by: Option<Hold>,
    pub since: Timestamp,
}

impl LedgerEntry {
    pub(super) fn new(fip: FloatingIp, marks: Marks, seen: CallStart, known_since: Sequence) -> Self {
        let (choices, disowned, orphaned_since) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self {
            fip,
            marks,
            seen,
            viewers: Viewers::default(),
            known_since,
            written: 0,
            hold: None,
            cleaned_up_with: None,
            uncertain_writes: Vec::new(),
            choices,
            disowned,
            orphaned_since,
            owner_awaited: None,
            deleted_in_vain: None,
            yielded_until: None,
            refused_until: BTreeMap::new(),
        }
    }

    /// Whether it was read after our last write to it.
    pub fn is_confirmed(&self) -> bool {
        self.seen.sequence > self.written
    }

    /// Whether a read that began then is newer.
    pub fn is_older_than(&self, began: CallStart) -> bool {
        self.seen.sequence.max(self.written) < began.sequence
    }

    /// Whether nothing is attached to it and no write of ours to it is under way or uncertain.
    pub(in crate::allocation) fn is_free(&self) -> bool {
        !self.has_writes() && !self.fip.is_attached()
    }

    /// Whether a write of ours to it is under way or uncertain.
    pub(in crate::allocation) fn has_writes(&self) -> bool {
        self.hold.is_some() || !self.uncertain_writes.is_empty()
    }

    /// Whether Neutron would take another tag.
    pub(in crate::allocation) fn has_room_for_tag(&self) -> bool {
        self.fip.tags.len() < TAG_LIMIT
    }

    pub(in crate::allocation) fn is_held_for(&self, pool: &PoolId, claim: &ClaimKey) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.is_for(pool, claim))
    }

    /// How the claim chose it, if it does not certainly have it yet.
    pub fn choice_of(&self, pool: &PoolId, claim: &ClaimKey) -> Option<Choice> {
        self.choices.get(&(pool.clone(), claim.clone())).copied()
    }

    /// Forgets what is known of the marks of claims that have none and whose writes have ended. While a clean-up is under
    /// way, its outcome decides.
    pub(super) fn forget_missing_marks(&mut self) {
        if self.hold == Some(Hold::Cleanup) {
            return;
        }
        let may_have_mark = |owner: &(PoolId, ClaimKey)| {
            self.marks.has_mark_of(owner) || self.writers().any(|hold| hold.is_for(&owner.0, &owner.1))
        };
        let known = self.choices.keys().chain(self.disowned.keys());
        let missing: Vec<_> = known.filter(|owner| !may_have_mark(owner)).cloned().collect();
        for owner in missing {
            self.choices.remove(&owner);
            self.disowned.remove(&owner);
        }
    }

    /// The holds under which writes to it are under way or uncertain.
    pub(in crate::allocation) fn writers(&self) -> impl Iterator<Item = &Hold> {
        self.hold.iter().chain(self.uncertain_writes.iter().filter_map(|write| write.by.as_ref()))
    }
}

/// Why a claim's mark does not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disowned {
    /// It landed late, when the claim did not hold the address, which was last seen without it then.
    Late { last_without: Timestamp },
    /// The claim began to remove it, or has another address.
    GivenUp,
}

impl Disowned {
    /// Whether it does not count for a claim either whose IPAddress names the address. A mark that was not there yet when no
    /// call of a previous process could land any more was written by a user, or could not be seen for a while.
    pub fn is_certain(self, fenced_until: Option<Timestamp>) -> bool {
        match self {
            Self::Late { last_without } => fenced_until.is_some_and(|until| last_without < until),
            Self::GivenUp => true,
        }
    }
}

/// A claim waits until another owner removes its mark from the claim's address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnerAwaited {
    pub times: u8,
    pub last: Timestamp,
}

/// A claim chose an address that was not its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    pub origin: Origin,
    /// The claim's IPAddress named the address before it was chosen. Otherwise it is published once it has been read back.
    pub was_published: bool,
}

/// The exclusive right to write to a floating IP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Hold {
    /// A claim chose it, and it is not yet certainly the claim's.
    Claim { pool: PoolId, claim: ClaimKey },
    /// A claim's mark is being removed, or a sweep works on it.
    Cleanup,
    /// Neutron offered it for a claim or as a spare, but it is unwanted for that.
    Unwanted,
}

impl Hold {
    pub(in crate::allocation) fn is_for(&self, of_pool: &PoolId, of_claim: &ClaimKey) -> bool {
        self.claim_of(of_pool) == Some(of_claim)
    }

    /// The claim of the pool that chose it.
    pub(in crate::allocation) fn claim_of(&self, of_pool: &PoolId) -> Option<&ClaimKey> {
        match self {
            Self::Claim { pool, claim } if pool == of_pool => Some(claim),
            _ => None,
        }
    }

    pub(in crate::allocation) fn is_for_pool(&self, of_pool: &PoolId) -> bool {
        self.claim_of(of_pool).is_some()
    }
}

/// A POST that is under way, or whose outcome is not known. It counts under `maxIPs`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Creation {
    pub pool: PoolId,
    /// None for a spare.
    pub claim: Option<ClaimKey>,
    /// Whose request has an unknown outcome, and since when.
    pub uncertain: Option<(Viewer, Timestamp)>,
}

/// Why a pool creates nothing for now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreationBlock {
    pub refusal: Refusal,
    /// When to ask again.
    pub until: Timestamp,
}
