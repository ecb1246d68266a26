//! What happened, in order: always as one number, so that two runs can be compared, and as text on request.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use tokio::time::Instant;

/// The record of one history. Clones share it.
#[derive(Clone)]
pub struct Trace(Arc<Mutex<Inner>>);

struct Inner {
    origin: Instant,
    hash: DefaultHasher,
    lines: Option<Vec<String>>,
}

impl Trace {
    pub fn new(is_logged: bool) -> Self {
        let lines = is_logged.then(Vec::new);
        Self(Arc::new(Mutex::new(Inner { origin: Instant::now(), hash: DefaultHasher::new(), lines })))
    }

    pub fn record(&self, what: impl FnOnce() -> String) {
        let mut inner = self.0.lock().expect("no code panics while it holds the trace");
        let (what, at) = (what(), inner.origin.elapsed().as_millis());
        at.hash(&mut inner.hash);
        what.hash(&mut inner.hash);
        if let Some(lines) = &mut inner.lines {
            lines.push(format!("{:>8}.{:03} {what}", at / 1000, at % 1000));
        }
    }

    /// Everything, as one number: the same for the same history.
    pub fn hash(&self) -> u64 {
        self.0.lock().expect("no code panics while it holds the trace").hash.finish()
    }

    /// Everything, as text.
    pub fn text(&self) -> String {
        self.0.lock().expect("no code panics while it holds the trace").lines.clone().unwrap_or_default().join("\n")
    }
}
