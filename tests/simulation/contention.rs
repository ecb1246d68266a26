//! Two management clusters whose pools list one address, with a claim each that wants it at the same moment. In whichever
//! order their calls reach Neutron, one of them has the address after few rounds: a round is a tag that a claim writes.

use std::time::Duration;

use serde_json::json;

use crate::wire::Fault;
use crate::world::{Start, World, address};
use crate::{is_due, simulate};

/// In the first round both see the other's mark and back off. In the second only the one with the smaller mark tries.
const ROUNDS: usize = 2;
/// The slowest calls take this many milliseconds each way.
const SPEEDS: [u64; 3] = [20, 200, 900];
/// How many moments there are for the second claim, before and after that of the first.
const MOMENTS: i64 = 40;
const SOON: Duration = Duration::from_secs(60);
/// Longer than a claim that backed off waits.
const LATER: Duration = Duration::from_secs(150);

fn start(seed: u64, slowest: u64) -> Start {
    Start { seed, sites: 2, replicas: 1, slowest, is_logged: true }
}

/// Both pools serve, and one address is free.
async fn prepare(world: &World) {
    world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(0)));
    for site in &world.sites {
        site.create_pool("public", &json!({"preAllocatedFloatingIPs": [address(0).to_string()]}));
    }
    world.advance(SOON).await;
}

/// Creates the two claims, the second so many milliseconds after the first, or before.
async fn claim(world: &World, offset: i64) {
    let (first, second) = if offset < 0 { (1, 0) } else { (0, 1) };
    world.sites[first].create_claim("web-0", "public");
    world.advance(Duration::from_millis(offset.unsigned_abs())).await;
    world.sites[second].create_claim("web-0", "public");
}

fn bound(world: &World) -> usize {
    world.sites.iter().filter(|site| site.is_bound("web-0")).count()
}

/// How often each site wrote the mark of its claim.
fn rounds(log: &str) -> usize {
    let tags = |process: &str| {
        let is_tag =
            |line: &&str| line.contains(" tag floating IP ") && line.contains(" caip.") && line.contains(process);
        log.lines().filter(is_tag).count()
    };
    tags("0.0 ").max(tags("1.0 "))
}

#[test]
fn of_two_claims_that_want_one_address_one_has_it_after_few_rounds() {
    let (mut histories, mut contested, mut most) = (0, 0, 0);
    for (index, slowest) in SPEEDS.into_iter().enumerate() {
        for moment in (-MOMENTS..=MOMENTS).filter(|moment| is_due(moment.unsigned_abs() as usize, 4)) {
            // Up to four calls apart.
            let offset = moment * i64::try_from(slowest * 8).unwrap() / MOMENTS;
            let start = start(index as u64 * 1000 + moment.unsigned_abs(), slowest);
            let outcome = simulate(&start, async |world: &World| {
                world.skips_rest.set(true);
                prepare(world).await;
                claim(world, offset).await;
                let is_bound = world.wait_until(SOON, || bound(world) > 0).await;
                world.expect(7, "one of the claims", "bound", is_bound);
                world.advance(LATER).await;
                world.expect(1, "the other one", "refused", bound(world) == 1);
                let is_told = world.sites.iter().all(|site| site.has_condition("web-0"));
                world.expect(7, "both claims", "told", is_told);
                world.judge(false);
            });
            outcome.assert_lawful();
            let rounds = rounds(&outcome.log);
            (histories, contested, most) = (histories + 1, contested + usize::from(rounds > 1), most.max(rounds));
            assert!(rounds <= ROUNDS, "{start:?}, {offset} ms apart: {rounds} rounds\n{}", outcome.log);
        }
    }
    println!("{histories} histories of two claims for one address, {contested} with a second round, at most {most}");
    assert!(contested > 0, "no history in which both backed off");
}

#[test]
fn of_two_claims_that_want_one_address_one_has_it_whatever_fails_meanwhile() {
    let seconds = Duration::from_secs;
    let faults = [
        Fault::CrashBefore,
        Fault::CrashAfter,
        Fault::CrashAndLand(seconds(8)),
        Fault::ReplyLost,
        Fault::RequestLost,
        Fault::Late(seconds(7)),
        Fault::Late(seconds(45)),
    ];
    for (index, fault) in faults.into_iter().enumerate() {
        for call in (0..24).filter(|call| is_due(call * faults.len() + index, 12)) {
            let outcome = simulate(&start(index as u64, 200), async |world: &World| {
                prepare(world).await;
                for site in &world.sites[..1 + call % 2] {
                    if let Some(wire) = site.replicas[0].wire() {
                        wire.plan(wire.calls() + call, fault);
                    }
                }
                claim(world, 0).await;
                world.advance(2 * LATER).await;
                world.expect(7, "one of the claims", "bound", bound(world) == 1);
            });
            outcome.assert_lawful();
        }
    }
}
