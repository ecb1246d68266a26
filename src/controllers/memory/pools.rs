//! What is known of each pool.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::{Resource, ResourceExt};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::Upkeep;
use super::watched::{WatchedObject, hash, metadata_input};
use crate::allocation::policy::ReuseRule;
use crate::allocation::sweep::SweepScope;
use crate::allocation::usage::AddressFailure;
use crate::allocation::{PoolId, PoolPolicy};
use crate::api::OpenStackFloatingIPPool;
use crate::api::names::POOL_ID_ANNOTATION;
use crate::api::pool::OpenStackFloatingIPPoolStatus;
use crate::api::pool_network::{NetworkParam, SubnetParam};
use crate::clock::{Clock, instant_after};
use crate::controllers::project::ProjectHandle;
use crate::controllers::stores::name_of;
use crate::controllers::sweeper::LabelMemory;
use crate::object_name::ObjectName;
use crate::openstack::credentials::Fingerprint;
use crate::openstack::session::LANDS_WITHIN;
use crate::openstack::{self, CloudName, ErrorKind, Network, Neutron};
use crate::time::{after, before};

/// A pool with a session and a policy, ready to read and write floating IPs.
#[derive(Clone)]
pub(in crate::controllers) struct ResolvedPool {
    pub(in crate::controllers) name: ObjectName,
    pub(in crate::controllers) policy: PoolPolicy,
    pub(in crate::controllers) network: Option<Network>,
    pub(in crate::controllers) inputs: ResolutionInputs,
    pub(in crate::controllers) neutron: Arc<dyn Neutron>,
    pub(in crate::controllers) project: Arc<ProjectHandle>,
    pub(in crate::controllers) session: PoolSession,
}

/// A pool's use of one ledger with its credentials, by all resolutions meanwhile. It ends when the pool gets another ledger,
/// may not use the credentials any more, or is gone; and with it what its claims hold. No write of the pool is sent
/// afterwards, since the [fence](crate::allocation::Ledger::fence) of the next session does not expect it.
#[derive(Clone, Default)]
pub(in crate::controllers) struct PoolSession(Arc<AtomicBool>);

impl PoolSession {
    fn ended() -> Self {
        Self(Arc::new(true.into()))
    }

    pub(in crate::controllers) fn has_ended(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn end(&self) {
        self.0.store(true, Ordering::Release);
    }
}

impl ResolvedPool {
    /// Whether the pool may take floating IPs of the project that no pool has marked.
    pub(in crate::controllers) fn reuses(&self) -> bool {
        self.policy.reuse != ReuseRule::Never && self.network.is_some()
    }

    /// Lists the project's floating IPs. The listing begins now or later.
    pub(in crate::controllers) async fn list_now(&self, clock: &Clock) -> Result<(), openstack::Error> {
        let after = self.project.ledger().next_sequence();
        self.project.refresh(self.neutron.list_floating_ips(), clock, after).await
    }

    /// Lists the project's floating IPs before anything is done for the pool's claims, unless the last listing is younger
    /// than this. Always the first time, so that what another process wrote before is not taken for
    /// [late](crate::allocation::ledger::Ledger::note_served).
    pub(in crate::controllers) async fn list_to_serve(
        &self,
        clock: &Clock,
        age: Option<std::time::Duration>,
    ) -> Result<(), openstack::Error> {
        let is_served = self.project.ledger().is_served(&self.policy.id);
        match age.filter(|_| is_served) {
            Some(age) => self.list_if_older(clock, age).await?,
            None => self.list_now(clock).await?,
        }
        self.project.ledger().note_served(&self.policy.id, self.policy.viewer);
        Ok(())
    }

    /// Lists the project's floating IPs unless the last listing is younger than this.
    pub(in crate::controllers) async fn list_if_older(
        &self,
        clock: &Clock,
        age: std::time::Duration,
    ) -> Result<(), openstack::Error> {
        let since = before(clock.now(), age);
        if self.project.ledger().is_listed_since(self.policy.viewer, since) {
            return Ok(());
        }
        self.list_now(clock).await
    }
}

/// The inputs of a resolution, which is valid until they change.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::controllers) struct ResolutionInputs {
    pub(in crate::controllers) fingerprint: Fingerprint,
    /// The cluster identity that the credentials are of; none if they are of a Secret of the namespace.
    pub(in crate::controllers) identity: Option<String>,
    /// As metrics name it.
    pub(in crate::controllers) cloud: CloudName,
    pub(in crate::controllers) network: Option<NetworkParam>,
    pub(in crate::controllers) subnets: Vec<SubnetParam>,
    pub(in crate::controllers) at: Timestamp,
}

/// Why a pool serves no new claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::controllers) struct Problem {
    /// For the pool's `Ready` condition.
    pub(in crate::controllers) reason: &'static str,
    pub(in crate::controllers) message: String,
}

/// The least time between two sweeps of all addresses of a pool, for each address. Thousands may be released one after the
/// other, and each release makes a sweep.
const FULL_SWEEP_INTERVAL_PER_ADDRESS: Duration = Duration::from_millis(1);
/// The least time in a pool with few.
const MIN_FULL_SWEEP_INTERVAL: Duration = Duration::from_secs(5);
/// The least time between two plans of what to sweep, for each address: a plan takes up to a tenth of that. Small pools are
/// swept at once, and in a large one a plan gathers what many releases left.
const PLAN_INTERVAL_PER_ADDRESS: Duration = Duration::from_micros(20);

/// What is known of a pool.
#[derive(Clone, Default)]
pub(in crate::controllers) struct PoolState {
    /// The last resolution that worked, or one for cleanup. Claims that have addresses use it whatever the pool's spec has
    /// become.
    pub(in crate::controllers) resolved: Option<Arc<ResolvedPool>>,
    /// The session of the next resolution. Another one follows when it ends.
    session: PoolSession,
    /// Why nothing new is served.
    pub(in crate::controllers) problem: Option<Problem>,
    /// The generation of the spec that is served.
    pub(in crate::controllers) served_generation: Option<i64>,
    /// OpenStack refused something: credentials and network are resolved again.
    pub(in crate::controllers) is_stale: bool,
    /// The pool was paused: changes since then are not handled yet.
    pub(in crate::controllers) was_paused: bool,
    /// The id that this process made for the pool. No previous process wrote with it, so it needs no fence.
    pub(in crate::controllers) generated_id: Option<PoolId>,
    /// The pool is being deleted and has no marks of its own in OpenStack: it has no id, or the id of another pool.
    pub(in crate::controllers) has_no_marks: bool,
    /// When its Secret last named another Keystone or Neutron for the project, or verified it in another way; or when the
    /// pool lost the use of its cluster identity.
    pub(in crate::controllers) session_changed_at: Option<Timestamp>,
    /// Whether it had an id when it came, and no controller of this management cluster had served it: another process may have
    /// served it until then, as before `clusterctl move`.
    came_with_id: bool,
    /// Since when no other process begins calls for it, once it is resolved.
    taken_over_at: Option<Timestamp>,
    /// Whether it came before the watch had listed all pools.
    was_listed: bool,
    /// How many sweeps in succession were refused altogether.
    pub(in crate::controllers) refused_sweeps: usize,
    /// The Secret that its cluster identity named last.
    pub(in crate::controllers) identity_secret: Option<ObjectName>,
    /// The addresses that the last sweep of all found to be orphans.
    pub(in crate::controllers) orphans: Vec<IpAddr>,
    pub(in crate::controllers) upkeep: Upkeep,
    /// When a sweep may visit all addresses of the pool again.
    pub(in crate::controllers) next_full_sweep: Option<Instant>,
    /// When the pool's next sweep may be planned.
    next_plan: Option<Instant>,
    /// The tags of `spec.tags`. Shared by the copies of this record, of which each reconcile takes some.
    pub(in crate::controllers) labels: Arc<LabelMemory>,
    /// The addresses that cannot be given, and since when these.
    failures: Option<(Vec<(IpAddr, AddressFailure)>, Timestamp)>,
    /// How much its cleanup had left when its time was up.
    pub(in crate::controllers) interrupted_cleanup: Option<usize>,
    /// What it was last said to leave behind, and why.
    left_behind: Option<(&'static str, String)>,
    uid: Option<String>,
    became_stale_at: Option<Timestamp>,
    is_report_due: bool,
    /// When changes were last reported.
    reported_at: Option<Instant>,
    watched: WatchedObject,
}

/// How soon refused calls may cause a pool to be resolved again. Otherwise a claim whose call is always refused would wake
/// its pool, which would wake the claim, without end.
const STALE_AGAIN_AFTER: SignedDuration = SignedDuration::from_secs(10);

impl PoolState {
    /// How long a sweep waits before it is planned.
    pub(in crate::controllers) fn rest_before_plan(&self, now: Instant) -> Duration {
        self.next_plan.map(|next| next.saturating_duration_since(now)).unwrap_or_default()
    }

    /// A sweep is planned now: returns what it visits. `count` is the number of the pool's addresses.
    pub(in crate::controllers) fn begin_plan(&mut self, count: usize, now: Instant) -> SweepScope {
        let times = |interval: Duration| interval.saturating_mul(count.try_into().unwrap_or(u32::MAX));
        self.next_plan = Some(instant_after(now, times(PLAN_INTERVAL_PER_ADDRESS)));
        if self.next_full_sweep.is_some_and(|next| now < next) {
            return SweepScope::Unsettled;
        }
        let rest = times(FULL_SWEEP_INTERVAL_PER_ADDRESS).max(MIN_FULL_SWEEP_INTERVAL);
        self.next_full_sweep = Some(instant_after(now, rest));
        SweepScope::All
    }

    /// Whether the record is of this object, not of an earlier one with its name.
    pub(in crate::controllers) fn is_of(&self, pool: &OpenStackFloatingIPPool) -> bool {
        self.uid == pool.metadata.uid
    }

    /// Whether this object serves with this id.
    pub(in crate::controllers) fn is_serving(&self, pool: &OpenStackFloatingIPPool, id: &PoolId) -> bool {
        self.is_of(pool) && self.is_ready() && self.resolved.as_ref().is_some_and(|resolved| resolved.policy.id == *id)
    }

    /// Whether it serves new claims.
    pub(in crate::controllers) fn is_ready(&self) -> bool {
        self.problem.is_none() && self.served_generation.is_some() && self.resolved.is_some()
    }

    /// The pool serves. Returns what is not used any more, to be dropped when the record is not locked.
    pub(in crate::controllers) fn serve(
        &mut self,
        resolved: Arc<ResolvedPool>,
        pool: &OpenStackFloatingIPPool,
    ) -> Option<Arc<ResolvedPool>> {
        self.resolve(resolved, pool, |state| {
            (state.problem, state.was_paused) = (None, false);
            state.served_generation = pool.metadata.generation;
        })
    }

    /// The pool releases, and serves nothing new. Returns as [`serve`](Self::serve) does.
    pub(in crate::controllers) fn release_with(
        &mut self,
        resolved: Arc<ResolvedPool>,
        pool: &OpenStackFloatingIPPool,
    ) -> Option<Arc<ResolvedPool>> {
        self.resolve(resolved, pool, |_| ())
    }

    /// Uses the resolution, unless the record is of another object or its session has ended.
    fn resolve(
        &mut self,
        resolved: Arc<ResolvedPool>,
        pool: &OpenStackFloatingIPPool,
        note: impl FnOnce(&mut Self),
    ) -> Option<Arc<ResolvedPool>> {
        if !self.is_of(pool) || resolved.session.has_ended() {
            return Some(resolved);
        }
        note(self);
        self.is_stale = false;
        self.resolved.replace(resolved)
    }

    /// From when calls of another process are awaited is decided again.
    pub(in crate::controllers) fn forget_takeover(&mut self) {
        self.taken_over_at = None;
    }

    fn may_have_calls_elsewhere(&self, now: Timestamp) -> bool {
        self.came_with_id && self.taken_over_at.is_some_and(|from| now < after(from, LANDS_WITHIN))
    }

    /// Ends the session, if it is one to end: writes that wait are not sent, and calls may still be under way.
    pub(in crate::controllers) fn end_session(
        &mut self,
        is_ended: impl FnOnce(&ResolvedPool) -> bool,
        now: Timestamp,
    ) -> Option<Arc<ResolvedPool>> {
        let ended = self.resolved.take_if(|resolved| is_ended(resolved))?;
        std::mem::take(&mut self.session).end();
        self.session_changed_at = Some(now);
        Some(ended)
    }

    /// The pool is gone.
    fn end(self) -> Self {
        self.session.end();
        self
    }

    /// OpenStack refused something. False if it did so a moment ago.
    fn become_stale(&mut self, now: Timestamp) -> bool {
        let is_new = self.became_stale_at.is_none_or(|at| now.duration_since(at) >= STALE_AGAIN_AFTER);
        if is_new {
            (self.is_stale, self.became_stale_at) = (true, Some(now));
        }
        is_new
    }

    /// These addresses cannot be given. Returns since when; none if there are none.
    pub(in crate::controllers) fn note_failures(
        &mut self,
        failures: Vec<(IpAddr, AddressFailure)>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        if self.failures.as_ref().is_none_or(|(known, _)| *known != failures) {
            self.failures = (!failures.is_empty()).then_some((failures, now));
        }
        self.failures.as_ref().map(|(_, since)| *since)
    }

    /// The pool is being deleted, and leaves these addresses behind for this reason. False if that is known.
    pub(in crate::controllers) fn note_left_behind(&mut self, reason: &'static str, left: &str) -> bool {
        let now = Some((reason, left.to_owned()));
        std::mem::replace(&mut self.left_behind, now.clone()) != now
    }

    /// The figures have changed. Returns how soon they are reported; none if a report is due already. Readers of its
    /// list of addresses are not kept waiting.
    pub(in crate::controllers) fn request_report(&mut self, has_list: bool, now: Instant) -> Option<Duration> {
        let is_due = std::mem::replace(&mut self.is_report_due, true);
        let last = self.reported_at.filter(|_| !has_list);
        let rest = last.map(|at| REPORT_INTERVAL.saturating_sub(now.saturating_duration_since(at)));
        (!is_due).then(|| rest.unwrap_or_default().max(REPORT_DELAY))
    }

    pub(in crate::controllers) fn end_report(&mut self, now: Instant) {
        (self.is_report_due, self.reported_at) = (false, Some(now));
    }

    pub(in crate::controllers) fn note_written(&mut self, pool: &impl Resource) {
        self.watched.note_written(pool);
    }

    /// The pool's status is this, or is about to be written.
    pub(in crate::controllers) fn note_report(&mut self, status: &OpenStackFloatingIPPoolStatus) {
        self.watched.note_report(status_hash(status));
    }

    /// Lets the next event of the pool request a reconcile, whatever it changes.
    pub(in crate::controllers) fn reconcile_at_next_event(&mut self) {
        self.watched.is_reconcile_due = true;
    }
}

/// How long a pool gathers changes of its figures before it reports them, and how long while they go on. A report is a
/// reconcile of the pool: once a second in each of a hundred pools, it cost as much as the claims.
const REPORT_DELAY: Duration = Duration::from_secs(1);
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// How long a process waits, after it has listed the pools, for those that cannot be resolved.
const RESOLVED_WITHIN: Duration = Duration::from_secs(30);

/// A record for each pool.
#[derive(Default)]
pub(in crate::controllers) struct PoolRecords {
    states: Mutex<BTreeMap<ObjectName, PoolState>>,
    /// When the watch had first listed all pools.
    listed_at: OnceLock<Instant>,
}

impl PoolRecords {
    /// The pool exists. A recreated one starts with an empty record; returns that of the one that it replaces.
    pub(in crate::controllers) fn observe(&self, pool: &OpenStackFloatingIPPool) -> Option<PoolState> {
        let annotated = pool.annotations().get(POOL_ID_ANNOTATION).and_then(|id| PoolId::parse(id));
        let is_reported = pool.status.as_ref().is_some_and(|status| status.pool_id.is_some());
        // Moving a pool leaves its status behind.
        let was_listed = self.listed_at.get().is_none();
        let came_with_id = (annotated.is_some() || is_reported) && !(was_listed && is_reported);
        let new = || PoolState { uid: pool.uid(), came_with_id, was_listed, ..PoolState::default() };
        match self.states.lock().entry(name_of(pool)) {
            Entry::Vacant(vacant) => {
                vacant.insert(new());
                None
            }
            Entry::Occupied(mut known) => (!known.get().is_of(pool)).then(|| known.insert(new()).end()),
        }
    }

    pub(in crate::controllers) fn remove(&self, pool: &ObjectName) -> Option<PoolState> {
        self.states.lock().remove(pool).map(PoolState::end)
    }

    /// The pools with a record that are not among these.
    pub(in crate::controllers) fn missing_from(&self, existing: &BTreeSet<ObjectName>) -> Vec<ObjectName> {
        self.states.lock().keys().filter(|pool| !existing.contains(pool)).cloned().collect()
    }

    pub(in crate::controllers) fn names(&self) -> Vec<ObjectName> {
        self.states.lock().keys().cloned().collect()
    }

    /// The namespaces with a pool that was there at the start and is not resolved yet. After half a minute none: a pool may
    /// fail for ever.
    pub(super) fn namespaces_to_resolve(&self) -> BTreeSet<String> {
        if self.listed_at.get().is_none_or(|at| at.elapsed() >= RESOLVED_WITHIN) {
            return BTreeSet::new();
        }
        let states = self.states.lock();
        let to_resolve = states.iter().filter(|(_, state)| state.was_listed && state.resolved.is_none());
        to_resolve.map(|(pool, _)| pool.namespace.clone()).collect()
    }

    pub(in crate::controllers) fn get(&self, pool: &ObjectName) -> PoolState {
        self.states.lock().get(pool).cloned().unwrap_or_default()
    }

    /// The pool's resolution, if the record is of this object.
    pub(in crate::controllers) fn resolved_of(&self, pool: &OpenStackFloatingIPPool) -> Option<Arc<ResolvedPool>> {
        self.states.lock().get(&name_of(pool)).filter(|known| known.is_of(pool))?.resolved.clone()
    }

    /// The UIDs of the pools that were last resolved with this id.
    pub(in crate::controllers) fn uids_with_id(&self, id: &PoolId) -> Vec<Option<String>> {
        let has_it = |state: &&PoolState| state.resolved.as_ref().is_some_and(|resolved| resolved.policy.id == *id);
        self.states.lock().values().filter(has_it).map(|state| state.uid.clone()).collect()
    }

    /// The session of this object's next resolution. It has ended if the object is gone.
    pub(in crate::controllers) fn session_of(&self, pool: &OpenStackFloatingIPPool) -> PoolSession {
        let pools = self.states.lock();
        let known = pools.get(&name_of(pool)).filter(|known| known.is_of(pool));
        known.map_or_else(PoolSession::ended, |known| known.session.clone())
    }

    /// The other pools with the same id in the same project: what the ledger has under the id may be theirs.
    pub(in crate::controllers) fn copies_of(&self, pool: &ResolvedPool) -> Vec<ObjectName> {
        let has_its_id = |other: &ResolvedPool| {
            other.policy.id == pool.policy.id && other.project.is_in_one_project_with(&pool.project)
        };
        let pools = self.states.lock();
        let others = pools.iter().filter(|(name, _)| **name != pool.name);
        others
            .filter(|(_, other)| other.resolved.as_deref().is_some_and(has_its_id))
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// When the last calls of another process, which this one does not know, may have begun; none if there is no other
    /// process. Where `clusterctl move` creates a pool, the other management cluster has paused it.
    pub(in crate::controllers) fn calls_elsewhere_from(&self, pool: &ObjectName, now: Timestamp) -> Option<Timestamp> {
        let listed_at = self.listed_at.get().map_or(now, |at| before(now, at.elapsed()));
        let from = self.update(pool, |state| {
            let latest = if state.was_listed { listed_at } else { now };
            (state.came_with_id, *state.taken_over_at.get_or_insert(latest))
        });
        from.filter(|(came_with_id, _)| *came_with_id).map(|(_, from)| from)
    }

    /// Changes a pool's record, if the pool still exists.
    pub(in crate::controllers) fn update<T>(
        &self,
        pool: &ObjectName,
        change: impl FnOnce(&mut PoolState) -> T,
    ) -> Option<T> {
        // Where there is none, what `change` has is dropped after the lock is released.
        let mut states = self.states.lock();
        Some(change(states.get_mut(pool)?))
    }

    /// The same, if the record is of this object.
    pub(in crate::controllers) fn update_of<T>(
        &self,
        pool: &OpenStackFloatingIPPool,
        change: impl FnOnce(&mut PoolState) -> T,
    ) -> Option<T> {
        let mut states = self.states.lock();
        Some(change(states.get_mut(&name_of(pool)).filter(|known| known.is_of(pool))?))
    }

    /// OpenStack refused something for the pool. True if the pool is to be resolved again now.
    pub(in crate::controllers) fn become_stale_after(
        &self,
        pool: &ObjectName,
        error: &openstack::Error,
        now: Timestamp,
    ) -> bool {
        // A 404 that names no resource: Neutron has no more the extension that the path belongs to.
        let is_extension_gone = error.kind == ErrorKind::Rejected && error.status == Some(404);
        let is_about_the_pool =
            matches!(error.kind, ErrorKind::Unauthorized | ErrorKind::BadNetwork | ErrorKind::Credentials)
                || is_extension_gone;
        is_about_the_pool && self.update(pool, |state| state.become_stale(now)) == Some(true)
    }

    /// Whether the pool is older than what this process wrote. Then the pool is woken when the watch delivers the write.
    pub(in crate::controllers) fn put_off_if_outdated(&self, pool: &OpenStackFloatingIPPool) -> bool {
        self.update(&name_of(pool), |state| state.watched.put_off_if_outdated(pool)).unwrap_or(false)
    }

    /// The watch has listed all pools. What it shows counts, even if it is older than what this process wrote: the API
    /// server's data may have been restored from a backup.
    pub(in crate::controllers) fn note_listed(&self) {
        self.listed_at.get_or_init(Instant::now);
        self.states.lock().values_mut().for_each(|state| state.watched = WatchedObject::default());
    }

    /// Whether a pool that the watch delivered has to be reconciled.
    pub(in crate::controllers) fn needs_reconcile(&self, pool: &OpenStackFloatingIPPool) -> bool {
        let (input, report) = (metadata_input(&pool.metadata), pool.status.as_ref().map(status_hash));
        self.update(&name_of(pool), |state| state.watched.needs_reconcile(pool, input, report)).unwrap_or(true)
    }

    /// The pools with a problem for this reason.
    pub(in crate::controllers) fn with_problem(&self, reason: &str) -> Vec<ObjectName> {
        let pools = self.states.lock();
        let has_it = |state: &PoolState| state.problem.as_ref().is_some_and(|problem| problem.reason == reason);
        pools.iter().filter(|(_, state)| has_it(state)).map(|(name, _)| name.clone()).collect()
    }

    /// The pools whose cluster identity named this Secret when it was last asked.
    pub(in crate::controllers) fn with_identity_secret(&self, secret: &ObjectName) -> Vec<ObjectName> {
        let pools = self.states.lock();
        let uses_it = |state: &PoolState| state.identity_secret.as_ref() == Some(secret);
        pools.iter().filter(|(_, state)| uses_it(state)).map(|(name, _)| name.clone()).collect()
    }

    /// Whether the outcome of any call to the projects of the pools is not known, of this process or of another one that had a
    /// pool before.
    pub(super) fn has_unknown_outcomes(&self, now: Timestamp) -> bool {
        let (awaited, resolved) = {
            let states = self.states.lock();
            let is_awaited = states.values().any(|state| state.may_have_calls_elsewhere(now));
            (is_awaited, states.values().filter_map(|state| state.resolved.clone()).collect::<Vec<_>>())
        };
        awaited || resolved.iter().any(|pool| pool.project.ledger().has_unknown_outcomes())
    }

    pub(super) fn len(&self) -> usize {
        self.states.lock().len()
    }
}

fn status_hash(status: &OpenStackFloatingIPPoolStatus) -> u64 {
    // As JSON it has the precision that is stored.
    hash(serde_json::to_string(status).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(uid: &str) -> OpenStackFloatingIPPool {
        let mut pool = OpenStackFloatingIPPool::new("public", Default::default());
        (pool.metadata.namespace, pool.metadata.uid) = (Some("team".into()), Some(uid.into()));
        pool
    }

    #[test]
    fn all_addresses_are_visited_every_five_seconds_and_in_a_large_pool_less_often() {
        for (count, rest) in [(0, 5000), (5000, 5000), (10_000, 10_000)] {
            let (mut state, start) = (PoolState::default(), Instant::now());
            let scopes =
                [0, 1, rest - 1, rest, rest + 1].map(|ms| state.begin_plan(count, start + Duration::from_millis(ms)));
            let (all, unsettled) = (SweepScope::All, SweepScope::Unsettled);
            assert_eq!(scopes, [all, unsettled, unsettled, all, unsettled], "{count} addresses");
        }
    }

    #[test]
    fn changes_are_reported_after_a_second_and_every_five_while_they_go_on() {
        let (mut state, start, seconds) = (PoolState::default(), Instant::now(), Duration::from_secs);
        assert_eq!(state.request_report(false, start), Some(seconds(1)));
        assert_eq!(state.request_report(false, start), None, "one is due");
        state.end_report(start + seconds(1));
        assert_eq!(state.request_report(false, start + seconds(2)), Some(seconds(4)));
        state.end_report(start + seconds(6));
        assert_eq!(state.request_report(true, start + seconds(7)), Some(seconds(1)), "it has a list of addresses");
        state.end_report(start + seconds(8));
        assert_eq!(state.request_report(false, start + seconds(60)), Some(seconds(1)));
    }

    #[test]
    fn the_next_sweep_is_planned_at_once_in_a_small_pool_and_after_a_rest_in_a_large_one() {
        let ((mut state, start), ms) = ((PoolState::default(), Instant::now()), Duration::from_millis);
        assert_eq!(state.rest_before_plan(start), Duration::ZERO);
        for (count, rest) in [(0, Duration::ZERO), (100, ms(2)), (10_000, ms(200))] {
            state.begin_plan(count, start);
            assert_eq!(state.rest_before_plan(start), rest, "{count} addresses");
            assert_eq!(state.rest_before_plan(start + ms(1)), rest.saturating_sub(ms(1)), "{count} addresses");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pool_that_another_management_cluster_may_have_served_waits_for_its_calls() {
        let [listed_at, now]: [Timestamp; 2] =
            ["2026-11-21T09:00:00Z", "2026-11-21T09:00:05Z"].map(|at| at.parse().unwrap());
        let awaited_from = async |came_later: bool, annotated: Option<&str>, is_reported: bool| {
            let (records, mut pool) = (PoolRecords::default(), pool("one"));
            if came_later {
                records.note_listed();
            }
            let annotation = annotated.map(|id| (POOL_ID_ANNOTATION.to_owned(), id.to_owned()));
            pool.metadata.annotations = Some(annotation.into_iter().collect());
            let pool_id = is_reported.then(|| "abc".to_owned());
            pool.status = Some(OpenStackFloatingIPPoolStatus { pool_id, ..Default::default() });
            records.observe(&pool);
            if !came_later {
                records.note_listed();
            }
            tokio::time::advance(Duration::from_secs(5)).await;
            assert!(!records.has_unknown_outcomes(now), "nothing was done for it yet");
            let from = records.calls_elsewhere_from(&name_of(&pool), now);
            let end = after(from.unwrap_or(now), LANDS_WITHIN);
            assert_eq!(records.has_unknown_outcomes(before(end, Duration::from_secs(1))), from.is_some());
            assert!(!records.has_unknown_outcomes(end));
            assert_eq!(records.calls_elsewhere_from(&name_of(&pool), end), from);
            from
        };
        assert_eq!(awaited_from(true, None, false).await, None, "a new one");
        assert_eq!(awaited_from(true, Some("abc"), false).await, Some(now));
        assert_eq!(awaited_from(true, None, true).await, Some(now));
        assert_eq!(awaited_from(false, Some("abc"), false).await, Some(listed_at), "it came before the first listing");
        assert_eq!(awaited_from(false, Some("abc"), true).await, None, "this management cluster has served it");
        assert_eq!(awaited_from(false, Some("not an id"), false).await, None);
    }

    #[test]
    fn a_pool_that_replaces_another_returns_what_was_known_of_that() {
        let records = PoolRecords::default();
        assert!(records.observe(&pool("a")).is_none());
        records.update(&name_of(&pool("a")), |state| state.was_paused = true);
        assert!(records.observe(&pool("a")).is_none());
        assert!(records.observe(&pool("b")).is_some_and(|replaced| replaced.was_paused));
        assert!(!records.get(&name_of(&pool("b"))).was_paused);
    }

    #[test]
    fn a_session_ends_with_its_pool_even_if_no_resolution_has_it_yet() {
        let records = PoolRecords::default();
        records.observe(&pool("a"));
        let (replaced, same) = (records.session_of(&pool("a")), records.session_of(&pool("a")));
        records.observe(&pool("b"));
        assert!(replaced.has_ended() && same.has_ended() && records.session_of(&pool("a")).has_ended());
        let removed = records.session_of(&pool("b"));
        assert!(!removed.has_ended());
        records.remove(&name_of(&pool("b")));
        assert!(removed.has_ended() && records.session_of(&pool("b")).has_ended());
    }
}
