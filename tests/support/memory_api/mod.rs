//! An API server in memory, with what the controllers depend on: resource versions, conflicts, the status subresource,
//! finalizers, admission, garbage collection, namespaces that end, watches that lag, break and expire. Deterministic:
//! everything is in ordered maps, and only a request, [`ApiServer::collect`] or [`ApiServer::empty_namespaces`] changes
//! anything.
//!
//! `tests/contract/kubernetes.rs` sends the same requests to it and to a real kube-apiserver, and names every difference
//! that is left on purpose.
//!
//! | file | what it does |
//! |---|---|
//! | [`kinds`] | which resources there are |
//! | [`objects`], [`deletion`] | create, patch, update; delete |
//! | [`metadata`], [`schema`], [`cluster_api`] | what the API server itself normalizes and refuses |
//! | [`admission`] | namespaces that end, and Cluster API's webhooks |
//! | [`refusal`] | errors as the API server answers them |
//! | [`garbage`], [`namespaces`] | the controllers of Kubernetes: garbage collection and the end of namespaces |
//! | [`http`], [`lists`], [`watches`] | the same over HTTP: paths, bodies, errors, pages, watches |

pub mod admission;
mod cluster_api;
pub mod deletion;
pub mod garbage;
pub mod http;
pub mod kinds;
mod lists;
pub mod metadata;
pub mod namespaces;
pub mod objects;
pub mod refusal;
mod schema;
mod watches;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use caip_openstack::clock::Clock;
use serde_json::Value;
use tokio::sync::watch;

use garbage::{Collector, GraphChange};
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

pub type Objects = BTreeMap<Key, Arc<Value>>;

#[derive(Clone, Default)]
pub struct State {
    pub objects: Objects,
    pub version: u64,
    /// How often anything but a Lease was written.
    pub writes: u64,
    /// Every change from version `forgotten` on.
    pub changes: Vec<Change>,
    /// Watches from before this version get 410.
    pub forgotten: u64,
    /// Increases when all watches are cut.
    pub cut: u64,
    /// Which kinds were listed, by whether a version was asked for (such a list is refused), and by the size of a page.
    pub listed: BTreeSet<(Kind, bool, Option<usize>)>,
    /// What was there at the first page of each list that has more, by version.
    snapshots: BTreeMap<u64, Arc<Objects>>,
    collector: Collector,
    /// What the garbage collector has not seen yet.
    unseen: VecDeque<GraphChange>,
    /// How many objects were ever created, for their uids: a restore does not make it smaller.
    pub created: u64,
}

/// What a backup of etcd has.
pub struct Backup {
    objects: Objects,
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

    /// Forgets the history and cuts every watch: each must list again. A list that has more pages begins again too.
    pub fn expire_watches(&self) {
        let mut state = self.state();
        state.forgotten = state.version;
        state.changes.clear();
        state.snapshots.clear();
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
        state.snapshots.clear();
        state.cut += 1;
        // The garbage collector starts again, and lists.
        let seen =
            |(key, new): (&Key, &Arc<Value>)| GraphChange::Seen { key: key.clone(), old: None, new: new.clone() };
        (state.unseen, state.collector) = (state.objects.iter().map(seen).collect(), Collector::default());
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
