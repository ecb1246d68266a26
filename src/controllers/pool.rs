//! A pool: its identity, credentials, network, figures and conditions; and its end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;

use super::context::{Context, all, name_of};
use super::queue::Action;
use super::registry::ResolvedPool;
use crate::allocation::ClaimKey;
use crate::allocation::mark::Ownership;
use crate::allocation::published::Binding;
use crate::api::names::{DELETE_FOR_MOVE_ANNOTATION, PAUSED_ANNOTATION, WATCH_FILTER_LABEL};
use crate::api::{IpAddressClaim, OpenStackFloatingIPPool};
use crate::object_name::ObjectName;
use crate::openstack;
use crate::runtime::telemetry::chain;

pub(super) mod adopt;
mod end;
mod network;
mod report;
pub(super) mod resolve;
pub(super) mod rivals;
mod secret;

pub(super) use secret::finalizer as secret_finalizer;

/// How soon a pool with a problem is tried again: what is mended serves within 30 s.
const PROBLEM_RETRY: Duration = Duration::from_secs(8);
/// How soon a pool looks again while claims wait, or addresses of its list cannot be given.
const UNEASY: Duration = Duration::from_secs(12);
/// How often a pool that is well looks at its Secret and its rivals.
const EASY: Duration = Duration::from_secs(20);
/// How old what we know of Neutron may be while all is well: the audit. With the jitter, at most one listing a minute.
const AUDIT: Duration = Duration::from_secs(62);

/// Why a pool's reconcile ended early. It is tried again.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The API server did not do what was asked.
    #[error("{0}")]
    Kubernetes(&'static str, #[source] kube::Error),
}

/// Whether this controller is the one for the pool.
pub(super) fn is_watched(pool: &OpenStackFloatingIPPool, ctx: &Context) -> bool {
    let label = pool.labels().get(WATCH_FILTER_LABEL);
    ctx.options.watch_filter.as_ref().is_none_or(|filter| label == Some(filter))
}

/// Reconciles one pool.
pub(super) async fn reconcile(pool: Arc<OpenStackFloatingIPPool>, ctx: Arc<Context>) -> Result<Action, Error> {
    // The watch brings what we wrote last, and then wakes it: until then this is the past.
    if ctx.writes().is_past_pool(&name_of(pool.as_ref()), &pool) {
        return Ok(Action::requeue(UNEASY));
    }
    let is_marked = |key| pool.annotations().contains_key(key);
    if !is_watched(&pool, &ctx) {
        // Whoever serves it now tells of it.
        ctx.metrics.pool_gone(&report::labels(&pool));
        return Ok(Action::await_change());
    }
    if is_marked(DELETE_FOR_MOVE_ANNOTATION) {
        ctx.registry.pause(&name_of(pool.as_ref()));
        return Ok(Action::await_change());
    }
    if is_marked(PAUSED_ANNOTATION) {
        ctx.registry.pause(&name_of(pool.as_ref()));
        report::paused(&pool, &ctx).await?;
        return Ok(Action::await_change());
    }
    let result = match pool.metadata.deletion_timestamp {
        Some(_) => end::run(&pool, &ctx).await,
        None => serve(&pool, &ctx).await,
    };
    ctx.wake_left(&name_of(pool.as_ref()));
    result
}

/// Reconciles a pool that is to be served.
async fn serve(pool: &Arc<OpenStackFloatingIPPool>, ctx: &Arc<Context>) -> Result<Action, Error> {
    let id = adopt::intended(pool, ctx);
    let name = name_of(pool.as_ref());
    let before = ctx.registry.get(&name).unwrap_or_default();
    let checked = match rivals::find(pool, &id, ctx).await? {
        Some(problem) => Err(resolve::PoolFailure::Rival(problem)),
        None => resolve::run(pool, &id, ctx).await,
    };
    match checked {
        Ok(served) => {
            let pool = &adopt::run(pool, &id, &served.neutron.scope().project, ctx).await?;
            if let Err(failure) = secret::protect(pool, ctx).await {
                return fail(pool, ctx, failure).await;
            }
            let is_new = before.served.is_none() || before.was_paused;
            let has_changed = is_new
                || before.problem.is_some()
                || before.served.as_ref().is_none_or(|old| old.policy != served.policy)
                || before.spec_generation != pool.metadata.generation;
            let looked = look(&served, ctx, has_changed, before.problem.is_some()).await;
            if let Err(error) = looked {
                return fail(pool, ctx, resolve::PoolFailure::Look(error)).await;
            }
            ctx.registry.serve(served.clone(), pool);
            if has_changed {
                served.project.ledger().start_anew(&served.policy.id);
                wake_claims(ctx, &name, |claim| is_new || is_unserved(ctx, claim));
            }
            wake_wronged(ctx, &served);
            // After the claims were woken: they do not wait for a figure.
            served.project.quota.refresh(served.neutron.quota(), &ctx.clock).await;
            let is_easy = report::serving(pool, ctx, &served).await?;
            ctx.wake_sweeper(&name);
            if !is_easy {
                ctx.wake_waiting(&name);
            }
            secret::let_go_others(pool, ctx).await?;
            Ok(Action::requeue(if is_easy { ctx.clock.jitter(EASY, 0.2) } else { ctx.clock.jitter(UNEASY, 0.2) }))
        }
        Err(failure) => fail(pool, ctx, failure).await,
    }
}

/// A failed reconcile is tried again.
pub(super) fn on_error(pool: Arc<OpenStackFloatingIPPool>, error: &Error, ctx: Arc<Context>) -> Action {
    if let Error::Kubernetes(_, source) = error
        && super::patch::is_conflict(source)
    {
        return Action::requeue(Duration::from_millis(100));
    }
    ctx.metrics.reconcile_failed("pool");
    tracing::warn!(pool = %pool.name_any(), namespace = pool.namespace(), "failed to {}", chain(error));
    Action::requeue(ctx.clock.jitter(PROBLEM_RETRY, 0.25))
}

async fn fail(
    pool: &Arc<OpenStackFloatingIPPool>,
    ctx: &Arc<Context>,
    failure: resolve::PoolFailure,
) -> Result<Action, Error> {
    let name = name_of(pool.as_ref());
    let problem = failure.problem();
    let is_new = ctx.registry.get(&name).and_then(|known| known.problem).as_ref() != Some(&problem);
    ctx.registry.fail(&name, problem);
    if is_new {
        ctx.wake_waiting(&name);
        wake_claims(ctx, &name, |claim| is_unserved(ctx, claim));
    }
    report::failing(pool, ctx, &failure).await?;
    let asked = failure.retry_after().unwrap_or(PROBLEM_RETRY);
    Ok(Action::requeue(ctx.clock.jitter(asked, 0.25)))
}

/// Makes sure that the ledger is young enough: a minute when all is well, seconds when somebody waits for a change. A
/// pool that is new or has changed may be about floating IPs that were made, or tagged, just before it.
async fn look(
    served: &ResolvedPool,
    ctx: &Arc<Context>,
    has_changed: bool,
    had_problem: bool,
) -> Result<(), openstack::Error> {
    if has_changed && !had_problem {
        let after = served.project.ledger().next_step();
        return served.project.look(served.neutron.as_ref(), &ctx.clock, after).await;
    }
    let waits = ctx.waiting().get(&served.name).is_some_and(|waiting| !waiting.is_empty());
    let has_failed = {
        let ledger = served.project.ledger();
        ctx.published(|published| crate::allocation::count::count(&ledger, published, &served.policy, ctx.clock.now()))
            .failed
            > 0
    };
    let age = if waits || has_failed || had_problem { UNEASY.mul_f64(0.8) } else { AUDIT };
    let since = ctx.clock.now() - jiff::SignedDuration::try_from(age).unwrap_or_default();
    served.project.look_since(served.neutron.as_ref(), &ctx.clock, since).await
}

/// Wakes those of the pool's claims.
pub(super) fn wake_claims(ctx: &Context, pool: &ObjectName, which: impl Fn(&IpAddressClaim) -> bool) {
    let is_meant = |claim: &IpAddressClaim| claim.is_of(&pool.namespace, &pool.name) && which(claim);
    for claim in all(&ctx.stores.claims, is_meant) {
        ctx.wake_claim(&name_of(claim.as_ref()));
    }
}

/// Whether the claim may be served differently when its pool has changed: it has no address, or somebody deletes or
/// deleted the IPAddress that it has and nobody could bring it back meanwhile.
fn is_unserved(ctx: &Context, claim: &IpAddressClaim) -> bool {
    let address = claim.status.as_ref().and_then(|status| status.address_ref.as_ref());
    let is_published = address.is_some_and(|address| {
        let namespace = claim.namespace().unwrap_or_default();
        let address = ctx.address(&ObjectName::new(namespace, &address.name));
        address.is_some_and(|address| address.metadata.deletion_timestamp.is_none())
    });
    claim.metadata.deletion_timestamp.is_some() || !is_published
}

/// Wakes the claims whose address does not carry their mark any more: it is put back, or they are told what is wrong.
fn wake_wronged(ctx: &Context, served: &ResolvedPool) {
    let id = &served.policy.id;
    let wronged: BTreeSet<ClaimKey> = {
        let ledger = served.project.ledger();
        let is_right = |ours: &Binding| {
            let entry = ledger.get(&ours.fip);
            entry.is_some_and(|entry| entry.marks.ownership(id) == Ownership::Held(ours.claim.clone()))
        };
        ctx.published(|published| {
            let wronged = published.of_pool(id).filter(|ours| !is_right(ours));
            wronged.map(|ours| ours.claim.clone()).collect()
        })
    };
    if !wronged.is_empty() {
        let key = |claim: &IpAddressClaim| ClaimKey::of(&served.name.namespace, &claim.name_any());
        wake_claims(ctx, &served.name, |claim| wronged.contains(&key(claim)));
    }
}
