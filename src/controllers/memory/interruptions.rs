//! Which watches are interrupted: what the stores show of their kinds may no longer be so.

use std::collections::BTreeSet;

use tokio::sync::watch;

/// The kinds whose watch was interrupted and has not listed again. Until then nothing is reconciled, and a sweep or a
/// clean-up that has begun does not go on: the stores may show different moments, and the API server may even have come
/// back with data from a backup.
#[derive(Default)]
pub(in crate::controllers) struct Interruptions(watch::Sender<BTreeSet<&'static str>>);

impl Interruptions {
    pub(in crate::controllers) fn begin(&self, kind: &'static str) {
        self.0.send_if_modified(|kinds| kinds.insert(kind));
    }

    pub(in crate::controllers) fn end(&self, kind: &'static str) {
        self.0.send_if_modified(|kinds| kinds.remove(kind));
    }

    pub(in crate::controllers) fn is_any(&self) -> bool {
        !self.0.borrow().is_empty()
    }

    pub(in crate::controllers) fn subscribe(&self) -> watch::Receiver<BTreeSet<&'static str>> {
        self.0.subscribe()
    }
}
