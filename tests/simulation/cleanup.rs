//! Releasing an address and deleting a pool need credentials that work, and nothing else of the pool's spec.

use std::time::Duration;

use caip_openstack::api::names::{ABANDON_ANNOTATION, POOL_ID_ANNOTATION};
use serde_json::json;

use crate::api::Kind;
use crate::api::objects::finalizers;
use crate::deletion::orders;
use crate::history::Tampering;
use crate::laws::text;
use crate::memory::Alteration;
use crate::operators::OTHER_SECRET;
use crate::users::key;
use crate::wire::Fault;
use crate::world::{NAMESPACE, Site, Start, World};
use crate::{is_due, simulate, simulate_bound};

const START: Start = Start { seed: 7, sites: 1, replicas: 1, slowest: 20, is_logged: true };
const SOON: Duration = Duration::from_secs(60);

#[test]
fn a_pool_that_is_being_deleted_takes_the_new_credentials_of_its_secret() {
    for is_restarted in [false, true] {
        simulate_bound(&START, async |world, site| {
            site.delete(Kind::Pool, "public");
            world.advance(SOON).await;
            world.cloud.change_password("ours", "renewed");
            if is_restarted {
                site.kill_controller();
            }
            world.advance(SOON).await;
            let data = serde_json::to_value(world.cloud.secret("ours")).unwrap();
            site.change(Kind::Secret, "cloud", &json!({"data": data}));
            world.advance(SOON).await;
            site.delete(Kind::Claim, "web-0");
            world.expect_gone(Kind::Claim).await;
            world.expect_gone(Kind::Pool).await;
            world.expect(4, "Neutron", "as it was before", world.cloud.floating_ips().is_empty());
        });
    }
}

#[test]
fn a_pool_and_its_secret_are_deleted_wherever_the_process_dies() {
    for (fault, call) in
        [Fault::CrashBefore, Fault::CrashAfter].into_iter().flat_map(|fault| (0..24).map(move |call| (fault, call)))
    {
        simulate_bound(&START, async |world, site| {
            site.delete(Kind::Claim, "web-0");
            world.expect_gone(Kind::Claim).await;
            world.advance(SOON).await;
            let wire = site.replicas[0].wire().expect("it runs");
            wire.plan(wire.calls() + call, fault);
            site.delete(Kind::Pool, "public");
            site.delete(Kind::Secret, "cloud");
            world.advance(2 * SOON).await;
            world.expect_gone(Kind::Pool).await;
            let is_gone = world.wait_until(SOON, || !has_secret(site, "cloud")).await;
            world.expect(9, "the Secret", &format!("gone, with {fault:?} at call {call}"), is_gone);
        });
    }
}

/// Its Secret is deleted, too, and can go as soon as the pool has the other one.
#[test]
fn a_pool_that_is_being_deleted_keeps_the_secret_that_it_names_and_no_other() {
    for is_restarted in [false, true] {
        simulate_bound(&START, async |world, site| {
            site.delete(Kind::Secret, "cloud");
            site.delete(Kind::Pool, "public");
            site.change(Kind::Pool, "public", &json!({"spec": {"identityRef": {"name": OTHER_SECRET}}}));
            world.advance(SOON).await;
            world.expect(4, "the former Secret", "kept while the present one is missing", has_secret(site, "cloud"));
            let metadata = json!({"name": OTHER_SECRET, "namespace": NAMESPACE});
            site.server.create(Kind::Secret, json!({"metadata": metadata, "data": {}})).unwrap();
            world.advance(SOON).await;
            world.expect(
                4,
                "the former Secret",
                "kept while the present one has no credentials",
                has_secret(site, "cloud"),
            );
            site.delete(Kind::Secret, OTHER_SECRET);
            world.create_other_secret(&site.server);
            if is_restarted {
                site.kill_controller();
            }
            expect_only_the_other_secret(world, site).await;
        });
    }
}

/// The pool is being deleted, names the other Secret, and waits for its claim.
async fn expect_only_the_other_secret(world: &World, site: &Site) {
    let is_gone = world.wait_until(SOON, || !has_secret(site, "cloud")).await;
    world.expect(9, "the former Secret", "gone", is_gone);
    site.delete(Kind::Secret, OTHER_SECRET);
    world.advance(SOON).await;
    world.expect(4, "the present Secret", "kept", has_secret(site, OTHER_SECRET));
    site.delete(Kind::Claim, "web-0");
    world.expect_gone(Kind::Claim).await;
    world.expect_gone(Kind::Pool).await;
    world.expect(9, "the present Secret", "gone", !has_secret(site, OTHER_SECRET));
    world.expect(4, "Neutron", "as it was before", world.cloud.floating_ips().is_empty());
}

fn has_secret(site: &Site, name: &str) -> bool {
    site.server.get(&key(Kind::Secret, name)).is_some()
}

/// What a user does with a pool that has a bound claim.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Step {
    DeleteSecret,
    CreateOtherSecret,
    NameOtherSecret,
    RenameNetwork,
    DeletePool,
    Restart,
}

#[test]
fn a_former_secret_is_released_whatever_order_it_is_left_in() {
    use Step::*;
    let all = [DeleteSecret, CreateOtherSecret, NameOtherSecret, RenameNetwork, DeletePool, Restart];
    for (point, order) in orders(&all).into_iter().enumerate().filter(|(point, _)| is_due(*point, 7)) {
        simulate_bound(&START, async |world, site| {
            for step in &order {
                world.trace.record(|| format!("--- {step:?}"));
                match step {
                    DeleteSecret => site.delete(Kind::Secret, "cloud"),
                    CreateOtherSecret => world.create_other_secret(&site.server),
                    NameOtherSecret => {
                        let spec = json!({"identityRef": {"name": OTHER_SECRET}});
                        site.change(Kind::Pool, "public", &json!({"spec": spec}));
                    }
                    RenameNetwork => world.cloud.rename_network(&world.network, "renamed"),
                    DeletePool => site.delete(Kind::Pool, "public"),
                    Restart => site.kill_controller(),
                }
                // At once, or after the controller has seen it.
                world.advance(Duration::from_secs(if point % 2 == 0 { 0 } else { 40 })).await;
            }
            expect_only_the_other_secret(world, site).await;
        });
    }
}

#[test]
fn a_claim_is_released_although_its_pool_has_a_problem_that_a_new_process_finds() {
    simulate_bound(&START, async |world, site| {
        world.cloud.rename_network(&world.network, "renamed");
        site.kill_controller();
        world.advance(2 * SOON).await;
        site.delete(Kind::Claim, "web-0");
        world.expect_gone(Kind::Claim).await;
        let is_deleted = world.wait_until(2 * SOON, || world.cloud.floating_ips().is_empty()).await;
        world.expect(4, "the floating IP", "deleted", is_deleted);
        world.cloud.rename_network(&world.network, "public");
    });
}

#[test]
fn a_claim_is_released_with_new_credentials_although_its_pool_has_a_problem() {
    simulate_bound(&START, async |world, site| {
        world.cloud.change_password("ours", "renewed");
        site.delete(Kind::Claim, "web-0");
        world.cloud.rename_network(&world.network, "renamed");
        world.advance(SOON).await;
        world.renew_secret(&site.server);
        world.expect_gone(Kind::Claim).await;
        let is_deleted = world.wait_until(2 * SOON, || world.cloud.floating_ips().is_empty()).await;
        world.expect(4, "the floating IP", "deleted", is_deleted);
        world.cloud.rename_network(&world.network, "public");
    });
}

#[test]
fn a_pool_whose_credentials_are_for_another_region_does_nothing_until_they_are_restored() {
    simulate_bound(&START, async |world, site| {
        let set_region = |region: &str| {
            world.cloud.change_region("ours", region);
            let data = serde_json::to_value(world.cloud.secret("ours")).unwrap();
            site.change(Kind::Secret, "cloud", &json!({"data": data}));
        };
        set_region("RegionTwo");
        world.advance(SOON).await;
        let pool = site.server.get(&key(Kind::Pool, "public")).map(|pool| pool["status"].to_string());
        let says_so = pool.is_some_and(|status| status.contains("are in region RegionOne"));
        world.expect(4, "public", "stopped", says_so);
        world.expect(5, "web-0", "bound still", site.is_bound("web-0"));
        let had = world.cloud.floating_ips();
        site.delete(Kind::Claim, "web-0");
        site.delete(Kind::Pool, "public");
        world.advance(5 * SOON).await;
        world.expect(4, "Neutron", "as it was", world.cloud.floating_ips() == had && had.len() == 1);
        let is_kept = [Kind::Claim, Kind::Pool].iter().all(|kind| !site.server.all(*kind).is_empty());
        world.expect(4, "the claim and the pool", "kept", is_kept);
        set_region("RegionOne");
        world.expect_gone(Kind::Claim).await;
        world.expect_gone(Kind::Pool).await;
        world.expect(4, "Neutron", "as it was before", world.cloud.floating_ips().is_empty());
    });
}

/// The controller does not correct the IPAddress then. The mark of its claim decides which floating IP is released.
#[test]
fn an_ip_address_that_was_given_another_pools_id_is_released_while_its_pool_is_being_deleted() {
    simulate_bound(&START, async |world, site| {
        site.delete(Kind::Pool, "public");
        world.advance(Duration::from_secs(5)).await;
        site.kill_controller();
        // To the id of another pool.
        world.edit_annotation(0, 2);
        world.advance(2 * SOON).await;
        let address = site.server.get(&key(Kind::Address, "web-0")).map(|address| address["metadata"].to_string());
        world.expect(5, "web-0", "misnamed still", address.is_some_and(|metadata| metadata.contains("theirs")));
        site.delete(Kind::Claim, "web-0");
        world.expect_gone(Kind::Claim).await;
        world.expect_gone(Kind::Pool).await;
        world.expect(4, "Neutron", "cleaned up", world.cloud.floating_ips().is_empty());
    });
}

/// Law 4. `clouds.yaml` names no project, and the user's default project is changed: in that one, all floating IPs of the
/// pool look deleted.
#[test]
fn a_pool_whose_user_gets_another_project_does_nothing_until_it_has_its_own_again() {
    for is_being_deleted in [false, true] {
        simulate_bound(&START, async |world, site| {
            if is_being_deleted {
                site.delete(Kind::Pool, "public");
                world.advance(SOON).await;
            }
            let had = world.cloud.floating_ips();
            world.cloud.set_project("ours", &world.cloud.add_project("theirs", None));
            site.delete(Kind::Claim, "web-0");
            world.advance(5 * SOON).await;
            world.expect(4, "Neutron", "as it was", world.cloud.floating_ips() == had && had.len() == 1);
            let (reason, message) = site.ready(Kind::Pool, NAMESPACE, "public");
            let expected = if is_being_deleted { "Deleting" } else { "ProjectChanged" };
            let says_so = reason == expected && message.contains("but the pool's floating IPs are in project");
            world.expect(4, "public", &format!("stopped, but {reason}: {message}"), says_so);
            world.cloud.set_project("ours", &world.project);
            world.expect_gone(Kind::Claim).await;
            site.delete(Kind::Pool, "public");
            world.expect_gone(Kind::Pool).await;
            world.expect(4, "Neutron", "as it was before", world.cloud.floating_ips().is_empty());
        });
    }
}

#[test]
fn the_spares_of_a_pool_whose_network_a_new_process_does_not_find_are_kept() {
    simulate_bound(&START, async |world, site| {
        site.change(Kind::Pool, "public", &json!({"spec": {"minFree": 2}}));
        let is_ready = world.wait_until(SOON, || world.cloud.floating_ips().len() == 3).await;
        world.expect(7, "public", "ready with two spares", is_ready);
        world.cloud.rename_network(&world.network, "renamed");
        site.kill_controller();
        world.advance(2 * SOON).await;
        site.delete(Kind::Claim, "web-0");
        world.expect_gone(Kind::Claim).await;
        world.advance(2 * SOON).await;
        world.expect(4, "the spares", "kept", world.cloud.floating_ips().len() == 2);
        world.cloud.rename_network(&world.network, "public");
    });
}

#[test]
fn a_pool_that_never_served_takes_the_credentials_of_another_project() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        world.cloud.rename_network(&world.network, "elsewhere");
        site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}, "poolID": "fixed"}));
        world.advance(SOON).await;
        world.cloud.change_region("ours", "RegionTwo");
        let data = serde_json::to_value(world.cloud.secret("ours")).unwrap();
        site.change(Kind::Secret, "cloud", &json!({"data": data}));
        world.cloud.rename_network(&world.network, "public");
        site.create_claim("web-0", "public");
        let is_bound = world.wait_until(2 * SOON, || site.is_bound("web-0")).await;
        world.expect(7, "web-0", "bound", is_bound);
    });
    outcome.assert_lawful();
}

/// Otherwise it could never be deleted: its Secret is kept only until the older pool is gone.
#[test]
fn a_pool_that_is_created_while_its_secret_is_being_deleted_begins_nothing() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        let network = json!({"floatingIPNetwork": {"filter": {"name": "public"}}});
        site.create_pool("public", &network);
        site.create_claim("web-0", "public");
        world.wait_until(SOON, || site.is_bound("web-0")).await;
        site.delete(Kind::Secret, "cloud");
        site.create_pool("second", &network);
        site.create_claim("web-1", "second");
        world.advance(SOON).await;
        world.expect(9, "web-1", "not served", !site.is_bound("web-1"));
        for (kind, name) in [(Kind::Claim, "web-0"), (Kind::Claim, "web-1"), (Kind::Pool, "public")] {
            site.delete(kind, name);
        }
        world.expect_gone(Kind::Secret).await;
        site.delete(Kind::Pool, "second");
        world.expect_gone(Kind::Pool).await;
        world.expect_gone(Kind::Claim).await;
        world.expect(4, "Neutron", "as it was before", world.cloud.floating_ips().is_empty());
        world.skips_rest.set(true);
    });
    outcome.assert_lawful();
}

#[test]
fn an_id_that_a_user_removes_while_no_controller_runs_is_read_from_the_status() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}, "minFree": 1}));
        world.wait_until(SOON, || !world.cloud.floating_ips().is_empty()).await;
        world.advance(SOON).await;
        site.kill_controller();
        site.change(Kind::Pool, "public", &json!({"metadata": {"annotations": {POOL_ID_ANNOTATION: null}}}));
        world.advance(SOON).await;
        site.delete(Kind::Pool, "public");
        world.expect_gone(Kind::Pool).await;
        world.expect(4, "the spare", "deleted", world.cloud.floating_ips().is_empty());
    });
    outcome.assert_lawful();
}

/// Runs a pool with two spares, and then acts.
fn with_two_spares(act: impl AsyncFnOnce(&World, &Site)) {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}, "minFree": 2}));
        world.wait_until(SOON, || world.cloud.floating_ips().len() == 2).await;
        world.advance(SOON).await;
        act(world, site).await;
    });
    outcome.assert_lawful();
}

/// Waits until the pool `public` is not deleted, since its floating IPs are hidden, and says so.
async fn expect_hidden(world: &World, site: &Site) {
    world.advance(2 * SOON).await;
    let pool = site.server.get(&key(Kind::Pool, "public")).map(|pool| pool["status"].to_string());
    let says_so = pool.is_some_and(|status| status.contains("is not listed any more, and Neutron does not say"));
    world.expect(4, "public", "there, and says why", says_so);
}

/// The cloud shows its floating IPs again.
async fn expect_deleted_once_shown(world: &World) {
    world.cloud.alter(Alteration::None);
    world.expect_gone(Kind::Pool).await;
    world.expect(4, "Neutron", "as it was before", world.cloud.floating_ips().is_empty());
}

/// Law 4. Neutron answers 200 with an empty list if the role of the credentials may not see floating IPs.
#[test]
fn a_pool_whose_floating_ips_are_hidden_is_deleted_once_they_can_be_seen() {
    with_two_spares(async |world, site| {
        world.cloud.alter(Alteration::HidesFloatingIps);
        site.delete(Kind::Pool, "public");
        expect_hidden(world, site).await;
        // As an administrator who reads the condition does. The other one stays hidden.
        world.users_interfered.set(true);
        let spare = world.cloud.floating_ips()[1].id.clone();
        world.tamper(|world| world.cloud.delete(&spare));
        expect_hidden(world, site).await;
        expect_deleted_once_shown(world).await;
    });
}

#[test]
fn a_process_that_finds_a_pool_being_deleted_notices_that_its_floating_ips_are_hidden() {
    with_two_spares(async |world, site| {
        world.cloud.alter(Alteration::FailsDeletions);
        site.delete(Kind::Pool, "public");
        world.advance(SOON).await;
        site.kill_controller();
        world.advance(SOON).await;
        world.cloud.alter(Alteration::HidesFloatingIps);
        expect_hidden(world, site).await;
        expect_deleted_once_shown(world).await;
    });
}

/// Law 9.
#[test]
fn an_abandoned_pool_names_its_hidden_floating_ips() {
    with_two_spares(async |world, site| {
        world.cloud.alter(Alteration::HidesFloatingIps);
        site.delete(Kind::Pool, "public");
        expect_hidden(world, site).await;
        site.change(Kind::Pool, "public", &json!({"metadata": {"annotations": {ABANDON_ANNOTATION: "true"}}}));
        world.expect_gone(Kind::Pool).await;
        let events = site.server.all(Kind::Event);
        for fip in world.cloud.floating_ips() {
            let named = format!("{} (not listed any more)", fip.address);
            world.expect(9, &named, "in an event", events.iter().any(|event| text(event, "/note").contains(&named)));
        }
        world.skips_rest.set(true);
    });
}

/// Users delete what is theirs.
#[test]
fn a_pool_whose_spare_a_user_deleted_is_deleted() {
    with_two_spares(async |world, site| {
        world.users_interfered.set(true);
        let spare = world.cloud.floating_ips()[0].id.clone();
        world.tamper(|world| world.cloud.delete(&spare));
        site.delete(Kind::Pool, "public");
        world.expect_gone(Kind::Pool).await;
    });
}

/// As `clusterctl move` leaves a Secret that it does not move, or an impatient user.
#[test]
fn a_secret_can_be_deleted_after_its_pool_was_removed_by_force() {
    for is_restarted in [false, true] {
        let outcome = simulate(&START, async |world: &World| {
            let site = &world.sites[0];
            site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
            site.create_pool("other", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
            world.advance(SOON).await;
            if is_restarted {
                site.kill_controller();
            }
            site.delete_by_force(Kind::Pool, "public");
            world.advance(SOON).await;
            let finalizers = || site.server.get(&key(Kind::Secret, "cloud")).map(|it| finalizers(&it).len());
            world.expect(9, "the Secret", "protected for the other pool alone", finalizers() == Some(1));
            site.delete(Kind::Pool, "other");
            world.expect_gone(Kind::Pool).await;
            site.delete(Kind::Secret, "cloud");
            world.expect_gone(Kind::Secret).await;
            world.skips_rest.set(true);
        });
        outcome.assert_lawful();
    }
}

#[test]
fn a_pool_whose_subnet_is_not_found_releases_as_its_present_spec_says() {
    simulate_bound(&START, async |world, site| {
        site.change(Kind::Pool, "public", &json!({"spec": {"reuseGracePeriodSeconds": 86400}}));
        world.advance(SOON).await;
        site.delete(Kind::Claim, "web-0");
        world.expect_gone(Kind::Claim).await;
        site.change(Kind::Pool, "public", &json!({"spec": {"subnets": [{"filter": {"name": "missing"}}]}}));
        world.advance(SOON).await;
        world.expect(4, "the floating IP", "kept in its grace period", world.cloud.floating_ips().len() == 1);
        site.change(Kind::Pool, "public", &json!({"spec": {"reuseGracePeriodSeconds": null}}));
        let is_deleted = world.wait_until(2 * SOON, || world.cloud.floating_ips().is_empty()).await;
        world.expect(4, "the floating IP", "deleted", is_deleted);
        site.change(Kind::Pool, "public", &json!({"spec": {"subnets": null}}));
    });
}

/// Law 4. A clock was wrong, or a user wrote the tag.
#[test]
fn an_address_that_was_released_in_the_future_does_not_rest_until_then() {
    simulate_bound(&START, async |world, site| {
        site.kill_controller();
        world.tamper_with(0, Tampering::MarkReleased(true));
        site.delete(Kind::Claim, "web-0");
        let is_gone = world.wait_until(Duration::from_secs(240), || world.cloud.floating_ips().is_empty()).await;
        world.expect(4, "the floating IP", "deleted", is_gone);
    });
}
