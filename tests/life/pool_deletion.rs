//! Deletion of a pool: it waits for its claims, cleans up, and then its objects are gone.

use std::collections::BTreeMap;

use super::*;
use crate::support::{Project, SOON, clouds_yaml, pool, unique, with_namespace};

#[tokio::test]
async fn deleted_pool_waits_for_its_claims_and_then_cleans_up() {
    with_namespace(async |ns| {
        let id = create_served_pool(ns, pool("public").network("public").min_free(1)).await;
        ns.bind(claim("web-0")).await;
        await_address_count(ns, "total", 2).await;
        let secret = ns.get(Kind::Secret, "cloud").await.expect("it is there");
        assert!(is_protected(&secret));

        ns.delete(Kind::Secret, "cloud").await;
        ns.delete(Kind::Pool, "public").await;
        let message = ns.await_condition(Kind::Pool, "public", "Ready", "False", "Deleting", SOON).await;
        assert!(message.contains("until no claim holds an address"), "{message}");
        let message = create_waiting_claim(ns, "web-1", "PoolNotReady").await;
        assert!(message.contains("being deleted"), "{message}");
        assert!(ns.get(Kind::Secret, "cloud").await.is_some(), "the Secret is kept for cleaning up");

        release_claim(ns, "web-0").await;
        ns.await_gone(Kind::Pool, "public", RECOVERY).await;
        ns.await_gone(Kind::Secret, "cloud", SOON).await;
        assert_eq!(marked_floating_ips(ns.cloud().await, &id).await, []);
    })
    .await;
}

#[tokio::test]
async fn claim_waiting_for_a_deleted_pool_is_served_by_the_next_pool_with_its_name() {
    with_namespace(async |ns| {
        create_served_pool(ns, pool("public").network("public").max_ips(1)).await;
        ns.bind(claim("web-0")).await;
        create_waiting_claim(ns, "web-1", "PoolExhausted").await;
        ns.delete(Kind::Pool, "public").await;
        ns.await_condition(Kind::Claim, &claim_name("web-1"), "Ready", "False", "PoolNotReady", SOON).await;
        release_claim(ns, "web-0").await;
        ns.await_gone(Kind::Pool, "public", RECOVERY).await;
        ns.create(pool("public").network("public").max_ips(1)).await;
        ns.await_condition(Kind::Claim, &claim_name("web-1"), "Ready", "True", "AddressAllocated", RECOVERY).await;
    })
    .await;
}

/// The pool's id comes back with the next one, and `other` keeps what is known of the project, as the paused
/// claim keeps what is known of the claims of the pool's name.
#[tokio::test]
async fn claim_that_was_deleted_without_its_pool_keeps_no_place_in_the_queue_of_the_next_one() {
    with_namespace(async |ns| {
        let id = unique("p");
        let public = || pool("public").network("public").pool_id(&id).max_ips(1);
        create_served_pool(ns, pool("other").network("public")).await;
        create_ready_pool(ns, public()).await;
        ns.create(claim("web-0")).await;
        // Another management cluster may have had the id that the spec gives.
        let fenced = 2 * RECOVERY;
        ns.await_bound(&claim_name("web-0"), fenced).await;
        create_waiting_claim(ns, "web-1", "PoolExhausted").await;
        ns.create(claim("paused").annotation(PAUSED, "true")).await;
        ns.delete(Kind::Pool, "public").await;
        release_claim(ns, "web-0").await;
        ns.await_gone(Kind::Pool, "public", fenced).await;
        release_claim(ns, "web-1").await;
        create_ready_pool(ns, public()).await;
        ns.create(claim("web-2")).await;
        ns.await_bound(&claim_name("web-2"), fenced).await;
    })
    .await;
}

#[tokio::test]
async fn wiped_pool_id_is_restored_while_the_pool_is_being_deleted() {
    with_namespace(async |ns| {
        let id = create_served_pool(ns, pool("public").network("public")).await;
        ns.bind(claim("web-0")).await;
        ns.delete(Kind::Pool, "public").await;
        ns.await_condition(Kind::Pool, "public", "Ready", "False", "Deleting", SOON).await;
        wipe_pool_id_and_await_it(ns, &id, RECOVERY).await;
    })
    .await;
}

/// Neutron answers 200 with an empty list if the role of the credentials may not see floating IPs.
#[tokio::test]
async fn deleted_pool_whose_floating_ips_its_user_may_not_see_waits_until_they_are_seen() {
    let project = Project::new().await;
    with_namespace(async |ns| {
        ns.use_cloud(project.cloud().await);
        ns.apply_secret("cloud", &clouds_yaml(project.entry())).await;
        controller();
        create_ready_pool(ns, pool("public").network("public").min_free(1)).await;
        await_address_count(ns, "total", 1).await;
        project
            .with_powerless_user(async |entry| {
                ns.apply_secret("cloud", &clouds_yaml(entry)).await;
                await_address_count(ns, "total", 0).await;
                ns.delete(Kind::Pool, "public").await;
                let says_why = "is not listed any more, and Neutron does not say that it is gone";
                let is_so = |pool: Option<&DynamicObject>| {
                    pool.is_some_and(|pool| pool.data["status"]["conditions"].to_string().contains(says_why))
                };
                ns.await_object(Kind::Pool, "public", SOON, "told why it waits", is_so).await;
                ns.apply_secret("cloud", &clouds_yaml(project.entry())).await;
            })
            .await;
        ns.await_gone(Kind::Pool, "public", RECOVERY).await;
    })
    .await;
    project.end().await;
}

#[tokio::test]
async fn pool_that_was_never_ready_is_deleted_at_once() {
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
async fn deleted_pool_removes_its_finalizer_from_the_secret() {
    with_namespace(async |ns| {
        create_served_pool(ns, pool("public").network("public")).await;
        ns.bind(claim("web-0")).await;
        release_claim(ns, "web-0").await;
        delete_pool(ns, "public").await;
        // The pool goes first.
        eventually(SOON, async || {
            let secret = ns.get(Kind::Secret, "cloud").await.expect("it is the user's");
            if is_protected(&secret) { Err(format!("{:?}", secret.finalizers())) } else { Ok(()) }
        })
        .await;
    })
    .await;
}

/// As `clusterctl move` leaves a Secret that it does not move.
#[tokio::test]
async fn secret_of_a_pool_that_was_removed_by_force_can_be_deleted() {
    with_namespace(async |ns| {
        create_served_pool(ns, pool("public").network("public")).await;
        let secret = ns.get(Kind::Secret, "cloud").await.expect("it is there");
        assert!(is_protected(&secret));
        ns.delete_by_force(&[Kind::Pool]).await;
        ns.delete(Kind::Secret, "cloud").await;
        ns.await_gone(Kind::Secret, "cloud", RECOVERY).await;
    })
    .await;
}

#[tokio::test]
async fn predefined_addresses_are_kept_without_marks_when_their_pool_is_deleted() {
    with_namespace(async |ns| {
        let cloud = ns.cloud().await;
        let listed = cloud.create("public", "mine").await;
        create_served_pool(ns, pool("public").list([&listed.address])).await;
        ns.bind(claim("web-0")).await;
        ns.delete(Kind::Pool, "public").await;
        release_claim(ns, "web-0").await;
        ns.await_gone(Kind::Pool, "public", RECOVERY).await;
        assert_eq!(floating_ip_of(cloud, &listed.address).await, listed);
    })
    .await;
}

#[tokio::test]
async fn attached_address_is_kept_and_reported_when_its_pool_is_deleted() {
    with_namespace(async |ns| {
        create_served_pool(ns, pool("public").network("public")).await;
        let cloud = ns.cloud().await;
        let address = ns.bind(claim("web-0")).await;
        let id = floating_ip_of(cloud, &address).await.id;
        cloud.attach(&id, &cloud.port("private").await).await;
        release_claim(ns, "web-0").await;
        delete_pool(ns, "public").await;
        let left = floating_ip_of(cloud, &address).await;
        assert!(left.port.is_some() && !is_marked(&left) && left.description.is_empty(), "{left:?}");
        ns.await_event(Kind::Pool, "public", "Attached", &address).await;
        cloud.delete(&id).await;
    })
    .await;
}

#[tokio::test]
async fn whole_namespace_can_be_deleted() {
    with_namespace(async |ns| {
        let id = create_served_pool(ns, pool("public").network("public").min_free(1)).await;
        for number in 0..3 {
            ns.bind(claim(&format!("web-{number}")).without_capo_finalizer()).await;
        }
        delete_namespace(ns).await;
        await_namespace_deleted(ns, BURST).await;
        assert_eq!(marked_floating_ips(ns.cloud().await, &id).await, []);
    })
    .await;
}

#[tokio::test]
async fn pool_can_be_abandoned_when_openstack_never_answers_again() {
    with_namespace(async |ns| {
        let (id, proxy) = create_served_pool_behind_proxy(ns, pool("public").network("public")).await;
        let address = ns.bind(claim("web-0")).await;
        proxy.fail_everything();
        ns.delete(Kind::Pool, "public").await;
        ns.release(&claim_name("web-0")).await;
        ns.await_condition(Kind::Pool, "public", "Ready", "False", "Deleting", SOON).await;
        assert!(ns.get(Kind::Claim, &claim_name("web-0")).await.is_some(), "its address cannot be released");
        abandon(ns, Kind::Pool, "public").await;
        ns.await_gone(Kind::Claim, &claim_name("web-0"), RECOVERY).await;
        ns.await_gone(Kind::Pool, "public", RECOVERY).await;
        ns.await_event(Kind::Pool, "public", "Abandoned", &address).await;
        let left = marked_floating_ips(ns.cloud().await, &id).await;
        assert_eq!(left.len(), 1, "{left:?}");
        ns.cloud().await.delete(&left[0].id).await;
    })
    .await;
}

#[tokio::test]
async fn claim_can_be_abandoned_when_openstack_never_answers_again() {
    with_namespace(async |ns| {
        let (id, proxy) = create_served_pool_behind_proxy(ns, pool("public").network("public")).await;
        let address = ns.bind(claim("web-0")).await;
        proxy.fail_everything();
        ns.release(&claim_name("web-0")).await;
        let message = await_waiting(ns, "web-0", "ReleaseFailed").await;
        assert!(message.contains("503") && message.contains(ABANDON), "{message}");
        abandon(ns, Kind::Claim, &claim_name("web-0")).await;
        ns.await_gone(Kind::Claim, &claim_name("web-0"), RECOVERY).await;
        ns.await_event(Kind::Claim, &claim_name("web-0"), "FloatingIPLeftBehind", &address).await;
        abandon(ns, Kind::Pool, "public").await;
        delete_pool(ns, "public").await;
        for left in marked_floating_ips(ns.cloud().await, &id).await {
            ns.cloud().await.delete(&left.id).await;
        }
    })
    .await;
}

/// The garbage collector removes such a pool from the owners of its IPAddresses, since their claims own them too. A controller
/// that puts it back competes with the garbage collector until the last machine is gone.
#[tokio::test]
async fn pool_that_is_deleted_in_the_foreground_does_not_write_its_ip_addresses_again_and_again() {
    with_namespace(async |ns| {
        create_served_pool(ns, pool("public").network("public-large")).await;
        create_claims(ns, 0..12).await;
        await_bound_count(ns, 12, BURST).await;
        ns.api(Kind::Pool).delete("public", &DeleteParams::foreground()).await.expect("it can be deleted");
        ns.await_condition(Kind::Pool, "public", "Ready", "False", "Deleting", SOON).await;
        let versions = async || -> BTreeMap<String, Option<String>> {
            let addresses = ns.list(Kind::Address).await;
            addresses.iter().map(|address| (address.name_any(), address.resource_version())).collect()
        };
        // Until the garbage collector has changed them.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let before = versions().await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(versions().await, before, "nothing is written while the pool waits for its claims");
        assert_eq!((before.len(), count_bound(ns).await), (12, 12));
        release_bound_claims(ns).await;
        ns.await_gone(Kind::Pool, "public", BURST).await;
    })
    .await;
}
