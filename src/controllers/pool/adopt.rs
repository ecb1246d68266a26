//! Makes a pool ours: its finalizer, its identity in marks and its project, all written before anything is done in Neutron.

use std::sync::Arc;

use kube::ResourceExt;
use serde_json::json;

use super::Error;
use crate::allocation::PoolId;
use crate::api::OpenStackFloatingIPPool;
use crate::api::names::{POOL_FINALIZER, POOL_ID_ANNOTATION, PROJECT_ID_ANNOTATION};
use crate::controllers::context::{Context, is_to_be_served, name_of};
use crate::controllers::patch;
use crate::floating_ip::ProjectId;

/// How many characters a made id has: 36^10 of them, so that no two pools of a project ever meet.
const ID_LENGTH: usize = 10;

/// How often it is tried to write to a pool that others write to all the time, before it is looked at anew.
const TRIES: usize = 5;

const ADOPT: &str = "put finalizer, id and project on the pool";

/// The id that the pool has, or will have once it is ours.
pub(in crate::controllers) fn intended(pool: &OpenStackFloatingIPPool, ctx: &Context) -> PoolId {
    id(pool, ctx).unwrap_or_else(|| {
        let id = PoolId::parse(&ctx.clock.random_name(ID_LENGTH)).expect("letters and digits make an id");
        ctx.minted().insert(id.clone());
        id
    })
}

/// The project that the pool's floating IPs are in, once it has served.
pub(super) fn project(pool: &OpenStackFloatingIPPool, ctx: &Context) -> Option<ProjectId> {
    let written = pool.annotations().get(PROJECT_ID_ANNOTATION).map(ProjectId::new);
    let remembered = || {
        let known = ctx.registry.get(&name_of(pool)).filter(|known| known.uid == pool.metadata.uid)?;
        known.served.map(|served| served.neutron.scope().project.clone())
    };
    written.or_else(remembered)
}

/// The pool as it is once it is ours. Not before it can be served: what was never served has nothing in OpenStack, and
/// so nothing that its deletion would have to wait for.
pub(super) async fn run(
    pool: &Arc<OpenStackFloatingIPPool>,
    id: &PoolId,
    project: &ProjectId,
    ctx: &Arc<Context>,
) -> Result<Arc<OpenStackFloatingIPPool>, Error> {
    let name = name_of(pool.as_ref());
    let api = ctx.pools(&name.namespace);
    let mut known = pool.clone();
    for _ in 1..TRIES {
        match write(&known, id, project, ctx).await {
            // Finding out what it names took a while; somebody wrote to it meanwhile, but not what would change that.
            Err(error) if patch::is_conflict(&error) => {
                let now = api.get(&name.name).await.map_err(|error| Error::Kubernetes("read the pool again", error))?;
                if !is_as_before(&now, pool, id, ctx) {
                    return Err(Error::Kubernetes(ADOPT, error));
                }
                known = Arc::new(now);
            }
            result => return result.map_err(|error| Error::Kubernetes(ADOPT, error)),
        }
    }
    write(&known, id, project, ctx).await.map_err(|error| Error::Kubernetes(ADOPT, error))
}

async fn write(
    pool: &Arc<OpenStackFloatingIPPool>,
    id: &PoolId,
    project: &ProjectId,
    ctx: &Arc<Context>,
) -> Result<Arc<OpenStackFloatingIPPool>, kube::Error> {
    let annotations = [(POOL_ID_ANNOTATION, id.as_str()), (PROJECT_ID_ANNOTATION, project.as_str())];
    let has = |(key, value): &(&str, &str)| pool.annotations().get(*key).map(String::as_str) == Some(value);
    let is_written = annotations.iter().all(has);
    let finalizers = patch::with_finalizer(&pool.metadata, POOL_FINALIZER);
    if is_written && finalizers.is_none() {
        return Ok(pool.clone());
    }
    // With the version that was read: two writers cannot both give an id.
    let mut change =
        finalizers.unwrap_or_else(|| json!({"metadata": {"resourceVersion": pool.metadata.resource_version}}));
    change["metadata"]["annotations"] = annotations.into_iter().collect();
    let name = name_of(pool.as_ref());
    let pool = patch::merge(&ctx.pools(&name.namespace), &name.name, change).await?;
    ctx.writes().pool(&name, &pool);
    tracing::info!(pool.name = %name, pool.id = %id, "pool adopted");
    Ok(Arc::new(pool))
}

/// Whether all that was found out about the pool still holds: it is the same one with the same spec, to be served, and
/// nobody gave it another id.
fn is_as_before(now: &OpenStackFloatingIPPool, before: &OpenStackFloatingIPPool, id: &PoolId, ctx: &Context) -> bool {
    now.metadata.uid == before.metadata.uid
        && now.metadata.generation == before.metadata.generation
        && is_to_be_served(now)
        && super::is_watched(now, ctx)
        && now.annotations().get(POOL_ID_ANNOTATION).is_none_or(|given| given == id.as_str())
}

/// The pool's id: from its spec, its annotation, or, when somebody wiped that, from what this process knows of it, or
/// from its IPAddresses.
pub(super) fn id(pool: &OpenStackFloatingIPPool, ctx: &Context) -> Option<PoolId> {
    let given = pool.spec.pool_id.as_deref().and_then(PoolId::parse);
    let written = || pool.annotations().get(POOL_ID_ANNOTATION).and_then(|id| PoolId::parse(id));
    let remembered = || {
        let known = ctx.registry.get(&name_of(pool)).filter(|known| known.uid == pool.metadata.uid)?;
        known.served.map(|served| served.policy.id.clone())
    };
    let published = || {
        let name = name_of(pool);
        let is_the_pools = |address: &crate::api::IpAddress| address.is_of(&name.namespace, &name.name);
        let addresses = ctx.stores.addresses.state_filter(is_the_pools);
        let ids = addresses.iter().filter_map(|address| address.annotations().get(POOL_ID_ANNOTATION));
        // The smallest, so that the answer is the same each time.
        ids.filter_map(|id| PoolId::parse(id)).min()
    };
    given.or_else(written).or_else(remembered).or_else(published)
}
