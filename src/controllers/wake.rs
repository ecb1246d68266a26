//! Requests reconciles. Sending never waits, and the queues drop duplicates.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use super::memory::Memory;
use super::stores::{Stores, name_of};
use crate::api::IpAddressClaim;
use crate::api::conditions::pool_reasons::DUPLICATE_POOL_ID;
use crate::object_name::ObjectName;

/// Wakes objects. Cheap to clone.
#[derive(Clone)]
pub(super) struct Wake {
    pools: UnboundedSender<ObjectName>,
    sweeps: UnboundedSender<ObjectName>,
    claims: UnboundedSender<ObjectName>,
    leftovers: Arc<Notify>,
    memory: Arc<Memory>,
    stores: Stores,
}

/// The receiving ends of [`Wake`].
pub(super) struct WakeReceivers {
    pub(super) pools: UnboundedReceiver<ObjectName>,
    pub(super) sweeps: UnboundedReceiver<ObjectName>,
    pub(super) claims: UnboundedReceiver<ObjectName>,
}

pub(super) fn channels(memory: Arc<Memory>, stores: Stores) -> (Wake, WakeReceivers) {
    let (pools, woken_pools) = unbounded_channel();
    let (sweeps, woken_sweeps) = unbounded_channel();
    let (claims, woken_claims) = unbounded_channel();
    let leftovers = Arc::default();
    let wake = Wake { pools, sweeps, claims, leftovers, memory, stores };
    (wake, WakeReceivers { pools: woken_pools, sweeps: woken_sweeps, claims: woken_claims })
}

// Sending fails only when the receiver is gone: then the process ends.
impl Wake {
    pub(super) fn pool(&self, pool: &ObjectName) {
        let _ = self.pools.send(pool.clone());
    }

    /// The pools that wait because of another pool's id.
    pub(super) fn duplicate_pools(&self) {
        self.memory.pools.with_problem(DUPLICATE_POOL_ID).iter().for_each(|pool| self.pool(pool));
    }

    pub(super) fn sweeper(&self, pool: &ObjectName) {
        let _ = self.sweeps.send(pool.clone());
    }

    pub(super) fn claim(&self, claim: &ObjectName) {
        let _ = self.claims.send(claim.clone());
    }

    /// A claim or an IPAddress of the pool is gone, or is being deleted. An IPAddress that has no claim any more is released
    /// by the pool's sweeper or, where the pool is gone, by the
    /// [`LeftoverReleaser`](super::leftovers::LeftoverReleaser). A pool that is being deleted waits for the last of both.
    pub(super) fn after_removal(&self, pool: &ObjectName) {
        self.sweeper(pool);
        match self.stores.pool(pool) {
            None => self.release_leftovers(),
            Some(found) if found.metadata.deletion_timestamp.is_some() => self.pool(pool),
            Some(_) => self.report_soon(pool),
        }
    }

    /// A Secret or an IPAddress may carry the finalizer of a pool that is gone.
    pub(super) fn release_leftovers(&self) {
        self.leftovers.notify_one();
    }

    /// Resolves after [`Self::release_leftovers`] was called.
    pub(super) async fn leftovers_woken(&self) {
        self.leftovers.notified().await;
    }

    pub(super) fn claims_of(&self, pool: &ObjectName, is_match: impl Fn(&IpAddressClaim) -> bool) {
        let claims = self.stores.claims_of(pool);
        claims.iter().filter(|claim| is_match(claim)).for_each(|claim| self.claim(&name_of(claim.as_ref())));
    }

    /// Wakes the claims whose status may change with the pool: those that are being deleted, and those without an
    /// IPAddress that stays.
    pub(super) fn unserved_claims_of(&self, pool: &ObjectName) {
        self.claims_of(pool, |claim| {
            let address = claim.address_name();
            let address = address.and_then(|name| self.stores.address(&ObjectName::new(&pool.namespace, name)));
            let is_published = address.is_some_and(|address| address.metadata.deletion_timestamp.is_none());
            claim.metadata.deletion_timestamp.is_some() || !is_published
        });
    }

    /// Wakes the claims of a pool that have no address, the oldest of those in the queue first.
    pub(super) fn waiting_claims_of(&self, pool: &ObjectName) {
        self.memory.claims.waiting_in_order(pool).iter().for_each(|claim| self.claim(claim));
    }

    /// Wakes the claims that were skipped because of their pool.
    pub(super) fn skipped_claims_of(&self, pool: &ObjectName) {
        self.memory.claims.take_skipped(pool).iter().for_each(|claim| self.claim(claim));
    }

    /// The pool's figures have changed: it reports them soon, once for a whole burst.
    pub(super) fn report_soon(&self, pool: &ObjectName) {
        let has_list = self.stores.pool(pool).is_some_and(|pool| pool.spec.address_config_map.is_some());
        let requested = self.memory.pools.update(pool, |state| state.request_report(has_list, Instant::now()));
        let Some(delay) = requested.flatten() else { return };
        let (wake, pool) = (self.clone(), pool.clone());
        // Not joined: it ends on its own, and a report that is lost at shutdown is made at the next start.
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            wake.memory.pools.update(&pool, |state| state.end_report(Instant::now()));
            wake.pool(&pool);
        });
    }
}
