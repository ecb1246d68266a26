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
/// How often in a row Neutron must have no address in a place, for that to be the reason and not what it offered before:
/// another pool may be trying that.
const CERTAIN_REFUSALS: usize = 2;

#[derive(Clone, Default, Debug)]
pub(super) struct CreationBackoff {
    blocks: BTreeMap<PoolId, BlockState>,
    offers: BTreeMap<Place, UnwantedOffers>,
    held_unwanted: BTreeSet<FloatingIpId>,
    empty_subnets: BTreeMap<SubnetId, Timestamp>,
}

#[derive(Clone, Debug)]
struct BlockState {
    block: CreationBlock,
    /// Something has changed, so that one claim may ask before the block ends.
    may_retry: bool,
    /// The pool's spec or the quota has changed, or an address was released: what Neutron would say now is not known.
    is_outdated: bool,
}

/// Where a pool requests addresses: in one of its subnets, or anywhere on its network.
type Place = (PoolId, Option<SubnetId>);

/// What Neutron offered a pool in a place was excluded, reserved, or published by others.
#[derive(Clone, Default, Debug)]
struct UnwantedOffers {
    /// All of them, since the pool's spec changed, or since something else was offered.
    addresses: BTreeSet<IpAddr>,
    /// How many in a row, since the last pause.
    count: usize,
    /// The last pause, and when it began.
    pause: Option<(Timestamp, SignedDuration)>,
    /// How often Neutron has had no address since, although the pool held none of them.
    refusals: usize,
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

    /// Whether they are why Neutron has nothing for the pool there.
    fn is_reason(&self) -> bool {
        self.pause.is_some() && self.refusals < CERTAIN_REFUSALS
    }

    /// Begins a pause, unless one lasts still: requests that ran in parallel count once. It is longer than the one before, if
    /// that did not end long ago.
    fn pause(&mut self, now: Timestamp) {
        (self.count, self.refusals) = (0, 0);
        if !self.is_paused(now) {
            let recent = self.pause.filter(|(from, pause)| now < after(*from, pause.saturating_add(LONGEST_PAUSE)));
            let longer = recent.map_or(FIRST_PAUSE, |(_, before)| LONGEST_PAUSE.min(before.saturating_mul(2)));
            self.pause = Some((now, longer));
        }
    }
}

impl CreationBackoff {
    /// A floating IP was deleted: the quota has room, and Neutron may offer its address next. That ends the pause of the pools
    /// that want it: not of those that were offered it in vain, perhaps by the creations and deletions of another cluster that
    /// waits too. The pause of a subnet becomes short: another one may be in use meanwhile.
    pub(super) fn note_gone(&mut self, fip: &FloatingIp) {
        if self.held_unwanted.remove(&fip.id) {
            return;
        }
        self.note_room_in_quota();
        let in_vain = self.offers.iter().filter(|(_, offers)| offers.addresses.contains(&fip.address));
        let in_vain: BTreeSet<PoolId> = in_vain.map(|((pool, _), _)| pool.clone()).collect();
        self.offers.retain(|(pool, subnet), offers| {
            if !in_vain.contains(pool) {
                offers.pause = offers.pause.map(|(from, _)| (from, FIRST_PAUSE));
            }
            subnet.is_some() || in_vain.contains(pool)
        });
    }

    /// A refusal for the sake of the quota is outdated.
    fn note_room_in_quota(&mut self) {
        let blocked = self.blocks.values_mut().filter(|state| state.block.refusal == Refusal::QuotaReached);
        blocked.for_each(|state| state.is_outdated = true);
    }

    fn forget_unwanted(&mut self, pool: &PoolId) {
        self.offers.retain(|(other, _), _| other != pool);
    }

    fn is_paused(&self, pool: &PoolId, subnet: Option<&SubnetId>, now: Timestamp) -> bool {
        self.offers(pool, subnet).is_some_and(|offers| offers.is_paused(now))
    }

    /// Whether Neutron offered only unwanted addresses there, and nothing else was the answer since.
    fn has_only_unwanted(&self, pool: &PoolId, subnet: Option<&SubnetId>) -> bool {
        self.offers(pool, subnet).is_some_and(UnwantedOffers::is_reason)
    }

    /// Neutron has no address there. The next pause is longer all the same.
    fn note_exhausted(&mut self, pool: &PoolId, subnet: Option<&SubnetId>) {
        if let Some(offers) = self.offers.get_mut(&(pool.clone(), subnet.cloned())) {
            (offers.count, offers.refusals) = (0, offers.refusals.saturating_add(1));
        }
    }

    fn offers(&self, pool: &PoolId, subnet: Option<&SubnetId>) -> Option<&UnwantedOffers> {
        self.offers.get(&(pool.clone(), subnet.cloned()))
    }
}

impl Ledger {
    /// Neutron refused a creation.
    pub fn block_creation(&mut self, pool: PoolId, block: CreationBlock) {
        if block.refusal == Refusal::NetworkExhausted {
            self.backoff.note_exhausted(&pool, None);
        }
        self.backoff.blocks.insert(pool, BlockState { block, may_retry: false, is_outdated: false });
    }

    /// Neutron offered a usable address there. True if creations were blocked until now.
    pub fn unblock_creation(&mut self, pool: &PoolId, subnet: Option<&SubnetId>) -> bool {
        if let Some(subnet) = subnet {
            self.backoff.empty_subnets.remove(subnet);
        }
        let was_refused = self.backoff.blocks.remove(pool).is_some();
        let offers = self.backoff.offers.remove(&(pool.clone(), subnet.cloned()));
        was_refused || offers.is_some_and(|offers| offers.pause.is_some()) || self.count_unwanted(pool) > 0
    }

    /// An address was released: a blocked pool may ask again at once, for one claim, where that may help.
    pub fn retry_creation(&mut self, pool: &PoolId) {
        if let Some(state) = self.backoff.blocks.get_mut(pool) {
            state.may_retry = state.block.refusal.may_end_early();
            state.is_outdated |= state.may_retry;
        }
        self.backoff.empty_subnets.clear();
    }

    /// The pool's spec changed, and with it which addresses are usable.
    pub fn reset_backoff(&mut self, pool: &PoolId) {
        self.backoff.forget_unwanted(pool);
        self.retry_creation(pool);
    }

    /// The project's quota has room, as was read just now.
    pub fn note_room_in_quota(&mut self) {
        self.backoff.note_room_in_quota();
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
    /// one is enough for the next, if another subnet may be used and Neutron did not say that it is full.
    pub fn hold_unwanted(&mut self, pool: &PoolPolicy, id: &FloatingIpId, subnet: Option<&SubnetId>, now: Timestamp) {
        // Something else was refused: it creates again. An address may still be all that a full network had.
        let is_full = self.creation_refusal(&pool.id) == Some(&Refusal::NetworkExhausted);
        if !is_full {
            self.backoff.blocks.remove(&pool.id);
        }
        let is_other = |other: &SubnetId| Some(other) != subnet && self.may_use_subnet(&pool.id, other, now);
        let is_another_usable = subnet.is_some() && !is_full && pool.subnets.iter().any(is_other);
        let address = self.get(id).map(|entry| entry.fip.address);
        let offers = self.backoff.offers.entry((pool.id.clone(), subnet.cloned())).or_default();
        offers.addresses.extend(address);
        offers.count = offers.count.saturating_add(1);
        if offers.count >= UNWANTED_LIMIT || offers.pause.is_some() && is_another_usable {
            offers.pause(now);
        }
        self.note_unwanted(id.clone());
        self.set_hold(id, Some(Hold::Unwanted));
    }

    /// It is about to be deleted. Until its hold ends, no pool counts it; its deletion does not end a pause.
    pub(super) fn note_unwanted(&mut self, id: FloatingIpId) {
        self.backoff.held_unwanted.insert(id);
    }

    /// Neutron has no other addresses there than unwanted ones: creations pause, longer each time.
    pub fn note_only_unwanted(&mut self, pool: &PoolId, subnet: Option<&SubnetId>, now: Timestamp) {
        self.backoff.offers.entry((pool.clone(), subnet.cloned())).or_default().pause(now);
    }

    /// Whether Neutron last offered the pool only unwanted addresses, wherever it has any, or such an address is held.
    pub fn offers_only_unwanted(&self, pool: &PoolPolicy) -> bool {
        self.is_only_unwanted_left(pool, self.creation_refusal(&pool.id))
    }

    /// Why nothing can be created in the pool's subnets, if none of them may be asked now.
    pub fn subnets_refusal(&self, pool: &PoolPolicy) -> Refusal {
        let refusal = self.creation_refusal(&pool.id).unwrap_or(&Refusal::NetworkExhausted);
        if self.is_only_unwanted_left(pool, Some(refusal)) { Refusal::OnlyUnwanted } else { refusal.clone() }
    }

    /// Whether unwanted addresses are all that is left, if this is what Neutron last refused.
    fn is_only_unwanted_left(&self, pool: &PoolPolicy, refusal: Option<&Refusal>) -> bool {
        let has_only_unwanted = |subnet: &SubnetId| self.backoff.has_only_unwanted(&pool.id, Some(subnet));
        let are_left = match refusal {
            Some(refusal) if *refusal != Refusal::NetworkExhausted => false,
            _ if pool.subnets.is_empty() => self.backoff.has_only_unwanted(&pool.id, None),
            None => pool.subnets.iter().all(has_only_unwanted),
            // The other subnets are full.
            Some(_) => pool.subnets.iter().any(has_only_unwanted),
        };
        are_left || self.count_unwanted(&pool.id) > 0
    }

    /// Whether Neutron offered unwanted addresses there, and such addresses are held at this moment.
    pub fn holds_unwanted(&self, pool: &PoolId, subnet: Option<&SubnetId>) -> bool {
        self.backoff.offers(pool, subnet).is_some_and(|offers| offers.count > 0) && self.count_unwanted(pool) > 0
    }

    /// It is not deleted after all: another claim waits for it. Whether Neutron has any others is not known then.
    pub fn keep_unwanted(&mut self, pool: &PoolId, id: &FloatingIpId) {
        self.end_unwanted(id);
        self.backoff.forget_unwanted(pool);
    }

    /// Its hold has ended.
    pub(super) fn end_unwanted(&mut self, id: &FloatingIpId) {
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

    /// Whether Neutron has just created it, and either it is not known yet whether its pool keeps it, or it is about to be
    /// deleted. No pool counts it: statuses would otherwise change with each attempt.
    pub(in crate::allocation) fn is_only_offered(&self, entry: &LedgerEntry) -> bool {
        self.is_being_created(entry) || self.is_unwanted(entry)
    }

    /// How many unwanted addresses are held while others are requested.
    pub(in crate::allocation) fn count_unwanted(&self, pool: &PoolId) -> usize {
        self.held().filter(|entry| entry.hold == Some(Hold::Unwanted) && entry.marks.names(pool)).count()
    }

    /// Why Neutron last refused a creation, if it has created nothing since.
    pub(in crate::allocation) fn creation_refusal(&self, pool: &PoolId) -> Option<&Refusal> {
        self.backoff.blocks.get(pool).map(|state| &state.block.refusal)
    }

    /// Whether Neutron last refused a creation under the present spec and quota, and has created nothing and got nothing back
    /// since.
    pub(in crate::allocation) fn is_refusing(&self, pool: &PoolId) -> bool {
        self.backoff.blocks.get(pool).is_some_and(|state| !state.is_outdated)
    }

    /// How many addresses count under the limit for a moment and take nothing from what is free: a spare address that is
    /// being created is free once it is there, what is only probed for is expected to be refused, and what is unwanted is
    /// deleted at once.
    pub(in crate::allocation) fn count_passing(&self, pool: &PoolPolicy) -> usize {
        if self.creation_refusal(&pool.id).is_some() || self.offers_only_unwanted(pool) {
            return self.count_attempts(pool);
        }
        let lasting = self.creations(&pool.id).filter(|(_, creation)| creation.claim.is_some());
        self.count_attempts(pool).saturating_sub(lasting.count())
    }

    /// How many of the addresses that count under the limit are being created or unwanted, and may soon be gone.
    pub(in crate::allocation) fn count_attempts(&self, pool: &PoolPolicy) -> usize {
        let unwanted = self.held().filter(|entry| entry.marks.names(&pool.id) && self.is_unwanted(entry));
        self.creations(&pool.id).count().saturating_add(unwanted.count())
    }

    /// A pool with subnets needs one that [it may use](Self::usable_subnet), too.
    pub fn may_create(&self, pool: &PoolPolicy, now: Timestamp) -> bool {
        self.backoff.blocks.get(&pool.id).is_none_or(|state| state.may_retry || now >= state.block.until)
            && !(pool.subnets.is_empty() && self.backoff.is_paused(&pool.id, None, now))
    }

    /// Whether a blocked pool may ask again: one claim does, for all.
    pub fn is_probing(&self, pool: &PoolPolicy, now: Timestamp) -> bool {
        let has_only_unwanted = pool.subnets.is_empty() && self.backoff.has_only_unwanted(&pool.id, None);
        (has_only_unwanted || self.backoff.blocks.contains_key(&pool.id)) && self.may_create(pool, now)
    }

    /// Whether the pool may request another address after an unwanted one.
    pub fn may_get_another_offer(&self, pool: &PoolPolicy, now: Timestamp) -> bool {
        self.may_create(pool, now) && (pool.subnets.is_empty() || self.usable_subnet(pool, now).is_some())
    }

    /// A subnet had no address left; another is used until then.
    pub fn note_empty_subnet(&mut self, pool: &PoolId, subnet: SubnetId, until: Timestamp) {
        self.backoff.note_exhausted(pool, Some(&subnet));
        self.backoff.empty_subnets.insert(subnet, until);
    }

    /// The first of the pool's subnets of which Neutron may have an address that the pool wants.
    pub fn usable_subnet<'a>(&self, pool: &'a PoolPolicy, now: Timestamp) -> Option<&'a SubnetId> {
        pool.subnets.iter().find(|subnet| self.may_use_subnet(&pool.id, subnet, now))
    }

    /// Whether Neutron had no address that the pool wants in any of its subnets when one was last requested there, by
    /// whichever pool.
    pub fn lacks_subnet(&self, pool: &PoolPolicy) -> bool {
        let lacks = |subnet: &SubnetId| {
            self.backoff.empty_subnets.contains_key(subnet) || self.backoff.has_only_unwanted(&pool.id, Some(subnet))
        };
        !pool.subnets.is_empty() && pool.subnets.iter().all(lacks)
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
