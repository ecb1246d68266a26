//! Two replicas and one lease. At each call of the leader in turn its connection breaks while OpenStack has the call: the
//! lease expires, the other replica takes over, and the call lands later. Clocks are off, too. No address is given twice,
//! and none is lost.

use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde_json::json;

use crate::wire::Fault;
use crate::world::{Start, World, address};
use crate::{Outcome, is_due, simulate};

const CLAIMS: [&str; 2] = ["web-0", "web-1"];
/// How long claims wait at most: an expired lease, a fence, a late call, and a retry.
const TIMEOUT: Duration = Duration::from_secs(300);

/// How the leadership went.
#[derive(Clone, Copy, Default)]
struct Leadership {
    /// Which replica leads in the end.
    last: usize,
    changes: i64,
}

/// The fault is one of the replica that leads first, `leader`; the clock of the other one is off.
fn simulate_with(leader: usize, fault: Option<(usize, Fault)>, skew: i64, is_logged: bool) -> (Outcome, Leadership) {
    let start = Start { seed: 11, sites: 1, replicas: 2, slowest: 12, is_logged };
    let leadership = Cell::new(Leadership::default());
    let outcome = simulate(&start, async |world: &World| {
        let site = &world.sites[0];
        world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(0)));
        let plan = fault.into_iter().collect();
        site.replicas[leader].plans.borrow_mut().push_back(plan);
        site.replicas[1 - leader].skew.store(skew, Relaxed);
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
        let last = site.replicas.iter().position(|replica| site.is_leader(replica)).unwrap_or_default();
        leadership.set(Leadership { last, changes: site.leader_changes() });
    });
    (outcome, leadership.get())
}

#[test]
fn leadership_that_changes_at_any_call_loses_nothing() {
    let (undisturbed, Leadership { last: leader, changes }) = simulate_with(0, None, 0, false);
    undisturbed.assert_lawful();
    assert_eq!(changes, 0);
    let calls = undisturbed.calls[leader][0];
    let (mut points, mut changes) = (0, 0);
    for number in 0..calls.min(90) {
        let faults = [Fault::CutOff(Duration::from_secs(16)), Fault::CutOff(Duration::from_secs(29))];
        for (fault, skew) in faults.into_iter().zip([3600, -3600]) {
            if !is_due(number, 7) {
                continue;
            }
            points += 1;
            let (outcome, leadership) = simulate_with(leader, Some((number, fault)), skew, false);
            changes += leadership.changes;
            if !outcome.violations.is_empty() {
                let (logged, _) = simulate_with(leader, Some((number, fault)), skew, true);
                panic!("call {number}, {fault:?}, clock off by {skew} s: {:?}\n{}", logged.violations, logged.log);
            }
        }
    }
    println!("{changes} changes of leadership by faults at {points} points");
    assert!(changes > 0, "no fault made the leader lose its Lease");
}
