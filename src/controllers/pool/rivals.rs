//! Other pools that would serve the same claims or write the same marks: then ours gives nothing until one is gone.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Api, ResourceExt};

use super::{Error, adopt};
use crate::allocation::PoolId;
use crate::api::OpenStackFloatingIPPool;
use crate::api::conditions::pool_reasons as reasons;
use crate::api::names::POOL_KIND;
use crate::controllers::context::{Context, all, name_of};
use crate::controllers::patch;
use crate::controllers::registry::Problem;

/// The group of CAPO's pool of the same Kind.
const CAPO_GROUP: &str = "infrastructure.cluster.x-k8s.io";

/// A rival of the pool, if there is one.
pub(in crate::controllers) async fn find(
    pool: &OpenStackFloatingIPPool,
    id: &PoolId,
    ctx: &Arc<Context>,
) -> Result<Option<Problem>, Error> {
    if let Some(elder) = elder(pool, id, ctx) {
        let elder = name_of(elder.as_ref());
        let message = format!(
            "pool {} in namespace {} has the same id {id} in OpenStack's marks: delete this pool and create it without the copied annotation or spec.poolID",
            elder.name, elder.namespace
        );
        return Ok(Some(Problem { reason: reasons::DUPLICATE_POOL_ID, message }));
    }
    let mut is_rival = false;
    for rival in in_tree(ctx).await? {
        let name = name_of(&rival);
        is_rival |= name == name_of(pool);
        let listed = rival.data.pointer("/spec/preAllocatedFloatingIPs").and_then(|list| list.as_array());
        let addresses: BTreeSet<IpAddr> =
            listed.into_iter().flatten().filter_map(|address| address.as_str()?.parse().ok()).collect();
        let listed = format!("{CAPO_GROUP}/{}/{}", name.namespace, name.name);
        ctx.published_mut(|published| published.set_listed(listed, addresses));
    }
    let message = format!(
        "a {POOL_KIND} of {CAPO_GROUP} has the same name, and CAPO would give its addresses to the same claims: delete one of the two pools"
    );
    Ok(is_rival.then_some(Problem { reason: reasons::NAME_CONFLICT, message }))
}

/// An older living pool with the same id. Only the younger one stands back.
pub(super) fn elder(
    pool: &OpenStackFloatingIPPool,
    id: &PoolId,
    ctx: &Context,
) -> Option<Arc<OpenStackFloatingIPPool>> {
    let age = |pool: &OpenStackFloatingIPPool| {
        let since = pool.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (since, pool.namespace(), pool.name_any())
    };
    let is_elder = |other: &OpenStackFloatingIPPool| {
        other.uid() != pool.uid() && age(other) < age(pool) && adopt::id(other, ctx).as_ref() == Some(id)
    };
    all(&ctx.stores.pools, is_elder).into_iter().min_by_key(|other| age(other))
}

/// CAPO's pools, wherever we look; none where CAPO is not installed.
async fn in_tree(ctx: &Arc<Context>) -> Result<Vec<DynamicObject>, Error> {
    let resource = ApiResource {
        group: CAPO_GROUP.into(),
        version: "v1alpha1".into(),
        api_version: format!("{CAPO_GROUP}/v1alpha1"),
        kind: POOL_KIND.into(),
        plural: "openstackfloatingippools".into(),
    };
    let api: Api<DynamicObject> = match &ctx.options.namespace {
        Some(namespace) => Api::namespaced_with(ctx.client.clone(), namespace, &resource),
        None => Api::all_with(ctx.client.clone(), &resource),
    };
    match api.list(&ListParams::default()).await {
        Ok(list) => Ok(list.items),
        Err(error) if patch::is_not_found(&error) => Ok(Vec::new()),
        Err(error) => Err(Error::Kubernetes("list CAPO's pools", error)),
    }
}
