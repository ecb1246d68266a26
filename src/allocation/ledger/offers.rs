//! What Neutron answered those who asked it for new addresses, and when it is worth asking again.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::{CreationBlock, Hold, Ledger};
use crate::allocation::identity::PoolId;
use crate::allocation::refusal::Refusal;
use crate::floating_ip::{FloatingIpId, SubnetId};

/// How long a pool asks for nothing after Neutron offered it only what it may not give: each such offer costs a POST and
/// a DELETE. It doubles each time, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(30);
/// The longest such pause. An allocation range that is added to the network is seen by nothing but asking.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_mins(15);

#[derive(Clone, Default, Debug)]
pub(super) struct CreationBackoff {
    blocks: BTreeMap<PoolId, CreationBlock>,
    barren: BTreeMap<PoolId, UnusableOffers>,
    declined: BTreeSet<FloatingIpId>,
    empty_subnets: BTreeMap<SubnetId, Timestamp>,
}

/// What Neutron offers a pool is excluded, reserved, or named by others.
#[derive(Clone, Debug)]
struct UnusableOffers {
    until: Timestamp,
    pause: SignedDuration,
}

impl CreationBackoff {
    /// A floating IP is gone. Unless it is one that was declined, its address may be offered next.
    pub(super) fn left(&mut self, id: &FloatingIpId) {
        if !self.declined.remove(id) {
            self.barren.clear();
        }
    }
}

impl Ledger {
    /// Neutron refused a pool: it creates nothing until then.
    pub fn block(&mut self, pool: PoolId, block: CreationBlock) {
        // It offers nothing at all now, so it does not offer what may not be given.
        if self.unwanted(&pool) == 0 {
            self.offers.barren.remove(&pool);
        }
        self.offers.blocks.insert(pool, block);
    }

    /// Neutron gave a pool an address that it may give.
    pub fn unblock(&mut self, pool: &PoolId) {
        self.offers.blocks.remove(pool);
        self.offers.barren.remove(pool);
        self.offers.empty_subnets.clear();
    }

    /// Something was given back: a pool that was refused may ask again at once, with one claim for all.
    pub fn retry_now(&mut self, pool: &PoolId) {
        if let Some(block) = self.offers.blocks.get_mut(pool) {
            block.until = Timestamp::UNIX_EPOCH;
        }
        self.offers.empty_subnets.clear();
    }

    /// The pool's spec changed: what it may give is another matter now.
    pub fn start_anew(&mut self, pool: &PoolId) {
        self.offers.barren.remove(pool);
        self.retry_now(pool);
    }

    /// Neutron gave a pool an address that it may not give, which is therefore deleted again.
    pub fn decline(&mut self, id: &FloatingIpId, hold: Hold) {
        self.offers.declined.insert(id.clone());
        self.hold(id, Some(hold));
    }

    /// Neutron offered a pool only what it may not give: nothing is asked for a while, longer each time.
    pub fn found_barren(&mut self, pool: &PoolId, now: Timestamp) {
        let before = self.offers.barren.get(pool);
        // Those that asked side by side found it out together.
        if before.is_some_and(|barren| now < barren.until) {
            return;
        }
        let pause = before.map_or(FIRST_PAUSE, |barren| LONGEST_PAUSE.min(barren.pause * 2));
        self.offers.barren.insert(pool.clone(), UnusableOffers { until: now + pause, pause });
    }

    /// Whether Neutron last offered the pool only what it may not give.
    pub fn is_barren(&self, pool: &PoolId) -> bool {
        self.offers.barren.contains_key(pool) || self.unwanted(pool) > 0
    }

    /// How many of those that the pool may not give are held while others are asked for.
    pub fn unwanted(&self, pool: &PoolId) -> usize {
        self.of_pool(pool).filter(|entry| entry.hold == Some(Hold::Unwanted)).count()
    }

    /// What Neutron last refused a pool with, if it has created nothing since.
    pub fn refused(&self, pool: &PoolId) -> Option<&Refusal> {
        self.offers.blocks.get(pool).map(|block| &block.refusal)
    }

    /// Whether a limit is what keeps the pool from having more. What is being created counts, except where Neutron refused
    /// the last one: that one is asked for to see whether it still does, and the limit is not what is told meanwhile.
    pub fn is_full(&self, pool: &PoolId, limit: usize) -> bool {
        let probes = if self.refused(pool).is_some() { self.creating(pool) } else { 0 };
        self.counted(pool) >= limit.saturating_add(probes)
    }

    /// Whether a pool may ask Neutron for an address.
    pub fn may_create(&self, pool: &PoolId, now: Timestamp) -> bool {
        self.offers.blocks.get(pool).is_none_or(|block| now >= block.until)
            && self.offers.barren.get(pool).is_none_or(|barren| now >= barren.until)
    }

    /// Whether a pool that was refused, or offered what it may not give, may ask again: one does, for all that wait.
    pub fn is_probing(&self, pool: &PoolId, now: Timestamp) -> bool {
        let is_known = self.offers.blocks.contains_key(pool) || self.offers.barren.contains_key(pool);
        is_known && self.may_create(pool, now)
    }

    /// A subnet had no address left; another is tried until then.
    pub fn subnet_is_empty(&mut self, subnet: SubnetId, until: Timestamp) {
        self.offers.empty_subnets.insert(subnet, until);
    }

    /// Whether a subnet is worth asking.
    pub fn may_ask(&self, subnet: &SubnetId, now: Timestamp) -> bool {
        self.offers.empty_subnets.get(subnet).is_none_or(|until| now >= *until)
    }
}
