//! What to do about everything that carries a pool's mark and that no claim is about to settle by itself: released
//! addresses, orphans, spares (design 3, step 7). What is left when the pool goes is beside it.

mod wind_up;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

pub use wind_up::{PoolTeardown, wind_up};

use super::claim::{is_ownable, surplus};
use super::identity::{ClaimKey, PoolId};
use super::ledger::{Ledger, LedgerEntry};
use super::mark::{CreationMark, Ownership, claim_tag, release_tag};
use super::policy::PoolPolicy;
use super::published::PublishedAddresses;
use crate::floating_ip::FloatingIpId;

/// Whether a claim exists, and whether it is going.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClaimLiveness {
    /// It wants or has an address.
    Active,
    /// It is being deleted: its own release is under way.
    Deleting,
}

/// What the sweep of one pool sees of Kubernetes.
#[derive(Clone, Debug, Default)]
pub struct ClusterView {
    /// Every claim that points at the pool.
    pub claims: BTreeMap<ClaimKey, ClaimLiveness>,
    /// A Cluster in the pool's namespace is paused: a move or a restore may be under way, and nobody is an orphan.
    pub is_paused: bool,
}

/// One thing to do about one floating IP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SweepAction {
    /// Delete it: we created it, nothing is on it, and nobody wants it.
    Delete(FloatingIpId),
    /// MarkWrite this description, if any, then take these tags off, in this order.
    Rewrite {
        /// Which.
        id: FloatingIpId,
        /// The new description: a mark, or empty.
        description: Option<String>,
        /// The tags; those of claims come before those of releases, so that what is half done is still ours to finish.
        tags: Vec<String>,
    },
    /// Tag an orphan for release.
    Release(FloatingIpId, String),
    /// MarkWrite an orphan's release into its description: this Neutron has no tags.
    Describe(FloatingIpId, CreationMark),
}

impl SweepAction {
    /// The floating IP that it is about.
    pub fn id(&self) -> &FloatingIpId {
        match self {
            Self::Delete(id) | Self::Rewrite { id, .. } | Self::Release(id, _) | Self::Describe(id, _) => id,
        }
    }
}

/// What a sweep does and found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SweepPlan {
    /// To be done now, each once, in any order.
    pub chores: Vec<SweepAction>,
    /// What belongs to no claim although it says that it does.
    pub orphans: Vec<FloatingIpId>,
    /// Marks that somebody copied: neither is deleted.
    pub copied: Vec<FloatingIpId>,
    /// Released ones that are left to waiting claims.
    pub offered: usize,
    /// When something rests no longer, or is an orphan for long enough.
    pub wake_at: Option<Timestamp>,
    /// Whether something was written that must be seen again before it is acted upon.
    pub look_again: bool,
    /// Whether something released still has a port.
    pub has_ports: bool,
    /// How many floating IPs to create, so that claims need not wait.
    pub preallocate: usize,
}

/// Plans a sweep of a pool that stays. Behind the fence only orphans are noted: what a predecessor wrote may still land.
pub fn plan(
    ledger: &Ledger,
    published: &PublishedAddresses,
    pool: &PoolPolicy,
    around: &ClusterView,
    now: Timestamp,
) -> SweepPlan {
    let surplus = surplus(ledger, pool);
    let mut pass =
        Pass { ledger, published, pool, around, now, spares: 0, waiting: 0, surplus, sweep: SweepPlan::default() };
    let spares = ledger.of_pool(&pool.id).filter(|entry| pass.is_spare(entry));
    (pass.spares, pass.waiting) = (spares.count(), pool.without_reservation(ledger.waiting(&pool.id)).count());
    for entry in ledger.of_pool(&pool.id).filter(|entry| entry.hold.is_none()) {
        pass.visit(entry);
    }
    pass.sweep.preallocate = pass.shortage();
    if let Some(until) = ledger.fence(pool) {
        pass.sweep.chores.clear();
        pass.sweep.preallocate = 0;
        pass.sweep.look_again |= now >= until;
        pass.wake(until);
    }
    pass.sweep
}

/// One pass over a pool.
struct Pass<'a> {
    ledger: &'a Ledger,
    published: &'a PublishedAddresses,
    pool: &'a PoolPolicy,
    around: &'a ClusterView,
    now: Timestamp,
    /// Free ones that are left, ready to be given to any claim.
    spares: usize,
    /// Claims that wait for any address, less those that one was left to.
    waiting: usize,
    /// How many are beyond the pool's limit, which was lowered: these are left to nobody.
    surplus: usize,
    sweep: SweepPlan,
}

impl Pass<'_> {
    fn visit(&mut self, entry: &LedgerEntry) {
        if self.ledger.is_copied(entry) {
            return self.sweep.copied.push(entry.fip.id.clone());
        }
        if !entry.doubts.is_empty() {
            self.sweep.look_again = true;
            return;
        }
        if self.ledger.is_arriving(entry) {
            return;
        }
        match entry.marks.ownership(&self.pool.id) {
            Ownership::Released { claim, at } => self.released(entry, &claim, at),
            Ownership::Held(claim) => self.held(entry, &claim),
            Ownership::Contested => self.contested(entry),
            Ownership::Idle => self.idle(entry),
            Ownership::Unmarked | Ownership::Foreign => {}
        }
    }

    fn released(&mut self, entry: &LedgerEntry, claim: &ClaimKey, at: Timestamp) {
        if entry.fip.is_attached() {
            self.sweep.has_ports = true;
            return;
        }
        // A claim that stays takes the release off itself; one that goes is not done yet.
        if self.published.is_published(&entry.fip) || self.is_wanted(claim, entry) {
            return;
        }
        if !entry.is_confirmed() {
            self.sweep.look_again = true;
            return;
        }
        let rested = at + self.pool.grace;
        if self.now < rested {
            return self.wake(rested);
        }
        let (id, tags) = (entry.fip.id.clone(), our_tags(self.pool, entry));
        let Some(mark) = entry.marks.created.as_ref().filter(|mark| mark.pool == self.pool.id) else {
            return self.sweep.chores.push(SweepAction::Rewrite { id, description: None, tags });
        };
        let is_givable = self.is_givable(entry);
        let is_over = self.surplus > 0;
        if is_givable && self.waiting > 0 && !is_over {
            self.waiting -= 1;
            self.sweep.offered += 1;
            return;
        }
        let is_short = is_givable && self.spares < self.pool.preallocate;
        if self.pool.deletes && (is_over || !is_short && !self.is_awaited(entry)) {
            self.surplus = self.surplus.saturating_sub(1);
            return self.sweep.chores.push(SweepAction::Delete(id));
        }
        self.spares += usize::from(is_givable);
        let idle = CreationMark { claim: None, released: None, is_retained: !self.pool.deletes, ..mark.clone() };
        self.sweep.chores.push(SweepAction::Rewrite { id, description: Some(idle.render(None)), tags });
    }

    fn held(&mut self, entry: &LedgerEntry, claim: &ClaimKey) {
        if self.published.is_published(&entry.fip) || self.is_wanted(claim, entry) {
            // A takeover that was cut short leaves the release of the claim before.
            let stale: Vec<String> = entry.marks.releases.values().flat_map(|(_, tags)| tags.iter().cloned()).collect();
            if !stale.is_empty() {
                self.sweep.chores.push(SweepAction::Rewrite {
                    id: entry.fip.id.clone(),
                    description: None,
                    tags: stale,
                });
            }
            return;
        }
        if self.is_ripe(entry) && self.may_release(entry) {
            let id = entry.fip.id.clone();
            self.sweep.chores.push(match entry.marks.created.as_ref().filter(|_| !self.pool.has_tags) {
                Some(mark) => SweepAction::Describe(id, CreationMark { released: Some(self.now), ..mark.clone() }),
                None => SweepAction::Release(id, release_tag(&self.pool.id, claim, self.now)),
            });
        }
    }

    /// Two owners, one of them ours: the marks of our claims that do not want it come off; what we created stays ours.
    fn contested(&mut self, entry: &LedgerEntry) {
        let pool = &self.pool.id;
        let owner = self.published.owner(&entry.fip);
        let stands = |claim: &ClaimKey| match owner {
            Some(owner) => owner.pool == *pool && owner.claim == *claim,
            // Released beside another owner it is nobody's to take back, whoever goes by that name now.
            None => self.is_wanted(claim, entry) && !entry.marks.releases.contains_key(&(pool.clone(), claim.clone())),
        };
        let claims = entry.marks.claims_of(pool);
        let is_held = owner.is_some() || claims.iter().any(|claim| stands(claim));
        let fallen: BTreeSet<&ClaimKey> = claims.into_iter().filter(|claim| !stands(claim)).collect();
        if fallen.is_empty() && is_held {
            return;
        }
        let of_fallen = |(owner, claim): &(PoolId, ClaimKey)| owner == pool && fallen.contains(claim);
        let releases: Vec<_> = entry.marks.releases.iter().filter(|(mark, _)| of_fallen(mark)).collect();
        let is_given_back = releases.len() == fallen.len() && !fallen.is_empty();
        // What is not readable may be a newer version's, of a claim that we do not see.
        if !is_given_back && !self.is_ripe(entry) || entry.marks.is_unreadable {
            return;
        }
        let mark = entry.marks.created.as_ref().filter(|mark| mark.pool == *pool);
        // A port on what others own too is theirs; on what we created it may still be our claim's.
        let is_ours_to_take = is_held || is_given_back || self.pool.releases_orphans;
        if !is_ours_to_take || mark.is_some() && entry.fip.is_attached() {
            return;
        }
        let fallen_mark = mark.filter(|mark| mark.claim.as_ref().is_some_and(|claim| fallen.contains(claim)));
        let description =
            fallen_mark.map(|mark| CreationMark { claim: None, released: None, ..mark.clone() }.render(None));
        let claims =
            entry.marks.claims.iter().filter(|mark| of_fallen(mark)).map(|(owner, claim)| claim_tag(owner, claim));
        let tags: Vec<String> =
            claims.chain(releases.into_iter().flat_map(|(_, (_, tags))| tags.iter().cloned())).collect();
        if description.is_some() || !tags.is_empty() {
            self.sweep.chores.push(SweepAction::Rewrite { id: entry.fip.id.clone(), description, tags });
        }
    }

    fn idle(&mut self, entry: &LedgerEntry) {
        let is_surplus = match self.is_givable(entry) {
            _ if self.surplus > 0 => true,
            true => self.spares > self.pool.preallocate && self.waiting == 0,
            false => !self.is_awaited(entry),
        };
        if !self.pool.deletes || !is_surplus || entry.fip.is_attached() || self.published.is_published(&entry.fip) {
            return;
        }
        if !entry.is_confirmed() {
            self.sweep.look_again = true;
            return;
        }
        self.spares -= usize::from(self.is_spare(entry));
        self.surplus = self.surplus.saturating_sub(1);
        self.sweep.chores.push(SweepAction::Delete(entry.fip.id.clone()));
    }

    /// How many to create, so that claims need not wait. Where one waits, nothing is to be had, and it asks again itself.
    fn shortage(&self) -> usize {
        let (ledger, pool) = (self.ledger, self.pool);
        if pool.network.is_none() || self.waiting > 0 || !ledger.may_create(&pool.id, self.now) {
            return 0;
        }
        let coming = ledger.creations(&pool.id).filter(|(_, creation)| creation.claim.is_none()).count();
        let room = pool.max_ips.map_or(usize::MAX, |limit| limit.saturating_sub(ledger.counted(&pool.id)));
        let most = if ledger.is_probing(&pool.id, self.now) { room.min(1) } else { room };
        pool.preallocate.saturating_sub(self.spares + coming).min(most)
    }

    /// Whether the claim is alive and has no other address: then this one is its, or it is about to settle that.
    fn is_wanted(&self, claim: &ClaimKey, entry: &LedgerEntry) -> bool {
        let has_other = || self.published.of_claim(&self.pool.id, claim).any(|ours| ours.fip != entry.fip.id);
        self.around.claims.get(claim).is_some_and(|living| *living == ClaimLiveness::Deleting || !has_other())
    }

    /// Whether it may be given to any claim of the pool, once it is free.
    fn is_givable(&self, entry: &LedgerEntry) -> bool {
        self.pool.network.as_ref() == Some(&entry.fip.network)
            && !self.pool.is_excluded(entry.fip.address)
            && self.pool.reserved_for(entry.fip.address).is_none()
    }

    fn is_spare(&self, entry: &LedgerEntry) -> bool {
        entry.marks.ownership(&self.pool.id) == Ownership::Idle
            && self.is_givable(entry)
            && is_ownable(self.ledger, self.published, self.pool, entry, self.now)
    }

    /// Whether the claim that the address is reserved for waits for it.
    fn is_awaited(&self, entry: &LedgerEntry) -> bool {
        let waits = |owner: &str| self.ledger.waiting(&self.pool.id).any(|place| place.object.name == owner);
        !self.pool.is_excluded(entry.fip.address) && self.pool.reserved_for(entry.fip.address).is_some_and(waits)
    }

    /// An orphan is reported at the first sight, and ripe when it is seen again as one after the grace.
    fn is_ripe(&mut self, entry: &LedgerEntry) -> bool {
        self.sweep.orphans.push(entry.fip.id.clone());
        let since = entry.orphaned_since.get(&self.pool.id).copied();
        let due = since.unwrap_or(self.now) + self.pool.orphan_grace;
        // Twice: a first sight is never the last, whatever the grace, and the second is a look of its own, since
        // somebody may have attached something meanwhile.
        let is_seen_again = self.ledger.listed_from().is_some_and(|from| from >= due);
        if self.now < due {
            self.wake(due);
        } else if !is_seen_again {
            self.sweep.look_again = true;
        }
        since.is_some() && is_seen_again && !self.around.is_paused
    }

    fn may_release(&self, entry: &LedgerEntry) -> bool {
        self.pool.releases_orphans && !entry.fip.is_attached()
    }

    fn wake(&mut self, at: Timestamp) {
        self.sweep.wake_at = Some(self.sweep.wake_at.map_or(at, |other| other.min(at)));
    }
}

/// Our tags on a floating IP: those of claims before those of releases.
fn our_tags(pool: &PoolPolicy, entry: &LedgerEntry) -> Vec<String> {
    let is_ours = |owner: &PoolId| owner == &pool.id;
    let claims = entry.marks.claims.iter().filter(|(owner, _)| is_ours(owner));
    let claims = claims.map(|(owner, claim)| claim_tag(owner, claim));
    let releases = entry.marks.releases.iter().filter(|((owner, _), _)| is_ours(owner));
    claims.chain(releases.flat_map(|(_, (_, tags))| tags.iter().cloned())).collect()
}

#[cfg(test)]
mod tests;
