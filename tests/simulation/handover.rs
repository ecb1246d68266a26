//! One process ends and another takes over while calls of the first one may still take effect.

use std::time::Duration;

use caip_openstack::allocation::mark::Marks;
use serde_json::json;

use crate::api::Kind;
use crate::api::objects::merge;
use crate::simulate;
use crate::wire::{Fault, Side};
use crate::world::{Start, World, address};

const SOON: Duration = Duration::from_secs(60);

async fn create_pool(world: &World) {
    let network = json!({"filter": {"name": "public"}});
    world.sites[0]
        .create_pool("public", &json!({"floatingIPNetwork": network, "maxIPs": 1, "orphans": {"graceSeconds": 3600}}));
    world.advance(Duration::from_secs(30)).await;
}

/// The claim is bound in time, and what could still land does not take its floating IP.
async fn expect_bound_for_good(world: &World, claim: &str) {
    let site = &world.sites[0];
    let is_bound = world.wait_until(3 * SOON, || site.is_bound(claim)).await;
    world.expect(7, claim, "bound", is_bound);
    world.advance(SOON).await;
    let had = site.address_of(claim).map(|(_, id)| id);
    let is_there = world.cloud.floating_ips().into_iter().any(|fip| Some(fip.id) == had);
    world.expect(5, claim, "still with its floating IP", is_there);
}

/// A POST of the leader lands long after the leader was told to end.
#[test]
fn a_process_that_is_terminated_with_a_call_in_doubt_does_not_hand_over_at_once() {
    for lands_after in [45, 55] {
        let start = Start { seed: 3, sites: 1, replicas: 2, slowest: 20, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            create_pool(world).await;
            let late = Fault::Late(Duration::from_secs(lands_after));
            for replica in &site.replicas {
                replica.add_outage(Side::OpenStack, late, 8, Duration::from_secs(3));
            }
            site.create_claim("web-0", "public");
            world.advance(Duration::from_secs(32)).await;
            site.replicas.iter().for_each(|replica| replica.terminate.notify_waiters());
            let is_bound = world.wait_until(3 * SOON, || site.is_bound("web-0")).await;
            world.expect(7, "web-0", "bound", is_bound);
            for _ in 0..60 {
                world.advance(Duration::from_secs(1)).await;
                world.expect(6, "public", "within maxIPs", world.cloud.floating_ips().len() <= 1);
            }
        });
        outcome.assert_lawful();
    }
}

/// The predecessor is killed with a POST under way, and its claim is deleted before the POST lands.
#[test]
fn a_claim_without_an_address_is_released_only_when_no_call_of_a_predecessor_can_land() {
    for lands_after in [5, 20] {
        let start = Start { seed: 3, sites: 1, replicas: 1, slowest: 20, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            create_pool(world).await;
            let late = Fault::CrashAndLand(Duration::from_secs(lands_after));
            site.replicas[0].add_outage(Side::OpenStack, late, 8, Duration::from_secs(3));
            site.create_claim("web-0", "public");
            world.advance(Duration::from_secs(1)).await;
            site.delete(Kind::Claim, "web-0");
            let is_gone = world.wait_until(2 * SOON, || site.server.all(Kind::Claim).is_empty()).await;
            world.expect(9, "web-0", "gone", is_gone);
            // Sooner than an orphan is released.
            let is_clean = world.wait_until(SOON, || world.cloud.floating_ips().is_empty()).await;
            world.expect(4, "the floating IP", "deleted", is_clean);
        });
        outcome.assert_lawful();
    }
}

/// What Neutron offered could not be given, and is being deleted when the process dies. Then it could be given.
#[test]
fn an_unwanted_address_is_not_given_while_a_predecessors_deletion_may_land() {
    let start = Start { seed: 3, sites: 1, replicas: 1, slowest: 1_500, is_logged: true };
    let outcome = simulate(&start, async |world: &World| {
        let site = &world.sites[0];
        let spec =
            json!({"floatingIPNetwork": {"filter": {"name": "public"}}, "excludedAddresses": ["203.0.113.0/24"]});
        site.create_pool("public", &spec);
        world.advance(Duration::from_secs(30)).await;
        let wire = site.replicas[0].wire().expect("it runs");
        wire.hang("delete floating IP", Fault::CrashAndLand(Duration::from_secs(29)), SOON);
        site.create_claim("web-0", "public");
        let is_dead = world.wait_until(SOON, || wire.is_dead()).await;
        world.expect(4, "what cannot be given", "being deleted", is_dead);
        site.change(Kind::Pool, "public", &json!({"spec": {"excludedAddresses": []}}));
        expect_bound_for_good(world, "web-0").await;
    });
    outcome.assert_lawful();
}

/// A pool comes from another management cluster while a POST of that one is under way. The process that serves it now has
/// run for long, so that it has no predecessor of its own.
#[test]
fn a_pool_that_was_moved_here_waits_for_the_calls_of_the_other_cluster() {
    for lands_after in [5, 20] {
        let start = Start { seed: 3, sites: 2, replicas: 1, slowest: 20, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let [from, to] = [0, 1].map(|site| &world.sites[site]);
            create_pool(world).await;
            world.advance(SOON).await;
            let late = Fault::CrashAndLand(Duration::from_secs(lands_after));
            from.replicas[0].add_outage(Side::OpenStack, late, 8, Duration::from_secs(3));
            from.create_claim("web-0", "public");
            world.advance(Duration::from_secs(1)).await;
            world.move_to(from, to);
            let is_bound = world.wait_until(2 * SOON, || to.is_bound("web-0")).await;
            world.expect(7, "web-0", "bound", is_bound);
            world.advance(Duration::from_secs(lands_after)).await;
            world.expect(6, "public", "within maxIPs", world.cloud.floating_ips().len() <= 1);
        });
        outcome.assert_lawful();
    }
}

/// The same, but the process that serves the pool first starts after it has come, as in a new management cluster; or ends
/// cleanly soon after that.
#[test]
fn a_pool_that_was_moved_here_waits_for_them_also_if_the_process_is_a_new_one() {
    for (is_new, seed) in [(true, 3), (true, 4), (true, 5), (false, 3), (false, 4)] {
        let start = Start { seed, sites: 2, replicas: 2, slowest: 20, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let [from, to] = [0, 1].map(|site| &world.sites[site]);
            create_pool(world).await;
            world.advance(SOON).await;
            let late = Fault::CrashAndLand(Duration::from_secs(20));
            for replica in &from.replicas {
                replica.add_outage(Side::OpenStack, late, 8, Duration::from_secs(3));
            }
            from.create_claim("web-0", "public");
            world.advance(Duration::from_secs(1)).await;
            let terminate = || to.replicas.iter().for_each(|replica| replica.terminate.notify_waiters());
            if is_new {
                terminate();
                world.advance(Duration::from_secs(1)).await;
            }
            world.move_to(from, to);
            if !is_new {
                world.advance(Duration::from_secs(3)).await;
                terminate();
            }
            let is_bound = world.wait_until(2 * SOON, || to.is_bound("web-0")).await;
            world.expect(7, "web-0", "bound", is_bound);
            world.advance(Duration::from_secs(20)).await;
            world.expect(6, "public", "within maxIPs", world.cloud.floating_ips().len() <= 1);
        });
        outcome.assert_lawful();
    }
}

/// A process is killed with a POST under way. The next one gives the claim another address and ends cleanly, and the third
/// releases the claim before the POST lands.
#[test]
fn a_clean_end_hands_on_what_the_predecessor_left() {
    for (replicas, is_terminated) in [(2, true), (2, false), (1, true), (1, false)] {
        let start = Start { seed: 3, sites: 1, replicas, slowest: 20, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            let network = json!({"filter": {"name": "public"}});
            site.create_pool("public", &json!({"floatingIPNetwork": network, "orphans": {"graceSeconds": 3600}}));
            world.advance(Duration::from_secs(30)).await;
            let late = Fault::CrashAndLand(Duration::from_secs(25));
            for replica in &site.replicas {
                replica.add_outage(Side::OpenStack, late, 8, Duration::from_secs(1));
            }
            site.create_claim("web-0", "public");
            let is_bound = world.wait_until(SOON, || site.is_bound("web-0")).await;
            world.expect(7, "web-0", "bound while the POST is under way", is_bound);
            match is_terminated {
                true => site.replicas.iter().for_each(|replica| replica.terminate.notify_waiters()),
                false => site.kill_controller(),
            }
            site.delete(Kind::Claim, "web-0");
            let is_gone = world.wait_until(2 * SOON, || site.server.all(Kind::Claim).is_empty()).await;
            world.expect(9, "web-0", "gone", is_gone);
            world.advance(SOON).await;
            world.expect(4, "Neutron", "as it was before", world.cloud.floating_ips().is_empty());
        });
        outcome.assert_lawful();
    }
}

/// The predecessor was killed, and the pool has addresses that its calls may still change: a released one, and free ones of
/// the list. A new claim gets a new address at once, whatever else the spec says; only `maxIPs` makes it wait.
#[test]
fn a_claim_gets_a_new_address_while_the_others_may_not_be_touched() {
    let specs = [
        (json!({}), true),
        (json!({"preAllocatedFloatingIPs": [address(0), address(1)]}), true),
        (json!({"excludedAddresses": ["203.0.113.11"], "reservations": [{"claim": "a", "address": address(2)}]}), true),
        (json!({"subnets": [{"filter": {"name": "v4"}}], "minFree": 1}), true),
        (json!({"reuse": {"policy": "Unmarked", "minIdleSeconds": 0}}), true),
        (json!({"maxIPs": 8}), false),
    ];
    for (seed, (extra, is_at_once)) in (0..).zip(specs) {
        let start = Start { seed, sites: 1, replicas: 1, slowest: 20, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            for index in [0, 1] {
                world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(index)));
            }
            let mut spec = json!({"floatingIPNetwork": {"filter": {"name": "public"}}});
            merge(&mut spec, &extra);
            site.create_pool("public", &spec);
            for claim in ["web-0", "web-1", "web-2"] {
                site.create_claim(claim, "public");
            }
            world.advance(2 * SOON).await;
            site.delete(Kind::Claim, "web-0");
            world.advance(Duration::from_millis(800)).await;
            site.kill_controller();
            site.create_claim("web-3", "public");
            // A process is started again within 2 s.
            let is_bound = world.wait_until(Duration::from_secs(12), || site.is_bound("web-3")).await;
            world.expect(7, "web-3", &format!("served in time with {extra}"), is_bound == is_at_once);
            let is_bound = world.wait_until(SOON, || site.is_bound("web-3")).await;
            world.expect(7, "web-3", "bound", is_bound);
        });
        outcome.assert_lawful();
    }
}

/// The leader stands still for so long that another process leads, and then goes on with the POST that it was about to
/// send.
#[test]
fn a_process_that_stood_still_sends_no_call_once_its_lease_may_have_ended() {
    for seed in 0..32 {
        let start = Start { seed, sites: 1, replicas: 2, slowest: 150, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            create_pool(world).await;
            site.create_claim("web-0", "public");
            world.advance(Duration::from_millis(50 * seed)).await;
            for replica in &site.replicas[..1] {
                replica.wire().expect("it runs").freeze(Duration::from_secs(90));
            }
            let is_bound = world.wait_until(3 * SOON, || site.is_bound("web-0")).await;
            world.expect(7, "web-0", "bound", is_bound);
            world.advance(2 * SOON).await;
        });
        outcome.assert_lawful();
    }
}

/// The POST of an IPAddress lands when its claim has been deleted, and another one waits for the address.
#[test]
fn an_address_whose_ip_address_may_still_appear_is_not_released() {
    for lands_after in [35, 45, 55] {
        let start = Start { seed: 3, sites: 1, replicas: 1, slowest: 20, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(0)));
            site.create_pool("public", &json!({"preAllocatedFloatingIPs": [address(0).to_string()]}));
            world.advance(SOON).await;
            let late = Fault::Late(Duration::from_secs(lands_after));
            site.replicas[0].wire().expect("it runs").hang("ipaddresses", late, Duration::from_secs(3));
            site.create_claim("web-0", "public");
            world.advance(Duration::from_secs(5)).await;
            site.delete(Kind::Claim, "web-0");
            site.create_claim("web-1", "public");
            let is_bound = world.wait_until(3 * SOON, || site.is_bound("web-1")).await;
            world.expect(7, "web-1", "bound", is_bound);
            for _ in 0..60 {
                world.advance(Duration::from_secs(1)).await;
                world.expect(1, "web-0", "without an IPAddress", site.server.all(Kind::Address).len() == 1);
            }
        });
        outcome.assert_lawful();
    }
}

/// A pool is lost and restored while a claim's mark is being written on its spare.
#[test]
fn an_address_whose_mark_is_being_written_is_not_given_again_when_its_pool_was_lost() {
    let start = Start { seed: 3, sites: 1, replicas: 1, slowest: 20, is_logged: true };
    let outcome = simulate(&start, async |world: &World| {
        let site = &world.sites[0];
        let network = json!({"filter": {"name": "public"}});
        let spec = json!({"floatingIPNetwork": network, "minFree": 1, "poolID": "kept"});
        site.create_pool("public", &spec);
        world.advance(SOON).await;
        let late = Fault::Late(Duration::from_secs(10));
        site.replicas[0].add_outage(Side::OpenStack, late, 8, Duration::from_millis(500));
        site.create_claim("web-0", "public");
        world.advance(Duration::from_secs(1)).await;
        site.delete_by_force(Kind::Pool, "public");
        world.advance(Duration::from_secs(1)).await;
        site.create_pool("public", &spec);
        site.create_claim("web-1", "public");
        let is_bound = world.wait_until(3 * SOON, || site.is_bound("web-0") && site.is_bound("web-1")).await;
        world.expect(7, "both claims", "bound", is_bound);
    });
    outcome.assert_lawful();
}

/// The only pool of its project is lost and restored after a POST of which nothing is known. Its Secret may name another URL
/// of Keystone by then, so that the pool gets another ledger.
#[test]
fn a_creation_that_may_still_land_counts_for_a_pool_that_was_lost_meanwhile() {
    for (lost_after, has_other_ledger) in [(32, false), (32, true), (5, true)] {
        let start = Start { seed: 3, sites: 1, replicas: 1, slowest: 20, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            let spec = json!({"floatingIPNetwork": {"filter": {"name": "public"}}, "poolID": "kept", "maxIPs": 1});
            site.create_pool("public", &spec);
            world.advance(SOON).await;
            let late = Fault::Late(Duration::from_secs(55));
            site.replicas[0].add_outage(Side::OpenStack, late, 8, Duration::from_secs(3));
            site.create_claim("web-0", "public");
            world.advance(Duration::from_secs(lost_after)).await;
            site.delete_by_force(Kind::Pool, "public");
            if has_other_ledger {
                world.move_keystone(&site.server);
            }
            world.advance(Duration::from_secs(1)).await;
            site.create_pool("public", &spec);
            for _ in 0..100 {
                world.advance(Duration::from_secs(1)).await;
                world.expect(6, "public", "within maxIPs", world.cloud.floating_ips().len() <= 1);
            }
            let is_bound = world.wait_until(3 * SOON, || site.is_bound("web-0")).await;
            world.expect(7, "web-0", "bound", is_bound);
        });
        outcome.assert_lawful();
    }
}

/// The deletion of a released address is under way when its pool's Secret names another URL of Keystone. Then the process
/// ends, and its successor finds the address.
#[test]
fn a_deletion_of_a_session_that_has_ended_is_handed_on() {
    let start = Start { seed: 3, sites: 1, replicas: 2, slowest: 20, is_logged: true };
    let outcome = simulate(&start, async |world: &World| {
        let site = &world.sites[0];
        create_pool(world).await;
        site.create_claim("web-0", "public");
        world.advance(SOON).await;
        for replica in &site.replicas {
            let late = Fault::Late(Duration::from_secs(45));
            replica.wire().expect("it runs").hang("delete floating IP", late, 2 * SOON);
        }
        site.delete(Kind::Claim, "web-0");
        world.advance(Duration::from_secs(3)).await;
        world.move_keystone(&site.server);
        world.advance(Duration::from_secs(3)).await;
        site.replicas.iter().for_each(|replica| replica.terminate.notify_waiters());
        site.create_claim("web-1", "public");
        expect_bound_for_good(world, "web-1").await;
    });
    outcome.assert_lawful();
}

/// Law 5. The management cluster is lost with the id that it had generated, which the marks in Neutron still have.
#[test]
fn a_pool_with_the_id_of_a_lost_one_gives_the_claims_their_addresses_again() {
    for is_listed in [false, true] {
        let start = Start { seed: 7, sites: 1, replicas: 1, slowest: 20, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(0)));
            let spec = match is_listed {
                true => json!({"preAllocatedFloatingIPs": [address(0), address(1)]}),
                false => json!({"floatingIPNetwork": {"filter": {"name": "public"}}, "reuse": {"policy": "Never"}}),
            };
            site.create_pool("public", &spec);
            site.create_claim("web-0", "public");
            world.await_bound("web-0").await;
            let had = site.address_of("web-0");
            site.kill_controller();
            world.users_interfered.set(true);
            for (kind, name) in [(Kind::Claim, "web-0"), (Kind::Address, "web-0"), (Kind::Pool, "public")] {
                site.delete_by_force(kind, name);
            }
            let fips = world.cloud.floating_ips();
            let id = fips.iter().find_map(|fip| Some(Marks::read(fip).pools().iter().next()?.to_string()));
            let mut spec = spec;
            spec["poolID"] = json!(id);
            site.create_pool("public", &spec);
            site.create_claim("web-0", "public");
            world.await_bound("web-0").await;
            world.expect(5, "web-0", "given the same floating IP", site.address_of("web-0") == had);
        });
        outcome.assert_lawful();
    }
}
