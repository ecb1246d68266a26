//! What a pool tells: conditions, figures, failed addresses, metrics and events; written only when they change.

use std::sync::Arc;

use kube::Resource;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::EventType;
use serde_json::{Value, json};

use super::Error;
use super::resolve::PoolFailure;
use crate::allocation::count::{PoolUsage, count};
use crate::api::conditions::{
    CREDENTIALS_VALID, DesiredCondition, EXHAUSTED, NETWORK_RESOLVED, ORPHANS_DETECTED, PAUSED, READY,
    pool_reasons as reasons, set,
};
use crate::api::pool::{AddressCounts, FailedAddress, ResolvedNetwork};
use crate::api::{OpenStackFloatingIPPool, OpenStackFloatingIPPoolStatus};
use crate::controllers::context::{Context, name_of};
use crate::controllers::patch;
use crate::controllers::registry::{Problem, ResolvedPool};
use crate::openstack::ErrorKind;

mod measure;

pub(super) use measure::labels;
use measure::measure;

const SERVES: &str = "claims can be served";
const SERVES_WITHOUT_TAGS: &str = "claims can be served, but by new floating IPs alone: this Neutron has no tags on floating IPs (extension standard-attr-tag), so that spec.preAllocatedFloatingIPs and spec.reuse have no effect";

fn wish(
    type_: &'static str,
    status: &'static str,
    reason: &'static str,
    message: impl Into<String>,
) -> DesiredCondition {
    DesiredCondition { type_, status, reason, message: message.into() }
}

/// Claims are served: true when nothing needs an early second look.
pub(super) async fn serving(
    pool: &OpenStackFloatingIPPool,
    ctx: &Arc<Context>,
    served: &ResolvedPool,
) -> Result<bool, Error> {
    let count = {
        let ledger = served.project.ledger();
        ctx.published(|published| count(&ledger, published, &served.policy, ctx.clock.now()))
    };
    let network = served.network.as_ref();
    let wishes = [
        wish(READY, "True", reasons::READY, if served.policy.has_tags { SERVES } else { SERVES_WITHOUT_TAGS }),
        wish(CREDENTIALS_VALID, "True", reasons::AUTHENTICATED, "OpenStack takes the credentials"),
        match network {
            Some(network) => {
                wish(NETWORK_RESOLVED, "True", reasons::NETWORK_FOUND, format!("{} ({})", network.name, network.id))
            }
            None => wish(NETWORK_RESOLVED, "True", reasons::LIST_ONLY, "the pool gives only the addresses of its list"),
        },
        match &count.exhausted {
            Some(refusal) => wish(EXHAUSTED, "True", reasons::EXHAUSTED, refusal.to_string()),
            None => wish(EXHAUSTED, "False", reasons::ADDRESSES_AVAILABLE, "there are addresses to give"),
        },
        wish(PAUSED, "False", reasons::NOT_PAUSED, "the pool is not paused"),
        orphans(pool, ctx),
    ];
    let mut status = pool.status.clone().unwrap_or_default();
    status.addresses = Some((&count).into());
    status.network = network.map(|network| ResolvedNetwork { id: network.id.to_string(), name: network.name.clone() });
    status.pool_id = Some(served.policy.id.to_string());
    status.failed = failed(&count);
    let status = wished(pool, ctx, status, &wishes);
    measure(pool, ctx, &status, None, Some((served, &count)));
    write(pool, ctx, status).await?;
    let waits = ctx.waiting().get(&served.name).is_some_and(|waiting| !waiting.is_empty());
    Ok(!waits && count.failed == 0)
}

/// Something is in the way.
pub(super) async fn failing(
    pool: &OpenStackFloatingIPPool,
    ctx: &Arc<Context>,
    failure: &PoolFailure,
) -> Result<(), Error> {
    let problem = failure.problem();
    let mut wishes = vec![wish(READY, "False", problem.reason, problem.message)];
    wishes.extend(causes(failure));
    wishes.push(wish(PAUSED, "False", reasons::NOT_PAUSED, "the pool is not paused"));
    say(pool, ctx, &wishes, Some(problem.reason)).await
}

/// The pool is being deleted.
pub(super) async fn ending(
    pool: &OpenStackFloatingIPPool,
    ctx: &Arc<Context>,
    problem: Problem,
    failure: Option<&PoolFailure>,
) -> Result<(), Error> {
    let mut wishes = vec![wish(READY, "False", problem.reason, problem.message)];
    wishes.extend(failure.into_iter().flat_map(causes));
    // What holds up its end is what somebody must mend.
    let in_the_way = failure.map_or(problem.reason, |failure| failure.problem().reason);
    say(pool, ctx, &wishes, Some(in_the_way)).await
}

/// Nothing is done.
pub(super) async fn paused(pool: &OpenStackFloatingIPPool, ctx: &Arc<Context>) -> Result<(), Error> {
    let wishes = [wish(
        PAUSED,
        "True",
        reasons::PAUSED,
        "nothing is done while the annotation cluster.x-k8s.io/paused is on the pool: take it off",
    )];
    say(pool, ctx, &wishes, None).await
}

/// These conditions, and the figures as they were last known.
async fn say(
    pool: &OpenStackFloatingIPPool,
    ctx: &Arc<Context>,
    wishes: &[DesiredCondition],
    problem: Option<&'static str>,
) -> Result<(), Error> {
    let status = wished(pool, ctx, pool.status.clone().unwrap_or_default(), wishes);
    measure(pool, ctx, &status, problem, None);
    write(pool, ctx, status).await
}

/// The conditions that explain why it is not ready.
fn causes(failure: &PoolFailure) -> Vec<DesiredCondition> {
    let problem = failure.problem();
    match failure {
        PoolFailure::Rival(_) => Vec::new(),
        PoolFailure::Credentials(_) => vec![
            wish(CREDENTIALS_VALID, "False", problem.reason, problem.message),
            wish(NETWORK_RESOLVED, "Unknown", reasons::UNKNOWN, "not known without credentials"),
        ],
        PoolFailure::Network(_) => vec![
            wish(CREDENTIALS_VALID, "True", reasons::AUTHENTICATED, "OpenStack takes the credentials"),
            wish(NETWORK_RESOLVED, "False", problem.reason, problem.message),
        ],
        PoolFailure::Session(error) | PoolFailure::Look(error) => {
            let is_refused =
                matches!(error.kind, ErrorKind::Unauthorized | ErrorKind::Credentials | ErrorKind::NoNetworkService);
            let status = if is_refused { "False" } else { "Unknown" };
            vec![wish(CREDENTIALS_VALID, status, problem.reason, problem.message)]
        }
    }
}

fn orphans(pool: &OpenStackFloatingIPPool, ctx: &Context) -> DesiredCondition {
    let found = ctx.found().get(&name_of(pool)).cloned().unwrap_or_default();
    if found.orphans.is_empty() {
        let message = "every address with the pool's mark belongs to a claim or is free";
        return wish(ORPHANS_DETECTED, "False", reasons::NO_ORPHANS, message);
    }
    let some: Vec<String> = found.orphans.iter().take(8).map(ToString::to_string).collect();
    let more = if found.orphans.len() > some.len() { " and others" } else { "" };
    let message = format!(
        "addresses that carry the pool's mark but belong to no claim: {}{more}; spec.orphans says what becomes of them",
        some.join(", ")
    );
    wish(ORPHANS_DETECTED, "True", reasons::ORPHANS_FOUND, message)
}

impl From<&PoolUsage> for AddressCounts {
    fn from(count: &PoolUsage) -> Self {
        let figure = |figure: usize| u32::try_from(figure).unwrap_or(u32::MAX);
        Self {
            total: figure(count.total),
            allocated: figure(count.allocated),
            free: figure(count.free),
            cooling: figure(count.cooling),
            failed: figure(count.failed),
        }
    }
}

fn failed(count: &PoolUsage) -> Vec<FailedAddress> {
    let failed = count.failures.iter();
    failed.map(|(address, why)| FailedAddress { address: address.to_string(), reason: why.to_string() }).collect()
}

/// The status with these conditions.
fn wished(
    pool: &OpenStackFloatingIPPool,
    ctx: &Context,
    mut status: OpenStackFloatingIPPoolStatus,
    wishes: &[DesiredCondition],
) -> OpenStackFloatingIPPoolStatus {
    let generation = pool.metadata.generation;
    status.observed_generation = generation;
    for wish in wishes {
        set(&mut status.conditions, wish, generation, ctx.clock.now());
    }
    status
}

async fn write(
    pool: &OpenStackFloatingIPPool,
    ctx: &Arc<Context>,
    status: OpenStackFloatingIPPoolStatus,
) -> Result<(), Error> {
    let name = name_of(pool);
    let before = pool.status.clone().unwrap_or_default();
    if status == before {
        return Ok(());
    }
    let ready = |status: &OpenStackFloatingIPPoolStatus| {
        let ready = status.conditions.iter().find(|condition| condition.type_ == READY);
        ready.map(|ready| (ready.status.clone(), ready.reason.clone(), ready.message.clone()))
    };
    let (was, is) = (ready(&before), ready(&status));
    let change = json!({"status": as_patch(&status)});
    match ctx.pools(&name.namespace).patch_status(&name.name, &PatchParams::default(), &Patch::Merge(change)).await {
        Ok(written) => ctx.writes().pool(&name, &written),
        Err(error) if patch::is_not_found(&error) => return Ok(()),
        Err(error) => return Err(Error::Kubernetes("write the pool's status", error)),
    }
    if was != is
        && let Some((status, reason, message)) = is
    {
        let type_ = if status == "True" { EventType::Normal } else { EventType::Warning };
        ctx.events.announce(pool.object_ref(&()), type_, &reason, "Reconcile", message);
    }
    Ok(())
}

/// A merge patch takes away only what it names as null.
fn as_patch(status: &OpenStackFloatingIPPoolStatus) -> Value {
    let mut value = serde_json::to_value(status).expect("a status is plain data");
    for field in ["addresses", "network", "poolID", "failed"] {
        if value.get(field).is_none() {
            value[field] = Value::Null;
        }
    }
    value
}
