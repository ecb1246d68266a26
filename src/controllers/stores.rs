//! The objects of Kubernetes, as the watches last delivered them.

use std::collections::BTreeSet;
use std::hash::Hash;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Resource, ResourceExt};

use super::memory::ClaimRecords;
use super::patch;
use crate::allocation::ClaimKey;
use crate::api::hands_off::HandsOff;
use crate::api::names::{ADDRESS_FINALIZER, POOL_ID_ANNOTATION};
use crate::api::{Cluster, IpAddress, IpAddressClaim, IpamVersion, OpenStackFloatingIPPool};
use crate::object_name::ObjectName;

mod stored;

pub(super) use stored::{Stored, with_all_references};

#[derive(Clone)]
pub(super) struct Stores {
    pub(super) pools: Store<OpenStackFloatingIPPool>,
    pub(super) claims: Store<IpAddressClaim>,
    pub(super) addresses: Store<IpAddress>,
    pub(super) clusters: Store<Cluster>,
    pub(super) version: IpamVersion,
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
