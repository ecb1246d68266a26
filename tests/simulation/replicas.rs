//! Two replicas and one lease. At each call of the leader in turn its connection breaks while OpenStack has the call: the
//! lease expires, the other replica takes over, and the call lands later. Clocks are off, too. No address is given twice,
//! and none is lost.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde_json::json;

use crate::wire::Fault;
use crate::world::{Start, World, address};
use crate::{Outcome, is_due, simulate};

const CLAIMS: [&str; 2] = ["web-0", "web-1"];
/// How long claims wait at most: an expired lease, a fence, a late call, and a retry.
const TIMEOUT: Duration = Duration::from_secs(300);

fn simulate_with(fault: Option<(usize, Fault)>, skew: i64, is_logged: bool) -> Outcome {
    let start = Start { seed: 11, sites: 1, replicas: 2, slowest: 12, is_logged };
    simulate(&start, async |world: &World| {
        let site = &world.sites[0];
        world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(0)));
        let plan = fault.into_iter().collect();
        site.replicas[0].plans.borrow_mut().push_back(plan);
        site.replicas[1].skew.store(skew, Relaxed);
        let spec = json!({
            "preAllocatedFloatingIPs": [address(0).to_string()], "floatingIPNetwork": {"filter": {"name": "public"}},
            "maxIPs": 3, "minFree": 1,
        });
        site.create_pool("public", &spec);
        CLAIMS.iter().for_each(|claim| site.create_claim(claim, "public"));
        let is_bound = world.wait_until(TIMEOUT, || CLAIMS.iter().all(|claim| site.is_bound(claim))).await;
        world.expect(7, "the claims", "bound in time", is_bound);
        site.delete(crate::api::Kind::Claim, CLAIMS[0]);
        world.advance(Duration::from_secs(4)).await;
    })
}

#[test]
fn leadership_that_changes_at_any_call_loses_nothing() {
    let calls = simulate_with(None, 0, false).calls.iter().flatten().copied().max().unwrap_or_default();
    let mut points = 0;
    for number in 0..calls.min(90) {
        let faults = [Fault::CutOff(Duration::from_secs(16)), Fault::CutOff(Duration::from_secs(29))];
        for (fault, skew) in faults.into_iter().zip([3600, -3600]) {
            if !is_due(number, 7) {
                continue;
            }
            points += 1;
            if !simulate_with(Some((number, fault)), skew, false).violations.is_empty() {
                let logged = simulate_with(Some((number, fault)), skew, true);
                panic!("call {number}, {fault:?}, clock off by {skew} s: {:?}\n{}", logged.violations, logged.log);
            }
        }
    }
    println!("{points} changes of leadership");
}
