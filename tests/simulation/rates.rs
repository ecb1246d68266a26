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
    /// Writes, by process and object.
    by_object: BTreeMap<(String, String), Rate>,
    interruptions: usize,
    is_unlimited: bool,
}

#[derive(Default)]
struct Rate {
    recent: VecDeque<Instant>,
    /// The most calls within one [`WINDOW`].
    most: usize,
}

impl Rate {
    fn count(&mut self) {
        let now = Instant::now();
        while self.recent.front().is_some_and(|first| *first + WINDOW < now) {
            self.recent.pop_front();
        }
        self.recent.push_back(now);
        self.most = self.most.max(self.recent.len());
    }
}

impl Rates {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no code panics while it holds the counts")
    }

    pub fn count(&self, process: &str, kind: &str) {
        self.inner().by_process.entry((process.to_owned(), kind.to_owned())).or_default().count();
    }

    /// Counts a write of one object.
    pub fn count_write(&self, process: &str, object: &str) {
        self.inner().by_object.entry((process.to_owned(), object.to_owned())).or_default().count();
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

    /// The most calls of each kind that any process made within a minute, and of the write that was made most often.
    pub fn peaks(&self) -> BTreeMap<String, usize> {
        let mut peaks = BTreeMap::new();
        let inner = self.inner();
        for ((_, kind), rate) in &inner.by_process {
            let peak = peaks.entry(kind.clone()).or_default();
            *peak = rate.most.max(*peak);
        }
        let object = inner.by_object.iter().max_by_key(|(_, rate)| rate.most);
        peaks.extend(object.map(|((_, object), rate)| (format!("{OBJECT}{object}"), rate.most)));
        peaks
    }

    pub fn violations(&self) -> Vec<Violation> {
        if self.inner().is_unlimited {
            return Vec::new();
        }
        let limit = |kind: &str| if kind.starts_with(OBJECT) { LIMIT_OF_AN_OBJECT } else { LIMIT };
        let peaks = self.peaks().into_iter().filter(|(kind, most)| *most > limit(kind));
        peaks.map(|(kind, most)| Violation::new(8, kind, format!("called {most} times within a minute"))).collect()
    }
}

/// The most calls of a kind that a process of a generated history may make within a minute: about twice what any of them needs.
const LIMIT: usize = 200;

/// The most writes of one object within a minute that a process may make: twice what any of them needs, as when each answer
/// of a cloud is another one.
const LIMIT_OF_AN_OBJECT: usize = 60;
const OBJECT: &str = "only: ";
