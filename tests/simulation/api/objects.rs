//! Create, patch, update, delete: what each does to an object, and what it refuses.

use std::sync::Arc;

use serde_json::{Value, json};

use super::admission::{self, Refusal};
use super::{ApiServer, Change, Key, Kind, State};

/// Which part of an object a write is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    Main,
    Status,
}

/// How a deletion is asked for.
#[derive(Clone, Default, Debug)]
pub struct Deletion {
    pub uid: Option<String>,
    pub version: Option<String>,
    /// `Foreground`: what it owns is deleted first.
    pub is_foreground: bool,
}

impl ApiServer {
    /// Creates an object.
    pub fn create(&self, kind: Kind, mut object: Value) -> Result<Arc<Value>, Refusal> {
        let mut state = self.state();
        let key = Key::new(kind, text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
        if state.objects.contains_key(&key) {
            return Err(Refusal::exists(&key));
        }
        admission::new_object(&state, &key, &object)?;
        if kind.has_status() {
            object.as_object_mut().expect("an object").remove("status");
        }
        state.version += 1;
        let version = state.version;
        let meta = &mut object["metadata"];
        meta["uid"] = format!("00000000-0000-4000-8000-{version:012x}").into();
        meta["resourceVersion"] = version.to_string().into();
        meta["generation"] = 1.into();
        meta["creationTimestamp"] = self.now().into();
        object["kind"] = kind.names().3.into();
        object["apiVersion"] = kind.api_version().into();
        let object = state.put("ADDED", key, object);
        drop(state);
        self.notify();
        Ok(object)
    }

    /// Merges a patch into an object.
    pub fn patch(&self, key: &Key, part: Part, patch: &Value) -> Result<Arc<Value>, Refusal> {
        let old = self.get(key).ok_or_else(|| Refusal::missing(key))?;
        if let Some(version) = patch["metadata"]["resourceVersion"].as_str()
            && version != text(&old["metadata"]["resourceVersion"])
        {
            return Err(Refusal::conflict(key));
        }
        let mut new = (*old).clone();
        merge(&mut new, patch);
        self.replace(key, part, &old, new)
    }

    /// Replaces an object.
    pub fn update(&self, key: &Key, part: Part, new: Value) -> Result<Arc<Value>, Refusal> {
        let old = self.get(key).ok_or_else(|| Refusal::missing(key))?;
        let version = new["metadata"]["resourceVersion"].as_str();
        if version.is_some_and(|version| version != text(&old["metadata"]["resourceVersion"])) {
            return Err(Refusal::conflict(key));
        }
        self.replace(key, part, &old, new)
    }

    fn replace(&self, key: &Key, part: Part, old: &Value, mut new: Value) -> Result<Arc<Value>, Refusal> {
        // What a writer cannot change stays.
        for field in
            ["uid", "creationTimestamp", "deletionTimestamp", "generation", "resourceVersion", "name", "namespace"]
        {
            match old["metadata"].get(field) {
                Some(value) => new["metadata"][field] = value.clone(),
                None => drop(new["metadata"].as_object_mut().and_then(|meta| meta.remove(field))),
            }
        }
        match part {
            Part::Status => {
                let status = new["status"].take();
                new = old.clone();
                new["status"] = status;
            }
            Part::Main if key.kind.has_status() => match old.get("status") {
                Some(status) => new["status"] = status.clone(),
                None => drop(new.as_object_mut().and_then(|object| object.remove("status"))),
            },
            Part::Main => {}
        }
        new["kind"] = key.kind.names().3.into();
        new["apiVersion"] = key.kind.api_version().into();
        admission::changed_object(key, old, &new)?;
        if new == *old {
            return Ok(Arc::new(new));
        }
        let mut state = self.state();
        state.version += 1;
        new["metadata"]["resourceVersion"] = state.version.to_string().into();
        if new.get("spec") != old.get("spec") {
            new["metadata"]["generation"] = (old["metadata"]["generation"].as_i64().unwrap_or(1) + 1).into();
        }
        let skips_rest = new["metadata"].get("deletionTimestamp").is_some() && finalizers(&new).is_empty();
        let object = if skips_rest { state.take(key, new) } else { state.put("MODIFIED", key.clone(), new) };
        drop(state);
        self.notify();
        Ok(object)
    }

    /// Deletes an object: at once, or once its last finalizer is removed.
    pub fn delete(&self, key: &Key, how: &Deletion) -> Result<Arc<Value>, Refusal> {
        let old = self.get(key).ok_or_else(|| Refusal::missing(key))?;
        let meta = &old["metadata"];
        let differs =
            |wanted: &Option<String>, field: &str| wanted.as_deref().is_some_and(|it| it != text(&meta[field]));
        if differs(&how.uid, "uid") || differs(&how.version, "resourceVersion") {
            return Err(Refusal::conflict(key));
        }
        let mut new = (*old).clone();
        if how.is_foreground && meta.get("deletionTimestamp").is_none() {
            let mut finalizers: Vec<Value> = meta["finalizers"].as_array().cloned().unwrap_or_default();
            finalizers.push("foregroundDeletion".into());
            new["metadata"]["finalizers"] = finalizers.into();
        }
        let stays = !finalizers(&new).is_empty() || key.kind == Kind::Namespace;
        if stays && meta.get("deletionTimestamp").is_some() {
            return Ok(old);
        }
        let mut state = self.state();
        state.version += 1;
        new["metadata"]["resourceVersion"] = state.version.to_string().into();
        let object = if stays {
            new["metadata"]["deletionTimestamp"] = self.now().into();
            new["metadata"]["generation"] = (meta["generation"].as_i64().unwrap_or(1) + 1).into();
            state.put("MODIFIED", key.clone(), new)
        } else {
            state.take(key, new)
        };
        drop(state);
        self.notify();
        Ok(object)
    }

    /// Removes a namespace that is empty.
    pub fn end_namespace(&self, key: &Key) {
        let mut state = self.state();
        let Some(object) = state.objects.get(key).cloned() else { return };
        state.version += 1;
        let mut object = (*object).clone();
        object["metadata"]["resourceVersion"] = state.version.to_string().into();
        state.take(key, object);
        drop(state);
        self.notify();
    }

    /// Kubernetes' times have no fractions.
    fn now(&self) -> String {
        jiff::Timestamp::from_second(self.clock.now().as_second()).expect("a time of this century").to_string()
    }
}

impl State {
    fn put(&mut self, how: &'static str, key: Key, object: Value) -> Arc<Value> {
        let object = Arc::new(object);
        self.writes += u64::from(key.kind != Kind::Lease);
        self.objects.insert(key.clone(), object.clone());
        self.changes.push(Change { version: self.version, how, key, object: object.clone() });
        object
    }

    fn take(&mut self, key: &Key, last: Value) -> Arc<Value> {
        self.objects.remove(key);
        self.writes += 1;
        let object = Arc::new(last);
        self.changes.push(Change { version: self.version, how: "DELETED", key: key.clone(), object: object.clone() });
        object
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
