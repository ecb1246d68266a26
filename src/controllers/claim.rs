//! One claim's life: read what there is, decide what is due, do it, say so (design 3).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;

use super::context::{COMES, Context, name_of};
use super::explain::explain;
use super::queue::Action;
use super::registry::{PoolState, ResolvedPool};
use crate::allocation::ClaimKey;
use crate::allocation::claim::ClaimRequest;
use crate::allocation::ledger::QueuePosition;
use crate::api::conditions::claim_reasons::POOL_NOT_READY;
use crate::api::{Cluster, IpAddress, IpAddressClaim, OpenStackFloatingIPPool};
use crate::object_name::ObjectName;
use crate::openstack;
use crate::runtime::telemetry::chain;
use serve::AllocationScope;

mod course;
mod publish;
mod release;
mod report;
mod serve;

pub use course::{NextStep, SkipReason};

pub(super) use course::course;
pub(super) use release::release_strays;

/// How long a failed claim waits before it is tried again, when OpenStack does not say.
const RETRY: Duration = Duration::from_secs(5);

/// How soon a claim looks again for a pool that is there and that the watch has not brought yet; the pool wakes it too.
const POOL_COMES: Duration = Duration::from_millis(500);

/// Why a claim's reconcile ended early. It is tried again.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The API server did not do what was asked.
    #[error("{0}")]
    Kubernetes(&'static str, #[source] kube::Error),
    /// OpenStack did not do what was asked.
    #[error("ask OpenStack")]
    OpenStack(#[source] openstack::Error),
    /// The pool cannot be worked with now, but this claim cannot go without it.
    #[error("reach the pool's project: {0}")]
    PoolNotReady(String),
}

impl Error {
    /// What the user of a claim is told, when it is not Kubernetes that failed: that would not take the message either.
    fn told(&self) -> Option<String> {
        match self {
            Self::Kubernetes(..) => None,
            Self::OpenStack(error) => Some(explain(error)),
            Self::PoolNotReady(problem) => Some(format!("the pool is not ready: {problem}")),
        }
    }
}

/// Everything that a decision about a claim needs.
pub(super) struct Observed {
    claim: Arc<IpAddressClaim>,
    name: ObjectName,
    key: ClaimKey,
    pool_name: ObjectName,
    pool: Option<Arc<OpenStackFloatingIPPool>>,
    pub(super) known: PoolState,
    cluster: ClusterState,
    address: Option<Arc<IpAddress>>,
}

impl Observed {
    /// Whether it is to be served and has nothing yet.
    pub(super) fn waits(&self, ctx: &Context) -> bool {
        self.address.is_none() && course(self, ctx) == NextStep::Serve
    }

    /// Its place among those that wait.
    pub(super) fn place(&self) -> QueuePosition {
        place(&self.claim)
    }

    /// Whether it is still there, as far as the watch has brought it. Who is gone is forgotten once, when it goes, and
    /// must not be remembered after that.
    fn is_there(&self, ctx: &Context) -> bool {
        ctx.claim(&self.name).is_some_and(|claim| claim.metadata.uid == self.claim.metadata.uid)
    }

    /// Whether it was told that it has an address.
    fn is_bound(&self) -> bool {
        self.claim.status.as_ref().is_some_and(|status| status.address_ref.is_some())
    }
}

/// The Cluster that a claim belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
enum ClusterState {
    /// It names none.
    None,
    /// It names one that is not there.
    Missing(String),
    /// It is there, and paused.
    Paused,
    /// It is there.
    Running,
}

/// Reconciles one claim.
pub(super) async fn reconcile(claim: Arc<IpAddressClaim>, ctx: Arc<Context>) -> Result<Action, Error> {
    // The watch brings what we wrote last, and then wakes it: until then this is the past.
    if ctx.writes().is_past_claim(&name_of(claim.as_ref()), claim.as_ref()) {
        return Ok(Action::await_change());
    }
    let observed = read(claim, &ctx);
    if observed.pool.is_none() && observed.claim.spec.pool_ref.is_ours() && is_there(&observed.pool_name, &ctx).await? {
        return Ok(Action::requeue(POOL_COMES));
    }
    match course(&observed, &ctx) {
        NextStep::Leave(left) => {
            if left.is_for_the_pool() {
                ctx.leave(&observed.pool_name, &observed.name);
            }
            Ok(match left {
                SkipReason::Published => Action::requeue(COMES),
                _ => Action::await_change(),
            })
        }
        NextStep::Tell(reason, message) => {
            report::waiting(&observed, &ctx, reason, message).await?;
            Ok(Action::await_change())
        }
        NextStep::Serve => serve::run(&observed, &ctx, AllocationScope::Any).await,
        NextStep::Recover => serve::run(&observed, &ctx, AllocationScope::ItsOwn).await,
        NextStep::Release => {
            let released = release::run(&observed, &ctx).await;
            if let Some(why) = released.as_ref().err().and_then(Error::told) {
                report::held_up(&observed, &ctx, &why).await?;
            }
            released
        }
        NextStep::GiveUp(message) => give_up(&observed, &ctx, message).await,
    }
}

/// Nothing is or can be published from a pool that goes: what may have been marked is given back, and the claim waits.
async fn give_up(observed: &Observed, ctx: &Arc<Context>, message: String) -> Result<Action, Error> {
    report::waiting(observed, ctx, POOL_NOT_READY, message).await?;
    release::run(observed, ctx).await
}

/// A failed reconcile is tried again, later where the server asked for that.
pub(super) fn on_error(claim: Arc<IpAddressClaim>, error: &Error, ctx: Arc<Context>) -> Action {
    match error {
        // The claim changed meanwhile: the change wakes it, and nothing is wrong.
        Error::Kubernetes(_, source) if super::patch::is_conflict(source) => {
            return Action::requeue(Duration::from_millis(100));
        }
        _ => {}
    }
    ctx.metrics.reconcile_failed("claim");
    tracing::warn!(claim = %claim.name_any(), namespace = claim.namespace(), "failed to {}", chain(error));
    let asked = match error {
        Error::OpenStack(error) => error.retry_after.unwrap_or(RETRY),
        _ => RETRY,
    };
    Action::requeue(ctx.clock.jitter(asked, 0.5))
}

/// A claim is gone: nobody waits for it any more.
pub(super) fn forget(ctx: &Context, pool: &ObjectName, claim: &IpAddressClaim) {
    let name = name_of(claim);
    ctx.writes().forget_claim(&name, claim);
    if let Some(waiting) = ctx.waiting().get_mut(pool) {
        waiting.remove(&name);
    }
    if let Some(served) = ctx.registry.get(pool).and_then(|known| known.served) {
        served.project.ledger().wait(&served.policy.id, place(claim), false);
    }
    ctx.wake_sweeper(pool);
}

/// The watch started anew: a claim that is not among these went while nobody looked, and waits no longer.
pub(super) fn retain(ctx: &Context, living: &BTreeSet<ObjectName>) {
    ctx.writes().retain_claims(&ctx.stores.claims);
    ctx.waiting().values_mut().for_each(|claims| claims.retain(|claim, _| living.contains(claim)));
    for pool in ctx.registry.names() {
        if let Some(served) = ctx.registry.get(&pool).and_then(|known| known.served) {
            let mut ledger = served.project.ledger();
            let id = &served.policy.id;
            let gone = ledger.waiting(id).filter(|place| !living.contains(&place.object));
            let gone: Vec<QueuePosition> = gone.cloned().collect();
            gone.into_iter().for_each(|place| ledger.wait(id, place, false));
        }
        // A pool that is being deleted waits for its last claim; what it held may be an orphan.
        ctx.wake_pool(&pool);
    }
}

/// The claim's place among those that wait.
fn place(claim: &IpAddressClaim) -> QueuePosition {
    let since = claim.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    QueuePosition { since, object: name_of(claim) }
}

/// The claim as a decision about it sees it; an error, for the user, when somebody else made its IPAddress.
pub(super) fn request(observed: &Observed, served: &ResolvedPool) -> Result<ClaimRequest, String> {
    Ok(ClaimRequest {
        key: observed.key.clone(),
        object: observed.name.clone(),
        since: place(&observed.claim).since,
        bound: publish::published(observed, served)?,
    })
}

/// Whether the pool exists, although the watch has not brought it: claims and pools are watched apart, and a pool that is
/// taken for missing would be told as missing, or its addresses left behind.
async fn is_there(pool: &ObjectName, ctx: &Context) -> Result<bool, Error> {
    let found = ctx.pools(&pool.namespace).get_opt(&pool.name).await;
    Ok(found.map_err(|error| Error::Kubernetes("look for the pool", error))?.is_some())
}

pub(super) fn read(claim: Arc<IpAddressClaim>, ctx: &Context) -> Observed {
    let name = name_of(claim.as_ref());
    let pool_name = ObjectName::new(&name.namespace, &claim.spec.pool_ref.name);
    let cluster = match super::watch::cluster_of(&claim) {
        None => ClusterState::None,
        Some(cluster) => {
            let reference = kube::runtime::reflector::ObjectRef::new_with(cluster, ctx.version).within(&name.namespace);
            match ctx.stores.clusters.get(&reference) {
                None => ClusterState::Missing(cluster.into()),
                Some(cluster) if Cluster::is_paused(&cluster) => ClusterState::Paused,
                Some(_) => ClusterState::Running,
            }
        }
    };
    Observed {
        key: ClaimKey::of(&name.namespace, &name.name),
        pool: ctx.pool(&pool_name),
        known: ctx.registry.get(&pool_name).unwrap_or_default(),
        address: ctx.address(&name),
        claim,
        name,
        pool_name,
        cluster,
    }
}
