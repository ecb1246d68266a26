//! What is due for a claim, from Kubernetes alone: nobody asks OpenStack here.

use kube::Resource;
use kube::core::ObjectMeta;

use super::{ClusterState, Observed};
use crate::api::OpenStackFloatingIPPool;
use crate::api::conditions::claim_reasons::{ALLOCATION_FAILED, POOL_NOT_READY};
use crate::api::names::{
    CLAIM_FINALIZER, DELETE_FOR_MOVE_ANNOTATION, GARBAGE_COLLECTOR_FINALIZERS, GROUP, PAUSED_ANNOTATION,
};
use crate::controllers::context::Context;
use crate::controllers::patch;
use crate::controllers::pool::is_watched;
use crate::controllers::registry::{PoolState, Problem};

/// What is due for a claim, from Kubernetes alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NextStep {
    /// Nothing at all.
    Leave(SkipReason),
    /// Give it an address, or keep the one that it has.
    Serve,
    /// Publish the address that it had: its pool goes, waits for it, and gives it no other.
    Recover,
    /// Tell why nothing is done yet.
    Tell(&'static str, String),
    /// Give its address back.
    Release,
    /// The pool goes and nothing is published: what may have been marked is given back, and the claim waits for another.
    GiveUp(String),
}

/// Why nothing is done about a claim.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SkipReason {
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

impl SkipReason {
    /// Whether it may end with a change of the pool alone.
    pub(super) fn is_for_the_pool(&self) -> bool {
        matches!(self, Self::PausedPool | Self::Moving | Self::Filtered | Self::Unknown)
    }
}

/// Decides what is due.
pub(in crate::controllers) fn course(observed: &Observed, ctx: &Context) -> NextStep {
    if let Some(left) = left_alone(observed, ctx) {
        return NextStep::Leave(left);
    }
    if observed.claim.metadata.deletion_timestamp.is_some() {
        return ending(&observed.claim.metadata);
    }
    let tell = |reason, message| match observed.is_bound() {
        true => NextStep::Leave(SkipReason::Bound(message)),
        false => NextStep::Tell(reason, message),
    };
    let pool_name = format!("OpenStackFloatingIPPool {}", observed.pool_name.name);
    match (&observed.cluster, &observed.pool, &observed.known) {
        (ClusterState::Missing(cluster), ..) => {
            let message = format!(
                "the Cluster {cluster} that the claim belongs to does not exist in this namespace: create or restore it, or delete the claim"
            );
            tell(ALLOCATION_FAILED, message)
        }
        (_, None, _) => tell(POOL_NOT_READY, format!("{pool_name} does not exist in this namespace: create it")),
        // To decide without it would be to take the claim for one that has nothing.
        _ if observed.address.is_none() && ctx.writes().is_coming(&observed.name) => {
            NextStep::Leave(SkipReason::Published)
        }
        (_, Some(pool), _) if is_ending(pool) && observed.address.is_none() => {
            let is_ours = patch::has_finalizer(&observed.claim.metadata, CLAIM_FINALIZER);
            match &observed.known.served {
                // Somebody deleted its IPAddress: the pool waits for it, and the address is its own as before.
                Some(_) if is_ours && observed.is_bound() => NextStep::Recover,
                _ if is_ours && !observed.is_bound() => NextStep::GiveUp(pool_ends(observed)),
                _ => tell(POOL_NOT_READY, pool_ends(observed)),
            }
        }
        (_, _, PoolState { served: Some(_), problem: None, .. }) => NextStep::Serve,
        // An address that is published is kept whatever the pool's spec has become.
        (_, _, PoolState { served: Some(_), problem: Some(_), .. }) if observed.address.is_some() => NextStep::Serve,
        (_, _, PoolState { problem: Some(Problem { reason, message }), .. }) => {
            tell(POOL_NOT_READY, format!("{pool_name} is not ready ({reason}): {message}"))
        }
        // The pool is being looked at for the first time; it wakes its claims when it knows what to tell them.
        (_, _, PoolState { problem: None, served: None, .. }) => NextStep::Leave(SkipReason::Unknown),
    }
}

/// Why nothing may be done about it, whatever its state.
fn left_alone(observed: &Observed, ctx: &Context) -> Option<SkipReason> {
    let claim = &observed.claim;
    let has = |object: &ObjectMeta, key: &str| {
        object.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(key))
    };
    let pool_has = |key: &str| observed.pool.as_ref().is_some_and(|pool| has(pool.meta(), key));
    let address_has = |key: &str| observed.address.as_ref().is_some_and(|address| has(address.meta(), key));
    let is_moving = has(claim.meta(), DELETE_FOR_MOVE_ANNOTATION)
        || pool_has(DELETE_FOR_MOVE_ANNOTATION)
        || address_has(DELETE_FOR_MOVE_ANNOTATION);
    match () {
        () if !claim.spec.pool_ref.is_ours() => Some(SkipReason::NotOurs),
        () if is_moving => Some(SkipReason::Moving),
        () if observed.cluster == ClusterState::Paused => Some(SkipReason::PausedCluster),
        () if has(claim.meta(), PAUSED_ANNOTATION) => Some(SkipReason::PausedClaim),
        () if pool_has(PAUSED_ANNOTATION) => Some(SkipReason::PausedPool),
        () if observed.pool.as_ref().is_some_and(|pool| !is_watched(pool, ctx)) => Some(SkipReason::Filtered),
        () => None,
    }
}

/// What is due for a claim that is being deleted.
fn ending(claim: &ObjectMeta) -> NextStep {
    let is_foreign = |finalizer: &&String| {
        *finalizer != CLAIM_FINALIZER && !GARBAGE_COLLECTOR_FINALIZERS.contains(&finalizer.as_str())
    };
    // While anybody else holds it, the address stays: CAPO's finalizer is there until the VM is gone.
    match claim.finalizers.iter().flatten().find(is_foreign) {
        Some(holder) => NextStep::Leave(SkipReason::Held(holder.clone())),
        None if patch::has_finalizer(claim, CLAIM_FINALIZER) => NextStep::Release,
        None => NextStep::Leave(SkipReason::LetGo),
    }
}

/// What a claim is told that gets nothing from a pool that is being deleted.
pub(super) fn pool_ends(observed: &Observed) -> String {
    format!(
        "OpenStackFloatingIPPool {} is being deleted: create it again once it is gone, or name another pool in the machine's template",
        observed.pool_name.name
    )
}

fn is_ending(pool: &OpenStackFloatingIPPool) -> bool {
    pool.metadata.deletion_timestamp.is_some()
}
