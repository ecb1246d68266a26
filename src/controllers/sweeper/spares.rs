//! Spares: floating IPs that a pool has ready, so that a claim need not wait for Neutron.

use super::Sweeper;
use crate::allocation::mark::CreationMark;
use crate::allocation::supply::{CreationPlace, Supply, is_usable_spare};
use crate::controllers::memory::ResolvedPool;
use crate::controllers::neutron_writer::NeutronWriter;
use crate::floating_ip::{FloatingIp, FloatingIpId};
use crate::openstack;

impl Sweeper {
    /// Creates one, unless Neutron refuses. An unwanted address is held while another is requested, and then deleted.
    pub(super) async fn create_spare(&self, pool: &ResolvedPool) -> Result<bool, openstack::Error> {
        let mut unwanted = Vec::new();
        let result = self.create_usable(pool, &mut unwanted).await;
        if matches!(result, Ok(false)) && !unwanted.is_empty() {
            pool.project.ledger().note_unwanted_offers(&pool.policy.id, self.clock.now());
        }
        let discarded = NeutronWriter { pool, clock: &self.clock }.discard(unwanted, &self.memory).await;
        if discarded? {
            self.wake.waiting_claims_of(&pool.name);
        }
        result
    }

    async fn create_usable(
        &self,
        pool: &ResolvedPool,
        unwanted: &mut Vec<FloatingIpId>,
    ) -> Result<bool, openstack::Error> {
        while let Some(fip) = self.create(pool).await? {
            let mut ledger = pool.project.ledger();
            if self.memory.with_situation(&ledger, pool, self.clock.now(), |situation| is_usable_spare(situation, &fip))
            {
                ledger.unblock_creation(&pool.policy.id);
                return Ok(true);
            }
            ledger.hold_unwanted(&fip.id);
            unwanted.push(fip.id);
        }
        Ok(false)
    }

    /// Creates a floating IP; none if Neutron refuses, or none may be created now.
    async fn create(&self, pool: &ResolvedPool) -> Result<Option<FloatingIp>, openstack::Error> {
        let writer = NeutronWriter { pool, clock: &self.clock };
        let Some((place, mark)) = self.begin(pool, &writer) else { return Ok(None) };
        match writer.create(&place, &mark, None).await {
            Ok(fip) => Ok(Some(fip)),
            Err(error) => writer.record_refusal(place.subnet, error).map(|()| None),
        }
    }

    /// Checks again under the lock: since the sweep was planned, claims may have created floating IPs, and the pool may
    /// have been deleted.
    fn begin(&self, pool: &ResolvedPool, writer: &NeutronWriter<'_>) -> Option<(CreationPlace, CreationMark)> {
        let mut ledger = pool.project.ledger();
        if !self.stores.is_serving(&pool.name) {
            return None;
        }
        let place = self
            .memory
            .with_situation(&ledger, pool, self.clock.now(), |situation| Supply::new(*situation).spare_place())?;
        Some((place, writer.begin_creation(&mut ledger, None)))
    }
}
