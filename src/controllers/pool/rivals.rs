//! Other pools that would serve the same claims or write the same marks. Until one of them is deleted, ours serves no
//! claim.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Api, ResourceExt};

use super::Error;
use super::identity::known_id;
use super::resolve::Resolver;
use crate::allocation::PoolId;
use crate::api::OpenStackFloatingIPPool;
use crate::api::conditions::pool_reasons as reasons;
use crate::api::names::POOL_KIND;
use crate::controllers::memory::Problem;
use crate::controllers::patch;
use crate::controllers::stores::{name_of, sorted};

/// The group of CAPO's in-tree pool of the same Kind.
const CAPO_GROUP: &str = "infrastructure.cluster.x-k8s.io";

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
        // Without CAPO nothing is listed; while its CRD is being replaced, what it listed still counts.
        let Some(in_tree) = self.list_in_tree().await? else { return Ok(None) };
        let listed: BTreeSet<IpAddr> = in_tree.iter().flat_map(listed_addresses).collect();
        self.memory.published.write().set_listed_in_tree(listed);
        let has_same_name = in_tree.iter().any(|other| name_of(other) == name_of(pool));
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

    /// CAPO's in-tree pools in the watched namespaces; none where CAPO is not installed.
    async fn list_in_tree(&self) -> Result<Option<Vec<DynamicObject>>, Error> {
        let resource = ApiResource {
            group: CAPO_GROUP.into(),
            version: "v1alpha1".into(),
            api_version: format!("{CAPO_GROUP}/v1alpha1"),
            kind: POOL_KIND.into(),
            plural: "openstackfloatingippools".into(),
        };
        let client = self.kube.client.clone();
        let api: Api<DynamicObject> = match &self.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        };
        match api.list(&ListParams::default()).await {
            Ok(list) => Ok(Some(list.items)),
            Err(error) if patch::is_not_found(&error) => Ok(None),
            Err(error) => Err(Error::Kubernetes("list CAPO's pools", error)),
        }
    }
}

fn seniority(pool: &OpenStackFloatingIPPool) -> (Option<Timestamp>, Option<String>, String) {
    let created = pool.metadata.creation_timestamp.as_ref().map(|time| time.0);
    (created, pool.namespace(), pool.name_any())
}

fn listed_addresses(pool: &DynamicObject) -> Vec<IpAddr> {
    let listed = pool.data.pointer("/spec/preAllocatedFloatingIPs").and_then(|list| list.as_array());
    listed.into_iter().flatten().filter_map(|address| address.as_str()?.parse().ok()).collect()
}
