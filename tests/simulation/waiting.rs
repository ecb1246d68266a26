//! Claims that wait for a particular address, and addresses that rest before they are given again.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::json;

use crate::api::Kind;
use crate::simulate;
use crate::users::key;
use crate::world::{Start, World};

fn start(seed: u64) -> Start {
    Start { seed, sites: 1, replicas: 1, slowest: 20, is_logged: true }
}

async fn bind(world: &World, claim: &str) -> Option<IpAddr> {
    let site = &world.sites[0];
    let is_bound = world.wait_until(Duration::from_secs(60), || site.is_bound(claim)).await;
    world.expect(7, claim, "bound", is_bound);
    site.address_of(claim).map(|(address, _)| address)
}

#[test]
fn a_reserved_address_that_another_claim_holds_is_given_once_it_is_released() {
    for seed in 0..8 {
        let outcome = simulate(&start(seed), async |world: &World| {
            let site = &world.sites[0];
            site.create_pool("public", &json!({"reuseGracePeriodSeconds": 30}));
            site.create_claim("web-0", "public");
            let Some(held) = bind(world, "web-0").await else { return };
            let reservations = json!([{"claim": "web-1", "address": held.to_string()}]);
            site.change(Kind::Pool, "public", &json!({"spec": {"reservations": reservations}}));
            world.advance(Duration::from_secs(5)).await;
            site.create_claim("web-1", "public");
            world.advance(Duration::from_secs(20)).await;
            world.expect(7, "web-1", "waiting", !site.is_bound("web-1"));
            site.delete(Kind::Claim, "web-0");
            let given = bind(world, "web-1").await;
            world.expect(7, "web-1", "given its reservation", given == Some(held));
        });
        outcome.assert_lawful();
    }
}

#[test]
fn a_cooling_address_that_a_user_attaches_is_not_deleted_before_it_is_detached() {
    for seed in 0..8 {
        let outcome = simulate(&start(seed), async |world: &World| {
            let site = &world.sites[0];
            site.create_pool("public", &json!({"reuseGracePeriodSeconds": 60}));
            site.create_claim("web-0", "public");
            bind(world, "web-0").await;
            let Some((_, id)) = site.address_of("web-0") else { return };
            site.delete(Kind::Claim, "web-0");
            let is_gone = || site.server.get(&key(Kind::Claim, "web-0")).is_none();
            world.expect(9, "web-0", "gone", world.wait_until(Duration::from_secs(30), is_gone).await);
            world.advance(Duration::from_secs(20 + 5 * seed)).await;
            world.tamper(|world| world.cloud.set_port(&id, Some("port-of-a-user")));
            world.advance(Duration::from_secs(300)).await;
            let is_there = || world.cloud.floating_ips().iter().any(|fip| fip.id == id);
            world.expect(2, "an address that is attached", "there", is_there());
            world.tamper(|world| world.cloud.set_port(&id, None));
            let is_deleted = world.wait_until(Duration::from_secs(300), || !is_there()).await;
            world.expect(4, "an unused address", "deleted", is_deleted);
        });
        outcome.assert_lawful();
    }
}
