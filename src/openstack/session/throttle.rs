//! The throttle of one cloud, which every call to its Neutron passes: a limit of concurrent calls, shared fairly by the
//! cloud's projects, and a circuit breaker.
//!
//! Each project with a failed or slow call gets a limit, a breaker and a wait of its own until its calls succeed again. Its
//! failures do not lower the cloud's limit. If calls of three projects fail and none succeeds, the cloud itself is considered
//! down: then its breaker applies to each of them. Beside its probes, a project may try one call if none of its calls has
//! failed, or if they failed in one burst more than 90 s ago. Only one project tries at a time.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::super::{Error, ErrorKind};
use super::breaker::CircuitBreaker;
use super::limiter::Limiter;
use crate::clock::{Clock, instant_after};
use crate::fair::{FairSlots, Slot};
use crate::floating_ip::ProjectId;

/// The longest `Retry-After` that a call waits for. For a longer one it fails, so that the caller can do something else.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// How long after its last bad call and the wait that was asked for a project is throttled, if nothing is answered.
const FORGET_AFTER: Duration = Duration::from_secs(60);
/// If this many projects fail and none is answered, the cloud is down.
const PROJECTS_OF_AN_OUTAGE: usize = 3;
/// How long a failure counts for that.
const FAILURE_COUNTS_FOR: Duration = Duration::from_secs(300);
/// While the cloud is down, how long a project that has failed in one burst only waits until it may try a call beside the
/// probes: it may be answered although others are not. Longer than a call that hangs, and its repetition.
const RETRIED_AFTER: Duration = Duration::from_secs(90);
/// Failures of one burst are not further apart: concurrent calls time out together.
const BURST: Duration = Duration::from_secs(60);
/// How long failures are remembered: longer than they hold back, so that the next one is not taken for the first.
const REMEMBERED_FOR: Duration = Duration::from_secs(600);
/// So that projects, clouds and replicas that failed together do not probe together.
const JITTER: f64 = 0.5;

/// Shared by all sessions with one cloud.
pub(super) struct Throttle {
    clock: Clock,
    // As many as the limiter's limit, which is followed as calls end. Shared by project, the tenant that a cloud knows.
    slots: Arc<FairSlots<ProjectId>>,
    state: Mutex<ThrottleState>,
}

struct ThrottleState {
    max_calls: usize,
    limiter: Limiter,
    breaker: CircuitBreaker,
    /// The projects with calls that failed since the cloud last answered one.
    unanswered: BTreeMap<ProjectId, Failures>,
    /// While the cloud is down, a project whose failures do not [hold it back](Failures::hold_back) tries a call.
    is_trial_sent: bool,
    throttled: BTreeMap<ProjectId, ProjectThrottle>,
}

/// When calls of a project failed, the first and the last time.
struct Failures {
    first: Instant,
    last: Instant,
}

/// The throttle of one project whose call failed or was slow.
struct ProjectThrottle {
    limiter: Limiter,
    breaker: CircuitBreaker,
    last_slow: Option<Instant>,
    /// Whether the wait was asked for by an answer that is only for the log.
    is_wait_concealed: bool,
    ends_at: Instant,
}

/// The result of a call that was sent.
#[derive(Clone, Copy)]
struct CallEnd<'a> {
    health: Health,
    error: Option<&'a Error>,
    taken: Duration,
    at: Instant,
}

/// Permission to send calls, one after the other. Dropping it without [`Permit::record`] reports nothing about the cloud.
pub(super) struct Permit {
    throttle: Arc<Throttle>,
    project: ProjectId,
    /// For the cloud's breaker, and for the project's.
    is_probe: bool,
    is_own_probe: bool,
    /// See [`ThrottleState::is_trial_sent`].
    is_trial: bool,
    granted_at: Instant,
    _slot: Slot<ProjectId>,
}

/// What the result of a call says about the cloud's health, with the server's `Retry-After`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Health {
    Answering,
    Overloaded(Option<Duration>),
    /// No answer, or a proxy's answer that there is none.
    Failing(Option<Duration>),
    /// The call was not sent.
    Unknown,
}

impl Throttle {
    pub(super) fn new(clock: Clock, max_calls: usize) -> Self {
        let (limiter, breaker) = (Limiter::new(max_calls), CircuitBreaker::default());
        let (unanswered, throttled) = (BTreeMap::new(), BTreeMap::new());
        let state = ThrottleState { max_calls, limiter, breaker, unanswered, is_trial_sent: false, throttled };
        Self { clock, slots: Arc::new(FairSlots::new(max_calls)), state: Mutex::new(state) }
    }

    /// Waits for a slot, one of the project's share. Fails at once while the project's calls fail, or if it was asked for a
    /// wait longer than [`MAX_WAIT`].
    pub(super) async fn acquire(self: &Arc<Self>, project: &ProjectId) -> Result<Permit, Error> {
        let slot = loop {
            // Without a slot, so that another project can use it.
            tokio::time::sleep(self.wait_or_refusal(project)?).await;
            let slot = self.take_slot(project).await?;
            if self.wait_or_refusal(project)?.is_zero() {
                break slot;
            }
        };
        let mut permit = Permit {
            throttle: self.clone(),
            project: project.clone(),
            is_probe: false,
            is_own_probe: false,
            is_trial: false,
            granted_at: Instant::now(),
            _slot: slot,
        };
        // Last, so that a probe is sent as soon as it is granted.
        permit.admit()?;
        Ok(permit)
    }

    /// While the cloud is down, a call that finds no free slot is refused, so that no queue forms behind calls that hang.
    async fn take_slot(&self, project: &ProjectId) -> Result<Slot<ProjectId>, Error> {
        let refusal = || {
            let state = self.state.lock();
            state.is_down(Instant::now()).then(|| state.breaker.cause()).flatten()
        };
        let mut waiting = pin!(self.slots.acquire(project.clone()));
        if let Some(slot) = waiting.as_mut().now_or_never() {
            return Ok(slot);
        }
        if let Some(refusal) = refusal() {
            return Err(refusal);
        }
        let slot = waiting.await;
        refusal().map_or(Ok(slot), Err)
    }

    /// How long a call of the project has to wait before it asks for a slot.
    fn wait_or_refusal(&self, project: &ProjectId) -> Result<Duration, Error> {
        let (state, now) = (self.state.lock(), Instant::now());
        let own = state.throttled.get(project);
        let of_cloud = || state.uses_cloud_breaker(project, now).then(|| state.breaker.refusal(now)).flatten();
        match own.and_then(|own| own.breaker.refusal(now)).or_else(of_cloud) {
            Some(refusal) => Err(refusal),
            None => own.map_or(Ok(Duration::ZERO), |own| own.wait_or_refusal(now)),
        }
    }
}

impl Failures {
    /// Whether they still say that the cloud may be down.
    fn are_recent(&self, now: Instant) -> bool {
        now.duration_since(self.last) < FAILURE_COUNTS_FOR
    }

    /// Whether the project leaves it to others to find out that the cloud answers again.
    fn hold_back(&self, now: Instant) -> bool {
        let is_one_burst = self.last.duration_since(self.first) <= BURST;
        now.duration_since(self.last) < if is_one_burst { RETRIED_AFTER } else { FAILURE_COUNTS_FOR }
    }
}

impl ThrottleState {
    fn is_down(&self, now: Instant) -> bool {
        let failing = self.unanswered.values().filter(|failures| failures.are_recent(now));
        self.breaker.is_open() && failing.count() >= PROJECTS_OF_AN_OUTAGE
    }

    /// Whether the cloud is down, and the project has found that out, or another one is trying.
    fn uses_cloud_breaker(&self, project: &ProjectId, now: Instant) -> bool {
        let is_held_back = self.unanswered.get(project).is_some_and(|failures| failures.hold_back(now));
        self.is_down(now) && (self.is_trial_sent || is_held_back)
    }

    /// Whether the calls of another project are slow, too: then the cloud has too much to do.
    fn are_others_slow(&self, project: &ProjectId, now: Instant) -> bool {
        let is_slow = |own: &ProjectThrottle| own.last_slow.is_some_and(|at| now.duration_since(at) < FORGET_AFTER);
        self.throttled.iter().any(|(other, own)| other != project && is_slow(own))
    }

    fn record(&mut self, permit: &Permit, call: CallEnd<'_>, jitter: impl Fn(Duration) -> Duration) {
        let project = &permit.project;
        let is_throttled = self.throttled.contains_key(project);
        // The first one may be the cloud's.
        let is_its_own = call.is_bad() && is_throttled;
        match call.health {
            Health::Answering if !is_its_own || self.are_others_slow(project, call.at) => {
                self.limiter.answered(call.at, call.taken);
            }
            Health::Overloaded(_) | Health::Failing(_) if !is_its_own => self.limiter.overloaded(call.at, None),
            _ => {}
        }
        if let Health::Failing(_) = call.health {
            self.unanswered.retain(|_, failures| call.at.duration_since(failures.last) < REMEMBERED_FOR);
            let new = || Failures { first: call.at, last: call.at };
            self.unanswered.entry(project.clone()).or_insert_with(new).last = call.at;
        } else {
            self.unanswered.clear();
        }
        call.report_to(&mut self.breaker, permit.is_probe, &jitter);
        if call.is_bad() && !is_throttled {
            self.throttled.insert(project.clone(), ProjectThrottle::new(self.max_calls, call.at));
        }
        if let Some(own) = self.throttled.get_mut(project) {
            own.record(permit, call, &jitter);
        }
    }

    /// Removes the throttles that have ended, and returns their projects.
    fn remove_ended(&mut self, now: Instant) -> Vec<ProjectId> {
        self.throttled.extract_if(.., |_, own| own.has_ended(now)).map(|(project, _)| project).collect()
    }

    /// The limit of a throttled project: half of the slots at most, also if it rises since some of its calls are answered.
    fn limit_of(&self, project: &ProjectId) -> Option<usize> {
        let own = self.throttled.get(project)?;
        Some(own.limiter.limit().min(self.max_calls.div_ceil(2)))
    }
}

impl ProjectThrottle {
    fn new(max_calls: usize, now: Instant) -> Self {
        let (limiter, breaker) = (Limiter::new(max_calls), CircuitBreaker::default());
        Self { limiter, breaker, last_slow: None, is_wait_concealed: false, ends_at: now }
    }

    fn record(&mut self, permit: &Permit, call: CallEnd<'_>, jitter: impl Fn(Duration) -> Duration) {
        if let Health::Overloaded(wait) | Health::Failing(wait) = call.health {
            self.limiter.overloaded(call.at, wait);
            self.is_wait_concealed = call.error.is_some_and(|error| error.is_concealed);
        } else {
            self.limiter.answered(call.at, call.taken);
        }
        call.report_to(&mut self.breaker, permit.is_own_probe, jitter);
        if Limiter::is_slow(call.taken) {
            self.last_slow = Some(call.at);
        }
        if call.is_bad() {
            self.ends_at = instant_after(call.at, self.limiter.wait(call.at).saturating_add(FORGET_AFTER));
        }
    }

    /// How much longer the project was asked to wait; an error if that is longer than [`MAX_WAIT`].
    fn wait_or_refusal(&self, now: Instant) -> Result<Duration, Error> {
        let wait = self.limiter.wait(now);
        if wait <= MAX_WAIT {
            return Ok(wait);
        }
        let error = Error::new(ErrorKind::TooManyRequests, "", "the cloud asks to wait before the next request");
        Err(Error { retry_after: Some(wait), is_concealed: self.is_wait_concealed, ..error })
    }

    fn has_ended(&self, now: Instant) -> bool {
        let has_recovered =
            self.limiter.is_at_max() && self.breaker.last_call_was_answered() && self.limiter.wait(now).is_zero();
        has_recovered || now >= self.ends_at
    }
}

impl CallEnd<'_> {
    fn is_bad(&self) -> bool {
        self.health != Health::Answering || Limiter::is_slow(self.taken)
    }

    fn report_to(&self, breaker: &mut CircuitBreaker, is_probe: bool, jitter: impl Fn(Duration) -> Duration) {
        match (self.health, self.error) {
            (Health::Failing(_), Some(error)) => breaker.failed(self.at, error, is_probe, jitter),
            _ => breaker.answered(),
        }
    }
}

impl Permit {
    fn admit(&mut self) -> Result<(), Error> {
        let (mut state, now) = (self.throttle.state.lock(), self.granted_at);
        let (is_down, uses_cloud_breaker) = (state.is_down(now), state.uses_cloud_breaker(&self.project, now));
        let ThrottleState { breaker, throttled, is_trial_sent, .. } = &mut *state;
        if let Some(own) = throttled.get_mut(&self.project) {
            self.is_own_probe = own.breaker.admit(now)?;
        }
        if uses_cloud_breaker {
            self.is_probe = breaker.admit(now)?;
        } else if is_down {
            (*is_trial_sent, self.is_trial) = (true, true);
        }
        Ok(())
    }

    /// Records what a call's result says about the cloud; `error` is the one that the call failed with.
    pub(super) fn record(&mut self, health: Health, error: Option<&Error>) {
        let at = Instant::now();
        let taken = at.duration_since(std::mem::replace(&mut self.granted_at, at));
        if health == Health::Unknown {
            return;
        }
        let Throttle { clock, slots, state, .. } = &*self.throttle;
        let mut state = state.lock();
        state.record(self, CallEnd { health, error, taken, at }, |pause| clock.jitter(pause, JITTER));
        // Under the lock, so that the last limit is the newest. Before the slot is freed, so that it is not given to another
        // above a lower limit.
        // While the cloud is down, one is for the call that a project tries, beside a probe that hangs.
        let for_trial = usize::from(state.is_down(at));
        slots.set_limit(state.limiter.limit().saturating_add(for_trial).min(state.max_calls));
        for ended in state.remove_ended(at) {
            slots.set_key_limit(&ended, None);
        }
        if let Some(limit) = state.limit_of(&self.project) {
            slots.set_key_limit(&self.project, Some(limit));
        }
        if std::mem::take(&mut self.is_trial) {
            state.is_trial_sent = false;
        }
        drop(state);
        (self.is_probe, self.is_own_probe) = (false, false);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.throttle.state.lock();
        if self.is_probe {
            state.breaker.abandoned();
        }
        if self.is_trial {
            state.is_trial_sent = false;
        }
        if let Some(own) = state.throttled.get_mut(&self.project).filter(|_| self.is_own_probe) {
            own.breaker.abandoned();
        }
    }
}

#[cfg(test)]
mod tests;
