//! Predefined addresses, and reservations.

use super::*;
use crate::support::{pool, with_namespace};

#[tokio::test]
async fn predefined_addresses_are_given_in_list_order_and_keep_their_description() {
    with_namespace(async |ns| {
        let cloud = ns.cloud().await;
        let first = cloud.create("public", "the shop's address").await;
        let second = ns.create_floating_ip("public").await;
        let mut listed = [&first.address, &second.address];
        // Not in the order of the addresses, which would be the natural one.
        listed.sort();
        listed.reverse();
        let id = create_served_pool(ns, pool("public").list(listed)).await;
        assert_eq!(ns.bind(claim("web-0")).await, *listed[0]);
        assert_eq!(ns.bind(claim("web-1")).await, *listed[1]);
        for (server, address) in [("web-0", listed[0]), ("web-1", listed[1])] {
            let found = floating_ip_of(cloud, address).await;
            assert!(found.tags.len() == 1 && found.tags.iter().all(|tag| tag.starts_with(&format!("caip.{id}."))));
            release_claim(ns, server).await;
        }
        for before in [&first, &second] {
            let after = await_unmarked(cloud, &before.address).await;
            assert_eq!(after, *before);
        }
    })
    .await;
}

#[tokio::test]
async fn claim_waits_for_an_exhausted_list_and_gets_the_next_released_address() {
    with_namespace(async |ns| {
        let only = ns.create_floating_ip("public").await;
        create_served_pool(ns, pool("public").list([&only.address])).await;
        ns.bind(claim("web-0")).await;
        let message = create_waiting_claim(ns, "web-1", "PoolExhausted").await;
        assert!(message.contains("spec.preAllocatedFloatingIPs") && message.contains("add addresses"), "{message}");
        ns.await_condition(Kind::Pool, "public", "Exhausted", "True", "Exhausted", RECOVERY).await;
        ns.await_condition(Kind::Pool, "public", "Ready", "True", "Ready", RECOVERY).await;
        release_claim(ns, "web-0").await;
        assert_eq!(await_bound(ns, "web-1").await, only.address);
    })
    .await;
}

#[tokio::test]
async fn unusable_predefined_addresses_are_skipped_and_reported() {
    with_namespace(async |ns| {
        let cloud = ns.cloud().await;
        let (attached, foreign) = (ns.create_floating_ip("public").await, ns.create_floating_ip("public").await);
        let good = ns.create_floating_ip("public").await;
        cloud.attach(&attached.id, &cloud.port("private").await).await;
        cloud.tag(&foreign.id, "caip.another.aaaaaaaaaaaaaaaa").await;
        let listed = [MISSING, &attached.address, &foreign.address, &good.address];
        create_served_pool(ns, pool("public").list(listed)).await;
        assert_eq!(ns.bind(claim("web-0")).await, good.address);
        await_address_count(ns, "failed", 3).await;
        let public = ns.get(Kind::Pool, "public").await.expect("it is there");
        for (address, reason, remedy) in [
            (MISSING, "NotFound", "create it"),
            (&attached.address, "Attached", "detach it"),
            (&foreign.address, "MarkedByOther", "remove that mark"),
        ] {
            let mut failed = public.data["status"]["failed"].as_array().into_iter().flatten();
            let failed = failed.find(|failed| failed["address"] == address).expect("it is reported");
            assert_eq!(failed["reason"], reason, "{address}");
            assert!(failed["message"].as_str().is_some_and(|message| message.contains(remedy)), "{failed}");
        }
        ns.await_condition(Kind::Pool, "public", "Ready", "True", "Ready", RECOVERY).await;
        ns.create(claim("web-1")).await;
        cloud.detach(&attached.id).await;
        assert_eq!(await_bound(ns, "web-1").await, attached.address);
    })
    .await;
}

#[tokio::test]
async fn address_listed_by_two_pools_is_never_given_twice() {
    with_namespace(async |ns| two_pools_with_one_list(ns, pool("two")).await).await;
}

#[tokio::test]
async fn address_listed_by_pools_of_two_controllers_is_never_given_twice() {
    with_namespace(async |ns| {
        ns.restart_controller();
        two_pools_with_one_list(ns, pool("two").served_in(&ns.name)).await;
    })
    .await;
}

async fn two_pools_with_one_list(ns: &Namespace, two: PoolBuilder) {
    let cloud = ns.cloud().await;
    let mut listed = Vec::new();
    for _ in 0..6 {
        listed.push(cloud.create("public", "").await.address);
    }
    create_served_pool(ns, pool("one").list(listed.clone())).await;
    create_ready_pool(ns, two.list(listed.clone())).await;
    let claims =
        (0..6).flat_map(|number| ["one", "two"].map(|pool| ns.create(claim(&format!("{pool}-{number}")).from(pool))));
    join_all(claims).await;
    eventually(BURST, async || match (count_bound(ns).await, count_waiting(ns, "PoolExhausted").await) {
        (6, 6) => Ok(()),
        counts => Err(format!("of 12 claims for 6 addresses, (bound, exhausted) are {counts:?}")),
    })
    .await;
    let given = bound_addresses(ns).await;
    assert_distinct(&given);
    for address in &listed {
        let tags = floating_ip_of(cloud, address).await.tags;
        assert_eq!(tags.len(), 1, "{address}: {tags:?}");
    }
}

#[tokio::test]
async fn predefined_addresses_are_given_before_new_ones() {
    with_namespace(async |ns| {
        let listed = ns.create_floating_ip("public").await;
        let id = create_served_pool(ns, pool("public").list([&listed.address]).network("public")).await;
        assert_eq!(ns.bind(claim("web-0")).await, listed.address);
        let made = ns.bind(claim("web-1")).await;
        assert!(floating_ip_of(ns.cloud().await, &made).await.description.contains(&id));
    })
    .await;
}

#[tokio::test]
async fn reserved_address_is_given_only_to_its_claim() {
    with_namespace(async |ns| {
        let (reserved, free) = (ns.create_floating_ip("public").await, ns.create_floating_ip("public").await);
        let listed = [&reserved.address, &free.address];
        create_served_pool(ns, pool("public").list(listed).reserve(&claim_name("db-0"), &reserved.address)).await;
        assert_eq!(ns.bind(claim("web-0")).await, free.address);
        create_waiting_claim(ns, "web-1", "PoolExhausted").await;
        assert_eq!(ns.bind(claim("db-0")).await, reserved.address);
        await_waiting(ns, "web-1", "PoolExhausted").await;
    })
    .await;
}

#[tokio::test]
async fn claim_waits_while_its_reserved_address_is_attached() {
    with_namespace(async |ns| {
        let cloud = ns.cloud().await;
        let (reserved, free) = (ns.create_floating_ip("public").await, ns.create_floating_ip("public").await);
        let port = cloud.port("private").await;
        cloud.attach(&reserved.id, &port).await;
        let listed = [&reserved.address, &free.address];
        create_served_pool(ns, pool("public").list(listed).reserve(&claim_name("db-0"), &reserved.address)).await;
        let message = create_waiting_claim(ns, "db-0", "PoolExhausted").await;
        assert!(message.contains(&reserved.address) && message.contains("is not free"), "{message}");
        assert_eq!(ns.bind(claim("web-0")).await, free.address, "other claims are served meanwhile");
        cloud.delete_port(&port).await;
        assert_eq!(await_bound(ns, "db-0").await, reserved.address);
    })
    .await;
}

#[tokio::test]
async fn reserved_address_that_another_claim_releases_is_kept_for_its_claim() {
    with_namespace(async |ns| {
        create_served_pool(ns, pool("public").network("public")).await;
        let address = ns.bind(claim("web-0")).await;
        let reservations = json!([{"claim": claim_name("db-0"), "address": address}]);
        ns.patch(Kind::Pool, "public", json!({"spec": {"reservations": reservations}})).await;
        await_spec_observed(ns).await;
        let message = create_waiting_claim(ns, "db-0", "PoolExhausted").await;
        assert!(message.contains(&address) && message.contains("is not free"), "{message}");
        // The pool deletes a released address that it has created, unless a claim waits for it.
        release_claim(ns, "web-0").await;
        assert_eq!(await_bound(ns, "db-0").await, address);
    })
    .await;
}

#[tokio::test]
async fn listed_address_without_room_for_a_tag_is_passed_over_and_can_be_released() {
    with_namespace(async |ns| {
        let cloud = ns.cloud().await;
        let (full, good) = (ns.create_floating_ip("public").await, ns.create_floating_ip("public").await);
        cloud.fill_with_tags(&full.id).await;
        create_served_pool(ns, pool("public").list([&full.address, &good.address])).await;
        assert_eq!(ns.bind(claim("web-0")).await, good.address);
        await_address_count(ns, "failed", 1).await;
        let public = ns.get(Kind::Pool, "public").await.expect("it is there");
        let failed = &public.data["status"]["failed"][0];
        assert_eq!((&failed["address"], &failed["reason"]), (&json!(full.address), &json!("TooManyTags")));

        // The same while a claim has it: there is no room for the tag of its release.
        cloud.fill_with_tags(&good.id).await;
        let tags = floating_ip_of(cloud, &good.address).await.tags.len();
        release_claim(ns, "web-0").await;
        let released = await_unmarked(cloud, &good.address).await;
        assert_eq!(released.tags.len(), tags - 1, "only the mark is removed: {released:?}");
    })
    .await;
}
