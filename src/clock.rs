//! Time and chance, injected: a simulation owns both.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Where the time of day and random characters come from. Cheap to clone; clones share the source.
///
/// What it shows never jumps, so that it can measure as well as date: where the machine's clock is put forward, a fence
/// or a grace period does not end before its time, and where it is put back, nothing waits until it is that late again.
/// It follows the machine's by a tenth of the time that passes.
#[derive(Clone)]
pub struct Clock {
    machine: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    // Plain mutexes: held for a few instructions, never across an await.
    shown: Arc<Mutex<Shown>>,
    chance: Arc<Mutex<fastrand::Rng>>,
}

/// What was shown last, and when that was by a clock that only runs.
#[derive(Clone, Copy)]
struct Shown {
    time: Timestamp,
    at: Instant,
}

impl Clock {
    /// The machine's clock and its entropy.
    pub fn system() -> Self {
        Self::new(Timestamp::now, fastrand::Rng::new())
    }

    /// Follows another clock; chance repeats for a seed.
    pub fn of(machine: impl Fn() -> Timestamp + Send + Sync + 'static, seed: u64) -> Self {
        Self::new(machine, fastrand::Rng::with_seed(seed))
    }

    /// A clock that follows tokio's, which a test can pause, starting from `start`; chance repeats for a seed.
    pub fn simulated(start: Timestamp, seed: u64) -> Self {
        let origin = Instant::now();
        Self::of(move || start + SignedDuration::try_from(origin.elapsed()).unwrap_or_default(), seed)
    }

    fn new(machine: impl Fn() -> Timestamp + Send + Sync + 'static, chance: fastrand::Rng) -> Self {
        let shown = Shown { time: machine(), at: Instant::now() };
        Self { machine: Arc::new(machine), shown: Arc::new(Mutex::new(shown)), chance: Arc::new(Mutex::new(chance)) }
    }

    /// The time of day.
    pub fn now(&self) -> Timestamp {
        let mut shown = self.shown.lock().expect("no code panics while it holds what was shown");
        let now = Instant::now();
        let passed = SignedDuration::try_from(now - shown.at).unwrap_or_default();
        // Saturating: a machine whose clock is at the end of what a timestamp can hold must not stop the process.
        let after = |passed: SignedDuration| shown.time.saturating_add(passed).unwrap_or(shown.time);
        let (earliest, latest) = (after(passed - passed / 10), after(passed + passed / 10));
        *shown = Shown { time: (self.machine)().clamp(earliest, latest), at: now };
        shown.time
    }

    /// `length` random characters of `[a-z0-9]`.
    pub fn random_name(&self, length: usize) -> String {
        let mut chance = self.chance.lock().expect("no code panics while it holds the source of chance");
        std::iter::repeat_with(|| char::from(b"abcdefghijklmnopqrstuvwxyz0123456789"[chance.usize(..36)]))
            .take(length)
            .collect()
    }

    /// A duration between `base` and `base` plus `share` of it, so that what started together does not stay together.
    /// Saturates: `base` may come from a server.
    pub fn jitter(&self, base: Duration, share: f64) -> Duration {
        let mut chance = self.chance.lock().expect("no code panics while it holds the source of chance");
        let extra = Duration::try_from_secs_f64(base.as_secs_f64() * (share * chance.f64()));
        base.saturating_add(extra.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

    use tokio::time::advance;

    use super::*;

    /// A clock whose machine's clock is off by as many seconds as the other says.
    fn clock() -> (Clock, Arc<AtomicI64>) {
        let true_time = Clock::simulated(Timestamp::UNIX_EPOCH, 1);
        let off = Arc::new(AtomicI64::new(0));
        let by = off.clone();
        (Clock::of(move || true_time.now() + SignedDuration::from_secs(by.load(Relaxed)), 1), off)
    }

    #[tokio::test]
    async fn jitter_of_an_extreme_duration_saturates() {
        let (clock, _) = clock();
        for base in [Duration::MAX, Duration::from_secs(u64::MAX), Duration::ZERO] {
            assert!(clock.jitter(base, 0.5) >= base);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_shows_what_the_machine_shows() {
        let (clock, off) = clock();
        advance(Duration::from_secs(100)).await;
        assert_eq!(clock.now().as_second(), 100);
        // A little, as clocks are kept right.
        off.store(1, Relaxed);
        advance(Duration::from_secs(100)).await;
        assert_eq!(clock.now().as_second(), 201);
    }

    #[tokio::test(start_paused = true)]
    async fn a_machines_clock_that_jumps_is_followed_slowly() {
        for (jump, shown) in [(3600, 110), (-3600, 90)] {
            let (clock, off) = clock();
            off.store(jump, Relaxed);
            assert_eq!(clock.now().as_second(), 0);
            advance(Duration::from_secs(100)).await;
            assert_eq!(clock.now().as_second(), shown);
            advance(Duration::from_secs(35_900)).await;
            assert_eq!(clock.now().as_second(), 36_000 + jump);
        }
    }
}
