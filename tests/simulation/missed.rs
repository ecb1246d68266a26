//! What happens while no controller runs, while a watch starts again, or while a pool is busy. None of it is missed.

use std::time::Duration;

use caip_openstack::allocation::mark::claim_tag;
use caip_openstack::allocation::{ClaimKey, PoolId};
use caip_openstack::api::names::{ADDRESS_FINALIZER, PAUSED_ANNOTATION};
use caip_openstack::floating_ip::FloatingIp;
use serde_json::{Value, json};

use crate::api::Kind;
use crate::deletion::{CLAIMS, create_fixtures};
use crate::history::Tampering;
use crate::users::key;
use crate::wire::{Fault, Side};
use crate::world::{Site, Start, World, address};
use crate::{simulate, simulate_bound};

const START: Start = Start { seed: 13, sites: 1, replicas: 1, slowest: 20, is_logged: true };

#[test]
fn an_ip_address_that_is_deleted_while_no_controller_runs_and_its_pool_is_being_deleted_comes_back() {
    let start = Start { seed: 7, sites: 1, replicas: 1, slowest: 20, is_logged: true };
    let outcome = simulate(&start, async |world: &World| {
        create_fixtures(world).await;
        let site = &world.sites[0];
        site.delete(Kind::Pool, "public");
        let had: Vec<_> = CLAIMS.iter().map(|claim| site.address_of(claim)).collect();
        let wire = site.replicas[0].wire();
        wire.expect("it has served the claims").kill();
        CLAIMS.iter().for_each(|claim| site.delete(Kind::Address, claim));
        let is_whole = || {
            let addresses = site.server.all(Kind::Address);
            addresses.len() == CLAIMS.len()
                && addresses.iter().all(|it| it["metadata"]["deletionTimestamp"].is_null())
                && had == CLAIMS.iter().map(|claim| site.address_of(claim)).collect::<Vec<_>>()
        };
        let is_back = world.wait_until(Duration::from_secs(60), is_whole).await;
        world.expect(5, "the IPAddresses", "back, with the addresses that they had", is_back);
        world.skips_rest.set(true);
    });
    outcome.assert_lawful();
}

#[test]
fn a_claim_that_is_force_deleted_while_it_is_refused_waits_no_longer() {
    // Of a hundred claims about one is deleted at the moment that matters: between the decision that it must wait, and its
    // entry in the queue.
    for seed in 3200..3240 {
        let moment = Duration::from_millis(15 + seed % 25);
        let start = Start { seed, sites: 1, replicas: 1, slowest: 15, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}, "maxIPs": 1}));
            site.create_claim("web-0", "public");
            let is_bound = world.wait_until(Duration::from_secs(60), || site.is_bound("web-0")).await;
            world.expect(7, "the claim", "bound in time", is_bound);
            site.create_claim("web-1", "public");
            world.advance(moment).await;
            site.delete_by_force(Kind::Claim, "web-1");
            world.advance(Duration::from_secs(1)).await;
            site.delete(Kind::Claim, "web-0");
            let is_empty = world.wait_until(Duration::from_secs(60), || world.cloud.floating_ips().is_empty()).await;
            world.expect(4, "the address of the claim that was deleted", "gone", is_empty);
        });
        outcome.assert_lawful();
    }
}

#[test]
fn a_claim_that_is_force_deleted_with_its_ip_address_is_not_served_again() {
    // Each kind has a watch of its own: in some of these, the end of the IPAddress is delivered first.
    for seed in 0..24 {
        let start = Start { seed, sites: 1, replicas: 1, slowest: 1_000, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
            site.create_claim("web-0", "public");
            let is_bound = world.wait_until(Duration::from_secs(60), || site.is_bound("web-0")).await;
            world.expect(7, "the claim", "bound in time", is_bound);
            world.advance(Duration::from_secs(10)).await;
            for kind in [Kind::Claim, Kind::Address] {
                site.delete_by_force(kind, "web-0");
            }
            world.advance(Duration::from_secs(60)).await;
            let is_gone = site.server.get(&key(Kind::Address, "web-0")).is_none();
            world.expect(4, "the IPAddress of the claim that was deleted", "gone", is_gone);
            // Its floating IP is an orphan, and is reported.
            world.skips_rest.set(true);
        });
        outcome.assert_lawful();
    }
}

#[test]
fn an_ip_address_that_is_deleted_while_the_watch_restarts_comes_back() {
    for moment in (0..40).map(|step| Duration::from_millis(20 * step)) {
        let start = Start { seed: 11, sites: 1, replicas: 1, slowest: 150, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            create_fixtures(world).await;
            let site = &world.sites[0];
            let had = site.address_of("web-0");
            world.advance(Duration::from_secs(5)).await;
            site.delete(Kind::Address, "web-0");
            world.advance(moment).await;
            site.server.expire_watches();
            world.advance(Duration::from_secs(30)).await;
            let has = site.server.get(&key(Kind::Address, "web-0"));
            let is_back = has.is_some_and(|it| it["metadata"]["deletionTimestamp"].is_null());
            world.expect(5, "the IPAddress", "back", is_back && site.address_of("web-0") == had);
        });
        outcome.assert_lawful();
    }
}

#[test]
fn a_claim_is_released_when_its_paused_cluster_is_deleted_while_the_watch_restarts() {
    for seed in 0..16 {
        let start = Start { seed, sites: 1, replicas: 1, slowest: 150, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            create_fixtures(world).await;
            let site = &world.sites[0];
            site.change(Kind::Cluster, "c", &json!({"spec": {"paused": true}}));
            world.advance(Duration::from_secs(5)).await;
            site.delete(Kind::Claim, "web-0");
            world.advance(Duration::from_secs(5)).await;
            world.expect(9, "the claim of a paused Cluster", "there", site.address_of("web-0").is_some());
            site.delete(Kind::Cluster, "c");
            site.server.expire_watches();
            let is_gone = || site.server.get(&key(Kind::Claim, "web-0")).is_none();
            world.expect(9, "the claim", "gone", world.wait_until(Duration::from_secs(60), is_gone).await);
        });
        outcome.assert_lawful();
    }
}

#[test]
fn an_ip_address_that_is_deleted_while_its_busy_pool_is_paused_for_a_moment_comes_back() {
    for seed in 0..16 {
        let start = Start { seed, sites: 1, replicas: 1, slowest: 20, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            create_fixtures(world).await;
            let site = &world.sites[0];
            let pause = |value: Value| {
                site.change(Kind::Pool, "public", &json!({"metadata": {"annotations": {PAUSED_ANNOTATION: value}}}));
            };
            let (late, ever) = (Duration::from_secs(20), Duration::from_secs(1_000));
            site.replicas[0].add_outage(Side::OpenStack, Fault::Late(late), 1, ever);
            // Long enough for the pool to be looked at, and to wait for an answer.
            world.advance(Duration::from_secs(70 + seed)).await;
            pause("true".into());
            world.advance(Duration::from_secs(1)).await;
            site.delete(Kind::Address, "web-0");
            world.advance(Duration::from_secs(1)).await;
            pause(Value::Null);
        });
        outcome.assert_lawful();
    }
}

#[test]
fn an_address_that_another_owner_marks_as_it_is_published_keeps_our_mark() {
    // The other claim looks at Neutron, and sees both marks, before the watch brings the IPAddress: in some of these.
    for seed in 0..48 {
        let start = Start { seed, sites: 1, replicas: 1, slowest: 150, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let fip = world.tamper(|world| {
                world.cloud.create_at(&world.project, &world.network, address(1));
                world.cloud.create_at(&world.project, &world.network, address(0))
            });
            let site = &world.sites[0];
            let list = [0, 1].map(|index| address(index).to_string());
            site.create_pool("public", &json!({"preAllocatedFloatingIPs": list}));
            world.advance(Duration::from_secs(5)).await;
            site.create_claim("web-0", "public");
            world.advance(Duration::from_millis(100 + 10 * (seed % 24))).await;
            site.create_claim("web-1", "public");
            while site.server.get(&key(Kind::Address, "web-0")).is_none() {
                world.advance(Duration::from_millis(1)).await;
            }
            // A rival's, which it withdraws when it has looked.
            let theirs = claim_tag(&PoolId::parse("theirs").unwrap(), &ClaimKey::of("a", "b"));
            let edit = |change: &dyn Fn(&mut FloatingIp)| world.tamper(|world| world.cloud.edit(&fip.id, change));
            edit(&|fip| _ = fip.tags.insert(theirs.clone()));
            let is_marked = || world.cloud.floating_ips().iter().any(|fip| fip.tags.len() == 2);
            let is_kept = !world.wait_until(Duration::from_secs(20), || !is_marked()).await;
            world.expect(4, "our mark of a published address", "there", is_kept);
            edit(&|fip| _ = fip.tags.remove(&theirs));
        });
        outcome.assert_lawful();
    }
}

/// The API server ignores a UID in a patch of a status: only a version keeps it from landing on another claim.
#[test]
fn a_claim_that_replaces_one_of_its_name_while_that_is_published_is_not_told_of_its_address() {
    for successors_pool in ["other", "public"] {
        let start = Start { seed: 5, sites: 1, replicas: 1, slowest: 20, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            let network = json!({"floatingIPNetwork": {"filter": {"name": "public"}}});
            ["public", "other"].iter().for_each(|pool| site.create_pool(pool, &network));
            world.advance(Duration::from_secs(5)).await;
            let (late, lasts) = (Fault::Late(Duration::from_secs(3)), Duration::from_secs(10));
            site.replicas[0].wire().expect("it runs").hang("ipaddressclaims", late, lasts);
            site.create_claim("web-0", "public");
            while site.server.get(&key(Kind::Address, "web-0")).is_none() {
                world.advance(Duration::from_millis(10)).await;
            }
            // The status is under way.
            world.advance(Duration::from_secs(1)).await;
            world.users_interfered.set(true);
            site.delete_by_force(Kind::Claim, "web-0");
            site.create_claim("web-0", successors_pool);
            world.advance(Duration::from_millis(2_500)).await;
            world.expect(1, "web-0", "without the address of the former claim", !site.is_bound("web-0"));
            let is_of_its_pool = || {
                let address = site.server.get(&key(Kind::Address, "web-0"));
                address.is_some_and(|address| address["spec"]["poolRef"]["name"] == successors_pool)
            };
            let is_bound = || site.is_bound("web-0") && is_of_its_pool();
            let is_bound = world.wait_until(Duration::from_secs(60), is_bound).await;
            world.expect(7, "web-0", "bound to an address of its pool", is_bound);
        });
        outcome.assert_lawful();
    }
}

/// Deletes the claim, attaches its floating IP, and creates the claim again, which may not have the floating IP then.
async fn recreate_after_attaching(world: &World, site: &Site, is_held: bool) {
    let had = site.address_of("web-0");
    site.delete(Kind::Claim, "web-0");
    world.expect_gone(Kind::Claim).await;
    let is_there = site.server.get(&key(Kind::Address, "web-0")).is_some();
    world.expect(9, "the IPAddress", "gone, unless another owner keeps it", is_there == is_held);
    world.tamper_with(0, Tampering::AttachReleased);
    let is_attached = world.cloud.floating_ips().iter().any(|fip| fip.is_attached());
    world.expect(2, "the floating IP", "attached by another user", is_attached);
    site.create_claim("web-0", "public");
    world.advance(Duration::from_secs(20)).await;
    world.expect(2, "web-0", "not given what is in use", !site.is_bound("web-0") || site.address_of("web-0") != had);
}

async fn let_released_addresses_rest(world: &World, site: &Site) {
    site.change(Kind::Pool, "public", &json!({"spec": {"reuseGracePeriodSeconds": 50}}));
    world.advance(Duration::from_secs(5)).await;
}

/// Law 2. The watch does not show that the claim's IPAddress is gone when the claim is created again.
#[test]
fn a_claim_that_is_created_again_before_the_end_of_its_ip_address_is_seen_takes_nothing_that_is_in_use() {
    simulate_bound(&START, async |world, site| {
        let_released_addresses_rest(world, site).await;
        site.replicas[0].wire().expect("it runs").stall_watch("ipaddresses", Duration::from_secs(40));
        recreate_after_attaching(world, site, false).await;
        world.expect(7, "web-0", "told nothing of an IPAddress that is gone", !site.is_told("web-0", "IPAddress"));
        world.await_bound("web-0").await;
    });
}

/// Law 2. Another owner's finalizer keeps the IPAddress when the claim is created again.
#[test]
fn a_claim_that_is_created_again_while_its_ip_address_is_kept_takes_nothing_that_is_in_use() {
    simulate_bound(&START, async |world, site| {
        let_released_addresses_rest(world, site).await;
        let kept =
            |finalizers: Value| site.change(Kind::Address, "web-0", &json!({"metadata": {"finalizers": finalizers}}));
        kept(json!([ADDRESS_FINALIZER, "example.com/keep"]));
        world.advance(Duration::from_secs(5)).await;
        recreate_after_attaching(world, site, true).await;
        kept(json!([]));
        world.await_bound("web-0").await;
    });
}
