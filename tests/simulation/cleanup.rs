//! Releasing an address and deleting a pool need credentials that work, and nothing else of the pool's spec.

use std::time::Duration;

use serde_json::json;

use crate::api::Kind;
use crate::simulate;
use crate::users::key;
use crate::world::{Start, World};

const START: Start = Start { seed: 7, sites: 1, replicas: 1, slowest: 20, is_logged: true };
const SOON: Duration = Duration::from_secs(60);

async fn bind(world: &World, claim: &str) {
    let site = &world.sites[0];
    site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
    site.create_claim(claim, "public");
    let is_bound = world.wait_until(SOON, || site.is_bound(claim)).await;
    world.expect(7, claim, "bound", is_bound);
}

async fn expect_gone(world: &World, kind: Kind) {
    let is_gone = world.wait_until(2 * SOON, || world.sites[0].server.all(kind).is_empty()).await;
    world.expect(9, &format!("{kind:?}"), "gone", is_gone);
}

#[test]
fn a_pool_that_is_being_deleted_takes_the_new_credentials_of_its_secret() {
    for is_restarted in [false, true] {
        let outcome = simulate(&START, async |world: &World| {
            let site = &world.sites[0];
            bind(world, "web-0").await;
            site.delete(Kind::Pool, "public");
            world.advance(SOON).await;
            world.cloud.change_password("ours", "renewed");
            if is_restarted {
                site.replicas[0].wire().iter().for_each(|wire| wire.kill());
            }
            world.advance(SOON).await;
            let data = serde_json::to_value(world.cloud.secret("ours")).unwrap();
            site.change(Kind::Secret, "cloud", &json!({"data": data}));
            world.advance(SOON).await;
            site.delete(Kind::Claim, "web-0");
            expect_gone(world, Kind::Claim).await;
            expect_gone(world, Kind::Pool).await;
            world.expect(4, "Neutron", "as it was before", world.cloud.floating_ips().is_empty());
        });
        outcome.assert_lawful();
    }
}

#[test]
fn a_claim_is_released_although_its_pool_has_a_problem_that_a_new_process_finds() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        bind(world, "web-0").await;
        world.cloud.rename_network(&world.network, "renamed");
        site.replicas[0].wire().iter().for_each(|wire| wire.kill());
        world.advance(2 * SOON).await;
        site.delete(Kind::Claim, "web-0");
        expect_gone(world, Kind::Claim).await;
        let is_deleted = world.wait_until(2 * SOON, || world.cloud.floating_ips().is_empty()).await;
        world.expect(4, "the floating IP", "deleted", is_deleted);
        world.cloud.rename_network(&world.network, "public");
    });
    outcome.assert_lawful();
}

#[test]
fn a_pool_whose_credentials_are_for_another_region_does_nothing_until_they_are_restored() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        bind(world, "web-0").await;
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
        set_region("RegionOne");
        world.advance(SOON).await;
    });
    outcome.assert_lawful();
}

#[test]
fn the_spares_of_a_pool_whose_network_a_new_process_does_not_find_are_kept() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        bind(world, "web-0").await;
        site.change(Kind::Pool, "public", &json!({"spec": {"preallocate": 2}}));
        let is_ready = world.wait_until(SOON, || world.cloud.floating_ips().len() == 3).await;
        world.expect(7, "public", "ready with two spares", is_ready);
        world.cloud.rename_network(&world.network, "renamed");
        site.replicas[0].wire().iter().for_each(|wire| wire.kill());
        world.advance(2 * SOON).await;
        site.delete(Kind::Claim, "web-0");
        expect_gone(world, Kind::Claim).await;
        world.advance(2 * SOON).await;
        world.expect(4, "the spares", "kept", world.cloud.floating_ips().len() == 2);
        world.cloud.rename_network(&world.network, "public");
    });
    outcome.assert_lawful();
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
