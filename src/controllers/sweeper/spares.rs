//! Spares: floating IPs that a pool has ready, so that a claim need not wait for Neutron.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::Sweeper;
use crate::allocation::mark::CreationMark;
use crate::allocation::supply::{CreationPlace, Supply, UNWANTED_LIMIT, is_usable_spare};
use crate::controllers::memory::ResolvedPool;
use crate::controllers::neutron_writer::NeutronWriter;
use crate::floating_ip::{FloatingIp, FloatingIpId, SubnetId};
use crate::openstack;

impl Sweeper {
    /// Creates one, unless Neutron refuses. An unwanted address is held while another is requested, and then deleted.
    /// `unwanted_count` is of all that are created at the same time.
    pub(super) async fn create_spare(
        &self,
        pool: &ResolvedPool,
        unwanted_count: &AtomicUsize,
    ) -> Result<bool, openstack::Error> {
        let mut unwanted = Vec::new();
        let result = self.create_usable(pool, &mut unwanted, unwanted_count).await;
        if !matches!(result, Ok(true)) && unwanted_count.load(Ordering::Relaxed) > 0 {
            pool.project.ledger().note_unwanted_offers(&pool.policy.id, self.clock.now());
        }
        self.discard(pool, unwanted).await?;
        result
    }

    async fn create_usable(
        &self,
        pool: &ResolvedPool,
        unwanted: &mut Vec<FloatingIpId>,
        unwanted_count: &AtomicUsize,
    ) -> Result<bool, openstack::Error> {
        let writer = NeutronWriter { pool, clock: &self.clock };
        let mut unwanted_subnet = None;
        loop {
            let Some((fip, subnet)) = self.create(pool).await? else {
                let is_limit_reached = || unwanted_count.load(Ordering::Relaxed) >= UNWANTED_LIMIT;
                if unwanted.is_empty() || is_limit_reached() && !writer.pass_over(unwanted_subnet.as_ref()) {
                    return Ok(false);
                }
                if is_limit_reached() {
                    unwanted_count.store(0, Ordering::Relaxed);
                }
                // As for a claim: they may fill the limit, and Neutron may offer another one next.
                self.discard(pool, std::mem::take(unwanted)).await?;
                continue;
            };
            let mut ledger = pool.project.ledger();
            if self.memory.with_situation(&ledger, pool, self.clock.now(), |situation| is_usable_spare(situation, &fip))
            {
                ledger.unblock_creation(&pool.policy.id);
                return Ok(true);
            }
            ledger.hold_unwanted(&fip.id);
            drop(ledger);
            unwanted_subnet = subnet;
            unwanted.push(fip.id);
            unwanted_count.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn discard(&self, pool: &ResolvedPool, unwanted: Vec<FloatingIpId>) -> Result<(), openstack::Error> {
        if (NeutronWriter { pool, clock: &self.clock }).discard(unwanted, &self.memory).await? {
            self.wake.waiting_claims_of(&pool.name);
        }
        Ok(())
    }

    /// Creates a floating IP, and returns of which subnet; none if Neutron refuses, in each subnet, or none may be created now.
    async fn create(&self, pool: &ResolvedPool) -> Result<Option<(FloatingIp, Option<SubnetId>)>, openstack::Error> {
        let writer = NeutronWriter { pool, clock: &self.clock };
        while let Some((place, mark)) = self.begin(pool, &writer) {
            match writer.create(&place, &mark, None).await {
                Ok(fip) => return Ok(Some((fip, place.subnet))),
                // What is recorded forbids the next one, or leaves another subnet.
                Err(error) => writer.record_refusal(place.subnet, error)?,
            }
        }
        Ok(None)
    }

    /// Checks again under the lock: since the sweep was planned, claims may have created floating IPs, and the pool may
    /// have been deleted.
    fn begin(&self, pool: &ResolvedPool, writer: &NeutronWriter<'_>) -> Option<(CreationPlace, CreationMark)> {
        let mut ledger = pool.project.ledger();
        let known = self.memory.pools.get(&pool.name).resolved;
        if !self.stores.is_serving(&pool.name) || known.is_none_or(|known| known.policy.id != pool.policy.id) {
            return None;
        }
        let place = self
            .memory
            .with_situation(&ledger, pool, self.clock.now(), |situation| Supply::new(*situation).spare_place())?;
        Some((place, writer.begin_creation(&mut ledger, None)))
    }
}
