//! What is known of one project's floating IPs, and which writes are under way. It is built from Neutron's replies alone
//! and never stored.
//!
//! A choice is made under the ledger's lock, and the chosen floating IP is held until the calls for it have ended, so the
//! calls can run in parallel. A listing never overwrites the reply to a later write: each entry knows when it was last
//! seen.

mod backoff;
mod entry;
mod listings;
mod missing;
mod precedence;
mod viewers;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::Timestamp;

use backoff::CreationBackoff;
pub use backoff::UNWANTED_LIMIT;
pub use entry::{Choice, Creation, CreationBlock, Disowned, Hold, LedgerEntry, OwnerAwaited, UncertainWrite};
use listings::Listing;
pub use missing::Missing;
use missing::MissingOfPools;
pub use precedence::{OWNER_AWAITED_EVERY, YIELDS_FOR};
pub use viewers::Viewer;
pub use writes::SETTLING;

use super::identity::{ClaimKey, Nonce, PoolId};
use super::index::Index;
use super::mark::{Marks, Ownership};
use super::policy::PoolPolicy;
use crate::floating_ip::{FloatingIp, FloatingIpId};

/// A number in the order of this process's reads and writes.
pub type Sequence = u64;

/// When a call to Neutron began.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CallStart {
    pub sequence: Sequence,
    pub at: Timestamp,
    /// Whose credentials it is made with.
    pub viewer: Viewer,
}

/// A pool that this process serves.
#[derive(Clone, Copy, Debug)]
struct Served {
    since: Sequence,
    /// Whose credentials it has.
    viewer: Viewer,
}

#[derive(Clone, Default, Debug)]
pub struct Ledger {
    sequence: Sequence,
    /// The last one of each viewer.
    listings: BTreeMap<Viewer, Listing>,
    has_listing_failed: bool,
    /// In boxes: a node of the tree has room for eleven, of which a third is empty.
    entries: BTreeMap<FloatingIpId, Box<LedgerEntry>>,
    by_address: Index<IpAddr, FloatingIpId>,
    by_claim: Index<(PoolId, ClaimKey), FloatingIpId>,
    by_pool: Index<PoolId, FloatingIpId>,
    unsettled: Index<PoolId, FloatingIpId>,
    /// What nothing is attached to comes first.
    unmarked: BTreeSet<(bool, IpAddr, FloatingIpId)>,
    by_nonce: Index<Nonce, FloatingIpId>,
    held: BTreeSet<FloatingIpId>,
    uncertain: BTreeSet<FloatingIpId>,
    deleted: BTreeMap<FloatingIpId, Sequence>,
    missing: MissingOfPools,
    /// The pools that this process serves.
    served: BTreeMap<PoolId, Served>,
    creations: BTreeMap<Nonce, Creation>,
    backoff: CreationBackoff,
}

/// Records what Neutron showed.
impl Ledger {
    /// The next sequence number: a call that begins now sees every write that was done before.
    #[expect(clippy::arithmetic_side_effects, reason = "no process makes 2^64 calls")]
    pub fn next_sequence(&mut self) -> Sequence {
        self.sequence += 1;
        self.sequence
    }

    /// A call begins, with the credentials of the only viewer.
    pub fn begin(&mut self, now: Timestamp) -> CallStart {
        self.begin_as(Viewer::default(), now)
    }

    pub fn begin_as(&mut self, viewer: Viewer, now: Timestamp) -> CallStart {
        CallStart { sequence: self.next_sequence(), at: now, viewer }
    }

    /// A read showed a floating IP.
    pub fn record_read(&mut self, fip: FloatingIp, began: CallStart) {
        let shown_by = self.shown_by(began.viewer);
        let known = self.entries.get_mut(&fip.id);
        let is_outdated = known.as_ref().is_some_and(|entry| !entry.is_older_than(began))
            || self.deleted.get(&fip.id).is_some_and(|deleted| *deleted >= began.sequence);
        if is_outdated {
            return;
        }
        match known {
            // As most of a listing: its marks and its place in the indexes are the same.
            Some(entry) if entry.fip == fip => {
                entry.seen = began;
                entry.viewers.add(shown_by);
            }
            _ => {
                self.disown_late_marks(&fip);
                self.put(fip, began);
            }
        }
    }

    /// The reply to a write showed a floating IP. A listing that began before the reply may not show the write, so it
    /// overwrites and removes nothing.
    pub fn record_write(&mut self, mut fip: FloatingIp, began: CallStart) {
        let written = self.next_sequence();
        if self.deleted.contains_key(&fip.id) {
            return;
        }
        // A listing that began during the write may show what came after the reply: what it saw is kept.
        if let Some(entry) = self.entries.get(&fip.id).filter(|entry| entry.seen.sequence > began.sequence) {
            fip.port = fip.port.or_else(|| entry.fip.port.clone());
            fip.is_forwarded |= entry.fip.is_forwarded;
            fip.tags.extend(entry.fip.tags.iter().cloned());
        }
        let id = fip.id.clone();
        self.put(fip, began);
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.written = written;
        }
    }

    /// A tag was added or removed. Neutron's reply shows nothing else.
    pub fn record_tag(&mut self, id: &FloatingIpId, tag: &str, is_added: bool) {
        let written = self.next_sequence();
        if let Some(mut entry) = self.remove(id) {
            if is_added {
                entry.fip.tags.insert(tag.into())
            } else {
                entry.fip.tags.remove(tag)
            };
            entry.marks = Marks::read(&entry.fip);
            entry.forget_missing_marks();
            entry.written = written;
            self.insert(entry);
        }
    }

    /// Removes every floating IP without a write that is under way or uncertain: no pool uses the project any more.
    pub fn forget_listing(&mut self) {
        let settled = self.entries.values().filter(|entry| !entry.has_writes());
        let settled: Vec<FloatingIpId> = settled.map(|entry| entry.fip.id.clone()).collect();
        settled.iter().for_each(|id| drop(self.remove(id)));
        self.listings.clear();
    }

    pub fn record_deletion(&mut self, id: &FloatingIpId) {
        let sequence = self.next_sequence();
        self.forget(id);
        self.deleted.insert(id.clone(), sequence);
    }

    /// Disowns the marks that appeared since [this process serves their pool](Self::note_served), but that no reply has
    /// shown: they landed late. Before that, another process may have served the pool. A description that replaces none
    /// could not be seen for a while.
    fn disown_late_marks(&mut self, fip: &FloatingIp) {
        let Some(entry) = self.entries.get_mut(&fip.id) else { return };
        let marks = Marks::read(fip);
        let was_described = entry.marks.created.is_some();
        let described = marks.created.filter(|_| was_described).and_then(|mark| Some((mark.pool, mark.claim?)));
        for owner in marks.claims.into_iter().chain(described) {
            let (pool, claim) = &owner;
            let was_served = self.served.get(pool).is_some_and(|served| entry.seen.sequence >= served.since);
            if was_served && !entry.marks.has_mark_of(&owner) && !entry.is_held_for(pool, claim) {
                entry.disowned.entry(owner).or_insert(Disowned::Late { last_without: entry.seen.at });
            }
        }
    }
}

/// Queries.
impl Ledger {
    /// Until when late writes of a previous process may land; a past time means that no listing with the pool's credentials
    /// has begun since then.
    pub fn fence(&self, pool: &PoolPolicy) -> Option<Timestamp> {
        pool.fenced_until.filter(|until| self.listing_began(pool.viewer).is_none_or(|from| from.at < *until))
    }

    pub fn get(&self, id: &FloatingIpId) -> Option<&LedgerEntry> {
        self.entries.get(id).map(Box::as_ref)
    }

    /// Every floating IP, by id.
    pub fn entries(&self) -> impl Iterator<Item = &LedgerEntry> {
        self.entries.values().map(Box::as_ref)
    }

    /// The floating IPs with this address. There are several where two networks have the same address.
    pub fn at(&self, address: IpAddr) -> impl Iterator<Item = &LedgerEntry> {
        self.by_address.get(&address).filter_map(|id| self.get(id))
    }

    /// The floating IPs whose marks name this claim, by id.
    pub fn of_claim(&self, pool: &PoolId, claim: &ClaimKey) -> impl Iterator<Item = &LedgerEntry> {
        self.by_claim.get(&(pool.clone(), claim.clone())).filter_map(|id| self.get(id))
    }

    /// The floating IPs whose marks name this pool, by id.
    pub fn of_pool(&self, pool: &PoolId) -> impl Iterator<Item = &LedgerEntry> {
        self.by_pool.get(pool).filter_map(|id| self.get(id))
    }

    /// How many there are.
    pub fn count_of_pool(&self, pool: &PoolId) -> usize {
        self.by_pool.count(pool)
    }

    /// Those of them whose marks do not simply say that one claim has them, by id: unclaimed, released and contested ones,
    /// and those with an earlier claim's release. They are few, even in a pool with thousands of claims.
    pub(super) fn unsettled_of_pool(&self, pool: &PoolId) -> impl Iterator<Item = &LedgerEntry> {
        self.unsettled.get(pool).filter_map(|id| self.get(id))
    }

    /// The floating IPs without any pool's mark.
    pub(super) fn unmarked(&self) -> impl Iterator<Item = &LedgerEntry> {
        self.unmarked.iter().filter_map(|(_, _, id)| self.get(id))
    }

    /// Those of them that nothing is attached to, by address: few, in a project where thousands of other machines have one.
    pub(super) fn unmarked_and_unattached(&self) -> impl Iterator<Item = &LedgerEntry> {
        let unattached = self.unmarked.iter().take_while(|(is_attached, _, _)| !is_attached);
        unattached.filter_map(|(_, _, id)| self.get(id))
    }

    /// Whether a floating IP that is held for a clean-up may be deleted, as far as it is known: the pool created it, its marks
    /// are those of the plan, no other pool has marked it, and nothing is attached to it.
    pub fn may_delete(&self, id: &FloatingIpId, pool: &PoolId) -> bool {
        self.get(id).is_some_and(|entry| {
            let is_unchanged = entry.cleaned_up_with.as_deref() == Some(&entry.marks);
            let is_created_here = entry.marks.created.as_ref().is_some_and(|mark| mark.pool == *pool);
            let is_free = !entry.marks.are_shared() && !entry.fip.is_attached();
            is_unchanged && is_created_here && is_free && !self.has_copied_mark(entry)
        })
    }

    /// Whether another floating IP carries the same creation mark: it was copied by hand.
    pub fn has_copied_mark(&self, entry: &LedgerEntry) -> bool {
        entry.marks.created.as_ref().is_some_and(|mark| self.by_nonce.count(&mark.nonce) > 1)
    }

    /// Whether the project has, or may soon have, anything with the pool's mark.
    pub fn has_any(&self, pool: &PoolId) -> bool {
        self.count_towards_limit(pool) > 0
    }

    /// How many addresses count under the pool's `maxIPs`: all that carry its mark, are chosen for it, or are being
    /// created.
    pub(super) fn count_towards_limit(&self, pool: &PoolId) -> usize {
        let being_written = self.held.union(&self.uncertain).filter_map(|id| self.get(id));
        let chosen = being_written
            .filter(|entry| entry.writers().any(|hold| hold.is_for_pool(pool)) && !entry.marks.names(pool));
        self.count_of_pool(pool).saturating_add(self.count_creations(pool)).saturating_add(chosen.count())
    }
}

/// The entries and their indexes.
impl Ledger {
    fn put(&mut self, mut fip: FloatingIp, seen: CallStart) {
        if let Some((_, other)) = self.entries.first_key_value() {
            fip.share_ids(&other.fip);
        }
        let marks = Marks::read(&fip);
        let mut entry = match self.remove(&fip.id) {
            Some(old) => LedgerEntry { fip, marks, seen, ..old },
            None => {
                let deleted_in_vain = self.deleted.contains_key(&fip.id).then_some(seen.at);
                LedgerEntry { deleted_in_vain, ..LedgerEntry::new(fip, marks, seen, self.sequence) }
            }
        };
        entry.viewers.add(self.shown_by(seen.viewer));
        entry.forget_missing_marks();
        entry.orphaned_since.retain(|pool, _| entry.marks.names(pool));
        self.insert(entry);
    }

    fn insert(&mut self, mut entry: LedgerEntry) {
        let id = entry.fip.id.clone();
        self.by_address.insert(entry.fip.address, id.clone());
        if !entry.marks.are_shared() {
            entry.owner_awaited = None;
        }
        for pool in entry.marks.pools() {
            self.by_pool.insert(pool.clone(), id.clone());
            if !matches!(entry.marks.ownership(pool), Ownership::Claimed(_)) || !entry.marks.releases.is_empty() {
                self.unsettled.insert(pool.clone(), id.clone());
            }
            for claim in entry.marks.claims_of(pool) {
                self.by_claim.insert((pool.clone(), claim.clone()), id.clone());
            }
        }
        if entry.marks.is_empty() {
            self.unmarked.insert(unmarked_key(&entry.fip));
        }
        if let Some(mark) = &entry.marks.created {
            self.by_nonce.insert(mark.nonce.clone(), id.clone());
        }
        if entry.hold.is_some() {
            self.held.insert(id.clone());
        }
        if !entry.uncertain_writes.is_empty() {
            self.uncertain.insert(id.clone());
        }
        self.entries.insert(id, Box::new(entry));
    }

    /// The floating IP is gone, so Neutron may offer its address next.
    fn forget(&mut self, id: &FloatingIpId) {
        if let Some(gone) = self.remove(id) {
            self.backoff.note_gone(&gone.fip);
        }
    }

    fn remove(&mut self, id: &FloatingIpId) -> Option<LedgerEntry> {
        let entry = *self.entries.remove(id)?;
        self.held.remove(id);
        self.uncertain.remove(id);
        self.by_address.remove(&entry.fip.address, id);
        for pool in entry.marks.pools() {
            self.by_pool.remove(pool, id);
            self.unsettled.remove(pool, id);
            for claim in entry.marks.claims_of(pool) {
                self.by_claim.remove(&(pool.clone(), claim.clone()), id);
            }
        }
        self.unmarked.remove(&unmarked_key(&entry.fip));
        if let Some(mark) = &entry.marks.created {
            self.by_nonce.remove(&mark.nonce, id);
        }
        Some(entry)
    }
}

fn unmarked_key(fip: &FloatingIp) -> (bool, IpAddr, FloatingIpId) {
    (fip.is_attached(), fip.address, fip.id.clone())
}

#[cfg(test)]
mod tests;
