//! The pool's id in marks, and the project that its floating IPs are in.

use std::sync::Arc;

use kube::ResourceExt;

use crate::allocation::PoolId;
use crate::api::names::{POOL_ID_ANNOTATION, PROJECT_ID_ANNOTATION, REGION_ANNOTATION};
use crate::api::{IpAddress, OpenStackFloatingIPPool};
use crate::clock::Clock;
use crate::controllers::memory::{Memory, ResolvedPool};
use crate::controllers::stores::{Stores, name_of};
use crate::floating_ip::ProjectId;

/// There are 36^10 ids, so that no two pools of a project get the same.
const ID_LENGTH: usize = 10;

/// The id that the pool has, or will have once it is adopted.
pub(super) fn intended_id(pool: &OpenStackFloatingIPPool, stores: &Stores, memory: &Memory, clock: &Clock) -> PoolId {
    #[expect(clippy::expect_used, reason = "the clock's names have these characters only")]
    let generate = || PoolId::parse(&clock.random_name(ID_LENGTH)).expect("random names have the characters of an id");
    known_id(pool, stores, memory).unwrap_or_else(|| {
        let remembered =
            memory.pools.update(&name_of(pool), |state| state.generated_id.get_or_insert_with(generate).clone());
        remembered.unwrap_or_else(generate)
    })
}

/// The pool's id: as it is recorded or, if nothing records it, from its IPAddresses.
pub(super) fn known_id(pool: &OpenStackFloatingIPPool, stores: &Stores, memory: &Memory) -> Option<PoolId> {
    recorded_id(pool, memory).or_else(|| published_id(pool, stores))
}

/// The pool's id: from its spec, or as the marks of its floating IPs have it. Its annotation counts only where nothing else
/// records the id, since any user may overwrite it.
pub(super) fn recorded_id(pool: &OpenStackFloatingIPPool, memory: &Memory) -> Option<PoolId> {
    let specified = pool.spec.pool_id.as_deref().and_then(PoolId::parse);
    let annotated = || pool.annotations().get(POOL_ID_ANNOTATION).and_then(|id| PoolId::parse(id));
    let remembered = || remembered(pool, memory).map(|resolved| resolved.policy.id.clone());
    let reported = || pool.status.as_ref()?.pool_id.as_deref().and_then(PoolId::parse);
    specified.or_else(remembered).or_else(reported).or_else(annotated)
}

fn published_id(pool: &OpenStackFloatingIPPool, stores: &Stores) -> Option<PoolId> {
    let name = name_of(pool);
    let addresses = stores.addresses.state_filter(|address: &IpAddress| address.is_of(&name.namespace, &name.name));
    let ids = addresses.iter().filter_map(|address| address.annotation(POOL_ID_ANNOTATION));
    // The smallest, so that the answer is the same each time.
    ids.filter_map(PoolId::parse).min()
}

/// The project that the pool's floating IPs are in, once it has served.
pub(super) fn recorded_project(pool: &OpenStackFloatingIPPool, memory: &Memory) -> Option<ProjectId> {
    let annotated = pool.annotations().get(PROJECT_ID_ANNOTATION).map(ProjectId::new);
    annotated.or_else(|| served(pool, memory).map(|resolved| resolved.neutron.scope().project.clone()))
}

/// The region that the pool's floating IPs are in, once it has served.
pub(super) fn recorded_region(pool: &OpenStackFloatingIPPool, memory: &Memory) -> Option<String> {
    let annotated = pool.annotations().get(REGION_ANNOTATION).cloned();
    annotated.or_else(|| served(pool, memory).map(|resolved| resolved.neutron.scope().region.clone()))
}

/// What the pool has served with. A resolution that was only for releases says nothing about its project.
fn served(pool: &OpenStackFloatingIPPool, memory: &Memory) -> Option<Arc<ResolvedPool>> {
    let known = memory.pools.get(&name_of(pool));
    Some(known).filter(|known| known.is_of(pool) && known.served_generation.is_some())?.resolved
}

fn remembered(pool: &OpenStackFloatingIPPool, memory: &Memory) -> Option<Arc<ResolvedPool>> {
    Some(memory.pools.get(&name_of(pool))).filter(|known| known.is_of(pool))?.resolved
}
