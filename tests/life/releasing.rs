//! Claims that go, and what becomes of their addresses.

use kube::api::DeleteParams;
use tokio::time::Instant;

use super::*;
use crate::support::{SOON, pool, unique, with_namespace};

#[tokio::test]
async fn address_stays_while_the_machine_is_there_and_goes_with_it() {
    with_namespace(async |ns| {
        served(ns, pool("public").network("public")).await;
        let cloud = ns.cloud().await;
        let address = ns.bind(claim("web-0")).await;
        let before = seen(cloud, &address).await;
        ns.delete(Kind::Claim, &named("web-0")).await;
        // A whole other life in the same pool: time enough to do wrong.
        ns.bind(claim("web-1")).await;
        release(ns, "web-1").await;
        assert_eq!(seen(cloud, &address).await, before);
        let kept = ns.get(Kind::Address, &named("web-0")).await.expect("it stays");
        assert!(kept.metadata.deletion_timestamp.is_none() && is_protected(&kept));

        ns.let_go(&named("web-0")).await;
        ns.await_gone(Kind::Claim, &named("web-0"), SOON).await;
        ns.await_gone(Kind::Address, &named("web-0"), SOON).await;
        until_deleted(cloud, &address, HEALS).await;
    })
    .await;
}

#[tokio::test]
async fn new_address_costs_two_writes_to_release() {
    with_namespace(async |ns| {
        let (_, wire) = served_by_wire(ns, pool("public").network("public")).await;
        let address = ns.bind(claim("web-0")).await;
        wire.forget();
        release(ns, "web-0").await;
        until_deleted(ns.cloud().await, &address, HEALS).await;
        assert_eq!(wire.writes(), ["PUT floatingips/ID/tags/TAG", "DELETE floatingips/ID"]);
    })
    .await;
}

#[tokio::test]
async fn retained_address_is_the_pools_and_serves_the_next_claim() {
    with_namespace(async |ns| {
        let (id, wire) = served_by_wire(ns, pool("public").network("public").reclaim("Retain")).await;
        let cloud = ns.cloud().await;
        let address = ns.bind(claim("web-0")).await;
        release(ns, "web-0").await;
        let is_idle = |fip: &FloatingIp| fip.tags.is_empty() && !fip.description.contains("claim");
        let idle = until(cloud, &address, "kept for the pool", is_idle).await;
        assert!(idle.description.contains(&id), "{idle:?}");
        wire.forget();
        assert_eq!(ns.bind(claim("web-1")).await, address);
        assert_eq!(wire.writes(), ["PUT floatingips/ID"]);
        // The pool goes, the address stays: it is the project's again.
        release(ns, "web-1").await;
        ns.delete(Kind::Pool, "public").await;
        ns.await_gone(Kind::Pool, "public", HEALS).await;
        let left = seen(cloud, &address).await;
        assert!(left.description.is_empty() && left.tags.is_empty(), "{left:?}");
        cloud.delete(&left.id).await;
    })
    .await;
}

#[tokio::test]
async fn released_address_with_a_port_is_deleted_when_the_port_is_gone() {
    with_namespace(async |ns| {
        served(ns, pool("public").network("public")).await;
        let cloud = ns.cloud().await;
        let address = ns.bind(claim("web-0")).await;
        let port = cloud.port("private").await;
        cloud.attach(&seen(cloud, &address).await.id, &port).await;
        release(ns, "web-0").await;
        until(cloud, &address, "tagged for release", is_released).await;
        // Another one is released and deleted meanwhile.
        let other = ns.bind(claim("web-1")).await;
        assert_ne!(other, address);
        release(ns, "web-1").await;
        until_deleted(cloud, &other, HEALS).await;
        assert_eq!(seen(cloud, &address).await.port.as_ref(), Some(&port));
        cloud.delete_port(&port).await;
        until_deleted(cloud, &address, HEALS).await;
    })
    .await;
}

#[tokio::test]
async fn foreground_deletion_is_not_waited_for() {
    with_namespace(async |ns| {
        served(ns, pool("public").network("public")).await;
        let address = ns.bind(claim("web-0").unheld()).await;
        let foreground = DeleteParams::foreground();
        ns.api(Kind::Claim).delete(&named("web-0"), &foreground).await.expect("it can be deleted");
        ns.await_gone(Kind::Claim, &named("web-0"), SOON).await;
        until_deleted(ns.cloud().await, &address, HEALS).await;
    })
    .await;
}

#[tokio::test]
async fn released_address_rests_for_its_grace_period() {
    with_namespace(async |ns| {
        let resting = pool("public").network("public").max_ips(1).with("reuseGracePeriodSeconds", 6);
        served(ns, resting).await;
        let address = ns.bind(claim("web-0")).await;
        refused(ns, "web-1", "PoolExhausted").await;
        let released = Instant::now();
        release(ns, "web-0").await;
        assert_eq!(bound(ns, "web-1").await, address, "the one that waits takes it directly");
        // Neutron's tag has whole seconds.
        assert!(released.elapsed() >= Duration::from_secs(5), "it rested for {:?}", released.elapsed());
    })
    .await;
}

#[tokio::test]
async fn reused_address_keeps_what_others_wrote_on_it() {
    with_namespace(async |ns| {
        let cloud = ns.cloud().await;
        let tag = unique("for");
        let mine = ns.floating_ip("public").await;
        cloud.tag(&mine.id, &tag).await;
        served(ns, pool("public").network("public").reuse_tagged(&[&tag])).await;
        assert_eq!(ns.bind(claim("web-0")).await, mine.address);
        let while_bound = "written-while-bound";
        cloud.tag(&mine.id, while_bound).await;
        release(ns, "web-0").await;
        let after = until(cloud, &mine.address, "unmarked", |found| !is_marked(found)).await;
        assert_eq!(after.tags, [tag, while_bound.to_owned()].into());
    })
    .await;
}
