//! The end of a pool: no new claim is served, the bound ones are waited for, and nothing keeps our marks.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kube::runtime::events::EventType;
use kube::{Resource, ResourceExt};

use super::resolve::{self, PoolFailure};
use super::{AUDIT, Error, PROBLEM_RETRY, adopt, report, rivals, secret};
use crate::allocation::PoolId;
use crate::allocation::ledger::Hold;
use crate::allocation::sweep::wind_up;
use crate::api::conditions::event_reasons::{ABANDONED, ATTACHED_FLOATING_IP_LEFT};
use crate::api::conditions::pool_reasons as reasons;
use crate::api::names::{ABANDON_ANNOTATION, CLAIM_FINALIZER, POOL_FINALIZER};
use crate::api::{IpAddress, IpAddressClaim, OpenStackFloatingIPPool};
use crate::controllers::context::{Context, name_of};
use crate::controllers::queue::Action;
use crate::controllers::registry::{Problem, ResolvedPool};
use crate::controllers::{act, patch};
use crate::object_name::ObjectName;
use crate::openstack;

/// More rounds than the end needs; what is left is done at the next try.
const ROUNDS: usize = 8;

/// Ends a pool that is being deleted.
pub(super) async fn run(pool: &Arc<OpenStackFloatingIPPool>, ctx: &Arc<Context>) -> Result<Action, Error> {
    let name = name_of(pool.as_ref());
    if !patch::has_finalizer(&pool.metadata, POOL_FINALIZER) {
        return Ok(Action::await_change());
    }
    let is_abandoned = pool.annotations().get(ABANDON_ANNOTATION).is_some_and(|value| value == "true");
    // A copied id's marks are the elder pool's.
    let id = adopt::id(pool, ctx).filter(|id| rivals::elder(pool, id, ctx).is_none());
    if is_abandoned {
        abandon(pool, ctx).await;
        super::wake_claims(ctx, &name, |claim| super::is_unserved(ctx, claim));
    }
    let served = match &id {
        Some(id) if !is_abandoned => match served(pool, id, ctx).await {
            Ok(served) => Some(served),
            Err(failure) => return blocked(pool, ctx, &failure).await,
        },
        _ => None,
    };
    // Until it is gone its id must be known, also to a process that has seen nothing of it.
    let pool = match (&id, &served) {
        (Some(id), Some(served)) => &adopt::run(pool, id, &served.neutron.scope().project, ctx).await?,
        _ => pool,
    };
    if is_held(&name, ctx) {
        // What it waits for may be OpenStack, which its claims need to let go: then that is what the user is told.
        if let Some(served) = &served {
            let since = ctx.clock.now() - jiff::SignedDuration::try_from(AUDIT).unwrap_or_default();
            if let Err(error) = served.project.look_since(served.neutron.as_ref(), &ctx.clock, since).await {
                return blocked(pool, ctx, &PoolFailure::Look(error)).await;
            }
            super::wake_wronged(ctx, served);
        }
        let message =
            "the pool is being deleted; it waits until no claim holds an address of it: delete the machines that do"
                .to_owned();
        let problem = Problem { reason: reasons::DELETING, message };
        ctx.registry.fail(&name, problem.clone());
        // Those that were about to be served when its deletion began, too: nobody told them anything yet.
        super::wake_claims(ctx, &name, |claim| super::is_unserved(ctx, claim));
        // IPAddresses whose claim was taken away by force.
        ctx.wake_sweeper(&name);
        report::ending(pool, ctx, problem, None).await?;
        // The last claim that goes wakes it.
        return Ok(Action::requeue(ctx.clock.jitter(Duration::from_secs(30), 0.5)));
    }
    if let Some(served) = served {
        match clean_up(&served, ctx, pool).await {
            Ok(true) => {}
            Ok(false) => return Ok(Action::requeue(Duration::from_secs(5))),
            Err(error) => return blocked(pool, ctx, &PoolFailure::Look(error)).await,
        }
    }
    secret::let_go_all(pool, ctx).await?;
    if let Some(change) = patch::without_finalizer(&pool.metadata, POOL_FINALIZER) {
        match patch::merge(&ctx.pools(&name.namespace), &name.name, change).await {
            Ok(_) => tracing::info!(pool.name = %name, "pool ended"),
            Err(error) if patch::is_not_found(&error) => {}
            Err(error) => return Err(Error::Kubernetes("take the finalizer off the pool", error)),
        }
    }
    Ok(Action::await_change())
}

/// The session that the pool has, or one that is good enough for its end.
async fn served(
    pool: &OpenStackFloatingIPPool,
    id: &PoolId,
    ctx: &Arc<Context>,
) -> Result<Arc<ResolvedPool>, PoolFailure> {
    let name = name_of(pool);
    let known = ctx.registry.get(&name).unwrap_or_default();
    if let Some(served) = known.served.filter(|_| !known.is_stale) {
        return Ok(served);
    }
    let served = resolve::for_cleanup(pool, id, ctx).await?;
    ctx.registry.serve(served.clone(), pool);
    // Claims that are going may have waited for a session.
    super::wake_claims(ctx, &name, |claim| super::is_unserved(ctx, claim));
    Ok(served)
}

/// Whether any claim or IPAddress of the pool still counts on it.
fn is_held(pool: &ObjectName, ctx: &Context) -> bool {
    let holds = |claim: &IpAddressClaim| {
        claim.is_of(&pool.namespace, &pool.name) && patch::has_finalizer(&claim.metadata, CLAIM_FINALIZER)
    };
    // Published a moment ago, of whatever pool: the watch brings it, and then it is known.
    ctx.writes().is_any_coming(&pool.namespace)
        || ctx.stores.claims.find(holds).is_some()
        || ctx.stores.addresses.find(|address| is_of(pool, address)).is_some()
}

fn is_of(pool: &ObjectName, address: &IpAddress) -> bool {
    address.is_of(&pool.namespace, &pool.name)
        && patch::has_finalizer(&address.metadata, crate::api::names::ADDRESS_FINALIZER)
}

/// Takes everything of ours off Neutron: true when nothing is left, and no claim holds anything after all.
async fn clean_up(
    served: &Arc<ResolvedPool>,
    ctx: &Arc<Context>,
    pool: &OpenStackFloatingIPPool,
) -> Result<bool, openstack::Error> {
    for _ in 0..ROUNDS {
        let after = served.project.ledger().next_step();
        served.project.look(served.neutron.as_ref(), &ctx.clock, after).await?;
        // What was begun before the deletion may have come to its end meanwhile.
        if is_held(&name_of(pool), ctx) {
            return Ok(false);
        }
        let (end, attached) = {
            let mut ledger = served.project.ledger();
            let end = ctx.published(|published| wind_up(&ledger, published, &served.policy));
            end.chores.iter().for_each(|chore| ledger.hold(chore.id(), Some(Hold::GivingBack)));
            let attached = end.attached.iter().filter_map(|id| ledger.get(id));
            let attached: Vec<String> = attached.map(|entry| entry.fip.address.to_string()).collect();
            (end, attached)
        };
        if end.chores.is_empty() && !end.look_again {
            return Ok(true);
        }
        if !attached.is_empty() {
            let attached = attached.join(", ");
            tracing::warn!(pool.name = %served.name, "pool ends, floating IPs still attached lose its marks: {attached}");
            let note =
                format!("left in OpenStack without marks, since something is attached; delete them there: {attached}");
            ctx.events
                .record(pool.object_ref(&()), EventType::Warning, ATTACHED_FLOATING_IP_LEFT, "Delete", note)
                .await;
        }
        let chores = end.chores.iter().map(|chore| act::chore(served, &ctx.clock, chore));
        join_all(chores).await.into_iter().collect::<Result<Vec<()>, _>>()?;
    }
    Ok(false)
}

/// OpenStack cannot be asked: the user is told what is in the way, and of the way out.
async fn blocked(
    pool: &Arc<OpenStackFloatingIPPool>,
    ctx: &Arc<Context>,
    failure: &PoolFailure,
) -> Result<Action, Error> {
    let message = format!(
        "the pool is being deleted, but OpenStack cannot be cleaned up: {}. Mend that, or annotate the pool with {ABANDON_ANNOTATION}=true to leave its floating IPs behind",
        failure.problem().message
    );
    let problem = Problem { reason: reasons::DELETING, message };
    ctx.registry.fail(&name_of(pool.as_ref()), problem.clone());
    report::ending(pool, ctx, problem, Some(failure)).await?;
    Ok(Action::requeue(ctx.clock.jitter(failure.retry_after().unwrap_or(PROBLEM_RETRY), 0.25)))
}

/// The way out: what is left behind is written down, in the log and in an event.
async fn abandon(pool: &OpenStackFloatingIPPool, ctx: &Arc<Context>) {
    let name = name_of(pool);
    let mut left: Vec<String> = match ctx.registry.get(&name).and_then(|known| known.served) {
        Some(served) => {
            let ledger = served.project.ledger();
            ledger.of_pool(&served.policy.id).map(|entry| entry.fip.address.to_string()).collect()
        }
        None => {
            let addresses = ctx.stores.addresses.state_filter(|address| is_of(&name, address));
            addresses.iter().map(|address| address.spec.address.clone()).collect()
        }
    };
    left.sort();
    let left = if left.is_empty() { "none that is known".to_owned() } else { left.join(", ") };
    tracing::warn!(pool.name = %name, "abandoned, floating IPs left behind in OpenStack: {left}");
    let note = format!("left behind in OpenStack, as the abandon annotation says; delete them there: {left}");
    ctx.events.record(pool.object_ref(&()), EventType::Warning, ABANDONED, "Delete", note).await;
}
