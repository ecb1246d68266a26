//! One claim's life, from its pool's creation to its deletion, with trouble at each single call: the process dies before
//! it, at it and after it, and the reply is lost, doubled and late.

use std::time::Duration;

use serde_json::{Value, json};

use crate::api::Kind;
use crate::wire::{No, Trouble};
use crate::world::{Start, World, address};
use crate::{Outcome, is_due, live};

const TROUBLES: [Trouble; 11] = [
    Trouble::DieBefore,
    Trouble::DieAfter,
    Trouble::DieAndLand(Duration::from_secs(1)),
    Trouble::DieAndLand(Duration::from_secs(25)),
    Trouble::ReplyLost,
    Trouble::RequestLost,
    Trouble::Refused(No::Server),
    Trouble::Refused(No::Conflict),
    Trouble::Twice,
    Trouble::Late(Duration::from_secs(8)),
    Trouble::Late(Duration::from_secs(45)),
];

/// The ways in which a pool comes by an address, each with marks of its own.
fn pools() -> [(&'static str, Value); 4] {
    [
        ("created", json!({})),
        ("retained", json!({"reclaimPolicy": "Retain", "maxIPs": 1})),
        ("listed", json!({"preAllocatedFloatingIPs": [address(0).to_string(), address(1).to_string()]})),
        ("spare", json!({"preallocate": 1, "reuseGracePeriodSeconds": 20})),
    ]
}

/// The life itself. What stands in its way is planned before; each step waits until the one before is done.
async fn life(world: &World, pool: &Value) {
    let site = &world.sites[0];
    world.tamper(|world| {
        for index in 0..2 {
            world.cloud.create_at(&world.project, &world.network, address(index));
        }
    });
    site.create_pool("public", pool);
    site.create_claim("web-0", "public");
    let is_bound = world.until(PATIENCE, || site.is_bound("web-0")).await;
    world.expect(7, "web-0", "bound in time", is_bound);
    world.pass(Duration::from_secs(4)).await;
    let first = site.address_of("web-0");
    // An IPAddress that is deleted under a living claim comes back with the same address.
    site.delete(Kind::Address, "web-0");
    world.pass(Duration::from_secs(2)).await;
    let is_back = world.until(PATIENCE, || site.address_of("web-0") == first).await;
    world.expect(5, "web-0", "the same address again", is_back);
    site.delete(Kind::Claim, "web-0");
    world.pass(Duration::from_secs(4)).await;
}

/// How long a claim waits at most for what is mended by itself: a late call, a restart, a fence, a retry.
const PATIENCE: Duration = Duration::from_secs(240);

fn lived(pool: &Value, trouble: Option<(usize, Trouble)>, is_told: bool) -> Outcome {
    let start = Start { seed: 7, sites: 1, replicas: 1, slowest: 12, is_told };
    live(&start, async |world: &World| {
        world.sites[0].replicas[0].plans.borrow_mut().push_back(trouble.into_iter().collect());
        life(world, pool).await;
    })
}

#[test]
fn one_claims_life_is_the_same_each_time() {
    for (name, pool) in pools() {
        let (one, other) = (lived(&pool, None, true), lived(&pool, None, true));
        assert!(one.broken.is_empty(), "{name}: {:?}\n{}", one.broken, one.story);
        assert_eq!(one.story, other.story, "{name}");
    }
}

#[test]
fn one_claims_life_survives_trouble_at_any_call() {
    let (mut points, mut failures) = (0, Vec::new());
    for (name, pool) in pools() {
        // The last of them belong to the rest, in which nothing goes wrong any more.
        let calls = lived(&pool, None, false).calls[0][0];
        for number in 0..calls.min(CALLS) {
            for (index, trouble) in TROUBLES.into_iter().enumerate() {
                if !is_due(number + index, 7) {
                    continue;
                }
                points += 1;
                let outcome = lived(&pool, Some((number, trouble)), false);
                if !outcome.broken.is_empty() {
                    failures.push((name, pool.clone(), number, trouble, outcome.broken));
                }
            }
        }
    }
    println!("{points} points of trouble");
    for (name, _, number, trouble, broken) in &failures {
        println!("{name}, call {number}, {trouble:?}: {broken:?}");
    }
    if let Some((_, pool, number, trouble, _)) = failures.first() {
        panic!("{} failures; the first:\n{}", failures.len(), lived(pool, Some((*number, *trouble)), true).story);
    }
}

/// More than the life of one claim needs.
const CALLS: usize = 90;
