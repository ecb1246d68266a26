//! The gate of one cloud, through which every call to its Neutron passes: limiter and breaker with real waiting.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::super::{Error, ErrorKind};
use super::breaker::{Admission, Breaker};
use super::limiter::Limiter;
use crate::clock::Clock;

/// What the server asks everybody to wait is waited for up to this; beyond it the caller hears how long, and may do
/// something else meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);
/// Half as much again, so that clouds and replicas that failed together do not probe together.
const JITTER: f64 = 0.5;

/// One cloud's gate, shared by all its sessions.
pub(super) struct Gate {
    clock: Clock,
    // Fair: first come, first served. Its size follows the limiter's limit as calls end.
    slots: Arc<Semaphore>,
    // A plain mutex: held for a few instructions, never across an await.
    state: Mutex<State>,
}

struct State {
    limiter: Limiter,
    breaker: Breaker,
    /// Slots that exist, taken or not.
    slots: usize,
}

/// Leave to send one call. Dropped without a verdict, it says nothing about the cloud.
pub(super) struct Pass {
    gate: Arc<Gate>,
    slot: Option<OwnedSemaphorePermit>,
    is_probe: bool,
    since: Instant,
}

/// What a call's end says about the cloud, which is less than what it says to the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It answers.
    Answered,
    /// It answers that it has too much to do.
    Overloaded(Option<Duration>),
    /// It does not answer, or somebody else answers that it does not.
    Failed(Option<Duration>),
    /// Nothing: the call ended before it was sent.
    Nothing,
}

impl Gate {
    /// Lets at most this many calls through at a time.
    pub(super) fn new(clock: Clock, most: usize) -> Self {
        let state = State { limiter: Limiter::new(most), breaker: Breaker::default(), slots: most };
        Self { clock, slots: Arc::new(Semaphore::new(most)), state: Mutex::new(state) }
    }

    /// Waits for a turn. Fails at once when the cloud is known not to answer, or to be asked only much later.
    pub(super) async fn enter(self: &Arc<Self>) -> Result<Pass, Error> {
        let slot = self.slots.clone().acquire_owned().await.expect("the gate's semaphore is never closed");
        let mut pass = Pass { gate: self.clone(), slot: Some(slot), is_probe: false, since: Instant::now() };
        loop {
            let now = Instant::now();
            let wait = self.lock().limiter.wait(now);
            if wait > PATIENCE {
                let error =
                    Error::new(ErrorKind::TooManyRequests, "", "the cloud asks to wait before the next request");
                return Err(Error { retry_after: Some(wait), ..error });
            }
            if wait.is_zero() {
                break;
            }
            // The slot is kept: whoever comes later has to wait as well.
            tokio::time::sleep(wait).await;
        }
        // Asked last, so that a probe is sent as soon as it is granted.
        let admission = self.lock().breaker.admit(Instant::now());
        match admission {
            Admission::Call => {}
            Admission::Probe => pass.is_probe = true,
            Admission::Refused(error) => return Err(error),
        }
        pass.since = Instant::now();
        Ok(pass)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds the gate's state")
    }
}

impl Pass {
    /// Reports how the call ended.
    pub(super) fn end(mut self, verdict: Verdict, error: Option<&Error>) {
        let now = Instant::now();
        let mut state = self.gate.lock();
        match verdict {
            Verdict::Answered => state.limiter.answered(now, now - self.since),
            Verdict::Overloaded(wait) | Verdict::Failed(wait) => state.limiter.overloaded(now, wait),
            Verdict::Nothing => return,
        }
        match (verdict, error) {
            (Verdict::Failed(_), Some(error)) => {
                state.breaker.failed(now, error, |pause| self.gate.clock.jitter(pause, JITTER));
            }
            _ => state.breaker.answered(),
        }
        drop(state);
        self.is_probe = false;
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        if self.is_probe {
            state.breaker.abandoned();
        }
        let limit = state.limiter.limit();
        if state.slots > limit {
            if let Some(slot) = self.slot.take() {
                state.slots -= 1;
                slot.forget();
            }
        } else if state.slots < limit {
            self.gate.slots.add_permits(limit - state.slots);
            state.slots = limit;
        }
    }
}
