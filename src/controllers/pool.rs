//! One pool's reconcile. The files are its stages: conflicts → resolve → adopt → secret → refresh → report; `teardown` for a
//! pool that is being deleted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::events::Events;
use super::explain::explain_refusal;
use super::kubernetes::Kubernetes;
use super::memory::{Memory, PoolState, Problem, ResolvedPool, UpkeepPart};
use super::objects::is_watched;
use super::panics::HeldBack;
use super::patch;
use super::queue::Action;
use super::stores::{Stores, name_of};
use super::wake::Wake;
use crate::allocation::mark::Ownership;
use crate::allocation::published::Binding;
use crate::allocation::{ClaimKey, Ledger, usage};
use crate::api::OpenStackFloatingIPPool;
use crate::api::conditions::claim_reasons::ALLOCATION_FAILED;
use crate::api::conditions::pool_reasons::{DUPLICATE_POOL_ID, KUBERNETES_REFUSED, NAME_CONFLICT};
use crate::api::hands_off::HandsOff;
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::object_name::ObjectName;
use crate::openstack;
use crate::runtime::telemetry::chain;

mod address_config_map;
mod adopt;
mod capo;
mod cluster_identity;
mod conflicts;
mod failure;
mod identity;
mod measure;
mod network;
mod policy;
mod report;
mod resolve;
mod secret;
mod teardown;

use identity::{known_id, recorded_id};

pub(super) use capo::CapoObjects;
pub(super) use cluster_identity::IdentityError;
pub(super) use conflicts::{Duplicates, pools_with_id};
pub(super) use failure::PoolFailure;
pub(super) use resolve::Resolver;
pub(super) use secret::finalizer as secret_finalizer;

/// How soon a pool with a problem is tried again: claims are served within 30 s after its cause is removed.
const PROBLEM_RETRY: Duration = Duration::from_secs(8);
/// How soon a pool is reconciled again while claims wait, or addresses of its list cannot be given.
const BUSY_RESYNC: Duration = Duration::from_secs(12);
/// How soon a pool without problems is reconciled again if it waits for something [of which nothing tells](
/// PoolController::is_polling).
const POLLED_RESYNC: Duration = Duration::from_secs(20);
/// How old the last listing is when a pool without problems is reconciled for the next one.
const IDLE_RESYNC: Duration = Duration::from_secs(63);
/// How old the last listing may be without problems: a little less than [`IDLE_RESYNC`]. With the jitter, at most one
/// listing a minute.
const AUDIT_AGE: Duration = Duration::from_secs(62);
/// How old the last listing may be while claims wait or addresses cannot be given: a little less than [`BUSY_RESYNC`].
pub(super) const BUSY_AGE: Duration = Duration::from_millis(9600);
/// How long claims and addresses that need manual action keep the listings frequent.
const BUSY_FOR: SignedDuration = SignedDuration::from_mins(10);
/// How soon a pool is reconciled again after a conflict, or with another session. The change that caused a conflict wakes it
/// sooner, unless the watch is late.
const CONFLICT_RETRY: Duration = Duration::from_secs(1);

/// Why a pool's reconcile failed. It is tried again.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("{0}")]
    Kubernetes(&'static str, #[source] kube::Error),
}

pub(super) struct PoolController {
    pub(super) resolver: Resolver,
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
    /// Whether it writes ConfigMaps with the addresses of pools that ask for one.
    pub(super) writes_address_config_maps: bool,
}

impl PoolController {
    pub(super) async fn reconcile(&self, pool: Arc<OpenStackFloatingIPPool>) -> Result<Action, Error> {
        let name = name_of(pool.as_ref());
        if self.memory.pools.put_off_if_outdated(&pool) {
            return Ok(Action::requeue(BUSY_RESYNC));
        }
        if !is_watched(&pool, self.watch_filter.as_deref()) {
            // The controller that serves it shows its metrics.
            self.metrics.pool_gone(&measure::labels(&pool));
            if self.end_session(&name, |_| true) {
                tracing::info!(pool.name = %name, "session ended: another controller serves the pool");
            }
            return Ok(Action::await_change());
        }
        if let Some(hands_off) = HandsOff::of(&pool.metadata) {
            self.memory.pools.update(&name, |state| state.was_paused = true);
            if hands_off == HandsOff::Moving {
                return Ok(Action::await_change());
            }
            self.report_paused(&pool).await?;
            return Ok(self.join_project(&pool).await);
        }
        self.leave_overwritten_id(&pool);
        if let Some((rest, message)) = self.held_back.find(&name.namespace, self.clock.now()) {
            self.report_held_back(&pool, message).await?;
            return Ok(Action::requeue(rest));
        }
        let result = match pool.metadata.deletion_timestamp {
            Some(_) => self.tear_down(&pool).await,
            None => self.serve(&pool).await,
        };
        self.wake.skipped_claims_of(&name);
        result
    }

    pub(super) fn on_error(&self, pool: &OpenStackFloatingIPPool, error: &Error) -> Action {
        let Error::Kubernetes(_, source) = error;
        if patch::is_conflict(source) {
            self.memory.pools.update(&name_of(pool), PoolState::reconcile_at_next_event);
            return Action::requeue(CONFLICT_RETRY);
        }
        self.metrics.reconcile_failed("pool");
        tracing::warn!(pool.name = %name_of(pool), "failed to {}", chain(error));
        Action::requeue(self.clock.jitter(PROBLEM_RETRY, 0.25))
    }

    /// Makes the pool serve, or reports why it cannot.
    async fn serve(&self, pool: &Arc<OpenStackFloatingIPPool>) -> Result<Action, Error> {
        let before = self.memory.pools.get(&name_of(pool.as_ref()));
        let resolved = match self.or_refused(pool, self.resolver.resolve(pool)).await? {
            Ok(resolved) => resolved,
            Err(failure) => return self.fail(pool, failure).await,
        };
        if before.resolved.as_ref().is_some_and(|before| before.policy.id != resolved.policy.id) {
            // Its id was overwritten meanwhile.
            return Ok(Action::requeue(CONFLICT_RETRY));
        }
        // First, so that a pool that has something to clean up has the credentials for it.
        if let Err(failure) = self.protect_secret(pool).await {
            return self.fail(pool, failure).await;
        }
        let pool = &self.or_refused(pool, self.adopt(pool, &resolved)).await?;
        self.look_for_clusters(&resolved).await;
        let changes = Changes::between(&before, &resolved, pool);
        if let Err(error) = self.refresh(&resolved, &changes).await {
            if !resolved.neutron.is_current() {
                // The token was renewed meanwhile. The next session says which project it is for, and where Neutron is.
                return Ok(Action::requeue(CONFLICT_RETRY));
            }
            return self.fail(pool, PoolFailure::Neutron(error)).await;
        }
        // Asked again: only a listing shows the marks of another pool's claims.
        if let Some(problem) = self.resolver.duplicates().in_project(pool, &resolved) {
            return self.fail(pool, PoolFailure::Conflict(problem)).await;
        }
        self.begin_serving(pool, &resolved, &changes);
        // After the claims were woken, which do not wait for a metric.
        if resolved.project.quota.refresh(resolved.neutron.quota(), &self.clock).await {
            resolved.project.ledger().note_room_in_quota();
        }
        self.wake.sweeper(&resolved.name);
        self.wake.waiting_claims_of(&resolved.name);
        // After the wakes, since it may take a while.
        let config_map = self.keep_address_config_map(pool, Some(&resolved), true).await;
        let is_idle = self.report_serving(pool, &resolved, config_map).await?;
        let has_former_secrets = self.leave_former_secrets(pool).await?;
        Ok(Action::requeue(match is_idle {
            false => self.clock.jitter(BUSY_RESYNC, 0.2),
            true if has_former_secrets || self.is_polling(pool, &resolved) => self.clock.jitter(POLLED_RESYNC, 0.2),
            // Not from now: the listing may be that of another pool, or of a reconcile some time ago.
            true => {
                self.clock.jitter(IDLE_RESYNC, 0.2).saturating_sub(self.age_of_listing(&resolved)).max(CONFLICT_RETRY)
            }
        }))
    }

    /// Whether the pool waits for something of which nothing tells, or depends on objects that are read and not watched.
    /// CAPO's pools and clusters are not watched either, and are read once for each listing, unless that fails.
    fn is_polling(&self, pool: &OpenStackFloatingIPPool, resolved: &ResolvedPool) -> bool {
        let is_unknown = resolved.project.quota.has_failed()
            || resolved.reuses() && self.memory.published.read().is_unknown_what_capo_names();
        // Meanwhile no orphan is released.
        let is_paused = self.stores.has_paused_cluster(&resolved.name.namespace);
        let is_read = pool.spec.identity_ref.cluster_identity().is_some() || address_config_map::may_exist(pool);
        is_read || is_unknown || is_paused
    }

    fn age_of_listing(&self, resolved: &ResolvedPool) -> Duration {
        let listed = resolved.project.ledger().listing_ended(resolved.policy.viewer);
        listed.map_or(Duration::MAX, |at| Duration::try_from(self.clock.now().duration_since(at)).unwrap_or_default())
    }

    /// Does a step before which nothing is reported. The pool's condition says what Kubernetes refuses.
    async fn or_refused<T>(
        &self,
        pool: &OpenStackFloatingIPPool,
        step: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let done = step.await;
        if let Err(Error::Kubernetes(what, error)) = &done
            && let Some(message) = explain_refusal(what, error)
        {
            // A pool that serves already goes on. The others' claims wait, whatever is known for their releases.
            if !self.memory.pools.get(&name_of(pool)).is_ready() {
                self.note_problem(pool, Problem { reason: KUBERNETES_REFUSED, message: message.clone() });
            }
            if let Err(error) = self.report_refused(pool, message).await {
                tracing::warn!(pool.name = %name_of(pool), "failed to report what Kubernetes refuses: {}", chain(&error));
            }
            if self.memory.pools.get(&name_of(pool)).resolved.is_none() {
                self.resolve_for_releases(pool).await;
            }
        }
        done
    }

    /// Opens the session of a paused pool, as it had one before a restart: what Kubernetes names in its namespace counts for
    /// the other pools of its project.
    async fn join_project(&self, pool: &OpenStackFloatingIPPool) -> Action {
        let has_session = || self.memory.pools.resolved_of(pool).is_some();
        if !has_session() {
            self.resolve_for_releases(pool).await;
            // Another controller may serve it until it is resumed here.
            self.memory.pools.update(&name_of(pool), PoolState::forget_takeover);
        }
        if has_session() { Action::await_change() } else { Action::requeue(self.clock.jitter(POLLED_RESYNC, 0.2)) }
    }

    /// Reads what CAPO's clusters name, for `spec.reuse`.
    async fn look_for_clusters(&self, resolved: &ResolvedPool) {
        let listed = if resolved.reuses() { self.resolver.capo.refresh_clusters(false).await } else { Ok(()) };
        let problem = match listed {
            Ok(()) => None,
            Err(error) => {
                tracing::warn!(pool.name = %resolved.name, "failed to list CAPO's clusters: {error}");
                // What passes changes nothing.
                let Some(why) = explain_refusal("list CAPO's OpenStackClusters", &error) else { return };
                Some(Problem { reason: KUBERNETES_REFUSED, message: format!("spec.reuse has no effect: {why}") })
            }
        };
        self.memory.pools.update(&resolved.name, |state| state.upkeep.note(UpkeepPart::Clusters, problem));
    }

    fn begin_serving(&self, pool: &OpenStackFloatingIPPool, resolved: &Arc<ResolvedPool>, changes: &Changes) {
        self.memory.pools.update(&resolved.name, |state| state.serve(resolved.clone(), pool));
        if changes.has_changed {
            resolved.project.ledger().reset_backoff(&resolved.policy.id);
            match changes.is_new {
                true => {
                    self.wake.claims_of(&resolved.name, |_| true);
                    // Now it is known of which project this one is: of the pools with its id, one serves.
                    let others = pools_with_id(&self.stores, &self.memory, &resolved.policy.id, pool);
                    others.iter().for_each(|other| self.wake.pool(&name_of(other.as_ref())));
                }
                false => self.wake.unserved_claims_of(&resolved.name),
            }
        }
        self.wake_claims_with_wrong_marks(resolved);
    }

    async fn fail(&self, pool: &Arc<OpenStackFloatingIPPool>, mut failure: PoolFailure) -> Result<Action, Error> {
        let name = name_of(pool.as_ref());
        log_concealed(&name, &failure);
        self.end_session_after(&failure, pool);
        self.memory.pools.update(&name, |state| {
            if let Some(known) = state.resolved.take() {
                state.resolved = Some(Arc::new(self.resolver.with_present_spec(pool, &known)));
            }
        });
        let (retry_after, mut listed) = (failure.retry_after(pool), None);
        let has_no_session = || self.memory.pools.get(&name).resolved.is_none();
        let may_have_credentials = match &failure {
            PoolFailure::Network(_) | PoolFailure::Conflict(_) | PoolFailure::Neutron(_) => true,
            // Its Secret may only lack the finalizer.
            PoolFailure::Credentials(_) => has_no_session(),
            PoolFailure::Access(_) | PoolFailure::Session(_) => false,
        };
        if may_have_credentials {
            self.note_problem(pool, self.find_original(pool).unwrap_or_else(|| failure.problem()));
            self.resolve_for_releases(pool).await;
            listed = self.list_despite(pool, &failure).await;
            // Asked again: of which project the pool is may be known only now, and a listing shows the marks of other claims.
            if let Some(problem) = self.find_original(pool) {
                (failure, listed) = (PoolFailure::Conflict(problem), None);
            }
        }
        let problem = failure.problem();
        self.note_problem(pool, problem.clone());
        if let Some(resolved) = &listed {
            self.wake_claims_with_wrong_marks(resolved);
            self.wake.sweeper(&name);
        }
        // What is known may be old. Its claims may be released all the same.
        let known = self.memory.pools.get(&name).resolved;
        let config_map = self.keep_address_config_map(pool, known.as_deref(), listed.is_some()).await;
        self.report_failing(pool, &failure, listed.as_deref(), config_map).await?;
        if problem.reason != DUPLICATE_POOL_ID {
            self.restore_id(pool).await?;
        }
        self.leave_former_secrets(pool).await?;
        Ok(Action::requeue(self.clock.jitter(retry_after, 0.25)))
    }

    /// Wakes the claims whose conditions say what is wrong with their pool, if that is new.
    fn note_problem(&self, pool: &OpenStackFloatingIPPool, problem: Problem) {
        let name = name_of(pool);
        let is_new = self.memory.pools.update(&name, |state| {
            state.is_of(pool) && state.problem.replace(problem.clone()).as_ref() != Some(&problem)
        });
        if is_new == Some(true) {
            self.wake.waiting_claims_of(&name);
            self.wake.unserved_claims_of(&name);
        }
    }

    /// That another pool of the project has the pool's id, and the marks with it: whatever else is wrong with the pool.
    fn find_original(&self, pool: &OpenStackFloatingIPPool) -> Option<Problem> {
        let known = self.memory.pools.resolved_of(pool)?;
        self.resolver.duplicates().in_project(pool, &known)
    }

    /// Lists the project of a pool whose network is not found, or whose name CAPO has too. What was released, is an orphan,
    /// or has lost its mark needs neither.
    async fn list_despite(&self, pool: &OpenStackFloatingIPPool, failure: &PoolFailure) -> Option<Arc<ResolvedPool>> {
        if !matches!(failure, PoolFailure::Network(_)) && failure.problem().reason != NAME_CONFLICT {
            return None;
        }
        let resolved = self.memory.pools.get(&name_of(pool)).resolved?;
        // The marks with the id of a copy are another pool's.
        if self.resolver.duplicates().has_original(pool, &resolved) {
            return None;
        }
        resolved.list_to_serve(&self.clock, Some(AUDIT_AGE)).await.is_ok().then_some(resolved)
    }

    /// A pool that this process never saw serving, or whose credentials have changed since, gets what a release needs. If
    /// that fails too, the claims wait.
    async fn resolve_for_releases(&self, pool: &OpenStackFloatingIPPool) {
        let name = name_of(pool);
        let known = self.memory.pools.get(&name).resolved;
        // A pool leaves its id only as `leave_overwritten_id` does.
        let id = known.as_ref().map(|known| known.policy.id.clone());
        let id = id.or_else(|| known_id(pool, &self.stores, &self.memory));
        // Also one with the id of another pool: the marks of its claims name these.
        let Some(id) = id else { return };
        let resolved = self.resolver.resolve_for_cleanup(pool, &id).await;
        if let Ok(resolved) = resolved.inspect_err(|failure| self.end_session_after(failure, pool))
            && known.is_none_or(|known| !Arc::ptr_eq(&known, &resolved))
        {
            self.memory.pools.update(&name, |state| state.release_with(resolved, pool));
            self.wake.unserved_claims_of(&name);
            self.wake.sweeper(&name);
        }
    }

    /// Ends the pool's session where it has the credentials of a cluster identity that the pool may no longer use. From
    /// then on nothing is released and nothing cleaned up, as after a restart.
    fn end_session_after(&self, failure: &PoolFailure, pool: &OpenStackFloatingIPPool) {
        let name = name_of(pool);
        if self.end_session(&name, |known| failure.ends_use_of(known.inputs.identity.as_deref(), pool)) {
            tracing::info!(pool.name = %name, "session ended: the pool may not use its cluster identity");
        }
    }

    /// Returns whether there was one to end. Claims of the pool hold nothing in the ledger that pools with access share.
    fn end_session(&self, pool: &ObjectName, is_ended: impl FnOnce(&ResolvedPool) -> bool) -> bool {
        let ended = self.memory.pools.update(pool, |state| state.end_session(is_ended, self.clock.now()));
        ended.flatten().is_some_and(|resolved| {
            self.memory.leave_ledger(&resolved, self.clock.now());
            true
        })
    }

    /// A pool that has nothing takes the id that was written over its own: its session with the old one ends first.
    fn leave_overwritten_id(&self, pool: &OpenStackFloatingIPPool) {
        let name = name_of(pool);
        let Some(known) = self.memory.pools.resolved_of(pool) else { return };
        let old = &known.policy.id;
        if recorded_id(pool, &self.stores, &self.memory).is_none_or(|id| id == *old) {
            return;
        }
        // Under the lock under which claims choose: none begins anything under the old id afterwards.
        let ledger = known.project.ledger();
        if ledger.has_any(old) {
            return;
        }
        self.memory.pools.update(&name, |state| state.end_session(|_| true, self.clock.now()));
        drop(ledger);
        self.memory.leave_ledger(&known, self.clock.now());
        tracing::info!(pool.name = %name, pool.id = %old, "session ended: another id was written over the pool's");
    }

    /// Makes sure that the listing is recent enough. A new or changed pool may refer to floating IPs that were created or
    /// tagged just before.
    async fn refresh(&self, resolved: &ResolvedPool, changes: &Changes) -> Result<(), openstack::Error> {
        let is_busy = || changes.had_problem || self.is_awaiting_changes(resolved);
        let age = match changes.has_changed && !changes.had_problem {
            true => None,
            false => Some(if is_busy() { BUSY_AGE } else { AUDIT_AGE }),
        };
        resolved.list_to_serve(&self.clock, age).await
    }

    /// Whether a change in Neutron would soon give a claim its address, or make an address available.
    fn is_awaiting_changes(&self, resolved: &ResolvedPool) -> bool {
        let now = self.clock.now();
        let is_recent = |since: Timestamp| now.duration_since(since) < BUSY_FOR;
        let failures = self.count(&resolved.project.ledger(), resolved).failures;
        let failed_since = self.memory.pools.update(&resolved.name, |state| state.note_failures(failures, now));
        let waiting = self.memory.claims.waiting(&resolved.name);
        failed_since.flatten().is_some_and(is_recent)
            || waiting.iter().any(|(_, claim)| claim.reason != ALLOCATION_FAILED || is_recent(claim.since))
    }

    fn count(&self, ledger: &Ledger, resolved: &ResolvedPool) -> usage::PoolUsage {
        self.memory.with_situation(ledger, resolved, self.clock.now(), usage::count)
    }

    /// Wakes the claims whose address has lost their mark, to restore it or to report what is wrong.
    fn wake_claims_with_wrong_marks(&self, resolved: &ResolvedPool) {
        let id = &resolved.policy.id;
        let wrong: BTreeSet<ClaimKey> = {
            let ledger = resolved.project.ledger();
            let is_right = |binding: &&Binding| {
                let entry = ledger.get(&binding.fip);
                entry.is_some_and(|entry| entry.marks.ownership(id) == Ownership::Claimed(binding.claim.clone()))
            };
            let published = self.memory.published.read();
            published.bindings_of_pool(id).filter(|it| !is_right(it)).map(|binding| binding.claim.clone()).collect()
        };
        if !wrong.is_empty() {
            let namespace = &resolved.name.namespace;
            self.wake.claims_of(&resolved.name, |claim| wrong.contains(&ClaimKey::of(namespace, &claim.name_any())));
        }
    }
}

/// What the conditions do not say. A failed authentication is logged where it is tried.
fn log_concealed(pool: &ObjectName, failure: &PoolFailure) {
    if let PoolFailure::Neutron(error) = failure
        && error.is_concealed
    {
        tracing::warn!(pool.name = %pool, %error, "OpenStack does not answer");
    }
}

/// What has changed since the pool's last reconcile.
struct Changes {
    /// It was not served before, or was paused: changes since then are not handled yet.
    is_new: bool,
    had_problem: bool,
    has_changed: bool,
}

impl Changes {
    fn between(before: &PoolState, resolved: &ResolvedPool, pool: &OpenStackFloatingIPPool) -> Self {
        let is_new = before.served_generation.is_none() || before.was_paused;
        let had_problem = before.problem.is_some();
        let has_changed = is_new
            || had_problem
            || before.resolved.as_ref().is_none_or(|old| old.policy != resolved.policy)
            || before.served_generation != pool.metadata.generation;
        Self { is_new, had_problem, has_changed }
    }
}
