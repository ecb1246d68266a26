//! The sweeper: what was released, orphans, spares. One sweep at a time for each pool, its calls side by side.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kube::{Resource, ResourceExt};

use super::context::{Context, Found, name_of};
use super::queue::Action;
use super::registry::ResolvedPool;
use super::{act, claim, patch};
use crate::allocation::ClaimKey;
use crate::allocation::ledger::Hold;
use crate::allocation::mark::Ownership;
use crate::allocation::sweep::{ClaimLiveness, ClusterView, SweepAction, SweepPlan, plan};
use crate::api::names::{ADDRESS_FINALIZER, DELETE_FOR_MOVE_ANNOTATION, PAUSED_ANNOTATION};
use crate::api::{Cluster, IpAddress, OpenStackFloatingIPPool};
use crate::metrics;
use crate::object_name::ObjectName;
use crate::openstack;
use crate::runtime::telemetry::chain;

mod spares;

/// How soon something that failed is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// How soon an address that was released and still has a port is looked at again: CAPO deletes the port before it lets
/// the claim go, so this is rare.
const PORT_RETRY: Duration = Duration::from_secs(15);
/// More rounds than a sweep needs; what is left is swept at once again.
const ROUNDS: usize = 16;

/// Why a sweep ended early. It is tried again.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// OpenStack did not do what was asked.
    #[error("ask OpenStack")]
    OpenStack(#[source] openstack::Error),
    /// The API server did not do what was asked.
    #[error("release an IPAddress whose claim is gone")]
    Address(#[source] claim::Error),
}

/// Sweeps one pool.
pub(super) async fn reconcile(pool: Arc<OpenStackFloatingIPPool>, ctx: Arc<Context>) -> Result<Action, Error> {
    let is_marked = |key| pool.annotations().contains_key(key);
    let name = name_of(pool.as_ref());
    let served = ctx.registry.get(&name).and_then(|known| known.served);
    let Some(served) = served.filter(|_| super::pool::is_watched(&pool, &ctx)) else {
        return Ok(Action::await_change());
    };
    if is_marked(PAUSED_ANNOTATION) || is_marked(DELETE_FOR_MOVE_ANNOTATION) {
        return Ok(Action::await_change());
    }
    if has_port_left(&served) {
        // Nobody but Neutron tells when the port is gone.
        let since = ctx.clock.now() - jiff::SignedDuration::try_from(PORT_RETRY / 2).unwrap_or_default();
        served.project.look_since(served.neutron.as_ref(), &ctx.clock, since).await.map_err(Error::OpenStack)?;
    }
    claim::release_strays(&ctx, &served).await.map_err(Error::Address)?;
    // The end of a pool has a plan of its own.
    if pool.meta().deletion_timestamp.is_some() || served.project.ledger().listed().is_none() {
        return Ok(Action::await_change());
    }
    let mut has_changed = false;
    let mut result = Ok(SweepPlan::default());
    for _ in 0..ROUNDS {
        if !ctx.is_at_work(&name) {
            break;
        }
        result = round(&ctx, &served).await;
        match &result {
            Ok(sweep) if sweep.chores.is_empty() && sweep.preallocate == 0 && !sweep.look_again => break,
            Ok(sweep) => has_changed |= !sweep.chores.is_empty() || sweep.preallocate > 0,
            Err(_) => break,
        }
    }
    if has_changed {
        served.project.ledger().retry_now(&served.policy.id);
        ctx.report_soon(&name);
    }
    let offered = result.as_ref().map_or(0, |sweep| sweep.offered);
    if has_changed || offered > 0 {
        ctx.wake_waiting(&name);
    }
    let sweep = result.map_err(Error::OpenStack)?;
    let rest = sweep.wake_at.map(|at| Duration::try_from(at.duration_since(ctx.clock.now())).unwrap_or_default());
    let rest = rest.map(|rest| rest + Duration::from_millis(50));
    let port = sweep.has_ports.then(|| ctx.clock.jitter(PORT_RETRY, 0.5));
    let again = sweep.look_again.then_some(RETRY);
    Ok([rest, port, again].into_iter().flatten().min().map_or_else(Action::await_change, Action::requeue))
}

/// Whether something is attached to an address that no claim holds.
fn has_port_left(served: &ResolvedPool) -> bool {
    let (ledger, id) = (served.project.ledger(), &served.policy.id);
    ledger.of_pool(id).any(|entry| {
        entry.fip.is_attached() && matches!(entry.marks.ownership(id), Ownership::Idle | Ownership::Released { .. })
    })
}

/// A failed sweep is tried again.
pub(super) fn on_error(pool: Arc<OpenStackFloatingIPPool>, error: &Error, ctx: Arc<Context>) -> Action {
    ctx.metrics.reconcile_failed("sweeper");
    tracing::warn!(pool = %pool.name_any(), namespace = pool.namespace(), "failed to {}", chain(error));
    let asked = match error {
        Error::OpenStack(error) => error.retry_after.unwrap_or(RETRY),
        Error::Address(_) => RETRY,
    };
    Action::requeue(ctx.clock.jitter(asked, 0.5))
}

/// Looks if it must, plans, and does what is planned.
async fn round(ctx: &Arc<Context>, served: &Arc<ResolvedPool>) -> Result<SweepPlan, openstack::Error> {
    let around = surroundings(ctx, &served.name);
    let sweep = take(ctx, served, &around);
    if sweep.look_again && sweep.chores.is_empty() {
        let after = served.project.ledger().next_step();
        served.project.look(served.neutron.as_ref(), &ctx.clock, after).await?;
        return Ok(sweep);
    }
    let mut chores: FuturesUnordered<_> = sweep.chores.iter().map(|chore| do_chore(served, chore, ctx)).collect();
    let mut failed = None;
    while let Some(result) = chores.next().await {
        failed = result.err().or(failed);
    }
    drop(chores);
    let created: Vec<_> = (0..sweep.preallocate).map(|_| spares::create(ctx, served)).collect();
    for result in futures::future::join_all(created).await {
        failed = result.err().or(failed);
    }
    failed.map_or(Ok(sweep), Err)
}

/// Plans under the lock, and holds what the plan is about before anybody else can choose it.
fn take(ctx: &Arc<Context>, served: &ResolvedPool, around: &ClusterView) -> SweepPlan {
    let now = ctx.clock.now();
    let mut ledger = served.project.ledger();
    let sweep = ctx.published(|published| plan(&ledger, published, &served.policy, around, now));
    for chore in &sweep.chores {
        ledger.hold(chore.id(), Some(Hold::GivingBack));
    }
    ledger.note_orphans(&served.policy.id, &sweep.orphans, now);
    let mut orphans: Vec<_> =
        sweep.orphans.iter().filter_map(|id| ledger.get(id)).map(|entry| entry.fip.address).collect();
    orphans.sort();
    drop(ledger);
    let found = Found { orphans };
    let old = ctx.found().insert(served.name.clone(), found.clone()).unwrap_or_default();
    if old != found {
        ctx.report_soon(&served.name);
    }
    sweep
}

pub(super) fn surroundings(ctx: &Context, pool: &ObjectName) -> ClusterView {
    let is_the_pools = |claim: &crate::api::IpAddressClaim| claim.is_of(&pool.namespace, &pool.name);
    let claims: BTreeMap<ClaimKey, ClaimLiveness> = ctx
        .stores
        .claims
        .state_filter(is_the_pools)
        .iter()
        .map(|claim| {
            let goes = claim.metadata.deletion_timestamp.is_some();
            (
                ClaimKey::of(&pool.namespace, &claim.name_any()),
                if goes { ClaimLiveness::Deleting } else { ClaimLiveness::Active },
            )
        })
        .collect();
    ClusterView { claims, is_paused: has_paused_cluster(ctx, &pool.namespace) }
}

/// Whether a Cluster of the namespace is paused: a move or a restore may be under way, and what is missing may come.
fn has_paused_cluster(ctx: &Context, namespace: &str) -> bool {
    let is_it = |cluster: &Cluster| cluster.namespace().as_deref() == Some(namespace) && cluster.is_paused();
    ctx.stores.clusters.find(is_it).is_some()
}

async fn do_chore(served: &Arc<ResolvedPool>, chore: &SweepAction, ctx: &Arc<Context>) -> Result<(), openstack::Error> {
    act::chore(served, &ctx.clock, chore).await?;
    match chore {
        SweepAction::Delete(_) => ctx.metrics.swept(metrics::ReleasedAs::Deleted),
        SweepAction::Rewrite { description: Some(_), .. } => ctx.metrics.swept(metrics::ReleasedAs::Retained),
        SweepAction::Rewrite { description: None, .. } => ctx.metrics.swept(metrics::ReleasedAs::Unmarked),
        SweepAction::Release(..) | SweepAction::Describe(..) => {}
    }
    Ok(())
}

/// Whether an IPAddress of the pool is being deleted and nobody else will let it go: its claim is gone already, and not
/// because both are being moved.
pub(super) fn is_stray(ctx: &Context, pool: &ObjectName, address: &IpAddress) -> bool {
    let namespace = address.namespace().unwrap_or_default();
    let claim = ObjectName::new(&namespace, &address.spec.claim_ref.name);
    address.is_of(&pool.namespace, &pool.name)
        && address.metadata.deletion_timestamp.is_some()
        && patch::has_finalizer(&address.metadata, ADDRESS_FINALIZER)
        && ctx.claim(&claim).is_none()
        && !address.annotations().contains_key(DELETE_FOR_MOVE_ANNOTATION)
        && !has_paused_cluster(ctx, &namespace)
}
