//! The objects of Kubernetes, as the watches last delivered them.

use std::collections::BTreeSet;
use std::hash::Hash;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Resource, ResourceExt};

use super::memory::ClaimRecords;
use super::patch;
use crate::allocation::ClaimKey;
use crate::api::claim::IpAddressClaimStatus;
use crate::api::hands_off::HandsOff;
use crate::api::names::{ADDRESS_FINALIZER, POOL_ID_ANNOTATION, READ_ANNOTATIONS, READ_LABELS};
use crate::api::{Cluster, IpAddress, IpAddressClaim, IpamVersion, OpenStackFloatingIPPool};
use crate::object_name::ObjectName;

#[derive(Clone)]
pub(super) struct Stores {
    pub(super) pools: Store<OpenStackFloatingIPPool>,
    pub(super) claims: Store<IpAddressClaim>,
    pub(super) addresses: Store<IpAddress>,
    pub(super) clusters: Store<Cluster>,
    pub(super) version: IpamVersion,
}

/// An object as it is kept in memory. Users may write a quarter of a megabyte of annotations on each.
pub(super) trait Stored: Resource<DynamicType: Eq + Hash + Clone> {
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
pub(super) fn may_be_kept(meta: &ObjectMeta) -> bool {
    let finalizers = meta.finalizers.iter().flatten().map(|name| name.len().saturating_add(size_of::<String>()));
    let owners = meta.owner_references.iter().flatten().map(size_of_owner);
    finalizers.chain(owners).fold(0, usize::saturating_add) <= MAX_REFERENCES
}

fn size_of_owner(owner: &OwnerReference) -> usize {
    let texts = [&owner.api_version, &owner.kind, &owner.name, &owner.uid];
    texts.iter().map(|text| text.len()).fold(size_of::<OwnerReference>(), usize::saturating_add)
}

impl Stores {
    /// Waits until every kind has been listed once. Only then does a missing object mean that it does not exist.
    pub(super) async fn wait_until_listed(&self) {
        // An error means that the writer was dropped: then the watches have ended, and so do the controllers.
        let (pools, claims) = (self.pools.wait_until_ready(), self.claims.wait_until_ready());
        let (addresses, clusters) = (self.addresses.wait_until_ready(), self.clusters.wait_until_ready());
        let _ = tokio::join!(pools, claims, addresses, clusters);
    }

    pub(super) fn pool(&self, name: &ObjectName) -> Option<Arc<OpenStackFloatingIPPool>> {
        self.pools.get(&ObjectRef::new(&name.name).within(&name.namespace))
    }

    pub(super) fn claim(&self, name: &ObjectName) -> Option<Arc<IpAddressClaim>> {
        self.claims.get(&ObjectRef::new_with(&name.name, self.version).within(&name.namespace))
    }

    pub(super) fn address(&self, name: &ObjectName) -> Option<Arc<IpAddress>> {
        self.addresses.get(&ObjectRef::new_with(&name.name, self.version).within(&name.namespace))
    }

    pub(super) fn cluster(&self, namespace: &str, name: &str) -> Option<Arc<Cluster>> {
        self.clusters.get(&ObjectRef::new_with(name, self.version).within(namespace))
    }

    /// The claims that point at a pool, and those that its IPAddresses are for.
    pub(super) fn claim_keys_of(&self, pool: &ObjectName) -> BTreeSet<ClaimKey> {
        let claims = self.claims_of(pool).into_iter().map(|claim| claim.name_any());
        let addresses = self.addresses.state_filter(|address| address.is_of(&pool.namespace, &pool.name));
        let published = addresses.into_iter().map(|address| address.spec.claim_ref.name.clone());
        claims.chain(published).map(|claim| ClaimKey::of(&pool.namespace, &claim)).collect()
    }

    pub(super) fn has_addresses(&self, pool: &ObjectName) -> bool {
        self.addresses.find(|address| address.is_of(&pool.namespace, &pool.name) && is_ours(address)).is_some()
    }

    /// The claims that point at a pool, by name.
    pub(super) fn claims_of(&self, pool: &ObjectName) -> Vec<Arc<IpAddressClaim>> {
        sorted(&self.claims, |claim| claim.is_of(&pool.namespace, &pool.name))
    }

    /// The IPAddresses of a pool whose claim is gone, or points at another pool, and not because both are being moved.
    /// Only those with our finalizer or annotations: what another writer made is left alone.
    pub(super) fn strays_of(&self, pool: &ObjectName, claims: &ClaimRecords) -> Vec<Arc<IpAddress>> {
        self.ours_of(pool, claims.addresses_without_claim(pool))
    }

    /// The IPAddresses of a pool that a user copied to another name and deleted. The claim has its own.
    pub(super) fn deleted_copies_of(&self, pool: &ObjectName, claims: &ClaimRecords) -> Vec<Arc<IpAddress>> {
        let mut copies = self.ours_of(pool, claims.copied_addresses(pool));
        copies.retain(|address| address.metadata.deletion_timestamp.is_some());
        copies
    }

    /// Those of these IPAddresses that are the pool's, ours, and not being moved.
    fn ours_of(&self, pool: &ObjectName, addresses: Vec<ObjectName>) -> Vec<Arc<IpAddress>> {
        if self.has_paused_cluster(&pool.namespace) {
            return Vec::new();
        }
        let stays = |address: &IpAddress| HandsOff::of(&address.metadata) != Some(HandsOff::Moving);
        let addresses = addresses.into_iter().filter_map(|name| self.address(&name));
        addresses
            .filter(|address| address.is_of(&pool.namespace, &pool.name) && is_ours(address) && stays(address))
            .collect()
    }

    /// Our IPAddresses whose claim and pool do not exist, and not because all of them are being moved.
    pub(super) fn addresses_without_pool(&self, claims: &ClaimRecords) -> Vec<Arc<IpAddress>> {
        let pool_of =
            |address: &IpAddress| ObjectName::new(address.namespace().unwrap_or_default(), &address.spec.pool_ref.name);
        let is_left = |address: &IpAddress| {
            address.spec.pool_ref.is_ours() && is_ours(address) && self.pool(&pool_of(address)).is_none()
        };
        let pools: BTreeSet<ObjectName> =
            sorted(&self.addresses, is_left).iter().map(|address| pool_of(address)).collect();
        pools.iter().flat_map(|pool| self.strays_of(pool, claims)).collect()
    }

    /// Whether a Cluster of the namespace is paused: a move or a restore may be under way, and missing objects may follow.
    pub(super) fn has_paused_cluster(&self, namespace: &str) -> bool {
        self.clusters.find(|cluster| cluster.namespace().as_deref() == Some(namespace) && cluster.is_paused()).is_some()
    }

    /// Whether new work may begin for the pool: it exists, stays, and is neither paused nor being moved.
    pub(super) fn is_serving(&self, pool: &ObjectName) -> bool {
        self.pool(pool).is_some_and(|pool| may_serve(&pool.metadata))
    }
}

/// Whether an IPAddress was created, or is held, by a controller of ours.
pub(super) fn is_ours(address: &IpAddress) -> bool {
    patch::has_finalizer(&address.metadata, ADDRESS_FINALIZER) || address.annotation(POOL_ID_ANNOTATION).is_some()
}

/// Whether the pool stays, and is neither paused nor being moved.
pub(super) fn may_serve(pool: &ObjectMeta) -> bool {
    pool.deletion_timestamp.is_none() && HandsOff::of(pool).is_none()
}

/// The objects of a store that match, by name. A store has no order of its own.
pub(super) fn sorted<K>(store: &Store<K>, is_match: impl Fn(&K) -> bool) -> Vec<Arc<K>>
where
    K: Resource + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    let mut objects = store.state_filter(is_match);
    objects.sort_by_cached_key(|object| name_of(object.as_ref()));
    objects
}

pub(super) fn name_of(object: &impl Resource) -> ObjectName {
    ObjectName::new(object.namespace().unwrap_or_default(), object.name_any())
}
