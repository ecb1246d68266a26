//! What to do about the marked addresses that no claim takes care of: released ones, orphans, spares. What to do when the
//! pool is deleted is in `teardown.rs`.

mod contested;
mod labels;
mod teardown;

pub use labels::needs_tag;

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

pub use teardown::{PoolTeardown, is_still_deletable, plan_teardown};

use super::identity::{ClaimKey, PoolId};
use super::ledger::{Ledger, LedgerEntry};
use super::mark::{CreationMark, Ownership, claim_tag, release_tag};
use super::published::Binding;
use super::situation::{ClaimState, Situation};
use super::supply::{Supply, is_owned_and_free};
use crate::floating_ip::FloatingIpId;
use crate::time::{CLOCK_SKEW, after};

/// How recently a floating IP must have been read before it is deleted. Neutron deletes one with a port too (204), and its
/// address may be lost for good.
const FRESH_VIEW: SignedDuration = SignedDuration::from_secs(5);
/// Up to so many are read one by one before they are deleted. For more, one listing is cheaper.
const MOST_SINGLE_READS: usize = 8;
/// How long a floating IP is left alone that Neutron still has after it answered that it was deleted.
const DELETE_AGAIN: SignedDuration = SignedDuration::from_secs(30);
/// How soon a port that stayed after the release is looked for again, at least and at most.
const MIN_PORT_RECHECK: SignedDuration = SignedDuration::from_secs(1);
const MAX_PORT_RECHECK: SignedDuration = SignedDuration::from_secs(15);
/// How soon a pool that lacks spares, and may not create one since Neutron refused, tries again.
const SPARE_RETRY: SignedDuration = SignedDuration::from_secs(20);
/// A port that has stayed for so long is no machine's that is being deleted. The listing of each minute shows when it goes.
const PORT_STAYS_AFTER: SignedDuration = SignedDuration::from_mins(10);
const STAYING_PORT_RECHECK: SignedDuration = SignedDuration::from_secs(75);

/// What a sweep of one pool needs to know of Kubernetes.
#[derive(Clone, Debug, Default)]
pub struct ClusterView {
    /// The claims that are gone although an IPAddress of the pool is there for them.
    pub stray_claims: BTreeSet<ClaimKey>,
    /// The claims of other pools with the same id.
    pub claims_of_duplicates: BTreeSet<ClaimKey>,
    /// A Cluster in the pool's namespace is paused. A move or a restore may be under way, so no orphan is
    /// released.
    pub is_paused: bool,
}

/// One thing to do about one floating IP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SweepAction {
    /// Delete it: the pool created it, nothing is attached, and no claim needs it.
    Delete(FloatingIpId),
    /// Write this description, if any, then remove these tags, in this order.
    Rewrite {
        id: FloatingIpId,
        /// A mark, or empty.
        description: Option<String>,
        tags: Vec<String>,
    },
    /// Tag an orphan for release.
    Release(FloatingIpId, String),
    /// Write an orphan's release into its description: this Neutron has no tags, or the floating IP has too many.
    Describe(FloatingIpId, CreationMark),
}

impl SweepAction {
    pub fn id(&self) -> &FloatingIpId {
        match self {
            Self::Delete(id) | Self::Rewrite { id, .. } | Self::Release(id, _) | Self::Describe(id, _) => id,
        }
    }
}

/// Which of a pool's addresses a sweep visits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SweepScope {
    #[default]
    All,
    /// All but those that one claim simply has, by their marks. It finds no orphans among the ones that it leaves out, and
    /// nothing that the claim may not have, and plans no tags of `spec.tags`.
    Unsettled,
}

/// What a sweep found and does.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SweepPlan {
    pub scope: SweepScope,
    /// To be done now, in any order.
    pub actions: Vec<SweepAction>,
    /// Addresses that are marked for a claim that does not have them.
    pub orphans: Vec<FloatingIpId>,
    /// Floating IPs with one creation mark: it was copied by hand, and none of them is deleted.
    pub copied: Vec<FloatingIpId>,
    /// How many released ones are left to waiting claims.
    pub offered: usize,
    /// When a grace period ends, an orphan may be released, or a port may be gone.
    pub wake_at: Option<Timestamp>,
    /// Something must be listed again before it is acted upon.
    pub must_list: bool,
    /// How many spares to create.
    pub new_spares: usize,
    /// Tags of `spec.tags` to add, once everything else is done.
    pub labels: Vec<(FloatingIpId, String)>,
}

/// Plans a sweep of a pool that is not being deleted. While late writes of a previous process may land, only orphans are
/// noted.
pub fn plan_sweep(situation: &Situation<'_>, cluster: &ClusterView, scope: SweepScope) -> SweepPlan {
    let (ledger, id) = (situation.ledger, &situation.pool.id);
    let mut pass = SweepPass::new(*situation, cluster, scope);
    match scope {
        SweepScope::All => {
            ledger.of_pool(id).for_each(|entry| pass.visit(entry));
            pass.plan.labels = labels::missing_tags(situation, &pass.plan.actions);
        }
        SweepScope::Unsettled => {
            // What is both is visited twice, without any action.
            let uncertain = ledger.uncertain().filter(|entry| entry.marks.names(id));
            ledger.unsettled_of_pool(id).chain(uncertain).for_each(|entry| pass.visit(entry));
        }
    }
    pass.plan_spares();
    if let Some(until) = situation.fence() {
        pass.plan.actions.clear();
        pass.plan.new_spares = 0;
        pass.plan.labels.clear();
        pass.plan.must_list |= situation.now >= until;
        pass.wake(until);
    }
    pass.plan
}

/// What becomes of a floating IP that Neutron offered and its claim may not keep: it is deleted, unless another claim
/// waits for it.
pub fn plan_discard(situation: &Situation<'_>, id: &FloatingIpId) -> SweepAction {
    let awaited = situation.ledger.get(id).filter(|entry| situation.is_awaited(&entry.fip));
    match awaited.and_then(|entry| situation.created_here(entry)) {
        Some(mark) => {
            let description = Some(mark.given_back().render(None));
            SweepAction::Rewrite { id: id.clone(), description, tags: Vec::new() }
        }
        None => SweepAction::Delete(id.clone()),
    }
}

/// Whether a floating IP that was read then may be deleted without being read again.
pub fn is_fresh(seen: Timestamp, now: Timestamp) -> bool {
    now.duration_since(seen) <= FRESH_VIEW
}

/// How many floating IPs would have to be read before they are deleted.
pub fn count_outdated(ledger: &Ledger, actions: &[SweepAction], now: Timestamp) -> usize {
    let is_outdated = |action: &&SweepAction| {
        let is_fresh = |entry: &LedgerEntry| is_fresh(entry.seen.at, now);
        matches!(action, SweepAction::Delete(id) if !ledger.get(id).is_some_and(is_fresh))
    };
    actions.iter().filter(is_outdated).count()
}

/// Whether one listing is to be preferred to the reads before so many deletions. While sweeps are refused, so that each is
/// followed by another, it would come on top.
pub fn prefers_listing(ledger: &Ledger, deletions: usize, refused_sweeps: usize) -> bool {
    deletions > MOST_SINGLE_READS && refused_sweeps == 0 && ledger.lists_quickly()
}

/// Whether nothing needs a floating IP whose deletion was planned: no IPAddress names it, and no claim waits for it by a
/// reservation. Either may have come since, while the floating IP was read once more.
pub fn is_still_unneeded(situation: &Situation<'_>, id: &FloatingIpId) -> bool {
    situation.ledger.get(id).is_none_or(|entry| {
        let is_named = situation.relevant_addresses().bindings_of(&entry.fip).next().is_some();
        !is_named && !situation.is_awaited(&entry.fip)
    })
}

/// Whether an orphan whose release was planned is still to be released: its claim may have been restored since, or a Cluster
/// of the namespace paused for that, or a port attached.
pub fn is_still_orphaned(situation: &Situation<'_>, id: &FloatingIpId, is_paused: bool) -> bool {
    situation.ledger.get(id).is_none_or(|entry| match situation.ownership(entry) {
        Ownership::Claimed(claim) => {
            !is_paused && !entry.fip.is_attached() && !situation.is_needed_by(&claim, &entry.fip)
        }
        _ => true,
    })
}

/// When to list again whether a released address still has a port: after as long as it was seen to stay. Before that, one
/// listing follows the release, since CAPO deletes the port just before.
fn next_port_check(seen: Timestamp, released: Timestamp) -> Timestamp {
    let stayed = seen.duration_since(released).abs();
    let recheck = match stayed < PORT_STAYS_AFTER {
        true => stayed.clamp(MIN_PORT_RECHECK, MAX_PORT_RECHECK),
        false => STAYING_PORT_RECHECK,
    };
    after(seen, recheck)
}

struct SweepPass<'a> {
    situation: Situation<'a>,
    cluster: &'a ClusterView,
    /// Unclaimed addresses that any claim may get.
    spares: usize,
    /// Claims that wait for any address, minus those that one is offered to.
    waiting: usize,
    /// How many addresses are beyond the pool's limit, which was lowered: they are left to no claim.
    surplus: usize,
    plan: SweepPlan,
}

impl<'a> SweepPass<'a> {
    fn new(situation: Situation<'a>, cluster: &'a ClusterView, scope: SweepScope) -> Self {
        let (waiting, surplus) = (situation.queue_for_any().count(), Supply::new(situation).surplus());
        let plan = SweepPlan { scope, ..SweepPlan::default() };
        let mut pass = Self { situation, cluster, spares: 0, waiting, surplus, plan };
        let unsettled = situation.ledger.unsettled_of_pool(&situation.pool.id);
        pass.spares = unsettled.filter(|entry| pass.is_spare(entry)).count();
        pass
    }

    fn visit(&mut self, entry: &LedgerEntry) {
        if entry.hold.is_some() {
            return;
        }
        if self.situation.ledger.has_copied_mark(entry) {
            return self.plan.copied.push(entry.fip.id.clone());
        }
        if !entry.uncertain_writes.is_empty() {
            self.plan.must_list = true;
            return;
        }
        if self.situation.ledger.is_being_created(entry) {
            return;
        }
        match self.situation.ownership(entry) {
            Ownership::Released { claim, at } => self.visit_released(entry, &claim, at),
            Ownership::Claimed(claim) => self.visit_held(entry, &claim),
            Ownership::Contested => self.visit_contested(entry),
            Ownership::Unclaimed => self.visit_unclaimed(entry),
            Ownership::Unmarked | Ownership::Foreign => {}
        }
    }

    fn visit_released(&mut self, entry: &LedgerEntry, claim: &ClaimKey, at: Timestamp) {
        let Situation { pool, now, .. } = self.situation;
        if entry.fip.is_attached() {
            let check_at = next_port_check(entry.seen.at, at);
            self.plan.must_list |= !entry.is_confirmed() || now >= check_at;
            // If the listing does not show it, with the credentials of this pool, the next sweep need not come at once.
            if now < check_at {
                self.wake(check_at);
            }
            return;
        }
        // An active claim takes the release back itself, if it may; one that is being deleted has not finished.
        let published = self.situation.relevant_addresses();
        let may_take_back = || {
            pool.allows(entry.fip.address, claim) && !published.is_published_for_another(&entry.fip, &pool.id, claim)
        };
        let may_be_taken_back = self.situation.claims.get(claim) == Some(&ClaimState::Deleting) || may_take_back();
        let is_needed = may_be_taken_back && self.situation.is_needed_by(claim, &entry.fip);
        if is_needed || published.is_published_itself(&entry.fip, &pool.id) {
            return;
        }
        if !entry.is_confirmed() {
            self.plan.must_list = true;
            return;
        }
        // A clock was wrong, or a user wrote the tag: the grace period begins now. Not if Neutron's clock is ahead, too.
        let latest = entry.fip.changed_at.map_or(now, |changed_at| changed_at.max(now));
        if at.duration_since(latest) > CLOCK_SKEW {
            return self.release(entry, claim);
        }
        let free_at = after(at, pool.grace);
        if now < free_at {
            return self.wake(free_at);
        }
        let Some(mark) = self.situation.created_here(entry) else { return self.rewrite(entry, None) };
        let is_givable = self.is_givable(entry);
        if is_givable && self.waiting > 0 && self.surplus == 0 {
            self.waiting = self.waiting.saturating_sub(1);
            self.plan.offered = self.plan.offered.saturating_add(1);
            return;
        }
        let is_missing_spare = is_givable && self.spares < pool.min_free && self.surplus == 0;
        let is_kept = self.situation.is_reserved(&entry.fip) || self.replaces_deleted(entry);
        if pool.deletes && !is_missing_spare && !is_kept {
            return self.delete(entry);
        }
        self.spares = self.spares.saturating_add(usize::from(is_givable));
        // Where the pool deletes, too: its policy may change.
        let idle = CreationMark { is_retained: true, ..mark.given_back() };
        self.rewrite(entry, Some(idle.render(None)));
    }

    fn visit_held(&mut self, entry: &LedgerEntry, claim: &ClaimKey) {
        if self.is_published_in_use(entry, claim) || self.situation.is_needed_by(claim, &entry.fip) {
            // The claim may remove its own mark again: the port may be that of the earlier one.
            let owner = (self.situation.pool.id.clone(), claim.clone());
            if entry.disowned.contains_key(&owner) || entry.choices.contains_key(&owner) {
                return;
            }
            // A takeover leaves the tags of an earlier claim behind. Its release goes last: until then it counts.
            let (pool, is_its) = (&self.situation.pool.id, self.is_justified(entry, claim));
            let is_released =
                |owner: &&(PoolId, ClaimKey)| is_its && owner.0 == *pool && entry.marks.is_released_by(owner);
            let claims = entry.marks.claims.iter().filter(is_released).map(|(pool, claim)| claim_tag(pool, claim));
            let stale: Vec<String> = claims.chain(entry.marks.release_tags(|_| true)).collect();
            if !stale.is_empty() {
                let id = entry.fip.id.clone();
                self.plan.actions.push(SweepAction::Rewrite { id, description: None, tags: stale });
            }
            return;
        }
        if self.cluster.claims_of_duplicates.contains(claim) {
            return;
        }
        if self.is_unwanted_offer(entry, claim) {
            return self.discard(entry);
        }
        if self.report_orphan(entry) && self.situation.pool.releases_orphans && !entry.fip.is_attached() {
            self.release(entry, claim);
        }
    }

    /// Whether Neutron offered it for the claim, which may not have it and has another one. It was not deleted at once: that
    /// failed, or the process died.
    fn is_unwanted_offer(&self, entry: &LedgerEntry, claim: &ClaimKey) -> bool {
        let Situation { pool, .. } = self.situation;
        self.situation.created_here(entry).is_some_and(|mark| mark.claim.as_ref() == Some(claim))
            && entry.fip.is_as_created()
            && !entry.fip.is_attached()
            && !pool.allows(entry.fip.address, claim)
            && self.situation.is_stale_mark(claim, &entry.fip)
            && !pool.only_releases
            && !self.cluster.is_paused
    }

    fn discard(&mut self, entry: &LedgerEntry) {
        if !entry.is_confirmed() {
            self.plan.must_list = true;
            return;
        }
        match plan_discard(&self.situation, &entry.fip.id) {
            SweepAction::Delete(_) => self.delete(entry),
            action => self.plan.actions.push(action),
        }
    }

    /// Marks it as released by the claim, now.
    fn release(&mut self, entry: &LedgerEntry, claim: &ClaimKey) {
        let Situation { pool, now, .. } = self.situation;
        let id = entry.fip.id.clone();
        let may_tag = pool.has_tags && entry.has_room_for_tag();
        self.plan.actions.push(match entry.marks.created.as_ref() {
            _ if may_tag => SweepAction::Release(id, release_tag(&pool.id, claim, now)),
            Some(mark) => {
                let (claim, released) = (Some(claim.clone()), Some(now));
                SweepAction::Describe(id, CreationMark { claim, released, ..mark.clone() })
            }
            // Without room for the release, the address is free at once.
            None => SweepAction::Rewrite { id, description: None, tags: entry.marks.tags_of(&pool.id) },
        });
    }

    fn visit_unclaimed(&mut self, entry: &LedgerEntry) {
        let pool = self.situation.pool;
        let is_dispensable = match self.is_givable(entry) {
            true => self.surplus > 0 || self.spares > pool.min_free && self.waiting == 0,
            false => !self.situation.is_reserved(&entry.fip) && !self.replaces_deleted(entry),
        };
        // `Retain` keeps what a machine had, and what some claim may get.
        let is_useless = pool.is_excluded(entry.fip.address)
            && self.situation.created_here(entry).is_some_and(|mark| !mark.is_retained);
        // Without the network, a spare looks as if no claim could have it.
        let may_delete = (pool.deletes || is_useless) && !pool.only_releases && is_dispensable;
        let is_published = || self.situation.relevant_addresses().is_published_itself(&entry.fip, &pool.id);
        if !may_delete || entry.fip.is_attached() || is_published() {
            return;
        }
        if !entry.is_confirmed() {
            self.plan.must_list = true;
            return;
        }
        self.spares = self.spares.saturating_sub(usize::from(self.is_spare(entry)));
        self.delete(entry);
    }

    /// None while a claim waits: then nothing is free, and the claim asks Neutron itself.
    fn plan_spares(&mut self) {
        let Situation { ledger, pool, now, .. } = self.situation;
        if self.waiting > 0 || pool.only_releases {
            return;
        }
        let coming = ledger.creations(&pool.id).filter(|(_, creation)| creation.claim.is_none()).count();
        let missing = pool.min_free.saturating_sub(self.spares.saturating_add(coming));
        if missing == 0 {
            return;
        }
        let (allowed, creatable) = Supply::new(self.situation).creatable_spares(missing);
        self.plan.new_spares = creatable;
        if allowed > 0 && creatable == 0 {
            self.wake(after(now, SPARE_RETRY));
        }
    }

    fn delete(&mut self, entry: &LedgerEntry) {
        self.surplus = self.surplus.saturating_sub(1);
        let again_at = entry.deleted_in_vain.map(|at| after(at, DELETE_AGAIN));
        if let Some(at) = again_at.filter(|at| self.situation.now < *at) {
            return self.wake(at);
        }
        self.plan.actions.push(SweepAction::Delete(entry.fip.id.clone()));
    }

    /// Removes the pool's tags, after writing a description.
    fn rewrite(&mut self, entry: &LedgerEntry, description: Option<String>) {
        let (id, tags) = (entry.fip.id.clone(), entry.marks.tags_of(&self.situation.pool.id));
        self.plan.actions.push(SweepAction::Rewrite { id, description, tags });
    }

    fn wake(&mut self, at: Timestamp) {
        self.plan.wake_at = Some(self.plan.wake_at.map_or(at, |other| other.min(at)));
    }

    /// Whether an IPAddress names it, which is marked for the claim: not one of this pool whose claim is gone, nor one of
    /// another claim that names a deleted floating IP with its address.
    fn is_published_in_use(&self, entry: &LedgerEntry, claim: &ClaimKey) -> bool {
        let (pool, fip) = (&self.situation.pool.id, &entry.fip);
        let is_lost = |binding: &Binding| binding.pool == *pool && self.cluster.stray_claims.contains(&binding.claim);
        let is_of_it = |binding: &Binding| binding.is_of(pool, claim) || !binding.is_of_predecessor(fip, pool);
        let counts = |binding: &Binding| !is_lost(binding) && is_of_it(binding);
        self.situation.relevant_addresses().is_published_where(fip, counts)
    }

    /// Whether a claim of the pool takes it for the deleted floating IP that its IPAddress names.
    fn replaces_deleted(&self, entry: &LedgerEntry) -> bool {
        let pool = &self.situation.pool.id;
        let mut naming = self.situation.relevant_addresses().naming_predecessor(&entry.fip, pool);
        naming.any(|Binding { pool: of, claim, .. }| {
            *of == *pool && (self.situation.is_active(claim) || self.cluster.claims_of_duplicates.contains(claim))
        })
    }

    /// Whether any claim of the pool may get it, once it is free.
    fn is_givable(&self, entry: &LedgerEntry) -> bool {
        self.situation.is_on_network(entry)
            && self.situation.pool.is_for_any_claim(entry.fip.address)
            && !self.situation.relevant_addresses().is_published(&entry.fip)
    }

    fn is_spare(&self, entry: &LedgerEntry) -> bool {
        self.situation.ownership(entry) == Ownership::Unclaimed
            && self.is_givable(entry)
            && is_owned_and_free(&self.situation, entry)
    }

    /// Reports an orphan, and returns whether it may be released now: a listing after the grace period must still show it.
    /// Even without a grace period it is not released when first seen, since a port may be attached meanwhile.
    fn report_orphan(&mut self, entry: &LedgerEntry) -> bool {
        let Situation { ledger, pool, now, .. } = self.situation;
        self.plan.orphans.push(entry.fip.id.clone());
        let since = entry.orphaned_since.get(&pool.id).copied();
        let due = after(since.unwrap_or(now), pool.orphan_grace);
        let is_listed_again = ledger.listing_began(self.situation.pool.viewer).is_some_and(|from| from.at >= due);
        if now < due {
            self.wake(due);
        } else if !is_listed_again {
            self.plan.must_list = true;
        }
        since.is_some() && is_listed_again && !self.cluster.is_paused
    }
}

#[cfg(test)]
mod tests;
