//! When a cloud does not answer: after a few failures in a row nobody calls it but one probe at a time.
//!
//! So an outage costs a bounded number of calls a second, however many claims wait, and each of them hears at once why
//! it waits. Pure: time is passed in.

use std::time::Duration;

use tokio::time::Instant;

use super::super::{Error, ErrorKind};

/// One failure may be chance. Eight calls run side by side, so fewer than that many means that no healthy answer came
/// in between.
const FAILURES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// With the jitter that the caller adds (up to half as much again), things heal within 15 s of the mend.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Counts failures in a row.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    pause: Duration,
    probe_at: Instant,
    is_probing: bool,
    why: Error,
}

/// What a call may do.
#[derive(Debug)]
pub(super) enum Admission {
    /// Go on.
    Call,
    /// Go on, alone: whether the rest may follow hangs on this one.
    Probe,
    /// Fail with this at once.
    Refused(Error),
}

impl Breaker {
    /// Whether a call may be sent now.
    pub(super) fn admit(&mut self, now: Instant) -> Admission {
        match &mut self.open {
            None => Admission::Call,
            Some(open) if now >= open.probe_at && !open.is_probing => {
                open.is_probing = true;
                Admission::Probe
            }
            // Whatever stopped the others: this one was never sent, and must not be taken for one that was.
            Some(open) => {
                let kind = if open.why.kind == ErrorKind::Untrusted { open.why.kind } else { ErrorKind::Unreachable };
                Admission::Refused(Error::new(kind, "", open.why.message.clone()))
            }
        }
    }

    /// The cloud answered, if only with a refusal.
    pub(super) fn answered(&mut self) {
        *self = Self::default();
    }

    /// The cloud did not answer, or a proxy answered for it. `jitter` stretches the pause.
    pub(super) fn failed(&mut self, now: Instant, why: &Error, jitter: impl FnOnce(Duration) -> Duration) {
        self.failures = self.failures.saturating_add(1);
        match &mut self.open {
            // Late failures of calls that were under way when it opened say nothing new.
            Some(open) if !open.is_probing => {}
            Some(open) => {
                open.pause = (open.pause * 2).min(LONGEST_PAUSE);
                open.probe_at = now + jitter(open.pause);
                open.is_probing = false;
                open.why = why.clone();
            }
            None if self.failures >= FAILURES => {
                let probe_at = now + jitter(FIRST_PAUSE);
                self.open = Some(Open { pause: FIRST_PAUSE, probe_at, is_probing: false, why: why.clone() });
            }
            None => {}
        }
    }

    /// The probe was dropped before it ended: the next call is a probe again.
    pub(super) fn abandoned(&mut self) {
        if let Some(open) = &mut self.open {
            open.is_probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> Error {
        Error::new(ErrorKind::NoAnswer, "list", "n:9696 does not answer in time")
    }

    fn opened(now: Instant) -> Breaker {
        let mut breaker = Breaker::default();
        for _ in 0..FAILURES {
            assert!(matches!(breaker.admit(now), Admission::Call));
            breaker.failed(now, &failure(), |pause| pause);
        }
        breaker
    }

    #[test]
    fn a_few_failures_in_a_row_stop_all_but_one_probe() {
        let now = Instant::now();
        let mut breaker = opened(now);
        let Admission::Refused(error) = breaker.admit(now) else { panic!("it lets calls through") };
        assert_eq!(error.message, "n:9696 does not answer in time");
        assert!(!error.is_unknown(), "a call that was never sent needs no settling");
        let later = now + FIRST_PAUSE;
        assert!(matches!(breaker.admit(later), Admission::Probe));
        assert!(matches!(breaker.admit(later), Admission::Refused(_)));
        breaker.answered();
        assert!(matches!(breaker.admit(later), Admission::Call));
    }

    #[test]
    fn an_answer_in_between_starts_the_count_again() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        for _ in 0..20 {
            breaker.failed(now, &failure(), |pause| pause);
            breaker.answered();
        }
        assert!(matches!(breaker.admit(now), Admission::Call));
    }

    #[test]
    fn an_outage_of_an_hour_costs_at_most_a_call_in_ten_seconds() {
        let start = Instant::now();
        let mut breaker = opened(start);
        let mut probes = 0;
        for second in 0..3600 {
            let now = start + Duration::from_secs(second);
            for _ in 0..100 {
                if let Admission::Probe = breaker.admit(now) {
                    probes += 1;
                    breaker.failed(now, &failure(), |pause| pause);
                }
            }
        }
        assert!((350..=370).contains(&probes), "{probes}");
    }

    #[test]
    fn a_probe_that_was_dropped_blocks_nobody() {
        let now = Instant::now();
        let mut breaker = opened(now);
        assert!(matches!(breaker.admit(now + FIRST_PAUSE), Admission::Probe));
        breaker.abandoned();
        assert!(matches!(breaker.admit(now + FIRST_PAUSE), Admission::Probe));
    }
}
