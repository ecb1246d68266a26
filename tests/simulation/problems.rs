//! What a pool with a problem still does for the claims that have addresses.

use std::time::Duration;

use caip_openstack::allocation::mark::Marks;
use caip_openstack::api::names::{FLOATING_IP_ID_ANNOTATION, POOL_ID_ANNOTATION};
use serde_json::{Value, json};

use crate::api::Kind;
use crate::fault::Rejection;
use crate::laws::{pool_id, text};
use crate::users::key;
use crate::world::{NAMESPACE, Site, Start, World, address};
use crate::{simulate, simulate_bound};

const START: Start = Start { seed: 13, sites: 1, replicas: 1, slowest: 20, is_logged: true };
const SOON: Duration = Duration::from_secs(60);

/// Runs a history with a claim that has an address of a pool whose subnet is not found; once in the process that gave the
/// address, once in its successor.
fn with_missing_subnet(history: impl AsyncFn(&World, &Site)) {
    for is_restarted in [false, true] {
        simulate_bound(&START, async |world, site| {
            set_subnets(site, json!([{"filter": {"name": "missing"}}]));
            if is_restarted {
                site.kill_controller();
            }
            world.advance(SOON).await;
            history(world, site).await;
            set_subnets(site, Value::Null);
        });
    }
}

impl Site {
    fn delete_address(&self, name: &str, is_forced: bool) {
        if is_forced {
            self.delete_by_force(Kind::Address, name);
        } else {
            self.delete(Kind::Address, name);
        }
    }
}

fn set_subnets(site: &Site, subnets: Value) {
    site.change(Kind::Pool, "public", &json!({"spec": {"subnets": subnets}}));
}

#[test]
fn a_claim_whose_ip_address_is_deleted_gets_it_again() {
    with_missing_subnet(async |world, site| {
        let had = site.address_of("web-0");
        for is_forced in [false, true] {
            let uid = || site.server.get(&key(Kind::Address, "web-0")).map(|it| it["metadata"]["uid"].clone());
            let deleted = uid();
            site.delete_address("web-0", is_forced);
            let is_there = world.wait_until(SOON, || uid().is_some_and(|it| Some(it) != deleted)).await;
            world.expect(7, "web-0", "given an IPAddress again", is_there);
            world.expect(5, "web-0", "given the same floating IP", site.address_of("web-0") == had);
        }
    });
}

#[test]
fn a_claim_whose_floating_ip_is_gone_too_is_told_the_problem_of_its_pool() {
    with_missing_subnet(async |world, site| {
        let (_, id) = site.address_of("web-0").unwrap();
        world.users_interfered.set(true);
        world.tamper(|world| world.cloud.delete(&id));
        world.advance(2 * SOON).await;
        site.delete(Kind::Address, "web-0");
        let is_told = world.wait_until(SOON, || site.is_told("web-0", "SubnetNotFound")).await;
        world.expect(7, "web-0", "told why it has no address", is_told);
        set_subnets(site, Value::Null);
        let is_there = world.wait_until(3 * SOON, || site.address_of("web-0").is_some()).await;
        world.expect(7, "web-0", "given another address once the subnet is not named", is_there);
    });
}

#[test]
fn a_pool_id_that_a_user_removes_or_overwrites_is_written_again() {
    for (value, is_restarted) in [(Value::Null, false), (json!("another"), false), (json!("another"), true)] {
        let tamper = async |world: &World, site: &Site| {
            let id = || site.server.get(&key(Kind::Pool, "public")).and_then(|pool| pool_id(&pool));
            let had = id();
            world.users_interfered.set(true);
            if is_restarted {
                site.kill_controller();
            }
            site.change(Kind::Pool, "public", &json!({"metadata": {"annotations": {POOL_ID_ANNOTATION: value}}}));
            let is_written = world.wait_until(2 * SOON, || id() == had).await;
            world.expect(5, "public", "given its id again", is_written);
            site.delete(Kind::Claim, "web-0");
            world.expect_gone(Kind::Claim).await;
            world.advance(2 * SOON).await;
            world.expect(4, "Neutron", "without floating IPs", world.cloud.floating_ips().is_empty());
        };
        simulate_bound(&START, tamper);
        with_missing_subnet(tamper);
    }
}

/// `clusterctl move` and a restore write over a pool that GitOps has created again.
#[test]
fn a_pool_that_has_nothing_takes_the_id_that_is_written_over_its_own() {
    #[derive(Clone, Copy, PartialEq)]
    enum Then {
        Nothing,
        Restart,
        Problem,
        Deletion,
    }
    for (seed, then) in [Then::Nothing, Then::Restart, Then::Problem, Then::Deletion].into_iter().enumerate() {
        simulate_bound(&Start { seed: seed as u64, ..START }, async |world, site| {
            let pool = || site.server.get(&key(Kind::Pool, "public"));
            let (had, id) = (site.address_of("web-0"), pool().and_then(|pool| pool_id(&pool)).unwrap());
            let reported = || pool().map(|pool| text(&pool, "/status/poolID").to_owned()).unwrap_or_default();
            world.users_interfered.set(true);
            site.kill_controller();
            for (kind, name) in [(Kind::Address, "web-0"), (Kind::Claim, "web-0"), (Kind::Pool, "public")] {
                site.delete_by_force(kind, name);
            }
            site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
            world.expect(7, "public", "ready", world.wait_until(SOON, || !reported().is_empty()).await);
            world.expect(5, "public", "given an id of its own", reported() != id.as_str());
            match then {
                Then::Restart => site.kill_controller(),
                Then::Problem => {
                    set_subnets(site, json!([{"filter": {"name": "missing"}}]));
                    world.advance(SOON).await;
                }
                Then::Nothing | Then::Deletion => {}
            }
            site.change(Kind::Pool, "public", &json!({"metadata": {"annotations": {POOL_ID_ANNOTATION: id.as_str()}}}));
            site.create_claim("web-0", "public");
            if then == Then::Deletion {
                site.delete(Kind::Pool, "public");
            } else {
                world.advance(SOON).await;
                set_subnets(site, Value::Null);
                world.await_bound("web-0").await;
                world.expect(5, "web-0", "given its address again", site.address_of("web-0") == had);
            }
            site.delete(Kind::Claim, "web-0");
            site.delete(Kind::Pool, "public");
            world.expect_gone(Kind::Pool).await;
            world.expect(4, "Neutron", "without floating IPs", world.cloud.floating_ips().is_empty());
        });
    }
}

/// As the condition says. It still has our finalizer.
#[test]
fn an_ip_address_that_the_pool_does_not_know_goes_when_a_user_deletes_it() {
    simulate_bound(&START, async |world, site| {
        world.users_interfered.set(true);
        site.change(Kind::Address, "web-0", &json!({"metadata": {"annotations": {POOL_ID_ANNOTATION: "another"}}}));
        world.advance(SOON).await;
        let uid = || site.server.get(&key(Kind::Address, "web-0")).map(|it| it["metadata"]["uid"].clone());
        let had = uid();
        site.delete(Kind::Address, "web-0");
        let is_there = world.wait_until(2 * SOON, || uid().is_some_and(|it| Some(it) != had)).await;
        world.expect(7, "web-0", "given an IPAddress again", is_there);
    });
}

/// The role lacks the permission to list CAPO's pools, so that whether one has the pool's name is not known.
#[test]
fn claims_of_a_pool_that_kubernetes_refuses_something_are_told_so_and_get_nothing() {
    let network = || json!({"filter": {"name": "public"}});
    for spec in [
        json!({"floatingIPNetwork": network()}),
        json!({"floatingIPNetwork": network(), "poolID": "k3v9x0q2ab"}),
        json!({"preAllocatedFloatingIPs": [address(0)], "poolID": "k3v9x0q2ab"}),
    ] {
        let outcome = simulate(&START, async |world: &World| {
            let site = &world.sites[0];
            world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(0)));
            world.wait_until(SOON, || site.replicas[0].wire().is_some()).await;
            site.replicas[0].wire().unwrap().forbid("infrastructure.cluster.x-k8s.io", SOON);
            site.create_pool("public", &spec);
            site.create_claim("web-0", "public");
            world.advance(SOON / 2).await;
            let (reason, message) = site.ready(Kind::Claim, NAMESPACE, "web-0");
            let is_so = reason == "PoolNotReady" && message.contains("list CAPO's pools");
            world.expect(7, "web-0", &format!("told why it waits, not {reason}: {message}"), is_so);
            world.expect(7, "web-0", "without an address", !site.is_bound("web-0"));
            let is_bound = world.wait_until(2 * SOON, || site.is_bound("web-0")).await;
            world.expect(7, "web-0", "bound", is_bound);
        });
        outcome.assert_lawful();
    }
}

/// A process starts, and CAPO has a pool with the name.
#[test]
fn what_was_released_goes_although_the_pool_has_stopped() {
    simulate_bound(&START, async |world, site| {
        site.change(Kind::Pool, "public", &json!({"spec": {"reuseGracePeriodSeconds": 60}}));
        world.advance(SOON).await;
        site.delete(Kind::Claim, "web-0");
        world.expect_gone(Kind::Claim).await;
        site.kill_controller();
        let namesake = json!({"metadata": {"name": "public", "namespace": NAMESPACE}, "spec": {}});
        site.server.create(Kind::InTreePool, namesake).expect("it is valid");
        let is_gone = world.wait_until(4 * SOON, || world.cloud.floating_ips().is_empty()).await;
        world.expect(4, "the floating IP", "deleted", is_gone);
    });
}

#[test]
fn a_mark_that_a_user_removes_is_written_again() {
    with_missing_subnet(async |world, site| {
        let (_, id) = site.address_of("web-0").unwrap();
        let is_marked = || {
            let fips = world.cloud.floating_ips();
            fips.iter().any(|fip| fip.id == id && !Marks::read(fip).pools().is_empty())
        };
        world.tamper(|world| world.cloud.edit(&id, |fip| fip.description.clear()));
        let is_written = world.wait_until(2 * SOON, is_marked).await;
        world.expect(5, "web-0", "marked again", is_written);
    });
}

#[test]
fn the_figures_of_the_pool_follow_its_claims() {
    with_missing_subnet(async |world, site| {
        let allocated = || {
            let pool = site.server.get(&key(Kind::Pool, "public"));
            pool.and_then(|pool| pool["status"]["addresses"]["allocated"].as_u64())
        };
        world.expect(4, "public", "showing one address allocated", allocated() == Some(1));
        site.delete(Kind::Claim, "web-0");
        world.expect_gone(Kind::Claim).await;
        let is_shown = world.wait_until(2 * SOON, || allocated() == Some(0)).await;
        world.expect(4, "public", "showing that none is allocated", is_shown);
    });
}

#[test]
fn a_claim_without_a_pool_whose_ip_address_is_deleted_is_told_so_and_has_it_again_with_a_new_pool() {
    // The watches deliver the two deletions in either order.
    for (seed, is_forced) in (0..12).flat_map(|seed| [(seed, false), (seed, true)]) {
        simulate_bound(&Start { seed, ..START }, async |world, site| {
            let had = site.address_of("web-0");
            let pool = site.server.get(&key(Kind::Pool, "public")).unwrap();
            world.users_interfered.set(true);
            site.delete_by_force(Kind::Pool, "public");
            site.delete_address("web-0", is_forced);
            // Unless the controller saw the deletion of the IPAddress first, and created it again.
            let has_it = || is_forced && site.address_of("web-0") == had;
            let is_told = || site.is_told("web-0", "does not exist in this namespace") || has_it();
            let is_told = world.wait_until(SOON, is_told).await;
            world.expect(7, "web-0", "told that its pool is gone", is_told);
            let id = if is_forced { json!(pool_id(&pool).unwrap().as_str()) } else { Value::Null };
            site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}, "poolID": id}));
            let has_it_again = || site.address_of("web-0") == had && site.is_told("web-0", "AddressAllocated");
            let is_recovered = world.wait_until(2 * SOON, has_it_again).await;
            world.expect(5, "web-0", "given its address again", is_recovered);
        });
    }
}

#[test]
fn nothing_is_created_on_the_network_of_before() {
    simulate_bound(&START, async |world, site| {
        let missing = json!({"floatingIPNetwork": {"filter": {"name": "missing"}}});
        site.change(Kind::Pool, "public", &json!({"spec": missing}));
        world.advance(SOON).await;
        site.change(Kind::Pool, "public", &json!({"spec": {"minFree": 2}}));
        world.advance(2 * SOON).await;
        world.expect(4, "the project", "with the claim's address alone", world.cloud.floating_ips().len() == 1);
    });
}

/// Law 7. An interrupted move that is repeated leaves it without annotations: only OpenStack knows whose it is.
#[test]
fn an_ip_address_without_annotations_is_not_called_another_ones_before_its_project_is_listed() {
    simulate_bound(&START, async |world, site| {
        let had = site.address_of("web-0").map(|(address, _)| address);
        world.users_interfered.set(true);
        site.kill_controller();
        let annotations = json!({POOL_ID_ANNOTATION: null, FLOATING_IP_ID_ANNOTATION: null});
        site.change(Kind::Address, "web-0", &json!({"metadata": {"annotations": annotations}}));
        // Before it lists.
        while site.replicas[0].wire().is_none() {
            world.advance(Duration::from_millis(20)).await;
        }
        let wire = site.replicas[0].wire().expect("it runs");
        wire.refuse("list floating IPs", Rejection::Server, SOON / 2);
        let is_misled = world.wait_until(SOON / 2, || site.is_told("web-0", "was not created by this pool")).await;
        world.expect(7, "web-0", "told what is wrong", !is_misled && site.is_told("web-0", "internal error"));
        wire.clear_faults();
        let has_it = || {
            let has = site.address_of("web-0").map(|(address, _)| address);
            has == had && site.is_told("web-0", "AddressAllocated")
        };
        let is_recovered = world.wait_until(SOON, has_it).await;
        world.expect(5, "web-0", "bound as before", is_recovered);
    });
}
