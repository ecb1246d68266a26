//! Predefined addresses, and reservations.

use super::*;
use crate::support::{Controller, pool, unique, with_namespace};

#[tokio::test]
async fn listed_addresses_are_given_in_the_order_of_the_list_and_keep_their_description() {
    with_namespace(async |ns| {
        let cloud = ns.cloud().await;
        let first = cloud.create("public", "the shop's address").await;
        let second = ns.floating_ip("public").await;
        let mut listed = [&first.address, &second.address];
        // Not the order of the addresses, which would come about by itself.
        listed.sort();
        listed.reverse();
        let id = served(ns, pool("public").list(listed)).await;
        assert_eq!(ns.bind(claim("web-0")).await, *listed[0]);
        assert_eq!(ns.bind(claim("web-1")).await, *listed[1]);
        for (server, address) in [("web-0", listed[0]), ("web-1", listed[1])] {
            let found = seen(cloud, address).await;
            assert!(found.tags.len() == 1 && found.tags.iter().all(|tag| tag.starts_with(&format!("caip.{id}."))));
            release(ns, server).await;
        }
        for before in [&first, &second] {
            let after = until(cloud, &before.address, "unmarked", |found| !is_marked(found)).await;
            assert_eq!(after, *before);
        }
    })
    .await;
}

#[tokio::test]
async fn claim_waits_for_a_list_that_is_used_up_and_is_served_by_a_release() {
    with_namespace(async |ns| {
        let only = ns.floating_ip("public").await;
        served(ns, pool("public").list([&only.address])).await;
        ns.bind(claim("web-0")).await;
        let message = refused(ns, "web-1", "PoolExhausted").await;
        assert!(message.contains("spec.preAllocatedFloatingIPs") && message.contains("add addresses"), "{message}");
        ns.await_condition(Kind::Pool, "public", "Exhausted", "True", "Exhausted", HEALS).await;
        ns.await_condition(Kind::Pool, "public", "Ready", "True", "Ready", HEALS).await;
        release(ns, "web-0").await;
        assert_eq!(bound(ns, "web-1").await, only.address);
    })
    .await;
}

#[tokio::test]
async fn listed_addresses_that_cannot_be_given_are_passed_over_and_named() {
    with_namespace(async |ns| {
        let cloud = ns.cloud().await;
        let (attached, foreign) = (ns.floating_ip("public").await, ns.floating_ip("public").await);
        let good = ns.floating_ip("public").await;
        cloud.attach(&attached.id, &cloud.port("private").await).await;
        cloud.tag(&foreign.id, "caip.somebodyelse.aaaaaaaaaaaaaaaa").await;
        let listed = [MISSING, &attached.address, &foreign.address, &good.address];
        served(ns, pool("public").list(listed)).await;
        assert_eq!(ns.bind(claim("web-0")).await, good.address);
        await_count(ns, "failed", 3).await;
        let public = ns.get(Kind::Pool, "public").await.expect("it is there");
        for (address, why) in
            [(MISSING, "create it"), (&attached.address, "detach it"), (&foreign.address, "remove that mark")]
        {
            let failed = public.data["status"]["failed"].as_array().into_iter().flatten();
            let reason = failed.filter(|failed| failed["address"] == address).map(|failed| &failed["reason"]).next();
            let reason = reason.and_then(Value::as_str).unwrap_or_default();
            assert!(reason.contains(why), "{address}: {:?}", public.data["status"]["failed"]);
        }
        ns.await_condition(Kind::Pool, "public", "Ready", "True", "Ready", HEALS).await;
        // Mended, it is given.
        ns.create(claim("web-1")).await;
        cloud.detach(&attached.id).await;
        assert_eq!(bound(ns, "web-1").await, attached.address);
    })
    .await;
}

#[tokio::test]
async fn address_that_two_pools_list_is_never_given_twice() {
    with_namespace(async |ns| two_pools_one_list(ns, pool("two")).await).await;
}

#[tokio::test]
async fn address_that_pools_of_two_controllers_list_is_never_given_twice() {
    with_namespace(async |ns| {
        let filter = unique("filter");
        let _second = Controller::start(&[&format!("--watch-filter={filter}")]);
        two_pools_one_list(ns, pool("two").label("cluster.x-k8s.io/watch-filter", &filter)).await;
        // While the second controller still runs, which releases what it holds.
        for server in (0..6).map(|number| format!("two-{number}")) {
            ns.release(&named(&server)).await;
        }
        for server in (0..6).map(|number| format!("two-{number}")) {
            ns.await_gone(Kind::Claim, &named(&server), HEALS).await;
        }
        ns.delete(Kind::Pool, "two").await;
        ns.await_gone(Kind::Pool, "two", HEALS).await;
    })
    .await;
}

async fn two_pools_one_list(ns: &Namespace, two: PoolBuilder) {
    let cloud = ns.cloud().await;
    let mut listed = Vec::new();
    for _ in 0..6 {
        listed.push(cloud.create("public", "").await.address);
    }
    served(ns, pool("one").list(listed.clone())).await;
    ready(ns, two.list(listed.clone())).await;
    let claims =
        (0..6).flat_map(|number| ["one", "two"].map(|pool| ns.create(claim(&format!("{pool}-{number}")).from(pool))));
    futures::future::join_all(claims).await;
    eventually(BURST, async || match (count_bound(ns).await, count_waiting(ns, "PoolExhausted").await) {
        (6, 6) => Ok(()),
        counts => Err(format!("of 12 claims for 6 addresses, (bound, exhausted) are {counts:?}")),
    })
    .await;
    let given = addresses(ns).await;
    assert_distinct(&given);
    for address in &listed {
        let tags = seen(cloud, address).await.tags;
        assert_eq!(tags.len(), 1, "{address}: {tags:?}");
    }
}

#[tokio::test]
async fn list_comes_before_the_network() {
    with_namespace(async |ns| {
        let listed = ns.floating_ip("public").await;
        let id = served(ns, pool("public").list([&listed.address]).network("public")).await;
        assert_eq!(ns.bind(claim("web-0")).await, listed.address);
        let made = ns.bind(claim("web-1")).await;
        assert!(seen(ns.cloud().await, &made).await.description.contains(&id));
    })
    .await;
}

#[tokio::test]
async fn reserved_address_is_for_its_claim_alone() {
    with_namespace(async |ns| {
        let (reserved, free) = (ns.floating_ip("public").await, ns.floating_ip("public").await);
        let listed = [&reserved.address, &free.address];
        served(ns, pool("public").list(listed).reserve(&named("db-0"), &reserved.address)).await;
        assert_eq!(ns.bind(claim("web-0")).await, free.address);
        refused(ns, "web-1", "PoolExhausted").await;
        assert_eq!(ns.bind(claim("db-0")).await, reserved.address);
        waits(ns, "web-1", "PoolExhausted").await;
    })
    .await;
}

#[tokio::test]
async fn claim_waits_for_its_reservation_while_something_is_on_it() {
    with_namespace(async |ns| {
        let cloud = ns.cloud().await;
        let (reserved, free) = (ns.floating_ip("public").await, ns.floating_ip("public").await);
        let port = cloud.port("private").await;
        cloud.attach(&reserved.id, &port).await;
        let listed = [&reserved.address, &free.address];
        served(ns, pool("public").list(listed).reserve(&named("db-0"), &reserved.address)).await;
        let message = refused(ns, "db-0", "PoolExhausted").await;
        assert!(message.contains(&reserved.address) && message.contains("is in use"), "{message}");
        assert_eq!(ns.bind(claim("web-0")).await, free.address, "others are served meanwhile");
        cloud.delete_port(&port).await;
        assert_eq!(bound(ns, "db-0").await, reserved.address);
    })
    .await;
}
