//! The throttle of one cloud, which every call to its Neutron passes: applies the limiter and the circuit breaker.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::super::{Error, ErrorKind};
use super::breaker::{Admission, CircuitBreaker};
use super::limiter::Limiter;
use crate::clock::Clock;
use crate::fair::{FairSlots, Slot};
use crate::floating_ip::ProjectId;

/// The longest `Retry-After` that a call waits for. For a longer one it fails, so that the caller can do something else.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// So that clouds and replicas that failed together do not probe together.
const JITTER: f64 = 0.5;

/// Shared by all sessions with one cloud.
pub(super) struct Throttle {
    clock: Clock,
    // Shared fairly by project, the tenant that a cloud knows. As many as the limiter's limit, which is followed as calls
    // end.
    slots: Arc<FairSlots<ProjectId>>,
    state: Mutex<ThrottleState>,
}

struct ThrottleState {
    limiter: Limiter,
    breaker: CircuitBreaker,
    /// Whether the last wait was asked for by an answer that is only for the log.
    is_wait_concealed: bool,
}

/// Permission to send calls, one after the other. Dropping it without [`Permit::record`] reports nothing about the cloud.
pub(super) struct Permit {
    throttle: Arc<Throttle>,
    is_probe: bool,
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
        let limiter = Limiter::new(max_calls);
        let breaker = CircuitBreaker::default();
        let state = ThrottleState { limiter, breaker, is_wait_concealed: false };
        Self { clock, slots: Arc::new(FairSlots::new(max_calls)), state: Mutex::new(state) }
    }

    /// Waits for a slot, one of the project's share. Fails at once while the cloud does not answer, or asks for a wait
    /// longer than [`MAX_WAIT`].
    pub(super) async fn acquire(self: &Arc<Self>, project: &ProjectId) -> Result<Permit, Error> {
        let slot = self.slots.acquire(project.clone()).await;
        let mut permit = Permit { throttle: self.clone(), is_probe: false, granted_at: Instant::now(), _slot: slot };
        loop {
            let wait = self.state.lock().limiter.wait(Instant::now());
            if wait > MAX_WAIT {
                let error =
                    Error::new(ErrorKind::TooManyRequests, "", "the cloud asks to wait before the next request");
                let is_concealed = self.state.lock().is_wait_concealed;
                return Err(Error { retry_after: Some(wait), is_concealed, ..error });
            }
            if wait.is_zero() {
                break;
            }
            // Keeps the slot: later calls have to wait as well.
            tokio::time::sleep(wait).await;
        }
        // Last, so that a probe is sent as soon as it is granted.
        let admission = self.state.lock().breaker.admit(Instant::now());
        match admission {
            Admission::Call => {}
            Admission::Probe => permit.is_probe = true,
            Admission::Refused(error) => return Err(error),
        }
        permit.granted_at = Instant::now();
        Ok(permit)
    }
}

impl Permit {
    /// Records what a call's result says about the cloud; `error` is the one that the call failed with.
    pub(super) fn record(&mut self, health: Health, error: Option<&Error>) {
        let now = Instant::now();
        let taken = now.duration_since(std::mem::replace(&mut self.granted_at, now));
        let mut state = self.throttle.state.lock();
        match health {
            Health::Answering => state.limiter.answered(now, taken),
            Health::Overloaded(wait) | Health::Failing(wait) => {
                state.limiter.overloaded(now, wait);
                state.is_wait_concealed = error.is_some_and(|error| error.is_concealed);
            }
            Health::Unknown => return,
        }
        match (health, error) {
            (Health::Failing(_), Some(error)) => {
                state.breaker.failed(now, error, |pause| self.throttle.clock.jitter(pause, JITTER));
            }
            _ => state.breaker.answered(),
        }
        drop(state);
        self.is_probe = false;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.throttle.state.lock();
        if self.is_probe {
            state.breaker.abandoned();
        }
        let limit = state.limiter.limit();
        drop(state);
        // Before the slot is freed, so that it is not given to another above a lower limit.
        self.throttle.slots.set_limit(limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn any_number_of_calls_may_be_allowed() {
        let throttle = Arc::new(Throttle::new(Clock::system(), usize::MAX));
        assert!(throttle.acquire(&ProjectId::new("p")).await.is_ok());
    }
}
