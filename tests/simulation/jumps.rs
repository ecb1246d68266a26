//! The machine's clock jumps while a process runs.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use caip_openstack::allocation::ClaimKey;
use caip_openstack::allocation::mark::claim_tag;
use serde_json::json;

use crate::api::Kind;
use crate::laws::pool_id;
use crate::simulate;
use crate::users::key;
use crate::world::{Start, World, address};

const DAY: i64 = 24 * 60 * 60;

fn start() -> Start {
    Start { seed: 1, sites: 1, replicas: 1, slowest: 20, is_logged: true }
}

#[test]
fn a_floating_ip_that_is_created_after_the_clock_was_put_back_is_seen_in_time() {
    let outcome = simulate(&start(), async |world: &World| {
        let site = &world.sites[0];
        site.create_pool("public", &json!({"preAllocatedFloatingIPs": [address(0).to_string()]}));
        site.create_claim("web-0", "public");
        world.advance(Duration::from_secs(20)).await;
        site.replicas[0].skew.store(-DAY, Relaxed);
        world.advance(Duration::from_secs(1)).await;
        world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(0)));
        let is_bound = world.wait_until(Duration::from_secs(60), || site.is_bound("web-0")).await;
        world.expect(7, "the claim", "bound", is_bound);
        site.delete(Kind::Claim, "web-0");
        let is_gone = || site.server.get(&key(Kind::Claim, "web-0")).is_none();
        world.expect(9, "the claim", "gone", world.wait_until(Duration::from_secs(60), is_gone).await);
    });
    outcome.assert_lawful();
}

#[test]
fn an_orphan_is_not_older_because_the_clock_was_put_forward() {
    let outcome = simulate(&start(), async |world: &World| {
        let site = &world.sites[0];
        let fip = world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(0)));
        let orphans = json!({"policy": "Release", "graceSeconds": 3600});
        site.create_pool("public", &json!({"preAllocatedFloatingIPs": [address(0).to_string()], "orphans": orphans}));
        world.advance(Duration::from_secs(20)).await;
        let pool = site.server.get(&key(Kind::Pool, "public")).and_then(|pool| pool_id(&pool)).expect("it has an id");
        let tag = claim_tag(&pool, &ClaimKey::of("team", "gone"));
        world.tamper(|world| world.cloud.edit(&fip.id, |fip| _ = fip.tags.insert(tag.clone())));
        world.advance(Duration::from_secs(120)).await;
        site.replicas[0].skew.store(DAY, Relaxed);
        let is_there = || world.cloud.floating_ips().iter().any(|fip| fip.tags == [tag.clone()].into());
        let is_released = world.wait_until(Duration::from_secs(1200), || !is_there()).await;
        world.expect(2, "an orphan of some minutes", "left for an hour", !is_released);
    });
    outcome.assert_lawful();
}
