//! What is known of one project's floating IPs, and which writes are under way. It is built from Neutron's replies alone
//! and never stored.
//!
//! A choice is made under the ledger's lock, and the chosen floating IP is held until the calls for it have ended, so the
//! calls can run in parallel. A listing never overwrites the reply to a later write: each entry knows when it was last
//! seen.

mod backoff;
mod entry;
mod precedence;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};

use backoff::CreationBackoff;
pub use entry::{Creation, CreationBlock, Hold, LedgerEntry, UncertainWrite};
pub use precedence::YIELDS_FOR;

use super::identity::{ClaimKey, Nonce, PoolId};
use super::index::Index;
use super::mark::{Marks, Ownership};
use super::origin::Origin;
use super::policy::PoolPolicy;
use crate::floating_ip::{FloatingIp, FloatingIpId};

/// A point in the order of this process's reads and writes.
pub type Step = u64;

/// When a call to Neutron began.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CallStart {
    pub step: Step,
    pub at: Timestamp,
}

/// How long a write whose outcome is not known may still land: the longest call timeout on our side, doubled, because the
/// server may go on with what it has accepted.
pub const SETTLING: SignedDuration = SignedDuration::from_secs(60);

#[derive(Clone, Default, Debug)]
pub struct Ledger {
    step: Step,
    /// When the last complete listing began, and when it ended.
    last_listing: Option<(CallStart, Timestamp)>,
    entries: BTreeMap<FloatingIpId, LedgerEntry>,
    by_address: Index<IpAddr, FloatingIpId>,
    by_claim: Index<(PoolId, ClaimKey), FloatingIpId>,
    by_pool: Index<PoolId, FloatingIpId>,
    unclaimed: Index<PoolId, FloatingIpId>,
    by_nonce: Index<Nonce, FloatingIpId>,
    held: BTreeSet<FloatingIpId>,
    uncertain: BTreeSet<FloatingIpId>,
    deleted: BTreeMap<FloatingIpId, Step>,
    creations: BTreeMap<Nonce, Creation>,
    backoff: CreationBackoff,
}

/// Records what Neutron showed.
impl Ledger {
    /// The next step: a call that begins now sees every write that was done before.
    pub fn next_step(&mut self) -> Step {
        self.step += 1;
        self.step
    }

    pub fn begin(&mut self, now: Timestamp) -> CallStart {
        CallStart { step: self.next_step(), at: now }
    }

    /// A complete listing of the project has ended.
    pub fn record_listing(&mut self, began: CallStart, fips: Vec<FloatingIp>, now: Timestamp) {
        let listed: BTreeSet<FloatingIpId> = fips.iter().map(|fip| fip.id.clone()).collect();
        let missing =
            self.entries.values().filter(|entry| entry.is_older_than(began) && !listed.contains(&entry.fip.id));
        let missing: Vec<FloatingIpId> = missing.map(|entry| entry.fip.id.clone()).collect();
        missing.iter().for_each(|id| self.forget(id));
        for fip in fips {
            self.record_read(fip, began);
        }
        self.deleted.retain(|_, deleted| *deleted >= began.step);
        self.settle(began);
        self.last_listing = Some((began, now));
    }

    /// A read showed a floating IP.
    pub fn record_read(&mut self, fip: FloatingIp, began: CallStart) {
        let is_outdated = self.entries.get(&fip.id).is_some_and(|entry| !entry.is_older_than(began))
            || self.deleted.get(&fip.id).is_some_and(|deleted| *deleted >= began.step);
        if !is_outdated {
            self.disown_late_marks(&fip);
            self.put(fip, began);
        }
    }

    /// The reply to a write showed a floating IP. A listing that began before the reply may not show the write, so it
    /// overwrites and removes nothing.
    pub fn record_write(&mut self, mut fip: FloatingIp, began: CallStart) {
        let written = self.next_step();
        if self.deleted.contains_key(&fip.id) {
            return;
        }
        // A listing that began during the write may show what came after the reply: what it saw is kept.
        if let Some(entry) = self.entries.get(&fip.id).filter(|entry| entry.seen.step > began.step) {
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
        let written = self.next_step();
        if let Some(mut entry) = self.remove(id) {
            if is_added {
                entry.fip.tags.insert(tag.into())
            } else {
                entry.fip.tags.remove(tag)
            };
            entry.marks = Marks::read(&entry.fip);
            entry.disowned.retain(|mark| entry.marks.claims.contains(mark));
            entry.written = written;
            self.insert(entry);
        }
    }

    pub fn record_deletion(&mut self, id: &FloatingIpId) {
        let step = self.next_step();
        self.forget(id);
        self.deleted.insert(id.clone(), step);
    }

    /// Removes the creations and writes whose outcome a listing that began at this time settles.
    fn settle(&mut self, began: CallStart) {
        let is_settled = |since: Timestamp| began.at.duration_since(since) >= SETTLING;
        let by_nonce = &self.by_nonce;
        self.creations.retain(|nonce, creation| {
            creation.uncertain_since.is_none_or(|since| !is_settled(since) && by_nonce.count(nonce) == 0)
        });
        let entries = &mut self.entries;
        self.uncertain.retain(|id| {
            entries.get_mut(id).is_some_and(|entry| {
                entry.uncertain_writes.retain(|write| !is_settled(write.since));
                !entry.uncertain_writes.is_empty()
            })
        });
    }

    /// Disowns the marks that a read shows but no reply has shown: they landed late.
    fn disown_late_marks(&mut self, fip: &FloatingIp) {
        let Some(entry) = self.entries.get_mut(&fip.id) else { return };
        for mark in Marks::read(fip).claims {
            let is_held_for_it = entry.hold.as_ref().is_some_and(|hold| hold.is_for(&mark.0, &mark.1));
            if !entry.marks.claims.contains(&mark) && !is_held_for_it {
                entry.disowned.insert(mark);
            }
        }
    }
}

/// Tracks the writes under way.
impl Ledger {
    /// A POST is about to be sent.
    pub fn begin_creation(&mut self, nonce: Nonce, pool: PoolId, claim: Option<ClaimKey>) {
        self.creations.insert(nonce, Creation { pool, claim, uncertain_since: None });
    }

    /// A POST was answered or refused. What it created is [recorded](Self::record_write) separately.
    pub fn end_creation(&mut self, nonce: &Nonce) {
        self.creations.remove(nonce);
    }

    /// A POST's outcome is not known: it counts under the limit until a listing settles it.
    pub fn note_uncertain_creation(&mut self, nonce: &Nonce, now: Timestamp) {
        if let Some(creation) = self.creations.get_mut(nonce) {
            creation.uncertain_since = Some(now);
        }
    }

    /// Takes, or gives up, the exclusive right to write to a floating IP.
    pub fn set_hold(&mut self, id: &FloatingIpId, hold: Option<Hold>) {
        if let Some(entry) = self.entries.get_mut(id) {
            if hold.is_some() {
                self.held.insert(id.clone())
            } else {
                entry.chosen_from = None;
                self.held.remove(id)
            };
            entry.hold = hold;
        }
    }

    /// A claim chose an address that was not its own: it holds it until the choice is certain.
    pub fn set_chosen(&mut self, id: &FloatingIpId, origin: Origin, hold: Hold) {
        self.set_hold(id, Some(hold));
        if let Some(entry) = self.entries.get_mut(id) {
            entry.chosen_from = Some(origin);
        }
    }

    /// A write was certainly not done: the hold ends, unless an earlier write of its holder may still land.
    pub fn end_hold_unless_uncertain(&mut self, id: &FloatingIpId) {
        if self.entries.get(id).is_some_and(|entry| entry.uncertain_writes.iter().all(|write| write.by != entry.hold)) {
            self.set_hold(id, None);
        }
    }

    /// The claim's address is published: it has this one, and holds nothing any more.
    pub fn note_bound(&mut self, id: &FloatingIpId, pool: &PoolId, claim: &ClaimKey) {
        self.end_holds(|hold| hold.is_for(pool, claim));
        if let Some(entry) = self.entries.get_mut(id) {
            entry.disowned.remove(&(pool.clone(), claim.clone()));
        }
    }

    /// The claim is gone: ends all its holds, and returns whether it had any. Another one may get its name.
    pub fn forget_claim(&mut self, pool: &PoolId, claim: &ClaimKey) -> bool {
        let had_any = self.end_holds(|hold| hold.is_for(pool, claim));
        let mark = (pool.clone(), claim.clone());
        for id in self.by_claim.get(&mark) {
            if let Some(entry) = self.entries.get_mut(id) {
                entry.disowned.remove(&mark);
            }
        }
        had_any
    }

    /// Returns whether there were any.
    fn end_holds(&mut self, is_ended: impl Fn(&Hold) -> bool) -> bool {
        let held = self.held_by(is_ended);
        held.iter().for_each(|id| self.set_hold(id, None));
        !held.is_empty()
    }

    /// A claim's mark is about to be removed: from now on the claim does not take the address again.
    pub fn begin_withdrawal(&mut self, id: &FloatingIpId, pool: &PoolId, claim: &ClaimKey) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.disowned.insert((pool.clone(), claim.clone()));
        }
        self.set_hold(id, Some(Hold::Cleanup));
    }

    /// Ends a withdrawal. If the mark was certainly not removed, the claim keeps its hold and withdraws again, unless an
    /// earlier withdrawal may still land.
    pub fn end_withdrawal(&mut self, id: &FloatingIpId, by: Hold, has_failed: bool) {
        let may_land = |entry: &LedgerEntry| entry.uncertain_writes.iter().any(|write| write.by.as_ref() != Some(&by));
        let stays_with_claim = has_failed && !self.entries.get(id).is_some_and(may_land);
        self.set_hold(id, stays_with_claim.then_some(by));
    }

    /// The outcome of a write by the present holder is not known. Until a listing that begins [`SETTLING`] later, no other
    /// claim takes the address, no sweep touches it, and it counts under the limit.
    pub fn note_uncertain_write(&mut self, id: &FloatingIpId, now: Timestamp) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.uncertain_writes.push(UncertainWrite { by: entry.hold.clone(), since: now });
            self.uncertain.insert(id.clone());
        }
    }

    /// Remembers which of a pool's addresses are orphans, each since it was first seen as one.
    pub fn note_orphans(&mut self, pool: &PoolId, orphans: &[FloatingIpId], now: Timestamp) {
        for id in self.by_pool.get(pool) {
            let Some(entry) = self.entries.get_mut(id) else { continue };
            if orphans.contains(id) {
                entry.orphaned_since.entry(pool.clone()).or_insert(now);
            } else {
                entry.orphaned_since.remove(pool);
            }
        }
    }
}

/// Queries.
impl Ledger {
    /// Whether the project has never been listed completely: then a missing floating IP may exist.
    pub fn is_unlisted(&self) -> bool {
        self.last_listing.is_none()
    }

    /// The step at which the last complete listing began.
    pub fn listing_step(&self) -> Option<Step> {
        self.last_listing.map(|(began, _)| began.step)
    }

    /// When the last complete listing began.
    pub fn listing_began(&self) -> Option<Timestamp> {
        self.last_listing.map(|(began, _)| began.at)
    }

    /// When the last complete listing ended.
    pub fn listing_ended(&self) -> Option<Timestamp> {
        self.last_listing.map(|(_, ended)| ended)
    }

    /// Until when late writes of a previous process may land; a past time means that no listing has begun since then.
    pub fn fence(&self, pool: &PoolPolicy) -> Option<Timestamp> {
        pool.fenced_until.filter(|until| self.listing_began().is_none_or(|from| from < *until))
    }

    pub fn get(&self, id: &FloatingIpId) -> Option<&LedgerEntry> {
        self.entries.get(id)
    }

    /// Every floating IP, by id.
    pub fn entries(&self) -> impl Iterator<Item = &LedgerEntry> {
        self.entries.values()
    }

    /// The floating IPs with this address. There are several where two networks have the same address.
    pub fn at(&self, address: IpAddr) -> impl Iterator<Item = &LedgerEntry> {
        self.by_address.get(&address).filter_map(|id| self.entries.get(id))
    }

    /// The floating IPs whose marks name this claim, by id.
    pub fn of_claim(&self, pool: &PoolId, claim: &ClaimKey) -> impl Iterator<Item = &LedgerEntry> {
        self.by_claim.get(&(pool.clone(), claim.clone())).filter_map(|id| self.entries.get(id))
    }

    /// The floating IPs whose marks name this pool, by id.
    pub fn of_pool(&self, pool: &PoolId) -> impl Iterator<Item = &LedgerEntry> {
        self.by_pool.get(pool).filter_map(|id| self.entries.get(id))
    }

    /// Those of them that no claim has, by id: few, even in a pool with thousands of claims.
    pub(super) fn unclaimed_of_pool(&self, pool: &PoolId) -> impl Iterator<Item = &LedgerEntry> {
        self.unclaimed.get(pool).filter_map(|id| self.entries.get(id))
    }

    pub(super) fn held(&self) -> impl Iterator<Item = &LedgerEntry> {
        self.held.iter().filter_map(|id| self.entries.get(id))
    }

    fn held_by(&self, is_by: impl Fn(&Hold) -> bool) -> Vec<FloatingIpId> {
        let held = self.held().filter(|entry| entry.hold.as_ref().is_some_and(&is_by));
        held.map(|entry| entry.fip.id.clone()).collect()
    }

    /// The POSTs of a pool that are under way or uncertain.
    pub fn creations<'a>(&'a self, pool: &'a PoolId) -> impl Iterator<Item = (&'a Nonce, &'a Creation)> {
        self.creations.iter().filter(move |(_, creation)| creation.pool == *pool)
    }

    /// Whether a POST for this claim is under way or uncertain.
    pub fn is_creating_for(&self, pool: &PoolId, claim: &ClaimKey) -> bool {
        self.creations(pool).any(|(_, creation)| creation.claim.as_ref() == Some(claim))
    }

    /// Whether the POST that creates it is still under way, although a listing shows it already. Writes before the reply
    /// are not in the reply.
    pub(super) fn is_being_created(&self, entry: &LedgerEntry) -> bool {
        entry.marks.created.as_ref().is_some_and(|mark| self.creations.contains_key(&mark.nonce))
    }

    /// Whether a floating IP may be deleted, as far as it is known: the pool created it, no other pool has marked it, and
    /// nothing is attached to it.
    pub fn may_delete(&self, id: &FloatingIpId, pool: &PoolId) -> bool {
        self.entries.get(id).is_some_and(|entry| {
            let is_created_here = entry.marks.created.as_ref().is_some_and(|mark| mark.pool == *pool);
            is_created_here
                && !entry.marks.is_unreadable
                && entry.marks.pools().len() == 1
                && !entry.fip.is_attached()
                && !self.has_copied_mark(entry)
        })
    }

    /// Whether another floating IP carries the same creation mark: it was copied by hand.
    pub(super) fn has_copied_mark(&self, entry: &LedgerEntry) -> bool {
        entry.marks.created.as_ref().is_some_and(|mark| self.by_nonce.count(&mark.nonce) > 1)
    }

    /// How many addresses count under the pool's `maxIPs`: all that carry its mark, are chosen for it, or are being
    /// created.
    pub(super) fn count_towards_limit(&self, pool: &PoolId) -> usize {
        let being_written = self.held.union(&self.uncertain).filter_map(|id| self.entries.get(id));
        let chosen = being_written
            .filter(|entry| entry.writers().any(|hold| hold.is_for_pool(pool)) && !entry.marks.names(pool));
        self.by_pool.count(pool) + self.count_creations(pool) + chosen.count()
    }

    /// How many floating IPs may appear for the pool at any moment. One that the entries show already is not counted
    /// again.
    fn count_creations(&self, pool: &PoolId) -> usize {
        self.creations(pool).filter(|(nonce, _)| self.by_nonce.count(nonce) == 0).count()
    }

    /// Whether the outcome of any call is not known yet.
    pub fn has_unknown_outcomes(&self) -> bool {
        !self.uncertain.is_empty() || self.creations.values().any(|creation| creation.uncertain_since.is_some())
    }

    /// Whether a mark of the pool may still land.
    pub(super) fn has_uncertain_writes(&self, pool: &PoolId) -> bool {
        self.creations(pool).next().is_some() || self.uncertain_writes(|hold| hold.is_for_pool(pool)).next().is_some()
    }

    /// Since when a mark of the claim may still land; the last time, if there are several.
    pub(super) fn uncertain_since(&self, pool: &PoolId, claim: &ClaimKey) -> Option<Timestamp> {
        self.uncertain_writes(|hold| hold.is_for(pool, claim)).map(|write| write.since).max()
    }

    fn uncertain_writes(&self, is_by: impl Fn(&Hold) -> bool) -> impl Iterator<Item = &UncertainWrite> {
        let entries = self.uncertain.iter().filter_map(|id| self.entries.get(id));
        entries.flat_map(|entry| &entry.uncertain_writes).filter(move |write| write.by.as_ref().is_some_and(&is_by))
    }
}

/// The entries and their indexes.
impl Ledger {
    fn put(&mut self, fip: FloatingIp, seen: CallStart) {
        let marks = Marks::read(&fip);
        let mut entry = match self.remove(&fip.id) {
            Some(old) => LedgerEntry { fip, marks, seen, ..old },
            None => LedgerEntry::new(fip, marks, seen, self.step),
        };
        entry.disowned.retain(|mark| entry.marks.claims.contains(mark));
        entry.orphaned_since.retain(|pool, _| entry.marks.names(pool));
        self.insert(entry);
    }

    fn insert(&mut self, entry: LedgerEntry) {
        let id = entry.fip.id.clone();
        self.by_address.insert(entry.fip.address, id.clone());
        for pool in entry.marks.pools() {
            self.by_pool.insert(pool.clone(), id.clone());
            if matches!(entry.marks.ownership(pool), Ownership::Unclaimed | Ownership::Released { .. }) {
                self.unclaimed.insert(pool.clone(), id.clone());
            }
            for claim in entry.marks.claims_of(pool) {
                self.by_claim.insert((pool.clone(), claim.clone()), id.clone());
            }
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
        self.entries.insert(id, entry);
    }

    /// The floating IP is gone, so Neutron may offer its address next.
    fn forget(&mut self, id: &FloatingIpId) {
        if self.remove(id).is_some() {
            self.backoff.note_gone(id);
        }
    }

    fn remove(&mut self, id: &FloatingIpId) -> Option<LedgerEntry> {
        let entry = self.entries.remove(id)?;
        self.held.remove(id);
        self.uncertain.remove(id);
        self.by_address.remove(&entry.fip.address, id);
        for pool in entry.marks.pools() {
            self.by_pool.remove(pool, id);
            self.unclaimed.remove(pool, id);
            for claim in entry.marks.claims_of(pool) {
                self.by_claim.remove(&(pool.clone(), claim.clone()), id);
            }
        }
        if let Some(mark) = &entry.marks.created {
            self.by_nonce.remove(&mark.nonce, id);
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests;
