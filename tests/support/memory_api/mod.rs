//! An API server in memory, with what the controllers depend on: resource versions, conflicts, the status subresource,
//! finalizers, admission, namespaces that end, watches that lag, break and expire. Deterministic: everything is in
//! ordered maps, and only a request or [`ApiServer::collect`] changes anything.
//!
//! | file | what it does |
//! |---|---|
//! | [`kinds`] | which resources there are |
//! | [`objects`] | create, patch, update, delete |
//! | [`admission`] | what Cluster API's webhooks and the API server itself refuse |
//! | [`garbage`] | owner references and the end of namespaces |
//! | [`http`] | the same over HTTP: paths, bodies, errors, watches |

pub mod admission;
pub mod garbage;
pub mod http;
pub mod kinds;
pub mod objects;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use caip_openstack::clock::Clock;
use serde_json::Value;
use tokio::sync::watch;

pub use kinds::Kind;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Key {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// An event of a watch.
#[derive(Clone, Debug)]
pub struct Change {
    pub version: u64,
    pub how: &'static str,
    pub key: Key,
    pub object: Arc<Value>,
}

#[derive(Default)]
pub struct State {
    pub objects: BTreeMap<Key, Arc<Value>>,
    pub version: u64,
    /// How often anything but a Lease was written.
    pub writes: u64,
    /// Every change from version `forgotten` on.
    pub changes: Vec<Change>,
    /// Watches from before this version get 410.
    pub forgotten: u64,
    /// Increases when all watches are cut.
    pub cut: u64,
    /// How many objects were ever created, for their uids: a restore does not make it smaller.
    pub created: u64,
}

/// What a backup of etcd has.
pub struct Backup {
    objects: BTreeMap<Key, Arc<Value>>,
    version: u64,
}

/// Clones share the server. The controllers reach it over HTTP, everything else calls it directly.
#[derive(Clone)]
pub struct ApiServer {
    id: usize,
    state: Arc<Mutex<State>>,
    clock: Clock,
    /// Wakes the watches.
    news: Arc<watch::Sender<u64>>,
}

impl ApiServer {
    pub fn new(id: usize, clock: Clock) -> Self {
        Self { id, state: Arc::default(), clock, news: Arc::new(watch::Sender::new(0)) }
    }

    /// Which management cluster it serves.
    pub fn id(&self) -> usize {
        self.id
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds the state")
    }

    pub fn get(&self, key: &Key) -> Option<Arc<Value>> {
        self.state().objects.get(key).cloned()
    }

    /// All objects of a kind, by namespace and name.
    pub fn all(&self, kind: Kind) -> Vec<Arc<Value>> {
        let state = self.state();
        state.objects.iter().filter(|(key, _)| key.kind == kind).map(|(_, object)| object.clone()).collect()
    }

    pub fn writes(&self) -> u64 {
        self.state().writes
    }

    pub fn version(&self) -> u64 {
        self.state().version
    }

    /// Forgets the history and cuts every watch: each must list again.
    pub fn expire_watches(&self) {
        let mut state = self.state();
        state.forgotten = state.version;
        state.changes.clear();
        state.cut += 1;
        drop(state);
        self.notify();
    }

    pub fn back_up(&self) -> Backup {
        let state = self.state();
        Backup { objects: state.objects.clone(), version: state.version }
    }

    /// Starts again from a backup, as after `etcdutl snapshot restore --bump-revision` with this number. Objects have the
    /// versions that they had then. Without a bump, a watch from a version that is not reached yet is silent.
    pub fn restore(&self, backup: Backup, bump: u64) {
        let mut state = self.state();
        (state.objects, state.version) = (backup.objects, backup.version + bump);
        state.forgotten = state.version;
        state.changes.clear();
        state.cut += 1;
        drop(state);
        self.notify();
    }

    /// Deletes all Events, and forgets the changes that every watch has seen.
    pub fn expire_events(&self) {
        let mut state = self.state();
        state.objects.retain(|key, _| key.kind != Kind::Event);
        state.forgotten = state.version;
        state.changes.clear();
    }

    /// Cuts every watch: each continues where it was.
    pub fn cut_watches(&self) {
        self.state().cut += 1;
        self.notify();
    }

    /// Changes with every change of an object.
    pub fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    fn notify(&self) {
        self.news.send_modify(|count| *count += 1);
    }
}
