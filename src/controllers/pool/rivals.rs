//! Other pools that would serve the same claims or write the same marks. Until one of them is deleted, ours gives no new
//! address.

use std::fmt::Display;
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;

use super::capo::CAPO_GROUP;
use super::identity::recorded_id;
use super::resolve::Resolver;
use super::{BUSY_AGE, Error};
use crate::allocation::{ClaimKey, PoolId};
use crate::api::OpenStackFloatingIPPool;
use crate::api::conditions::pool_reasons as reasons;
use crate::api::names::POOL_KIND;
use crate::controllers::memory::{Problem, ResolvedPool};
use crate::controllers::stores::{name_of, sorted};
use crate::object_name::ObjectName;
use crate::openstack;

impl Resolver {
    /// A pool of the same namespace. That is seen without the pool's credentials.
    pub(in crate::controllers) async fn find_rival(
        &self,
        pool: &OpenStackFloatingIPPool,
        id: &PoolId,
    ) -> Result<Option<Problem>, Error> {
        if let Some(elder) = self.find_elder(pool, id) {
            return Ok(Some(duplicate_id(format_args!("pool {}", elder.name_any()), id)));
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

    /// A pool of another namespace with the same id. It is a rival only where its marks are in this pool's project:
    /// otherwise anybody could stop a pool by creating one with its id first, in whatever project of whatever cloud.
    pub(in crate::controllers) async fn find_distant_rival(
        &self,
        pool: &OpenStackFloatingIPPool,
        resolved: &ResolvedPool,
    ) -> Result<Option<Problem>, openstack::Error> {
        let id = &resolved.policy.id;
        let elders = self.elders(pool, id, |namespace| namespace != resolved.name.namespace);
        if elders.is_empty() {
            return Ok(None);
        }
        resolved.list_if_older(&self.clock, BUSY_AGE).await?;
        let is_rival = elders.iter().any(|elder| self.is_of_project(&name_of(elder.as_ref()), resolved));
        Ok(is_rival.then(|| duplicate_id(format_args!("an older pool of this project, in another namespace,"), id)))
    }

    /// Whether a pool with the same id is of the project of `resolved`: it works and so has proved that, or a floating IP
    /// of the project has a mark for one of its claims, which nobody without access to the project can write.
    fn is_of_project(&self, elder: &ObjectName, resolved: &ResolvedPool) -> bool {
        let known = self.memory.pools.get(elder).resolved;
        if known.is_some_and(|known| known.project.is_in_one_project_with(&resolved.project)) {
            return true;
        }
        let ledger = resolved.project.ledger();
        let is_marked_for = |claim: &ClaimKey| ledger.of_claim(&resolved.policy.id, claim).next().is_some();
        self.memory.claims.read(elder, |claims, _| claims.keys().any(is_marked_for))
    }

    /// An older pool of the namespace with the same id. Only the younger one stops serving.
    pub(super) fn find_elder(
        &self,
        pool: &OpenStackFloatingIPPool,
        id: &PoolId,
    ) -> Option<Arc<OpenStackFloatingIPPool>> {
        self.elders(pool, id, |namespace| pool.metadata.namespace.as_deref() == Some(namespace)).into_iter().next()
    }

    fn elders(
        &self,
        pool: &OpenStackFloatingIPPool,
        id: &PoolId,
        is_in_scope: impl Fn(&str) -> bool,
    ) -> Vec<Arc<OpenStackFloatingIPPool>> {
        let is_elder = |other: &OpenStackFloatingIPPool| {
            other.uid() != pool.uid()
                && other.metadata.namespace.as_deref().is_some_and(&is_in_scope)
                && seniority(other) < seniority(pool)
                && recorded_id(other, &self.memory).as_ref() == Some(id)
        };
        sorted(&self.stores.pools, is_elder)
    }
}

fn duplicate_id(elder: impl Display, id: &PoolId) -> Problem {
    let message = format!(
        "{elder} has the same ID {id}: delete this pool and create it without the copied annotation or spec.poolID"
    );
    Problem { reason: reasons::DUPLICATE_POOL_ID, message }
}

fn seniority(pool: &OpenStackFloatingIPPool) -> (Option<Timestamp>, Option<String>, String) {
    let created = pool.metadata.creation_timestamp.as_ref().map(|time| time.0);
    (created, pool.namespace(), pool.name_any())
}
