//! Claims that are deleted, and what happens to their addresses.

use std::time::Duration;

use kube::api::DeleteParams;
use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::support::{Fault, SOON, eventually, pool, unique, with_namespace};

#[tokio::test]
async fn address_is_kept_until_its_machine_is_gone() {
    with_namespace(async |ns| {
        create_served_pool(ns, pool("public").network("public")).await;
        let cloud = ns.cloud().await;
        let address = ns.bind(claim("web-0")).await;
        let before = floating_ip_of(cloud, &address).await;
        ns.delete(Kind::Claim, &claim_name("web-0")).await;
        // What the controller would do wrongly, it has done when another claim was bound and released.
        ns.bind(claim("web-1")).await;
        release_claim(ns, "web-1").await;
        assert_eq!(floating_ip_of(cloud, &address).await, before);
        let kept = ns.get(Kind::Address, &claim_name("web-0")).await.expect("it stays");
        assert!(kept.metadata.deletion_timestamp.is_none() && is_protected(&kept));

        ns.remove_capo_finalizer(&claim_name("web-0")).await;
        ns.await_gone(Kind::Claim, &claim_name("web-0"), SOON).await;
        ns.await_gone(Kind::Address, &claim_name("web-0"), SOON).await;
        await_floating_ip_deleted(cloud, &address, RECOVERY).await;
    })
    .await;
}

#[tokio::test]
async fn releasing_a_created_address_takes_two_writes() {
    with_namespace(async |ns| {
        let (_, proxy) = create_served_pool_behind_proxy(ns, pool("public").network("public")).await;
        let address = ns.bind(claim("web-0")).await;
        proxy.forget_calls();
        release_claim(ns, "web-0").await;
        await_floating_ip_deleted(ns.cloud().await, &address, RECOVERY).await;
        assert_eq!(proxy.writes(), ["PUT floatingips/ID/tags/TAG", "DELETE floatingips/ID"]);
    })
    .await;
}

#[tokio::test]
async fn retained_address_stays_with_its_pool_and_serves_the_next_claim() {
    with_namespace(async |ns| {
        let (id, proxy) = create_served_pool_behind_proxy(ns, pool("public").network("public").reclaim("Retain")).await;
        let cloud = ns.cloud().await;
        let address = ns.bind(claim("web-0")).await;
        release_claim(ns, "web-0").await;
        let is_idle = |fip: &FloatingIp| fip.tags.is_empty() && !fip.description.contains("claim");
        let idle = await_floating_ip(cloud, &address, "kept for the pool", is_idle).await;
        assert!(idle.description.contains(&id), "{idle:?}");
        proxy.forget_calls();
        assert_eq!(ns.bind(claim("web-1")).await, address);
        assert_eq!(proxy.writes(), ["PUT floatingips/ID"]);
        // The pool is deleted, the address is kept without marks.
        release_claim(ns, "web-1").await;
        delete_pool(ns, "public").await;
        let left = floating_ip_of(cloud, &address).await;
        assert!(left.description.is_empty() && left.tags.is_empty(), "{left:?}");
        cloud.delete(&left.id).await;
    })
    .await;
}

#[tokio::test]
async fn released_address_with_a_port_is_deleted_after_the_port() {
    with_namespace(async |ns| {
        create_served_pool(ns, pool("public").network("public")).await;
        let cloud = ns.cloud().await;
        let address = ns.bind(claim("web-0")).await;
        let port = cloud.port("private").await;
        cloud.attach(&floating_ip_of(cloud, &address).await.id, &port).await;
        release_claim(ns, "web-0").await;
        await_floating_ip(cloud, &address, "tagged for release", is_released).await;
        // Another one is released and deleted meanwhile.
        let other = ns.bind(claim("web-1")).await;
        assert_ne!(other, address);
        release_claim(ns, "web-1").await;
        await_floating_ip_deleted(cloud, &other, RECOVERY).await;
        assert_eq!(floating_ip_of(cloud, &address).await.port.as_ref(), Some(&port));
        cloud.delete_port(&port).await;
        await_floating_ip_deleted(cloud, &address, RECOVERY).await;
    })
    .await;
}

/// CAPO deletes the port, and then releases the claim at once.
#[tokio::test]
async fn address_whose_port_was_just_deleted_is_deleted_within_two_seconds() {
    with_namespace(async |ns| {
        create_served_pool(ns, pool("public").network("public")).await;
        let cloud = ns.cloud().await;
        let address = ns.bind(claim("web-0")).await;
        let port = cloud.port("private").await;
        cloud.attach(&floating_ip_of(cloud, &address).await.id, &port).await;
        // The release of another one makes the controller list both.
        let other = ns.bind(claim("web-1")).await;
        release_claim(ns, "web-1").await;
        await_floating_ip_deleted(cloud, &other, RECOVERY).await;
        cloud.delete_port(&port).await;
        release_claim(ns, "web-0").await;
        await_floating_ip_deleted(cloud, &address, Duration::from_secs(2)).await;
    })
    .await;
}

#[tokio::test]
async fn claim_is_released_when_it_is_deleted_in_the_foreground() {
    with_namespace(async |ns| {
        create_served_pool(ns, pool("public").network("public")).await;
        let address = ns.bind(claim("web-0").without_capo_finalizer()).await;
        let foreground = DeleteParams::foreground();
        ns.api(Kind::Claim).delete(&claim_name("web-0"), &foreground).await.expect("it can be deleted");
        ns.await_gone(Kind::Claim, &claim_name("web-0"), SOON).await;
        await_floating_ip_deleted(ns.cloud().await, &address, RECOVERY).await;
    })
    .await;
}

#[tokio::test]
async fn released_address_is_not_reused_before_its_grace_period_ends() {
    with_namespace(async |ns| {
        let with_grace = pool("public").network("public").max_ips(1).with("reuseGracePeriodSeconds", 6);
        create_served_pool(ns, with_grace).await;
        let address = ns.bind(claim("web-0")).await;
        create_waiting_claim(ns, "web-1", "PoolExhausted").await;
        let released = Instant::now();
        release_claim(ns, "web-0").await;
        assert_eq!(await_bound(ns, "web-1").await, address, "the waiting claim gets it");
        // The time in the tag is in whole seconds.
        assert!(released.elapsed() >= Duration::from_secs(5), "it was reused after {:?}", released.elapsed());
    })
    .await;
}

#[tokio::test]
async fn released_address_is_not_deleted_once_its_claim_has_taken_it_back() {
    with_namespace(async |ns| {
        let with_grace = pool("public").network("public").with("reuseGracePeriodSeconds", 10);
        let (_, proxy) = create_served_pool_behind_proxy(ns, with_grace).await;
        let address = ns.bind(claim("web-0")).await;
        // As if another process of the controller had removed the release.
        proxy.set_faults([Fault::edited("GET floatingips/ID", |body| body["floatingip"]["tags"] = json!([]))]);
        proxy.forget_calls();
        release_claim(ns, "web-0").await;
        let is_read = async || if proxy.count("GET floatingips/ID") > 0 { Ok(()) } else { Err("it is not read again") };
        eventually(RECOVERY, is_read).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(proxy.count("DELETE floatingips/ID"), 0);
        proxy.remove_faults();
        await_floating_ip_deleted(ns.cloud().await, &address, RESYNC).await;
    })
    .await;
}

#[tokio::test]
async fn reused_address_keeps_tags_of_others() {
    with_namespace(async |ns| {
        let cloud = ns.cloud().await;
        let tag = unique("for");
        let mine = ns.create_floating_ip("public").await;
        cloud.tag(&mine.id, &tag).await;
        create_served_pool(ns, pool("public").network("public").reuse_tagged(&[&tag])).await;
        assert_eq!(ns.bind(claim("web-0")).await, mine.address);
        let while_bound = "written-while-bound";
        cloud.tag(&mine.id, while_bound).await;
        release_claim(ns, "web-0").await;
        let after = await_unmarked(cloud, &mine.address).await;
        assert_eq!(after.tags, [tag, while_bound.to_owned()].into());
    })
    .await;
}

#[tokio::test]
async fn address_that_gets_a_port_during_its_grace_period_is_not_deleted_before_the_port() {
    with_namespace(async |ns| {
        let with_grace = pool("public").network("public").with("reuseGracePeriodSeconds", 20);
        let (_, proxy) = create_served_pool_behind_proxy(ns, with_grace).await;
        let cloud = ns.cloud().await;
        let address = ns.bind(claim("web-0")).await;
        let (id, port) = (floating_ip_of(cloud, &address).await.id, cloud.port("private").await);
        proxy.forget_calls();
        release_claim(ns, "web-0").await;
        let is_listed = async || if proxy.count("GET floatingips") > 0 { Ok(()) } else { Err("it is not listed") };
        eventually(RECOVERY, is_listed).await;
        // The listing has been answered then. The next one comes long after the grace period.
        tokio::time::sleep(Duration::from_secs(2)).await;
        cloud.attach(&id, &port).await;
        // The grace period ends.
        eventually(RECOVERY, async || match proxy.count("GET floatingips/ID") + proxy.count("DELETE floatingips/ID") {
            0 => Err("it is neither read again nor deleted"),
            _ => Ok(()),
        })
        .await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(proxy.count("DELETE floatingips/ID"), 0);
        assert_eq!(floating_ip_of(cloud, &address).await.port.as_ref(), Some(&port));
        cloud.delete_port(&port).await;
        await_floating_ip_deleted(cloud, &address, RESYNC).await;
    })
    .await;
}

/// The time in the tag is the last one that a timestamp can have: no grace period can be added to it.
#[tokio::test]
async fn address_whose_release_is_said_to_be_at_the_end_of_time_is_deleted_after_its_grace_period() {
    with_namespace(async |ns| {
        create_served_pool(ns, pool("public").network("public").with("reuseGracePeriodSeconds", 30)).await;
        let cloud = ns.cloud().await;
        let address = ns.bind(claim("web-0")).await;
        release_claim(ns, "web-0").await;
        let released = await_floating_ip(cloud, &address, "tagged as released", is_released).await;
        let tag = released.tags.iter().find(|tag| tag.starts_with("caip-out.")).expect("it is released");
        let (owner, _) = tag.rsplit_once('.').expect("the time is its last part");
        cloud.replace_tags(&released.id, &format!("{owner}.3afff2d3e0")).await;
        await_floating_ip_deleted(cloud, &address, RESYNC).await;
        bind_and_release_in(ns, "public").await;
    })
    .await;
}

#[tokio::test]
async fn address_that_an_abandoned_claim_was_getting_is_given_to_the_next_claim() {
    with_namespace(async |ns| {
        let listed = ns.create_floating_ip("public").await;
        let (_, proxy) = create_served_pool_behind_proxy(ns, pool("public").list([&listed.address])).await;
        proxy.set_faults([Fault::page("PUT floatingips/ID/tags/TAG", 504)]);
        create_waiting_claim(ns, "web-0", "AllocationFailed").await;
        proxy.fail_everything();
        ns.release(&claim_name("web-0")).await;
        await_waiting(ns, "web-0", "ReleaseFailed").await;
        abandon(ns, Kind::Claim, &claim_name("web-0")).await;
        ns.await_gone(Kind::Claim, &claim_name("web-0"), RECOVERY).await;
        proxy.remove_faults();
        assert_eq!(ns.bind_within(claim("web-1"), AFTER_LOST_CALLS).await, listed.address);
    })
    .await;
}

#[tokio::test]
async fn new_process_releases_an_address_although_the_network_of_its_pool_is_not_found() {
    with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        ns.restart_controller();
        create_ready_pool(ns, pool("public").network("public").served_in(&ns.name)).await;
        let address = ns.bind(claim("web-0")).await;
        // As if an administrator had renamed the network.
        let network = json!({"filter": {"name": "renamed"}});
        ns.patch(Kind::Pool, "public", json!({"spec": {"floatingIPNetwork": network}})).await;
        ns.await_condition(Kind::Pool, "public", "Ready", "False", "NetworkNotFound", SOON).await;
        ns.restart_controller();
        ns.release(&claim_name("web-0")).await;
        // A new process waits for the calls of the one before.
        ns.await_gone(Kind::Claim, &claim_name("web-0"), BURST).await;
        await_floating_ip_deleted(ns.cloud().await, &address, RESYNC).await;
    })
    .await;
}
