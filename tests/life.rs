//! Claims, pools and their addresses on real servers, from creation to deletion and through every failure.

mod address_list;
mod api_server_outage;
mod claim;
mod cluster_identity;
mod clusterctl;
mod concurrent_writes;
mod conflicting_pools;
mod crashes;
mod delete_for_move;
mod deletion_orders;
mod dropped_descriptions;
mod external_changes;
mod floating_ips;
mod forbidden_tags;
mod hanging_webhook;
mod hostile_tenants;
mod large_objects;
mod leader_takeover;
mod max_ips;
mod metrics;
mod network;
mod openstack_faults;
mod openstack_limits;
mod openstack_outage;
mod orphans;
mod pagination;
mod paused;
mod pool_deletion;
mod predefined;
mod quota_race;
mod rebuilt_cluster;
mod recovery;
mod release;
mod restored;
mod rollout;
mod settled;
mod shards;
mod shared_project;
mod spec_edits;
mod workload;

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Namespace as KubeNamespace;
use kube::api::DeleteParams;
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use floating_ips::*;

use crate::support::{
    Cloud, FloatingIp, Kind, Manifest, Namespace, OpenStackProxy, PoolBuilder, RECOVERY, claim, cluster, condition_of,
    controller, eventually,
};

const POOL_ID: &str = "openstackfloatingippool.ipam.cluster.x-k8s.io/pool-id";
const ABANDON: &str = "openstackfloatingippool.ipam.cluster.x-k8s.io/abandon";
const PAUSED: &str = "cluster.x-k8s.io/paused";

/// Time for many claims at once, on a busy machine.
const BURST: Duration = Duration::from_secs(90);
/// The same where the outcome of a call is unknown: that is settled after a minute.
const AFTER_LOST_CALLS: Duration = Duration::from_secs(180);
/// Until a ready pool has listed Neutron again and acted on what it found.
const RESYNC: Duration = Duration::from_secs(100);

/// An address outside the allocation pools of the network `public`, which Neutron never gives. A pool that lists it
/// lists Neutron every 12 s, not once a minute.
const MISSING: &str = "203.0.113.252";

/// Creates a pool that the run's controller serves with the credentials of `demo`, waits until it is ready, and returns
/// its id in marks.
async fn create_served_pool(ns: &Namespace, pool: PoolBuilder) -> String {
    ns.create_secret_for("demo").await;
    controller();
    create_ready_pool(ns, pool).await
}

/// The same through a proxy, which sees the calls of this pool alone.
async fn create_served_pool_behind_proxy(ns: &Namespace, pool: PoolBuilder) -> (String, OpenStackProxy) {
    let proxy = OpenStackProxy::to_cloud("demo").await;
    ns.apply_secret("cloud", &proxy.clouds_yaml()).await;
    controller();
    (create_ready_pool(ns, pool).await, proxy)
}

/// Creates a pool, waits until it is ready, and returns its id in marks.
async fn create_ready_pool(ns: &Namespace, pool: PoolBuilder) -> String {
    let pool: Manifest = pool.into();
    let name = pool.name();
    ns.create(pool).await;
    ns.await_condition(Kind::Pool, &name, "Ready", "True", "Ready", BURST).await;
    let pool = ns.get(Kind::Pool, &name).await.expect("the pool is there");
    pool.annotations().get(POOL_ID).cloned().expect("a pool has an id before it serves")
}

/// Removes the pool's id from its annotations, and waits until it is restored.
async fn wipe_pool_id_and_await_it(ns: &Namespace, id: &str, within: Duration) {
    ns.patch(Kind::Pool, "public", json!({"metadata": {"annotations": {POOL_ID: null}}})).await;
    let has_id =
        |pool: Option<&DynamicObject>| pool.and_then(|pool| pool.annotations().get(POOL_ID)) == Some(&id.into());
    ns.await_object(Kind::Pool, "public", within, "marked with its id", has_id).await;
}

async fn delete_pool(ns: &Namespace, pool: &str) {
    ns.delete(Kind::Pool, pool).await;
    ns.await_gone(Kind::Pool, pool, RECOVERY).await;
}

/// The name that CAPO gives to the claim of a server.
fn claim_name(server: &str) -> String {
    format!("{server}-floating-ip-address")
}

/// Creates the claims of the servers `web-N`, all at once.
async fn create_claims(ns: &Namespace, numbers: Range<usize>) {
    join_all(numbers.map(|number| ns.create(claim(&format!("web-{number}"))))).await;
}

/// Waits until the claim of a server is not ready for this reason; returns the message.
async fn await_waiting(ns: &Namespace, server: &str, reason: &str) -> String {
    ns.await_condition(Kind::Claim, &claim_name(server), "Ready", "False", reason, RECOVERY).await
}

/// Creates the claim of a server, and waits until it is not ready for this reason; returns the message.
async fn create_waiting_claim(ns: &Namespace, server: &str, reason: &str) -> String {
    ns.create(claim(server)).await;
    await_waiting(ns, server, reason).await
}

/// Waits until the claim of a server is bound; returns the address.
async fn await_bound(ns: &Namespace, server: &str) -> String {
    ns.await_bound(&claim_name(server), RECOVERY).await
}

/// Releases the claim of a server as CAPO does, and waits until it is gone.
async fn release_claim(ns: &Namespace, server: &str) {
    ns.release(&claim_name(server)).await;
    await_claim_gone(ns, server).await;
}

async fn await_claim_gone(ns: &Namespace, server: &str) {
    ns.await_gone(Kind::Claim, &claim_name(server), RECOVERY).await;
    ns.await_gone(Kind::Address, &claim_name(server), RECOVERY).await;
}

/// Binds and releases a claim of another pool. What the controller would do wrongly meanwhile, it has done by then; and its
/// watches, which are independent of each other, have delivered what happened before.
async fn bind_and_release_in(ns: &Namespace, pool: &str) {
    ns.bind(claim("elsewhere").from(pool)).await;
    release_claim(ns, "elsewhere").await;
}

/// Releases every bound claim as CAPO does; does not wait.
async fn release_bound_claims(ns: &Namespace) {
    join_all(bound_addresses(ns).await.iter().map(|(claim, _)| ns.release(claim))).await;
}

/// Waits until no claim is left, and no floating IP with the pool's mark.
async fn await_all_released(ns: &Namespace, pool_id: &str, within: Duration) {
    let cloud = ns.cloud().await;
    eventually(within, async || {
        match (ns.list(Kind::Claim).await.len(), marked_floating_ips(cloud, pool_id).await.len()) {
            (0, 0) => Ok(()),
            left => Err(format!("(claims, floating IPs) left: {left:?}")),
        }
    })
    .await;
}

/// Waits until Kubernetes, which counts ages in whole seconds, would give a new object a later age than this one.
async fn await_next_second(ns: &Namespace, object: &DynamicObject) {
    eventually(RECOVERY, async || match ns.dry_run(claim("later")).await {
        Ok(later) if later.creation_timestamp() > object.creation_timestamp() => Ok(()),
        _ => Err("the second has not passed"),
    })
    .await;
}

/// Waits until a count in the status of the pool `public` has this value.
async fn await_address_count(ns: &Namespace, which: &str, wanted: u64) {
    let is_so = |pool: Option<&DynamicObject>| {
        pool.is_some_and(|pool| pool.data["status"]["addresses"][which].as_u64().unwrap_or_default() == wanted)
    };
    ns.await_object(Kind::Pool, "public", RESYNC, &format!("{which} {wanted}"), is_so).await;
}

/// Waits until the status of the pool `public` is that of its present spec.
async fn await_spec_observed(ns: &Namespace) {
    let is_so = |pool: Option<&DynamicObject>| {
        pool.is_some_and(|pool| pool.data["status"]["observedGeneration"].as_i64() == pool.metadata.generation)
    };
    ns.await_object(Kind::Pool, "public", RECOVERY, "with a status of its spec", is_so).await;
}

/// Waits until the status of the pool `public` counts no waiting claim: a claim that is bound may still be counted.
async fn await_none_waiting(ns: &Namespace) {
    let is_so = |pool: Option<&DynamicObject>| {
        pool.is_some_and(|pool| pool.data["status"]["claims"]["waiting"].as_u64() == Some(0))
    };
    ns.await_object(Kind::Pool, "public", RESYNC, "no claim waits", is_so).await;
}

/// The addresses of all IPAddresses, by claim.
async fn bound_addresses(ns: &Namespace) -> Vec<(String, String)> {
    let all = ns.list(Kind::Address).await;
    let address = |object: &DynamicObject| object.data["spec"]["address"].as_str().unwrap_or_default().to_owned();
    all.iter().map(|object| (object.name_any(), address(object))).collect()
}

fn assert_distinct(addresses: &[(String, String)]) {
    let distinct: BTreeSet<_> = addresses.iter().map(|(_, address)| address).collect();
    assert_eq!(distinct.len(), addresses.len(), "an address was given twice: {addresses:?}");
}

async fn count_bound(ns: &Namespace) -> usize {
    let claims = ns.list(Kind::Claim).await;
    claims.iter().filter(|claim| claim.data["status"]["addressRef"]["name"].is_string()).count()
}

/// How many claims are not ready for this reason.
async fn count_waiting(ns: &Namespace, reason: &str) -> usize {
    let claims = ns.list(Kind::Claim).await;
    let waits = |claim: &&DynamicObject| condition_of(claim, "Ready").is_some_and(|ready| ready["reason"] == reason);
    claims.iter().filter(waits).count()
}

async fn await_bound_count(ns: &Namespace, wanted: usize, within: Duration) {
    eventually(within, async || match count_bound(ns).await {
        count if count == wanted => Ok(()),
        count => Err(format!("{count} of {wanted} claims are bound")),
    })
    .await;
}

async fn abandon(ns: &Namespace, kind: Kind, name: &str) {
    ns.patch(kind, name, json!({"metadata": {"annotations": {ABANDON: "true"}}})).await;
}

async fn delete_namespace(ns: &Namespace) {
    let namespaces: Api<KubeNamespace> = Api::all(ns.world.client.clone());
    namespaces.delete(&ns.name, &DeleteParams::default()).await.expect("it can be deleted");
}

async fn await_namespace_deleted(ns: &Namespace, within: Duration) {
    let namespaces: Api<KubeNamespace> = Api::all(ns.world.client.clone());
    eventually(within, async || match namespaces.get_opt(&ns.name).await {
        Ok(None) => Ok(()),
        Ok(Some(left)) => Err(format!("{:?}", left.status.and_then(|status| status.conditions))),
        Err(error) => Err(error.to_string()),
    })
    .await;
}

/// Whether an object has a finalizer of the controller.
fn is_protected(object: &DynamicObject) -> bool {
    object.finalizers().iter().any(|finalizer| finalizer.contains("openstackfloatingippool"))
}
