//! Addresses that carry a pool's mark and belong to no claim.

use super::*;
use crate::support::{pool, unique, with_namespace};

/// A floating IP with the mark of a claim that nobody knows, as a lost etcd leaves it.
async fn orphan(ns: &Namespace, id: &str) -> FloatingIp {
    // A nonce that is seen twice would be a copied mark.
    let nonce = unique("n").replace('-', "0");
    let mark = format!("caip-openstack pool={id} nonce={nonce} claim=aaaabbbbccccdddd (claim lost in lost)");
    ns.cloud().await.create("public", &mark).await
}

/// What is missing makes the pool look at Neutron more often than once a minute.
fn watchful(policy: &str) -> PoolBuilder {
    let orphans = json!({"policy": policy, "graceSeconds": 5});
    pool("public").list([MISSING]).network("public").with("orphans", orphans)
}

#[tokio::test]
async fn orphan_is_reported_and_released_at_the_second_sight() {
    with_namespace(async |ns| {
        let id = served(ns, watchful("Release")).await;
        let kept = ns.bind(claim("web-0")).await;
        let lost = orphan(ns, &id).await;
        let said = ns.await_condition(Kind::Pool, "public", "OrphansDetected", "True", "OrphansFound", AUDITED).await;
        assert!(said.contains(&lost.address) && !said.contains(&kept), "{said}");
        until_deleted(ns.cloud().await, &lost.address, AUDITED).await;
        ns.await_condition(Kind::Pool, "public", "OrphansDetected", "False", "NoOrphans", HEALS).await;
        assert!(ns.cloud().await.find(&kept).await.is_some());
    })
    .await;
}

#[tokio::test]
async fn orphan_is_only_reported_where_the_policy_says_so() {
    with_namespace(async |ns| {
        let (id, wire) = served_by_wire(ns, watchful("Report")).await;
        let lost = orphan(ns, &id).await;
        ns.await_condition(Kind::Pool, "public", "OrphansDetected", "True", "OrphansFound", AUDITED).await;
        wire.forget();
        eventually(AUDITED, async || match wire.count("GET floatingips") {
            0..3 => Err("it was not seen often enough"),
            _ => Ok(()),
        })
        .await;
        assert_eq!(seen(ns.cloud().await, &lost.address).await, lost);
        assert_eq!(wire.writes(), [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn orphan_with_a_port_is_left_to_a_person() {
    with_namespace(async |ns| {
        let (id, wire) = served_by_wire(ns, watchful("Release")).await;
        let cloud = ns.cloud().await;
        let port = cloud.port("private").await;
        let lost = orphan(ns, &id).await;
        cloud.attach(&lost.id, &port).await;
        ns.await_condition(Kind::Pool, "public", "OrphansDetected", "True", "OrphansFound", AUDITED).await;
        wire.forget();
        eventually(AUDITED, async || match wire.count("GET floatingips") {
            0..3 => Err("it was not seen often enough"),
            _ => Ok(()),
        })
        .await;
        assert_eq!(wire.writes(), [""; 0]);
        cloud.detach(&lost.id).await;
        until_deleted(cloud, &lost.address, AUDITED).await;
    })
    .await;
}
