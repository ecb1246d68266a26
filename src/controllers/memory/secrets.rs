//! Which Secrets carry finalizers of ours.

use std::collections::{BTreeMap, BTreeSet};

use crate::object_name::ObjectName;

/// How many finalizers of a Secret are remembered. One that is not costs its pool a read of the Secret at each reconcile,
/// and comes off once others have.
const MAX_FINALIZERS: usize = 1024;

#[derive(Default)]
pub(in crate::controllers) struct ProtectedSecrets(BTreeMap<ObjectName, BTreeSet<String>>);

impl ProtectedSecrets {
    /// A Secret has these finalizers of ours.
    pub(in crate::controllers) fn observe(&mut self, secret: ObjectName, mut finalizers: BTreeSet<String>) {
        while finalizers.len() > MAX_FINALIZERS {
            finalizers.pop_last();
        }
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

    /// The finalizers of ours that no existing pool of the Secret's namespace needs. `needed` has those that pools need, each
    /// with the pool's namespace: a Secret that was copied from another namespace has those of pools there.
    pub(in crate::controllers) fn unneeded(
        &self,
        needed: &BTreeMap<String, String>,
    ) -> Vec<(ObjectName, BTreeSet<String>)> {
        let unneeded = self.0.iter().map(|(secret, on)| {
            let on = on.iter().filter(|finalizer| needed.get(*finalizer) != Some(&secret.namespace));
            (secret.clone(), on.cloned().collect::<BTreeSet<_>>())
        });
        unneeded.filter(|(_, on)| !on.is_empty()).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_needs_only_the_finalizers_of_pools_of_its_namespace() {
        let set = |finalizers: &[&str]| finalizers.iter().map(|finalizer| (*finalizer).to_owned()).collect();
        let mut secrets = ProtectedSecrets::default();
        secrets.observe(ObjectName::new("team-a", "cloud"), set(&["of-a", "gone"]));
        secrets.observe(ObjectName::new("team-b", "copied"), set(&["of-a", "of-b"]));
        let needed = [("of-a", "team-a"), ("of-b", "team-b")].map(|(it, of)| (it.to_owned(), of.to_owned())).into();
        let unneeded = secrets.unneeded(&needed);
        let expected = [("team-a", "cloud", "gone"), ("team-b", "copied", "of-a")];
        assert_eq!(unneeded, expected.map(|(namespace, name, on)| (ObjectName::new(namespace, name), set(&[on]))));
    }
}
