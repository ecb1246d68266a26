//! The graph of owners and dependents, as the garbage collector builds it from the changes of objects.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::metadata::is_deleting;
use super::super::objects::finalizers;
use super::reference::{Differences, Identity, is_blocking, owners, uid};
use super::{Collector, GraphChange, is_ignored};

/// An object, or an owner that only a reference names so far.
#[derive(Clone, Debug)]
pub struct Node {
    pub identity: Identity,
    pub owners: Vec<Value>,
    /// UIDs.
    pub dependents: BTreeSet<String>,
    /// No change of it was seen.
    pub is_virtual: bool,
    pub is_deleting: bool,
    /// Its deletion in the foreground has begun.
    pub waits_for_dependents: bool,
}

impl Collector {
    pub(super) fn observe(&mut self, change: GraphChange) {
        match change {
            GraphChange::Seen { key, .. } | GraphChange::Gone { key, .. } if is_ignored(key.kind) => {}
            GraphChange::Seen { old, new, .. } => self.see(old.as_deref(), &new),
            GraphChange::Gone { object, .. } => self.forget(&Identity::of_object(&object), false),
            GraphChange::Missing(identity) => self.forget(&identity, true),
        }
        for uid in std::mem::take(&mut self.later) {
            self.queue(&uid);
        }
    }

    pub(super) fn queue(&mut self, uid: &str) {
        if !self.to_delete.iter().any(|queued| queued == uid) {
            self.to_delete.push_back(uid.to_owned());
        }
    }

    fn see(&mut self, old: Option<&Value>, new: &Value) {
        let identity = Identity::of_object(new);
        let (id, now) = (identity.uid.clone(), owners(new));
        match self.nodes.get_mut(&id) {
            None => {
                let is_waiting = is_deleting(new) && finalizers(new).contains(&"foregroundDeletion");
                let node = Node {
                    identity,
                    owners: now.clone(),
                    dependents: BTreeSet::new(),
                    is_virtual: false,
                    is_deleting: is_deleting(new),
                    waits_for_dependents: is_waiting,
                };
                self.nodes.insert(id.clone(), node);
                self.add_to_owners(&id, &now);
            }
            Some(node) => {
                node.is_virtual = false;
                node.identity = identity;
                node.is_deleting |= is_deleting(new);
                let differences = Differences::between(&node.owners, &now);
                if !differences.is_empty() {
                    node.owners = now;
                    self.change_owners(&id, &differences);
                }
            }
        }
        self.begin_deletion(old, new, &id);
    }

    fn change_owners(&mut self, id: &str, differences: &Differences) {
        let removed = differences.removed.iter().filter(|reference| is_blocking(reference));
        let changed = differences.changed.iter().filter(|(before, after)| is_blocking(before) && !is_blocking(after));
        for reference in removed.chain(changed.map(|(_, after)| after)) {
            if self.nodes.contains_key(uid(reference)) {
                self.queue(uid(reference));
            }
        }
        self.add_to_owners(id, &differences.added);
        self.remove_from_owners(id, &differences.removed);
    }

    fn add_to_owners(&mut self, id: &str, added: &[Value]) {
        let namespace = self.nodes[id].identity.namespace.clone();
        let mut is_doubtful = false;
        for reference in added {
            let owner = Identity::of_owner(reference, &namespace);
            let known = self.nodes.get_mut(uid(reference));
            if let Some(node) = known {
                node.dependents.insert(id.to_owned());
                is_doubtful |= node.identity != owner;
                continue;
            }
            let node = Node {
                identity: owner,
                owners: Vec::new(),
                dependents: [id.to_owned()].into(),
                is_virtual: true,
                is_deleting: false,
                waits_for_dependents: false,
            };
            self.nodes.insert(uid(reference).to_owned(), node);
            self.queue(uid(reference));
        }
        if is_doubtful {
            self.queue(id);
        }
    }

    fn remove_from_owners(&mut self, id: &str, removed: &[Value]) {
        for reference in removed {
            if let Some(node) = self.nodes.get_mut(uid(reference)) {
                node.dependents.remove(id);
            }
        }
    }

    /// The moment at which an object begins to wait for the garbage collector.
    fn begin_deletion(&mut self, old: Option<&Value>, new: &Value, id: &str) {
        let waits = |object: &Value, finalizer: &str| is_deleting(object) && finalizers(object).contains(&finalizer);
        let begins = |finalizer: &str| waits(new, finalizer) && !old.is_some_and(|old| waits(old, finalizer));
        if begins("orphan") {
            if !self.to_orphan.iter().any(|queued| queued == id) {
                self.to_orphan.push_back(id.to_owned());
            }
        } else if begins("foregroundDeletion")
            && let Some(node) = self.nodes.get_mut(id)
        {
            node.waits_for_dependents = true;
            let dependents: Vec<String> = node.dependents.iter().cloned().collect();
            dependents.iter().for_each(|dependent| self.queue(dependent));
            self.queue(id);
        }
    }

    /// Removes a node, and queues its dependents and the owners that wait for it. A reference that is wrong in more than
    /// the UID does not remove an object that exists.
    fn forget(&mut self, identity: &Identity, is_concluded: bool) {
        let Some(node) = self.nodes.get(&identity.uid).cloned() else { return };
        if is_concluded && !node.is_virtual && node.identity != *identity {
            self.absent.insert(identity.clone());
            node.dependents.iter().for_each(|dependent| self.queue(dependent));
            return;
        }
        self.nodes.remove(&identity.uid);
        self.remove_from_owners(&identity.uid, &node.owners);
        if !node.dependents.is_empty() {
            self.absent.insert(node.identity.clone());
        }
        node.dependents.iter().for_each(|dependent| self.queue(dependent));
        for reference in &node.owners {
            if self.nodes.get(uid(reference)).is_some_and(|owner| owner.waits_for_dependents) {
                self.queue(uid(reference));
            }
        }
    }
}
