//! Histories that once lost an address which was still needed, or kept an object that nobody needed.

use std::time::Duration;

use caip_openstack::api::names::ABANDON_ANNOTATION;
use serde_json::json;

use crate::api::Kind;
use crate::simulate;
use crate::wire::{Fault, Side};
use crate::world::{Start, World, address};

const START: Start = Start { seed: 5, sites: 1, replicas: 1, slowest: 20, is_logged: true };
const SOON: Duration = Duration::from_secs(60);

#[test]
fn a_released_address_goes_to_the_waiting_claim_that_reserves_it() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
        site.create_claim("web-0", "public");
        world.wait_until(SOON, || site.is_bound("web-0")).await;
        let had = site.address_of("web-0");
        let address = had.as_ref().map(|(address, _)| address.to_string());
        let reservations = json!([{"claim": "web-1", "address": address}]);
        site.change(Kind::Pool, "public", &json!({"spec": {"reservations": reservations}}));
        world.advance(Duration::from_secs(5)).await;
        site.create_claim("web-1", "public");
        world.advance(Duration::from_secs(40)).await;
        world.expect(2, "web-1", "refused while web-0 has the address", !site.is_bound("web-1"));
        site.delete(Kind::Claim, "web-0");
        world.wait_until(SOON, || site.is_bound("web-1")).await;
        world.expect(7, "web-1", "given the floating IP that it reserves", site.address_of("web-1") == had);
    });
    outcome.assert_lawful();
}

#[test]
fn an_address_that_is_attached_during_its_grace_period_is_not_deleted() {
    for attached_after in [20, 60, 100, 115, 118, 119] {
        let outcome = simulate(&START, async |world: &World| {
            let site = &world.sites[0];
            let network = json!({"filter": {"name": "public"}});
            site.create_pool("public", &json!({"floatingIPNetwork": network, "reuseGracePeriodSeconds": 120}));
            site.create_claim("web-0", "public");
            world.wait_until(SOON, || site.is_bound("web-0")).await;
            let (_, id) = site.address_of("web-0").unwrap();
            site.delete(Kind::Claim, "web-0");
            world.advance(Duration::from_secs(attached_after)).await;
            world.tamper(|world| world.cloud.set_port(&id, Some("port-of-a-user")));
            world.advance(Duration::from_secs(300)).await;
            let is_there = world.cloud.floating_ips().iter().any(|fip| fip.id == id);
            world.expect(2, "the attached floating IP", "kept", is_there);
        });
        outcome.assert_lawful();
    }
}

#[test]
fn a_claim_deleted_before_the_watch_delivers_its_ip_address_leaves_none_behind() {
    for seed in 0..20 {
        let start = Start { seed, slowest: 3_000, is_logged: false, ..START };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
            site.create_claim("web-0", "public");
            let is_published = || !site.server.all(Kind::Address).is_empty();
            world.wait_until(SOON, is_published).await;
            site.delete(Kind::Claim, "web-0");
            let is_gone = world.wait_until(SOON, || site.server.all(Kind::Claim).is_empty()).await;
            world.expect(9, "web-0", "gone", is_gone);
            world.expect(9, "its IPAddress", "gone with it", !is_published());
            site.delete(Kind::Pool, "public");
            let is_gone = world.wait_until(SOON, || site.server.all(Kind::Pool).is_empty()).await;
            world.expect(9, "public", "gone", is_gone);
            world.skips_rest.set(true);
        });
        outcome.assert_lawful();
    }
}

/// A user ends a claim whose mark could not be written: with the annotation, or by removing the finalizer.
#[test]
fn the_address_that_a_claim_held_is_given_to_another_when_the_claim_is_abandoned_or_removed_by_force() {
    let cases =
        [(Fault::RequestLost, false), (Fault::RequestLost, true), (Fault::ReplyLost, false), (Fault::ReplyLost, true)];
    for (fault, is_forced) in cases {
        let outcome = simulate(&START, async |world: &World| {
            let site = &world.sites[0];
            world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(0)));
            site.create_pool("public", &json!({"preAllocatedFloatingIPs": [address(0).to_string()]}));
            world.wait_until(SOON, || site.has_condition("public")).await;
            world.advance(Duration::from_secs(5)).await;
            site.replicas[0].add_outage(Side::OpenStack, fault, 8, Duration::from_secs(60));
            site.create_claim("web-0", "public");
            world.advance(Duration::from_secs(30)).await;
            world.expect(7, "web-0", "without an address", !site.is_bound("web-0"));
            let change = match is_forced {
                true => json!({"metadata": {"finalizers": []}}),
                false => json!({"metadata": {"annotations": {ABANDON_ANNOTATION: "true"}}}),
            };
            site.change(Kind::Claim, "web-0", &change);
            site.delete(Kind::Claim, "web-0");
            let is_gone = world.wait_until(SOON, || site.server.all(Kind::Claim).is_empty()).await;
            world.expect(9, "web-0", "gone", is_gone);
            world.advance(Duration::from_secs(200)).await;
            site.create_claim("web-1", "public");
            world.wait_until(Duration::from_secs(3900), || site.is_bound("web-1")).await;
            let given = site.address_of("web-1").map(|(address, _)| address);
            world.expect(7, "web-1", "given the address", given == Some(address(0)));
        });
        outcome.assert_lawful();
    }
}
