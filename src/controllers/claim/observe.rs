//! Reads everything that a decision about a claim needs from the watches' stores and the controllers' memory.

use std::sync::Arc;

use crate::allocation::ClaimKey;
use crate::allocation::situation::QueuePosition;
use crate::api::names::CLAIM_FINALIZER;
use crate::api::{IpAddress, IpAddressClaim, OpenStackFloatingIPPool};
use crate::controllers::memory::{Memory, PoolState};
use crate::controllers::objects::{cluster_of, is_watched};
use crate::controllers::patch;
use crate::controllers::stores::{Stores, name_of};
use crate::object_name::ObjectName;

/// A claim, with everything that decisions about it depend on.
pub(in crate::controllers) struct Observed {
    pub(super) claim: Arc<IpAddressClaim>,
    pub(super) name: ObjectName,
    pub(super) key: ClaimKey,
    pub(super) pool_name: ObjectName,
    pub(super) pool: Option<Arc<OpenStackFloatingIPPool>>,
    /// Whether the pool is another controller's, by its watch filter.
    pub(super) is_pool_filtered: bool,
    pub(in crate::controllers) pool_state: PoolState,
    pub(super) cluster: ClaimCluster,
    pub(super) address: Option<Arc<IpAddress>>,
    /// Its IPAddress was created a moment ago, and the watch has not delivered it.
    pub(super) is_address_awaited: bool,
}

/// The Cluster that a claim belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ClaimCluster {
    /// The claim names none.
    None,
    Missing(String),
    Paused,
    Running,
}

pub(in crate::controllers) fn observe(
    claim: Arc<IpAddressClaim>,
    stores: &Stores,
    memory: &Memory,
    watch_filter: Option<&str>,
) -> Observed {
    let name = name_of(claim.as_ref());
    let pool_name = ObjectName::new(&name.namespace, &claim.spec.pool_ref.name);
    let pool = stores.pool(&pool_name);
    Observed {
        key: ClaimKey::of(&name.namespace, &name.name),
        is_pool_filtered: pool.as_ref().is_some_and(|pool| !is_watched(pool, watch_filter)),
        pool,
        pool_state: memory.pools.get(&pool_name),
        cluster: find_cluster(&claim, &name.namespace, stores),
        address: stores.address(&name),
        is_address_awaited: memory.claims.is_address_awaited(&claim),
        claim,
        name,
        pool_name,
    }
}

fn find_cluster(claim: &IpAddressClaim, namespace: &str, stores: &Stores) -> ClaimCluster {
    let Some(name) = cluster_of(claim) else { return ClaimCluster::None };
    match stores.cluster(namespace, name) {
        None => ClaimCluster::Missing(name.into()),
        Some(cluster) if cluster.is_paused() => ClaimCluster::Paused,
        Some(_) => ClaimCluster::Running,
    }
}

impl Observed {
    /// Whether the claim's status says that it has an address.
    pub(super) fn is_bound(&self) -> bool {
        self.claim.address_name().is_some()
    }

    /// Whether the claim's status has an address, and its IPAddress exists.
    pub(super) fn has_bound_address(&self) -> bool {
        self.is_bound() && self.address.is_some()
    }

    /// Whether the session has ended that the pool had.
    pub(super) fn has_session_ended(&self) -> bool {
        self.pool_state.resolved.as_ref().is_some_and(|pool| pool.session.has_ended())
    }

    /// Whether the claim has our finalizer.
    pub(super) fn is_protected(&self) -> bool {
        patch::has_finalizer(&self.claim.metadata, CLAIM_FINALIZER)
    }

    pub(super) fn is_being_deleted(&self) -> bool {
        self.claim.metadata.deletion_timestamp.is_some()
    }

    pub(super) fn is_pool_being_deleted(&self) -> bool {
        self.pool.as_ref().is_some_and(|pool| pool.metadata.deletion_timestamp.is_some())
    }

    pub(in crate::controllers) fn has_no_address(&self) -> bool {
        self.address.is_none()
    }

    pub(in crate::controllers) fn queue_position(&self) -> QueuePosition {
        QueuePosition { since: self.claim.created_at(), object: self.name.clone(), key: self.key.clone() }
    }
}
