//! One claim's lifecycle, from its pool's creation to its deletion, with a fault at each single call: the process dies
//! before it, at it or after it, or the reply is lost, doubled or late.

use std::time::Duration;

use serde_json::{Value, json};

use crate::api::Kind;
use crate::wire::{Fault, Rejection};
use crate::world::{Start, World, address};
use crate::{Outcome, is_due, simulate};

const FAULTS: [Fault; 13] = [
    Fault::CrashBefore,
    Fault::CrashAfter,
    Fault::CrashAndLand(Duration::from_secs(1)),
    Fault::CrashAndLand(Duration::from_secs(25)),
    Fault::Panic,
    Fault::ReplyLost,
    Fault::RequestLost,
    Fault::Refused(Rejection::Server),
    Fault::Refused(Rejection::Conflict),
    Fault::Refused(Rejection::Page),
    Fault::Twice,
    Fault::Late(Duration::from_secs(8)),
    Fault::Late(Duration::from_secs(45)),
];

/// One pool for each way of marking an address.
fn pools() -> [(&'static str, Value); 4] {
    [
        ("created", json!({})),
        ("retained", json!({"reclaimPolicy": "Retain", "maxIPs": 1})),
        ("listed", json!({"preAllocatedFloatingIPs": [address(0).to_string(), address(1).to_string()]})),
        ("spare", json!({"minFree": 1, "reuseGracePeriodSeconds": 20})),
    ]
}

/// The faults are planned before; each step waits until the one before is done.
async fn run_lifecycle(world: &World, pool: &Value) {
    let site = &world.sites[0];
    world.tamper(|world| {
        for index in 0..2 {
            world.cloud.create_at(&world.project, &world.network, address(index));
        }
    });
    site.create_pool("public", pool);
    site.create_claim("web-0", "public");
    let is_bound = world.wait_until(TIMEOUT, || site.is_bound("web-0")).await;
    world.expect(7, "web-0", "bound in time", is_bound);
    world.advance(Duration::from_secs(4)).await;
    let first = site.address_of("web-0");
    // An IPAddress that is deleted while its claim exists comes back with the same address.
    site.delete(Kind::Address, "web-0");
    world.advance(Duration::from_secs(2)).await;
    let is_back = world.wait_until(TIMEOUT, || site.address_of("web-0") == first).await;
    world.expect(5, "web-0", "the same address again", is_back);
    site.delete(Kind::Claim, "web-0");
    world.advance(Duration::from_secs(4)).await;
}

/// How long a claim waits at most: a late call, a restart, a fence, a retry.
const TIMEOUT: Duration = Duration::from_secs(240);

fn simulate_with(pool: &Value, fault: Option<(usize, Fault)>, is_logged: bool) -> Outcome {
    let start = Start { seed: 7, sites: 1, replicas: 1, slowest: 12, is_logged };
    simulate(&start, async |world: &World| {
        world.sites[0].replicas[0].plans.borrow_mut().push_back(fault.into_iter().collect());
        run_lifecycle(world, pool).await;
    })
}

#[test]
fn one_claims_lifecycle_is_the_same_each_time() {
    for (name, pool) in pools() {
        let (one, other) = (simulate_with(&pool, None, true), simulate_with(&pool, None, true));
        one.assert_lawful();
        assert_eq!(one.log, other.log, "{name}");
    }
}

#[test]
fn one_claims_lifecycle_survives_a_fault_at_any_call() {
    survives_a_fault_at_any_call(&pools(), CALLS, 17, simulate_with);
}

/// Runs a history of each pool with a fault at each of its first calls: one of `every` points in a plain run.
pub fn survives_a_fault_at_any_call(
    pools: &[(&str, Value)],
    most_calls: usize,
    every: u64,
    run: impl Fn(&Value, Option<(usize, Fault)>, bool) -> Outcome,
) {
    let (mut points, mut failures) = (0, Vec::new());
    for (name, pool) in pools {
        // The last of them belong to the time without faults.
        let undisturbed = run(pool, None, false);
        undisturbed.assert_lawful();
        let calls = undisturbed.calls[0][0];
        for number in 0..calls.min(most_calls) {
            for (index, fault) in FAULTS.into_iter().enumerate() {
                if !is_due(number + index, every) {
                    continue;
                }
                points += 1;
                let outcome = run(pool, Some((number, fault)), false);
                if !outcome.violations.is_empty() {
                    failures.push((name, pool, number, fault, outcome.violations));
                }
            }
        }
    }
    println!("{points} points of fault");
    assert!(points > 0, "the history has no call");
    for (name, _, number, fault, violations) in &failures {
        println!("{name}, call {number}, {fault:?}: {violations:?}");
    }
    if let Some((_, pool, number, fault, _)) = failures.first() {
        panic!("{} failures; the first:\n{}", failures.len(), run(pool, Some((*number, *fault)), true).log);
    }
}

/// More than the lifecycle of one claim needs.
const CALLS: usize = 90;
