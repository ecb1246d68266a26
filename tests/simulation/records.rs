//! Nothing grows without bound: of pools and claims that are gone, the controllers remember nothing.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::Kind;
use crate::world::{Start, World};
use crate::{is_due, simulate};

/// 10,000 pools with one claim each; a plain run has one round in twenty.
const ROUNDS: usize = 500;
const POOLS: usize = 20;

/// The records of pools, claims and Secrets that the controllers keep.
fn remembered(world: &World) -> usize {
    world.sites[0].replicas[0].records.get()
}

/// The pools by turns: one that creates, one that waits in vain for its list, one without credentials, and one whose
/// claim waits for its limit.
fn spec(index: usize) -> Value {
    match index % 4 {
        0 => json!({}),
        1 => json!({"preAllocatedFloatingIPs": ["192.0.2.1"]}),
        2 => json!({"identityRef": {"name": "none", "cloudName": "openstack"}}),
        _ => json!({"maxIPs": 0}),
    }
}

async fn create_and_delete(world: &World, round: usize) {
    let site = &world.sites[0];
    let name = |index: usize| format!("r{round}-{index}");
    for index in 0..POOLS {
        site.create_pool(&name(index), &spec(index));
        site.create_claim(&name(index), &name(index));
    }
    let is_settled = || (0..POOLS).all(|index| site.has_condition(&name(index)));
    let is_settled = world.wait_until(Duration::from_secs(120), is_settled).await;
    world.expect(8, "a record for each pool and claim", "kept", remembered(world) >= 2 * POOLS);
    world.expect(7, &format!("round {round}"), "settled", is_settled);
    // The pool first and the claim first, by turns.
    let is_claim_first = (round + round / 20).is_multiple_of(2);
    let (first, last) = if is_claim_first { (Kind::Claim, Kind::Pool) } else { (Kind::Pool, Kind::Claim) };
    (0..POOLS).for_each(|index| site.delete(first, &name(index)));
    world.advance(Duration::from_secs(1)).await;
    (0..POOLS).for_each(|index| site.delete(last, &name(index)));
    let left = || [Kind::Pool, Kind::Claim, Kind::Address].map(|kind| site.server.all(kind).len());
    let is_gone = world.wait_until(Duration::from_secs(300), || left() == [0; 3]).await;
    world.expect(9, &format!("round {round}"), "gone", is_gone);
    // As Kubernetes does after an hour, else the test would measure its own server.
    world.advance(Duration::from_secs(1)).await;
    site.server.expire_events();
}

#[test]
fn nothing_is_remembered_of_pools_and_claims_that_are_gone() {
    let start = Start { seed: 1, sites: 1, replicas: 1, slowest: 5, is_logged: false };
    let outcome = simulate(&start, async |world: &World| {
        world.witness.rates().lift_limit();
        let large = |last: u8| IpAddr::from([198, 51, 100, last]);
        world.cloud.add_subnet(&world.network, "large", large(1)..=large(254));
        for round in (0..ROUNDS).filter(|round| is_due(*round, 20)) {
            create_and_delete(world, round).await;
            if world.has_violations() {
                return;
            }
        }
        // Until late calls can no longer land, and the project was listed once more.
        world.advance(Duration::from_secs(180)).await;
        world.expect(4, "the controllers' memory", "empty", remembered(world) == 0);
    });
    outcome.assert_lawful();
}
