//! Time and chance, injected: a simulation owns both.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;

/// Where the time of day and random characters come from. Cheap to clone; clones share the source.
#[derive(Clone)]
pub struct Clock {
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    // A plain mutex: held for a few instructions, never across an await.
    chance: Arc<Mutex<fastrand::Rng>>,
}

impl Clock {
    /// The machine's clock and its entropy.
    pub fn system() -> Self {
        Self { now: Arc::new(Timestamp::now), chance: Arc::new(Mutex::new(fastrand::Rng::new())) }
    }

    /// A clock that follows tokio's, which a test can pause, starting from `start`; chance repeats for a seed.
    pub fn simulated(start: Timestamp, seed: u64) -> Self {
        let origin = tokio::time::Instant::now();
        Self {
            now: Arc::new(move || start + jiff::SignedDuration::try_from(origin.elapsed()).unwrap_or_default()),
            chance: Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))),
        }
    }

    /// The time of day.
    pub fn now(&self) -> Timestamp {
        (self.now)()
    }

    /// `length` random characters of `[a-z0-9]`.
    pub fn random_name(&self, length: usize) -> String {
        let mut chance = self.chance.lock().expect("no code panics while it holds the source of chance");
        std::iter::repeat_with(|| char::from(b"abcdefghijklmnopqrstuvwxyz0123456789"[chance.usize(..36)]))
            .take(length)
            .collect()
    }

    /// A duration between `base` and `base` plus `share` of it, so that what started together does not stay together.
    pub fn jitter(&self, base: Duration, share: f64) -> Duration {
        let mut chance = self.chance.lock().expect("no code panics while it holds the source of chance");
        base + base.mul_f64(share * chance.f64())
    }
}
