//! Updates a pool's metrics: the figures of its status, and those that change too often for a status.

use std::collections::BTreeMap;

use kube::ResourceExt;

use super::PoolController;
use crate::allocation::usage::PoolUsage;
use crate::api::conditions::{
    ADDRESS_CONFIG_MAP_CURRENT, ADDRESSES_MAINTAINED, CREDENTIALS_VALID, EXHAUSTED, PAUSED, READY,
};
use crate::api::{OpenStackFloatingIPPool, OpenStackFloatingIPPoolStatus};
use crate::controllers::memory::ResolvedPool;
use crate::controllers::stores::name_of;
use crate::metrics::{PoolCounts, PoolLabels, UsageDetails};

pub(super) fn labels(pool: &OpenStackFloatingIPPool) -> PoolLabels {
    PoolLabels { namespace: pool.namespace().unwrap_or_default(), name: pool.name_any() }
}

impl PoolController {
    pub(super) fn measure(
        &self,
        pool: &OpenStackFloatingIPPool,
        status: &OpenStackFloatingIPPoolStatus,
        problem: Option<&'static str>,
        counted: Option<(&ResolvedPool, &PoolUsage)>,
    ) {
        if self.stores.pool(&name_of(pool)).is_none() {
            // It was deleted meanwhile: its series must not come back.
            return;
        }
        let labels = labels(pool);
        let figures = self.figures(pool, status, problem, counted.map(|(_, usage)| usage));
        self.metrics.pool_observed(&labels, figures);
        if let Some((resolved, _)) = counted {
            if let Some(at) = resolved.project.ledger().listing_ended(resolved.policy.viewer) {
                self.metrics.pool_listed(&labels, at);
            }
            self.metrics.pool_quota(&labels, resolved.neutron.scope(), resolved.project.quota.last());
        }
    }

    /// The pool is being deleted, and waits until that is done.
    pub(super) fn measure_deletion(&self, pool: &OpenStackFloatingIPPool) {
        if let Some(since) = &pool.metadata.deletion_timestamp
            && self.stores.pool(&name_of(pool)).is_some()
        {
            self.metrics.pool_deleted(&labels(pool), since.0);
        }
    }

    fn figures(
        &self,
        pool: &OpenStackFloatingIPPool,
        status: &OpenStackFloatingIPPoolStatus,
        problem: Option<&'static str>,
        counted: Option<&PoolUsage>,
    ) -> PoolCounts {
        let name = name_of(pool);
        let addresses = status.addresses.unwrap_or_default();
        let is = |type_| condition(status, type_) == Some("True");
        // A claim that has lost its address does not wait for one: its machine exists.
        let (lost, waiting): (Vec<_>, Vec<_>) =
            self.memory.claims.waiting(&name).into_iter().map(|(_, claim)| claim).partition(|it| it.lost.is_some());
        PoolCounts {
            size: addresses.total.into(),
            allocated: addresses.allocated.into(),
            free: addresses.free.into(),
            cooling: addresses.cooling.into(),
            failed: addresses.failed.into(),
            counted: counted.map(|usage| UsageDetails {
                capacity: usage.capacity.map(figure),
                outside_spec: figure(usage.outside_spec),
            }),
            limit: pool.spec.max_ips.map(u64::from),
            ready: is(READY),
            problem,
            exhausted: is(EXHAUSTED),
            paused: is(PAUSED),
            credentials_valid: match condition(status, CREDENTIALS_VALID) {
                Some("True") => Some(true),
                Some("False") => Some(false),
                _ => None,
            },
            addresses_maintained: condition(status, ADDRESSES_MAINTAINED).map(|status| status == "True"),
            address_config_map_current: condition(status, ADDRESS_CONFIG_MAP_CURRENT).map(|status| status == "True"),
            oldest_waiting: waiting.iter().map(|claim| claim.since).min(),
            waiting: count_by(waiting.iter().map(|claim| claim.reason)),
            lost: count_by(lost.iter().filter_map(|claim| claim.lost)),
            failing_releases: figure(self.memory.claims.count_failing_releases(&name)),
            orphans: figure(self.memory.pools.get(&name).orphans.len()),
        }
    }
}

#[expect(clippy::arithmetic_side_effects, reason = "it counts what is in memory")]
fn count_by(reasons: impl Iterator<Item = &'static str>) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    reasons.for_each(|reason| *counts.entry(reason).or_default() += 1);
    counts
}

fn figure(count: usize) -> u64 {
    count.try_into().unwrap_or(u64::MAX)
}

fn condition<'a>(status: &'a OpenStackFloatingIPPoolStatus, type_: &str) -> Option<&'a str> {
    let found = status.conditions.iter().find(|condition| condition.type_ == type_)?;
    Some(found.status.as_str())
}
