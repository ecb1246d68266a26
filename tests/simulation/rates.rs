//! Law 8 while things happen: no kind of call is made much more often than the work needs. A hot loop breaks no other law
//! if it ends with the fault that caused it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use crate::laws::Violation;

/// What is counted together.
const WINDOW: Duration = Duration::from_secs(60);

/// How often each process made each kind of call. Clones share the counts.
#[derive(Clone, Default)]
pub struct Rates(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    by_process: BTreeMap<(String, String), Rate>,
    interruptions: usize,
    is_unlimited: bool,
}

#[derive(Default)]
struct Rate {
    recent: VecDeque<Instant>,
    /// The most calls within one [`WINDOW`].
    most: usize,
}

impl Rates {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no code panics while it holds the counts")
    }

    pub fn count(&self, process: &str, kind: &str) {
        let (mut inner, now) = (self.inner(), Instant::now());
        let rate = inner.by_process.entry((process.to_owned(), kind.to_owned())).or_default();
        while rate.recent.front().is_some_and(|first| *first + WINDOW < now) {
            rate.recent.pop_front();
        }
        rate.recent.push_back(now);
        rate.most = rate.most.max(rate.recent.len());
    }

    /// The history has thousands of objects, and so as many calls.
    pub fn lift_limit(&self) {
        self.inner().is_unlimited = true;
    }

    /// Counts a call to OpenStack that met a fault, or the end of a process.
    pub fn count_interruption(&self) {
        self.inner().interruptions += 1;
    }

    pub fn interruptions(&self) -> usize {
        self.inner().interruptions
    }

    /// The most calls of each kind that any process made within a minute.
    pub fn peaks(&self) -> BTreeMap<String, usize> {
        let mut peaks = BTreeMap::new();
        for ((_, kind), rate) in &self.inner().by_process {
            let peak = peaks.entry(kind.clone()).or_default();
            *peak = rate.most.max(*peak);
        }
        peaks
    }

    pub fn violations(&self) -> Vec<Violation> {
        let limit = if self.inner().is_unlimited { usize::MAX } else { LIMIT };
        let peaks = self.peaks().into_iter().filter(|(_, most)| *most > limit);
        peaks.map(|(kind, most)| Violation::new(8, kind, format!("called {most} times within a minute"))).collect()
    }
}

/// The most calls of a kind that a process of a generated history may make within a minute. A hot loop makes thousands.
const LIMIT: usize = 600;
