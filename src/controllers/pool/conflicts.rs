//! Other pools that would serve the same claims or write the same marks. Until one of them is deleted, ours gives no new
//! address.

use std::fmt::Display;
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;

use super::Error;
use super::capo::CAPO_GROUP;
use super::identity::recorded_id;
use super::resolve::Resolver;
use crate::allocation::PoolId;
use crate::api::OpenStackFloatingIPPool;
use crate::api::conditions::pool_reasons as reasons;
use crate::api::names::POOL_KIND;
use crate::controllers::memory::Problem;
use crate::controllers::stores::{name_of, sorted};
use crate::openstack::ProjectScope;

impl Resolver {
    /// A pool of the same namespace. That is seen without the pool's credentials.
    pub(in crate::controllers) async fn find_conflict(
        &self,
        pool: &OpenStackFloatingIPPool,
        id: &PoolId,
    ) -> Result<Option<Problem>, Error> {
        if let Some(elder) = self.find_older_duplicate(pool, id) {
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

    /// Whether an older pool of another namespace with the same id is of the project of `ours`. One of another project does
    /// not matter: neither sees the marks of the other.
    pub(super) fn find_distant_duplicate(
        &self,
        pool: &OpenStackFloatingIPPool,
        id: &PoolId,
        ours: &ProjectScope,
    ) -> Option<DistantDuplicate> {
        let older_duplicates =
            self.older_duplicates(pool, id, |namespace| pool.metadata.namespace.as_deref() != Some(namespace));
        let found = older_duplicates.iter().filter_map(|elder| {
            let known = self.memory.pools.get(&name_of(elder.as_ref())).resolved;
            match known.as_ref().map(|known| known.neutron.scope()) {
                Some(scope) if scope.keystone == ours.keystone => {
                    let is_same = (&scope.project, &scope.region) == (&ours.project, &ours.region);
                    is_same.then_some(DistantDuplicate::OfProject)
                }
                _ => Some(DistantDuplicate::Unknown),
            }
        });
        found.min()
    }

    /// An older pool of the namespace with the same id. Only the younger one stops serving.
    pub(super) fn find_older_duplicate(
        &self,
        pool: &OpenStackFloatingIPPool,
        id: &PoolId,
    ) -> Option<Arc<OpenStackFloatingIPPool>> {
        self.older_duplicates(pool, id, |namespace| pool.metadata.namespace.as_deref() == Some(namespace))
            .into_iter()
            .next()
    }

    fn older_duplicates(
        &self,
        pool: &OpenStackFloatingIPPool,
        id: &PoolId,
        is_in_scope: impl Fn(&str) -> bool,
    ) -> Vec<Arc<OpenStackFloatingIPPool>> {
        let is_older_duplicate = |other: &OpenStackFloatingIPPool| {
            other.uid() != pool.uid()
                && other.metadata.namespace.as_deref().is_some_and(&is_in_scope)
                && seniority(other) < seniority(pool)
                && recorded_id(other, &self.memory).as_ref() == Some(id)
        };
        sorted(&self.stores.pools, is_older_duplicate)
    }
}

fn duplicate_id(elder: impl Display, id: &PoolId) -> Problem {
    let message = format!(
        "{elder} has the same ID {id}: delete this pool and create it without the copied annotation or spec.poolID"
    );
    Problem { reason: reasons::DUPLICATE_POOL_ID, message }
}

/// An older pool of another namespace with the same id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum DistantDuplicate {
    /// It works in the same project.
    OfProject,
    /// It has no session, or one with another Keystone: that may be the same one under another name.
    Unknown,
}

impl DistantDuplicate {
    pub(super) fn problem(self, id: &PoolId) -> Problem {
        duplicate_id(
            match self {
                Self::OfProject => "an older pool of this project, in another namespace,",
                Self::Unknown => "an older pool of another namespace, which may be of the same project,",
            },
            id,
        )
    }
}

fn seniority(pool: &OpenStackFloatingIPPool) -> (Option<Timestamp>, Option<String>, String) {
    let created = pool.metadata.creation_timestamp.as_ref().map(|time| time.0);
    (created, pool.namespace(), pool.name_any())
}
