//! An injectable clock and random source, so that a simulation controls both.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::time::after;

const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The time of day and a random source. Cheap to clone; clones share both.
///
/// The time never jumps, so that it can also measure durations: setting the machine's clock forward does not end a grace
/// period early, and setting it back does not extend one. A difference from the machine's clock is corrected by at most a
/// tenth of the time that passes.
#[derive(Clone)]
pub struct Clock {
    machine: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    last: Arc<Mutex<Reading>>,
    random: Arc<Mutex<fastrand::Rng>>,
}

/// A time that the clock returned, and the monotonic time at which it did.
#[derive(Clone, Copy)]
struct Reading {
    time: Timestamp,
    at: Instant,
}

impl Clock {
    /// The machine's clock and random source.
    pub fn system() -> Self {
        Self::new(Timestamp::now, fastrand::Rng::new())
    }

    /// Follows `machine` instead of the machine's clock; a seed always gives the same random values.
    pub fn following(machine: impl Fn() -> Timestamp + Send + Sync + 'static, seed: u64) -> Self {
        Self::new(machine, fastrand::Rng::with_seed(seed))
    }

    /// Follows tokio's clock, which a test can pause, from `start`; a seed always gives the same random values.
    pub fn simulated(start: Timestamp, seed: u64) -> Self {
        let origin = Instant::now();
        Self::following(move || after(start, origin.elapsed()), seed)
    }

    fn new(machine: impl Fn() -> Timestamp + Send + Sync + 'static, random: fastrand::Rng) -> Self {
        let last = Reading { time: machine(), at: Instant::now() };
        Self { machine: Arc::new(machine), last: Arc::new(Mutex::new(last)), random: Arc::new(Mutex::new(random)) }
    }

    pub fn now(&self) -> Timestamp {
        let mut last = self.last.lock();
        let now = Instant::now();
        let passed = now.duration_since(last.at);
        #[expect(clippy::arithmetic_side_effects, reason = "10 is not 0")]
        let tenth = passed / 10;
        let earliest = after(last.time, passed.saturating_sub(tenth));
        let latest = after(last.time, passed.saturating_add(tenth));
        *last = Reading { time: (self.machine)().clamp(earliest, latest), at: now };
        last.time
    }

    /// `length` random characters of `[a-z0-9]`.
    pub fn random_name(&self, length: usize) -> String {
        let mut random = self.random.lock();
        let characters = std::iter::repeat_with(|| random.choice(b"abcdefghijklmnopqrstuvwxyz0123456789")).flatten();
        characters.map(|character| char::from(*character)).take(length).collect()
    }

    /// A random duration between `base` and `base + share * base`. Saturates: `base` may come from a server.
    pub fn jitter(&self, base: Duration, share: f64) -> Duration {
        let extra = Duration::try_from_secs_f64(base.as_secs_f64() * (share * self.random.lock().f64()));
        base.saturating_add(extra.unwrap_or_default())
    }
}

/// `start + duration`. A flag may name a duration that is too long for an instant: then it is a century.
pub(crate) fn instant_after(start: Instant, duration: Duration) -> Instant {
    #[expect(clippy::arithmetic_side_effects, reason = "no machine runs for so long that a century is too long")]
    start.checked_add(duration).unwrap_or_else(|| start + CENTURY)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

    use jiff::SignedDuration;
    use tokio::time::advance;

    use super::*;

    /// A clock, and by how many seconds the machine's clock that it follows is wrong.
    fn clock() -> (Clock, Arc<AtomicI64>) {
        let true_time = Clock::simulated(Timestamp::UNIX_EPOCH, 1);
        let error = Arc::new(AtomicI64::new(0));
        let seconds = error.clone();
        (Clock::following(move || true_time.now() + SignedDuration::from_secs(seconds.load(Relaxed)), 1), error)
    }

    #[tokio::test]
    async fn jitter_of_an_extreme_duration_saturates() {
        let (clock, _) = clock();
        for base in [Duration::MAX, Duration::from_secs(u64::MAX), Duration::ZERO] {
            assert!(clock.jitter(base, 0.5) >= base);
        }
    }

    #[tokio::test]
    async fn a_duration_that_is_too_long_for_an_instant_is_a_century() {
        let now = Instant::now();
        assert_eq!(instant_after(now, Duration::from_secs(1)), now + Duration::from_secs(1));
        for endless in [Duration::MAX, Duration::from_secs(i64::MAX.unsigned_abs())] {
            assert_eq!(instant_after(now, endless), now + CENTURY);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn small_corrections_of_the_machines_clock_are_followed_at_once() {
        let (clock, error) = clock();
        advance(Duration::from_secs(100)).await;
        assert_eq!(clock.now().as_second(), 100);
        error.store(1, Relaxed);
        advance(Duration::from_secs(100)).await;
        assert_eq!(clock.now().as_second(), 201);
    }

    #[tokio::test(start_paused = true)]
    async fn jumps_of_the_machines_clock_are_followed_slowly() {
        for (jump, after_100_s) in [(3600, 110), (-3600, 90)] {
            let (clock, error) = clock();
            error.store(jump, Relaxed);
            assert_eq!(clock.now().as_second(), 0);
            advance(Duration::from_secs(100)).await;
            assert_eq!(clock.now().as_second(), after_100_s);
            advance(Duration::from_secs(35_900)).await;
            assert_eq!(clock.now().as_second(), 36_000 + jump);
        }
    }
}
