//! Spares: floating IPs that a pool has ready, so that a claim need not wait for Neutron.

use super::Sweeper;
use crate::allocation::mark::CreationMark;
use crate::allocation::supply::{CreationPlace, Supply, is_usable_spare};
use crate::controllers::memory::ResolvedPool;
use crate::controllers::neutron_writer::NeutronWriter;
use crate::floating_ip::{FloatingIp, FloatingIpId, SubnetId};
use crate::openstack::{self, ErrorKind};

impl Sweeper {
    /// Creates up to this number. If that shows that Neutron has no more, the pool reports it soon: while no claim asks for an
    /// address, nothing else makes it report.
    pub(super) async fn create_spares(&self, pool: &ResolvedPool, count: usize) -> Vec<Result<bool, openstack::Error>> {
        let mut spares = (0..count).map(|_| self.create_spare(pool));
        let Some(first) = spares.next() else { return Vec::new() };
        let was_exhausted = self.is_exhausted(pool);
        // The first one shows whether Neutron refuses.
        let mut results = vec![first.await];
        if matches!(results[..], [Ok(true)]) {
            results.extend(futures::future::join_all(spares).await);
        }
        if self.is_exhausted(pool) != was_exhausted {
            self.wake.report_soon(&pool.name);
        }
        results
    }

    fn is_exhausted(&self, pool: &ResolvedPool) -> bool {
        let (ledger, now) = (pool.project.ledger(), self.clock.now());
        self.memory.with_situation(&ledger, pool, now, |situation| Supply::new(*situation).exhausted().is_some())
    }

    /// Creates one, unless Neutron refuses. An unwanted address is held while another is requested, and then deleted.
    async fn create_spare(&self, pool: &ResolvedPool) -> Result<bool, openstack::Error> {
        let mut unwanted = Vec::new();
        let result = self.create_usable(pool, &mut unwanted).await;
        self.discard(pool, unwanted).await?;
        result
    }

    async fn create_usable(
        &self,
        pool: &ResolvedPool,
        unwanted: &mut Vec<FloatingIpId>,
    ) -> Result<bool, openstack::Error> {
        loop {
            let Some((fip, subnet)) = self.create(pool, !unwanted.is_empty()).await? else {
                let may_get_another = pool.project.ledger().may_get_another_offer(&pool.policy, self.clock.now());
                if unwanted.is_empty() || !may_get_another {
                    return Ok(false);
                }
                // As for a claim: they may fill the limit, and Neutron may offer another one next.
                self.discard(pool, std::mem::take(unwanted)).await?;
                continue;
            };
            let (mut ledger, now) = (pool.project.ledger(), self.clock.now());
            if self.memory.with_situation(&ledger, pool, now, |situation| is_usable_spare(situation, &fip)) {
                ledger.unblock_creation(&pool.policy.id, subnet.as_ref());
                return Ok(true);
            }
            ledger.hold_unwanted(&pool.policy, &fip.id, subnet.as_ref(), now);
            unwanted.push(fip.id);
        }
    }

    async fn discard(&self, pool: &ResolvedPool, unwanted: Vec<FloatingIpId>) -> Result<(), openstack::Error> {
        let may_go_on = || self.may_go_on(pool);
        if !may_go_on() {
            pool.project.ledger().leave_unwanted(&unwanted);
            return Ok(());
        }
        let writer = NeutronWriter::new(pool, &self.clock).only_while(&may_go_on);
        if writer.discard(unwanted, &self.memory).await? {
            self.wake.waiting_claims_of(&pool.name);
        }
        Ok(())
    }

    /// Creates a floating IP, and returns of which subnet; none if Neutron refuses, in each subnet, or none may be created now.
    async fn create(
        &self,
        pool: &ResolvedPool,
        has_unwanted: bool,
    ) -> Result<Option<(FloatingIp, Option<SubnetId>)>, openstack::Error> {
        let may_go_on = || self.may_go_on(pool);
        let writer = NeutronWriter::new(pool, &self.clock).only_while(&may_go_on);
        while let Some((place, mark)) = self.begin(pool, &writer) {
            match writer.create(&place, &mark, None).await {
                Ok(fip) => return Ok(Some((fip, place.subnet))),
                Err(error) if error.is_unsent() => return Ok(None),
                // What the quota leaves may be held as unwanted.
                Err(error) if has_unwanted && error.kind == ErrorKind::OverQuota => return Ok(None),
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
        if !self.may_go_on(pool) {
            return None;
        }
        let place = self
            .memory
            .with_situation(&ledger, pool, self.clock.now(), |situation| Supply::new(*situation).spare_place())?;
        let mark = writer.begin_creation(&mut ledger, &place, None);
        Some((place, mark))
    }
}
