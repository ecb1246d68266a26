//! A circuit breaker: after a few failures in a row, only one probe at a time is sent to a cloud, or by one of its projects.
//!
//! So an outage costs a bounded number of calls a second, however many claims wait, and each of them gets the reason at
//! once. Pure: time is passed in.

use std::time::Duration;

use tokio::time::Instant;

use super::super::{Error, ErrorKind};
use crate::clock::instant_after;

/// Opens the breaker. One failure may be accidental; eight calls run concurrently, and so may fail together.
const MAX_FAILURES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// With the jitter that the caller adds (up to a half), calls resume within 15 s of the cloud's recovery.
const MAX_PAUSE: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct CircuitBreaker {
    failures_in_a_row: u32,
    outage: Option<Outage>,
}

/// Present while the breaker is open.
#[derive(Debug)]
struct Outage {
    pause: Duration,
    probe_at: Instant,
    is_probing: bool,
    cause: Error,
}

impl CircuitBreaker {
    pub(super) fn is_open(&self) -> bool {
        self.outage.is_some()
    }

    pub(super) fn last_call_was_answered(&self) -> bool {
        self.outage.is_none() && self.failures_in_a_row == 0
    }

    /// Why a call must not be sent now.
    pub(super) fn refusal(&self, now: Instant) -> Option<Error> {
        let is_probe_due = |outage: &Outage| now >= outage.probe_at && !outage.is_probing;
        self.outage.as_ref().filter(|outage| !is_probe_due(outage)).and_then(|_| self.cause())
    }

    /// Why the breaker is open.
    pub(super) fn cause(&self) -> Option<Error> {
        let Outage { cause, .. } = self.outage.as_ref()?;
        // Not with the kind of the cause: this call was not sent, so its outcome is known.
        let kind = if cause.kind == ErrorKind::Untrusted { cause.kind } else { ErrorKind::Unreachable };
        Some(Error { is_concealed: cause.is_concealed, ..Error::new(kind, "", &cause.message) })
    }

    /// Allows a call, or refuses it. Returns whether it is a probe, whose result decides whether the breaker closes.
    pub(super) fn admit(&mut self, now: Instant) -> Result<bool, Error> {
        if let Some(refusal) = self.refusal(now) {
            return Err(refusal);
        }
        let Some(outage) = &mut self.outage else { return Ok(false) };
        outage.is_probing = true;
        Ok(true)
    }

    /// The cloud answered, even if it refused the call.
    pub(super) fn answered(&mut self) {
        *self = Self::default();
    }

    /// The cloud did not answer, or a proxy answered for it. `jitter` extends the pause.
    pub(super) fn failed(
        &mut self,
        now: Instant,
        cause: &Error,
        is_probe: bool,
        jitter: impl FnOnce(Duration) -> Duration,
    ) {
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        let pause = match &self.outage {
            // Of a call that was sent before the breaker opened, or that it did not have to admit.
            Some(_) if !is_probe => return,
            Some(outage) => outage.pause.saturating_mul(2).min(MAX_PAUSE),
            None if self.failures_in_a_row >= MAX_FAILURES => FIRST_PAUSE,
            None => return,
        };
        let probe_at = instant_after(now, jitter(pause));
        self.outage = Some(Outage { pause, probe_at, is_probing: false, cause: cause.clone() });
    }

    /// The probe was dropped before it ended: the next call becomes the probe.
    pub(super) fn abandoned(&mut self) {
        if let Some(outage) = &mut self.outage {
            outage.is_probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> Error {
        Error::new(ErrorKind::NoAnswer, "list", "n:9696 does not answer in time")
    }

    fn opened(now: Instant) -> CircuitBreaker {
        let mut breaker = CircuitBreaker::default();
        for _ in 0..MAX_FAILURES {
            assert!(matches!(breaker.admit(now), Ok(false)));
            breaker.failed(now, &failure(), false, |pause| pause);
        }
        breaker
    }

    #[test]
    fn after_a_few_failures_in_a_row_only_one_probe_is_sent() {
        let now = Instant::now();
        let mut breaker = opened(now);
        let Err(error) = breaker.admit(now) else { panic!("it lets calls through") };
        assert_eq!(error.message, "n:9696 does not answer in time");
        assert!(!error.is_unknown(), "the call was not sent, so its outcome is known");
        let later = now + FIRST_PAUSE;
        assert!(matches!(breaker.admit(later), Ok(true)));
        assert!(breaker.admit(later).is_err());
        breaker.answered();
        assert!(matches!(breaker.admit(later), Ok(false)));
    }

    #[test]
    fn an_answer_resets_the_count_of_failures() {
        let now = Instant::now();
        let mut breaker = CircuitBreaker::default();
        for _ in 0..20 {
            breaker.failed(now, &failure(), false, |pause| pause);
            breaker.answered();
        }
        assert!(matches!(breaker.admit(now), Ok(false)));
    }

    #[test]
    fn an_hours_outage_costs_at_most_one_call_every_ten_seconds() {
        let start = Instant::now();
        let mut breaker = opened(start);
        let mut probes = 0;
        for second in 0..3600 {
            let now = start + Duration::from_secs(second);
            for _ in 0..100 {
                if let Ok(true) = breaker.admit(now) {
                    probes += 1;
                    breaker.failed(now, &failure(), true, |pause| pause);
                }
            }
        }
        assert!((350..=370).contains(&probes), "{probes}");
    }

    #[test]
    fn a_dropped_probe_is_replaced_by_the_next_call() {
        let now = Instant::now();
        let mut breaker = opened(now);
        assert!(matches!(breaker.admit(now + FIRST_PAUSE), Ok(true)));
        breaker.abandoned();
        assert!(matches!(breaker.admit(now + FIRST_PAUSE), Ok(true)));
    }
}
