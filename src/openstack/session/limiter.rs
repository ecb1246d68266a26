//! How many calls to a cloud, or of one of its projects, run concurrently, and when the next one may be sent.
//!
//! Neutron gains nothing from more than 8 (measured: 10 POSTs a second with 8 or 16 clients, 7 with 24), and an overloaded
//! one gains from fewer: the limit is halved when a call is slow or refused for overload, and grows by one with each round
//! of quick answers. Pure: time is passed in.

use std::time::Duration;

use tokio::time::Instant;

use crate::clock::instant_after;

/// The default of the largest limit.
pub(super) const DEFAULT_MAX_CALLS: usize = 8;
/// A longer call, even a successful one, indicates overload: with 8 concurrent calls, one takes about 1 s.
const SLOW_CALL: Duration = Duration::from_secs(10);
/// Concurrent calls fail together, so failures within this time halve the limit once.
const HALVING_INTERVAL: Duration = Duration::from_secs(2);
/// A longer `Retry-After` would stop all pools of the project for a value that is most likely a mistake.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Limiter {
    max: usize,
    limit: usize,
    quick_answers: usize,
    halved_at: Option<Instant>,
    not_before: Option<Instant>,
}

impl Limiter {
    pub(super) fn new(max: usize) -> Self {
        Self { max, limit: max, quick_answers: 0, halved_at: None, not_before: None }
    }

    pub(super) fn is_at_max(&self) -> bool {
        self.limit == self.max
    }

    /// How many calls may run concurrently.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Whether a call that took so long indicates overload, even if it was successful.
    pub(super) fn is_slow(duration: Duration) -> bool {
        duration > SLOW_CALL
    }

    /// How much longer the server asked to wait; zero when it did not.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        self.not_before.map(|at| at.saturating_duration_since(now)).unwrap_or_default()
    }

    pub(super) fn answered(&mut self, now: Instant, duration: Duration) {
        if Self::is_slow(duration) {
            return self.overloaded(now, None);
        }
        self.quick_answers = self.quick_answers.saturating_add(1);
        if self.quick_answers >= self.limit {
            self.quick_answers = 0;
            self.limit = self.limit.saturating_add(1).min(self.max);
        }
    }

    /// A call timed out or was refused for overload.
    pub(super) fn overloaded(&mut self, now: Instant, retry_after: Option<Duration>) {
        if let Some(wait) = retry_after {
            self.not_before = self.not_before.max(Some(instant_after(now, wait.min(MAX_RETRY_AFTER))));
        }
        if self.halved_at.is_none_or(|at| now.duration_since(at) >= HALVING_INTERVAL) {
            self.halved_at = Some(now);
            self.limit = (self.limit / 2).max(1);
            self.quick_answers = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_burst_of_overload_halves_the_limit_once_and_never_below_one() {
        let start = Instant::now();
        let mut limiter = Limiter::new(DEFAULT_MAX_CALLS);
        for _ in 0..8 {
            limiter.overloaded(start, None);
        }
        assert_eq!(limiter.limit(), 4);
        for round in 1..10 {
            limiter.overloaded(start + HALVING_INTERVAL * round, None);
        }
        assert_eq!(limiter.limit(), 1);
    }

    #[test]
    fn quick_answers_raise_the_limit_and_slow_ones_lower_it() {
        let now = Instant::now();
        let mut limiter = Limiter::new(DEFAULT_MAX_CALLS);
        limiter.answered(now, SLOW_CALL * 2);
        assert_eq!(limiter.limit(), 4);
        for _ in 0..4 + 5 + 6 + 7 {
            limiter.answered(now, Duration::from_millis(100));
        }
        assert_eq!(limiter.limit(), 8);
        limiter.answered(now, Duration::from_millis(100));
        assert_eq!(limiter.limit(), 8);
    }

    #[test]
    fn the_longest_retry_after_counts_and_is_capped() {
        let now = Instant::now();
        let mut limiter = Limiter::new(DEFAULT_MAX_CALLS);
        limiter.overloaded(now, Some(Duration::from_secs(7)));
        limiter.overloaded(now, Some(Duration::from_secs(3)));
        assert_eq!(limiter.wait(now), Duration::from_secs(7));
        assert_eq!(limiter.wait(now + Duration::from_secs(7)), Duration::ZERO);
        limiter.overloaded(now, Some(Duration::from_secs(86_400)));
        assert_eq!(limiter.wait(now), MAX_RETRY_AFTER);
    }
}
