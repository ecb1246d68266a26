//! What Kubernetes' namespace controller does.

use std::time::Duration;

use super::deletion::{Deletion, Propagation};
use super::metadata::is_deleting;
use super::{ApiServer, Key, Kind};

/// How long it waits before it looks at a namespace that is being deleted.
pub const NAMESPACE_GRACE: Duration = Duration::from_secs(5);
/// How long it waits while finalizers keep some of its content.
pub const NAMESPACE_RETRY: Duration = Duration::from_secs(8);

impl ApiServer {
    /// Whether a namespace is being deleted.
    pub fn has_terminating_namespace(&self) -> bool {
        self.all(Kind::Namespace).iter().any(|namespace| is_deleting(namespace))
    }

    /// Deletes everything in the namespaces that are being deleted, and those that are empty then.
    pub fn empty_namespaces(&self) {
        for namespace in self.all(Kind::Namespace).iter().filter(|namespace| is_deleting(namespace)) {
            let name = super::objects::text(&namespace["metadata"]["name"]).to_owned();
            let content =
                || self.state().objects.keys().filter(|key| key.namespace == name).cloned().collect::<Vec<Key>>();
            for key in content() {
                // It may be gone with an object before it.
                let _ = self.delete(&key, &Deletion::with(Propagation::Background));
            }
            if content().is_empty() {
                self.state().take(&Key::new(Kind::Namespace, "", &name), namespace);
                self.notify();
            }
        }
    }
}
