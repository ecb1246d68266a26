//! A pool's metrics: what its status says, and what is too fleeting for a status.

use std::collections::BTreeMap;

use kube::ResourceExt;

use crate::allocation::count::PoolUsage;
use crate::api::conditions::{CREDENTIALS_VALID, EXHAUSTED, PAUSED, READY};
use crate::api::{OpenStackFloatingIPPool, OpenStackFloatingIPPoolStatus};
use crate::controllers::context::{Context, name_of};
use crate::controllers::registry::ResolvedPool;
use crate::metrics::{Counted, PoolFigures, PoolLabels};

/// How a pool is called in metrics.
pub(in crate::controllers::pool) fn labels(pool: &OpenStackFloatingIPPool) -> PoolLabels {
    PoolLabels { namespace: pool.namespace().unwrap_or_default(), name: pool.name_any() }
}

/// Shows what the status says: its figures are those of the last count, or of the one that is given.
pub(super) fn measure(
    pool: &OpenStackFloatingIPPool,
    ctx: &Context,
    status: &OpenStackFloatingIPPoolStatus,
    problem: Option<&'static str>,
    counted: Option<(&ResolvedPool, &PoolUsage)>,
) {
    let (name, labels) = (name_of(pool), labels(pool));
    if ctx.pool(&name).is_none() {
        // It went meanwhile: its series must not come back.
        return;
    }
    let addresses = status.addresses.unwrap_or_default();
    let is = |type_| condition(status, type_) == Some("True");
    let figures = PoolFigures {
        size: addresses.total.into(),
        allocated: addresses.allocated.into(),
        free: addresses.free.into(),
        cooling: addresses.cooling.into(),
        failed: addresses.failed.into(),
        counted: counted.map(|(_, count)| Counted {
            capacity: count.capacity.map(|capacity| capacity as u64),
            out_of_range: count.out_of_range as u64,
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
        orphans: ctx.found().get(&name).map_or(0, |found| found.orphans.len() as u64),
        ..claims(pool, ctx)
    };
    ctx.metrics.pool_observed(&labels, figures);
    if let Some((served, _)) = counted {
        if let Some(at) = served.project.ledger().listed_at() {
            ctx.metrics.pool_listed(&labels, at);
        }
        ctx.metrics.pool_quota(&labels, served.neutron.scope(), served.project.quota.last());
    }
}

fn condition<'a>(status: &'a OpenStackFloatingIPPoolStatus, type_: &str) -> Option<&'a str> {
    let found = status.conditions.iter().find(|condition| condition.type_ == type_)?;
    Some(found.status.as_str())
}

/// Those of its claims that wait.
fn claims(pool: &OpenStackFloatingIPPool, ctx: &Context) -> PoolFigures {
    let name = name_of(pool);
    let all = ctx.waiting();
    let claims = || all.get(&name).into_iter().flat_map(BTreeMap::values);
    let mut waiting = BTreeMap::new();
    claims().for_each(|claim| *waiting.entry(claim.reason).or_default() += 1);
    PoolFigures { waiting, oldest_waiting: claims().map(|claim| claim.since).min(), ..PoolFigures::default() }
}
