//! Objects, fields and marks that were deleted or wiped are restored.

use kube::api::DeleteParams;

use super::*;
use crate::support::{SOON, pool, with_namespace};

#[tokio::test]
async fn recreated_claim_gets_its_address_back() {
    with_namespace(async |ns| {
        let with_grace = pool("public").network("public").with("reuseGracePeriodSeconds", 300);
        create_served_pool(ns, with_grace).await;
        let cloud = ns.cloud().await;
        let address = ns.bind(claim("web-0")).await;
        release_claim(ns, "web-0").await;
        assert!(is_released(&floating_ip_of(cloud, &address).await));
        assert_eq!(ns.bind(claim("web-0")).await, address);
        let taken_back = floating_ip_of(cloud, &address).await;
        assert!(taken_back.tags.is_empty() && is_marked(&taken_back), "{taken_back:?}");
    })
    .await;
}

#[tokio::test]
async fn deleted_ip_address_of_a_bound_claim_is_recreated_with_its_address() {
    with_namespace(async |ns| {
        create_served_pool(ns, pool("public").network("public")).await;
        let address = ns.bind(claim("web-0")).await;
        delete_and_await_ip_address(ns, "web-0", &address).await;
    })
    .await;
}

#[tokio::test]
async fn deleted_ip_address_is_recreated_while_its_pool_is_being_deleted() {
    with_namespace(async |ns| {
        create_served_pool(ns, pool("public").network("public")).await;
        let address = ns.bind(claim("web-0")).await;
        ns.delete(Kind::Pool, "public").await;
        ns.await_condition(Kind::Pool, "public", "Ready", "False", "Deleting", SOON).await;
        delete_and_await_ip_address(ns, "web-0", &address).await;
        release_claim(ns, "web-0").await;
        ns.await_gone(Kind::Pool, "public", RECOVERY).await;
    })
    .await;
}

/// Deletes a machine's IPAddress, and waits until it is recreated, with the floating IP unchanged.
async fn delete_and_await_ip_address(ns: &Namespace, machine: &str, address: &str) {
    let (cloud, name) = (ns.cloud().await, claim_name(machine));
    let (before, fip) =
        (ns.get(Kind::Address, &name).await.expect("it is there"), floating_ip_of(cloud, address).await);
    ns.delete(Kind::Address, &name).await;
    let recreated = ns
        .await_object(Kind::Address, &name, SOON, "recreated", |object| {
            object.is_some_and(|object| object.uid() != before.uid())
        })
        .await
        .expect("it is there");
    assert_eq!(recreated.data["spec"], before.data["spec"]);
    assert!(is_protected(&recreated));
    assert_eq!(floating_ip_of(cloud, address).await, fip);
}

#[tokio::test]
async fn ip_address_regains_its_finalizer_owners_and_annotations() {
    with_namespace(async |ns| {
        create_served_pool(ns, pool("public").network("public")).await;
        ns.bind(claim("web-0")).await;
        let name = claim_name("web-0");
        let before = ns.get(Kind::Address, &name).await.expect("it is there");
        let wiped = json!({"metadata": {"finalizers": null, "ownerReferences": null, "annotations": null}});
        ns.patch(Kind::Address, &name, wiped).await;
        let names = |object: &DynamicObject| {
            let mut annotations = object.annotations().clone();
            // Its origin is not known any more.
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
async fn id_that_a_user_changed_in_an_ip_address_takes_no_other_floating_ip_and_is_written_again() {
    with_namespace(async |ns| {
        create_served_pool(ns, pool("public").network("public")).await;
        let cloud = ns.cloud().await;
        ns.bind(claim("web-0")).await;
        let (name, key) = (claim_name("web-0"), "openstackfloatingippool.ipam.cluster.x-k8s.io/floating-ip-id");
        let before = ns.get(Kind::Address, &name).await.expect("it is there");
        let other = cloud.create("public", "").await;
        ns.patch(Kind::Address, &name, json!({"metadata": {"annotations": {key: other.id}}})).await;
        let is_whole =
            |object: Option<&DynamicObject>| object.is_some_and(|object| object.annotations() == before.annotations());
        ns.await_object(Kind::Address, &name, SOON, "with its floating IP's id", is_whole).await;
        let other = floating_ip_of(cloud, &other.address).await;
        assert!(other.tags.is_empty() && !is_marked(&other), "{other:?}");
        cloud.delete(&other.id).await;
    })
    .await;
}

#[tokio::test]
async fn wiped_status_is_written_again() {
    with_namespace(async |ns| {
        create_served_pool(ns, pool("public").network("public")).await;
        let address = ns.bind(claim("web-0")).await;
        ns.patch_status(Kind::Claim, &claim_name("web-0"), json!({"status": null})).await;
        assert_eq!(await_bound(ns, "web-0").await, address);
        ns.await_condition(Kind::Claim, &claim_name("web-0"), "Ready", "True", "AddressAllocated", SOON).await;
        await_address_count(ns, "allocated", 1).await;
        ns.patch_status(Kind::Pool, "public", json!({"status": null})).await;
        ns.await_condition(Kind::Pool, "public", "Ready", "True", "Ready", SOON).await;
        await_address_count(ns, "allocated", 1).await;
    })
    .await;
}

#[tokio::test]
async fn wiped_mark_of_a_bound_address_is_restored() {
    with_namespace(async |ns| {
        let cloud = ns.cloud().await;
        let listed = ns.create_floating_ip("public").await;
        let spec = pool("public").list([&listed.address, MISSING]).network("public");
        create_served_pool(ns, spec).await;
        assert_eq!(ns.bind(claim("web-0")).await, listed.address);
        let created = ns.bind(claim("web-1")).await;
        let (tagged, described) = (floating_ip_of(cloud, &listed.address).await, floating_ip_of(cloud, &created).await);
        for tag in &tagged.tags {
            cloud.untag(&tagged.id, tag).await;
        }
        cloud.describe(&described.id, "").await;
        await_floating_ip(cloud, &listed.address, "marked", |fip| fip.tags == tagged.tags).await;
        // An address that we created cannot be recognized without its description: it is marked like a reused one.
        await_floating_ip(cloud, &created, "marked", is_marked).await;
        assert_eq!(count_bound(ns).await, 2);
        release_claim(ns, "web-1").await;
        let left = await_unmarked(cloud, &created).await;
        cloud.delete(&left.id).await;
    })
    .await;
}

#[tokio::test]
async fn wiped_pool_id_is_restored() {
    with_namespace(async |ns| {
        let id = create_served_pool(ns, pool("public").network("public").min_free(1)).await;
        await_address_count(ns, "free", 1).await;
        // Only the spare has the id.
        wipe_pool_id_and_await_it(ns, &id, SOON).await;
        ns.bind(claim("web-0")).await;
        wipe_pool_id_and_await_it(ns, &id, SOON).await;
    })
    .await;
}

#[tokio::test]
async fn claim_deleted_by_force_is_released() {
    with_namespace(async |ns| {
        create_served_pool(ns, pool("public").network("public")).await;
        let address = ns.bind(claim("web-0")).await;
        let name = claim_name("web-0");
        // In quick succession, so that the controller cannot act in between.
        ns.delete(Kind::Claim, &name).await;
        ns.patch(Kind::Claim, &name, json!({"metadata": {"finalizers": null}})).await;
        let _gone_already = ns.api(Kind::Address).delete(&name, &DeleteParams::default()).await;
        ns.await_gone(Kind::Address, &name, RECOVERY).await;
        await_floating_ip_deleted(ns.cloud().await, &address, RECOVERY).await;
    })
    .await;
}

#[tokio::test]
async fn ip_address_of_a_claim_removed_by_force_goes_with_its_pool() {
    with_namespace(async |ns| {
        create_served_pool(ns, pool("public").network("public")).await;
        let address = ns.bind(claim("web-0")).await;
        let name = claim_name("web-0");
        ns.delete(Kind::Claim, &name).await;
        ns.patch(Kind::Claim, &name, json!({"metadata": {"finalizers": null}})).await;
        ns.await_gone(Kind::Claim, &name, SOON).await;
        assert!(ns.get(Kind::Address, &name).await.is_some(), "the garbage collector keeps what the pool owns");
        delete_pool(ns, "public").await;
        ns.await_gone(Kind::Address, &name, SOON).await;
        await_floating_ip_deleted(ns.cloud().await, &address, RECOVERY).await;
    })
    .await;
}

#[tokio::test]
async fn floating_ip_that_two_ip_addresses_name_stays_with_the_claim_of_its_mark() {
    with_namespace(async |ns| {
        create_served_pool(ns, pool("public").network("public")).await;
        let address = ns.bind(claim("web-0")).await;
        let original = ns.get(Kind::Address, &claim_name("web-0")).await.expect("it is published");
        let mut copy = json!({"metadata": {"name": claim_name("web-1")}, "spec": original.data["spec"]});
        copy["metadata"]["annotations"] = json!(original.metadata.annotations);
        copy["spec"]["claimRef"]["name"] = claim_name("web-1").into();
        ns.create(Manifest::new(Kind::Address, copy)).await;
        let message = create_waiting_claim(ns, "web-1", "AllocationFailed").await;
        assert!(message.contains("is marked for another claim"), "{message}");
        delete_and_await_ip_address(ns, "web-0", &address).await;
        ns.delete(Kind::Address, &claim_name("web-1")).await;
        assert_ne!(ns.await_bound(&claim_name("web-1"), RECOVERY).await, address);
    })
    .await;
}
