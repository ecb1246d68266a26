//! The connections of one process: every call to the API server and to OpenStack passes here, gets a number, takes time,
//! and may meet a fault. A process that died sends nothing more and receives nothing; what it had sent may still land.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

pub use crate::fault::{Call, CallFailure, Fault, Rejection, Side};
use crate::rates::Rates;
use crate::trace::Trace;

/// The timeout of a session with OpenStack.
const TIMEOUT: Duration = caip_openstack::openstack::session::REQUEST_TIMEOUT;

/// Clones share the connection.
#[derive(Clone)]
pub struct Wire(Arc<Inner>);

struct Inner {
    name: String,
    state: Mutex<State>,
    death: Notify,
    trace: Trace,
    rates: Rates,
}

struct State {
    chance: fastrand::Rng,
    is_dead: bool,
    /// How often it panicked, and forgot everything with that.
    panics: usize,
    calls: usize,
    plan: BTreeMap<usize, Fault>,
    next_write: Option<Fault>,
    outages: BTreeMap<Side, (Instant, Fault, u8)>,
    hang: Option<Hang>,
    /// Calls with this in their method and path are refused so until then.
    refused: Option<(&'static str, Rejection, Instant)>,
    /// Until when watches stall: all, or those of one kind.
    stalled: Option<(Option<&'static str>, Instant)>,
    /// Whether watches leave out all but the latest state of an object.
    skips: bool,
    frozen: Option<Instant>,
    /// Calls that ask for their turn until then get it that late.
    late_turns: Option<(Instant, Duration)>,
    slowest: u64,
}

/// Writes of Kubernetes' objects of one kind that take long, as behind a webhook that does not answer.
struct Hang {
    plural: &'static str,
    until: Instant,
    fault: Fault,
}

impl Wire {
    /// A connection. `slowest` is the most milliseconds that a call takes each way.
    pub fn new(name: String, seed: u64, slowest: u64, trace: Trace, rates: Rates) -> Self {
        let state = State {
            chance: fastrand::Rng::with_seed(seed),
            is_dead: false,
            panics: 0,
            calls: 0,
            plan: BTreeMap::new(),
            next_write: None,
            outages: BTreeMap::new(),
            hang: None,
            refused: None,
            stalled: None,
            skips: false,
            frozen: None,
            late_turns: None,
            slowest,
        };
        Self(Arc::new(Inner { name, state: Mutex::new(state), death: Notify::new(), trace, rates }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("no code panics while it holds the state")
    }

    /// How many calls there were.
    pub fn calls(&self) -> usize {
        self.state().calls
    }

    /// Injects a fault at the call of this number, counted from 0.
    pub fn plan(&self, number: usize, fault: Fault) {
        self.state().plan.insert(number, fault);
    }

    /// Injects a fault at the next write to OpenStack.
    pub fn plan_write(&self, fault: Fault) {
        self.state().next_write = Some(fault);
    }

    /// Whether the write that gets the fault is yet to come.
    pub fn is_write_planned(&self) -> bool {
        self.state().next_write.is_some()
    }

    /// Injects a fault into a share (of 8) of the calls to one side for a while.
    pub fn add_outage(&self, side: Side, fault: Fault, share: u8, lasts: Duration) {
        self.state().outages.insert(side, (Instant::now() + lasts, fault, share));
    }

    /// For a while the writes of one kind of object take long.
    pub fn hang(&self, plural: &'static str, fault: Fault, lasts: Duration) {
        self.state().hang = Some(Hang { plural, until: Instant::now() + lasts, fault });
    }

    /// For a while the API server refuses calls with this in their path, as where the role lacks a permission.
    pub fn forbid(&self, path: &'static str, lasts: Duration) {
        self.refuse(path, Rejection::Forbidden, lasts);
    }

    /// For a while calls with this in their method and path are refused.
    pub fn refuse(&self, what: &'static str, how: Rejection, lasts: Duration) {
        self.state().refused = Some((what, how, Instant::now() + lasts));
    }

    /// For a while watches deliver nothing, although they do not break.
    pub fn stall_watches(&self, lasts: Duration) {
        self.state().stalled = Some((None, Instant::now() + lasts));
    }

    /// The same, but only for the watch of one kind of object: each has a connection of its own.
    pub fn stall_watch(&self, plural: &'static str, lasts: Duration) {
        self.state().stalled = Some((Some(plural), Instant::now() + lasts));
    }

    /// Watches deliver only the latest state of an object when several changes arrive at once, as if they had begun again
    /// in between.
    pub fn skip_states(&self, skips: bool) {
        self.state().skips = skips;
    }

    pub fn skips_states(&self) -> bool {
        self.state().skips
    }

    /// The process stands still for a while, and sends nothing: a SIGSTOP, or a virtual machine that is paused.
    pub fn freeze(&self, lasts: Duration) {
        self.state().frozen = Some(Instant::now() + lasts);
    }

    /// Until when the process stands still, if it does.
    pub fn frozen_until(&self) -> Option<Instant> {
        self.state().frozen.filter(|until| Instant::now() < *until)
    }

    /// Removes every fault that is still to come.
    pub fn clear_faults(&self) {
        let mut state = self.state();
        state.plan.clear();
        state.outages.clear();
        state.next_write = None;
        (state.hang, state.stalled, state.frozen, state.skips) = (None, None, None, false);
        state.refused = None;
        state.late_turns = None;
    }

    /// A call fails, or its outcome is not known.
    pub fn count_interruption(&self) {
        self.0.rates.count_interruption();
    }

    pub fn kill(&self) {
        self.count_interruption();
        self.state().is_dead = true;
        self.0.death.notify_one();
    }

    pub fn is_dead(&self) -> bool {
        self.state().is_dead
    }

    pub fn panics(&self) -> usize {
        self.state().panics
    }

    pub async fn died(&self) {
        while !self.is_dead() {
            self.0.death.notified().await;
        }
    }

    /// How long a change takes to arrive through the watch of a kind of object.
    pub fn lag(&self, plural: &str) -> Duration {
        let mut state = self.state();
        let most = 3 * state.slowest.max(1);
        let lag = Duration::from_millis(state.chance.u64(1..=most));
        let stalled = state.stalled.filter(|(only, _)| only.is_none_or(|only| only == plural));
        let stall = stalled.map(|(_, until)| until.saturating_duration_since(Instant::now()));
        lag + stall.unwrap_or_default()
    }

    /// For a while, writes to OpenStack that ask for their turn get it that late: the cloud is busy.
    pub fn delay_turns(&self, lasts: Duration, delay: Duration) {
        self.state().late_turns = Some((Instant::now() + lasts, delay));
    }

    /// A cloud in trouble lets writes wait for their turn, some of them for longer than a call may take. Not in an
    /// outage of all calls (8 of 8): there a test expects the next call itself to fail.
    pub async fn await_turn(&self) {
        let wait = {
            let (state, now) = (self.state(), Instant::now());
            let outage = state.outages.get(&Side::OpenStack).filter(|(until, ..)| now < *until);
            let is_troubled = outage.is_some_and(|(_, _, share)| *share < 8);
            let delay = state.late_turns.filter(|(until, _)| now < *until).map(|(_, delay)| delay);
            let waits = [0, 3, 9, 15, 1, 6, 50, 12];
            let in_trouble = || Duration::from_secs(if is_troubled { waits[state.calls % waits.len()] } else { 0 });
            delay.unwrap_or_else(in_trouble)
        };
        sleep(wait).await;
    }

    /// Sends one call. `make` does it, once for each delivery; `failed` is what the caller sees of a failure.
    pub async fn send<T: Send + 'static>(
        &self,
        call: Call,
        make: impl Fn() -> BoxFuture<'static, T> + Send + 'static,
        failed: impl Fn(CallFailure) -> T,
        describe: impl Fn(&T) -> String,
    ) -> T {
        let (number, fault, there, back) = self.begin(&call).await;
        let say = |how: String| self.0.trace.record(|| format!("{} {number} {}: {how}", self.0.name, call.what));
        if let Some(fault) = fault {
            say(format!("{fault:?}"));
        }
        let answer = match fault {
            Some(Fault::CrashBefore) => self.die().await,
            Some(Fault::CrashAfter) => {
                make().await;
                self.die().await
            }
            Some(Fault::CrashAndLand(after)) => {
                tokio::spawn(async move {
                    sleep(after).await;
                    make().await;
                });
                self.die().await
            }
            Some(Fault::Panic) if call.side == Side::OpenStack => {
                make().await;
                self.0.rates.count_interruption();
                self.state().panics += 1;
                panic!("as a bug would")
            }
            Some(Fault::ReplyLost | Fault::Panic) => {
                make().await;
                sleep(Duration::from_secs(5)).await;
                failed(CallFailure::NoAnswer)
            }
            Some(Fault::RequestLost) => {
                sleep(Duration::from_secs(5)).await;
                failed(CallFailure::NoAnswer)
            }
            Some(Fault::Refused(no)) => {
                sleep(there).await;
                failed(CallFailure::Refused(no))
            }
            Some(Fault::RefusedLate(after)) => {
                sleep(after).await;
                failed(CallFailure::Refused(Rejection::Server))
            }
            Some(Fault::Twice) => {
                if !call.what.starts_with("create floating IP") {
                    make().await;
                }
                make().await
            }
            Some(Fault::Late(after) | Fault::CutOff(after)) => {
                if matches!(fault, Some(Fault::CutOff(_))) {
                    self.add_outage(Side::Kubernetes, Fault::RequestLost, 8, after);
                }
                let done = tokio::spawn(async move {
                    sleep(after).await;
                    make().await
                });
                match tokio::time::timeout(TIMEOUT, done).await {
                    Ok(answer) => answer.expect("no call panics"),
                    Err(_) => failed(CallFailure::NoAnswer),
                }
            }
            // A task of its own: a write that was sent lands even when its sender dies.
            None if call.is_write => {
                let done = tokio::spawn(async move {
                    sleep(there).await;
                    make().await
                });
                done.await.expect("no call panics")
            }
            None => {
                sleep(there).await;
                make().await
            }
        };
        say(describe(&answer));
        sleep(back).await;
        if self.is_dead() { pending().await } else { answer }
    }

    async fn begin(&self, call: &Call) -> (usize, Option<Fault>, Duration, Duration) {
        while let Some(until) = self.frozen_until() {
            tokio::time::sleep_until(until).await;
        }
        match self.number(call) {
            Some(planned) => planned,
            None => pending().await,
        }
    }

    /// The call's number, what goes wrong with it, and how long it takes there and back; none for a dead process.
    fn number(&self, call: &Call) -> Option<(usize, Option<Fault>, Duration, Duration)> {
        let mut state = self.state();
        if state.is_dead {
            return None;
        }
        self.0.rates.count(&self.0.name, &call.kind);
        if call.is_write {
            self.0.rates.count_write(&self.0.name, &call.what);
        }
        let number = state.calls;
        state.calls += 1;
        let (now, dice) = (Instant::now(), state.chance.u8(0..8));
        let is_hanging = |hang: &&Hang| now < hang.until && call.is_write && call.kind.ends_with(hang.plural);
        let hang = state.hang.as_ref().filter(is_hanging).map(|hang| hang.fault);
        let is_refused = |(what, _, until): &(&str, Rejection, Instant)| now < *until && call.what.contains(what);
        let refused = state.refused.filter(is_refused).map(|(_, how, _)| Fault::Refused(how));
        let outage = state.outages.get(&call.side).filter(|(until, _, share)| now < *until && dice < *share);
        let outage = outage.map(|(_, fault, _)| *fault);
        let is_openstacks = call.is_write && call.side == Side::OpenStack;
        let next_write = state.next_write.take_if(|_| is_openstacks);
        let fault = state.plan.remove(&number).or(next_write).or(hang).or(refused).or(outage);
        if fault.is_some() && call.side == Side::OpenStack {
            self.0.rates.count_interruption();
        }
        let slowest = state.slowest;
        let mut time = || Duration::from_millis(state.chance.u64(0..=slowest));
        Some((number, fault, time(), time()))
    }

    async fn die<T>(&self) -> T {
        self.kill();
        pending().await
    }
}
