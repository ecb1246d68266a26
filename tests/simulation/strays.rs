//! IPAddresses that no claim has a right to: the claim was removed by force, or another claim's floating IP is named.

use std::time::Duration;

use caip_openstack::api::names::{ABANDON_ANNOTATION, FLOATING_IP_ID_ANNOTATION};
use caip_openstack::floating_ip::FloatingIp;
use serde_json::json;

use crate::api::Kind;
use crate::laws::FORGED_LABEL;
use crate::users::key;
use crate::wire::{Fault, Rejection};
use crate::world::{NAMESPACE, Site, Start, World, address};
use crate::{simulate, simulate_bound};

const START: Start = Start { seed: 11, sites: 1, replicas: 1, slowest: 20, is_logged: true };
const SOON: Duration = Duration::from_secs(60);

#[test]
fn the_ip_address_of_a_claim_removed_by_force_is_an_orphan_and_released_as_one() {
    simulate_bound(&START, async |world, site| {
        site.change(Kind::Pool, "public", &json!({"spec": {"orphans": {"graceSeconds": 600}}}));
        site.delete_by_force(Kind::Claim, "web-0");
        world.advance(2 * SOON).await;
        let pool = site.server.get(&key(Kind::Pool, "public")).map(|pool| pool["status"].to_string());
        world.expect(4, "public", "told", pool.is_some_and(|status| status.contains("OrphansDetected")));
        world.expect(4, "the floating IP", "kept for now", world.cloud.floating_ips().len() == 1);
        world.advance(12 * SOON).await;
        world.expect_gone(Kind::Address).await;
        world.expect(4, "Neutron", "as it was before", world.cloud.floating_ips().is_empty());
    });
}

#[test]
fn the_floating_ip_of_a_claim_removed_by_force_is_deleted_although_its_pool_has_a_problem() {
    simulate_bound(&START, async |world, site| {
        world.cloud.rename_network(&world.network, "renamed");
        site.kill_controller();
        world.advance(2 * SOON).await;
        site.delete_by_force(Kind::Claim, "web-0");
        let is_deleted = world.wait_until(10 * SOON, || world.cloud.floating_ips().is_empty()).await;
        world.expect(4, "the floating IP", "deleted", is_deleted);
        world.cloud.rename_network(&world.network, "public");
    });
}

#[test]
fn a_pool_goes_although_the_claim_of_an_ip_address_was_removed_by_force() {
    for is_abandoned in [false, true] {
        simulate_bound(&START, async |world, site| {
            site.delete_by_force(Kind::Claim, "web-0");
            world.advance(SOON).await;
            if is_abandoned {
                site.change(Kind::Pool, "public", &json!({"metadata": {"annotations": {ABANDON_ANNOTATION: "true"}}}));
            }
            site.delete(Kind::Pool, "public");
            world.expect_gone(Kind::Pool).await;
            world.expect_gone(Kind::Address).await;
            world.expect(4, "the floating IP", "left", world.cloud.floating_ips().is_empty() != is_abandoned);
            world.skips_rest.set(is_abandoned);
        });
    }
}

#[test]
fn a_pool_goes_as_soon_as_its_last_ip_address_although_that_had_no_claim_any_more() {
    simulate_bound(&START, async |world, site| {
        site.delete_by_force(Kind::Claim, "web-0");
        world.advance(SOON).await;
        // The release takes longer than the pool's own reconciles.
        site.replicas[0].wire().expect("the process runs").plan_write(Fault::Late(Duration::from_secs(8)));
        site.delete(Kind::Pool, "public");
        let is_gone = |kind: Kind, name: &str| site.server.get(&key(kind, name)).is_none();
        let address_is_gone = world.wait_until(SOON, || is_gone(Kind::Address, "web-0")).await;
        world.expect(9, "the IPAddress", "gone", address_is_gone);
        let pool_is_gone = world.wait_until(Duration::from_secs(5), || is_gone(Kind::Pool, "public")).await;
        world.expect(9, "public", "gone within 5 s after its last IPAddress", pool_is_gone);
    });
}

/// Creates a claim with an IPAddress whose annotations are copied from another claim's.
fn copy_address(site: &Site, from: &str, to: &str) {
    let Some(original) = site.server.get(&key(Kind::Address, from)) else { return };
    let mut copy = json!({"metadata": {"name": to, "namespace": NAMESPACE}, "spec": original["spec"]});
    copy["metadata"]["annotations"] = original["metadata"]["annotations"].clone();
    copy["spec"]["claimRef"]["name"] = to.into();
    let _ = site.server.create(Kind::Address, copy);
    site.create_claim(to, "public");
}

#[test]
fn an_ip_address_with_copied_annotations_gives_no_claim_anothers_floating_ip() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        world.bind_in_new_pool("own").await;
        world.users_interfered.set(true);
        copy_address(site, "own", "copy");
        world.advance(SOON).await;
        world.expect(1, "copy", "refused", !site.is_bound("copy"));
        site.delete(Kind::Address, "copy");
        let is_bound = world.wait_until(SOON, || site.is_bound("copy")).await;
        world.expect(7, "copy", "given an address of its own", is_bound);
        world.expect(1, "copy", "not the same", site.address_of("copy") != site.address_of("own"));
    });
    outcome.assert_lawful();
}

#[test]
fn a_claim_whose_ip_address_is_deleted_keeps_the_floating_ip_that_a_copy_names() {
    for is_attached in [false, true] {
        let outcome = simulate(&START, async |world: &World| {
            let site = &world.sites[0];
            world.bind_in_new_pool("own").await;
            let Some(had) = site.address_of("own") else { return };
            world.users_interfered.set(true);
            copy_address(site, "own", "copy");
            world.advance(SOON).await;
            if is_attached {
                world.tamper(|world| world.cloud.set_port(&had.1, Some("port-of-own")));
            }
            site.delete_by_force(Kind::Address, "own");
            world.advance(SOON).await;
            world.expect(5, "own", "given its floating IP again", site.address_of("own") == Some(had));
            world.expect(1, "copy", "refused", !site.is_bound("copy"));
            site.delete(Kind::Address, "copy");
            let is_bound = world.wait_until(SOON, || site.is_bound("copy")).await;
            world.expect(7, "copy", "given an address of its own", is_bound);
        });
        outcome.assert_lawful();
    }
}

#[test]
fn the_address_of_a_claim_whose_pool_was_renamed_by_force_is_no_orphan_of_the_new_pool() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        let spec = json!({"floatingIPNetwork": {"filter": {"name": "public"}}, "poolID": "prod"});
        site.create_pool("public", &spec);
        site.create_claim("web-0", "public");
        let had = world.await_bound("web-0").await;
        site.delete_by_force(Kind::Pool, "public");
        site.create_pool("renamed", &spec);
        world.advance(10 * SOON).await;
        let tags = || world.cloud.floating_ips().into_iter().flat_map(|fip| fip.tags).count();
        world.expect(5, "the floating IP of web-0", "kept and not released", tags() == 0);
        world.expect(5, "web-0", "bound still", site.address_of("web-0").map(|(address, _)| address) == had);
        world.skips_rest.set(true);
    });
    outcome.assert_lawful();
}

#[test]
fn the_ip_address_of_a_claim_that_moved_to_another_pool_can_be_deleted() {
    simulate_bound(&START, async |world, site| {
        site.create_pool("other", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
        world.users_interfered.set(true);
        site.delete_by_force(Kind::Claim, "web-0");
        site.create_claim("web-0", "other");
        world.advance(SOON).await;
        site.delete(Kind::Address, "web-0");
        world.await_bound("web-0").await;
        site.delete(Kind::Claim, "web-0");
        world.expect_gone(Kind::Claim).await;
    });
}

/// The address in an IPAddress cannot be changed, but everybody in the namespace can change its annotations.
#[test]
fn a_claim_keeps_its_floating_ip_when_a_user_changes_or_removes_the_id_in_its_ip_address() {
    for (is_restarted, is_removed) in [(false, false), (true, false), (false, true), (true, true)] {
        simulate_bound(&START, async |world, site| {
            let had = site.address_of("web-0").unwrap();
            let project = world.project.clone();
            let other = world.tamper(|world| world.cloud.create_at(&project, &world.network, address(5)).id);
            let changed = (!is_removed).then(|| other.as_str());
            let annotations = json!({FLOATING_IP_ID_ANNOTATION: changed});
            site.change(Kind::Address, "web-0", &json!({"metadata": {"annotations": annotations}}));
            if is_restarted {
                site.kill_controller();
            }
            world.advance(2 * SOON).await;
            world.expect(5, "web-0", "named with its own floating IP again", site.address_of("web-0") == Some(had));
            let is_marked = |fip: &FloatingIp| fip.id == other && !fip.tags.is_empty();
            world.expect(2, "the other floating IP", "left alone", !world.cloud.floating_ips().iter().any(is_marked));
        });
    }
}

#[test]
fn an_ip_address_whose_claim_and_pool_were_removed_by_force_goes_unless_the_pool_comes_back() {
    for comes_back in [false, true] {
        simulate_bound(&START, async |world, site| {
            site.delete_by_force(Kind::Pool, "public");
            world.advance(SOON).await;
            site.delete_by_force(Kind::Claim, "web-0");
            site.delete(Kind::Address, "web-0");
            world.advance(3 * SOON).await;
            let is_there = site.server.get(&key(Kind::Address, "web-0")).is_some();
            world.expect(5, "web-0", "kept for a pool that comes back", is_there);
            if comes_back {
                site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
            }
            world.advance(3 * SOON).await;
            world.expect_gone(Kind::Address).await;
            world.expect(4, "the floating IP", "left", world.cloud.floating_ips().is_empty() == comes_back);
            world.skips_rest.set(true);
        });
    }
}

/// Law 9. The copy has our finalizer.
#[test]
fn a_copy_under_another_name_goes_when_a_user_deletes_it() {
    simulate_bound(&START, async |world, site| {
        world.users_interfered.set(true);
        let original = site.server.get(&key(Kind::Address, "web-0")).expect("it is bound");
        let meta = |field: &str| original["metadata"][field].clone();
        let metadata = json!({
            "name": "copy", "namespace": NAMESPACE, "annotations": meta("annotations"), "finalizers": meta("finalizers"),
            "labels": {FORGED_LABEL: "true"},
        });
        let copy = json!({"metadata": metadata, "spec": original["spec"]});
        site.server.create(Kind::Address, copy).expect("it is valid");
        world.advance(SOON).await;
        site.delete(Kind::Address, "copy");
        let is_gone = || site.server.get(&key(Kind::Address, "copy")).is_none();
        world.expect(9, "the copy", "gone", world.wait_until(SOON, is_gone).await);
        world.expect(5, "web-0", "bound as before", site.is_bound("web-0") && site.address_of("web-0").is_some());
    });
}

/// Law 4. Nothing else would release it: the claim was removed by force, and its own IPAddress too.
#[test]
fn a_copy_under_another_name_is_released_where_its_claim_is_gone() {
    simulate_bound(&START, async |world, site| {
        site.change(Kind::Pool, "public", &json!({"spec": {"orphans": {"graceSeconds": 3600}}}));
        world.advance(SOON).await;
        world.users_interfered.set(true);
        let original = site.server.get(&key(Kind::Address, "web-0")).expect("it is bound");
        let mut metadata = original["metadata"].clone();
        (metadata["name"], metadata["labels"]) = ("copy".into(), json!({FORGED_LABEL: "true"}));
        for field in ["uid", "resourceVersion", "creationTimestamp"] {
            metadata.as_object_mut().expect("an object").remove(field);
        }
        site.server
            .create(Kind::Address, json!({"metadata": metadata, "spec": original["spec"]}))
            .expect("it is valid");
        site.kill_controller();
        site.delete_by_force(Kind::Claim, "web-0");
        site.delete_by_force(Kind::Address, "web-0");
        site.delete(Kind::Address, "copy");
        world.expect_gone(Kind::Address).await;
        let is_released = world.wait_until(2 * SOON, || world.cloud.floating_ips().is_empty()).await;
        world.expect(4, "the floating IP", "deleted", is_released);
    });
}

/// Law 4. The claim is removed by force while its status is written, and the API server refuses the deletion of its
/// IPAddress.
#[test]
fn an_ip_address_whose_claim_went_while_it_was_served_goes_although_its_deletion_fails_at_first() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        let orphans = json!({"policy": "Release", "graceSeconds": 3600});
        site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}, "orphans": orphans}));
        world.advance(SOON).await;
        let wire = site.replicas[0].wire().expect("it runs");
        wire.hang("ipaddressclaims", Fault::Late(Duration::from_secs(5)), SOON);
        site.create_claim("web-0", "public");
        let is_published = world.wait_until(SOON, || site.address_of("web-0").is_some()).await;
        world.expect(7, "web-0", "given an IPAddress, and no status", is_published && !site.is_bound("web-0"));
        world.advance(Duration::from_secs(2)).await;
        world.users_interfered.set(true);
        site.delete_by_force(Kind::Claim, "web-0");
        wire.hang("ipaddresses", Fault::Refused(Rejection::Server), Duration::from_secs(10));
        world.expect_gone(Kind::Address).await;
    });
    outcome.assert_lawful();
}
