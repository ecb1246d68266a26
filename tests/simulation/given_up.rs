//! A claim gives up what it has begun: it is paused, its pool goes, or an IPAddress comes that is not its own. What it chose
//! stays a choice as long as its mark is there, and other claims can have the address afterwards.

use std::time::Duration;

use caip_openstack::api::names::{GROUP, PAUSED_ANNOTATION, POOL_ID_ANNOTATION, POOL_KIND};
use caip_openstack::floating_ip::{FloatingIp, FloatingIpId};
use serde_json::json;

use crate::api::Kind;
use crate::history::Tampering;
use crate::laws;
use crate::tampering::forged;
use crate::unfinished::replace_floating_ip;
use crate::users::key;
use crate::wire::{Fault, Rejection, Wire};
use crate::world::{NAMESPACE, Start, World, address};
use crate::{simulate, simulate_bound};

const SOON: Duration = Duration::from_secs(60);

fn start(seed: u64) -> Start {
    Start { seed, sites: 1, replicas: 1, slowest: 20, is_logged: true }
}

/// The next write to OpenStack meets the fault, once it is sent.
async fn meet(world: &World, fault: Fault) {
    plan(world, fault);
    await_sent(world).await;
}

fn plan(world: &World, fault: Fault) {
    wire(world).plan_write(fault);
}

async fn await_sent(world: &World) {
    let wire = wire(world);
    world.expect(7, "the controller", "writing", world.wait_until(SOON, || !wire.is_write_planned()).await);
}

fn wire(world: &World) -> Wire {
    world.sites[0].replicas[0].wire().expect("the process runs")
}

fn pause(world: &World, claim: &str, is_paused: bool) {
    let value = is_paused.then_some("true");
    world.sites[0].change(Kind::Claim, claim, &json!({"metadata": {"annotations": {PAUSED_ANNOTATION: value}}}));
}

fn the_only(world: &World) -> FloatingIp {
    world.cloud.floating_ips().pop().expect("there is one")
}

fn attach(world: &World, id: &FloatingIpId, port: &str) {
    world.tamper(|world| world.cloud.set_port(id, Some(port)));
}

/// The IPAddress of `web-0` is copied for the claim `copy`, and `web-0` is released, which `copy` is about to notice. Returns
/// the floating IP's id.
async fn release_to_copy(world: &World) -> FloatingIpId {
    world.bind_in_new_pool("web-0").await;
    let site = &world.sites[0];
    let id = the_only(world).id;
    world.users_interfered.set(true);
    let original = site.server.get(&key(Kind::Address, "web-0")).unwrap();
    let _ = site.server.create(Kind::Address, forged(&original, "copy"));
    site.create_claim("copy", "public");
    site.change(Kind::Pool, "public", &json!({"spec": {"reuseGracePeriodSeconds": 600}}));
    world.advance(Duration::from_secs(5)).await;
    site.delete(Kind::Claim, "web-0");
    world.wait_until(SOON, || site.server.get(&key(Kind::Claim, "web-0")).is_none()).await;
    id
}

/// Law 2. The reply to the new description of a spare address is lost, and its claim is paused, or its pool has a problem,
/// while a user attaches the address.
#[test]
fn a_spare_address_that_is_attached_while_its_claim_takes_nothing_is_given_up() {
    for seed in 0..8 {
        let outcome = simulate(&start(seed), async |world: &World| {
            let site = &world.sites[0];
            let network = json!({"filter": {"name": "public"}});
            site.create_pool("public", &json!({"floatingIPNetwork": network, "minFree": 1}));
            let has_spare = world.wait_until(SOON, || !world.cloud.floating_ips().is_empty()).await;
            world.expect(7, "the pool", "with a spare address", has_spare);
            world.advance(Duration::from_secs(10)).await;
            let id = the_only(world).id;
            let late = Fault::Late(Duration::from_secs(40));
            plan(world, if seed % 2 == 0 { Fault::ReplyLost } else { late });
            site.create_claim("web-0", "public");
            await_sent(world).await;
            pause(world, "web-0", true);
            world.advance(Duration::from_secs(50)).await;
            attach(world, &id, "port-of-a-user");
            world.advance(2 * SOON).await;
            pause(world, "web-0", false);
            world.wait_until(2 * SOON, || site.is_bound("web-0")).await;
            let has = site.address_of("web-0").map(|(_, fip)| fip);
            world.expect(2, "web-0", "given another address", has.is_some_and(|fip| fip != id));
            world.advance(SOON).await;
            let is_marked =
                world.cloud.floating_ips().iter().any(|fip| fip.id == id && fip.description.contains("web-0"));
            world.expect(4, "the spare address", "without the claim's mark", !is_marked);
        });
        outcome.assert_lawful();
    }
}

/// Law 2. The claim of a copied IPAddress withdraws from the address, the request is lost, and the floating IP changes before
/// that is certain. The claim's mark is a description; `unfinished.rs` does this with a tag.
#[test]
fn a_withdrawal_of_a_description_that_is_lost_is_repeated() {
    for seed in 0..8 {
        let outcome = simulate(&start(seed), async |world: &World| {
            let site = &world.sites[0];
            let id = release_to_copy(world).await;
            meet(world, Fault::Late(Duration::from_secs(8))).await;
            attach(world, &id, "port-of-a-user");
            meet(world, Fault::RequestLost).await;
            world.advance(Duration::from_secs(10)).await;
            attach(world, &id, "another-port-of-a-user");
            world.advance(4 * SOON).await;
            let (reason, message) = site.ready(Kind::Claim, NAMESPACE, "copy");
            let is_told = reason == "AllocationFailed" && message.contains("marked for another claim");
            world.expect(2, "copy", &format!("told so, but {reason}: {message}"), is_told);
            site.change(Kind::Pool, "public", &json!({"spec": {"reuseGracePeriodSeconds": 0}}));
        });
        outcome.assert_lawful();
    }
}

/// Laws 4, 7 and 9. A pool is removed by force while its claim chooses, and a pool with a copy of its id stays.
#[test]
fn what_a_claim_of_a_removed_pool_began_ends_although_a_copy_of_the_pool_stays() {
    for seed in 0..8 {
        let outcome = simulate(&start(seed), async |world: &World| {
            let site = &world.sites[0];
            world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(0)));
            let spec = json!({"preAllocatedFloatingIPs": [address(0)]});
            site.create_pool("public", &spec);
            world.advance(SOON).await;
            let pool = site.server.get(&key(Kind::Pool, "public")).unwrap();
            let copied = json!({POOL_ID_ANNOTATION: laws::pool_id(&pool).unwrap().as_str()});
            world.users_interfered.set(true);
            site.create_pool("copy", &spec);
            site.change(Kind::Pool, "copy", &json!({"metadata": {"annotations": copied}}));
            world.advance(SOON).await;
            plan(world, if seed % 2 == 0 { Fault::ReplyLost } else { Fault::RequestLost });
            site.create_claim("web-0", "public");
            await_sent(world).await;
            // No later change of the claim ends what it holds.
            pause(world, "web-0", true);
            site.delete_by_force(Kind::Pool, "public");
            world.advance(2 * SOON).await;
            site.delete(Kind::Pool, "copy");
            let is_gone = || site.server.get(&key(Kind::Pool, "copy")).is_none();
            world.expect(9, "the copy", "gone", world.wait_until(5 * SOON, is_gone).await);
            pause(world, "web-0", false);
        });
        outcome.assert_lawful();
    }
}

/// Law 7. Another writer creates an IPAddress for a claim that is choosing an address, or a user copies one to it.
#[test]
fn a_claim_that_gets_an_ip_address_of_another_writer_keeps_no_address_from_others() {
    for seed in 0..8 {
        let outcome = simulate(&start(seed), async |world: &World| {
            let site = &world.sites[0];
            for index in [0, 1] {
                world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(index)));
            }
            site.create_pool("public", &json!({"preAllocatedFloatingIPs": [address(0), address(1)]}));
            site.create_claim("web-0", "public");
            world.await_bound("web-0").await;
            plan(world, if seed % 4 < 2 { Fault::ReplyLost } else { Fault::RequestLost });
            site.create_claim("web-1", "public");
            await_sent(world).await;
            world.users_interfered.set(true);
            let original = site.server.get(&key(Kind::Address, "web-0")).unwrap();
            let mut other = forged(&original, "web-1");
            if seed % 2 == 0 {
                other["metadata"]["annotations"] = json!({POOL_ID_ANNOTATION: "another"});
                other["spec"]["address"] = "198.51.100.1".into();
            }
            let _ = site.server.create(Kind::Address, other);
            world.advance(Duration::from_secs(10)).await;
            site.create_claim("web-2", "public");
            let is_served = world.wait_until(4 * SOON, || site.is_bound("web-2")).await;
            world.expect(7, "web-2", "bound", is_served);
            site.delete(Kind::Address, "web-1");
        });
        outcome.assert_lawful();
    }
}

/// Law 5. The floating IP of a bound claim was deleted and created again. It is read back, and its IPAddress, which could not
/// be changed, is deleted.
#[test]
fn a_claim_whose_ip_address_is_deleted_keeps_a_floating_ip_that_replaces_its_own() {
    for seed in 0..8 {
        let outcome = simulate(&start(seed), async |world: &World| {
            let site = &world.sites[0];
            let id = replace_floating_ip(world).await;
            attach(world, &id, "port-of-its-machine");
            // The project is listed again.
            site.change(Kind::Pool, "public", &json!({"spec": {"reuseGracePeriodSeconds": 1}}));
            world.advance(Duration::from_secs(10)).await;
            site.delete_by_force(Kind::Address, "web-0");
            world.advance(4 * SOON).await;
            let has = site.address_of("web-0").map(|(_, fip)| fip);
            world.expect(5, "web-0", "bound to its successor", has == Some(id));
        });
        outcome.assert_lawful();
    }
}

/// Law 4. A pool is removed by force and created again while its claim gets the finalizer.
#[test]
fn a_claim_gets_nothing_from_a_pool_that_was_removed_before_it_began() {
    for seed in 0..16 {
        let outcome = simulate(&start(seed), async |world: &World| {
            let site = &world.sites[0];
            let spec = json!({"floatingIPNetwork": {"filter": {"name": "public"}}});
            site.create_pool("public", &spec);
            world.advance(SOON).await;
            let late = Fault::Late(Duration::from_secs(4));
            site.replicas[0].wire().iter().for_each(|wire| wire.hang("ipaddressclaims", late, Duration::from_secs(1)));
            site.create_claim("web-0", "public");
            world.advance(Duration::from_millis(500)).await;
            world.users_interfered.set(true);
            site.delete_by_force(Kind::Pool, "public");
            world.advance(Duration::from_millis(100 * seed)).await;
            site.create_pool("public", &spec);
            world.advance(SOON).await;
        });
        outcome.assert_lawful();
    }
}

/// Law 2. A claim takes back the address that an earlier one of its name released, the reply is lost, and it is paused while
/// a user attaches the address.
#[test]
fn a_released_address_that_is_attached_while_its_claim_takes_nothing_is_given_up() {
    for seed in 0..8 {
        let outcome = simulate(&start(seed), async |world: &World| {
            let site = &world.sites[0];
            let id = world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(0))).id;
            let spec = json!({"preAllocatedFloatingIPs": [address(0)], "reuseGracePeriodSeconds": 600});
            site.create_pool("public", &spec);
            site.create_claim("web-0", "public");
            world.await_bound("web-0").await;
            world.users_interfered.set(true);
            site.delete(Kind::Claim, "web-0");
            world.wait_until(SOON, || site.server.get(&key(Kind::Claim, "web-0")).is_none()).await;
            world.advance(Duration::from_secs(5)).await;
            plan(world, Fault::ReplyLost);
            site.create_claim("web-0", "public");
            await_sent(world).await;
            pause(world, "web-0", true);
            world.advance(Duration::from_secs(30)).await;
            attach(world, &id, "port-of-a-user");
            world.advance(2 * SOON).await;
            pause(world, "web-0", false);
            world.advance(2 * SOON).await;
            world.expect(2, "web-0", "without the address", !site.is_bound("web-0"));
        });
        outcome.assert_lawful();
    }
}

/// Law 2. A claim comes back within the grace period of the address that its pool created, and a user has attached that since
/// the last listing.
#[test]
fn a_released_address_that_was_attached_since_it_was_listed_is_not_taken_back() {
    for seed in 0..8 {
        simulate_bound(&start(seed), async |world, site| {
            let id = the_only(world).id;
            site.change(Kind::Pool, "public", &json!({"spec": {"reuseGracePeriodSeconds": 600}}));
            world.users_interfered.set(true);
            site.delete(Kind::Claim, "web-0");
            world.expect_gone(Kind::Claim).await;
            world.advance(Duration::from_secs(10)).await;
            attach(world, &id, "port-of-a-user");
            site.create_claim("web-0", "public");
            world.await_bound("web-0").await;
            let has = site.address_of("web-0").map(|(_, fip)| fip);
            world.expect(2, "web-0", "given another address", has.is_some_and(|fip| fip != id));
            site.change(Kind::Pool, "public", &json!({"spec": {"reuseGracePeriodSeconds": 0}}));
            world.tamper(|world| world.cloud.set_port(&id, None));
        });
    }
}

/// Law 5. The spec excludes the address of a claim, and its machine has attached it since the last listing when a user deletes
/// the IPAddress.
#[test]
fn an_excluded_address_that_a_machine_uses_since_it_was_listed_stays_with_its_claim() {
    for seed in 0..8 {
        simulate_bound(&start(seed), async |world, site| {
            let (address, id) = site.address_of("web-0").unwrap();
            world.advance(SOON).await;
            site.change(Kind::Pool, "public", &json!({"spec": {"excludedAddresses": [address.to_string()]}}));
            world.advance(Duration::from_secs(10)).await;
            attach(world, &id, "port-of-its-machine");
            site.delete_by_force(Kind::Address, "web-0");
            world.advance(SOON).await;
            let has = site.address_of("web-0").map(|(_, fip)| fip);
            world.expect(5, "web-0", "bound to the same floating IP", has == Some(id));
        });
    }
}

/// A pool that may reuse the floating IP with the first address at once.
async fn create_pool_that_reuses(world: &World) {
    world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(0)));
    let network = json!({"filter": {"name": "public"}});
    world.sites[0].create_pool("public", &json!({"floatingIPNetwork": network, "reuse": {"minIdleSeconds": 0}}));
    world.advance(2 * SOON).await;
}

async fn expect_another_address(world: &World, claim: &str) {
    let has = world.await_bound(claim).await;
    world.expect(2, claim, "given another address", has.is_some_and(|it| it != address(0)));
}

/// Law 2. A pool of CAPO lists an address that is about to be reused.
#[test]
fn an_address_that_a_pool_of_capo_lists_since_a_moment_ago_is_not_reused() {
    for seed in 0..8 {
        let outcome = simulate(&start(seed), async |world: &World| {
            create_pool_that_reuses(world).await;
            world.toggle_in_tree_pool(0, 0);
            world.sites[0].create_claim("web-0", "public");
            expect_another_address(world, "web-0").await;
        });
        outcome.assert_lawful();
    }
}

/// Law 2. Its owner describes an address while it is being marked: what is read back decides.
#[test]
fn an_address_that_is_described_while_it_is_marked_is_not_reused() {
    for seed in 0..8 {
        let outcome = simulate(&start(seed), async |world: &World| {
            create_pool_that_reuses(world).await;
            let id = the_only(world).id;
            plan(world, Fault::Late(Duration::from_secs(8)));
            world.sites[0].create_claim("web-0", "public");
            await_sent(world).await;
            world.tamper_with(0, Tampering::DescribeUnmarked);
            expect_another_address(world, "web-0").await;
            world.advance(SOON).await;
            let fip = world.witness.floating_ip(&id).expect("it is its owner's");
            world.expect(3, "the owner's floating IP", "as it was", fip.tags.is_empty() && fip.description == "mail");
        });
        outcome.assert_lawful();
    }
}

/// Law 2. A claim takes the address that its copied IPAddress names, and the copy is deleted before that is certain.
#[test]
fn a_claim_whose_copied_ip_address_is_deleted_reads_back_what_it_chose() {
    for seed in 0..8 {
        let outcome = simulate(&start(seed), async |world: &World| {
            let site = &world.sites[0];
            let id = release_to_copy(world).await;
            meet(world, Fault::ReplyLost).await;
            site.delete_by_force(Kind::Address, "copy");
            let refused = Fault::RefusedLate(Duration::from_secs(1));
            wire(world).hang("ipaddresses", refused, SOON);
            world.advance(Duration::from_secs(30)).await;
            attach(world, &id, "port-of-a-user");
            world.advance(4 * SOON).await;
            let has = site.address_of("copy").map(|(_, fip)| fip);
            world.expect(2, "copy", "given another address", has.is_some_and(|fip| fip != id));
            site.change(Kind::Pool, "public", &json!({"spec": {"reuseGracePeriodSeconds": 0}}));
        });
        outcome.assert_lawful();
    }
}

/// Law 1. The creation of an IPAddress is in doubt when its claim is paused, and a user removes the claim's tag.
#[test]
fn an_address_is_kept_for_a_paused_claim_while_its_ip_address_may_still_appear() {
    for seed in 0..8 {
        let outcome = simulate(&start(seed), async |world: &World| {
            let site = &world.sites[0];
            let id = world.create_listed();
            world.advance(SOON).await;
            wire(world).hang("ipaddresses", Fault::Late(Duration::from_secs(45)), Duration::from_secs(3));
            site.create_claim("web-0", "public");
            world.advance(Duration::from_secs(35)).await;
            pause(world, "web-0", true);
            world.users_interfered.set(true);
            world.advance(Duration::from_secs(1)).await;
            world.tamper(|world| world.cloud.edit(&id, |fip| fip.tags.clear()));
            site.create_claim("web-1", "public");
            world.advance(3 * SOON).await;
            world.expect(1, "the address", "of one claim", !site.is_bound("web-1"));
            pause(world, "web-0", false);
        });
        outcome.assert_lawful();
    }
}

/// Law 1. The creation of an IPAddress is in doubt when another writer creates one for the claim. A pool of another management
/// cluster lists the address too.
#[test]
fn a_claim_withdraws_nothing_while_its_own_ip_address_may_still_appear() {
    for seed in 0..8 {
        let outcome = simulate(&Start { sites: 2, ..start(seed) }, async |world: &World| {
            let (site, other) = (&world.sites[0], &world.sites[1]);
            world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(0)));
            for site in [site, other] {
                site.create_pool("public", &json!({"preAllocatedFloatingIPs": [address(0)]}));
            }
            world.advance(SOON).await;
            wire(world).hang("ipaddresses", Fault::Late(Duration::from_secs(58)), Duration::from_secs(3));
            site.create_claim("web-0", "public");
            world.advance(Duration::from_secs(5)).await;
            create_foreign_address(world, "web-0");
            other.create_claim("db", "public");
            world.advance(Duration::from_secs(52)).await;
            site.delete_by_force(Kind::Address, "web-0");
            world.advance(3 * SOON).await;
            let bound = [site.is_bound("web-0"), other.is_bound("db")];
            world.expect(1, "the address", &format!("of web-0 alone, but {bound:?}"), bound == [true, false]);
        });
        outcome.assert_lawful();
    }
}

/// Another writer's IPAddress for a claim of the pool `public`.
pub fn create_foreign_address(world: &World, claim: &str) {
    world.users_interfered.set(true);
    let pool = json!({"apiGroup": GROUP, "kind": POOL_KIND, "name": "public"});
    let spec = json!({"address": "198.51.100.1", "prefix": 32, "claimRef": {"name": claim}, "poolRef": pool});
    let meta = json!({"name": claim, "namespace": NAMESPACE});
    let written = world.sites[0].server.create(Kind::Address, json!({"metadata": meta, "spec": spec}));
    world.expect(7, "another writer's IPAddress", "created", written.is_ok());
}

/// Law 7. It comes while the floating IP is being created.
#[test]
fn a_floating_ip_that_was_created_for_a_claim_with_another_writers_ip_address_is_given_up() {
    for is_restarted in [false, true] {
        let outcome = simulate(&start(3), async |world: &World| {
            let site = &world.sites[0];
            site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}, "maxIPs": 1}));
            world.advance(SOON).await;
            plan(world, Fault::Late(Duration::from_secs(4)));
            site.create_claim("web-0", "public");
            await_sent(world).await;
            create_foreign_address(world, "web-0");
            if is_restarted {
                site.kill_controller();
            }
            world.advance(Duration::from_secs(10)).await;
            site.create_claim("web-1", "public");
            let is_bound = world.wait_until(3 * SOON, || site.is_bound("web-1")).await;
            world.expect(7, "web-1", "bound", is_bound);
            site.delete(Kind::Address, "web-0");
            site.delete(Kind::Claim, "web-0");
        });
        outcome.assert_lawful();
    }
}

/// Law 8. Neutron refuses that the mark of what the claim has chosen is removed.
#[test]
fn a_refused_withdrawal_is_tried_now_and_then() {
    let outcome = simulate(&start(4), async |world: &World| {
        let site = &world.sites[0];
        world.create_listed();
        world.advance(SOON).await;
        plan(world, Fault::ReplyLost);
        site.create_claim("web-0", "public");
        await_sent(world).await;
        create_foreign_address(world, "web-0");
        wire(world).hang("untag floating IP", Fault::Refused(Rejection::Conflict), 10 * SOON);
        world.advance(10 * SOON).await;
        let peaks = world.witness.rates().peaks();
        let most = peaks.get("untag floating IP");
        world.expect(8, "the tag", &format!("removed now and then: {most:?}"), most.is_some_and(|most| *most < 10));
        site.delete(Kind::Address, "web-0");
    });
    outcome.assert_lawful();
}
