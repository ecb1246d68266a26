//! What the garbage collector does with one object that it looks at.

use serde_json::{Value, json};

use super::super::deletion::{Deletion, Propagation};
use super::super::metadata::is_deleting;
use super::super::objects::{Part, finalizers, text};
use super::super::{ApiServer, Key};
use super::graph::Node;
use super::reference::{Identity, is_blocking, owners, uid};
use super::{Collector, GraphChange};

/// An object's owners, by what they mean for it.
#[derive(Default)]
struct Owners {
    /// They exist.
    solid: Vec<String>,
    dangling: Vec<String>,
    /// They wait in foreground deletion until it is gone.
    waiting: Vec<String>,
}

impl ApiServer {
    pub(super) fn attempt_to_delete(&self, collector: &mut Collector, id: &str) {
        let Some(node) = collector.nodes.get(id).cloned() else { return };
        // A deletion is never taken back: only its end matters.
        if node.is_deleting && !node.waits_for_dependents {
            return;
        }
        let Some(key) = node.identity.key() else {
            collector.later.push(id.to_owned());
            return;
        };
        let Some(latest) = self.get(&key).filter(|latest| text(&latest["metadata"]["uid"]) == id) else {
            self.state().unseen.push_back(GraphChange::Missing(node.identity));
            return;
        };
        if node.waits_for_dependents {
            self.end_wait(collector, &key, &node);
        } else if !owners(&latest).is_empty() {
            match self.classify(collector, &latest) {
                Some(classes) => self.act_on(collector, &key, &node, &latest, &classes),
                None => collector.later.push(id.to_owned()),
            }
        }
    }

    /// None if the kind of an owner is unknown.
    fn classify(&self, collector: &mut Collector, object: &Value) -> Option<Owners> {
        let mut classes = Owners::default();
        for reference in owners(object) {
            let identity = Identity::of_owner(&reference, text(&object["metadata"]["namespace"]));
            let id = identity.uid.clone();
            if collector.absent.contains(&identity) {
                classes.dangling.push(id);
                continue;
            }
            let owner = self.get(&identity.key()?).filter(|owner| text(&owner["metadata"]["uid"]) == id);
            match owner {
                None => {
                    collector.absent.insert(identity);
                    classes.dangling.push(id);
                }
                Some(owner) if is_deleting(&owner) && finalizers(&owner).contains(&"foregroundDeletion") => {
                    classes.waiting.push(id);
                }
                Some(_) => classes.solid.push(id),
            }
        }
        Some(classes)
    }

    fn act_on(&self, collector: &mut Collector, key: &Key, node: &Node, latest: &Value, classes: &Owners) {
        let Owners { solid, dangling, waiting } = classes;
        if !solid.is_empty() {
            // The owners that wait lose it, too: else they would wait for ever.
            if !dangling.is_empty() || !waiting.is_empty() {
                self.write_owners(key, latest, |id| dangling.iter().chain(waiting).any(|lost| lost == id));
            }
            return;
        }
        let propagation = if !waiting.is_empty() && !node.dependents.is_empty() {
            let waits = |id: &String| collector.nodes.get(id).is_some_and(|dependent| dependent.waits_for_dependents);
            if node.dependents.iter().any(waits) && self.unblock_owners(key, latest) {
                // The deletion that follows is for the version before, and is tried again. By then the owner may be gone.
                collector.queue(&node.identity.uid);
                return;
            }
            Propagation::Foreground
        } else if finalizers(latest).contains(&"orphan") {
            Propagation::Orphan
        } else if finalizers(latest).contains(&"foregroundDeletion") {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        let same = Some(text(&latest["metadata"]["uid"]).to_owned());
        let _ = self.delete(key, &Deletion { uid: same, ..Deletion::with(propagation) });
    }

    /// Ends a foreground deletion that no dependent blocks, or looks at those that do.
    fn end_wait(&self, collector: &mut Collector, key: &Key, node: &Node) {
        let blocks = |id: &&String| {
            let references = collector.nodes.get(*id).into_iter().flat_map(|dependent| &dependent.owners);
            references.into_iter().any(|reference| uid(reference) == node.identity.uid && is_blocking(reference))
        };
        let blocking: Vec<String> = node.dependents.iter().filter(blocks).cloned().collect();
        if blocking.is_empty() {
            self.drop_finalizer(key, "foregroundDeletion");
        }
        for id in blocking {
            if !collector.nodes.get(&id).is_some_and(|dependent| dependent.waits_for_dependents) {
                collector.queue(&id);
            }
        }
    }

    /// Takes an object that waits for it from its dependents, and lets it go.
    pub(super) fn orphan_dependents(&self, collector: &mut Collector, id: &str) {
        let Some(node) = collector.nodes.get(id).cloned() else { return };
        for dependent in node.dependents.iter().filter_map(|dependent| collector.nodes.get(dependent)) {
            let Some(key) = dependent.identity.key() else { continue };
            if let Some(latest) =
                self.get(&key).filter(|latest| text(&latest["metadata"]["uid"]) == dependent.identity.uid)
            {
                self.write_owners(&key, &latest, |lost| lost == id);
            }
        }
        if let Some(key) = node.identity.key() {
            self.drop_finalizer(&key, "orphan");
        }
    }

    fn write_owners(&self, key: &Key, latest: &Value, is_lost: impl Fn(&str) -> bool) {
        let kept: Vec<Value> = owners(latest).into_iter().filter(|reference| !is_lost(uid(reference))).collect();
        let _ = self.patch(key, Part::Main, &json!({"metadata": {"ownerReferences": kept}}));
    }

    /// Against circles: nothing waits for an object any more whose dependents wait too. Whether this changed it.
    fn unblock_owners(&self, key: &Key, latest: &Value) -> bool {
        let mut unblocked = owners(latest);
        unblocked.iter_mut().for_each(|reference| reference["blockOwnerDeletion"] = false.into());
        let patched = self.patch(key, Part::Main, &json!({"metadata": {"ownerReferences": unblocked}}));
        patched.is_ok_and(|object| object["metadata"]["resourceVersion"] != latest["metadata"]["resourceVersion"])
    }

    fn drop_finalizer(&self, key: &Key, dropped: &str) {
        let Some(latest) = self.get(key) else { return };
        let kept: Vec<&str> = finalizers(&latest).into_iter().filter(|finalizer| *finalizer != dropped).collect();
        if kept.len() < finalizers(&latest).len() {
            let _ = self.patch(key, Part::Main, &json!({"metadata": {"finalizers": kept}}));
        }
    }
}
