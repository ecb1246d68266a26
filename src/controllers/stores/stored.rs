//! What of an object is kept in memory: what is read of it, in a limited size. What patches write again is not lost: see
//! [`with_all_references`].

use std::borrow::Cow;
use std::fmt::Debug;
use std::hash::Hash;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::api::claim::IpAddressClaimStatus;
use crate::api::names::{
    ADDRESS_FINALIZER, CLAIM_FINALIZER, CLAIM_KIND, GARBAGE_COLLECTOR_FINALIZERS, GROUP, POOL_FINALIZER, POOL_KIND,
    READ_ANNOTATIONS, READ_LABELS,
};
use crate::api::{Cluster, IpAddress, IpAddressClaim, OpenStackFloatingIPPool};

/// An object as it is kept in memory. Users may write a quarter of a megabyte of annotations on each.
pub(in crate::controllers) trait Stored: Resource<DynamicType: Eq + Hash + Clone> {
    /// Removes what is never read.
    fn strip(&mut self);
}

impl Stored for OpenStackFloatingIPPool {
    fn strip(&mut self) {
        // The other kinds are read without managedFields.
        self.metadata.managed_fields = None;
        strip(&mut self.metadata);
    }
}

impl Stored for Cluster {
    fn strip(&mut self) {
        strip(&mut self.metadata);
        (self.metadata.owner_references, self.metadata.finalizers) = (None, None);
    }
}

impl Stored for IpAddressClaim {
    fn strip(&mut self) {
        strip(&mut self.metadata);
        self.spec.pool_ref.compact();
        if !self.spec.pool_ref.is_ours() {
            strip_foreign(&mut self.metadata);
            let address_ref = self.status.take().and_then(|status| status.address_ref);
            self.status =
                address_ref.map(|name| IpAddressClaimStatus { address_ref: Some(name), ..Default::default() });
        }
    }
}

impl Stored for IpAddress {
    fn strip(&mut self) {
        strip(&mut self.metadata);
        self.types = None;
        self.spec.pool_ref.compact();
        if self.spec.pool_ref.is_ours() {
            // Its claim has the same.
            self.metadata.labels = None;
            self.compact();
        } else {
            strip_foreign(&mut self.metadata);
        }
    }
}

/// The longest value of an annotation that is read: a region's name.
const LONGEST_VALUE: usize = 255;

/// More than another provider writes: the pool and the machine.
const FOREIGN_OWNERS: usize = 4;
/// The longest of them, in bytes: that of an API group, a kind and a name.
const LONGEST_FOREIGN_OWNER: usize = 1 << 10;
/// How much of an object's finalizers, and of its owner references, is kept, in bytes. Kubernetes limits neither.
const MAX_REFERENCES: usize = 8 << 10;
/// An annotation that an object has only in memory: not all of its finalizers and owner references are kept.
const PARTIAL: &str = "partial";
/// The finalizers that decisions ask for by name. These are kept first. Of others it matters whether there are any.
const KEPT_FINALIZERS: [&str; 5] = [
    CLAIM_FINALIZER,
    ADDRESS_FINALIZER,
    POOL_FINALIZER,
    GARBAGE_COLLECTOR_FINALIZERS[0],
    GARBAGE_COLLECTOR_FINALIZERS[1],
];

fn strip(meta: &mut ObjectMeta) {
    if let Some(labels) = &mut meta.labels {
        labels.retain(|key, _| READ_LABELS.contains(&key.as_str()));
    }
    // An empty map may keep a node.
    meta.labels.take_if(|labels| labels.is_empty());
    if let Some(annotations) = &mut meta.annotations {
        annotations.retain(|key, _| READ_ANNOTATIONS.contains(&key.as_str()));
        // It is invalid, whatever it is; that it is there may count all the same.
        annotations.values_mut().filter(|value| value.len() > LONGEST_VALUE).for_each(|value| *value = String::new());
    }
    if keep_references(meta) == Kept::Some {
        meta.annotations.get_or_insert_default().insert(PARTIAL.into(), String::new());
    }
    meta.annotations.take_if(|annotations| annotations.is_empty());
    // They have room for four.
    meta.owner_references.iter_mut().for_each(Vec::shrink_to_fit);
    meta.finalizers.iter_mut().for_each(Vec::shrink_to_fit);
}

/// Of another provider's object only what it names is read, and by `kubectl fippool` the machine that it is for.
fn strip_foreign(meta: &mut ObjectMeta) {
    (meta.annotations, meta.finalizers) = (None, None);
    if let Some(owners) = &mut meta.owner_references {
        owners.retain(|owner| size_of_owner(owner) <= LONGEST_FOREIGN_OWNER);
        owners.truncate(FOREIGN_OWNERS);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    All,
    Some,
}

/// Drops finalizers and owner references beyond what may be kept.
fn keep_references(meta: &mut ObjectMeta) -> Kept {
    let (finalizers, owners) = (meta.finalizers.as_mut(), meta.owner_references.as_mut());
    let is_named = |name: &String| KEPT_FINALIZERS.contains(&name.as_str());
    let size_of_name = |name: &String| name.len().saturating_add(size_of::<String>());
    let is_ours = |owner: &OwnerReference| {
        let is_of_group = owner.api_version.split_once('/').is_some_and(|(group, _)| group == GROUP);
        is_of_group && [CLAIM_KIND, POOL_KIND].contains(&owner.kind.as_str())
    };
    let finalizers = finalizers.map_or(Kept::All, |all| keep_first(all, is_named, size_of_name));
    let owners = owners.map_or(Kept::All, |all| keep_first(all, is_ours, size_of_owner));
    if finalizers == Kept::All { owners } else { finalizers }
}

/// Drops what is too much, and of that first what is not asked for.
fn keep_first<T>(all: &mut Vec<T>, is_asked_for: impl Fn(&T) -> bool, size: impl Fn(&T) -> usize) -> Kept {
    if all.iter().map(&size).fold(0, usize::saturating_add) <= MAX_REFERENCES {
        return Kept::All;
    }
    all.sort_by_key(|item| !is_asked_for(item));
    let mut left = MAX_REFERENCES;
    all.retain(|item| {
        let rest = left.checked_sub(size(item));
        left = rest.unwrap_or(left);
        rest.is_some()
    });
    Kept::Some
}

/// An object with all of its finalizers and owner references, for a patch that writes them: those of a large object are
/// read, since only some are kept. Its version stays, so that a change since is a conflict.
pub(in crate::controllers) async fn with_all_references<'a, A, K>(
    api: &Api<A>,
    object: &'a K,
) -> Result<Cow<'a, K>, kube::Error>
where
    A: Resource + Clone + DeserializeOwned + Debug,
    K: Resource + Clone,
{
    if !object.annotations().contains_key(PARTIAL) {
        return Ok(Cow::Borrowed(object));
    }
    let found = api.get(&object.name_any()).await?;
    let mut whole = object.clone();
    let ObjectMeta { finalizers, owner_references, .. } = found.meta().clone();
    (whole.meta_mut().finalizers, whole.meta_mut().owner_references) = (finalizers, owner_references);
    Ok(Cow::Owned(whole))
}

fn size_of_owner(owner: &OwnerReference) -> usize {
    let texts = [&owner.api_version, &owner.kind, &owner.name, &owner.uid];
    texts.iter().map(|text| text.len()).fold(size_of::<OwnerReference>(), usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_finalizers_ours_are_kept_and_some_of_the_others() {
        let finalizers = |count: usize| {
            let others = (0..count).map(|number| format!("{number:0100}.example.org/a"));
            others.chain([CLAIM_FINALIZER.to_owned()]).collect::<Vec<_>>()
        };
        for (count, is_partial) in [(0, false), (50, false), (500, true)] {
            let mut meta = ObjectMeta { finalizers: Some(finalizers(count)), ..ObjectMeta::default() };
            meta.annotations = Some([(PARTIAL.to_owned(), "of a user".to_owned())].into());
            strip(&mut meta);
            assert_eq!(meta.annotations.is_some_and(|all| all.contains_key(PARTIAL)), is_partial, "{count}");
            let kept = meta.finalizers.unwrap_or_default();
            assert!(kept.iter().any(|name| name == CLAIM_FINALIZER), "{count}");
            assert!(if is_partial { (50..100).contains(&kept.len()) } else { kept == finalizers(count) }, "{count}");
        }
    }
}
