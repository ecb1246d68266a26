//! What we know of one project's floating IPs, and what is under way. Rebuilt from Neutron at any time; stores nothing.
//!
//! The choice of a candidate is made here, one at a time, while the calls themselves run side by side: whoever chose an
//! address holds it until its call is settled. A listing never overwrites what a later write of ours was told: each
//! entry knows the step at which it was last true.

mod entry;
mod offers;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};

pub use entry::{Creation, CreationBlock, Hold, LedgerEntry, QueuePosition, UncertainWrite};
use offers::CreationBackoff;

use super::identity::{ClaimKey, Nonce, PoolId};
use super::mark::Marks;
use super::policy::PoolPolicy;
use crate::floating_ip::{FloatingIp, FloatingIpId};

/// A point in the order of what this process did and saw.
pub type Step = u64;

/// How long a write whose outcome is not known may still land: the longest call timeout on our side, doubled, since
/// the server may go on with what it has accepted.
pub const SETTLING: SignedDuration = SignedDuration::from_secs(60);

/// What we know of one project.
#[derive(Clone, Default, Debug)]
pub struct Ledger {
    step: Step,
    listed: Option<Step>,
    listed_from: Option<Timestamp>,
    listed_at: Option<Timestamp>,
    entries: BTreeMap<FloatingIpId, LedgerEntry>,
    by_address: BTreeMap<IpAddr, BTreeSet<FloatingIpId>>,
    by_claim: BTreeMap<(PoolId, ClaimKey), BTreeSet<FloatingIpId>>,
    by_pool: BTreeMap<PoolId, BTreeSet<FloatingIpId>>,
    nonces: BTreeMap<Nonce, usize>,
    held: BTreeSet<FloatingIpId>,
    doubted: BTreeSet<FloatingIpId>,
    deleted: BTreeMap<FloatingIpId, Step>,
    creations: BTreeMap<Nonce, Creation>,
    offers: CreationBackoff,
    waiting: BTreeMap<PoolId, BTreeSet<QueuePosition>>,
}

impl Ledger {
    /// The next step: what begins now sees everything that was done before.
    pub fn next_step(&mut self) -> Step {
        self.step += 1;
        self.step
    }

    /// The step at which the last complete listing began.
    pub fn listed(&self) -> Option<Step> {
        self.listed
    }

    /// When the last complete listing began.
    pub fn listed_from(&self) -> Option<Timestamp> {
        self.listed_from
    }

    /// When the last complete listing ended.
    pub fn listed_at(&self) -> Option<Timestamp> {
        self.listed_at
    }

    /// A complete listing of the project that began at `began` (step and time) has ended.
    pub fn list(&mut self, began: Step, began_at: Timestamp, fips: Vec<FloatingIp>, now: Timestamp) {
        let seen: BTreeSet<FloatingIpId> = fips.iter().map(|fip| fip.id.clone()).collect();
        let gone = |entry: &&LedgerEntry| entry.seen.max(entry.written) < began && !seen.contains(&entry.fip.id);
        let gone: Vec<FloatingIpId> = self.entries.values().filter(gone).map(|entry| entry.fip.id.clone()).collect();
        gone.iter().for_each(|id| self.leave(id));
        for fip in fips {
            let is_older = self.entries.get(&fip.id).is_some_and(|entry| entry.seen.max(entry.written) >= began)
                || self.deleted.get(&fip.id).is_some_and(|deleted| *deleted >= began);
            if !is_older {
                self.note_late(&fip);
                self.put(fip, began);
            }
        }
        self.deleted.retain(|_, deleted| *deleted >= began);
        let is_settled = |since: Timestamp| began_at.duration_since(since) >= SETTLING;
        let known = &self.nonces;
        self.creations.retain(|nonce, creation| {
            creation.unknown_since.is_none_or(|since| !is_settled(since) && !known.contains_key(nonce))
        });
        let entries = &mut self.entries;
        self.doubted.retain(|id| {
            entries.get_mut(id).is_some_and(|entry| {
                entry.doubts.retain(|doubt| !is_settled(doubt.since));
                !entry.doubts.is_empty()
            })
        });
        (self.listed, self.listed_from, self.listed_at) = (Some(began), Some(began_at), Some(now));
    }

    /// Neutron told, in the reply to a write that began at `began`, how the floating IP is. A listing that began before
    /// the reply may not know of it, and so overwrites and removes nothing.
    pub fn wrote(&mut self, mut fip: FloatingIp, began: Step) {
        let step = self.next_step();
        if self.deleted.contains_key(&fip.id) {
            return;
        }
        // Whether what a listing saw meanwhile came before or after, nobody can tell: what is on it stays on it.
        if let Some(entry) = self.entries.get(&fip.id).filter(|entry| entry.seen > began) {
            fip.port = fip.port.or_else(|| entry.fip.port.clone());
            fip.is_forwarded |= entry.fip.is_forwarded;
            fip.tags.extend(entry.fip.tags.iter().cloned());
        }
        let id = fip.id.clone();
        self.put(fip, began);
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.written = step;
        }
    }

    /// A tag was added or taken off; nothing else was told.
    pub fn tagged(&mut self, id: &FloatingIpId, tag: &str, is_there: bool) {
        let step = self.next_step();
        if let Some(mut entry) = self.remove(id) {
            if is_there {
                entry.fip.tags.insert(tag.into())
            } else {
                entry.fip.tags.remove(tag)
            };
            entry.marks = Marks::read(&entry.fip);
            entry.disowned.retain(|mark| entry.marks.claims.contains(mark));
            entry.written = step;
            self.insert(entry);
        }
    }

    /// The floating IP is gone.
    pub fn gone(&mut self, id: &FloatingIpId) {
        let step = self.next_step();
        self.leave(id);
        self.deleted.insert(id.clone(), step);
    }

    /// A POST is about to be sent.
    pub fn begin_creation(&mut self, nonce: Nonce, creation: Creation) {
        self.creations.insert(nonce, creation);
    }

    /// A POST was answered, well or ill; what it created was [written](Self::wrote).
    pub fn end_creation(&mut self, nonce: &Nonce) {
        self.creations.remove(nonce);
    }

    /// A POST's outcome is not known: it keeps its place until a listing settles it.
    pub fn doubt_creation(&mut self, nonce: &Nonce, now: Timestamp) {
        if let Some(creation) = self.creations.get_mut(nonce) {
            creation.unknown_since = Some(now);
        }
    }

    /// Takes, or gives back, the exclusive right to work on an address.
    pub fn hold(&mut self, id: &FloatingIpId, hold: Option<Hold>) {
        if let Some(entry) = self.entries.get_mut(id) {
            if hold.is_some() {
                self.held.insert(id.clone())
            } else {
                self.held.remove(id)
            };
            entry.hold = hold;
        }
    }

    /// A write to it was certainly not done: whoever holds it gives up, unless an earlier write of its may still land.
    pub fn give_up(&mut self, id: &FloatingIpId) {
        if self.entries.get(id).is_some_and(|entry| entry.doubts.iter().all(|doubt| doubt.by != entry.hold)) {
            self.hold(id, None);
        }
    }

    /// A claim's mark is about to be taken off: from here on the address is being given back, and is not taken again half
    /// way.
    pub fn begin_withdrawal(&mut self, id: &FloatingIpId, by: &Hold) {
        if let (Some(entry), Hold::Claim { pool, claim }) = (self.entries.get_mut(id), by) {
            entry.disowned.insert((pool.clone(), claim.clone()));
        }
        self.hold(id, Some(Hold::GivingBack));
    }

    /// It is off, or time will tell; or it was certainly not done: then it is the claim's to withdraw again, unless an
    /// earlier withdrawal may still land.
    pub fn end_withdrawal(&mut self, id: &FloatingIpId, by: Hold, is_undone: bool) {
        let may_land = |entry: &LedgerEntry| entry.doubts.iter().any(|doubt| doubt.by.as_ref() != Some(&by));
        let is_the_claims = is_undone && !self.entries.get(id).is_some_and(may_land);
        self.hold(id, is_the_claims.then_some(by));
    }

    /// Gives back everything that a claim held: it is done with, and stands by its marks.
    pub fn let_go(&mut self, hold: &Hold) {
        let held = self.held().filter(|entry| entry.hold.as_ref() == Some(hold));
        let held: Vec<_> = held.map(|entry| entry.fip.id.clone()).collect();
        held.iter().for_each(|id| self.hold(id, None));
        if let Hold::Claim { pool, claim } = hold {
            let mine = (pool.clone(), claim.clone());
            for id in self.by_claim.get(&mine).into_iter().flatten() {
                if let Some(entry) = self.entries.get_mut(id) {
                    entry.disowned.remove(&mine);
                }
            }
        }
    }

    /// A write to it, by whoever holds it now, has no known outcome. Until a listing that begins [`SETTLING`] later,
    /// nobody else takes it and no sweep touches it; its place under `maxIPs` stays taken.
    pub fn doubt(&mut self, id: &FloatingIpId, now: Timestamp) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.doubts.push(UncertainWrite { by: entry.hold.clone(), since: now });
            self.doubted.insert(id.clone());
        }
    }

    /// Until when late writes of a predecessor may land, or (when that is past) that no listing has begun since then.
    pub fn fence(&self, pool: &PoolPolicy) -> Option<Timestamp> {
        pool.fenced_until.filter(|until| self.listed_from.is_none_or(|from| from < *until))
    }

    /// Remembers which of a pool's addresses are orphans, each since it was first seen as one.
    pub fn note_orphans(&mut self, pool: &PoolId, orphans: &[FloatingIpId], now: Timestamp) {
        for id in self.by_pool.get(pool).into_iter().flatten() {
            let Some(entry) = self.entries.get_mut(id) else { continue };
            if orphans.contains(id) {
                entry.orphaned_since.entry(pool.clone()).or_insert(now);
            } else {
                entry.orphaned_since.remove(pool);
            }
        }
    }

    /// A claim waits for an address, or no longer does.
    pub fn wait(&mut self, pool: &PoolId, place: QueuePosition, is_waiting: bool) {
        let queue = self.waiting.entry(pool.clone()).or_default();
        if is_waiting {
            queue.insert(place)
        } else {
            queue.remove(&place)
        };
    }

    /// The claims of a pool that wait, oldest first.
    pub fn waiting(&self, pool: &PoolId) -> impl Iterator<Item = &QueuePosition> {
        self.waiting.get(pool).into_iter().flatten()
    }

    /// One floating IP.
    pub fn get(&self, id: &FloatingIpId) -> Option<&LedgerEntry> {
        self.entries.get(id)
    }

    /// The floating IPs with this address: one, but for the same address on two networks.
    pub fn at(&self, address: IpAddr) -> impl Iterator<Item = &LedgerEntry> {
        self.by_address.get(&address).into_iter().flatten().filter_map(|id| self.entries.get(id))
    }

    /// The floating IPs whose marks name this claim, by id.
    pub fn of_claim(&self, pool: &PoolId, claim: &ClaimKey) -> impl Iterator<Item = &LedgerEntry> {
        let ids = self.by_claim.get(&(pool.clone(), claim.clone()));
        ids.into_iter().flatten().filter_map(|id| self.entries.get(id))
    }

    /// The floating IPs whose marks name this pool, by id.
    pub fn of_pool(&self, pool: &PoolId) -> impl Iterator<Item = &LedgerEntry> {
        self.by_pool.get(pool).into_iter().flatten().filter_map(|id| self.entries.get(id))
    }

    /// Every floating IP, by id.
    pub fn entries(&self) -> impl Iterator<Item = &LedgerEntry> {
        self.entries.values()
    }

    /// The POSTs of a pool that are under way or in doubt.
    pub fn creations<'a>(&'a self, pool: &'a PoolId) -> impl Iterator<Item = (&'a Nonce, &'a Creation)> {
        self.creations.iter().filter(move |(_, creation)| creation.pool == *pool)
    }

    /// Whether the POST that creates it is still under way, although a listing shows it already: it is its sender's to
    /// give, and the reply that is to come knows nothing of what was written to it meanwhile.
    pub fn is_arriving(&self, entry: &LedgerEntry) -> bool {
        entry.marks.created.as_ref().is_some_and(|mark| self.creations.contains_key(&mark.nonce))
    }

    /// Whether somebody copied this floating IP's creation mark onto another.
    pub fn is_copied(&self, entry: &LedgerEntry) -> bool {
        entry.marks.created.as_ref().is_some_and(|mark| self.nonces.get(&mark.nonce).is_some_and(|count| *count > 1))
    }

    /// How many addresses count under the pool's `maxIPs`: every one with its mark, chosen for it, or being created.
    pub fn counted(&self, pool: &PoolId) -> usize {
        let is_the_pools = |hold: &Hold| matches!(hold, Hold::Claim { pool: holder, .. } if holder == pool);
        let chosen = |entry: &&LedgerEntry| {
            let mut writers = entry.hold.iter().chain(entry.doubts.iter().filter_map(|doubt| doubt.by.as_ref()));
            writers.any(is_the_pools) && !entry.marks.pools().contains(pool)
        };
        let marked = self.by_pool.get(pool).map_or(0, BTreeSet::len);
        let at_work = self.held.union(&self.doubted).filter_map(|id| self.entries.get(id));
        marked + self.creating(pool) + at_work.filter(chosen).count()
    }

    /// How many may be created for the pool any moment. Nothing that is already in the entries is counted again.
    fn creating(&self, pool: &PoolId) -> usize {
        self.creations(pool).filter(|(nonce, _)| !self.nonces.contains_key(nonce)).count()
    }

    /// Whether a mark of the pool's may still land, on one that it has or on a new one.
    pub fn is_in_doubt(&self, pool: &PoolId) -> bool {
        let is_the_pools =
            |doubt: &UncertainWrite| matches!(&doubt.by, Some(Hold::Claim { pool: holder, .. }) if holder == pool);
        let mut doubted = self.doubted.iter().filter_map(|id| self.entries.get(id));
        self.creations(pool).next().is_some() || doubted.any(|entry| entry.doubts.iter().any(is_the_pools))
    }

    /// The addresses that somebody is at work on.
    pub fn held(&self) -> impl Iterator<Item = &LedgerEntry> {
        self.held.iter().filter_map(|id| self.entries.get(id))
    }

    fn put(&mut self, fip: FloatingIp, seen: Step) {
        let old = self.remove(&fip.id);
        let marks = Marks::read(&fip);
        let (written, hold, doubts, mut disowned, mut orphaned_since) = old
            .map_or((0, None, vec![], BTreeSet::new(), BTreeMap::new()), |old| {
                (old.written, old.hold, old.doubts, old.disowned, old.orphaned_since)
            });
        disowned.retain(|mark| marks.claims.contains(mark));
        orphaned_since.retain(|pool, _| marks.pools().contains(pool));
        self.insert(LedgerEntry { marks, fip, seen, written, hold, doubts, disowned, orphaned_since });
    }

    /// Notes the marks that a listing brings and that no reply told of.
    fn note_late(&mut self, fip: &FloatingIp) {
        let Some(entry) = self.entries.get_mut(&fip.id) else { return };
        let is_at_work = |(pool, claim): &(PoolId, ClaimKey)| {
            entry.hold.as_ref() == Some(&Hold::Claim { pool: pool.clone(), claim: claim.clone() })
        };
        let came = Marks::read(fip).claims.into_iter().filter(|mark| !entry.marks.claims.contains(mark));
        let came: Vec<_> = came.filter(|mark| !is_at_work(mark)).collect();
        entry.disowned.extend(came);
    }

    fn insert(&mut self, entry: LedgerEntry) {
        let id = entry.fip.id.clone();
        self.by_address.entry(entry.fip.address).or_default().insert(id.clone());
        for pool in entry.marks.pools() {
            self.by_pool.entry(pool.clone()).or_default().insert(id.clone());
            for claim in entry.marks.claims_of(pool) {
                self.by_claim.entry((pool.clone(), claim.clone())).or_default().insert(id.clone());
            }
        }
        if let Some(mark) = &entry.marks.created {
            *self.nonces.entry(mark.nonce.clone()).or_default() += 1;
        }
        if entry.hold.is_some() {
            self.held.insert(id.clone());
        }
        if !entry.doubts.is_empty() {
            self.doubted.insert(id.clone());
        }
        self.entries.insert(id, entry);
    }

    fn leave(&mut self, id: &FloatingIpId) {
        if self.remove(id).is_some() {
            self.offers.left(id);
        }
    }

    fn remove(&mut self, id: &FloatingIpId) -> Option<LedgerEntry> {
        let entry = self.entries.remove(id)?;
        self.held.remove(id);
        self.doubted.remove(id);
        unlink(&mut self.by_address, &entry.fip.address, id);
        for pool in entry.marks.pools() {
            unlink(&mut self.by_pool, pool, id);
            for claim in entry.marks.claims_of(pool) {
                unlink(&mut self.by_claim, &(pool.clone(), claim.clone()), id);
            }
        }
        if let Some(mark) = &entry.marks.created
            && let Some(count) = self.nonces.get_mut(&mark.nonce)
        {
            *count -= 1;
            if *count == 0 {
                self.nonces.remove(&mark.nonce);
            }
        }
        Some(entry)
    }
}

fn unlink<K: Ord>(index: &mut BTreeMap<K, BTreeSet<FloatingIpId>>, key: &K, id: &FloatingIpId) {
    if let Some(ids) = index.get_mut(key) {
        ids.remove(id);
        if ids.is_empty() {
            index.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
