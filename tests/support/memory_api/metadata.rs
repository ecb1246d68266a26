//! An object's metadata: how the API server writes it, and what it refuses in it. Labels, annotations and finalizers may
//! have any names here: every caller writes valid ones.

use serde_json::Value;

use super::Key;
use super::objects::{finalizers, text};
use super::refusal::Refusal;

/// Fields that only the server sets when an object is created.
pub const SERVER_FIELDS: [&str; 6] =
    ["uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"];

/// Writes metadata as the API server does: nothing that is empty, no owner twice.
pub fn tidy(object: &mut Value) {
    let Some(meta) = object["metadata"].as_object_mut() else { return };
    if let Some(owners) = meta.get_mut("ownerReferences").and_then(Value::as_array_mut) {
        let mut seen: Vec<Value> = Vec::new();
        owners.retain(|owner| {
            let is_new = !seen.contains(owner);
            seen.push(owner.clone());
            is_new
        });
    }
    meta.remove("managedFields");
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    meta.retain(|_, value| !is_empty(value));
}

/// What is refused in the metadata of any object.
pub fn check(key: &Key, object: &Value) -> Result<(), Refusal> {
    if !is_name(&key.name) {
        return Err(Refusal::invalid(key, "metadata.name: not a DNS subdomain"));
    }
    let owners = object["metadata"]["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
    if owners
        .iter()
        .any(|owner| ["apiVersion", "kind", "name", "uid"].iter().any(|field| text(&owner[*field]).is_empty()))
    {
        return Err(Refusal::invalid(key, "metadata.ownerReferences: must not be empty"));
    }
    if owners.iter().filter(|owner| owner["controller"] == true).count() > 1 {
        return Err(Refusal::invalid(key, "metadata.ownerReferences: only one reference can be the controller"));
    }
    let all = finalizers(object);
    if all.contains(&"orphan") && all.contains(&"foregroundDeletion") {
        return Err(Refusal::invalid(key, "metadata.finalizers: orphan and foregroundDeletion exclude each other"));
    }
    Ok(())
}

/// What is refused in the metadata of a changed object, besides [`check`].
pub fn check_change(key: &Key, old: &Value, new: &Value) -> Result<(), Refusal> {
    for field in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if old["metadata"].get(field) != new["metadata"].get(field) {
            return Err(Refusal::invalid(key, "metadata: field is immutable"));
        }
    }
    let before = finalizers(old);
    if is_deleting(old) && finalizers(new).iter().any(|finalizer| !before.contains(finalizer)) {
        return Err(Refusal::invalid(
            key,
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted",
        ));
    }
    Ok(())
}

pub fn is_deleting(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
}

/// A DNS subdomain.
fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && label.bytes().all(is_inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}
