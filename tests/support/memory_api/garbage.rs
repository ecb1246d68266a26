//! What Kubernetes' own controllers do: objects whose owners are gone, foreground deletions, namespaces that end.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::objects::{Deletion, Part, finalizers, text};
use super::{ApiServer, Key, Kind};

impl ApiServer {
    /// One round of the garbage collector and the namespace controller; true when it did something.
    pub fn collect(&self) -> bool {
        let objects: Vec<(Key, std::sync::Arc<Value>)> =
            self.state().objects.iter().map(|(key, object)| (key.clone(), object.clone())).collect();
        let before = self.version();
        let existing: BTreeSet<&str> = objects.iter().map(|(_, object)| text(&object["metadata"]["uid"])).collect();
        let deleting: BTreeSet<&str> = objects
            .iter()
            .filter(|(_, object)| finalizers(object).contains(&"foregroundDeletion"))
            .map(|(_, object)| text(&object["metadata"]["uid"]))
            .collect();
        for (key, object) in &objects {
            let Some(owners) = object["metadata"]["ownerReferences"].as_array().filter(|owners| !owners.is_empty())
            else {
                continue;
            };
            let uid = |owner: &Value| owner["uid"].as_str().unwrap_or_default().to_owned();
            let is_solid =
                |owner: &&Value| existing.contains(uid(owner).as_str()) && !deleting.contains(uid(owner).as_str());
            if !owners.iter().any(|owner| is_solid(&owner)) {
                let _ = self.delete(
                    key,
                    &Deletion { uid: Some(text(&object["metadata"]["uid"]).into()), ..Deletion::default() },
                );
            } else if !owners.iter().all(|owner| is_solid(&owner)) {
                // As `attemptToDeleteItem` does: owners that wait for their dependents lose this one too.
                let solid: Vec<&Value> = owners.iter().filter(is_solid).collect();
                let version = &object["metadata"]["resourceVersion"];
                let patch = json!({"metadata": {"resourceVersion": version, "ownerReferences": solid}});
                let _ = self.patch(key, Part::Main, &patch);
            }
        }
        for (key, object) in objects.iter().filter(|(_, object)| deleting.contains(text(&object["metadata"]["uid"]))) {
            let uid = text(&object["metadata"]["uid"]);
            let blocks = |(_, other): &&(Key, std::sync::Arc<Value>)| {
                let owners = other["metadata"]["ownerReferences"].as_array().into_iter().flatten();
                owners.into_iter().any(|owner| text(&owner["uid"]) == uid && owner["blockOwnerDeletion"] == true)
            };
            if !objects.iter().any(|other| blocks(&other)) {
                let rest: Vec<&str> =
                    finalizers(object).into_iter().filter(|finalizer| *finalizer != "foregroundDeletion").collect();
                let version = &object["metadata"]["resourceVersion"];
                let _ =
                    self.patch(key, Part::Main, &json!({"metadata": {"resourceVersion": version, "finalizers": rest}}));
            }
        }
        for (key, object) in &objects {
            if key.kind == Kind::Namespace && object["metadata"].get("deletionTimestamp").is_some() {
                self.empty(key, &objects);
            }
        }
        self.version() != before
    }

    /// Deletes everything in a namespace that ends, and the namespace once it is empty.
    fn empty(&self, namespace: &Key, objects: &[(Key, std::sync::Arc<Value>)]) {
        let mut is_empty = true;
        for (key, object) in objects.iter().filter(|(key, _)| key.namespace == namespace.name) {
            if object["metadata"].get("deletionTimestamp").is_none() {
                let _ = self.delete(key, &Deletion::default());
            }
            is_empty = false;
        }
        if is_empty {
            self.end_namespace(namespace);
        }
    }
}
