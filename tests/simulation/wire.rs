//! What is between one process and the world: every call to the API server and to OpenStack passes here, gets a number,
//! takes its time, and may go wrong. A process that died sends nothing any more and hears of nothing; what it had sent
//! may still land.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::trace::Trace;

/// How long a caller waits for an answer of OpenStack; the session's own timeout.
const PATIENCE: Duration = caip_openstack::openstack::session::REQUEST_TIMEOUT;

/// The two that are called.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Side {
    Kubernetes,
    OpenStack,
}

/// How a call is refused: not done, and the caller is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum No {
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
pub enum Trouble {
    /// The process dies before it sends.
    DieBefore,
    /// The process dies when it is done, and hears of nothing.
    DieAfter,
    /// The process dies as it sends; it is done this much later.
    DieAndLand(Duration),
    /// Done, and the caller sees a timeout.
    ReplyLost,
    /// Not done, and the caller sees a timeout.
    RequestLost,
    /// Not done, and the caller is told.
    Refused(No),
    /// Done twice; the caller hears the second answer. A POST to OpenStack is done once all the same: whoever stands
    /// between may repeat anything else, and two floating IPs with one nonce are a copy that nobody can tell apart.
    Twice,
    /// From this call on the API server is out of reach for this long, and the call itself is late by as much: a leader
    /// whose lease runs out while it waits.
    CutOff(Duration),
    /// Done only after this long; a caller who loses patience before sees a timeout.
    Late(Duration),
}

/// What the caller sees in place of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// Nobody knows whether it was done.
    NoAnswer,
    Refused(No),
}

/// One call, for numbers and traces.
#[derive(Clone, Debug)]
pub struct Call {
    pub side: Side,
    pub what: String,
    pub is_write: bool,
}

/// A process' connection to everything. Clones are the same.
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
    plan: BTreeMap<usize, Trouble>,
    weather: BTreeMap<Side, (Instant, Trouble, u8)>,
    slowest: u64,
}

impl Wire {
    /// A connection. `slowest` is the most milliseconds that a call takes each way.
    pub fn new(name: String, seed: u64, slowest: u64, trace: Trace) -> Self {
        let chance = fastrand::Rng::with_seed(seed);
        let (plan, weather) = (BTreeMap::new(), BTreeMap::new());
        let state = Mutex::new(State { chance, is_dead: false, calls: 0, plan, weather, slowest });
        Self(Arc::new(Inner { name, state, death: Notify::new(), trace }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("no code panics while it holds the state")
    }

    /// How many calls there were.
    pub fn calls(&self) -> usize {
        self.state().calls
    }

    /// Something goes wrong with the call of this number, counted from 0.
    pub fn plan(&self, number: usize, trouble: Trouble) {
        self.state().plan.insert(number, trouble);
    }

    /// Something goes wrong with a share (of 8) of the calls to one side for a while.
    pub fn weather(&self, side: Side, trouble: Trouble, share: u8, lasts: Duration) {
        self.state().weather.insert(side, (Instant::now() + lasts, trouble, share));
    }

    /// From now on nothing goes wrong by itself.
    pub fn calm(&self) {
        let mut state = self.state();
        state.plan.clear();
        state.weather.clear();
    }

    /// The process dies now.
    pub fn kill(&self) {
        self.state().is_dead = true;
        self.0.death.notify_one();
    }

    pub fn is_dead(&self) -> bool {
        self.state().is_dead
    }

    /// Resolves when the process has died.
    pub async fn died(&self) {
        while !self.is_dead() {
            self.0.death.notified().await;
        }
    }

    /// How long a change takes to come through a watch.
    pub fn lag(&self) -> Duration {
        let mut state = self.state();
        let most = 3 * state.slowest.max(1);
        Duration::from_millis(state.chance.u64(1..=most))
    }

    /// One call. `make` does it, each time anew; `failed` is what the caller sees of a failure.
    pub async fn pass<T: Send + 'static>(
        &self,
        call: Call,
        make: impl Fn() -> BoxFuture<'static, T> + Send + 'static,
        failed: impl Fn(Failure) -> T,
        told: impl Fn(&T) -> String,
    ) -> T {
        let (number, trouble, there, back) = self.begin(&call).await;
        let say = |how: String| self.0.trace.tell(|| format!("{} {number} {}: {how}", self.0.name, call.what));
        if let Some(trouble) = trouble {
            say(format!("{trouble:?}"));
        }
        let answer = match trouble {
            Some(Trouble::DieBefore) => self.die().await,
            Some(Trouble::DieAfter) => {
                make().await;
                self.die().await
            }
            Some(Trouble::DieAndLand(after)) => {
                tokio::spawn(async move {
                    sleep(after).await;
                    make().await;
                });
                self.die().await
            }
            Some(Trouble::ReplyLost) => {
                make().await;
                sleep(Duration::from_secs(5)).await;
                failed(Failure::NoAnswer)
            }
            Some(Trouble::RequestLost) => {
                sleep(Duration::from_secs(5)).await;
                failed(Failure::NoAnswer)
            }
            Some(Trouble::Refused(no)) => {
                sleep(there).await;
                failed(Failure::Refused(no))
            }
            Some(Trouble::Twice) => {
                if !call.what.starts_with("create floating IP") {
                    make().await;
                }
                make().await
            }
            Some(Trouble::Late(after) | Trouble::CutOff(after)) => {
                if matches!(trouble, Some(Trouble::CutOff(_))) {
                    self.weather(Side::Kubernetes, Trouble::RequestLost, 8, after);
                }
                let done = tokio::spawn(async move {
                    sleep(after).await;
                    make().await
                });
                match tokio::time::timeout(PATIENCE, done).await {
                    Ok(answer) => answer.expect("no call panics"),
                    Err(_) => failed(Failure::NoAnswer),
                }
            }
            // A task of its own: what is on its way lands, whatever becomes of its sender.
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
        say(told(&answer));
        sleep(back).await;
        if self.is_dead() { pending().await } else { answer }
    }

    async fn begin(&self, call: &Call) -> (usize, Option<Trouble>, Duration, Duration) {
        let planned = {
            let mut state = self.state();
            if state.is_dead {
                None
            } else {
                let number = state.calls;
                state.calls += 1;
                let (now, dice) = (Instant::now(), state.chance.u8(0..8));
                let weather = state.weather.get(&call.side).filter(|(until, _, share)| now < *until && dice < *share);
                let weather = weather.map(|(_, trouble, _)| *trouble);
                let trouble = state.plan.remove(&number).or(weather);
                let slowest = state.slowest;
                let mut time = || Duration::from_millis(state.chance.u64(0..=slowest));
                Some((number, trouble, time(), time()))
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
