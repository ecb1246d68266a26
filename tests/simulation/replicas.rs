//! Two replicas and one lease. At each call of the leader in turn its connection breaks while OpenStack has the call: the
//! lease runs out, the other takes over, and the call lands in its time. Clocks are off, too. No address is given twice,
//! and none is lost.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde_json::json;

use crate::wire::Trouble;
use crate::world::{Start, World, address};
use crate::{Outcome, is_due, live};

const CLAIMS: [&str; 2] = ["web-0", "web-1"];
/// How long claims wait at most: a lease that runs out, a fence, a call that is late, and a retry.
const PATIENCE: Duration = Duration::from_secs(300);

fn lived(trouble: Option<(usize, Trouble)>, skew: i64, is_told: bool) -> Outcome {
    let start = Start { seed: 11, sites: 1, replicas: 2, slowest: 12, is_told };
    live(&start, async |world: &World| {
        let site = &world.sites[0];
        world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(0)));
        let plan = trouble.into_iter().collect();
        site.replicas[0].plans.borrow_mut().push_back(plan);
        site.replicas[1].skew.store(skew, Relaxed);
        let spec = json!({
            "preAllocatedFloatingIPs": [address(0).to_string()], "floatingIPNetwork": {"filter": {"name": "public"}},
            "maxIPs": 3, "preallocate": 1,
        });
        site.create_pool("public", &spec);
        CLAIMS.iter().for_each(|claim| site.create_claim(claim, "public"));
        let is_bound = world.until(PATIENCE, || CLAIMS.iter().all(|claim| site.is_bound(claim))).await;
        world.expect(7, "the claims", "bound in time", is_bound);
        site.delete(crate::api::Kind::Claim, CLAIMS[0]);
        world.pass(Duration::from_secs(4)).await;
    })
}

#[test]
fn leadership_that_changes_at_any_call_loses_nothing() {
    let calls = lived(None, 0, false).calls.iter().flatten().copied().max().unwrap_or_default();
    let mut points = 0;
    for number in 0..calls.min(90) {
        let troubles = [Trouble::CutOff(Duration::from_secs(16)), Trouble::CutOff(Duration::from_secs(29))];
        for (trouble, skew) in troubles.into_iter().zip([3600, -3600]) {
            if !is_due(number, 3) {
                continue;
            }
            points += 1;
            if !lived(Some((number, trouble)), skew, false).broken.is_empty() {
                let told = lived(Some((number, trouble)), skew, true);
                panic!("call {number}, {trouble:?}, clock off by {skew} s: {:?}\n{}", told.broken, told.story);
            }
        }
    }
    println!("{points} changes of leadership");
}
