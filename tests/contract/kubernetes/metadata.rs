//! Metadata of new and changed objects: finalizers, owner references, preconditions.

use serde_json::{Value, json};

use super::generator::{Generator, OWNERS};
use super::request::{uid_of, version_of};
use crate::memory_api::objects::finalizers;
use crate::memory_api::{Key, Kind};

impl Generator<'_> {
    pub(super) fn add_new_metadata(&mut self, kind: Kind, name: &str, meta: &mut Value) {
        if self.one_in(3) {
            meta["labels"] = self.pick(&[json!({"cluster.x-k8s.io/cluster-name": "c"}), json!({}), Value::Null]);
        }
        if self.one_in(4) {
            meta["annotations"] = self.pick(&[json!({"example.org/note": "one"}), json!({})]);
        }
        if self.one_in(2) {
            meta["finalizers"] = self.finalizers();
        }
        if OWNERS.contains(&kind) && !self.one_in(3) {
            meta["ownerReferences"] = self.owners(kind);
        }
        match self.random.u32(..90) {
            0 => meta["resourceVersion"] = version_of(kind, name, 0).into(),
            1 => meta["uid"] = uid_of(kind, name, 0).into(),
            2 => meta["deletionTimestamp"] = "2026-01-01T00:00:00Z".into(),
            3 => meta["generation"] = 7.into(),
            4 => meta["namespace"] = "elsewhere".into(),
            5 => meta["name"] = "Not_A_Name".into(),
            6 => meta["creationTimestamp"] = Value::Null,
            _ => {}
        }
    }

    fn finalizers(&mut self) -> Value {
        let (one, two) = ("example.org/one", "example.org/two");
        match self.random.u32(..16) {
            0..5 => json!([one]),
            5..8 => json!([two]),
            8..11 => json!([one, two]),
            11 => json!([]),
            12 => Value::Null,
            13 => json!([one, "foregroundDeletion"]),
            14 => json!(["orphan"]),
            _ => json!(["orphan", "foregroundDeletion"]),
        }
    }

    /// Owner references: to what exists, existed or never existed, some malformed.
    ///
    /// None is named twice. The real garbage collector reads an owner once for each reference: if the owner goes in between,
    /// it is both there and gone, and the object loses all of its references. No order of whole passes explains that.
    pub(super) fn owners(&mut self, kind: Kind) -> Value {
        let rank = OWNERS.iter().position(|owner| *owner == kind).unwrap_or_default();
        let mut owners: Vec<Value> = Vec::new();
        for _ in 0..self.random.usize(..4) {
            if rank > 0 {
                let owner = OWNERS[self.random.usize(..rank)];
                let owner = self.owner(owner, owners.is_empty());
                if owners.iter().all(|known| known["uid"] != owner["uid"]) {
                    owners.push(owner);
                }
            }
        }
        owners.into()
    }

    fn owner(&mut self, kind: Kind, is_first: bool) -> Value {
        let name = self.name(kind);
        let age = if self.one_in(8) { 1 } else { 0 };
        let mut owner = json!({
            "apiVersion": kind.api_version(), "kind": kind.names().3, "name": name, "uid": uid_of(kind, &name, age),
        });
        if !self.one_in(4) {
            owner["blockOwnerDeletion"] = (!self.one_in(5)).into();
        }
        if is_first && self.one_in(3) || self.one_in(12) {
            owner["controller"] = true.into();
        }
        if self.one_in(40) {
            owner[self.pick(&["uid", "name", "kind", "apiVersion"])] = "".into();
        }
        owner
    }

    /// As the controllers do it: one finalizer more or less of those that were read, and the version that was read.
    pub(super) fn change_finalizers(&mut self, kind: Kind, name: &str) -> Value {
        let object = self.memory.server.get(&Key::new(kind, &self.memory.namespace, name));
        let mut all: Vec<Value> =
            object.iter().flat_map(|object| finalizers(object)).map(|finalizer| finalizer.to_owned().into()).collect();
        if !all.is_empty() && !self.one_in(4) {
            let gone = self.random.usize(..all.len());
            all.remove(gone);
        } else {
            all.push(self.pick(&["example.org/one".into(), "example.org/two".into()]));
            all.dedup();
        }
        let mut meta = json!({"finalizers": all});
        match self.random.u32(..12) {
            0 => meta["finalizers"] = Value::Null,
            1 => meta["finalizers"] = json!([]),
            2 => meta["finalizers"] = self.finalizers(),
            _ => {}
        }
        self.add_version(kind, name, &mut meta);
        json!({"metadata": meta})
    }

    /// Mostly the current version, sometimes one before, or none.
    pub(super) fn add_version(&mut self, kind: Kind, name: &str, meta: &mut Value) {
        match self.random.u32(..8) {
            0..5 => meta["resourceVersion"] = version_of(kind, name, 0).into(),
            5 => meta["resourceVersion"] = version_of(kind, name, 1).into(),
            _ => {}
        }
    }

    /// Patches that say something about the object itself.
    pub(super) fn odd_patch(&mut self, kind: Kind, name: &str) -> Value {
        let meta = match self.random.u32(..8) {
            0 => json!({"uid": uid_of(kind, name, 0), "annotations": {"example.org/by-uid": "same"}}),
            1 => json!({"uid": uid_of(kind, name, 1), "annotations": {"example.org/by-uid": "other"}}),
            2 => json!({"resourceVersion": null, "annotations": {"example.org/note": "one"}}),
            3 => json!({"name": "another"}),
            4 => json!({"namespace": "elsewhere"}),
            5 => json!({"generation": 77, "creationTimestamp": null}),
            6 => json!({"deletionTimestamp": null, "deletionGracePeriodSeconds": null}),
            _ => json!({"resourceVersion": version_of(kind, name, 0)}),
        };
        json!({"metadata": meta})
    }
}
