//! What becomes of claims, pools and their addresses, on real servers: each scenario is a sentence of the design.

mod again;
mod burst;
mod claim;
mod clusterctl;
mod ending;
mod exhausted;
mod faults;
mod forbidden;
mod gap;
mod killed;
mod limits;
mod list;
mod metrics;
mod moved;
mod network;
mod orders;
mod orphans;
mod outage;
mod outside;
mod pages;
mod paused;
mod race;
mod rebuilt;
mod releasing;
mod restored;
mod rivals;
mod rollout;
mod settled;
mod shared_project;
mod storm;
mod takeover;
mod workload;

use std::collections::BTreeSet;
use std::time::Duration;

use kube::ResourceExt;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::support::{
    Cloud, FloatingIp, HEALS, Kind, Manifest, Namespace, PoolBuilder, Wire, claim, condition_of, controller, eventually,
};

const POOL_ID: &str = "openstackfloatingippool.ipam.cluster.x-k8s.io/pool-id";
const ABANDON: &str = "openstackfloatingippool.ipam.cluster.x-k8s.io/abandon";
const PAUSED: &str = "cluster.x-k8s.io/paused";

/// Time for many claims at once, on a machine that does other things too.
const BURST: Duration = Duration::from_secs(90);
/// The same where calls were lost: whether one was done all the same is settled after a minute.
const TROUBLE: Duration = Duration::from_secs(180);
/// Until a pool that is well looks at Neutron again, and what it then finds is mended.
const AUDITED: Duration = Duration::from_secs(100);

/// An address that the network `public` never gives: it is outside its allocation range.
const MISSING: &str = "203.0.113.252";

/// A pool that the run's controller serves with the credentials of `demo`; ready. Returns its id in marks.
async fn served(ns: &Namespace, pool: PoolBuilder) -> String {
    ns.secret_for("demo").await;
    controller();
    ready(ns, pool).await
}

/// The same, by a wire of its own.
async fn served_by_wire(ns: &Namespace, pool: PoolBuilder) -> (String, Wire) {
    let wire = Wire::to("demo").await;
    ns.secret("cloud", &wire.clouds_yaml()).await;
    controller();
    (ready(ns, pool).await, wire)
}

/// Creates a pool and waits until it is ready.
async fn ready(ns: &Namespace, pool: PoolBuilder) -> String {
    let pool: Manifest = pool.into();
    let name = pool.name();
    ns.create(pool).await;
    ns.await_condition(Kind::Pool, &name, "Ready", "True", "Ready", BURST).await;
    pool_id(ns, &name).await
}

/// The pool's id in marks.
async fn pool_id(ns: &Namespace, pool: &str) -> String {
    let pool = ns.get(Kind::Pool, pool).await.expect("the pool is there");
    pool.annotations().get(POOL_ID).cloned().expect("a pool has an id before it serves")
}

/// The name that CAPO gives to a server's claim.
fn named(server: &str) -> String {
    format!("{server}-floating-ip-address")
}

/// Waits until the claim of a server is told that it waits for this reason; returns the message.
async fn waits(ns: &Namespace, server: &str, reason: &str) -> String {
    ns.await_condition(Kind::Claim, &named(server), "Ready", "False", reason, HEALS).await
}

/// Creates a claim that waits for this reason; returns the message.
async fn refused(ns: &Namespace, server: &str, reason: &str) -> String {
    ns.create(claim(server)).await;
    waits(ns, server, reason).await
}

/// Waits until the claim of a server is bound; returns the address.
async fn bound(ns: &Namespace, server: &str) -> String {
    ns.await_bound(&named(server), HEALS).await
}

/// Releases the claim of a server as CAPO does, and waits until it is gone.
async fn release(ns: &Namespace, server: &str) {
    ns.release(&named(server)).await;
    ns.await_gone(Kind::Claim, &named(server), HEALS).await;
    ns.await_gone(Kind::Address, &named(server), HEALS).await;
}

/// The floating IP of an address, as Neutron has it.
async fn seen(cloud: &Cloud, address: &str) -> FloatingIp {
    cloud.find(address).await.unwrap_or_else(|| panic!("{address} is not in Neutron"))
}

/// Waits until the floating IP of an address is as wanted.
async fn until(cloud: &Cloud, address: &str, what: &str, wanted: impl Fn(&FloatingIp) -> bool) -> FloatingIp {
    eventually(AUDITED, async || match cloud.find(address).await {
        Some(found) if wanted(&found) => Ok(found),
        found => Err(format!("{address} is not {what}: {found:?}")),
    })
    .await
}

/// Waits until the floating IP of an address is deleted.
async fn until_deleted(cloud: &Cloud, address: &str, within: Duration) {
    eventually(within, async || match cloud.find(address).await {
        None => Ok(()),
        Some(found) => Err(format!("{address} is still there: {found:?}")),
    })
    .await;
}

/// What carries a pool's mark in Neutron.
async fn marked(cloud: &Cloud, pool: &str) -> Vec<FloatingIp> {
    let mut all = cloud.floating_ips().await;
    all.retain(|fip| fip.description.contains(pool) || fip.tags.iter().any(|tag| tag.contains(pool)));
    all
}

/// Tags and description that are ours.
fn is_marked(fip: &FloatingIp) -> bool {
    fip.description.starts_with("caip-openstack ") || fip.tags.iter().any(|tag| tag.starts_with("caip"))
}

fn is_released(fip: &FloatingIp) -> bool {
    fip.tags.iter().any(|tag| tag.starts_with("caip-out."))
}

/// A count of a pool's status.
fn count(pool: &DynamicObject, which: &str) -> u64 {
    pool.data["status"]["addresses"][which].as_u64().unwrap_or_default()
}

/// Waits until a count of the pool `public` is this.
async fn await_count(ns: &Namespace, which: &str, wanted: u64) {
    let what = format!("{which} {wanted}");
    let is_so = |pool: Option<&DynamicObject>| pool.is_some_and(|pool| count(pool, which) == wanted);
    ns.await_object(Kind::Pool, "public", AUDITED, &what, is_so).await;
}

/// A Cluster as users have it; there is no infrastructure behind it.
fn cluster(name: &str, spec: Value) -> Manifest {
    let reference = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackCluster", "name": name});
    let mut body = json!({"metadata": {"name": name}, "spec": spec});
    body["spec"]["infrastructureRef"] = reference;
    Manifest::new(Kind::Cluster, body)
}

/// The addresses of all bound claims, by claim.
async fn addresses(ns: &Namespace) -> Vec<(String, String)> {
    let all = ns.list(Kind::Address).await;
    let address = |object: &DynamicObject| object.data["spec"]["address"].as_str().unwrap_or_default().to_owned();
    all.iter().map(|object| (object.name_any(), address(object))).collect()
}

/// Fails when any address is given twice.
fn assert_distinct(addresses: &[(String, String)]) {
    let distinct: BTreeSet<_> = addresses.iter().map(|(_, address)| address).collect();
    assert_eq!(distinct.len(), addresses.len(), "an address was given twice: {addresses:?}");
}

/// How many claims are bound.
async fn count_bound(ns: &Namespace) -> usize {
    let claims = ns.list(Kind::Claim).await;
    claims.iter().filter(|claim| claim.data["status"]["addressRef"]["name"].is_string()).count()
}

/// How many claims wait for this reason.
async fn count_waiting(ns: &Namespace, reason: &str) -> usize {
    let claims = ns.list(Kind::Claim).await;
    let waits = |claim: &&DynamicObject| condition_of(claim, "Ready").is_some_and(|ready| ready["reason"] == reason);
    claims.iter().filter(waits).count()
}

/// Waits until so many claims are bound.
async fn await_bound_count(ns: &Namespace, wanted: usize) {
    await_bound_count_within(BURST, ns, wanted).await;
}

/// The same, where it may take longer.
async fn await_bound_count_within(within: Duration, ns: &Namespace, wanted: usize) {
    eventually(within, async || match count_bound(ns).await {
        count if count == wanted => Ok(()),
        count => Err(format!("{count} of {wanted} claims are bound")),
    })
    .await;
}

/// Whether an object has a finalizer of ours.
fn is_protected(object: &DynamicObject) -> bool {
    object.finalizers().iter().any(|finalizer| finalizer.contains("openstackfloatingippool"))
}
