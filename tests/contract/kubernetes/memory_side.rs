//! The API server in memory, as one side of the comparison.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::to_bytes;
use caip_openstack::clock::Clock;
use futures::FutureExt;
use http::Request as HttpRequest;
use serde_json::{Value, json};

use super::normal::{Answer, Event};
use super::request::{Known, Request, Verb};
use crate::memory_api::deletion::{Deleted, Deletion, Propagation};
use crate::memory_api::{ApiServer, Key, Kind, State};

/// All that happened, by object.
pub type Log = BTreeMap<Key, Vec<Event>>;

pub struct MemorySide {
    pub namespace: String,
    pub server: ApiServer,
    next_pages: BTreeMap<Kind, String>,
}

/// What it was at some time, to which it can return.
pub struct Saved {
    state: State,
    next_pages: BTreeMap<Kind, String>,
}

impl MemorySide {
    pub fn new(namespace: &str) -> Self {
        let time = "2026-11-21T09:00:00Z".parse().expect("a time");
        let server = ApiServer::new(0, Clock::simulated(time, 1));
        server.create(Kind::Namespace, json!({"metadata": {"name": namespace}})).expect("a new namespace");
        Self { namespace: namespace.to_owned(), server, next_pages: BTreeMap::new() }
    }

    pub fn save(&self) -> Saved {
        Saved { state: self.server.state().clone(), next_pages: self.next_pages.clone() }
    }

    pub fn restore(&mut self, saved: &Saved) {
        *self.server.state() = saved.state.clone();
        self.next_pages = saved.next_pages.clone();
    }

    /// A request with the versions that the objects have now.
    pub fn write(&self, request: &Request) -> HttpRequest<Vec<u8>> {
        request.for_side(&self.namespace, &self.known())
    }

    pub fn send(&mut self, request: &Request) -> Answer {
        let written = self.write(request);
        self.send_written(request, &written)
    }

    /// Sends a request as it was [written](Self::write) before.
    pub fn send_written(&mut self, request: &Request, written: &HttpRequest<Vec<u8>>) -> Answer {
        let answer = self.server.serve(written);
        let code = answer.status().as_u16();
        let bytes = to_bytes(answer.into_body(), usize::MAX).now_or_never().expect("it is there").expect("it is whole");
        let body = serde_json::from_slice(&bytes).expect("it answers in JSON");
        let answer = Answer { code, body };
        note_page(&mut self.next_pages, request, &answer);
        answer
    }

    /// The next list of the kind begins at its beginning.
    pub fn forget_page(&mut self, kind: Kind) {
        self.next_pages.remove(&kind);
    }

    /// Lets the garbage collector finish, in the order of the random numbers if there are any.
    pub fn collect(&self, mut random: Option<&mut fastrand::Rng>) {
        let mut choose = |choices: usize| random.as_deref_mut().map_or(0, |random| random.usize(..choices));
        // A bound, so that a collector that never rests is a failure and no endless test.
        for _ in 0..100_000 {
            if !self.server.collect_step(&mut choose) {
                return;
            }
        }
        panic!("the garbage collector does not come to rest");
    }

    /// Lets the garbage collector look at some objects once more, if there are random numbers to choose them.
    pub fn look_again(&self, random: Option<&mut fastrand::Rng>) {
        let Some(random) = random else { return };
        for _ in 0..random.usize(..3) {
            self.server.look_again(&mut |choices| random.usize(..choices));
        }
    }

    /// One look of the namespace controller at the namespace, if it is being deleted; the garbage collector may be
    /// faster with some of the content.
    pub fn empty_namespace(&self, mut random: Option<&mut fastrand::Rng>) {
        if let Some(random) = random.as_deref_mut() {
            let mut content: Vec<Key> =
                self.server.state().objects.keys().filter(|key| key.namespace == self.namespace).cloned().collect();
            random.shuffle(&mut content);
            if !self.server.has_terminating_namespace() {
                return;
            }
            for key in content {
                let _ = self.server.delete(&key, &Deletion::with(Propagation::Background));
                for _ in 0..random.usize(..6) {
                    let random = &mut *random;
                    self.server.collect_step(&mut |choices| random.usize(..choices));
                }
            }
        }
        self.server.empty_namespaces();
        self.collect(random);
    }

    pub fn delete_namespace(&self) -> Answer {
        let key = Key::new(Kind::Namespace, "", &self.namespace);
        match self.server.delete(&key, &Deletion::default()) {
            Ok(Deleted::Waits(object) | Deleted::Gone(object)) => Answer { code: 200, body: (*object).clone() },
            Err(refusal) => Answer { code: refusal.code, body: refusal.body() },
        }
    }

    pub fn namespace_exists(&self) -> bool {
        self.server.get(&Key::new(Kind::Namespace, "", &self.namespace)).is_some()
    }

    /// All that happened, by object.
    pub fn log(&self) -> Log {
        let mut log = Log::new();
        for change in self.server.state().changes.iter().filter(|change| change.key.namespace == self.namespace) {
            let event = Event { how: change.how.to_owned(), object: Arc::clone(&change.object) };
            log.entry(change.key.clone()).or_default().push(event);
        }
        log
    }

    pub fn known(&self) -> Known {
        known(&self.log(), &self.next_pages)
    }
}

/// What can be filled into requests, by the events of a side.
pub fn known(log: &Log, next_pages: &BTreeMap<Kind, String>) -> Known {
    let mut known = Known { next_pages: next_pages.clone(), ..Known::default() };
    for (key, events) in log {
        let text = |object: &Value, field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let versions = events.iter().map(|event| text(&event.object, "resourceVersion")).collect();
        known.versions.insert(key.clone(), versions);
        let mut uids: Vec<String> = events.iter().map(|event| text(&event.object, "uid")).collect();
        uids.dedup();
        known.uids.insert(key.clone(), uids);
    }
    known
}

/// Remembers where a list goes on.
pub fn note_page(next_pages: &mut BTreeMap<Kind, String>, request: &Request, answer: &Answer) {
    if !matches!(request.verb, Verb::List(_) | Verb::NextPage(_)) {
        return;
    }
    match answer.body["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) {
        Some(token) => drop(next_pages.insert(request.kind, token.to_owned())),
        None => drop(next_pages.remove(&request.kind)),
    }
}
