//! Owner references, and the objects that they name.

use serde_json::Value;

use super::super::objects::text;
use super::super::{Key, Kind};

/// An object as a reference names it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Identity {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl Identity {
    pub fn of_object(object: &Value) -> Self {
        let meta = &object["metadata"];
        Self {
            api_version: text(&object["apiVersion"]).to_owned(),
            kind: text(&object["kind"]).to_owned(),
            namespace: text(&meta["namespace"]).to_owned(),
            name: text(&meta["name"]).to_owned(),
            uid: text(&meta["uid"]).to_owned(),
        }
    }

    /// The owner that an object of this namespace names.
    pub fn of_owner(reference: &Value, namespace: &str) -> Self {
        Self {
            api_version: text(&reference["apiVersion"]).to_owned(),
            kind: text(&reference["kind"]).to_owned(),
            namespace: namespace.to_owned(),
            name: text(&reference["name"]).to_owned(),
            uid: text(&reference["uid"]).to_owned(),
        }
    }

    /// Where it is stored; none if its kind is unknown.
    pub fn key(&self) -> Option<Key> {
        let kind = Kind::of_reference(&self.api_version, &self.kind)?;
        Some(Key::new(kind, &self.namespace, &self.name))
    }
}

pub fn owners(object: &Value) -> Vec<Value> {
    object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default()
}

pub fn uid(reference: &Value) -> &str {
    text(&reference["uid"])
}

pub fn is_blocking(reference: &Value) -> bool {
    reference["blockOwnerDeletion"] == true
}

/// How the owner references of an object changed.
#[derive(Default)]
pub struct Differences {
    pub added: Vec<Value>,
    pub removed: Vec<Value>,
    /// Before and after.
    pub changed: Vec<(Value, Value)>,
}

impl Differences {
    pub fn between(old: &[Value], new: &[Value]) -> Self {
        let mut left: Vec<&Value> = Vec::new();
        for reference in old {
            left.retain(|other| uid(other) != uid(reference));
            left.push(reference);
        }
        let mut differences = Self::default();
        for reference in new {
            match left.iter().position(|other| uid(other) == uid(reference)) {
                None => differences.added.push(reference.clone()),
                Some(at) => {
                    let before = left.remove(at);
                    if before != reference {
                        differences.changed.push((before.clone(), reference.clone()));
                    }
                }
            }
        }
        differences.removed = left.into_iter().cloned().collect();
        differences
    }

    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}
