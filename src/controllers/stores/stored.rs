//! What of an object is kept in memory: what is read of it, in a limited size.

use std::hash::Hash;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;

use crate::api::claim::IpAddressClaimStatus;
use crate::api::names::{READ_ANNOTATIONS, READ_LABELS};
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
/// What the finalizers and owner references of an object may have together, in bytes. Kubernetes limits neither, and they
/// cannot be cut, since patches write them again.
const MAX_REFERENCES: usize = 16 << 10;

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

/// Whether an object is small enough to be kept, once it is stripped.
pub(in crate::controllers) fn may_be_kept(meta: &ObjectMeta) -> bool {
    let finalizers = meta.finalizers.iter().flatten().map(|name| name.len().saturating_add(size_of::<String>()));
    let owners = meta.owner_references.iter().flatten().map(size_of_owner);
    finalizers.chain(owners).fold(0, usize::saturating_add) <= MAX_REFERENCES
}

fn size_of_owner(owner: &OwnerReference) -> usize {
    let texts = [&owner.api_version, &owner.kind, &owner.name, &owner.uid];
    texts.iter().map(|text| text.len()).fold(size_of::<OwnerReference>(), usize::saturating_add)
}
