//! What the proxies of a run saw, in one order: the writes that the servers did, and the objects that watches delivered.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Identifies a write or an event of a workload in each of its runs: by what it is and how often there was one like it
/// before, not by its time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Debug)]
pub struct Point {
    /// Such as `PATCH ipaddresses/web-0`, `POST floatingips/web-0`, `MODIFIED ipaddressclaims/web-0`.
    pub what: String,
    /// Counted from 1.
    pub occurrence: usize,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.what.replace([' ', '/'], "-"), self.occurrence)
    }
}

/// One version of an object of Kubernetes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Version {
    /// The plural name of its kind, after `to:` in the target cluster of a move.
    pub resource: String,
    pub object: String,
    /// Its resource version: the revision of etcd that it was written at.
    pub revision: u64,
    /// Equal for versions that differ only in what no controller reads.
    pub digest: String,
}

impl Version {
    pub fn of(resource: &str, name: &str, object: &Value, is_deleted: bool) -> Self {
        let revision = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        Self {
            resource: resource.to_owned(),
            object: name.to_owned(),
            revision: revision.and_then(|revision| revision.parse().ok()).unwrap_or_default(),
            digest: digest(object, is_deleted),
        }
    }
}

#[derive(Clone, Serialize, Deserialize, Debug)]
pub enum Entry {
    /// The workload begins; what came before prepared it.
    Begin,
    Write {
        point: Point,
        /// Whether the server changed anything.
        is_effective: bool,
        /// What the API server answered.
        version: Option<Version>,
    },
    /// A list or a watch delivered an object.
    Delivered { point: Point, version: Version },
}

impl Entry {
    pub fn version(&self) -> Option<&Version> {
        match self {
            Self::Begin => None,
            Self::Write { version, .. } => version.as_ref(),
            Self::Delivered { version, .. } => Some(version),
        }
    }
}

/// The revisions at which each object of a kind changed, oldest first, since the workload began.
pub fn changes(trace: &[Entry], resource: &str) -> Vec<u64> {
    let mut latest: Vec<(&str, &str)> = Vec::new();
    let mut revisions = Vec::new();
    let mut has_begun = false;
    for entry in trace {
        has_begun |= matches!(entry, Entry::Begin);
        let Some(version) = entry.version().filter(|version| version.resource == resource) else { continue };
        let is_same = latest.iter().rev().find(|(object, _)| *object == version.object);
        let is_change = is_same.is_none_or(|(_, digest)| *digest != version.digest);
        latest.push((&version.object, &version.digest));
        if has_begun && is_change {
            revisions.push(version.revision);
        }
    }
    revisions.sort_unstable();
    revisions.dedup();
    revisions
}

/// A digest of an object without its resource version, its managed fields, and times.
fn digest(object: &Value, is_deleted: bool) -> String {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["resourceVersion", "managedFields"] {
            metadata.remove(field);
        }
    }
    remove_times(&mut object);
    hash(format!("{is_deleted} {object}").as_bytes())
}

fn remove_times(value: &mut Value) {
    match value {
        Value::String(text) if text.parse::<jiff::Timestamp>().is_ok() => *text = "time".to_owned(),
        Value::Array(all) => all.iter_mut().for_each(remove_times),
        Value::Object(fields) => fields.values_mut().for_each(remove_times),
        _ => {}
    }
}

/// The first half of a SHA-256, in hexadecimal.
pub fn hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().take(16).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
