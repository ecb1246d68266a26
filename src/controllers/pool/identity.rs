//! The pool's id in marks, and the project that its floating IPs are in.

use std::collections::BTreeSet;
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
    // The smallest, so that the answer is the same each time.
    recorded_id(pool, stores, memory).or_else(|| published_ids(pool, stores).into_iter().min())
}

/// The pool's id: from its spec or its annotation or, if that was removed, from memory or its status. Any user may overwrite
/// the annotation. So may `clusterctl move` and a restore, if the pool was created again before: it counts unless the pool
/// has something under another id that is known.
pub(super) fn recorded_id(pool: &OpenStackFloatingIPPool, stores: &Stores, memory: &Memory) -> Option<PoolId> {
    let Records { specified, annotated, remembered, reported } = Records::of(pool, memory);
    if specified.is_some() {
        return specified;
    }
    let resolved = remembered.as_deref();
    let other = resolved.map(|resolved| resolved.policy.id.clone()).or(reported);
    let (Some(annotated), Some(other)) = (&annotated, &other) else { return annotated.or(other) };
    let has_marks = || resolved.is_some_and(|resolved| resolved.project.ledger().has_any(other));
    let has_published = || {
        let published = published_ids(pool, stores);
        published.contains(other) && !published.contains(annotated)
    };
    let is_other = annotated != other && (has_marks() || has_published());
    Some(if is_other { other } else { annotated }.clone())
}

/// Whether the pool's object names this id as its own, be it right or not.
pub(super) fn names_id(pool: &OpenStackFloatingIPPool, id: &PoolId) -> bool {
    let (specified, annotated) = (pool.spec.pool_id.as_ref(), pool.annotations().get(POOL_ID_ANNOTATION));
    let reported = pool.status.as_ref().and_then(|status| status.pool_id.as_ref());
    [specified, annotated, reported].into_iter().flatten().any(|named| named == id.as_str())
}

/// What records a pool's id.
struct Records {
    specified: Option<PoolId>,
    annotated: Option<PoolId>,
    remembered: Option<Arc<ResolvedPool>>,
    reported: Option<PoolId>,
}

impl Records {
    fn of(pool: &OpenStackFloatingIPPool, memory: &Memory) -> Self {
        let parse = |id: Option<&String>| PoolId::parse(id?);
        Self {
            specified: parse(pool.spec.pool_id.as_ref()),
            annotated: parse(pool.annotations().get(POOL_ID_ANNOTATION)),
            remembered: memory.pools.resolved_of(pool),
            reported: parse(pool.status.as_ref().and_then(|status| status.pool_id.as_ref())),
        }
    }
}

fn published_ids(pool: &OpenStackFloatingIPPool, stores: &Stores) -> BTreeSet<PoolId> {
    let name = name_of(pool);
    let addresses = stores.addresses.state_filter(|address: &IpAddress| address.is_of(&name.namespace, &name.name));
    addresses.iter().filter_map(|address| PoolId::parse(address.annotation(POOL_ID_ANNOTATION)?)).collect()
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
