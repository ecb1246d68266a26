//! Other pools that serve in the place of this one: they would serve the same claims, or write the same marks. Until one
//! of them is deleted, this one allocates no new address.

use std::fmt::Display;
use std::sync::Arc;

use kube::ResourceExt;

use super::Error;
use super::identity::{names_id, recorded_id};
use super::resolve::Resolver;
use crate::allocation::PoolId;
use crate::api::OpenStackFloatingIPPool;
use crate::api::conditions::pool_reasons as reasons;
use crate::api::names::{CAPO_GROUP, POOL_KIND};
use crate::controllers::memory::{Memory, Problem, ResolvedPool};
use crate::controllers::stores::{Stores, name_of, sorted};

impl Resolver {
    /// A pool that serves in the place of this one. That is seen without the pool's credentials.
    pub(in crate::controllers) async fn find_conflict(
        &self,
        pool: &OpenStackFloatingIPPool,
        id: &PoolId,
    ) -> Result<Option<Problem>, Error> {
        if let Some(other) = self.duplicates().in_namespace(pool, id) {
            return Ok(Some(duplicate_id(format_args!("pool {}", other.name_any()), id)));
        }
        // Before it serves, a pool must see one of CAPO's that was created a moment ago.
        let is_serving = self.memory.pools.get(&name_of(pool)).served_generation.is_some();
        let in_tree = self.capo.pool_names(!is_serving).await;
        let in_tree = in_tree.map_err(|error| Error::Kubernetes("list CAPO's pools", error))?;
        let has_same_name = in_tree.is_some_and(|in_tree| in_tree.contains(&name_of(pool)));
        let message = format!(
            "an {POOL_KIND} of {CAPO_GROUP} has the same name, and CAPO would give its addresses to the same claims: delete one of the two pools"
        );
        Ok(has_same_name.then_some(Problem { reason: reasons::NAME_CONFLICT, message }))
    }

    pub(super) fn duplicates(&self) -> Duplicates<'_> {
        Duplicates { stores: &self.stores, memory: &self.memory }
    }
}

/// Other pools with the id of one, as far as the watches and the pools' sessions show them.
#[derive(Clone, Copy)]
pub(in crate::controllers) struct Duplicates<'a> {
    pub(in crate::controllers) stores: &'a Stores,
    pub(in crate::controllers) memory: &'a Memory,
}

impl Duplicates<'_> {
    /// Whether the pool is a copy: the marks with its id are those of another pool. A listing shows more of that.
    pub(in crate::controllers) fn has_original(&self, pool: &OpenStackFloatingIPPool, resolved: &ResolvedPool) -> bool {
        let is_in_scope = |other: &OpenStackFloatingIPPool| {
            other.metadata.namespace == pool.metadata.namespace || self.is_of_project(other, resolved)
        };
        self.find(pool, &resolved.policy.id, is_in_scope).is_some()
    }

    /// A pool of the namespace that has the same id and takes precedence.
    pub(super) fn in_namespace(
        &self,
        pool: &OpenStackFloatingIPPool,
        id: &PoolId,
    ) -> Option<Arc<OpenStackFloatingIPPool>> {
        self.find(pool, id, |other| other.metadata.namespace == pool.metadata.namespace)
    }

    /// Whether a pool of another namespace has the same id, works in the same project, and takes precedence.
    pub(super) fn in_project(&self, pool: &OpenStackFloatingIPPool, resolved: &ResolvedPool) -> Option<Problem> {
        let id = &resolved.policy.id;
        let is_of_project = |other: &OpenStackFloatingIPPool| {
            other.metadata.namespace != pool.metadata.namespace && self.is_of_project(other, resolved)
        };
        let found = self.find(pool, id, is_of_project);
        found.map(|_| duplicate_id("another pool of this project, in another namespace,", id))
    }

    /// Whether another pool with the id of `ours` works in its project, as far as that is proven: the same Keystone gave a
    /// token for it, or its claims' marks are there. What another Keystone says proves nothing.
    fn is_of_project(&self, other: &OpenStackFloatingIPPool, ours: &ResolvedPool) -> bool {
        let known = self.memory.pools.get(&name_of(other)).resolved;
        let scope = ours.neutron.scope();
        known.is_some_and(|known| known.neutron.scope().key() == scope.key()) || {
            let (claims, ledger) = (self.stores.claim_keys_of(&name_of(other)), ours.project.ledger());
            claims.iter().any(|claim| ledger.of_claim(&ours.policy.id, claim).next().is_some())
        }
    }

    fn find(
        &self,
        pool: &OpenStackFloatingIPPool,
        id: &PoolId,
        is_in_scope: impl Fn(&OpenStackFloatingIPPool) -> bool,
    ) -> Option<Arc<OpenStackFloatingIPPool>> {
        let others = pools_with_id(self.stores, self.memory, id, pool);
        others.into_iter().find(|other| is_in_scope(other) && self.precedence(other, id) < self.precedence(pool, id))
    }

    /// Of several pools with one id the one with IPAddresses serves; of several such the one that has served with the id,
    /// and of these the oldest. A restore creates all of them again, in any order.
    fn precedence(&self, pool: &OpenStackFloatingIPPool, id: &PoolId) -> impl Ord {
        let has_addresses = self.stores.has_addresses(&name_of(pool));
        let has_served = pool.status.as_ref().and_then(|status| status.pool_id.as_deref()) == Some(id.as_str())
            || self.memory.pools.get(&name_of(pool)).is_serving(pool, id);
        let created = pool.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (!has_addresses, !has_served, created, pool.namespace(), pool.name_any())
    }
}

/// Other pools with the id of this one.
pub(in crate::controllers) fn pools_with_id(
    stores: &Stores,
    memory: &Memory,
    id: &PoolId,
    pool: &OpenStackFloatingIPPool,
) -> Vec<Arc<OpenStackFloatingIPPool>> {
    let resolved = memory.pools.uids_with_id(id);
    let may_have_it = |other: &OpenStackFloatingIPPool| {
        (names_id(other, id) || resolved.contains(&other.metadata.uid)) && other.metadata.uid != pool.metadata.uid
    };
    // Outside the store's lock: which of several ids a pool has depends on ledgers.
    let mut others = sorted(&stores.pools, may_have_it);
    others.retain(|other| recorded_id(other, stores, memory).as_ref() == Some(id));
    others
}

fn duplicate_id(other: impl Display, id: &PoolId) -> Problem {
    let message = format!(
        "{other} has the same ID {id}: delete this pool and create it without the copied annotation or spec.poolID"
    );
    Problem { reason: reasons::DUPLICATE_POOL_ID, message }
}
