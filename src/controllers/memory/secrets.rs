//! Which Secrets carry finalizers of ours.

use std::collections::{BTreeMap, BTreeSet};

use crate::object_name::ObjectName;

#[derive(Default)]
pub(in crate::controllers) struct ProtectedSecrets(BTreeMap<ObjectName, BTreeSet<String>>);

impl ProtectedSecrets {
    /// A Secret has these finalizers of ours.
    pub(in crate::controllers) fn observe(&mut self, secret: ObjectName, finalizers: BTreeSet<String>) {
        match finalizers.is_empty() {
            true => self.0.remove(&secret),
            false => self.0.insert(secret, finalizers),
        };
    }

    /// Removes every Secret that a complete listing does not contain.
    pub(in crate::controllers) fn retain(&mut self, existing: &BTreeSet<ObjectName>) {
        self.0.retain(|secret, _| existing.contains(secret));
    }

    /// The Secrets of a namespace with a finalizer, by name.
    pub(in crate::controllers) fn with_finalizer(&self, namespace: &str, finalizer: &str) -> BTreeSet<String> {
        let of_namespace = self.0.iter().filter(|(secret, _)| secret.namespace == namespace);
        of_namespace.filter(|(_, on)| on.contains(finalizer)).map(|(secret, _)| secret.name.clone()).collect()
    }

    /// The finalizers of ours that are not among those which the existing pools need.
    pub(in crate::controllers) fn unneeded(&self, needed: &BTreeSet<String>) -> Vec<(ObjectName, BTreeSet<String>)> {
        let unneeded = |on: &BTreeSet<String>| on.difference(needed).cloned().collect::<BTreeSet<_>>();
        let stale = self.0.iter().map(|(secret, on)| (secret.clone(), unneeded(on)));
        stale.filter(|(_, on)| !on.is_empty()).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
