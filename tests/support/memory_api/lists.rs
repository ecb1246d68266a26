//! Lists, in pages. Only quorum reads: a list without a resource version shows everything that was written before it.
//! The controllers ask for nothing else, and anything else is refused here.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::refusal::Refusal;
use super::{ApiServer, Key, Kind, Objects, State};

/// How many lists with more pages are remembered.
const SNAPSHOTS: usize = 100;

/// A list of which there were pages before.
struct Begun {
    version: u64,
    /// The last object of the page before.
    last: String,
    /// What there was at the first page.
    objects: Arc<Objects>,
}

impl ApiServer {
    pub(super) fn list(&self, kind: Kind, namespace: &str, query: &BTreeMap<String, String>) -> Result<Value, Refusal> {
        let has_version = query.contains_key("resourceVersion") || query.contains_key("resourceVersionMatch");
        let limit = query.get("limit").and_then(|limit| limit.parse().ok()).filter(|limit| *limit > 0);
        self.state().listed.insert((kind, has_version, limit));
        if has_version {
            return Err(Refusal::bad_request("only quorum reads are known here: a list without resourceVersion"));
        }
        let mut state = self.state();
        let begun = query.get("continue").map(|token| state.begun(token)).transpose()?;
        let version = begun.as_ref().map_or(state.version, |begun| begun.version);
        let objects: &Objects = begun.as_ref().map_or(&state.objects, |begun| &begun.objects);
        let is_left = |key: &Key| begun.as_ref().is_none_or(|begun| position(key) > begun.last);
        let is_meant =
            |key: &&Key| key.kind == kind && (namespace.is_empty() || key.namespace == namespace) && is_left(key);
        let meant: Vec<(&Key, &Arc<Value>)> = objects.iter().filter(|(key, _)| is_meant(key)).collect();
        let page: Vec<(&Key, &Arc<Value>)> = meant.iter().copied().take(limit.unwrap_or(usize::MAX)).collect();
        let mut meta = json!({"resourceVersion": version.to_string()});
        let last = page.last().filter(|_| page.len() < meant.len()).map(|(key, _)| position(key));
        if let Some(last) = &last {
            meta["continue"] = format!("{version}/{last}").into();
            meta["remainingItemCount"] = (meant.len() - page.len()).into();
        }
        let items: Vec<Value> = page.iter().map(|(_, object)| item(kind, object)).collect();
        let name = format!("{}List", kind.names().3);
        let list = json!({"kind": name, "apiVersion": kind.api_version(), "metadata": meta, "items": items});
        if last.is_some() {
            state.remember(version);
        }
        Ok(list)
    }
}

impl State {
    fn begun(&self, token: &str) -> Result<Begun, Refusal> {
        let (version, last) = token.split_once('/').ok_or_else(|| Refusal::bad_request("not a continue token"))?;
        let version = version.parse().map_err(|_| Refusal::bad_request("not a continue token"))?;
        let objects = self.snapshots.get(&version).cloned();
        let objects = objects.ok_or_else(|| Refusal::new(410, "Expired", "the continue token is too old"))?;
        Ok(Begun { version, last: last.to_owned(), objects })
    }

    fn remember(&mut self, version: u64) {
        if version == self.version && !self.snapshots.contains_key(&version) {
            self.snapshots.insert(version, Arc::new(self.objects.clone()));
        }
        while self.snapshots.len() > SNAPSHOTS {
            self.snapshots.pop_first();
        }
    }
}

/// An object in a list. Of the kinds that Kubernetes itself defines it does not say what it is.
fn item(kind: Kind, object: &Value) -> Value {
    let mut item = object.clone();
    if let Some(fields) = item.as_object_mut().filter(|_| !kind.is_custom()) {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    item
}

fn position(key: &Key) -> String {
    format!("{}/{}", key.namespace, key.name)
}
