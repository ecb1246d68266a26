//! What each claim was told and given: a claim that goes leaves nothing that shows it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::Value;
use tokio::time::Instant;

use crate::api::ApiServer;
use crate::laws::{Binding, text};

/// A claim, or another object, of one of the management clusters: each has its own uids.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Uid(String);

impl Uid {
    pub fn of(server: &ApiServer, object: &Value) -> Self {
        Self(format!("{}/{}", server.id(), text(object, "/metadata/uid")))
    }
}

/// Clones share the record.
#[derive(Clone, Default)]
pub struct ClaimRecord(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    given: BTreeMap<Uid, IpAddr>,
    bindings: BTreeMap<Uid, Binding>,
    waiting: BTreeMap<Uid, (IpAddr, Instant)>,
    forced: BTreeSet<Uid>,
    restored: BTreeMap<Uid, Value>,
    are_orphans_expected: bool,
}

impl ClaimRecord {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no code panics while it holds the record")
    }

    /// Records the address that a claim has, and returns the one that it had.
    pub fn give(&self, uid: &Uid, address: IpAddr) -> Option<IpAddr> {
        self.inner().given.insert(uid.clone(), address)
    }

    pub fn bind(&self, uid: &Uid, binding: Binding) {
        self.inner().bindings.insert(uid.clone(), binding);
    }

    /// What the claim's last IPAddress named.
    pub fn binding(&self, uid: &Uid) -> Option<Binding> {
        self.inner().bindings.get(uid).cloned()
    }

    /// Records for which address the claim waits, by its condition.
    pub fn wait_for(&self, uid: &Uid, address: Option<IpAddr>) {
        let mut inner = self.inner();
        match address {
            None => drop(inner.waiting.remove(uid)),
            Some(address) if inner.waiting.get(uid).is_some_and(|(known, _)| *known == address) => {}
            Some(address) => drop(inner.waiting.insert(uid.clone(), (address, Instant::now()))),
        }
    }

    /// Since when the claim has been told that it waits for this address.
    pub fn waits_since(&self, uid: &Uid, address: IpAddr) -> Option<Instant> {
        self.inner().waiting.get(uid).filter(|(known, _)| *known == address).map(|(_, since)| *since)
    }

    /// A restore wrote the claim's status.
    pub fn note_restored_status(&self, server: &ApiServer, claim: &Value) {
        self.inner().restored.insert(Uid::of(server, claim), claim["status"].clone());
    }

    /// Whether the claim's status is still that of a backup, so that no controller has said it now. Forgotten once it is
    /// another one: from then on a controller says it.
    pub fn is_status_restored(&self, server: &ApiServer, claim: &Value) -> bool {
        let (uid, mut inner) = (Uid::of(server, claim), self.inner());
        let is_restored = inner.restored.get(&uid) == Some(&claim["status"]);
        if !is_restored {
            inner.restored.remove(&uid);
        }
        is_restored
    }

    /// A user removes the claim by force, and may leave its floating IP behind.
    pub fn note_forced(&self, uid: &Uid) {
        let mut inner = self.inner();
        inner.forced.insert(uid.clone());
        inner.are_orphans_expected = true;
    }

    pub fn is_forced(&self, uid: &Uid) -> bool {
        self.inner().forced.contains(uid)
    }

    /// Whether a user left something behind, or may have.
    pub fn expect_orphans(&self) {
        self.inner().are_orphans_expected = true;
    }

    pub fn are_orphans_expected(&self) -> bool {
        self.inner().are_orphans_expected
    }
}
