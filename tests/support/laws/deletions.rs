//! Law 9: what is being deleted, and only our finalizers keep, is gone.

use std::sync::Arc;

use caip_openstack::api::names::{
    ADDRESS_FINALIZER, CLAIM_FINALIZER, GARBAGE_COLLECTOR_FINALIZERS, GROUP, POOL_FINALIZER, POOL_KIND,
    PROJECT_ID_ANNOTATION, SECRET_FINALIZER_PREFIX,
};
use serde_json::Value;

use super::objects::{claim_of, condition, describe, finalizers, is_deleting, is_left_alone, of_kind, text};
use super::{Snapshot, Violation};

pub fn check(snapshot: &Snapshot, site: usize) -> Vec<Violation> {
    let objects = &snapshot.clusters[site];
    let deleting = objects.iter().filter(|object| is_deleting(object) && has_our_finalizer(object));
    let stuck = deleting.filter(|object| !is_left_alone(objects, object) && !is_needed(objects, object));
    stuck
        .map(|object| {
            Violation::new(9, format!("{} of site {site}", describe(object)), "being deleted, and still there")
        })
        .collect()
}

fn has_our_finalizer(object: &Value) -> bool {
    finalizers(object).iter().any(|finalizer| {
        [CLAIM_FINALIZER, ADDRESS_FINALIZER, POOL_FINALIZER].contains(finalizer)
            || finalizer.starts_with(SECRET_FINALIZER_PREFIX)
    })
}

/// Whether it must stay for now: another controller keeps it, or something that is not gone depends on it.
fn is_needed(objects: &[Arc<Value>], object: &Value) -> bool {
    match text(object, "/kind") {
        "IPAddressClaim" => is_kept_by_others(object),
        "IPAddress" => claim_of(objects, object).is_some_and(|claim| {
            // Its condition asks a user to act first; law 7 checks that this is justified.
            let is_told = condition(claim, "Ready").is_some_and(|ready| text(ready, "/reason") == "AllocationFailed");
            is_kept_by_others(claim) || is_left_alone(objects, claim) || !has_pool(objects, claim) || is_told
        }),
        POOL_KIND => objects.iter().any(|other| counts_on(other, object)),
        "Secret" => of_kind(objects, POOL_KIND).any(|pool| names_secret(pool, object) && needs_secret(pool)),
        _ => true,
    }
}

/// Whether the claim's pool exists. One that is created again finds its id in the IPAddresses of the one before.
fn has_pool(objects: &[Arc<Value>], claim: &Value) -> bool {
    of_kind(objects, POOL_KIND).any(|pool| points_at(claim, pool))
}

fn is_kept_by_others(claim: &Value) -> bool {
    finalizers(claim)
        .iter()
        .any(|finalizer| *finalizer != CLAIM_FINALIZER && !GARBAGE_COLLECTOR_FINALIZERS.contains(finalizer))
}

/// Whether a claim or an address still has our finalizer and points at the pool.
fn counts_on(object: &Value, pool: &Value) -> bool {
    points_at(object, pool)
        && finalizers(object).iter().any(|finalizer| [CLAIM_FINALIZER, ADDRESS_FINALIZER].contains(finalizer))
}

fn points_at(object: &Value, pool: &Value) -> bool {
    text(object, "/spec/poolRef/name") == text(pool, "/metadata/name")
        && text(object, "/spec/poolRef/apiGroup") == GROUP
        && text(object, "/metadata/namespace") == text(pool, "/metadata/namespace")
}

fn names_secret(pool: &Value, secret: &Value) -> bool {
    text(pool, "/spec/identityRef/name") == text(secret, "/metadata/name")
        && text(pool, "/metadata/namespace") == text(secret, "/metadata/namespace")
}

/// A process may have died between its finalizer on the Secret and that on the pool, which cannot serve since
/// (docs/guarantees.md, Limits).
fn needs_secret(pool: &Value) -> bool {
    let cannot_serve = condition(pool, "Ready").is_some_and(|ready| text(ready, "/status") == "False");
    let was_adopted = pool["metadata"]["annotations"].get(PROJECT_ID_ANNOTATION).is_some();
    finalizers(pool).contains(&POOL_FINALIZER) || cannot_serve && !was_adopted
}
