//! Delete: at once, or once the last finalizer is removed.

use std::sync::Arc;

use serde_json::Value;

use super::metadata::is_deleting;
use super::objects::{finalizers, text};
use super::refusal::Refusal;
use super::{ApiServer, Key, Kind, State};

/// What becomes of the objects that a deleted one owns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Propagation {
    /// They are deleted after it.
    Background,
    /// They are deleted before it.
    Foreground,
    /// They lose it as their owner.
    Orphan,
}

/// How a deletion is asked for.
#[derive(Clone, Default, Debug)]
pub struct Deletion {
    pub uid: Option<String>,
    pub version: Option<String>,
    /// The default depends on the finalizers, and mostly is [`Propagation::Background`].
    pub propagation: Option<Propagation>,
}

impl Deletion {
    pub fn with(propagation: Propagation) -> Self {
        Self { propagation: Some(propagation), ..Self::default() }
    }
}

/// What came of a deletion.
#[derive(Clone, Debug)]
pub enum Deleted {
    /// It waits for its finalizers.
    Waits(Arc<Value>),
    /// It is gone; this was the last of it.
    Gone(Arc<Value>),
}

impl ApiServer {
    /// Deletes an object.
    pub fn delete(&self, key: &Key, how: &Deletion) -> Result<Deleted, Refusal> {
        let now = self.now();
        let deleted = self.state().delete(key, how, now);
        self.notify();
        deleted
    }
}

impl State {
    fn delete(&mut self, key: &Key, how: &Deletion, now: String) -> Result<Deleted, Refusal> {
        let old = self.objects.get(key).cloned().ok_or_else(|| Refusal::missing(key))?;
        let differs = |wanted: &Option<String>, field: &str| {
            wanted.as_deref().is_some_and(|it| it != text(&old["metadata"][field]))
        };
        if differs(&how.uid, "uid") || differs(&how.version, "resourceVersion") {
            return Err(Refusal::conflict(key));
        }
        let mut new = (*old).clone();
        if key.kind == Kind::Namespace {
            new["status"]["phase"] = "Terminating".into();
        } else {
            // Events own nothing, so none of them waits for a dependent.
            let propagation = if key.kind == Kind::Event { Some(Propagation::Background) } else { how.propagation };
            let left = finalizers_after(&old, propagation);
            // A finalizer is dropped with the object. The real server then compares the version with none, as if it had stored
            // the object without the finalizer before.
            if left.is_empty() && how.version.is_some() && !finalizers(&old).is_empty() {
                return Err(Refusal::conflict(key));
            } else if left.is_empty() {
                return Ok(Deleted::Gone(self.take(key, &old)));
            }
            new["metadata"]["finalizers"] = left.into();
            new["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        }
        if !is_deleting(&old) {
            new["metadata"]["deletionTimestamp"] = now.into();
            if let Some(generation) = old["metadata"]["generation"].as_i64() {
                new["metadata"]["generation"] = (generation + 1).into();
            }
        }
        if new == *old {
            return Ok(Deleted::Waits(old));
        }
        Ok(Deleted::Waits(self.put("MODIFIED", key.clone(), new)))
    }
}

/// An object's finalizers once its deletion is asked for, even if it was before: those that tell the garbage collector
/// what to do with its dependents follow the last request.
fn finalizers_after(object: &Value, propagation: Option<Propagation>) -> Vec<Value> {
    let before = finalizers(object);
    let wanted = match propagation {
        Some(Propagation::Foreground) => Some("foregroundDeletion"),
        Some(Propagation::Orphan) => Some("orphan"),
        Some(Propagation::Background) => None,
        None => before.iter().copied().find(|finalizer| matches!(*finalizer, "orphan" | "foregroundDeletion")),
    };
    let is_of_collector = |finalizer: &&str| matches!(*finalizer, "orphan" | "foregroundDeletion");
    if before.iter().copied().filter(is_of_collector).eq(wanted) {
        return before.into_iter().map(Value::from).collect();
    }
    before.into_iter().filter(|finalizer| !is_of_collector(finalizer)).chain(wanted).map(Value::from).collect()
}
