//! Generates requests: of every kind, verb, precondition and subresource that the controllers, the plugin and the users of
//! the simulation use. What exists decides what comes next, so that most requests meet something.
//!
//! Not generated: circles of owners, owners of unknown kinds, names and labels that are malformed, CEL rules broken but
//! that of `poolID` (`tests/crd` has those), strategic and apply patches, deletions of collections, patches that set a
//! deletion timestamp (the API server writes down who tried): nobody here sends them.

use serde_json::{Value, json};

use super::bodies;
use super::memory_side::MemorySide;
use super::request::{Request, Verb, uid_of, version_of};
use crate::memory_api::objects::finalizers;
use crate::memory_api::{Key, Kind};

/// Kinds that own and are owned, owners first.
pub const OWNERS: [Kind; 6] = [Kind::InTreePool, Kind::Pool, Kind::Claim, Kind::Address, Kind::Secret, Kind::ConfigMap];

/// The names of cluster identities.
pub const IDENTITIES: [&str; 2] = ["i0", "i1"];

pub struct Generator<'a> {
    pub random: &'a mut fastrand::Rng,
    pub memory: &'a MemorySide,
}

impl Generator<'_> {
    pub fn next(&mut self) -> Request {
        if self.one_in(20) {
            return self.without_namespace();
        }
        let kind = self.kind();
        match self.random.u32(..100) {
            0..24 => self.create(kind),
            24..52 => self.patch(kind),
            52..64 => self.patch_status(kind),
            64..82 => self.delete(kind),
            82..90 => Request { verb: Verb::Get, kind, name: self.name(kind), body: None },
            90..96 => self.list(kind),
            _ => self.update(),
        }
    }

    /// What the controllers read, and users change, of kinds that are in no namespace.
    fn without_namespace(&mut self) -> Request {
        let (kind, verb, name) = match self.random.u32(..12) {
            // Until it ends: then its own controller writes to it.
            0..3 if !self.memory.server.has_terminating_namespace() => {
                (Kind::Namespace, self.pick(&[Verb::Get, Verb::Patch]), "")
            }
            0..4 => (Kind::Namespace, Verb::Get, "missing"),
            4..7 => (Kind::ClusterIdentity, Verb::Create, self.pick(&IDENTITIES)),
            7..9 => (Kind::ClusterIdentity, Verb::Get, self.pick(&IDENTITIES)),
            9..11 => (Kind::ClusterIdentity, Verb::Patch, self.pick(&IDENTITIES)),
            _ => (Kind::ClusterIdentity, Verb::Delete, self.pick(&IDENTITIES)),
        };
        let body = match verb {
            Verb::Create => Some(bodies::new_object(self, kind, name)),
            Verb::Patch => Some(bodies::change(self, kind)),
            _ => None,
        };
        Request { verb, kind, name: name.to_owned(), body }
    }

    fn kind(&mut self) -> Kind {
        match self.random.u32(..100) {
            0..30 => Kind::Claim,
            30..58 => Kind::Address,
            58..76 => Kind::Pool,
            76..82 => Kind::InTreePool,
            82..85 => Kind::OpenStackCluster,
            85..88 => Kind::Secret,
            88..92 => Kind::ConfigMap,
            92..96 => Kind::Lease,
            _ => Kind::Event,
        }
    }

    pub fn one_in(&mut self, chances: u32) -> bool {
        self.random.u32(..chances) == 0
    }

    pub fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.random.usize(..choices.len())].clone()
    }

    /// The names of what exists.
    fn existing(&self, kind: Kind) -> Vec<String> {
        let state = self.memory.server.state();
        state.objects.keys().filter(|key| key.kind == kind).map(|key| key.name.clone()).collect()
    }

    /// Mostly the name of an object that exists.
    pub fn name(&mut self, kind: Kind) -> String {
        let existing = self.existing(kind);
        if !existing.is_empty() && !self.one_in(8) { self.pick(&existing) } else { self.any_name(kind) }
    }

    pub fn any_name(&mut self, kind: Kind) -> String {
        let (letter, count) = match kind {
            Kind::Claim | Kind::Address => ("c", 4),
            Kind::Pool | Kind::InTreePool | Kind::OpenStackCluster => ("p", 2),
            Kind::Secret | Kind::ConfigMap => ("s", 2),
            Kind::Event => ("e", 3),
            Kind::Lease | Kind::Namespace | Kind::ClusterIdentity | Kind::Cluster => ("l", 1),
        };
        format!("{letter}{}", self.random.u32(..count))
    }

    fn create(&mut self, kind: Kind) -> Request {
        let free: Vec<String> = {
            let existing = self.existing(kind);
            (0..4).map(|_| self.any_name(kind)).filter(|name| !existing.contains(name)).collect()
        };
        let name = if free.is_empty() || self.one_in(5) { self.any_name(kind) } else { self.pick(&free) };
        let mut body = bodies::new_object(self, kind, &name);
        if kind != Kind::Event {
            self.add_new_metadata(kind, &name, &mut body["metadata"]);
        }
        Request { verb: Verb::Create, kind, name, body: Some(body) }
    }

    fn patch(&mut self, kind: Kind) -> Request {
        let name = self.name(kind);
        let body = match self.random.u32(..100) {
            0..30 => self.change_finalizers(kind, &name),
            30..42 => {
                json!({"metadata": {"annotations": {"example.org/note": self.pick(&[json!("one"), json!("two"), Value::Null])}}})
            }
            42..50 => self.pick(&[
                json!({"metadata": {"labels": {"example.org/kind": "one"}}}),
                json!({"metadata": {"labels": {"example.org/kind": null}}}),
                json!({"metadata": {"labels": null}}),
                json!({"metadata": {"labels": {}}}),
            ]),
            50..64 if OWNERS.contains(&kind) => {
                let mut meta = json!({"ownerReferences": self.owners(kind)});
                self.add_version(kind, &name, &mut meta);
                json!({"metadata": meta})
            }
            50..84 => bodies::change(self, kind),
            84..88 => json!({}),
            88..92 => json!({"status": bodies::status(self, kind)}),
            _ => self.odd_patch(kind, &name),
        };
        Request { verb: Verb::Patch, kind, name, body: Some(body) }
    }

    fn patch_status(&mut self, kind: Kind) -> Request {
        // The other kinds have no such resource: they answer so.
        let kind = if kind.has_status() || self.one_in(6) { kind } else { self.pick(&[Kind::Claim, Kind::Pool]) };
        let name = self.name(kind);
        let mut body = json!({"status": bodies::status(self, kind)});
        let mut meta = json!({});
        if self.one_in(4) {
            self.add_version(kind, &name, &mut meta);
        }
        if self.one_in(8) {
            meta["annotations"] = json!({"example.org/note": "of the status"});
            meta["finalizers"] = json!(["example.org/three"]);
        }
        if self.one_in(20) {
            meta["uid"] = uid_of(kind, &name, 1).into();
        }
        if meta != json!({}) {
            body["metadata"] = meta;
        }
        if self.one_in(12) {
            body["spec"] = json!({"clusterName": "changed", "maxIPs": 1});
        }
        Request { verb: Verb::PatchStatus, kind, name, body: Some(body) }
    }

    fn delete(&mut self, kind: Kind) -> Request {
        let name = self.name(kind);
        let mut body = json!({});
        match self.random.u32(..6) {
            0 | 1 => body["propagationPolicy"] = "Foreground".into(),
            2 => body["propagationPolicy"] = "Background".into(),
            3 if self.one_in(2) => body["propagationPolicy"] = "Orphan".into(),
            _ => {}
        }
        let age = usize::from(self.one_in(3));
        match self.random.u32(..6) {
            0 | 1 => body["preconditions"]["uid"] = uid_of(kind, &name, age).into(),
            2 => body["preconditions"]["resourceVersion"] = version_of(kind, &name, age).into(),
            _ => {}
        }
        let body = (body != json!({}) || self.one_in(2)).then_some(body);
        Request { verb: Verb::Delete, kind, name, body }
    }

    fn list(&mut self, kind: Kind) -> Request {
        // Kubernetes adds a ConfigMap of its own to each namespace.
        let kind = if kind == Kind::ConfigMap { Kind::Secret } else { kind };
        let limit = self.random.usize(1..3);
        let verb = match self.random.u32(..6) {
            0 | 1 => Verb::List(0),
            2 => Verb::List(limit),
            3 | 4 => Verb::NextPage(limit),
            _ => Verb::ListMetadata,
        };
        Request { verb, kind, name: String::new(), body: None }
    }

    /// As the leader writes its Lease: the whole of what it read, or of what it believes to be there.
    fn update(&mut self) -> Request {
        let (kind, name) = (Kind::Lease, "l0".to_owned());
        let mut body = bodies::new_object(self, kind, &name);
        if !self.one_in(8) {
            let age = usize::from(self.one_in(4));
            body["metadata"]["resourceVersion"] = version_of(kind, &name, age).into();
        }
        if self.one_in(2) {
            let age = usize::from(self.one_in(6));
            body["metadata"]["uid"] = uid_of(kind, &name, age).into();
        }
        Request { verb: Verb::Update, kind, name, body: Some(body) }
    }

    /// What a history ends with: nothing is in the way of the namespace's end.
    pub fn unblock(memory: &MemorySide) -> Vec<Request> {
        let state = memory.server.state();
        let has_finalizers = state.objects.iter().filter(|(_, object)| !finalizers(object).is_empty());
        let keys = has_finalizers.map(|(key, _)| key.clone()).filter(|key| key.kind.is_namespaced());
        let body = || Some(json!({"metadata": {"finalizers": null}}));
        keys.map(|Key { kind, name, .. }| Request { verb: Verb::Patch, kind, name, body: body() }).collect()
    }
}
