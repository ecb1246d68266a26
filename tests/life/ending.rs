//! The end of a pool: it waits for its claims, cleans up, and then everything goes.

use k8s_openapi::api::core::v1::Namespace as KubeNamespace;
use kube::Api;
use kube::api::DeleteParams;

use super::*;
use crate::support::{SOON, pool, with_namespace};

#[tokio::test]
async fn pool_that_is_deleted_waits_for_its_claims_and_then_cleans_up() {
    with_namespace(async |ns| {
        let id = served(ns, pool("public").network("public").preallocate(1)).await;
        ns.bind(claim("web-0")).await;
        await_count(ns, "total", 2).await;
        let secret = ns.get(Kind::Secret, "cloud").await.expect("it is there");
        assert!(is_protected(&secret));

        ns.delete(Kind::Secret, "cloud").await;
        ns.delete(Kind::Pool, "public").await;
        let message = ns.await_condition(Kind::Pool, "public", "Ready", "False", "Deleting", SOON).await;
        assert!(message.contains("until no claim holds an address"), "{message}");
        let message = refused(ns, "web-1", "PoolNotReady").await;
        assert!(message.contains("being deleted"), "{message}");
        assert!(ns.get(Kind::Secret, "cloud").await.is_some(), "the Secret is kept for cleaning up");

        release(ns, "web-0").await;
        ns.await_gone(Kind::Pool, "public", HEALS).await;
        ns.await_gone(Kind::Secret, "cloud", SOON).await;
        assert_eq!(marked(ns.cloud().await, &id).await, []);
    })
    .await;
}

#[tokio::test]
async fn claim_that_a_deleted_pool_gave_up_is_served_by_the_next_of_its_name() {
    with_namespace(async |ns| {
        served(ns, pool("public").network("public").max_ips(1)).await;
        ns.bind(claim("web-0")).await;
        refused(ns, "web-1", "PoolExhausted").await;
        ns.delete(Kind::Pool, "public").await;
        ns.await_condition(Kind::Claim, &named("web-1"), "Ready", "False", "PoolNotReady", SOON).await;
        release(ns, "web-0").await;
        ns.await_gone(Kind::Pool, "public", HEALS).await;
        ns.create(pool("public").network("public").max_ips(1)).await;
        ns.await_condition(Kind::Claim, &named("web-1"), "Ready", "True", "AddressAllocated", HEALS).await;
    })
    .await;
}

#[tokio::test]
async fn id_that_is_wiped_while_the_pool_waits_for_its_claims_is_put_back() {
    with_namespace(async |ns| {
        let id = served(ns, pool("public").network("public")).await;
        ns.bind(claim("web-0")).await;
        ns.delete(Kind::Pool, "public").await;
        ns.await_condition(Kind::Pool, "public", "Ready", "False", "Deleting", SOON).await;
        ns.patch(Kind::Pool, "public", json!({"metadata": {"annotations": {POOL_ID: null}}})).await;
        let has_id =
            |object: Option<&DynamicObject>| object.is_some_and(|pool| pool.annotations().get(POOL_ID) == Some(&id));
        ns.await_object(Kind::Pool, "public", HEALS, "itself", has_id).await;
    })
    .await;
}

#[tokio::test]
async fn pool_that_was_never_served_goes_at_once() {
    with_namespace(async |ns| {
        crate::support::controller();
        ns.create(pool("public").network("public")).await;
        // There is no Secret.
        ns.await_condition(Kind::Pool, "public", "Ready", "False", "SecretNotFound", SOON).await;
        ns.delete(Kind::Pool, "public").await;
        ns.await_gone(Kind::Pool, "public", SOON).await;
    })
    .await;
}

#[tokio::test]
async fn secret_that_the_pool_no_longer_needs_is_let_go() {
    with_namespace(async |ns| {
        served(ns, pool("public").network("public")).await;
        ns.bind(claim("web-0")).await;
        release(ns, "web-0").await;
        ns.delete(Kind::Pool, "public").await;
        ns.await_gone(Kind::Pool, "public", HEALS).await;
        let secret = ns.get(Kind::Secret, "cloud").await.expect("it is the user's");
        assert!(!is_protected(&secret), "{:?}", secret.finalizers());
    })
    .await;
}

#[tokio::test]
async fn listed_addresses_outlive_their_pool_without_our_marks() {
    with_namespace(async |ns| {
        let cloud = ns.cloud().await;
        let listed = cloud.create("public", "mine").await;
        served(ns, pool("public").list([&listed.address])).await;
        ns.bind(claim("web-0")).await;
        ns.delete(Kind::Pool, "public").await;
        release(ns, "web-0").await;
        ns.await_gone(Kind::Pool, "public", HEALS).await;
        assert_eq!(seen(cloud, &listed.address).await, listed);
    })
    .await;
}

#[tokio::test]
async fn address_that_is_still_attached_outlives_its_pool_and_is_named() {
    with_namespace(async |ns| {
        served(ns, pool("public").network("public")).await;
        let cloud = ns.cloud().await;
        let address = ns.bind(claim("web-0")).await;
        let id = seen(cloud, &address).await.id;
        cloud.attach(&id, &cloud.port("private").await).await;
        release(ns, "web-0").await;
        ns.delete(Kind::Pool, "public").await;
        ns.await_gone(Kind::Pool, "public", HEALS).await;
        let left = seen(cloud, &address).await;
        assert!(left.port.is_some() && !is_marked(&left) && left.description.is_empty(), "{left:?}");
        let events = ns.events(Kind::Pool, "public").await;
        let is_named = events.iter().any(|(reason, note)| reason.contains("Attached") && note.contains(&address));
        assert!(is_named, "{events:?}");
        cloud.delete(&id).await;
    })
    .await;
}

#[tokio::test]
async fn whole_namespace_can_be_deleted() {
    with_namespace(async |ns| {
        let id = served(ns, pool("public").network("public").preallocate(1)).await;
        for number in 0..3 {
            ns.bind(claim(&format!("web-{number}")).unheld()).await;
        }
        let namespaces: Api<KubeNamespace> = Api::all(ns.world.client.clone());
        namespaces.delete(&ns.name, &DeleteParams::default()).await.expect("it can be deleted");
        eventually(BURST, async || match namespaces.get_opt(&ns.name).await {
            Ok(None) => Ok(()),
            Ok(Some(left)) => Err(format!("{:?}", left.status.and_then(|status| status.conditions))),
            Err(error) => Err(error.to_string()),
        })
        .await;
        assert_eq!(marked(ns.cloud().await, &id).await, []);
    })
    .await;
}

#[tokio::test]
async fn pool_whose_openstack_is_gone_for_good_can_be_abandoned() {
    with_namespace(async |ns| {
        let (id, wire) = served_by_wire(ns, pool("public").network("public")).await;
        let address = ns.bind(claim("web-0")).await;
        wire.cut();
        ns.delete(Kind::Pool, "public").await;
        ns.release(&named("web-0")).await;
        ns.await_condition(Kind::Pool, "public", "Ready", "False", "Deleting", SOON).await;
        assert!(ns.get(Kind::Claim, &named("web-0")).await.is_some(), "its address cannot be released");
        ns.patch(Kind::Pool, "public", json!({"metadata": {"annotations": {ABANDON: "true"}}})).await;
        ns.await_gone(Kind::Claim, &named("web-0"), HEALS).await;
        ns.await_gone(Kind::Pool, "public", HEALS).await;
        let events = ns.events(Kind::Pool, "public").await;
        let is_recorded = events.iter().any(|(reason, note)| reason == "Abandoned" && note.contains(&address));
        assert!(is_recorded, "{events:?}");
        let left = marked(ns.cloud().await, &id).await;
        assert_eq!(left.len(), 1, "{left:?}");
        ns.cloud().await.delete(&left[0].id).await;
    })
    .await;
}

#[tokio::test]
async fn claim_whose_openstack_is_gone_for_good_can_be_abandoned() {
    with_namespace(async |ns| {
        let (id, wire) = served_by_wire(ns, pool("public").network("public")).await;
        let address = ns.bind(claim("web-0")).await;
        wire.cut();
        ns.release(&named("web-0")).await;
        let told = waits(ns, "web-0", "ReleaseFailed").await;
        assert!(told.contains("503") && told.contains(ABANDON), "{told}");
        ns.patch(Kind::Claim, &named("web-0"), json!({"metadata": {"annotations": {ABANDON: "true"}}})).await;
        ns.await_gone(Kind::Claim, &named("web-0"), HEALS).await;
        let events = ns.events(Kind::Claim, &named("web-0")).await;
        let is_recorded =
            events.iter().any(|(reason, note)| reason == "FloatingIPLeftBehind" && note.contains(&address));
        assert!(is_recorded, "{events:?}");
        ns.patch(Kind::Pool, "public", json!({"metadata": {"annotations": {ABANDON: "true"}}})).await;
        ns.delete(Kind::Pool, "public").await;
        ns.await_gone(Kind::Pool, "public", HEALS).await;
        for left in marked(ns.cloud().await, &id).await {
            ns.cloud().await.delete(&left.id).await;
        }
    })
    .await;
}
