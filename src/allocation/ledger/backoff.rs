//! When to ask Neutron for a new address again: after a refusal, or after unwanted offers: addresses that are excluded,
//! reserved, or published by others.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};

use super::{CreationBlock, Hold, Ledger, LedgerEntry};
use crate::allocation::identity::PoolId;
use crate::allocation::policy::PoolPolicy;
use crate::allocation::refusal::Refusal;
use crate::floating_ip::{FloatingIp, FloatingIpId, SubnetId};
use crate::time::after;

/// How long a pool creates nothing after Neutron offered it only unwanted addresses: each such offer costs a POST and a
/// DELETE. It doubles each time, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(30);
/// Only another request shows that an allocation pool was added to the network.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_mins(15);

#[derive(Clone, Default, Debug)]
pub(super) struct CreationBackoff {
    blocks: BTreeMap<PoolId, BlockState>,
    unwanted: BTreeMap<PoolId, UnwantedOffers>,
    /// Subnets of which Neutron offered only unwanted addresses, while the pool has others.
    passed_over: BTreeMap<(PoolId, SubnetId), UnwantedOffers>,
    /// What Neutron offered each pool in vain since its spec changed or it was last offered something usable.
    unwanted_addresses: BTreeMap<PoolId, BTreeSet<IpAddr>>,
    held_unwanted: BTreeSet<FloatingIpId>,
    empty_subnets: BTreeMap<SubnetId, Timestamp>,
}

#[derive(Clone, Debug)]
struct BlockState {
    block: CreationBlock,
    /// Something has changed, so that one claim may ask before the block ends.
    may_retry: bool,
    /// The pool's spec or the quota has changed: what Neutron would say now is not known.
    is_outdated: bool,
}

/// All that Neutron offered a pool was excluded, reserved, or published by others.
#[derive(Clone, Debug)]
struct UnwantedOffers {
    until: Timestamp,
    pause: SignedDuration,
}

impl CreationBackoff {
    /// A floating IP was deleted, so Neutron may offer its address next. That ends the pause of the pools that want it: not
    /// of those that were offered it in vain, perhaps by the creations and deletions of another cluster that waits too.
    pub(super) fn note_gone(&mut self, fip: &FloatingIp) {
        if !self.held_unwanted.remove(&fip.id) {
            let addresses = &self.unwanted_addresses;
            let was_offered = |pool: &PoolId| addresses.get(pool).is_some_and(|of_pool| of_pool.contains(&fip.address));
            self.unwanted.retain(|pool, _| was_offered(pool));
            self.passed_over.retain(|(pool, _), _| was_offered(pool));
        }
    }

    /// What the pool was offered in vain says nothing of what it is offered now.
    fn forget_unwanted(&mut self, pool: &PoolId) {
        self.unwanted.remove(pool);
        self.unwanted_addresses.remove(pool);
        self.passed_over.retain(|(other, _), _| other != pool);
    }
}

impl UnwantedOffers {
    /// Another pause, longer than the one before. None while that lasts: requests that ran in parallel count once.
    fn next(before: Option<&Self>, now: Timestamp) -> Option<Self> {
        if before.is_some_and(|offers| now < offers.until) {
            return None;
        }
        let pause = before.map_or(FIRST_PAUSE, |offers| LONGEST_PAUSE.min(offers.pause.saturating_mul(2)));
        Some(Self { until: after(now, pause), pause })
    }
}

impl Ledger {
    /// Neutron refused a creation.
    pub fn block_creation(&mut self, pool: PoolId, block: CreationBlock) {
        // The refusal is now the reason, not the unwanted offers.
        if self.count_unwanted(&pool) == 0 {
            self.backoff.unwanted.remove(&pool);
        }
        self.backoff.blocks.insert(pool, BlockState { block, may_retry: false, is_outdated: false });
    }

    /// Neutron offered a usable address. True if creations were blocked until now.
    pub fn unblock_creation(&mut self, pool: &PoolId) -> bool {
        let was_blocked = self.creation_refusal(pool).is_some() || self.offers_only_unwanted(pool);
        self.backoff.blocks.remove(pool);
        self.backoff.unwanted.remove(pool);
        if !self.backoff.passed_over.keys().any(|(other, _)| other == pool) {
            self.backoff.unwanted_addresses.remove(pool);
        }
        was_blocked
    }

    /// An address was released: a blocked pool may ask again at once, for one claim, where that may help.
    pub fn retry_creation(&mut self, pool: &PoolId) {
        if let Some(state) = self.backoff.blocks.get_mut(pool) {
            state.may_retry = state.block.refusal.may_end_early();
        }
        self.backoff.empty_subnets.clear();
    }

    /// The pool's spec changed, and with it which addresses are usable.
    pub fn reset_backoff(&mut self, pool: &PoolId) {
        self.backoff.forget_unwanted(pool);
        self.retry_creation(pool);
        if let Some(state) = self.backoff.blocks.get_mut(pool) {
            state.is_outdated = state.may_retry;
        }
    }

    /// The project's quota was read: with room, a refusal for its sake is outdated.
    pub fn note_quota(&mut self, has_room: bool) {
        let blocked = self.backoff.blocks.values_mut().filter(|state| state.block.refusal == Refusal::QuotaReached);
        blocked.for_each(|state| state.is_outdated = has_room);
    }

    pub(super) fn forget_backoff(&mut self, pool: &PoolId) {
        self.backoff.blocks.remove(pool);
        self.backoff.forget_unwanted(pool);
    }

    /// Neutron offered an unwanted address. It is held while another is requested, then deleted.
    pub fn hold_unwanted(&mut self, id: &FloatingIpId) {
        let offered =
            self.get(id).and_then(|entry| Some((entry.marks.created.as_ref()?.pool.clone(), entry.fip.address)));
        if let Some((pool, address)) = offered {
            self.backoff.unwanted_addresses.entry(pool).or_default().insert(address);
        }
        self.backoff.held_unwanted.insert(id.clone());
        self.set_hold(id, Some(Hold::Unwanted));
    }

    /// Neutron offered a pool only unwanted addresses: creations pause, longer each time.
    pub fn note_unwanted_offers(&mut self, pool: &PoolId, now: Timestamp) {
        if let Some(offers) = UnwantedOffers::next(self.backoff.unwanted.get(pool), now) {
            self.backoff.unwanted.insert(pool.clone(), offers);
        }
    }

    /// Neutron offered a pool only unwanted addresses of one of its subnets: another is asked for a while, longer each time.
    /// False if the pool has no other that it may use, so that all its creations have to pause.
    pub fn pass_over_subnet(&mut self, pool: &PoolPolicy, subnet: &SubnetId, now: Timestamp) -> bool {
        let is_other = |other: &&SubnetId| *other != subnet && self.may_use_subnet(&pool.id, other, now);
        if pool.subnets.iter().find(is_other).is_none() {
            return false;
        }
        let key = (pool.id.clone(), subnet.clone());
        if let Some(offers) = UnwantedOffers::next(self.backoff.passed_over.get(&key), now) {
            self.backoff.passed_over.insert(key, offers);
        }
        true
    }

    /// Whether Neutron last offered the pool only unwanted addresses.
    pub fn offers_only_unwanted(&self, pool: &PoolId) -> bool {
        self.backoff.unwanted.contains_key(pool) || self.count_unwanted(pool) > 0
    }

    /// It is not deleted after all: a claim waits for it, or the pool keeps it.
    pub fn keep_unwanted(&mut self, id: &FloatingIpId) {
        self.backoff.held_unwanted.remove(id);
    }

    /// Whether Neutron offered it, it was unwanted, and it is about to be deleted.
    pub(in crate::allocation) fn is_unwanted(&self, entry: &LedgerEntry) -> bool {
        matches!(entry.hold, Some(Hold::Unwanted | Hold::Cleanup)) && self.backoff.held_unwanted.contains(&entry.fip.id)
    }

    /// How many unwanted addresses are held while others are requested.
    pub(in crate::allocation) fn count_unwanted(&self, pool: &PoolId) -> usize {
        self.held().filter(|entry| entry.hold == Some(Hold::Unwanted) && entry.marks.names(pool)).count()
    }

    /// Why Neutron last refused a creation, if it has created nothing since.
    pub(in crate::allocation) fn creation_refusal(&self, pool: &PoolId) -> Option<&Refusal> {
        self.backoff.blocks.get(pool).map(|state| &state.block.refusal)
    }

    /// Whether Neutron last refused a creation under the present spec and quota, and has created nothing since.
    pub(in crate::allocation) fn is_refusing(&self, pool: &PoolId) -> bool {
        self.backoff.blocks.get(pool).is_some_and(|state| !state.is_outdated)
    }

    /// How many creations only probe whether Neutron still refuses.
    pub(in crate::allocation) fn count_probes(&self, pool: &PoolId) -> usize {
        if self.creation_refusal(pool).is_some() { self.count_creations(pool) } else { 0 }
    }

    /// How many addresses count under the limit for a moment and take nothing from what is free: a spare address that is
    /// being created is free once it is there, what is only probed for is expected to be refused, and what is unwanted is
    /// deleted at once.
    pub(in crate::allocation) fn count_passing(&self, pool: &PoolId) -> usize {
        let is_refused = self.creation_refusal(pool).is_some();
        let creations = self.creations(pool).filter(|(_, creation)| creation.claim.is_none() || is_refused);
        let unwanted = self.held().filter(|entry| entry.marks.names(pool) && self.is_unwanted(entry));
        creations.count().saturating_add(unwanted.count())
    }

    pub fn may_create(&self, pool: &PoolId, now: Timestamp) -> bool {
        self.backoff.blocks.get(pool).is_none_or(|state| state.may_retry || now >= state.block.until)
            && self.backoff.unwanted.get(pool).is_none_or(|offers| now >= offers.until)
    }

    /// Whether a blocked pool may ask again: one claim does, for all.
    pub fn is_probing(&self, pool: &PoolId, now: Timestamp) -> bool {
        let was_blocked = self.backoff.blocks.contains_key(pool) || self.backoff.unwanted.contains_key(pool);
        was_blocked && self.may_create(pool, now)
    }

    /// A subnet had no address left; another is used until then.
    pub fn note_empty_subnet(&mut self, subnet: SubnetId, until: Timestamp) {
        self.backoff.empty_subnets.insert(subnet, until);
    }

    /// The first of the pool's subnets of which Neutron may have an address that the pool wants.
    pub fn usable_subnet<'a>(&self, pool: &'a PoolPolicy, now: Timestamp) -> Option<&'a SubnetId> {
        pool.subnets.iter().find(|subnet| self.may_use_subnet(&pool.id, subnet, now))
    }

    fn may_use_subnet(&self, pool: &PoolId, subnet: &SubnetId, now: Timestamp) -> bool {
        self.backoff.empty_subnets.get(subnet).is_none_or(|until| now >= *until) && !self.passes_over(pool, subnet, now)
    }

    /// Whether Neutron last offered the pool only unwanted addresses of this subnet, so that it is not asked for another yet.
    pub fn passes_over(&self, pool: &PoolId, subnet: &SubnetId, now: Timestamp) -> bool {
        let offers = self.backoff.passed_over.get(&(pool.clone(), subnet.clone()));
        offers.is_some_and(|offers| now < offers.until)
    }
}
