//! Claims and IPAddresses come back from a backup while the pool and the controllers run: what they say is older than what
//! has happened since.

use std::time::Duration;

use caip_openstack::allocation::mark::Marks;
use caip_openstack::api::names::{ADDRESS_FINALIZER, POOL_ID_ANNOTATION};
use caip_openstack::floating_ip::FloatingIpId;
use serde_json::{Value, json};

use crate::api::Kind;
use crate::tampering::forged;
use crate::users::key;
use crate::wire::Rejection;
use crate::world::{NAMESPACE, Site, Start, World, address};
use crate::{simulate, simulate_bound};

const START: Start = Start { seed: 29, sites: 1, replicas: 1, slowest: 20, is_logged: true };
const SOON: Duration = Duration::from_secs(60);

/// Binds the claim `web-0` and deletes it. Returns its IPAddress.
async fn bind_and_release(world: &World, site: &Site) -> Value {
    site.create_claim("web-0", "public");
    world.await_bound("web-0").await;
    let saved = site.server.get(&key(Kind::Address, "web-0")).expect("it is bound");
    site.delete(Kind::Claim, "web-0");
    world.advance(SOON).await;
    world.users_interfered.set(true);
    (*saved).clone()
}

/// The claim `web-0` and its IPAddress, without their status.
fn restore(site: &Site, saved: &Value) {
    site.create_claim("web-0", "public");
    let _ = site.server.create(Kind::Address, forged(saved, "web-0"));
}

/// The claim is restored when its address is attached to this port, and says that the address is not free.
async fn restore_in_use(world: &World, port: &str) -> FloatingIpId {
    let (site, id) = (&world.sites[0], world.create_listed());
    let saved = bind_and_release(world, site).await;
    world.tamper(|world| world.cloud.set_port(&id, Some(port)));
    world.advance(SOON).await;
    restore(site, &saved);
    expect_told(world, site, 2, "is not free for it").await;
    id
}

async fn expect_told(world: &World, site: &Site, law: u8, part: &str) {
    world.advance(SOON).await;
    let (reason, message) = site.ready(Kind::Claim, NAMESPACE, "web-0");
    let is_told = reason == "AllocationFailed" && message.contains(part);
    world.expect(law, "web-0", &format!("told so, but {reason}: {message}"), is_told);
}

/// Law 2. The address was released after the backup, and its owner uses it.
#[test]
fn a_restored_claim_takes_no_address_that_is_in_use() {
    let outcome = simulate(&START, async |world: &World| {
        let id = restore_in_use(world, "port-of-its-owner").await;
        let tags = || world.cloud.floating_ips().into_iter().find(|fip| fip.id == id).map(|fip| fip.tags);
        world.expect(2, "the floating IP", "as its owner left it", tags().is_some_and(|tags| tags.is_empty()));
        world.tamper(|world| world.cloud.set_port(&id, None));
        world.await_bound("web-0").await;
    });
    outcome.assert_lawful();
}

/// Law 5. Only the mark had been removed, and its machine uses the address. A user does what the condition says.
#[test]
fn a_restored_claim_keeps_an_address_that_a_user_marks_for_it() {
    let outcome = simulate(&START, async |world: &World| {
        let id = restore_in_use(world, "port-of-its-machine").await;
        let site = &world.sites[0];
        let message = site.ready(Kind::Claim, NAMESPACE, "web-0").1;
        let tag = message.split(' ').find(|word| word.starts_with("caip.")).expect("it names the tag").to_owned();
        world.tamper(|world| world.cloud.edit(&id, |fip| _ = fip.tags.insert(tag)));
        world.await_bound("web-0").await;
        world.advance(SOON).await;
        world.expect(5, "web-0", "bound to it", site.address_of("web-0").is_some_and(|(_, fip)| fip == id));
    });
    outcome.assert_lawful();
}

/// Law 2. Its owner attaches it at the moment at which the claim marks it.
#[test]
fn what_a_restored_claim_marks_is_read_back() {
    let mut hits = 0;
    for delay in 0..48 {
        let outcome = simulate(&START, async |world: &World| {
            let (site, id) = (&world.sites[0], world.create_listed());
            let saved = bind_and_release(world, site).await;
            restore(site, &saved);
            world.advance(Duration::from_millis(5 * delay)).await;
            world.tamper(|world| world.cloud.set_port(&id, Some("port-of-its-owner")));
            let fip = world.cloud.floating_ips().into_iter().find(|fip| fip.id == id).expect("it is there");
            let is_hit = !Marks::read(&fip).claims.is_empty() && !site.is_bound("web-0");
            world.advance(2 * SOON).await;
            hits += u32::from(is_hit && !site.is_bound("web-0"));
        });
        outcome.assert_lawful();
    }
    assert!(hits > 0, "in no history was it attached between the mark and its read-back");
}

/// Law 6. Another claim has got an address since.
#[test]
fn a_restored_claim_takes_no_address_beyond_the_limit() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        for index in [0, 1] {
            world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(index)));
        }
        let reservations = json!([{"claim": "web-1", "address": address(1).to_string()}]);
        let list = json!([address(0), address(1)]);
        let spec = json!({"preAllocatedFloatingIPs": list, "maxIPs": 1, "reservations": reservations});
        site.create_pool("public", &spec);
        let saved = bind_and_release(world, site).await;
        site.create_claim("web-1", "public");
        world.await_bound("web-1").await;
        restore(site, &saved);
        expect_told(world, site, 6, "has reached spec.maxIPs").await;
        site.delete(Kind::Claim, "web-1");
        world.await_bound("web-0").await;
    });
    outcome.assert_lawful();
}

/// Creates the claim again, and restores an IPAddress with its name that the pool does not know. That has our finalizer and
/// no owners, as in a backup that was made as the documents say.
async fn restore_unknown(world: &World, site: &Site) {
    world.users_interfered.set(true);
    let saved = site.server.get(&key(Kind::Address, "web-0")).expect("it is bound");
    site.delete(Kind::Claim, "web-0");
    world.advance(SOON).await;
    let mut other = forged(&saved, "web-0");
    other["metadata"]["annotations"][POOL_ID_ANNOTATION] = "another".into();
    other["metadata"]["finalizers"] = json!([ADDRESS_FINALIZER]);
    site.create_claim("web-0", "public");
    let _ = site.server.create(Kind::Address, other);
    world.advance(SOON).await;
}

/// Laws 7 and 9. As the condition says.
#[test]
fn a_restored_ip_address_that_the_pool_does_not_know_goes_when_a_user_deletes_it() {
    simulate_bound(&START, async |world, site| {
        restore_unknown(world, site).await;
        let uid = || site.server.get(&key(Kind::Address, "web-0")).map(|it| it["metadata"]["uid"].clone());
        let had = uid();
        site.delete(Kind::Address, "web-0");
        world.advance(SOON).await;
        world.expect(5, "the IPAddress", "there, since its pool may follow", uid() == had);
        let is_there = world.wait_until(10 * SOON, || uid().is_some_and(|it| Some(it) != had)).await;
        world.expect(7, "web-0", "given an IPAddress again", is_there);
    });
}

/// Law 8. Kubernetes refuses to remove the finalizer.
#[test]
fn a_claim_whose_unknown_ip_address_cannot_be_removed_is_told_both_at_once() {
    simulate_bound(&START, async |world, site| {
        restore_unknown(world, site).await;
        let wire = site.replicas[0].wire().expect("it runs");
        let patch = "PATCH /apis/ipam.cluster.x-k8s.io/v1beta2/namespaces/team/ipaddresses";
        wire.refuse(patch, Rejection::Forbidden, 20 * SOON);
        site.delete(Kind::Address, "web-0");
        let is_told = world.wait_until(10 * SOON, || site.is_told("web-0", "cannot be removed yet")).await;
        world.expect(7, "web-0", "told why its IPAddress stays", is_told);
        let status =
            || site.server.get(&key(Kind::Claim, "web-0")).map(|claim| claim["status"].to_string()).unwrap_or_default();
        let told = status();
        world.expect(7, "web-0", "told that the pool does not know it", told.contains("not created by this pool"));
        for _ in 0..120 {
            world.advance(Duration::from_millis(500)).await;
            world.expect(8, "web-0", "told the same", status() == told);
        }
    });
}
