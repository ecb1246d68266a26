//! Decides what to do for a claim from what is known of it, its Cluster and its pool, without a call to OpenStack.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use super::observe::{ClaimCluster, Observed};
use super::request::build_request;
use crate::api::conditions::claim_reasons::{ALLOCATION_FAILED, POOL_NOT_READY};
use crate::api::hands_off::HandsOff;
use crate::api::names::{CLAIM_FINALIZER, GARBAGE_COLLECTOR_FINALIZERS, GROUP, PAUSED_ANNOTATION, POOL_KIND};
use crate::controllers::memory::{PoolState, Problem};
use crate::controllers::objects::is_abandoned;
use crate::controllers::patch;
use crate::controllers::stores::is_ours;

/// What to do for a claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NextStep {
    Skip(SkipReason),
    /// Give it an address, or keep the one that it has.
    Serve,
    /// Publish only the address that it had: its pool has a problem, or is being deleted and waits for the claim.
    Recover,
    /// Report why nothing is done yet: the condition's reason and message.
    Report(&'static str, String),
    /// It is being deleted: release its address.
    Release,
    /// The pool is being deleted and nothing is published: release what may have been marked, and wait.
    ReleaseAndWait(String),
}

impl NextStep {
    /// Whether a claim that was refused an address keeps its place: it is tried again, or its whole pool waits with it.
    /// Otherwise the younger claims would wait for one that takes nothing.
    pub(super) fn keeps_place(&self, observed: &Observed) -> bool {
        match self {
            Self::Serve | Self::Recover => true,
            Self::Skip(reason) => {
                matches!(reason, SkipReason::PausedPool | SkipReason::UnknownPool)
            }
            Self::Report(..) => !matches!(observed.cluster, ClaimCluster::Missing(_)),
            Self::Release | Self::ReleaseAndWait(_) => false,
        }
    }
}

/// Why nothing is done about a claim.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SkipReason {
    #[error("its poolRef references no {POOL_KIND} of {GROUP}")]
    NotOurs,
    #[error("its Cluster is paused")]
    PausedCluster,
    #[error("it has the annotation {PAUSED_ANNOTATION}")]
    PausedClaim,
    #[error("its pool has the annotation {PAUSED_ANNOTATION}")]
    PausedPool,
    /// The claim, its pool or its IPAddress.
    #[error("clusterctl is moving it to another management cluster")]
    Moving,
    #[error("its pool is for a controller with another --watch-filter")]
    FilteredPool,
    #[error("it is being deleted, and its address stays while the finalizer {0} is on it")]
    HeldByFinalizer(String),
    #[error("it is being deleted, and nothing of it is left in OpenStack")]
    Released,
    /// A problem does not take its address away.
    #[error("it has its address; {0}")]
    Bound(String),
    #[error("its IPAddress was created a moment ago")]
    AddressAwaited,
    #[error("its pool has not been reconciled yet")]
    UnknownPool,
}

impl SkipReason {
    /// Whether it may end with a change of the pool alone.
    pub(super) fn may_end_with_the_pool(&self) -> bool {
        matches!(self, Self::PausedPool | Self::Moving | Self::FilteredPool | Self::UnknownPool)
    }
}

pub(in crate::controllers) fn triage(observed: &Observed) -> NextStep {
    if let Some(reason) = hands_off(observed) {
        return NextStep::Skip(reason);
    }
    if observed.is_being_deleted() {
        return triage_being_deleted(&observed.claim.metadata);
    }
    if observed.address.is_none() && observed.is_address_awaited {
        return NextStep::Skip(SkipReason::AddressAwaited);
    }
    let has_no_address_in_deleted_pool =
        observed.is_pool_being_deleted() && (observed.address.is_none() || has_only_foreign_address(observed));
    // The pool waits for it.
    if has_no_address_in_deleted_pool && observed.is_protected() && !observed.is_bound() {
        return NextStep::ReleaseAndWait(pool_is_being_deleted(observed));
    }
    if let ClaimCluster::Missing(cluster) = &observed.cluster {
        let message = format!(
            "the Cluster {cluster} that the claim belongs to does not exist in this namespace: create or restore it, or delete the claim"
        );
        return report(observed, ALLOCATION_FAILED, message);
    }
    if observed.pool.is_none() {
        let name = &observed.pool_name.name;
        let message = format!("OpenStackFloatingIPPool {name} does not exist in this namespace: create it");
        return report(observed, POOL_NOT_READY, message);
    }
    if has_no_address_in_deleted_pool {
        return triage_in_deleted_pool(observed);
    }
    match &observed.pool_state {
        PoolState { resolved: Some(_), problem: None, .. } => NextStep::Serve,
        // An address that is published is kept whatever the pool's spec has become.
        PoolState { resolved: Some(_), .. } if observed.address.is_some() => NextStep::Serve,
        // Its IPAddress was deleted: the address is still the claim's.
        PoolState { resolved: Some(_), .. } if observed.is_bound() => NextStep::Recover,
        PoolState { problem: Some(problem), .. } => {
            report(observed, POOL_NOT_READY, pool_has_problem(observed, problem))
        }
        // The pool wakes its claims after its first reconcile.
        PoolState { problem: None, resolved: None, .. } => NextStep::Skip(SkipReason::UnknownPool),
    }
}

/// Why nothing may be done about the claim, whatever its state.
fn hands_off(observed: &Observed) -> Option<SkipReason> {
    let claim = HandsOff::of(observed.claim.meta());
    let pool = observed.pool.as_ref().and_then(|pool| HandsOff::of(pool.meta()));
    let address = observed.address.as_ref().and_then(|address| HandsOff::of(address.meta()));
    match () {
        () if !observed.claim.spec.pool_ref.is_ours() => Some(SkipReason::NotOurs),
        () if [claim, pool, address].contains(&Some(HandsOff::Moving)) => Some(SkipReason::Moving),
        () if observed.cluster == ClaimCluster::Paused => Some(SkipReason::PausedCluster),
        () if claim == Some(HandsOff::Paused) => Some(SkipReason::PausedClaim),
        () if pool == Some(HandsOff::Paused) => Some(SkipReason::PausedPool),
        () if observed.is_pool_filtered => Some(SkipReason::FilteredPool),
        () => None,
    }
}

/// Whether the IPAddress with the claim's name is another writer's, as far as that can be known: one that has lost all that
/// says so may be the claim's own, and only its mark shows that. Nothing shows it where the pool is abandoned or has no id.
fn has_only_foreign_address(observed: &Observed) -> bool {
    let is_foreign = observed.address.as_deref().is_some_and(|address| !is_ours(address));
    let is_abandoned = || observed.pool.as_deref().is_some_and(is_abandoned);
    let is_unknown = || {
        let resolved = observed.pool_state.resolved.as_ref();
        resolved.is_some_and(|pool| {
            !pool.project.ledger().is_unlisted(pool.policy.viewer) && build_request(observed, pool).is_err()
        })
    };
    is_foreign && (is_abandoned() || observed.pool_state.has_no_marks || is_unknown())
}

fn triage_being_deleted(claim: &ObjectMeta) -> NextStep {
    let is_foreign = |finalizer: &&String| {
        *finalizer != CLAIM_FINALIZER && !GARBAGE_COLLECTOR_FINALIZERS.contains(&finalizer.as_str())
    };
    // While any other finalizer is on it the address stays: CAPO removes its own when the VM is gone.
    match claim.finalizers.iter().flatten().find(is_foreign) {
        Some(finalizer) => NextStep::Skip(SkipReason::HeldByFinalizer(finalizer.clone())),
        None if patch::has_finalizer(claim, CLAIM_FINALIZER) => NextStep::Release,
        None => NextStep::Skip(SkipReason::Released),
    }
}

fn triage_in_deleted_pool(observed: &Observed) -> NextStep {
    match &observed.pool_state.resolved {
        // Its IPAddress was deleted: the pool waits for the claim, and the address is still the claim's.
        Some(_) if observed.is_protected() && observed.is_bound() => match observed.address {
            None => NextStep::Recover,
            // It says what to do about the other one.
            Some(_) => NextStep::Serve,
        },
        _ => report(observed, POOL_NOT_READY, pool_is_being_deleted(observed)),
    }
}

/// Reports why nothing is done, unless the claim has its address.
fn report(observed: &Observed, reason: &'static str, message: String) -> NextStep {
    let has_address = observed.address.as_ref().is_some_and(|address| address.metadata.deletion_timestamp.is_none());
    match observed.is_bound() && has_address {
        true => NextStep::Skip(SkipReason::Bound(message)),
        false => NextStep::Report(reason, message),
    }
}

/// Why a pool with a problem, or one that is being deleted, gives nothing new.
pub(super) fn why_nothing_new(observed: &Observed) -> String {
    match &observed.pool_state.problem {
        Some(problem) if !observed.is_pool_being_deleted() => pool_has_problem(observed, problem),
        _ => pool_is_being_deleted(observed),
    }
}

fn pool_has_problem(observed: &Observed, Problem { reason, message }: &Problem) -> String {
    format!("OpenStackFloatingIPPool {} is not ready ({reason}): {message}", observed.pool_name.name)
}

/// The message for a claim that gets nothing from a pool that is being deleted.
pub(super) fn pool_is_being_deleted(observed: &Observed) -> String {
    format!(
        "OpenStackFloatingIPPool {} is being deleted: create it again once it is gone, or name another pool in the machine's template",
        observed.pool_name.name
    )
}
