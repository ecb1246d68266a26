//! Create, patch, update: what each does to an object, in the order in which the API server checks.

use std::sync::Arc;

use serde_json::{Value, json};

use super::garbage::GraphChange;
use super::metadata::{SERVER_FIELDS, is_deleting};
use super::refusal::Refusal;
use super::{ApiServer, Change, Key, Kind, State, admission, metadata, schema};

/// Which part of an object a write is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    Main,
    Status,
}

impl ApiServer {
    /// Creates an object.
    pub fn create(&self, kind: Kind, object: Value) -> Result<Arc<Value>, Refusal> {
        let now = self.now();
        let created = self.state().create(kind, object, now);
        self.notify();
        created
    }

    /// Merges a patch into an object.
    pub fn patch(&self, key: &Key, part: Part, patch: &Value) -> Result<Arc<Value>, Refusal> {
        let mut state = self.state();
        let old = state.objects.get(key).cloned().ok_or_else(|| Refusal::missing(key))?;
        let mut new = (*old).clone();
        merge(&mut new, patch);
        let patched = state.replace(key, part, &old, new);
        drop(state);
        self.notify();
        patched
    }

    /// Replaces an object. True beside it when it was created.
    pub fn update(&self, key: &Key, part: Part, mut new: Value) -> Result<(Arc<Value>, bool), Refusal> {
        let now = self.now();
        let mut state = self.state();
        let uid = text(&new["metadata"]["uid"]).to_owned();
        let Some(old) = state.objects.get(key).cloned() else {
            // It names a version of an object that is gone, and is created all the same.
            drop(new["metadata"].as_object_mut().and_then(|meta| meta.remove("resourceVersion")));
            return match key.kind.is_created_by_update() {
                true if uid.is_empty() => state.create(key.kind, new, now).map(|object| (object, true)),
                true => Err(Refusal::conflict(key)),
                false => Err(Refusal::missing(key)),
            };
        };
        if !uid.is_empty() && uid != text(&old["metadata"]["uid"]) {
            return Err(Refusal::conflict(key));
        }
        let updated = state.replace(key, part, &old, new);
        drop(state);
        self.notify();
        updated.map(|object| (object, false))
    }

    /// Kubernetes' times have no fractions.
    pub(super) fn now(&self) -> String {
        jiff::Timestamp::from_second(self.clock.now().as_second()).expect("a time of this century").to_string()
    }
}

impl State {
    fn create(&mut self, kind: Kind, mut object: Value, now: String) -> Result<Arc<Value>, Refusal> {
        let key = Key::new(kind, text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
        admission::check_namespace(self, &key)?;
        let has_version = !text(&object["metadata"]["resourceVersion"]).is_empty();
        if let Some(meta) = object["metadata"].as_object_mut() {
            // A kind without generations keeps what it is given.
            let is_kept = |name: &str| name == "generation" && !kind.is_custom();
            meta.retain(|name, _| !SERVER_FIELDS.contains(&name.as_str()) || is_kept(name));
        }
        decode(kind, &mut object);
        set_defaults(&key, &mut object);
        admission::check_form(&key, &object, None)?;
        admission::review_new(self, &key, &object)?;
        if has_version {
            return Err(Refusal::new(500, "", "resourceVersion should not be set on objects to be created"));
        }
        if self.objects.contains_key(&key) {
            return Err(Refusal::exists(&key));
        }
        self.created += 1;
        let meta = &mut object["metadata"];
        meta["uid"] = format!("00000000-0000-4000-8000-{:012x}", self.created).into();
        meta["creationTimestamp"] = now.into();
        Ok(self.put("ADDED", key, object))
    }

    fn replace(&mut self, key: &Key, part: Part, old: &Arc<Value>, mut new: Value) -> Result<Arc<Value>, Refusal> {
        for (field, value) in [("name", &key.name), ("namespace", &key.namespace)] {
            let given = text(&new["metadata"][field]);
            if given != value && (field == "name" || !given.is_empty()) {
                return Err(Refusal::bad_request(format!("metadata.{field} does not match the request")));
            }
        }
        decode(key.kind, &mut new);
        check_version(key, old, &new)?;
        if key.kind.has_status() {
            take_part(part, old, &mut new);
        }
        keep_metadata(key, old, &mut new);
        metadata::check_change(key, old, &new)?;
        admission::check_form(key, &new, (part == Part::Status).then_some("status"))?;
        if part == Part::Main {
            admission::review_change(key, old, &new)?;
        }
        if is_deleting(old) && finalizers(&new).is_empty() && key.kind != Kind::Namespace {
            self.take(key, old);
            return Ok(Arc::new(new));
        }
        if new == **old {
            return Ok(old.clone());
        }
        Ok(self.put("MODIFIED", key.clone(), new))
    }

    /// Stores an object under a new version.
    pub(super) fn put(&mut self, how: &'static str, key: Key, mut object: Value) -> Arc<Value> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let object = Arc::new(object);
        self.writes += u64::from(key.kind != Kind::Lease);
        let old = self.objects.insert(key.clone(), object.clone());
        self.unseen.push_back(GraphChange::Seen { key: key.clone(), old, new: object.clone() });
        self.changes.push(Change { version: self.version, how, key, object: object.clone() });
        object
    }

    /// Removes an object. Watches see it as it was, under a new version.
    pub(super) fn take(&mut self, key: &Key, last: &Value) -> Arc<Value> {
        self.version += 1;
        let mut last = last.clone();
        last["metadata"]["resourceVersion"] = self.version.to_string().into();
        let object = Arc::new(last);
        self.writes += 1;
        self.objects.remove(key);
        self.unseen.push_back(GraphChange::Gone { key: key.clone(), object: object.clone() });
        self.changes.push(Change { version: self.version, how: "DELETED", key: key.clone(), object: object.clone() });
        object
    }
}

/// What the server makes of a body.
fn decode(kind: Kind, object: &mut Value) {
    object["kind"] = kind.names().3.into();
    object["apiVersion"] = kind.api_version().into();
    schema::decode(kind, object);
    metadata::tidy(object);
}

/// What the server adds to a new object.
fn set_defaults(key: &Key, object: &mut Value) {
    if key.kind.has_status() {
        object.as_object_mut().expect("an object").remove("status");
    }
    if key.kind.is_custom() {
        object["metadata"]["generation"] = 1.into();
    }
    match key.kind {
        Kind::Secret if object.get("type").is_none() => object["type"] = "Opaque".into(),
        Kind::Namespace => {
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = key.name.clone().into();
            object["spec"] = json!({"finalizers": ["kubernetes"]});
            object["status"] = json!({"phase": "Active"});
        }
        _ => {}
    }
}

fn check_version(key: &Key, old: &Value, new: &Value) -> Result<(), Refusal> {
    let version = text(&new["metadata"]["resourceVersion"]);
    if version.is_empty() && !key.kind.is_replaced_unconditionally() {
        return Err(Refusal::invalid(key, "metadata.resourceVersion: must be specified for an update"));
    }
    if !version.is_empty() && version != text(&old["metadata"]["resourceVersion"]) {
        return Err(Refusal::conflict(key));
    }
    Ok(())
}

/// Keeps what a write to this part does not change.
fn take_part(part: Part, old: &Value, new: &mut Value) {
    let kept = if part == Part::Main { old } else { &*new }.get("status").cloned();
    if part == Part::Status {
        *new = old.clone();
    }
    match kept {
        Some(status) => new["status"] = status,
        None => drop(new.as_object_mut().and_then(|object| object.remove("status"))),
    }
}

/// Keeps the metadata that only the server writes, and counts the generation.
fn keep_metadata(key: &Key, old: &Value, new: &mut Value) {
    for field in ["creationTimestamp", "generation", "resourceVersion", "namespace"] {
        match old["metadata"].get(field) {
            Some(value) => new["metadata"][field] = value.clone(),
            None => drop(new["metadata"].as_object_mut().and_then(|meta| meta.remove(field))),
        }
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        if let Some(value) = old["metadata"].get(field) {
            new["metadata"][field] = value.clone();
        }
    }
    if new["metadata"].get("uid").is_none() {
        new["metadata"]["uid"] = old["metadata"]["uid"].clone();
    }
    let has_status = key.kind.has_status();
    let content = |object: &Value| {
        let fields = object.as_object().into_iter().flatten();
        let is_counted = |name: &str| name != "metadata" && !(has_status && name == "status");
        fields
            .filter(|(name, _)| is_counted(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect::<Vec<_>>()
    };
    if key.kind.is_custom() && content(old) != content(new) {
        new["metadata"]["generation"] = (old["metadata"]["generation"].as_i64().unwrap_or(1) + 1).into();
    }
}

/// An object's finalizers.
pub fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The text of a value, or none.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// RFC 7386.
pub fn merge(target: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let object = target.as_object_mut().expect("made one above");
    for (name, value) in fields {
        if value.is_null() {
            object.remove(name);
        } else {
            merge(object.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}
