//! The calls under way, and those whose outcome is not known: which floating IPs they hold, and what they may still do.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::{CallStart, Choice, Creation, Disowned, Hold, Ledger, LedgerEntry, Served, UncertainWrite, Viewer};
use crate::allocation::identity::{ClaimKey, Nonce, PoolId};
use crate::floating_ip::{FloatingIp, FloatingIpId};
use crate::time::after;

/// How long a write whose outcome is not known may still land: the longest call timeout on our side, doubled, because the
/// server may go on with what it has accepted.
pub const SETTLING: SignedDuration = SignedDuration::from_secs(60);

/// How soon an orphan may count as one again after it was released.
const RELEASE_SHOWN_WITHIN: SignedDuration = SignedDuration::from_secs(60);

impl Ledger {
    /// A POST is about to be sent.
    pub fn begin_creation(&mut self, nonce: Nonce, pool: PoolId, claim: Option<ClaimKey>) {
        self.creations.insert(nonce, Creation { pool, claim, uncertain: None });
    }

    /// A POST was answered or refused. What it created is [recorded](Self::record_write) separately.
    pub fn end_creation(&mut self, nonce: &Nonce) {
        self.creations.remove(nonce);
    }

    /// A POST's outcome is not known: it counts under the limit until a listing settles it.
    pub fn note_uncertain_creation(&mut self, nonce: &Nonce, viewer: Viewer, now: Timestamp) {
        if let Some(creation) = self.creations.get_mut(nonce) {
            creation.uncertain = Some((viewer, now));
        }
    }

    /// Holds a floating IP without a mark that a request created which began then, so that no claim chooses it before it is
    /// deleted. False if it existed before, or a pool has found it meanwhile.
    pub fn hold_created(&mut self, fip: FloatingIp, began: CallStart) -> bool {
        let is_new =
            |entry: &LedgerEntry| entry.known_since >= began.sequence && !entry.has_writes() && entry.marks.is_empty();
        let id = fip.id.clone();
        if !self.get(&id).is_none_or(is_new) {
            return false;
        }
        self.record_write(fip, began);
        self.set_hold(&id, Some(Hold::Cleanup));
        self.note_unwanted(id);
        true
    }

    /// Takes, or gives up, the exclusive right to write to a floating IP.
    pub fn set_hold(&mut self, id: &FloatingIpId, hold: Option<Hold>) {
        let is_unneeded = matches!(hold, Some(Hold::Cleanup | Hold::Unwanted));
        if !is_unneeded {
            self.end_unwanted(id);
        }
        if let Some(entry) = self.entries.get_mut(id) {
            if hold.is_some() {
                self.held.insert(id.clone())
            } else {
                self.held.remove(id)
            };
            let (was_unwanted, is_cleanup) = (entry.hold == Some(Hold::Unwanted), hold == Some(Hold::Cleanup));
            if !(was_unwanted && is_cleanup) {
                entry.cleaned_up_with = is_unneeded.then(|| Box::new(entry.marks.clone()));
            }
            entry.hold = hold;
            if entry.hold.is_none() {
                entry.forget_missing_marks();
            }
        }
    }

    /// A claim chose an address that was not its own: it holds it until the choice is certain.
    pub fn set_chosen(&mut self, id: &FloatingIpId, choice: Choice, pool: &PoolId, claim: &ClaimKey) {
        self.set_hold(id, Some(Hold::Claim { pool: pool.clone(), claim: claim.clone() }));
        if let Some(entry) = self.entries.get_mut(id) {
            entry.choices.insert((pool.clone(), claim.clone()), choice);
        }
    }

    /// A write was certainly not done: the hold ends, unless an earlier write of its holder may still land.
    pub fn end_hold_unless_uncertain(&mut self, id: &FloatingIpId) {
        if self.entries.get(id).is_some_and(|entry| entry.uncertain_writes.iter().all(|write| write.by != entry.hold)) {
            self.set_hold(id, None);
        }
    }

    /// The claim may keep what it chose. If its IPAddress names it already, it has it: from now on a port is that of its
    /// machine. Otherwise an IPAddress that names it from now on is its own.
    pub fn note_read_back(&mut self, id: &FloatingIpId, pool: &PoolId, claim: &ClaimKey, is_published: bool) {
        let owner = (pool.clone(), claim.clone());
        let Some(choices) = self.entries.get_mut(id).map(|entry| &mut entry.choices) else { return };
        if !is_published {
            choices.entry(owner).and_modify(|choice| choice.was_published = false);
        } else if choices.remove(&owner).is_some() {
            self.end_holds(pool, claim);
        }
    }

    /// The floating IPs that the claim chose and marked, does not certainly have yet, and that have no other writer.
    pub fn chosen_by(&self, pool: &PoolId, claim: &ClaimKey) -> Vec<FloatingIpId> {
        let is_chosen = |entry: &&LedgerEntry| {
            entry.choice_of(pool, claim).is_some() && entry.writers().all(|hold| hold.is_for(pool, claim))
        };
        self.of_claim(pool, claim).filter(is_chosen).map(|entry| entry.fip.id.clone()).collect()
    }

    /// The claim's address is published: it has this one, and holds nothing any more. Its tags on others do not count: they
    /// landed late. But if this one is not attached and another one is, that may be the address of its machine.
    pub fn note_bound(&mut self, id: &FloatingIpId, pool: &PoolId, claim: &ClaimKey) {
        self.end_holds(pool, claim);
        let mark = (pool.clone(), claim.clone());
        let mut is_bound_attached = false;
        if let Some(entry) = self.entries.get_mut(id) {
            entry.choices.remove(&mark);
            entry.disowned.remove(&mark);
            is_bound_attached = entry.fip.is_attached();
        }
        for other in self.by_claim.get(&mark).filter(|other| *other != id) {
            let Some(entry) = self.entries.get_mut(other) else { continue };
            if entry.marks.claims.contains(&mark) && (is_bound_attached || !entry.fip.is_attached()) {
                entry.disowned.entry(mark.clone()).or_insert(Disowned::GivenUp);
            }
        }
    }

    /// This process serves the pool: each mark of its claims that the last listing did not show is written by this process,
    /// or lands late.
    pub fn note_served(&mut self, pool: &PoolId, viewer: Viewer) {
        self.keep_missing(pool);
        if let Some(listing) = self.listing_began(viewer) {
            let served = Served { since: listing.sequence, viewer };
            self.served.entry(pool.clone()).or_insert(served).viewer = viewer;
        }
    }

    pub fn is_served(&self, pool: &PoolId) -> bool {
        self.served.contains_key(pool)
    }

    /// The pool of these claims is gone: they no longer hold anything. But a write of theirs may be under way.
    pub fn leave_holds(&mut self, pool: &PoolId, is_its: impl Fn(&ClaimKey) -> bool, now: Timestamp) {
        for id in self.held_by(|hold| matches!(hold, Hold::Claim { pool: of, claim } if of == pool && is_its(claim))) {
            self.note_uncertain_write(&id, now);
            self.set_hold(&id, None);
        }
    }

    /// No pool with this id is left. Another process may serve one now: the marks that none of the [writes that were
    /// left](Self::leave_holds) may remove or have made are its own.
    pub fn forget_pool(&mut self, pool: &PoolId) {
        for id in self.by_pool.get(pool) {
            if let Some(entry) = self.entries.get_mut(id).filter(|entry| !entry.has_writes()) {
                entry.choices.retain(|(owner, _), _| owner != pool);
                entry.disowned.retain(|(owner, _), _| owner != pool);
            }
            // A clean-up that is under way deletes no more.
            if let Some(entry) = self.entries.get_mut(id) {
                entry.cleaned_up_with = None;
            }
        }
        self.served.remove(pool);
        self.missing.remove(pool);
        self.forget_backoff(pool);
    }

    /// The claim is gone: ends all its holds, and returns whether it had any. Another one may get its name.
    pub fn forget_claim(&mut self, pool: &PoolId, claim: &ClaimKey) -> bool {
        let had_any = self.end_holds(pool, claim);
        let mark = (pool.clone(), claim.clone());
        for id in self.by_claim.get(&mark) {
            let Some(entry) = self.entries.get_mut(id) else { continue };
            entry.disowned.remove(&mark);
            if !entry.writers().any(|hold| hold.is_for(pool, claim)) {
                entry.choices.remove(&mark);
            }
        }
        had_any
    }

    /// The claim holds nothing any more. A mark of it that is there, and a write whose outcome is not known, still keep others
    /// away. Returns whether it held anything.
    pub fn end_holds(&mut self, pool: &PoolId, claim: &ClaimKey) -> bool {
        let held = self.held_by(|hold| hold.is_for(pool, claim));
        held.iter().for_each(|id| self.set_hold(id, None));
        !held.is_empty()
    }

    /// A claim's mark is about to be removed: from now on the claim does not take the address again.
    pub fn begin_withdrawal(&mut self, id: &FloatingIpId, pool: &PoolId, claim: &ClaimKey) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.disowned.insert((pool.clone(), claim.clone()), Disowned::GivenUp);
        }
        self.set_hold(id, Some(Hold::Cleanup));
    }

    /// Ends a withdrawal. If the mark was certainly not removed, the claim keeps its hold and withdraws again, unless an
    /// earlier withdrawal may still land, or its pool is gone.
    pub fn end_withdrawal(&mut self, id: &FloatingIpId, by: Hold, has_failed: bool) {
        let may_land = |entry: &LedgerEntry| entry.uncertain_writes.iter().any(|write| write.by.as_ref() != Some(&by));
        let is_served = matches!(&by, Hold::Claim { pool, .. } if self.served.contains_key(pool));
        let stays_with_claim = has_failed && is_served && !self.get(id).is_some_and(may_land);
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
        let orphans: BTreeSet<&FloatingIpId> = orphans.iter().collect();
        for id in self.by_pool.get(pool) {
            let Some(entry) = self.entries.get_mut(id) else { continue };
            if orphans.contains(id) {
                entry.orphaned_since.entry(pool.clone()).or_insert(now);
            } else {
                entry.orphaned_since.remove(pool);
            }
        }
    }

    /// An orphan was released. If Neutron does not show that, it is released again after another grace period, and not within
    /// a minute.
    pub fn restart_grace_of_orphan(&mut self, pool: &PoolId, id: &FloatingIpId, now: Timestamp) {
        let since = self.entries.get_mut(id).and_then(|entry| entry.orphaned_since.get_mut(pool));
        since.into_iter().for_each(|since| *since = after(now, RELEASE_SHOWN_WITHIN));
    }

    /// Removes the creations and writes whose outcome a listing that began at this time settles: it must show what its viewer
    /// wrote.
    pub(super) fn settle(&mut self, began: CallStart) {
        let is_settled = |since: Timestamp| began.at.duration_since(since) >= SETTLING;
        let (by_nonce, listings, served) = (&self.by_nonce, &self.listings, &self.served);
        self.creations.retain(|nonce, creation| {
            creation.uncertain.is_none_or(|(viewer, since)| {
                let viewer = served.get(&creation.pool).map_or(viewer, |served| served.viewer);
                let is_shown = viewer == began.viewer || !listings.contains_key(&viewer);
                !(is_shown && is_settled(since)) && by_nonce.count(nonce) == 0
            })
        });
        let entries = &mut self.entries;
        self.uncertain.retain(|id| {
            entries.get_mut(id).is_some_and(|entry| {
                let is_shown = entry.viewers.include(began.viewer) || entry.viewers.is_empty();
                entry.uncertain_writes.retain(|write| !(is_shown && is_settled(write.since)));
                entry.forget_missing_marks();
                !entry.uncertain_writes.is_empty()
            })
        });
    }
}

/// Queries.
impl Ledger {
    pub(in crate::allocation) fn held(&self) -> impl Iterator<Item = &LedgerEntry> {
        self.held.iter().filter_map(|id| self.get(id))
    }

    /// What has a write whose outcome is not known.
    pub(in crate::allocation) fn uncertain(&self) -> impl Iterator<Item = &LedgerEntry> {
        self.uncertain.iter().filter_map(|id| self.get(id))
    }

    pub(super) fn held_by(&self, is_by: impl Fn(&Hold) -> bool) -> Vec<FloatingIpId> {
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

    /// Whether a write for the claim is under way or uncertain, so that the claim may still get an address through it.
    pub fn may_still_get_address(&self, pool: &PoolId, claim: &ClaimKey) -> bool {
        let mut being_written = self.held().chain(self.uncertain());
        being_written.any(|entry| entry.writers().any(|hold| hold.is_for(pool, claim)))
            || self.is_creating_for(pool, claim)
    }

    /// The pool's claims that are getting an address: they have chosen one, or one is being created for them and Neutron is
    /// not expected to refuse that.
    pub(in crate::allocation) fn served_claims<'a>(&'a self, pool: &'a PoolId) -> impl Iterator<Item = &'a ClaimKey> {
        let writers = self.held().chain(self.uncertain()).flat_map(LedgerEntry::writers);
        let is_expected = self.creation_refusal(pool).is_none();
        let created = self.creations(pool).filter(move |_| is_expected);
        let created = created.filter_map(|(_, creation)| creation.claim.as_ref());
        writers.filter_map(|hold| hold.claim_of(pool)).chain(created)
    }

    /// Whether the claim is one of these.
    pub fn is_getting_address(&self, pool: &PoolId, claim: &ClaimKey) -> bool {
        self.served_claims(pool).any(|served| served == claim)
    }

    /// Whether the POST that creates it is still under way, although a listing shows it already. Writes before the reply
    /// are not in the reply.
    pub(in crate::allocation) fn is_being_created(&self, entry: &LedgerEntry) -> bool {
        entry.marks.created.as_ref().is_some_and(|mark| self.creations.contains_key(&mark.nonce))
    }

    /// How many floating IPs may appear for the pool at any moment. One that the entries show already is not counted
    /// again.
    pub(super) fn count_creations(&self, pool: &PoolId) -> usize {
        self.creations(pool).filter(|(nonce, _)| self.by_nonce.count(nonce) == 0).count()
    }

    /// Whether the outcome of any call is not known yet.
    pub fn has_unknown_outcomes(&self) -> bool {
        !self.uncertain.is_empty() || self.creations.values().any(|creation| creation.uncertain.is_some())
    }

    /// Whether a mark of the pool may still land.
    pub(in crate::allocation) fn has_uncertain_writes(&self, pool: &PoolId) -> bool {
        self.creations(pool).next().is_some() || self.uncertain_writes(|hold| hold.is_for_pool(pool)).next().is_some()
    }

    /// Whether a call of the pool is under way, or its outcome is not known.
    pub fn has_calls_of(&self, pool: &PoolId) -> bool {
        self.has_uncertain_writes(pool) || self.of_pool(pool).any(LedgerEntry::has_writes)
    }

    /// Since when a mark of the claim may still land; the last time, if there are several.
    pub(in crate::allocation) fn uncertain_since(&self, pool: &PoolId, claim: &ClaimKey) -> Option<Timestamp> {
        self.uncertain_writes(|hold| hold.is_for(pool, claim)).map(|write| write.since).max()
    }

    fn uncertain_writes(&self, is_by: impl Fn(&Hold) -> bool) -> impl Iterator<Item = &UncertainWrite> {
        self.uncertain()
            .flat_map(|entry| &entry.uncertain_writes)
            .filter(move |write| write.by.as_ref().is_some_and(&is_by))
    }
}
