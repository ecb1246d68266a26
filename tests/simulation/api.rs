//! An API server in memory, as much of one as the controllers meet: versions that grow, conflicts, status apart from the
//! rest, finalizers, admission, namespaces that end, watches that lag, break and expire. Deterministic: everything is in
//! ordered maps, and nothing happens but by a request or by [`ApiServer::collect`].
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

/// Where an object is.
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

/// What a watch tells.
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
    /// Everything that happened, from version `forgotten` on.
    pub changes: Vec<Change>,
    /// Watches from before this version are told 410.
    pub forgotten: u64,
    /// Grows when all watches are cut off.
    pub cut: u64,
}

/// The server, and the handle of everybody but the controllers. Clones are the same server.
#[derive(Clone)]
pub struct ApiServer {
    id: usize,
    state: Arc<Mutex<State>>,
    clock: Clock,
    /// Tells watches that there is more.
    news: Arc<watch::Sender<u64>>,
}

impl ApiServer {
    pub fn new(id: usize, clock: Clock) -> Self {
        Self { id, state: Arc::default(), clock, news: Arc::new(watch::Sender::new(0)) }
    }

    /// Which management cluster it is of.
    pub fn id(&self) -> usize {
        self.id
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds the state")
    }

    /// An object as it is now.
    pub fn get(&self, key: &Key) -> Option<Arc<Value>> {
        self.state().objects.get(key).cloned()
    }

    /// All objects of a kind, by namespace and name.
    pub fn all(&self, kind: Kind) -> Vec<Arc<Value>> {
        let state = self.state();
        state.objects.iter().filter(|(key, _)| key.kind == kind).map(|(_, object)| object.clone()).collect()
    }

    /// How often anything but a Lease was written.
    pub fn writes(&self) -> u64 {
        self.state().writes
    }

    /// The last version that was written.
    pub fn version(&self) -> u64 {
        self.state().version
    }

    /// Forgets what happened and cuts every watch off: each must list again.
    pub fn forget_history(&self) {
        let mut state = self.state();
        state.forgotten = state.version;
        state.changes.clear();
        state.cut += 1;
        drop(state);
        self.tell();
    }

    /// Cuts every watch off: each goes on from where it was.
    pub fn cut_watches(&self) {
        self.state().cut += 1;
        self.tell();
    }

    /// Tells whoever asks that there is more.
    pub fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// Whoever watches looks again.
    fn tell(&self) {
        self.news.send_modify(|count| *count += 1);
    }
}
