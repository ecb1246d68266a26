//! The sweeper: released addresses, orphans, spares. One sweep at a time for each pool, with its calls in parallel.
//!
//! Stages: strays → plan → perform → spares → labels, in rounds until nothing is left to do.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use tokio::time::Instant;

use super::claim::{self, MarkRelease, is_claimed, release_marks, remove_address};
use super::kubernetes::Kubernetes;
use super::memory::{Memory, Problem, ResolvedPool, UpkeepPart};
use super::neutron_writer::{NeutronWriter, PARALLEL_ACTIONS};
use super::objects::{is_abandoned, is_owned_by, is_watched, read_published};
use super::panics::HeldBack;
use super::pool::{Duplicates, pools_with_id};
use super::queue::Action;
use super::stores::{Stores, may_serve, name_of};
use super::wake::Wake;
use super::watch::readable;
use crate::allocation::ClaimKey;
use crate::allocation::ledger::Hold;
use crate::allocation::mark::Ownership;
use crate::allocation::sweep::{
    ClusterView, SweepAction, SweepPlan, SweepScope, count_outdated, is_still_orphaned, is_still_unneeded, plan_sweep,
    prefers_listing,
};
use crate::api::conditions::pool_reasons::{DUPLICATE_POOL_ID, KUBERNETES_REFUSED};
use crate::api::hands_off::HandsOff;
use crate::api::{IpAddress, OpenStackFloatingIPPool};
use crate::clock::{Clock, instant_after};
use crate::floating_ip::FloatingIpId;
use crate::metrics::{Metrics, ReleasedAs};
use crate::object_name::ObjectName;
use crate::openstack;
use crate::runtime::telemetry::chain;

mod labels;
mod progress;
mod spares;

pub(super) use labels::LabelMemory;
use progress::Progress;

/// How soon something that failed, or must be listed again, is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// How long a sweep lets its project's tags go first. Its deletions would wait behind them, and what was listed would be
/// outdated by the time that they have their turn.
const LONGEST_TAGGING: Duration = Duration::from_secs(10);
const TAGGING_POLL: Duration = Duration::from_millis(100);
/// How long after the time for which a sweep was planned it begins.
const WAKE_MARGIN: Duration = Duration::from_millis(50);
/// More rounds than a sweep needs. The next sweep does what is left.
const ROUNDS: usize = 16;

/// Why a sweep failed. It is tried again.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("call OpenStack")]
    OpenStack(#[source] openstack::Error),
    #[error("remove an IPAddress whose claim is gone")]
    Stray(#[source] claim::Error),
}

impl Error {
    /// For the pool's condition. None for what passes.
    fn problem(&self) -> Option<Problem> {
        match self {
            Self::OpenStack(error) | Self::Stray(claim::Error::OpenStack(error)) => Some(Problem::of_call(error)),
            Self::Stray(error) => error.for_condition().map(|message| Problem { reason: KUBERNETES_REFUSED, message }),
        }
    }
}

pub(super) struct Sweeper {
    pub(super) stores: Stores,
    pub(super) memory: Arc<Memory>,
    pub(super) kube: Kubernetes,
    pub(super) wake: Wake,
    pub(super) metrics: Metrics,
    pub(super) clock: Clock,
    pub(super) held_back: HeldBack,
    /// The label value of the pools that this controller serves, where it is given.
    pub(super) watch_filter: Option<String>,
}

impl Sweeper {
    pub(super) async fn reconcile(&self, pool: Arc<OpenStackFloatingIPPool>) -> Result<Action, Error> {
        let result = self.clean_up(&pool).await;
        if let Some(problem) = result.as_ref().err().and_then(Error::problem) {
            self.note_upkeep(&name_of(pool.as_ref()), UpkeepPart::Sweep, Some(problem));
        }
        result
    }

    /// The pool's condition says what fails.
    fn note_upkeep(&self, pool: &ObjectName, part: UpkeepPart, problem: Option<Problem>) {
        if self.memory.pools.update(pool, |state| state.upkeep.note(part, problem)) == Some(true) {
            self.wake.report_soon(pool);
        }
    }

    async fn clean_up(&self, pool: &Arc<OpenStackFloatingIPPool>) -> Result<Action, Error> {
        let name = name_of(pool.as_ref());
        if !is_watched(pool, self.watch_filter.as_deref()) || HandsOff::of(&pool.metadata).is_some() {
            return Ok(Action::await_change());
        }
        if let Some((rest, _)) = self.held_back.find(&name.namespace, self.clock.now()) {
            return Ok(Action::requeue(rest));
        }
        let is_being_deleted = pool.metadata.deletion_timestamp.is_some();
        let copies = self.remove_deleted_copies(&name).await;
        if is_being_deleted && is_abandoned(pool.as_ref()) {
            return copies.and(self.release_strays(pool, None).await).map(|_| Action::await_change());
        }
        let known = self.memory.pools.get(&name);
        let Some(resolved) = known.resolved else { return copies.map(|()| Action::await_change()) };
        // What keeps one IPAddress from its release does not keep the others from the sweep.
        let strays = copies.and(self.release_strays(pool, Some(&resolved)).await);
        // The marks with the id of a copy are another pool's. What says so may have changed since its last reconcile.
        let is_copy = || {
            known.problem.is_some_and(|problem| problem.reason == DUPLICATE_POOL_ID)
                || Duplicates { stores: &self.stores, memory: &self.memory }.has_original(pool, &resolved)
        };
        // A pool that is being deleted has a plan of its own.
        if is_being_deleted || is_copy() || resolved.project.ledger().is_unlisted(resolved.policy.viewer) {
            if is_being_deleted && strays.is_ok() {
                self.note_upkeep(&name, UpkeepPart::Sweep, None);
            }
            return strays.map(|fenced_until| self.after_fence(fenced_until));
        }
        let (result, has_changed) = self.sweep(&resolved).await;
        // The IPAddress of an orphan that was released just now goes with it.
        let strays = if has_changed { strays.and(self.release_strays(pool, Some(&resolved)).await) } else { strays };
        if result.as_ref().is_ok_and(|plan| plan.offered > 0) {
            self.wake.waiting_claims_of(&name);
        }
        if let Err(error) = &result
            && self.memory.pools.become_stale_after(&name, error, self.clock.now())
        {
            self.wake.pool(&name);
        }
        let plan = result.map_err(Error::OpenStack)?;
        let fenced_until = strays.as_ref().ok().copied().flatten();
        let next = self.next_sweep(&name, &plan, fenced_until);
        self.label(&resolved, &plan).await;
        // Others do not visit all, or wait until what failed can no longer take effect.
        if plan.scope == SweepScope::All && !plan.must_list && strays.is_ok() {
            self.note_upkeep(&name, UpkeepPart::Sweep, None);
        }
        strays.map(|_| next)
    }

    pub(super) fn on_error(&self, pool: &OpenStackFloatingIPPool, error: &Error) -> Action {
        self.metrics.reconcile_failed("sweeper");
        tracing::warn!(pool.name = %name_of(pool), "failed to {}", chain(error));
        let after = match error {
            Error::OpenStack(error) | Error::Stray(claim::Error::OpenStack(error)) => {
                error.retry_after.unwrap_or(RETRY)
            }
            Error::Stray(_) => RETRY,
        };
        Action::requeue(self.clock.jitter(after, 0.5))
    }

    /// Sweeps until nothing is left to do. Returns the last plan, with the tags to add, and whether anything was done.
    async fn sweep(&self, pool: &ResolvedPool) -> (Result<SweepPlan, openstack::Error>, bool) {
        let (mut result, mut has_changed, mut has_listed) = (Ok(SweepPlan::default()), false, false);
        let mut labels = Vec::new();
        let tags_go_first_until = instant_after(Instant::now(), LONGEST_TAGGING);
        for _ in 0..ROUNDS {
            let rest = self.memory.pools.update(&pool.name, |state| state.rest_before_plan(Instant::now()));
            tokio::time::sleep(rest.unwrap_or_default()).await;
            if !self.may_go_on(pool) {
                // What was planned may not be done.
                result = result.map(|plan| SweepPlan { scope: SweepScope::Unsettled, ..plan });
                break;
            }
            let mut plan = self.plan(pool);
            match plan.scope {
                SweepScope::All => labels.clone_from(&plan.labels),
                // Only a sweep of all finds them.
                SweepScope::Unsettled => plan.labels.clone_from(&labels),
            }
            let is_listing = plan.must_list && plan.actions.is_empty();
            if is_listing && !has_listed && plan.scope == SweepScope::All {
                // What it would do after the listing, the next round does: a later sweep of all would have to list again.
                self.memory.pools.update(&pool.name, |state| state.next_full_sweep = None);
            }
            let (changes, performed) = match is_listing {
                true => {
                    self.let_tags_go_first(pool, tags_go_first_until).await;
                    (0, self.list(pool).await)
                }
                false => self.perform_all(pool, &plan).await,
            };
            if changes > 0 {
                has_changed = true;
                pool.project.ledger().retry_creation(&pool.policy.id);
                self.wake.report_soon(&pool.name);
                self.wake.waiting_claims_of(&pool.name);
            }
            // Another listing would show the same, unless something was changed in between.
            let is_done = if is_listing { has_listed } else { changes == 0 && plan.actions.is_empty() };
            has_listed = is_listing || has_listed && changes == 0;
            // What was not sent since the session ended looks like a conflict. The next session sweeps.
            if performed.is_err() && pool.session.has_ended() {
                continue;
            }
            result = performed.map(|()| plan);
            if is_done || result.is_err() {
                break;
            }
        }
        (result, has_changed)
    }

    /// Whether the pool still serves, with the session and the policy with which the sweep began. What it plans with the
    /// former policy, such as thousands of deletions, is not done after a change to `Retain`. Nor is anything done while a
    /// watch is interrupted: the stores may be out of date.
    fn may_go_on(&self, pool: &ResolvedPool) -> bool {
        let has_policy = |known: &ResolvedPool| known.policy == pool.policy;
        self.stores.is_serving(&pool.name)
            && !self.memory.interruptions.is_any()
            && !pool.session.has_ended()
            && self.memory.pools.update(&pool.name, |state| state.resolved.as_deref().is_some_and(has_policy))
                == Some(true)
    }

    /// Whether the API server still has the pool, and it is not being deleted. A spare is created for the pool alone, and
    /// would be left behind if the watch were late.
    async fn has_pool(&self, pool: &ResolvedPool) -> bool {
        let name = &pool.name;
        let Some(known) = self.stores.pool(name) else { return false };
        match self.kube.pool_metadata(name).await {
            Ok(now) => {
                let now = now.and_then(readable).map(|now| now.metadata);
                now.is_some_and(|now| now.uid == known.metadata.uid && may_serve(&now))
            }
            Err(error) => {
                tracing::warn!(pool.name = %name, "failed to read the pool before a spare is created: {error}");
                false
            }
        }
    }

    async fn list(&self, pool: &ResolvedPool) -> Result<(), openstack::Error> {
        let rest = pool.project.ledger().rest_before_listing(self.clock.now());
        tokio::time::sleep(Duration::try_from(rest).unwrap_or_default()).await;
        pool.list_now(&self.clock).await
    }

    /// Waits while tags are written in the project, and none of its claims waits.
    async fn let_tags_go_first(&self, pool: &ResolvedPool, until: Instant) {
        let project = &pool.project;
        while project.is_tagging()
            && Instant::now() < until
            && !self.memory.claims.is_any_queued_in(&project.namespaces())
        {
            tokio::time::sleep(TAGGING_POLL).await;
        }
    }

    /// Performs a plan; returns how much was changed, and a failure.
    async fn perform_all(&self, pool: &ResolvedPool, plan: &SweepPlan) -> (usize, Result<(), openstack::Error>) {
        let mut results = self.perform_actions(pool, &plan.actions).await;
        let new_spares = if plan.new_spares > 0 && self.has_pool(pool).await { plan.new_spares } else { 0 };
        results.extend(self.create_spares(pool, new_spares).await);
        let changes = results.iter().filter(|result| matches!(result, Ok(true))).count();
        // The same one each time, whatever order they end in: the pool's condition names it.
        let failure = results.into_iter().filter_map(Result::err).min_by_key(ToString::to_string);
        (changes, failure.map_or(Ok(()), Err))
    }

    /// Performs actions in parallel. If OpenStack refuses one before it has done any, it probably refuses all: then what has
    /// not begun is left to the next sweep, which begins with others. Of many deletions, those whose turn comes so late that
    /// they would need a read first are left to the next plan, which lists for all of them.
    async fn perform_actions(
        &self,
        pool: &ResolvedPool,
        actions: &[SweepAction],
    ) -> Vec<Result<bool, openstack::Error>> {
        let refused_sweeps = self.memory.pools.update(&pool.name, |state| state.refused_sweeps).unwrap_or_default();
        let begin = refused_sweeps.wrapping_mul(PARALLEL_ACTIONS).checked_rem(actions.len()).unwrap_or_default();
        let (former, first) = actions.split_at(begin);
        let deletions = actions.iter().filter(|action| matches!(action, SweepAction::Delete(_))).count();
        let progress = Progress::new(prefers_listing(&pool.project.ledger(), deletions, refused_sweeps));
        let perform = async |action: &SweepAction| {
            if progress.leaves(action) {
                pool.project.ledger().set_hold(action.id(), None);
                return Ok(false);
            }
            let result = self.perform(pool, action, || progress.leave_outdated()).await;
            progress.note(&result);
            result
        };
        let results = futures::stream::iter(first.iter().chain(former)).map(perform);
        let results: Vec<_> = results.buffer_unordered(PARALLEL_ACTIONS).collect().await;
        self.memory.pools.update(&pool.name, |state| {
            state.refused_sweeps = if progress.is_refused() { refused_sweeps.wrapping_add(1) } else { 0 };
        });
        results
    }

    /// Plans under the ledger's lock, and holds what is planned before anything else can choose it.
    fn plan(&self, pool: &ResolvedPool) -> SweepPlan {
        let (cluster, now) = (cluster_view(&self.stores, &self.memory, pool), self.clock.now());
        let mut ledger = pool.project.ledger();
        let count = ledger.count_of_pool(&pool.policy.id);
        let (scope, refused_sweeps) = self
            .memory
            .pools
            .update(&pool.name, |state| (state.begin_plan(count, Instant::now()), state.refused_sweeps))
            .unwrap_or_default();
        let mut plan =
            self.memory.with_situation(&ledger, pool, now, |situation| plan_sweep(situation, &cluster, scope));
        if prefers_listing(&ledger, count_outdated(&ledger, &plan.actions, now), refused_sweeps) {
            plan.actions.clear();
            plan.must_list = true;
        }
        for action in &plan.actions {
            ledger.set_hold(action.id(), Some(Hold::Cleanup));
        }
        if scope == SweepScope::Unsettled {
            return plan;
        }
        ledger.note_orphans(&pool.policy.id, &plan.orphans, now);
        let orphans = plan.orphans.iter().filter_map(|id| ledger.get(id));
        let mut orphans: Vec<_> = orphans.map(|entry| entry.fip.address).collect();
        orphans.sort();
        drop(ledger);
        let has_changed = self.memory.pools.update(&pool.name, |state| {
            let has_changed = state.orphans != orphans;
            state.orphans = orphans;
            has_changed
        });
        if has_changed == Some(true) {
            self.wake.report_soon(&pool.name);
        }
        plan
    }

    /// False if nothing was done, since the floating IP had changed or was left.
    async fn perform(
        &self,
        pool: &ResolvedPool,
        action: &SweepAction,
        leave_outdated: impl Fn() -> bool + Send + Sync,
    ) -> Result<bool, openstack::Error> {
        let is_release = matches!(action, SweepAction::Release(..) | SweepAction::Describe(..));
        let may_go_on = || self.may_go_on(pool) && (!is_release || self.may_release(pool, action.id()));
        if !may_go_on() {
            pool.project.ledger().set_hold(action.id(), None);
            return Ok(false);
        }
        let writer = NeutronWriter::new(pool, &self.clock).only_while(&may_go_on);
        if !writer.perform_while(is_still_unneeded, action, &self.memory, leave_outdated).await? {
            return Ok(false);
        }
        match action {
            SweepAction::Release(id, _) | SweepAction::Describe(id, _) => {
                pool.project.ledger().restart_grace_of_orphan(&pool.policy.id, id, self.clock.now());
            }
            SweepAction::Delete(_) => self.metrics.swept(ReleasedAs::Deleted),
            SweepAction::Rewrite { description: Some(_), .. } => self.metrics.swept(ReleasedAs::Retained),
            SweepAction::Rewrite { description: None, .. } => self.metrics.swept(ReleasedAs::Unmarked),
        }
        Ok(true)
    }

    /// Of thousands of releases, the last may have its turn minutes after it was planned.
    fn may_release(&self, pool: &ResolvedPool, id: &FloatingIpId) -> bool {
        let is_paused = self.stores.has_paused_cluster(&pool.name.namespace);
        let ledger = pool.project.ledger();
        self.memory
            .with_situation(&ledger, pool, self.clock.now(), |situation| is_still_orphaned(situation, id, is_paused))
    }

    /// For a pool without a plan: when the strays that wait for the end of a fence can be released.
    fn after_fence(&self, fenced_until: Option<Timestamp>) -> Action {
        fenced_until.map_or_else(Action::await_change, |at| Action::requeue(time_until(at, self.clock.now())))
    }

    fn next_sweep(&self, pool: &ObjectName, plan: &SweepPlan, fenced_until: Option<Timestamp>) -> Action {
        let full_sweep = self.memory.pools.update(pool, |state| state.next_full_sweep).flatten();
        let full_sweep = full_sweep.map(|at| at.saturating_duration_since(Instant::now())).unwrap_or_default();
        time_to_next_sweep(plan, fenced_until, self.clock.now(), full_sweep)
            .map_or_else(Action::await_change, Action::requeue)
    }

    /// Removes IPAddresses whose claim is gone without them, since its finalizers were removed by force: those that are
    /// being deleted, those of a pool that is being deleted, and those whose floating IP is no longer marked for the claim.
    /// `resolved` is none for an abandoned pool: nothing is released in OpenStack. What keeps one IPAddress from its
    /// release does not keep the others. Returns until when some have to wait.
    async fn release_strays(
        &self,
        pool: &OpenStackFloatingIPPool,
        resolved: Option<&ResolvedPool>,
    ) -> Result<Option<Timestamp>, Error> {
        let mut result = Ok(None);
        for address in self.stores.strays_of(&name_of(pool), &self.memory.claims) {
            let is_ending = pool.metadata.deletion_timestamp.is_some() || address.metadata.deletion_timestamp.is_some();
            if is_ending || resolved.is_some_and(|resolved| !may_be_needed(resolved, &address)) {
                let released = self.release_stray(pool, resolved, &address).await;
                result = released.and_then(|until| result.map(|earlier| until.into_iter().chain(earlier).min()));
            }
        }
        result
    }

    /// Removes IPAddresses that a user copied to another name and deleted: their claims have their own.
    async fn remove_deleted_copies(&self, pool: &ObjectName) -> Result<(), Error> {
        let mut result = Ok(());
        for address in self.stores.deleted_copies_of(pool, &self.memory.claims) {
            result = remove_address(&self.kube, &address).await.map_err(Error::Stray).and(result);
        }
        result
    }

    /// One whose owner references do not have this pool's UID was restored from a backup, and its claim may follow: its
    /// floating IP keeps its mark, as an orphan, and the claim has it again if it comes in time. Returns until when it has to
    /// wait.
    async fn release_stray(
        &self,
        pool: &OpenStackFloatingIPPool,
        resolved: Option<&ResolvedPool>,
        address: &IpAddress,
    ) -> Result<Option<Timestamp>, Error> {
        let claim = ObjectName::new(&name_of(pool).namespace, &address.spec.claim_ref.name);
        if is_claimed(&self.kube, address).await.map_err(Error::Stray)? {
            return Ok(None);
        }
        // Where all was lost and is being restored, the watch may still show the pool of before.
        let is_current = self.kube.is_current(pool).await;
        if !is_current.map_err(|error| Error::Stray(claim::Error::Kubernetes("read the pool", error)))? {
            return Ok(None);
        }
        if let Some(resolved) = resolved.filter(|_| is_owned_by(address, pool)) {
            // Without its claim, the IPAddress alone says what is left to release: it goes last.
            let released = release_marks(resolved, &self.memory, &self.clock, &claim, false).await;
            match released.map_err(|error| Error::Stray(claim::Error::OpenStack(error)))? {
                MarkRelease::Done | MarkRelease::Published => {}
                MarkRelease::Fenced(until) => return Ok(Some(until)),
            }
        }
        remove_address(&self.kube, address).await.map_err(Error::Stray)?;
        Ok(None)
    }
}

fn time_until(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default().saturating_add(WAKE_MARGIN)
}

/// How long after a sweep the pool is swept again; none where nothing is left to do. All its addresses may be visited after
/// `full_sweep`, and its strays be released after `fenced_until`.
fn time_to_next_sweep(
    plan: &SweepPlan,
    fenced_until: Option<Timestamp>,
    now: Timestamp,
    full_sweep: Duration,
) -> Option<Duration> {
    let planned = plan.wake_at.into_iter().chain(fenced_until).min();
    let again = match plan.scope {
        _ if plan.must_list || plan.new_spares > 0 => Some(RETRY),
        SweepScope::Unsettled => Some(full_sweep),
        SweepScope::All => None,
    };
    planned.map(|at| time_until(at, now)).into_iter().chain(again).min()
}

/// Whether a claim that is gone may still need the floating IP that its IPAddress names, if it comes back.
fn may_be_needed(pool: &ResolvedPool, address: &IpAddress) -> bool {
    let Some(binding) = read_published(address).and_then(|published| published.binding) else { return true };
    let (ledger, id) = (pool.project.ledger(), &pool.policy.id);
    ledger.is_unlisted(pool.policy.viewer)
        || ledger.get(&binding.fip).is_some_and(|entry| match entry.marks.ownership(id) {
            Ownership::Claimed(claim) => claim == binding.claim,
            Ownership::Contested => true,
            _ => !entry.is_confirmed(),
        })
}

pub(super) fn cluster_view(stores: &Stores, memory: &Memory, pool: &ResolvedPool) -> ClusterView {
    let (name, id) = (&pool.name, &pool.policy.id);
    let lost = stores.strays_of(name, &memory.claims);
    let stray_claims = lost.iter().map(|address| ClaimKey::of(&name.namespace, &address.spec.claim_ref.name)).collect();
    let duplicates = stores.pool(name).map(|pool| pools_with_id(stores, memory, id, &pool)).unwrap_or_default();
    let claims_of_duplicates =
        duplicates.iter().flat_map(|other| stores.claim_keys_of(&name_of(other.as_ref()))).collect();
    let is_paused = stores.has_paused_cluster(&name.namespace);
    ClusterView { stray_claims, claims_of_duplicates, is_paused }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocation::testing::{seconds, start};

    #[test]
    fn a_sweep_that_left_addresses_out_is_followed_by_one_of_all() {
        let (all, unsettled) =
            (SweepPlan::default(), SweepPlan { scope: SweepScope::Unsettled, ..SweepPlan::default() });
        let listing = |plan: &SweepPlan| SweepPlan { must_list: true, ..plan.clone() };
        let waking = |plan: &SweepPlan| SweepPlan { wake_at: Some(start() + seconds(1)), ..plan.clone() };
        let after = |plan: &SweepPlan| time_to_next_sweep(plan, None, start(), Duration::from_secs(2));
        let (woken, two) = (Duration::from_secs(1) + WAKE_MARGIN, Duration::from_secs(2));
        assert_eq!((after(&all), after(&unsettled)), (None, Some(two)));
        assert_eq!((after(&listing(&all)), after(&listing(&unsettled))), (Some(RETRY), Some(RETRY)));
        assert_eq!((after(&waking(&all)), after(&waking(&unsettled))), (Some(woken), Some(woken)));
        let fenced = |plan: &SweepPlan, after| {
            time_to_next_sweep(plan, Some(start() + seconds(after)), start(), Duration::from_secs(9))
        };
        assert_eq!((fenced(&all, 1), fenced(&waking(&all), 7)), (Some(woken), Some(woken)));
        let lacking = SweepPlan { new_spares: 1, ..all.clone() };
        assert_eq!(after(&lacking), Some(RETRY), "they were not created: the API server did not answer");
        let past = SweepPlan { wake_at: Some(start() - seconds(9)), ..listing(&all) };
        assert_eq!(after(&past), Some(WAKE_MARGIN));
    }
}
