//! What is compared of answers and events, and, in one place, every difference that is not: [`strip`] and
//! [`normal_answer`] have each with its reason.

use std::sync::Arc;

use serde_json::{Value, json};

use super::request::Known;
use crate::memory_api::{Key, Kind};

/// An answer of one side.
#[derive(Clone, Debug)]
pub struct Answer {
    pub code: u16,
    pub body: Value,
}

impl Answer {
    /// Whether it shows an object as an event did.
    pub fn has_version_in(&self, known: &Known) -> bool {
        let meta = &self.body["metadata"];
        // A list has a version, too.
        let version = meta.get("uid").and_then(|_| meta["resourceVersion"].as_str()).unwrap_or_default();
        known.versions.values().flatten().any(|known| known == version)
    }
}

/// An event of a watch, of one side.
#[derive(Clone, Debug)]
pub struct Event {
    pub how: String,
    pub object: Arc<Value>,
}

/// What is compared of an answer.
pub fn normal_answer(answer: &Answer, kind: Kind, namespace: &str, known: &Known) -> Value {
    let body = &answer.body;
    if body["kind"] == "Status" {
        // The texts of messages differ, and `details` repeats the request: nothing reads them.
        return json!({"code": answer.code, "status": body["status"], "reason": body["reason"]});
    }
    if let Some(items) = body["items"].as_array() {
        let items: Vec<Value> = items.iter().map(|item| normal_object(item, kind, namespace, known)).collect();
        let meta = &body["metadata"];
        // A list's version is that of the whole server, and its continue token is opaque.
        let has_more = meta["continue"].as_str().is_some_and(|token| !token.is_empty());
        let left = &meta["remainingItemCount"];
        return json!({
            "code": answer.code, "kind": body["kind"], "apiVersion": body["apiVersion"], "items": items,
            "has_more": has_more, "left": left,
        });
    }
    json!({"code": answer.code, "object": normal_object(body, kind, namespace, known)})
}

/// What is compared of an event.
pub fn normal_event(event: &Event, kind: Kind, namespace: &str, known: &Known) -> Value {
    let mut object = normal_object(&event.object, kind, namespace, known);
    // The order of the events says as much.
    if let Some(meta) = object["metadata"].as_object_mut() {
        meta.remove("resourceVersion");
    }
    json!({"type": event.how, "object": object})
}

/// An object in which UIDs, versions and times do not depend on the server.
fn normal_object(object: &Value, kind: Kind, namespace: &str, known: &Known) -> Value {
    let mut object = object.clone();
    strip(kind, &mut object);
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let Some(meta) = object["metadata"].as_object_mut() else { return object };
    for time in ["creationTimestamp", "deletionTimestamp"] {
        if let Some(value) = meta.get_mut(time) {
            *value = "present".into();
        }
    }
    if let Some(version) = meta.get_mut("resourceVersion") {
        let versions = known.versions.get(&Key::new(kind, namespace, &name));
        let age = versions.and_then(|all| all.iter().position(|known| *known == *version));
        *version = age.map_or_else(|| "unknown".into(), |age| format!("number {age}").into());
    }
    if let Some(uid) = meta.get_mut("uid") {
        // No watch shows those that are in no namespace.
        *uid = if kind.is_namespaced() { normal_uid(uid, known) } else { "present".into() };
    }
    for owner in meta.get_mut("ownerReferences").and_then(Value::as_array_mut).into_iter().flatten() {
        owner["uid"] = normal_uid(&owner["uid"], known);
    }
    object
}

fn normal_uid(uid: &Value, known: &Known) -> Value {
    let found = known.uids.iter().find_map(|(key, all)| {
        let number = all.iter().position(|known| *known == *uid)?;
        Some(format!("{:?} {} number {number}", key.kind, key.name))
    });
    found.map_or_else(|| uid.clone(), Value::from)
}

/// Removes what differs by design.
fn strip(kind: Kind, object: &mut Value) {
    if let Some(meta) = object["metadata"].as_object_mut() {
        // Who wrote which field: written for server-side apply, which nobody here uses.
        meta.remove("managedFields");
    }
    if kind == Kind::Event {
        // Written for readers of the older API of events.
        for field in ["deprecatedSource", "deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount"] {
            drop(object.as_object_mut().and_then(|event| event.remove(field)));
        }
    }
}
