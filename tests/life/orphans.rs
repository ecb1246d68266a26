//! Orphans: floating IPs marked for a claim that does not exist or has another address.

use super::*;
use crate::support::{pool, unique, with_namespace};

/// Creates a floating IP with the mark of an unknown claim, as the loss of etcd leaves it.
pub(super) async fn create_orphan(ns: &Namespace, id: &str) -> FloatingIp {
    // A nonce that exists twice would be a copied mark.
    let nonce = unique("n").replace('-', "0");
    let mark = format!("caip-openstack pool={id} nonce={nonce} claim=aaaabbbbccccdddd (claim lost in lost)");
    ns.cloud().await.create("public", &mark).await
}

pub(super) fn pool_with_orphan_policy(policy: &str) -> PoolBuilder {
    let orphans = json!({"policy": policy, "graceSeconds": 5});
    pool("public").list([MISSING]).network("public").with("orphans", orphans)
}

/// Waits for two more listings: the controller has acted on the first of them before the second.
async fn await_two_listings(proxy: &OpenStackProxy) {
    proxy.forget_calls();
    eventually(RESYNC, async || match proxy.count("GET floatingips") {
        0..2 => Err("there were no two listings"),
        _ => Ok(()),
    })
    .await;
}

#[tokio::test]
async fn orphan_is_reported_at_first_and_released_when_seen_again() {
    with_namespace(async |ns| {
        let id = create_served_pool(ns, pool_with_orphan_policy("Release")).await;
        let kept = ns.bind(claim("web-0")).await;
        let lost = create_orphan(ns, &id).await;
        let said = ns.await_condition(Kind::Pool, "public", "OrphansDetected", "True", "OrphansFound", RESYNC).await;
        assert!(said.contains(&lost.address) && !said.contains(&kept), "{said}");
        await_floating_ip_deleted(ns.cloud().await, &lost.address, RESYNC).await;
        ns.await_condition(Kind::Pool, "public", "OrphansDetected", "False", "NoOrphans", RECOVERY).await;
        assert!(ns.cloud().await.find(&kept).await.is_some());
    })
    .await;
}

#[tokio::test]
async fn orphan_is_only_reported_with_the_policy_report() {
    with_namespace(async |ns| {
        let (id, proxy) = create_served_pool_behind_proxy(ns, pool_with_orphan_policy("Report")).await;
        let lost = create_orphan(ns, &id).await;
        ns.await_condition(Kind::Pool, "public", "OrphansDetected", "True", "OrphansFound", RESYNC).await;
        await_two_listings(&proxy).await;
        assert_eq!(floating_ip_of(ns.cloud().await, &lost.address).await, lost);
        assert_eq!(proxy.writes(), [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn attached_orphan_is_not_released() {
    with_namespace(async |ns| {
        let (id, proxy) = create_served_pool_behind_proxy(ns, pool_with_orphan_policy("Release")).await;
        let cloud = ns.cloud().await;
        let port = cloud.port("private").await;
        let lost = create_orphan(ns, &id).await;
        cloud.attach(&lost.id, &port).await;
        ns.await_condition(Kind::Pool, "public", "OrphansDetected", "True", "OrphansFound", RESYNC).await;
        await_two_listings(&proxy).await;
        assert_eq!(proxy.writes(), [""; 0]);
        cloud.detach(&lost.id).await;
        await_floating_ip_deleted(cloud, &lost.address, RESYNC).await;
    })
    .await;
}
