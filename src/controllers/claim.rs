//! One claim's reconcile. The files are its stages: observe → triage → (request → attempt → publish | release) → report.

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;

use super::events::Events;
use super::explain::{explain, explain_refusal};
use super::kubernetes::{Kubernetes, find};
use super::memory::{ADDRESS_APPEARS_WITHIN, Memory, ResolvedPool};
use super::panics::HeldBack;
use super::patch;
use super::pool::{BUSY_AGE, CapoObjects};
use super::queue::Action;
use super::stores::{Stores, name_of, with_all_references};
use super::wake::Wake;
use crate::api::conditions::claim_reasons::POOL_NOT_READY;
use crate::api::guarded::Guarded;
use crate::api::names::CLAIM_FINALIZER;
use crate::api::{IpAddress, IpAddressClaim};
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::object_name::ObjectName;
use crate::object_name::is_name;
use crate::openstack;
use crate::runtime::telemetry::chain;
use attempt::{AllocationScope, Attempt, AttemptOutcome};
use observe::{Observed, observe};
use triage::{pool_is_being_deleted, why_nothing_new};

mod attempt;
mod observe;
mod publish;
mod release;
mod report;
mod request;
mod triage;

pub use triage::{NextStep, SkipReason};

pub(super) use observe::observe as observe_claim;
pub(super) use publish::{is_claimed, remove_address};
pub(super) use release::{MarkRelease, release_marks};
pub(super) use request::build_request;
use request::needs_listing;
pub(super) use triage::triage;

/// How long a failed claim waits before it is tried again, when OpenStack does not say.
const RETRY: Duration = Duration::from_secs(5);
/// How soon a claim is reconciled again when its pool exists but the watch has not delivered it; the pool wakes it too.
const POOL_APPEARS: Duration = Duration::from_millis(500);
/// How soon a claim is reconciled again when its pool or IPAddress changed during the attempt.
const CHANGED_RETRY: Duration = Duration::from_millis(500);
/// How soon a claim is reconciled again if its floating IP needs manual action.
const MANUAL_RETRY: Duration = Duration::from_secs(15);
/// How soon a claim whose IPAddress was created by another writer is reconciled again.
const FOREIGN_ADDRESS_RETRY: Duration = Duration::from_secs(10);
/// How soon a claim is reconciled again whose address is not found while its pool has a problem, or that could not give up
/// what it had begun to choose.
const UNRECOVERED_RETRY: Duration = Duration::from_secs(20);
/// How soon a claim is reconciled again that was older than what this process wrote, or whose IPAddress is gone and still
/// shown. The watch wakes it sooner.
const OUTDATED_RETRY: Duration = Duration::from_secs(5);
/// How soon a claim is reconciled again after a conflict. The change that caused it wakes it sooner, unless the watch is
/// late.
const CONFLICT_RETRY: Duration = Duration::from_secs(1);

/// The message of a claim that waits for an older one.
const AFTER_FAILED: &str =
    "what the pool has left is for an older claim, which fails: see the conditions of the pool's claims";

/// Follows the message of a claim whose deleted IPAddress keeps our finalizer.
const KEPT_ADDRESS: &str = "its IPAddress cannot be removed yet";

const FENCED: &str = "waiting until no call of a previous controller can still change an address";

/// Why a claim's reconcile failed. It is tried again.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("{0}")]
    Kubernetes(&'static str, #[source] kube::Error),
    #[error("call OpenStack")]
    OpenStack(#[source] openstack::Error),
    /// The claim cannot be released without its pool's project.
    #[error("reach the pool's project: {0}")]
    PoolNotReady(String),
}

impl Error {
    /// The message for the claim's condition. None for what passes, and where the condition could not be written.
    pub(super) fn for_condition(&self) -> Option<String> {
        match self {
            Self::Kubernetes(what, error) => explain_refusal(what, error),
            Self::OpenStack(error) => Some(explain(error)),
            Self::PoolNotReady(problem) => Some(format!("the pool is not ready: {problem}")),
        }
    }
}

pub(super) struct ClaimController {
    pub(super) capo: Arc<CapoObjects>,
    pub(super) stores: Stores,
    pub(super) memory: Arc<Memory>,
    pub(super) kube: Kubernetes,
    pub(super) wake: Wake,
    pub(super) events: Arc<Events>,
    pub(super) metrics: Metrics,
    pub(super) clock: Clock,
    pub(super) held_back: HeldBack,
    /// The label value of the pools that this controller serves, where it is given.
    pub(super) watch_filter: Option<String>,
}

impl ClaimController {
    pub(super) async fn reconcile(&self, claim: Arc<IpAddressClaim>) -> Result<Action, Error> {
        if self.memory.claims.is_released(&claim) {
            return Ok(Action::await_change());
        }
        if self.memory.claims.put_off_if_outdated(&claim) {
            // Normally the watch wakes it sooner, but not if it delivered the write just before this check.
            return Ok(Action::requeue(OUTDATED_RETRY));
        }
        let pool_ref = &claim.spec.pool_ref;
        if !pool_ref.is_ours() || self.memory.claims.is_first_reconcile(&claim) {
            // An earlier claim with its name may have pointed at another pool.
            self.end_holds(&name_of(claim.as_ref()), |pool| !pool_ref.is_ours_named(&pool.name));
        }
        let observed = observe(claim, &self.stores, &self.memory, self.watch_filter.as_deref());
        if self.is_pool_unseen(&observed).await? {
            return Ok(Action::requeue(POOL_APPEARS));
        }
        let next_step = triage(&observed);
        if let Some((rest, message)) = self.held_back.find(&observed.name.namespace, self.clock.now()) {
            if matches!(next_step, NextStep::Serve | NextStep::Report(..)) {
                self.report_failed(&observed, message).await?;
            }
            return Ok(Action::requeue(rest));
        }
        if !next_step.keeps_place(&observed) {
            self.leave_queue(&observed);
        }
        self.announce_pause(&observed, &next_step);
        match next_step {
            NextStep::Skip(reason) => {
                if reason == SkipReason::NotOurs {
                    self.announce_wrong_reference(&observed).await;
                }
                Ok(self.skip(&observed, &reason))
            }
            NextStep::Report(reason, message) => {
                self.end_idle_holds(&observed.name);
                self.report_waiting(&observed, reason, message).await?;
                Ok(Action::await_change())
            }
            NextStep::Serve => self.or_refused(&observed, self.serve(&observed, AllocationScope::AnyAddress)).await,
            NextStep::Recover => self.or_refused(&observed, self.recover(&observed)).await,
            NextStep::Release => self.release_being_deleted(&observed).await,
            NextStep::ReleaseAndWait(message) => self.release_waiting(&observed, message).await,
        }
    }

    /// Retries a failed reconcile, later where the server asked for that.
    pub(super) fn on_error(&self, claim: &IpAddressClaim, error: &Error) -> Action {
        if let Error::Kubernetes(_, source) = error
            && patch::is_conflict(source)
        {
            self.memory.claims.reconcile_at_next_event(claim);
            return Action::requeue(CONFLICT_RETRY);
        }
        self.metrics.reconcile_failed("claim");
        tracing::warn!(claim.name = %name_of(claim), "failed to {}", chain(error));
        let after = match error {
            Error::OpenStack(error) => error.retry_after.unwrap_or(RETRY),
            _ => RETRY,
        };
        Action::requeue(self.clock.jitter(after, 0.5))
    }

    fn skip(&self, observed: &Observed, reason: &SkipReason) -> Action {
        self.memory.claims.set_release_failing(&observed.claim, false);
        if reason.may_end_with_the_pool() {
            self.memory.claims.skip(&observed.claim);
        }
        match reason {
            SkipReason::Bound(_) => {
                self.memory.claims.end_waiting(&observed.claim);
                Action::await_change()
            }
            SkipReason::AddressAwaited => Action::requeue(ADDRESS_APPEARS_WITHIN),
            _ => {
                self.end_idle_holds(&observed.name);
                Action::await_change()
            }
        }
    }

    /// The younger claims need not wait for this one.
    fn leave_queue(&self, observed: &Observed) {
        if self.memory.claims.set_queued(&observed.claim, None, false) {
            self.wake.waiting_claims_of(&observed.pool_name);
        }
    }

    /// Awaits a step. Unless the claim has its IPAddress, its condition then says what Kubernetes refuses; what OpenStack
    /// refuses is reported where it happens.
    async fn or_refused(
        &self,
        observed: &Observed,
        step: impl Future<Output = Result<Action, Error>>,
    ) -> Result<Action, Error> {
        let result = step.await;
        if let Err(error @ Error::Kubernetes(..)) = &result
            && let Some(why) = error.for_condition()
            && !observed.has_bound_address()
        {
            self.report_failed(observed, why).await?;
        }
        result
    }

    /// Gives the claim its address: request → protect → attempt → publish → report.
    async fn serve(&self, observed: &Observed, scope: AllocationScope) -> Result<Action, Error> {
        let Some(pool) = observed.pool_state.resolved.clone() else { return Ok(Action::await_change()) };
        if self.is_deletion_unseen(observed).await? {
            return Ok(Action::await_change());
        }
        if self.is_address_gone(observed).await? {
            return Ok(Action::requeue(OUTDATED_RETRY));
        }
        if needs_listing(observed, &pool)
            && let Err(error) = pool.list_now(&self.clock).await
        {
            return self.conclude(observed, &pool, AttemptOutcome::after_failure(&pool, error)).await;
        }
        let request = match build_request(observed, &pool) {
            Ok(request) => request,
            Err(message) => {
                self.leave_queue(observed);
                let given_up = self.give_up_unknown_address(observed).await;
                let (message, given_up) = self.add_failure(observed, message, KEPT_ADDRESS, given_up);
                self.report_failed(observed, message).await?;
                if let Err(retry) = given_up {
                    return Ok(retry);
                }
                if let Err(error) = self.give_up_choices(observed, &pool).await {
                    // What it says may last. The condition says what ends it in any case.
                    tracing::warn!(claim.name = %observed.name, "failed to give up what was chosen: {}", chain(&error));
                    return Ok(Action::requeue(self.clock.jitter(UNRECOVERED_RETRY, 0.5)));
                }
                return Ok(Action::requeue(self.clock.jitter(FOREIGN_ADDRESS_RETRY, 0.5)));
            }
        };
        self.protect(observed).await?;
        let is_lost = self.memory.claims.is_lost(&observed.claim);
        let mut attempt = Attempt::new(self, &pool, request, scope, is_lost);
        let outcome = attempt.allocate().await;
        let keeps_place = match outcome {
            // It is about to choose, and no younger claim gets what is there for it.
            AttemptOutcome::Refused(_) | AttemptOutcome::AddressGone | AttemptOutcome::Fenced(_) => true,
            // If it left, two claims would take turns with an address that cannot be marked, each as soon as the other failed.
            AttemptOutcome::Failed(_) => attempt.has_failed_empty_handed || attempt.expects_refusal(),
            AttemptOutcome::Wait(..) => attempt.expects_refusal(),
            AttemptOutcome::Bound(..)
            | AttemptOutcome::Lost(_)
            | AttemptOutcome::Changed
            | AttemptOutcome::NothingLeft => false,
        };
        let position = keeps_place.then(|| attempt.request.queue_position());
        let has_failed = matches!(outcome, AttemptOutcome::Failed(_));
        // One that is tried again at once stays where it is.
        if !matches!(outcome, AttemptOutcome::Changed) {
            self.memory.claims.set_queued(&observed.claim, position, has_failed);
        }
        self.conclude(observed, &pool, outcome).await
    }

    /// Publishes again the address that the claim had, if a recent listing has it: the pool of the claim has a problem, and
    /// may not have been listed since.
    async fn recover(&self, observed: &Observed) -> Result<Action, Error> {
        let Some(pool) = observed.pool_state.resolved.clone() else { return Ok(Action::await_change()) };
        match pool.list_if_older(&self.clock, BUSY_AGE).await {
            Ok(()) => self.serve(observed, AllocationScope::OwnAddress).await,
            Err(_) => self.report_unrecovered(observed).await,
        }
    }

    async fn conclude(
        &self,
        observed: &Observed,
        pool: &ResolvedPool,
        outcome: AttemptOutcome,
    ) -> Result<Action, Error> {
        match outcome {
            AttemptOutcome::Bound(fip, origin) => {
                self.publish(observed, pool, &fip, origin).await?;
                // Not earlier: the hold keeps other claims away until the address is published.
                pool.project.ledger().note_bound(&fip.id, &pool.policy.id, &observed.key);
                if !self.report_bound(observed, pool, &fip, origin).await? {
                    self.remove_address_without_claim(observed).await?;
                }
                Ok(Action::await_change())
            }
            AttemptOutcome::Refused(refusal) => {
                let waits_for_any = |claim: &ObjectName| !pool.policy.reservations.contains_key(&claim.name);
                let position = observed.queue_position();
                let is_after_failed = waits_for_any(&observed.name)
                    && self.memory.claims.is_after_failed(&pool.name, &position, waits_for_any);
                let message = if is_after_failed { AFTER_FAILED.into() } else { refusal.to_string() };
                self.report_exhausted(observed, message).await?;
                // A release, an edit of the pool, or the pool's timer wakes it.
                Ok(Action::await_change())
            }
            AttemptOutcome::Wait(how_long, message) => {
                self.report_failed(observed, message).await?;
                Ok(Action::requeue(how_long))
            }
            AttemptOutcome::Fenced(how_long) => {
                self.report_failed(observed, FENCED.into()).await?;
                Ok(Action::requeue(how_long))
            }
            AttemptOutcome::Changed => Ok(Action::requeue(CHANGED_RETRY)),
            AttemptOutcome::NothingLeft if observed.is_pool_being_deleted() => {
                self.release_waiting(observed, pool_is_being_deleted(observed)).await
            }
            AttemptOutcome::NothingLeft => self.report_unrecovered(observed).await,
            AttemptOutcome::Lost(lost) => {
                self.end_idle_holds(&observed.name);
                let given_up = self.give_up_deleted_address(observed).await;
                let (message, given_up) = self.add_failure(observed, lost.to_string(), KEPT_ADDRESS, given_up);
                self.report_lost(observed, lost.reason(), message).await?;
                Ok(given_up.err().unwrap_or_else(|| Action::requeue(self.clock.jitter(MANUAL_RETRY, 0.5))))
            }
            AttemptOutcome::AddressGone => {
                self.report_address_gone(observed).await?;
                // The watch wakes it sooner, when it delivers the claim without the reference.
                Ok(Action::requeue(RETRY))
            }
            AttemptOutcome::Failed(error) => self.fail(observed, pool, error).await,
        }
    }

    async fn fail(&self, observed: &Observed, pool: &ResolvedPool, error: openstack::Error) -> Result<Action, Error> {
        if self.memory.pools.become_stale_after(&pool.name, &error, self.clock.now()) {
            self.wake.pool(&pool.name);
        }
        self.report_failed(observed, explain(&error)).await?;
        Err(Error::OpenStack(error))
    }

    /// The address that the claim had is not found, and its pool gives it no other now. A change of the pool that does not
    /// end its problem wakes no claim, so it is tried again.
    async fn report_unrecovered(&self, observed: &Observed) -> Result<Action, Error> {
        self.report_waiting(observed, POOL_NOT_READY, why_nothing_new(observed)).await?;
        Ok(Action::requeue(self.clock.jitter(UNRECOVERED_RETRY, 0.5)))
    }

    async fn release_being_deleted(&self, observed: &Observed) -> Result<Action, Error> {
        let result = self.release(observed).await;
        if self.memory.claims.set_release_failing(&observed.claim, result.is_err()) {
            self.wake.report_soon(&observed.pool_name);
        }
        if let Some(why) = result.as_ref().err().and_then(Error::for_condition) {
            self.report_release_failed(observed, &why).await?;
        }
        result
    }

    /// Releases what may be marked for a claim that cannot get an address from its pool now, and leaves it waiting. Another
    /// writer's IPAddress stays.
    async fn release_waiting(&self, observed: &Observed, message: String) -> Result<Action, Error> {
        let released = match observed.address {
            None => self.release(observed).await,
            Some(_) => self.release_with(observed, None).await,
        };
        let (message, released) = self.add_failure(observed, message, "its address cannot be released yet", released);
        self.report_waiting(observed, POOL_NOT_READY, message).await?;
        Ok(released.unwrap_or_else(|retry| retry))
    }

    /// Adds a failure to a message that a claim gets anyway: reported separately, each report would wake the claim to write
    /// the other one. The error becomes its retry.
    fn add_failure<T>(
        &self,
        observed: &Observed,
        message: String,
        what: &str,
        result: Result<T, Error>,
    ) -> (String, Result<T, Action>) {
        match result {
            Ok(done) => (message, Ok(done)),
            Err(error) => {
                let why = error.for_condition().map(|why| format!("; {what}: {why}"));
                (message + why.as_deref().unwrap_or_default(), Err(self.on_error(&observed.claim, &error)))
            }
        }
    }

    /// Adds the finalizer before anything is done in Neutron, so that the claim cannot disappear meanwhile.
    async fn protect(&self, observed: &Observed) -> Result<(), Error> {
        if observed.is_protected() {
            return Ok(());
        }
        let api = self.kube.claims(&observed.name.namespace);
        let failed = |error| Error::Kubernetes("add the finalizer to the claim", error);
        let whole = with_all_references(&api, observed.claim.as_ref()).await.map_err(failed)?;
        let Some(change) = patch::with_finalizer(&whole.metadata, CLAIM_FINALIZER) else { return Ok(()) };
        let claim = patch::merge(&api, &observed.name.name, change).await.map_err(failed)?;
        self.memory.claims.note_written(&claim);
        Ok(())
    }

    /// Whether a claim whose IPAddress is gone was deleted, and the watch has not delivered that. Without this check, its
    /// released address would be taken back, or another one created, and nothing would be written to the claim that
    /// shows that it is gone: its finalizer and its status are as they should be.
    async fn is_deletion_unseen(&self, observed: &Observed) -> Result<bool, Error> {
        if !observed.is_bound() || !observed.has_no_address() {
            return Ok(false);
        }
        let found = find(&self.kube.claims(&observed.name.namespace), &observed.name.name).await;
        let found = found.map_err(|error| Error::Kubernetes("read the claim", error))?;
        let is_active =
            |found: &IpAddressClaim| found.uid() == observed.claim.uid() && found.metadata.deletion_timestamp.is_none();
        Ok(!found.is_some_and(|found| is_active(&found)))
    }

    /// Whether the watch still shows an IPAddress that no longer exists: it belonged to a former claim with this name, and the
    /// watch has not delivered its deletion. One that names this claim as its owner stays until the claim is released.
    async fn is_address_gone(&self, observed: &Observed) -> Result<bool, Error> {
        let is_its_own = |address: &&IpAddress| observed.claim.uid().is_some_and(|uid| address.has_owner(&uid));
        let Some(shown) = observed.address.as_deref().filter(|address| !is_its_own(address)) else { return Ok(false) };
        Ok(self.read_address(observed).await?.is_none_or(|found| found.uid() != shown.uid()))
    }

    /// The IPAddress with the claim's name, even if the watch has not delivered it.
    async fn read_address(&self, observed: &Observed) -> Result<Option<IpAddress>, Error> {
        let found = find(&self.kube.addresses(&observed.name.namespace), &observed.name.name).await;
        found.map_err(|error| Error::Kubernetes("read the IPAddress", error))
    }

    /// Whether the pool exists but the watch has not delivered it. Claims and pools are watched separately; without this
    /// check, the pool would be reported as missing, or its addresses left behind.
    async fn is_pool_unseen(&self, observed: &Observed) -> Result<bool, Error> {
        if observed.pool.is_some() || !observed.claim.spec.pool_ref.is_ours() || !is_name(&observed.pool_name.name) {
            return Ok(false);
        }
        let found = find(&self.kube.pools(&observed.pool_name.namespace), &observed.pool_name.name).await;
        let found = found.and_then(|found| found.map(Guarded::into_object).transpose());
        Ok(found.map_err(|error| Error::Kubernetes("read the pool", error))?.is_some())
    }
}
