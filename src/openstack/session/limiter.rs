//! How many calls run side by side, and not before when.
//!
//! Neutron gains nothing beyond 8 (measured: 10 POSTs a second with 8 clients or 16, 7 with 24), and one that is
//! overloaded gains from fewer: halved when it says so or is slow, one more for each round of quick answers. Pure: time
//! is passed in.

use std::time::Duration;

use tokio::time::Instant;

/// How many calls run side by side at the most, where nobody says otherwise. See the module.
pub(super) const MOST: usize = 8;
/// An answer that takes longer, however good, is a sign of too many calls: with 8 of them one takes about 1 s.
const SLOW: Duration = Duration::from_secs(10);
/// Calls that ran side by side fail side by side: they are one sign, not eight.
const ONE_SIGN: Duration = Duration::from_secs(2);
/// A server that asks for more is misconfigured or means "never"; it is asked again after this.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The limits of one cloud.
#[derive(Debug)]
pub(super) struct Limiter {
    most: usize,
    limit: usize,
    quick: usize,
    halved_at: Option<Instant>,
    not_before: Option<Instant>,
}

impl Limiter {
    /// At most this many.
    pub(super) fn new(most: usize) -> Self {
        Self { most, limit: most, quick: 0, halved_at: None, not_before: None }
    }

    /// How many calls may run side by side.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// How long the server asked everybody to wait; zero when it did not.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        self.not_before.map(|at| at.saturating_duration_since(now)).unwrap_or_default()
    }

    /// A call was answered after `took`.
    pub(super) fn answered(&mut self, now: Instant, took: Duration) {
        if took > SLOW {
            return self.overloaded(now, None);
        }
        self.quick += 1;
        if self.quick >= self.limit {
            self.quick = 0;
            self.limit = (self.limit + 1).min(self.most);
        }
    }

    /// A call timed out, or was answered that it is too much; the server may have named a time to wait.
    pub(super) fn overloaded(&mut self, now: Instant, retry_after: Option<Duration>) {
        if let Some(wait) = retry_after {
            self.not_before = self.not_before.max(Some(now + wait.min(LONGEST_WAIT)));
        }
        if self.halved_at.is_none_or(|at| now >= at + ONE_SIGN) {
            self.halved_at = Some(now);
            self.limit = (self.limit / 2).max(1);
            self.quick = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_overload_halve_the_limit_once_for_each_burst_and_never_to_none() {
        let start = Instant::now();
        let mut limiter = Limiter::new(MOST);
        for _ in 0..8 {
            limiter.overloaded(start, None);
        }
        assert_eq!(limiter.limit(), 4);
        for round in 1..10 {
            limiter.overloaded(start + ONE_SIGN * round, None);
        }
        assert_eq!(limiter.limit(), 1);
    }

    #[test]
    fn quick_answers_bring_the_limit_back_and_slow_ones_take_it_down() {
        let now = Instant::now();
        let mut limiter = Limiter::new(MOST);
        limiter.answered(now, SLOW * 2);
        assert_eq!(limiter.limit(), 4);
        for _ in 0..4 + 5 + 6 + 7 {
            limiter.answered(now, Duration::from_millis(100));
        }
        assert_eq!(limiter.limit(), 8);
        limiter.answered(now, Duration::from_millis(100));
        assert_eq!(limiter.limit(), 8);
    }

    #[test]
    fn a_time_to_wait_holds_for_everybody_and_is_capped() {
        let now = Instant::now();
        let mut limiter = Limiter::new(MOST);
        limiter.overloaded(now, Some(Duration::from_secs(7)));
        limiter.overloaded(now, Some(Duration::from_secs(3)));
        assert_eq!(limiter.wait(now), Duration::from_secs(7));
        assert_eq!(limiter.wait(now + Duration::from_secs(7)), Duration::ZERO);
        limiter.overloaded(now, Some(Duration::from_secs(86_400)));
        assert_eq!(limiter.wait(now), LONGEST_WAIT);
    }
}
