//! What was lost or wiped, and comes back as it was.

use kube::api::DeleteParams;

use super::*;
use crate::support::{SOON, pool, with_namespace};

#[tokio::test]
async fn claim_made_again_under_its_name_takes_its_address_back() {
    with_namespace(async |ns| {
        let resting = pool("public").network("public").with("reuseGracePeriodSeconds", 300);
        served(ns, resting).await;
        let cloud = ns.cloud().await;
        let address = ns.bind(claim("web-0")).await;
        release(ns, "web-0").await;
        assert!(is_released(&seen(cloud, &address).await));
        assert_eq!(ns.bind(claim("web-0")).await, address);
        let again = seen(cloud, &address).await;
        assert!(again.tags.is_empty() && is_marked(&again), "{again:?}");
    })
    .await;
}

#[tokio::test]
async fn ip_address_deleted_under_a_living_claim_comes_back_with_its_address() {
    with_namespace(async |ns| {
        served(ns, pool("public").network("public")).await;
        let address = ns.bind(claim("web-0")).await;
        deleted_comes_back(ns, "web-0", &address).await;
    })
    .await;
}

#[tokio::test]
async fn ip_address_deleted_while_its_pool_is_being_deleted_comes_back_with_its_address() {
    with_namespace(async |ns| {
        served(ns, pool("public").network("public")).await;
        let address = ns.bind(claim("web-0")).await;
        ns.delete(Kind::Pool, "public").await;
        ns.await_condition(Kind::Pool, "public", "Ready", "False", "Deleting", SOON).await;
        deleted_comes_back(ns, "web-0", &address).await;
        release(ns, "web-0").await;
        ns.await_gone(Kind::Pool, "public", HEALS).await;
    })
    .await;
}

/// Deletes a machine's IPAddress, and sees it made again, with the floating IP as it was.
async fn deleted_comes_back(ns: &Namespace, machine: &str, address: &str) {
    let (cloud, name) = (ns.cloud().await, named(machine));
    let (before, fip) = (ns.get(Kind::Address, &name).await.expect("it is there"), seen(cloud, address).await);
    ns.delete(Kind::Address, &name).await;
    let again = ns
        .await_object(Kind::Address, &name, SOON, "made again", |object| {
            object.is_some_and(|object| object.uid() != before.uid())
        })
        .await
        .expect("it is there");
    assert_eq!(again.data["spec"], before.data["spec"]);
    assert!(is_protected(&again));
    assert_eq!(seen(cloud, address).await, fip);
}

#[tokio::test]
async fn ip_address_that_lost_everything_but_its_spec_is_put_in_order() {
    with_namespace(async |ns| {
        served(ns, pool("public").network("public")).await;
        ns.bind(claim("web-0")).await;
        let name = named("web-0");
        let before = ns.get(Kind::Address, &name).await.expect("it is there");
        let wiped = json!({"metadata": {"finalizers": null, "ownerReferences": null, "annotations": null}});
        ns.patch(Kind::Address, &name, wiped).await;
        let names = |object: &DynamicObject| {
            let mut annotations = object.annotations().clone();
            // Where it came from is not known any more.
            annotations.remove("openstackfloatingippool.ipam.cluster.x-k8s.io/origin");
            annotations
        };
        assert_eq!(names(&before).len(), 3);
        let is_whole = |object: Option<&DynamicObject>| {
            object.is_some_and(|object| {
                is_protected(object)
                    && object.owner_references() == before.owner_references()
                    && names(object) == names(&before)
            })
        };
        ns.await_object(Kind::Address, &name, SOON, "whole", is_whole).await;
    })
    .await;
}

#[tokio::test]
async fn status_that_was_wiped_is_written_again() {
    with_namespace(async |ns| {
        served(ns, pool("public").network("public")).await;
        let address = ns.bind(claim("web-0")).await;
        ns.patch_status(Kind::Claim, &named("web-0"), json!({"status": null})).await;
        assert_eq!(bound(ns, "web-0").await, address);
        ns.await_condition(Kind::Claim, &named("web-0"), "Ready", "True", "AddressAllocated", SOON).await;
        await_count(ns, "allocated", 1).await;
        ns.patch_status(Kind::Pool, "public", json!({"status": null})).await;
        ns.await_condition(Kind::Pool, "public", "Ready", "True", "Ready", SOON).await;
        await_count(ns, "allocated", 1).await;
    })
    .await;
}

#[tokio::test]
async fn mark_that_was_wiped_from_a_bound_address_is_put_back() {
    with_namespace(async |ns| {
        let cloud = ns.cloud().await;
        let listed = ns.floating_ip("public").await;
        // What is missing makes the pool look at Neutron more often than once a minute.
        let spec = pool("public").list([&listed.address, MISSING]).network("public");
        served(ns, spec).await;
        assert_eq!(ns.bind(claim("web-0")).await, listed.address);
        let created = ns.bind(claim("web-1")).await;
        let (tagged, described) = (seen(cloud, &listed.address).await, seen(cloud, &created).await);
        for tag in &tagged.tags {
            cloud.untag(&tagged.id, tag).await;
        }
        cloud.describe(&described.id, "").await;
        until(cloud, &listed.address, "marked", |fip| fip.tags == tagged.tags).await;
        // What we created cannot be told from others any more: it is marked as those are.
        until(cloud, &created, "marked", is_marked).await;
        assert_eq!(count_bound(ns).await, 2);
        release(ns, "web-1").await;
        let left = until(cloud, &created, "unmarked", |fip| !is_marked(fip)).await;
        cloud.delete(&left.id).await;
    })
    .await;
}

#[tokio::test]
async fn id_that_was_wiped_from_a_pool_is_restored() {
    with_namespace(async |ns| {
        let id = served(ns, pool("public").network("public").preallocate(1)).await;
        await_count(ns, "free", 1).await;
        let has_id =
            |object: Option<&DynamicObject>| object.is_some_and(|pool| pool.annotations().get(POOL_ID) == Some(&id));
        // Nothing but what is ready in Neutron has the id.
        ns.patch(Kind::Pool, "public", json!({"metadata": {"annotations": {POOL_ID: null}}})).await;
        ns.await_object(Kind::Pool, "public", SOON, "itself", has_id).await;
        ns.bind(claim("web-0")).await;
        ns.patch(Kind::Pool, "public", json!({"metadata": {"annotations": {POOL_ID: null}}})).await;
        ns.await_object(Kind::Pool, "public", SOON, "itself", has_id).await;
    })
    .await;
}

#[tokio::test]
async fn claim_that_was_taken_away_by_force_is_released() {
    with_namespace(async |ns| {
        served(ns, pool("public").network("public")).await;
        let address = ns.bind(claim("web-0")).await;
        let name = named("web-0");
        // All at once, so that nobody can do anything in between.
        ns.delete(Kind::Claim, &name).await;
        ns.patch(Kind::Claim, &name, json!({"metadata": {"finalizers": null}})).await;
        let _gone_already = ns.api(Kind::Address).delete(&name, &DeleteParams::default()).await;
        ns.await_gone(Kind::Address, &name, HEALS).await;
        until_deleted(ns.cloud().await, &address, HEALS).await;
    })
    .await;
}
