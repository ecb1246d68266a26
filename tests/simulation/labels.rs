//! The tags of `spec.tags`.

use std::time::Duration;

use caip_openstack::allocation::mark::Marks;
use serde_json::json;

use crate::api::Kind;
use crate::simulate;
use crate::world::{Start, World, address};

const SOON: Duration = Duration::from_secs(60);

#[test]
fn what_the_pool_creates_gets_the_tags_of_its_spec_and_nothing_else_does() {
    for seed in 0..4 {
        let start = Start { seed, sites: 1, replicas: 1, slowest: 20, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(0)));
            let spec = json!({
                "preAllocatedFloatingIPs": [address(0)], "floatingIPNetwork": {"filter": {"name": "public"}},
                "reuse": {"policy": "Never"}, "minFree": 1, "tags": ["cost-a"],
            });
            site.create_pool("public", &spec);
            for claim in ["web-0", "web-1"] {
                site.create_claim(claim, "public");
                world.await_bound(claim).await;
            }
            let all = |tag: &str| {
                let fips = world.cloud.floating_ips();
                let created: Vec<_> = fips.iter().filter(|fip| Marks::read(fip).created.is_some()).collect();
                created.len() == 2 && created.iter().all(|fip| fip.tags.contains(tag))
            };
            let is_tagged = world.wait_until(SOON, || all("cost-a")).await;
            world.expect(7, "what the pool created", "tagged", is_tagged);
            site.change(Kind::Pool, "public", &json!({"spec": {"tags": ["cost-b"]}}));
            let is_tagged = world.wait_until(SOON, || all("cost-b")).await;
            world.expect(7, "what the pool had created", "tagged too", is_tagged && all("cost-a"));
            let listed = world.cloud.floating_ips().into_iter().find(|fip| fip.address == address(0));
            let is_left = listed.is_some_and(|fip| !fip.tags.iter().any(|tag| tag.starts_with("cost")));
            world.expect(3, "a listed floating IP", "without these tags", is_left);
            for claim in ["web-0", "web-1"] {
                site.delete(Kind::Claim, claim);
            }
            world.expect_gone(Kind::Claim).await;
            site.delete(Kind::Pool, "public");
            world.expect_gone(Kind::Pool).await;
            let is_gone = || world.cloud.floating_ips().iter().all(|fip| fip.address == address(0));
            world.expect(4, "what the pool created", "deleted", world.wait_until(SOON, is_gone).await);
        });
        outcome.assert_lawful();
    }
}
