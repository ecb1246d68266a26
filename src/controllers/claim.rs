//! One claim's life: read what there is, decide what is due, do it, say so (design 3).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::{Resource, ResourceExt};

use super::context::{Context, name_of};
use super::explain::explain;
use super::queue::Action;
use super::registry::{Known, Problem, Served};
use crate::allocation::ClaimKey;
use crate::allocation::claim::Wanting;
use crate::allocation::directory::ObjectName;
use crate::allocation::ledger::Place;
use crate::api::conditions::claim_reasons::{ALLOCATION_FAILED, POOL_NOT_READY};
use crate::api::names::{
    CLAIM_FINALIZER, DELETE_FOR_MOVE_ANNOTATION, GARBAGE_COLLECTOR_FINALIZERS, GROUP, PAUSED_ANNOTATION,
};
use crate::api::{Cluster, IpAddress, IpAddressClaim, OpenStackFloatingIPPool};
use crate::openstack;
use crate::runtime::telemetry::chain;

mod publish;
mod release;
mod report;
mod serve;

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
    pub(super) known: Known,
    cluster: ClusterState,
    address: Option<Arc<IpAddress>>,
}

impl Observed {
    /// Whether it is to be served and has nothing yet.
    pub(super) fn waits(&self, ctx: &Context) -> bool {
        self.address.is_none() && course(self, ctx) == Course::Serve
    }

    /// Its place among those that wait.
    pub(super) fn place(&self) -> Place {
        place(&self.claim)
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

/// What is due for a claim, from Kubernetes alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Course {
    /// Nothing at all.
    Leave(Left),
    /// Give it an address, or keep the one that it has.
    Serve,
    /// Tell why nothing is done yet.
    Tell(&'static str, String),
    /// Give its address back.
    Release,
    /// The pool goes and nothing is published: what may have been marked is given back, and the claim waits for another.
    GiveUp(String),
}

/// Why nothing is done about a claim.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Left {
    /// It points at something else.
    #[error("its poolRef names no pool of {GROUP}")]
    NotOurs,
    /// Its Cluster is paused.
    #[error("its Cluster is paused")]
    PausedCluster,
    /// It has the paused annotation.
    #[error("it has the annotation {PAUSED_ANNOTATION}")]
    PausedClaim,
    /// Its pool has the paused annotation.
    #[error("its pool has the annotation {PAUSED_ANNOTATION}")]
    PausedPool,
    /// clusterctl is moving it, its pool or its IPAddress away.
    #[error("clusterctl is moving it to another management cluster")]
    Moving,
    /// Its pool is another controller's.
    #[error("its pool is for a controller with another --watch-filter")]
    Filtered,
    /// It is being deleted, and somebody else needs it still.
    #[error("it is being deleted, and its address stays while the finalizer {0} is on it")]
    Held(String),
    /// It is being deleted, and was never served.
    #[error("it is being deleted, and nothing of it is left in OpenStack")]
    LetGo,
    /// It has an address, and whatever else is wrong does not take it away.
    #[error("it has its address; {0}")]
    Bound(String),
    /// The watch has not brought its IPAddress yet.
    #[error("its IPAddress was made a moment ago")]
    Published,
    /// Nobody has looked at the pool yet.
    #[error("its pool is being looked at for the first time")]
    Unknown,
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
        Course::Leave(_) => Ok(Action::await_change()),
        Course::Tell(reason, message) => {
            report::waiting(&observed, &ctx, reason, message).await?;
            Ok(Action::await_change())
        }
        Course::Serve => serve::run(&observed, &ctx).await,
        Course::Release => {
            let released = release::run(&observed, &ctx).await;
            if let Some(why) = released.as_ref().err().and_then(Error::told) {
                report::held_up(&observed, &ctx, &why).await?;
            }
            released
        }
        Course::GiveUp(message) => {
            report::waiting(&observed, &ctx, POOL_NOT_READY, message).await?;
            release::run(&observed, &ctx).await
        }
    }
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
            let gone: Vec<Place> = gone.cloned().collect();
            gone.into_iter().for_each(|place| ledger.wait(id, place, false));
        }
        // A pool that is being deleted waits for its last claim; what it held may be an orphan.
        ctx.wake_pool(&pool);
    }
}

/// The claim's place among those that wait.
fn place(claim: &IpAddressClaim) -> Place {
    let since = claim.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    Place { since, object: name_of(claim) }
}

/// The claim as a decision about it sees it; an error, for the user, when somebody else made its IPAddress.
pub(super) fn wanting(observed: &Observed, served: &Served) -> Result<Wanting, String> {
    Ok(Wanting {
        key: observed.key.clone(),
        object: observed.name.clone(),
        since: place(&observed.claim).since,
        published: publish::published(observed, served)?,
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
    let pool_reference = kube::runtime::reflector::ObjectRef::new(&pool_name.name).within(&pool_name.namespace);
    Observed {
        key: ClaimKey::of(&name.namespace, &name.name),
        pool: ctx.stores.pools.get(&pool_reference),
        known: ctx.registry.get(&pool_name).unwrap_or_default(),
        address: ctx.address(&name),
        claim,
        name,
        pool_name,
        cluster,
    }
}

/// Decides what is due, from Kubernetes alone.
pub(super) fn course(observed: &Observed, ctx: &Context) -> Course {
    let claim = &observed.claim;
    let is_marked = |object: &kube::core::ObjectMeta, key: &str| {
        object.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(key))
    };
    let pool_is = |key: &str| observed.pool.as_ref().is_some_and(|pool| is_marked(pool.meta(), key));
    let is_moving = is_marked(claim.meta(), DELETE_FOR_MOVE_ANNOTATION)
        || pool_is(DELETE_FOR_MOVE_ANNOTATION)
        || observed.address.as_ref().is_some_and(|address| is_marked(address.meta(), DELETE_FOR_MOVE_ANNOTATION));
    let is_ours = observed.pool.as_ref().is_none_or(|pool| super::pool::is_watched(pool, ctx));
    let left = match () {
        () if !claim.spec.pool_ref.is_ours() => Some(Left::NotOurs),
        () if is_moving => Some(Left::Moving),
        () if observed.cluster == ClusterState::Paused => Some(Left::PausedCluster),
        () if is_marked(claim.meta(), PAUSED_ANNOTATION) => Some(Left::PausedClaim),
        () if pool_is(PAUSED_ANNOTATION) => Some(Left::PausedPool),
        () if !is_ours => Some(Left::Filtered),
        () => None,
    };
    if let Some(left) = left {
        return Course::Leave(left);
    }
    if claim.metadata.deletion_timestamp.is_some() {
        let foreign = |finalizer: &String| {
            finalizer != CLAIM_FINALIZER && !GARBAGE_COLLECTOR_FINALIZERS.contains(&finalizer.as_str())
        };
        let is_ours = super::patch::has_finalizer(&claim.metadata, CLAIM_FINALIZER);
        // While anybody else holds it, the address stays: CAPO's finalizer is there until the VM is gone.
        let holder = claim.metadata.finalizers.iter().flatten().find(|finalizer| foreign(finalizer));
        return match holder {
            Some(holder) => Course::Leave(Left::Held(holder.clone())),
            None if is_ours => Course::Release,
            None => Course::Leave(Left::LetGo),
        };
    }
    let has_address = claim.status.as_ref().is_some_and(|status| status.address_ref.is_some());
    let tell = |reason, message| match has_address {
        true => Course::Leave(Left::Bound(message)),
        false => Course::Tell(reason, message),
    };
    let kind = "OpenStackFloatingIPPool";
    match (&observed.cluster, &observed.pool, &observed.known) {
        (ClusterState::Missing(cluster), ..) => {
            let message = format!(
                "the Cluster {cluster} that the claim belongs to does not exist in this namespace: create or restore it, or delete the claim"
            );
            tell(ALLOCATION_FAILED, message)
        }
        (_, None, _) => tell(
            POOL_NOT_READY,
            format!("{kind} {} does not exist in this namespace: create it", observed.pool_name.name),
        ),
        (_, Some(pool), _) if pool.metadata.deletion_timestamp.is_some() && observed.address.is_none() => {
            // Published a moment ago: the watch brings the address, and that wakes the claim.
            if ctx.writes().addresses.contains(&observed.name) {
                return Course::Leave(Left::Published);
            }
            let message = format!(
                "{kind} {} is being deleted: create it again once it is gone, or name another pool in the machine's template",
                observed.pool_name.name
            );
            match super::patch::has_finalizer(&claim.metadata, CLAIM_FINALIZER) {
                true => Course::GiveUp(message),
                false => tell(POOL_NOT_READY, message),
            }
        }
        (_, _, Known { served: Some(_), problem: None, .. }) => Course::Serve,
        // An address that is published is kept whatever the pool's spec has become.
        (_, _, Known { served: Some(_), problem: Some(_), .. }) if observed.address.is_some() => Course::Serve,
        (_, _, Known { problem: Some(Problem { reason, message }), .. }) => {
            tell(POOL_NOT_READY, format!("{kind} {} is not ready ({reason}): {message}", observed.pool_name.name))
        }
        // The pool is being looked at for the first time; it wakes its claims when it knows what to tell them.
        (_, _, Known { problem: None, served: None, .. }) => Course::Leave(Left::Unknown),
    }
}
