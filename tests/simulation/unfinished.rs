//! What is not finished for a claim when something else happens to it: its place in the queue, a mark that is there
//! twice, an IPAddress whose creation is in doubt, marks that another process wrote.

use std::sync::Arc;
use std::time::Duration;

use caip_openstack::api::names::{CLAIM_FINALIZER, PAUSED_ANNOTATION, POOL_ID_ANNOTATION};
use caip_openstack::floating_ip::FloatingIpId;
use serde_json::{Value, json};

use crate::api::Kind;
use crate::laws;
use crate::simulate;
use crate::tampering::forged;
use crate::users::key;
use crate::wire::Fault;
use crate::world::{NAMESPACE, Start, World, address};

const SOON: Duration = Duration::from_secs(60);

fn start(seed: u64) -> Start {
    Start { seed, sites: 1, replicas: 1, slowest: 20, is_logged: true }
}

/// Law 7. The older of two claims that wait is paused, or is being deleted while its machine is there.
#[test]
fn a_claim_that_takes_nothing_keeps_no_address_from_the_younger_ones() {
    let machine = json!({"metadata": {"finalizers": ["example.com/machine", CLAIM_FINALIZER]}});
    let paused = json!({"metadata": {"annotations": {PAUSED_ANNOTATION: "true"}}});
    let resumed = json!({"metadata": {"finalizers": [CLAIM_FINALIZER], "annotations": {PAUSED_ANNOTATION: null}}});
    for seed in 0..8 {
        let outcome = simulate(&start(seed), async |world: &World| {
            let site = &world.sites[0];
            let network = json!({"filter": {"name": "public"}});
            site.create_pool("public", &json!({"floatingIPNetwork": network, "maxIPs": 1}));
            site.create_claim("web-0", "public");
            world.await_bound("web-0").await;
            for claim in ["web-1", "web-2"] {
                site.create_claim(claim, "public");
                world.advance(Duration::from_secs(5)).await;
                world.expect(7, claim, "told that the limit is reached", site.is_told(claim, "spec.maxIPs"));
            }
            let is_paused = seed % 2 == 0;
            site.change(Kind::Claim, "web-1", if is_paused { &paused } else { &machine });
            if !is_paused {
                site.delete(Kind::Claim, "web-1");
            }
            world.advance(Duration::from_secs(5)).await;
            site.delete(Kind::Claim, "web-0");
            world.await_bound("web-2").await;
            site.change(Kind::Claim, "web-1", &resumed);
            site.create_claim("web-3", "public");
            world.advance(Duration::from_secs(5)).await;
            site.delete(Kind::Claim, "web-2");
            world.await_bound(if is_paused { "web-1" } else { "web-3" }).await;
        });
        outcome.assert_lawful();
    }
}

/// Laws 5, 8 and 9. The description of a bound address cannot be seen for a while, so its mark is restored as a tag; then it
/// has both. The pool no longer allows the address, and its claim chooses another one, or is deleted while the mark of
/// another pool is there too.
#[test]
fn a_mark_that_is_there_twice_is_removed_in_both_places() {
    for seed in 0..8 {
        let outcome = simulate(&start(seed), async |world: &World| {
            world.bind_in_new_pool("web-0").await;
            let site = &world.sites[0];
            let Some((had, id)) = site.address_of("web-0") else { return };
            let seen = || world.cloud.floating_ips().into_iter().find(|fip| fip.id == id);
            let Some(before) = seen() else { return };
            world.users_interfered.set(true);
            world.tamper(|world| world.cloud.edit(&id, |fip| fip.description.clear()));
            let is_tagged = world.wait_until(2 * SOON, || seen().is_some_and(|fip| !fip.tags.is_empty())).await;
            world.expect(5, "the floating IP", "marked again", is_tagged);
            world.tamper(|world| world.cloud.edit(&id, |fip| fip.description.clone_from(&before.description)));
            world.advance(2 * SOON).await;
            if seed % 2 == 0 {
                let excluded = json!({"spec": {"excludedAddresses": [format!("{had}/32")]}});
                site.change(Kind::Pool, "public", &excluded);
                world.advance(SOON).await;
                site.delete(Kind::Address, "web-0");
                let is_another = || site.address_of("web-0").is_some_and(|(address, _)| address != had);
                world.expect(7, "web-0", "given another address", world.wait_until(3 * SOON, is_another).await);
            } else {
                let theirs = "caip.another.aaaaaaaaaaaaaaaa".to_owned();
                world.tamper(|world| world.cloud.edit(&id, |fip| _ = fip.tags.insert(theirs)));
                world.advance(2 * SOON).await;
                site.delete(Kind::Claim, "web-0");
                world.expect_gone(Kind::Claim).await;
                let own_tags = seen().map_or(0, |fip| fip.tags.iter().filter(|tag| !tag.contains("another")).count());
                world.expect(5, "the floating IP", "without the claim's tag", own_tags == 0);
            }
            world.skips_rest.set(true);
        });
        outcome.assert_lawful();
    }
}

/// Law 1. The creation of an IPAddress is in doubt when the pool no longer lists its address. Another pool lists it too.
#[test]
fn an_address_is_not_given_up_while_its_ip_address_may_still_appear() {
    for seed in 0..8 {
        let outcome = simulate(&start(seed), async |world: &World| {
            let site = &world.sites[0];
            world.create_listed();
            site.create_pool("second", &json!({"preAllocatedFloatingIPs": [address(0)]}));
            world.advance(SOON).await;
            let late = Fault::Late(Duration::from_secs(45));
            site.replicas[0].wire().iter().for_each(|wire| wire.hang("ipaddresses", late, Duration::from_secs(3)));
            site.create_claim("web-0", "public");
            world.advance(Duration::from_secs(5)).await;
            site.change(Kind::Pool, "public", &json!({"spec": {"preAllocatedFloatingIPs": [address(1)]}}));
            site.create_claim("db", "second");
            world.advance(3 * SOON).await;
            let bound: Vec<&str> = ["web-0", "db"].into_iter().filter(|claim| site.is_bound(claim)).collect();
            world.expect(1, "web-0", "the only one with the address", bound == ["web-0"]);
        });
        outcome.assert_lawful();
    }
}

/// Law 5. The process knows the project from another pool when a pool of a management cluster that was lost is created again.
#[test]
fn a_rebuilt_pool_finds_its_addresses_in_a_process_that_has_seen_them_before() {
    for seed in 0..8 {
        let outcome = simulate(&Start { sites: 2, ..start(seed) }, async |world: &World| {
            let (site, lost) = (&world.sites[0], &world.sites[1]);
            let id = world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(0))).id;
            site.create_pool("second", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
            let spec: Value = json!({"preAllocatedFloatingIPs": [address(0)], "poolID": "rebuilt"});
            lost.create_pool("public", &spec);
            world.advance(2 * SOON).await;
            lost.create_claim("web-0", "public");
            world.expect(7, "web-0", "bound", world.wait_until(SOON, || lost.is_bound("web-0")).await);
            world.tamper(|world| world.cloud.set_port(&id, Some("port-of-its-machine")));
            // The other process lists the project.
            world.advance(3 * SOON).await;
            world.users_interfered.set(true);
            lost.replicas[0].wire().iter().for_each(|wire| wire.freeze(Duration::from_secs(10_000)));
            for (kind, name) in [(Kind::Address, "web-0"), (Kind::Claim, "web-0"), (Kind::Pool, "public")] {
                lost.delete_by_force(kind, name);
            }
            site.create_pool("public", &spec);
            site.create_claim("web-0", "public");
            world.wait_until(3 * SOON, || site.is_bound("web-0")).await;
            let has = site.address_of("web-0").map(|(_, fip)| fip);
            world.expect(5, "web-0", "given the address that its machine has", has == Some(id));
            world.skips_rest.set(true);
        });
        outcome.assert_lawful();
    }
}

/// Law 2. A copy of the pool is deleted, as its condition says, while a claim's tag is on its way, and something is attached
/// to the floating IP meanwhile.
#[test]
fn deleting_a_copy_of_a_pool_ends_nothing_that_claims_of_the_pool_have_begun() {
    for seed in 0..8 {
        let outcome = simulate(&start(seed), async |world: &World| {
            let site = &world.sites[0];
            let id = world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(0))).id;
            let spec = json!({"preAllocatedFloatingIPs": [address(0)]});
            site.create_pool("public", &spec);
            world.advance(SOON).await;
            let pool = site.server.get(&key(Kind::Pool, "public")).unwrap();
            let copied = json!({POOL_ID_ANNOTATION: laws::pool_id(&pool).unwrap().as_str()});
            site.create_pool("copy", &spec);
            site.change(Kind::Pool, "copy", &json!({"metadata": {"annotations": copied}}));
            world.advance(SOON).await;
            world.expect(4, "the copy", "stopped", site.ready(Kind::Pool, NAMESPACE, "copy").0 == "DuplicatePoolID");
            site.replicas[0].wire().iter().for_each(|wire| wire.plan_write(Fault::Late(Duration::from_secs(8))));
            site.create_claim("web-0", "public");
            world.advance(Duration::from_secs(2)).await;
            world.tamper(|world| world.cloud.set_port(&id, Some("port-of-a-user")));
            site.delete(Kind::Pool, "copy");
            world.advance(SOON).await;
            world.expect(2, "web-0", "without the address that a user attached", !site.is_bound("web-0"));
        });
        outcome.assert_lawful();
    }
}

/// Laws 7 and 8. The creation of an IPAddress had no answer, and its claim's address is attached before the watch shows it.
#[test]
fn a_claim_whose_ip_address_was_created_unnoticed_keeps_its_address() {
    for seed in 0..8 {
        let outcome = simulate(&start(seed), async |world: &World| {
            let site = &world.sites[0];
            let id = world.create_listed();
            world.advance(SOON).await;
            let late = Fault::Late(Duration::from_secs(45));
            site.replicas[0].wire().iter().for_each(|wire| wire.hang("ipaddresses", late, Duration::from_secs(3)));
            site.create_claim("web-0", "public");
            world.advance(Duration::from_secs(20)).await;
            world.tamper(|world| world.cloud.set_port(&id, Some("port-of-a-user")));
            // The project is listed again.
            site.change(Kind::Pool, "public", &json!({"spec": {"reuseGracePeriodSeconds": 1}}));
            world.advance(2 * SOON).await;
            world.expect(7, "web-0", "bound", site.is_bound("web-0"));
        });
        outcome.assert_lawful();
    }
}

/// The claim `web-0` is released from a pool with one address, which `web-1` takes 5 s later. Returns its IPAddress.
async fn release_shortly_before_another_takes(world: &World) -> Arc<Value> {
    let site = &world.sites[0];
    let network = json!({"filter": {"name": "public"}});
    let spec = json!({"floatingIPNetwork": network, "maxIPs": 1, "reuseGracePeriodSeconds": 20});
    site.create_pool("public", &spec);
    site.create_claim("web-0", "public");
    world.await_bound("web-0").await;
    let saved = site.server.get(&key(Kind::Address, "web-0")).unwrap();
    site.create_claim("web-1", "public");
    world.advance(Duration::from_secs(5)).await;
    world.users_interfered.set(true);
    site.delete(Kind::Claim, "web-0");
    world.advance(Duration::from_secs(15)).await;
    saved
}

/// Law 1. A claim and its IPAddress are restored while another claim is taking the address that was released.
#[test]
fn of_a_restored_claim_and_one_that_is_taking_its_address_only_one_has_it() {
    for seed in 0..16 {
        let outcome = simulate(&start(seed), async |world: &World| {
            let site = &world.sites[0];
            let saved = release_shortly_before_another_takes(world).await;
            let fault = if seed % 2 == 0 { Fault::Late(Duration::from_secs(8)) } else { Fault::ReplyLost };
            site.replicas[0].wire().iter().for_each(|wire| wire.plan_write(fault));
            world.advance(Duration::from_millis(4500 + 250 * seed)).await;
            site.create_claim("web-0", "public");
            let _ = site.server.create(Kind::Address, forged(&saved, "web-0"));
            world.advance(3 * SOON).await;
            world.expect(1, "the address", "of one claim", !(site.is_bound("web-0") && site.is_bound("web-1")));
        });
        outcome.assert_lawful();
    }
}

/// Law 7. The other claim is paused before the outcome of its write is known.
#[test]
fn a_restored_claim_does_not_wait_for_one_that_takes_nothing() {
    for seed in 0..8 {
        let outcome = simulate(&start(seed), async |world: &World| {
            let site = &world.sites[0];
            let saved = release_shortly_before_another_takes(world).await;
            let wire = site.replicas[0].wire().expect("the process runs");
            wire.plan_write(Fault::RequestLost);
            world.expect(7, "web-1", "choosing", world.wait_until(SOON, || !wire.is_write_planned()).await);
            site.change(Kind::Claim, "web-1", &json!({"metadata": {"annotations": {PAUSED_ANNOTATION: "true"}}}));
            site.create_claim("web-0", "public");
            let _ = site.server.create(Kind::Address, forged(&saved, "web-0"));
            world.advance(3 * SOON).await;
            let reason = site.ready(Kind::Claim, NAMESPACE, "web-0").0;
            world.expect(7, "web-0", &format!("served, but told {reason}"), reason == "AddressAllocated");
            site.change(Kind::Claim, "web-1", &json!({"metadata": {"annotations": {PAUSED_ANNOTATION: null}}}));
        });
        outcome.assert_lawful();
    }
}

/// Law 2. The claim of a copied IPAddress takes the address once the original's claim has released it, something is attached
/// before that is certain, and the request that takes it back is lost.
#[test]
fn a_withdrawal_that_is_lost_is_repeated() {
    for seed in 0..8 {
        let outcome = simulate(&start(seed), async |world: &World| {
            let site = &world.sites[0];
            let id = world.create_listed();
            site.create_claim("web-0", "public");
            world.await_bound("web-0").await;
            world.users_interfered.set(true);
            let original = site.server.get(&key(Kind::Address, "web-0")).unwrap();
            let _ = site.server.create(Kind::Address, forged(&original, "copy"));
            site.create_claim("copy", "public");
            world.advance(Duration::from_secs(5)).await;
            site.delete(Kind::Claim, "web-0");
            world.wait_until(SOON, || site.server.get(&key(Kind::Claim, "web-0")).is_none()).await;
            let wire = site.replicas[0].wire().expect("the process runs");
            wire.plan_write(Fault::Late(Duration::from_secs(8)));
            world.expect(7, "copy", "choosing", world.wait_until(SOON, || !wire.is_write_planned()).await);
            world.tamper(|world| world.cloud.set_port(&id, Some("port-of-a-user")));
            wire.plan_write(Fault::RequestLost);
            world.expect(2, "copy", "withdrawing", world.wait_until(SOON, || !wire.is_write_planned()).await);
            world.advance(4 * SOON).await;
            let (reason, message) = site.ready(Kind::Claim, NAMESPACE, "copy");
            let is_told = reason == "AllocationFailed" && message.contains("marked for another claim");
            world.expect(2, "copy", &format!("told so, but {reason}: {message}"), is_told);
        });
        outcome.assert_lawful();
    }
}

/// The floating IP of the bound claim `web-0` is deleted and created again, and read back, while its IPAddress cannot be
/// changed for a while. Returns the new one's id.
pub async fn replace_floating_ip(world: &World) -> FloatingIpId {
    let site = &world.sites[0];
    let create = || world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(0))).id;
    let id = create();
    site.create_pool("public", &json!({"preAllocatedFloatingIPs": [address(0)]}));
    site.create_claim("web-0", "public");
    world.await_bound("web-0").await;
    world.users_interfered.set(true);
    let refused = Fault::RefusedLate(Duration::from_secs(1));
    site.replicas[0].wire().iter().for_each(|wire| wire.hang("ipaddresses", refused, 2 * SOON));
    world.tamper(|world| world.cloud.delete(&id));
    let id = create();
    world.expect(5, "its successor", "marked", world.wait_until(3 * SOON, || is_marked(world, &id)).await);
    world.advance(Duration::from_secs(5)).await;
    id
}

fn is_marked(world: &World, id: &FloatingIpId) -> bool {
    world.cloud.floating_ips().iter().any(|fip| fip.id == *id && !fip.tags.is_empty())
}

/// Law 5. The floating IP of a bound claim was deleted and created again. It is read back, and its port is that of the
/// claim's machine, although the IPAddress cannot be changed for a while.
#[test]
fn a_claim_keeps_a_floating_ip_that_replaces_its_own_once_it_was_read_back() {
    for seed in 0..8 {
        let outcome = simulate(&start(seed), async |world: &World| {
            let site = &world.sites[0];
            let id = replace_floating_ip(world).await;
            world.tamper(|world| world.cloud.set_port(&id, Some("port-of-its-machine")));
            // The project is listed again.
            site.change(Kind::Pool, "public", &json!({"spec": {"reuseGracePeriodSeconds": 1}}));
            world.advance(4 * SOON).await;
            world.expect(5, "its successor", "marked", is_marked(world, &id));
            let reason = site.ready(Kind::Claim, NAMESPACE, "web-0").0;
            world.expect(5, "web-0", &format!("bound, but told {reason}"), reason == "AddressAllocated");
        });
        outcome.assert_lawful();
    }
}

/// Law 1. The creation of an IPAddress takes effect long after it was to be sent, for a claim that is gone by then.
#[test]
fn a_creation_in_doubt_is_awaited_from_when_it_came_into_doubt() {
    for seed in 0..8 {
        let outcome = simulate(&start(seed), async |world: &World| {
            let site = &world.sites[0];
            world.create_listed();
            world.advance(SOON).await;
            let late = Fault::Late(Duration::from_secs(80));
            site.replicas[0].wire().iter().for_each(|wire| wire.hang("ipaddresses", late, Duration::from_secs(3)));
            site.create_claim("web-0", "public");
            world.advance(Duration::from_secs(40)).await;
            site.delete(Kind::Claim, "web-0");
            site.create_claim("web-1", "public");
            world.advance(Duration::from_secs(39)).await;
            world.expect(1, "web-1", "waiting", !site.is_bound("web-1"));
            world.advance(3 * SOON).await;
            world.expect(7, "web-1", "bound", site.is_bound("web-1"));
        });
        outcome.assert_lawful();
    }
}
