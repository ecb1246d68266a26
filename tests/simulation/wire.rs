//! The connections of one process: every call to the API server and to OpenStack passes here, gets a number, takes time,
//! and may meet a fault. A process that died sends nothing more and receives nothing; what it had sent may still land.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::trace::Trace;

/// The timeout of a session with OpenStack.
const TIMEOUT: Duration = caip_openstack::openstack::session::REQUEST_TIMEOUT;

/// The two servers that are called.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Side {
    Kubernetes,
    OpenStack,
}

/// How a call is refused: not done, and the caller gets an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rejection {
    /// 500 of a server that did nothing.
    Server,
    /// 429.
    TooMany,
    /// 409.
    Conflict,
    /// The connection is refused.
    Unreachable,
}

/// What goes wrong with one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The process dies before it sends.
    CrashBefore,
    /// The process dies when the call is done, before it reads the answer.
    CrashAfter,
    /// The process dies as it sends; the call is done this much later.
    CrashAndLand(Duration),
    /// Done, and the caller sees a timeout.
    ReplyLost,
    /// Not done, and the caller sees a timeout.
    RequestLost,
    /// Not done, and the caller gets an error.
    Refused(Rejection),
    /// Done twice; the caller gets the second answer. A POST to OpenStack is done once all the same: two floating IPs with
    /// one nonce cannot be told from a copied mark.
    Twice,
    /// From this call on the API server cannot be reached for this long, and the call itself is late by as much: the lease
    /// of a leader expires while it waits.
    CutOff(Duration),
    /// Done only after this long; the caller may time out before.
    Late(Duration),
}

/// What the caller gets in place of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallFailure {
    /// It may have been done or not.
    NoAnswer,
    Refused(Rejection),
}

#[derive(Clone, Debug)]
pub struct Call {
    pub side: Side,
    pub what: String,
    pub is_write: bool,
}

/// Clones share the connection.
#[derive(Clone)]
pub struct Wire(Arc<Inner>);

struct Inner {
    name: String,
    state: Mutex<State>,
    death: Notify,
    trace: Trace,
}

struct State {
    chance: fastrand::Rng,
    is_dead: bool,
    calls: usize,
    plan: BTreeMap<usize, Fault>,
    outages: BTreeMap<Side, (Instant, Fault, u8)>,
    slowest: u64,
}

impl Wire {
    /// A connection. `slowest` is the most milliseconds that a call takes each way.
    pub fn new(name: String, seed: u64, slowest: u64, trace: Trace) -> Self {
        let chance = fastrand::Rng::with_seed(seed);
        let (plan, outages) = (BTreeMap::new(), BTreeMap::new());
        let state = Mutex::new(State { chance, is_dead: false, calls: 0, plan, outages, slowest });
        Self(Arc::new(Inner { name, state, death: Notify::new(), trace }))
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

    /// Injects a fault into a share (of 8) of the calls to one side for a while.
    pub fn add_outage(&self, side: Side, fault: Fault, share: u8, lasts: Duration) {
        self.state().outages.insert(side, (Instant::now() + lasts, fault, share));
    }

    /// Removes every fault that is still to come.
    pub fn clear_faults(&self) {
        let mut state = self.state();
        state.plan.clear();
        state.outages.clear();
    }

    pub fn kill(&self) {
        self.state().is_dead = true;
        self.0.death.notify_one();
    }

    pub fn is_dead(&self) -> bool {
        self.state().is_dead
    }

    pub async fn died(&self) {
        while !self.is_dead() {
            self.0.death.notified().await;
        }
    }

    /// How long a change takes to arrive through a watch.
    pub fn lag(&self) -> Duration {
        let mut state = self.state();
        let most = 3 * state.slowest.max(1);
        Duration::from_millis(state.chance.u64(1..=most))
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
            Some(Fault::ReplyLost) => {
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
        let planned = {
            let mut state = self.state();
            if state.is_dead {
                None
            } else {
                let number = state.calls;
                state.calls += 1;
                let (now, dice) = (Instant::now(), state.chance.u8(0..8));
                let add_outage =
                    state.outages.get(&call.side).filter(|(until, _, share)| now < *until && dice < *share);
                let add_outage = add_outage.map(|(_, fault, _)| *fault);
                let fault = state.plan.remove(&number).or(add_outage);
                let slowest = state.slowest;
                let mut time = || Duration::from_millis(state.chance.u64(0..=slowest));
                Some((number, fault, time(), time()))
            }
        };
        match planned {
            Some(planned) => planned,
            None => pending().await,
        }
    }

    async fn die<T>(&self) -> T {
        self.kill();
        pending().await
    }
}
