//! When to ask Neutron for a new address again: after a refusal, or after unwanted offers: addresses that are excluded,
//! reserved, or published by others.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};

use super::{CreationBlock, Hold, Ledger, LedgerEntry, SETTLING};
use crate::allocation::identity::PoolId;
use crate::allocation::policy::PoolPolicy;
use crate::allocation::refusal::Refusal;
use crate::floating_ip::{FloatingIp, FloatingIpId, SubnetId};
use crate::time::after;

/// How many addresses that Neutron offers in a place in a row must be unwanted before none is requested there for a while.
/// Also how many of a pool without subnets are held at once.
pub const UNWANTED_LIMIT: usize = 8;

/// How long nothing is created in a place after Neutron offered only unwanted addresses there: each such offer costs a POST
/// and a DELETE. It doubles each time, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(30);
/// Only another request shows that an allocation pool was added to the network.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_mins(15);

#[derive(Clone, Default, Debug)]
pub(super) struct CreationBackoff {
    blocks: BTreeMap<PoolId, BlockState>,
    offers: BTreeMap<Place, UnwantedOffers>,
    /// What Neutron offered each pool in vain since its spec changed or all its places offered something usable.
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

/// Where a pool requests addresses: in one of its subnets, or anywhere on its network.
type Place = (PoolId, Option<SubnetId>);

/// What Neutron offered a pool in a place was excluded, reserved, or published by others.
#[derive(Clone, Default, Debug)]
struct UnwantedOffers {
    /// How many in a row, since the last pause.
    count: usize,
    /// The last pause, and when it began.
    pause: Option<(Timestamp, SignedDuration)>,
    /// When the request began that shows after the pause whether that is still so, while it is under way.
    probed: Option<Timestamp>,
}

impl UnwantedOffers {
    fn is_paused(&self, now: Timestamp) -> bool {
        self.pause.is_some_and(|(from, pause)| now < after(from, pause))
    }

    fn is_probed(&self, now: Timestamp) -> bool {
        self.probed.is_some_and(|since| now < after(since, SETTLING))
    }

    /// Begins a pause, longer than the one before, unless that lasts still: requests that ran in parallel count once.
    fn pause(&mut self, now: Timestamp) {
        self.count = 0;
        if !self.is_paused(now) {
            let longer = self.pause.map_or(FIRST_PAUSE, |(_, before)| LONGEST_PAUSE.min(before.saturating_mul(2)));
            self.pause = Some((now, longer));
        }
    }
}

impl CreationBackoff {
    /// A floating IP was deleted, so Neutron may offer its address next. That ends the pause of the pools that want it: not
    /// of those that were offered it in vain, perhaps by the creations and deletions of another cluster that waits too. The
    /// pause of a subnet becomes short: another one may be in use meanwhile.
    pub(super) fn note_gone(&mut self, fip: &FloatingIp) {
        if self.held_unwanted.remove(&fip.id) {
            return;
        }
        let was_offered =
            |pool: &PoolId| self.unwanted_addresses.get(pool).is_some_and(|of_pool| of_pool.contains(&fip.address));
        self.offers.retain(|(pool, subnet), offers| {
            if !was_offered(pool) {
                offers.pause = offers.pause.map(|(from, _)| (from, FIRST_PAUSE));
            }
            subnet.is_some() || was_offered(pool)
        });
    }

    fn forget_unwanted(&mut self, pool: &PoolId) {
        self.offers.retain(|(other, _), _| other != pool);
        self.unwanted_addresses.remove(pool);
    }

    fn is_paused(&self, pool: &PoolId, subnet: Option<&SubnetId>, now: Timestamp) -> bool {
        self.offers(pool, subnet).is_some_and(|offers| offers.is_paused(now))
    }

    /// Whether Neutron offered only unwanted addresses there, and nothing usable since.
    fn was_paused(&self, pool: &PoolId, subnet: Option<&SubnetId>) -> bool {
        self.offers(pool, subnet).is_some_and(|offers| offers.pause.is_some())
    }

    fn offers(&self, pool: &PoolId, subnet: Option<&SubnetId>) -> Option<&UnwantedOffers> {
        self.offers.get(&(pool.clone(), subnet.cloned()))
    }
}

impl Ledger {
    /// Neutron refused a creation.
    pub fn block_creation(&mut self, pool: PoolId, block: CreationBlock) {
        // The refusal is now the reason, not the unwanted offers.
        if self.count_unwanted(&pool) == 0 {
            self.backoff.offers.remove(&(pool.clone(), None));
        }
        self.backoff.blocks.insert(pool, BlockState { block, may_retry: false, is_outdated: false });
    }

    /// Neutron offered a usable address there. True if creations were blocked until now.
    pub fn unblock_creation(&mut self, pool: &PoolId, subnet: Option<&SubnetId>) -> bool {
        let was_blocked = self.creation_refusal(pool).is_some()
            || self.backoff.was_paused(pool, subnet)
            || self.count_unwanted(pool) > 0;
        self.backoff.blocks.remove(pool);
        self.backoff.offers.remove(&(pool.clone(), subnet.cloned()));
        if !self.backoff.offers.keys().any(|(other, _)| other == pool) {
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

    /// An address is requested there. After the pause of a subnet one request at a time shows whether Neutron has others by
    /// now: meanwhile the others go to the next subnet.
    pub fn begin_request(&mut self, pool: &PoolId, subnet: Option<&SubnetId>, now: Timestamp) {
        let offers = subnet.and_then(|subnet| self.backoff.offers.get_mut(&(pool.clone(), Some(subnet.clone()))));
        if let Some(offers) = offers.filter(|offers| offers.pause.is_some()) {
            offers.probed = Some(now);
        }
    }

    pub fn end_request(&mut self, pool: &PoolId, subnet: Option<&SubnetId>) {
        if let Some(offers) = self.backoff.offers.get_mut(&(pool.clone(), subnet.cloned())) {
            offers.probed = None;
        }
    }

    /// Neutron offered the pool an unwanted address there. It is held while another is requested, then deleted. After a pause
    /// one is enough for the next, if another subnet may be used.
    pub fn hold_unwanted(&mut self, pool: &PoolPolicy, id: &FloatingIpId, subnet: Option<&SubnetId>, now: Timestamp) {
        if let Some(address) = self.get(id).map(|entry| entry.fip.address) {
            self.backoff.unwanted_addresses.entry(pool.id.clone()).or_default().insert(address);
        }
        // Something else was refused: it creates again. An address may still be all that a full network had.
        if self.creation_refusal(&pool.id) != Some(&Refusal::NetworkExhausted) {
            self.backoff.blocks.remove(&pool.id);
        }
        let is_other = |other: &SubnetId| Some(other) != subnet && self.may_use_subnet(&pool.id, other, now);
        let is_another_usable = subnet.is_some() && pool.subnets.iter().any(is_other);
        let offers = self.backoff.offers.entry((pool.id.clone(), subnet.cloned())).or_default();
        offers.count = offers.count.saturating_add(1);
        if offers.count >= UNWANTED_LIMIT || offers.pause.is_some() && is_another_usable {
            offers.pause(now);
        }
        self.backoff.held_unwanted.insert(id.clone());
        self.set_hold(id, Some(Hold::Unwanted));
    }

    /// Neutron has no other addresses there than unwanted ones: creations pause, longer each time.
    pub fn note_only_unwanted(&mut self, pool: &PoolId, subnet: Option<&SubnetId>, now: Timestamp) {
        self.backoff.offers.entry((pool.clone(), subnet.cloned())).or_default().pause(now);
    }

    /// Whether Neutron last offered the pool only unwanted addresses, wherever it has any.
    pub fn offers_only_unwanted(&self, pool: &PoolPolicy, now: Timestamp) -> bool {
        let was_paused = |subnet: &SubnetId| self.backoff.was_paused(&pool.id, Some(subnet));
        let is_of_no_use = |subnet: &SubnetId| was_paused(subnet) || self.is_empty_subnet(subnet, now);
        let is_anywhere = match pool.subnets.is_empty() {
            true => self.backoff.was_paused(&pool.id, None),
            // If it refuses in one of them, that is the reason.
            false => {
                self.creation_refusal(&pool.id).is_none()
                    && pool.subnets.iter().any(was_paused)
                    && pool.subnets.iter().all(is_of_no_use)
            }
        };
        is_anywhere || self.count_unwanted(&pool.id) > 0
    }

    /// Whether Neutron offered unwanted addresses there, and such addresses are held at this moment.
    pub fn holds_unwanted(&self, pool: &PoolId, subnet: Option<&SubnetId>) -> bool {
        self.backoff.offers(pool, subnet).is_some_and(|offers| offers.count > 0) && self.count_unwanted(pool) > 0
    }

    /// It is not deleted after all: a claim waits for it, or the pool keeps it.
    pub fn keep_unwanted(&mut self, id: &FloatingIpId) {
        self.backoff.held_unwanted.remove(id);
    }

    /// Another session decides what becomes of them.
    pub fn leave_unwanted(&mut self, ids: &[FloatingIpId]) {
        ids.iter().for_each(|id| self.set_hold(id, None));
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

    /// A pool with subnets needs one that [it may use](Self::usable_subnet), too.
    pub fn may_create(&self, pool: &PoolPolicy, now: Timestamp) -> bool {
        self.backoff.blocks.get(&pool.id).is_none_or(|state| state.may_retry || now >= state.block.until)
            && !(pool.subnets.is_empty() && self.backoff.is_paused(&pool.id, None, now))
    }

    /// Whether a blocked pool may ask again: one claim does, for all.
    pub fn is_probing(&self, pool: &PoolPolicy, now: Timestamp) -> bool {
        let was_paused = pool.subnets.is_empty() && self.backoff.was_paused(&pool.id, None);
        (was_paused || self.backoff.blocks.contains_key(&pool.id)) && self.may_create(pool, now)
    }

    /// Whether the pool may request another address after an unwanted one.
    pub fn may_get_another_offer(&self, pool: &PoolPolicy, now: Timestamp) -> bool {
        self.may_create(pool, now) && (pool.subnets.is_empty() || self.usable_subnet(pool, now).is_some())
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
        let offers = self.backoff.offers(pool, Some(subnet));
        !self.is_empty_subnet(subnet, now)
            && offers.is_none_or(|offers| !offers.is_paused(now) && !offers.is_probed(now))
    }

    fn is_empty_subnet(&self, subnet: &SubnetId, now: Timestamp) -> bool {
        self.backoff.empty_subnets.get(subnet).is_some_and(|until| now < *until)
    }
}
