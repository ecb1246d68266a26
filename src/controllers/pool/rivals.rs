//! Other pools that would serve the same claims or write the same marks. Until one of them is deleted, ours gives no new
//! address.

use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;

use super::Error;
use super::capo::CAPO_GROUP;
use super::identity::known_id;
use super::resolve::Resolver;
use crate::allocation::PoolId;
use crate::api::OpenStackFloatingIPPool;
use crate::api::conditions::pool_reasons as reasons;
use crate::api::names::POOL_KIND;
use crate::controllers::memory::Problem;
use crate::controllers::stores::{name_of, sorted};

impl Resolver {
    pub(in crate::controllers) async fn find_rival(
        &self,
        pool: &OpenStackFloatingIPPool,
        id: &PoolId,
    ) -> Result<Option<Problem>, Error> {
        if let Some(elder) = self.find_elder(pool, id) {
            let elder = name_of(elder.as_ref());
            let message = format!(
                "pool {} in namespace {} has the same id {id} in OpenStack's marks: delete this pool and create it without the copied annotation or spec.poolID",
                elder.name, elder.namespace
            );
            return Ok(Some(Problem { reason: reasons::DUPLICATE_POOL_ID, message }));
        }
        // Before it serves, a pool must see one of CAPO's that was created a moment ago.
        let is_serving = self.memory.pools.get(&name_of(pool)).served_generation.is_some();
        let in_tree = self.capo.pool_names(!is_serving).await;
        let in_tree = in_tree.map_err(|error| Error::Kubernetes("list CAPO's pools", error))?;
        let has_same_name = in_tree.is_some_and(|in_tree| in_tree.contains(&name_of(pool)));
        let message = format!(
            "a {POOL_KIND} of {CAPO_GROUP} has the same name, and CAPO would give its addresses to the same claims: delete one of the two pools"
        );
        Ok(has_same_name.then_some(Problem { reason: reasons::NAME_CONFLICT, message }))
    }

    /// An older pool with the same id. Only the younger one stops serving.
    pub(super) fn find_elder(
        &self,
        pool: &OpenStackFloatingIPPool,
        id: &PoolId,
    ) -> Option<Arc<OpenStackFloatingIPPool>> {
        let is_elder = |other: &OpenStackFloatingIPPool| {
            other.uid() != pool.uid()
                && seniority(other) < seniority(pool)
                && known_id(other, &self.stores, &self.memory).as_ref() == Some(id)
        };
        sorted(&self.stores.pools, is_elder).into_iter().min_by_key(|other| seniority(other))
    }
}

fn seniority(pool: &OpenStackFloatingIPPool) -> (Option<Timestamp>, Option<String>, String) {
    let created = pool.metadata.creation_timestamp.as_ref().map(|time| time.0);
    (created, pool.namespace(), pool.name_any())
}
