//! Histories that once lost an address which was still needed, or kept an object that nobody needed.

use std::time::Duration;

use serde_json::json;

use crate::api::Kind;
use crate::simulate;
use crate::world::{Start, World};

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
