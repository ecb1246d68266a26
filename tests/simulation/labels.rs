//! The tags of `spec.tags`: at the end of each generated history, and in one of their own.

use std::time::Duration;

use caip_openstack::allocation::mark::{Marks, Ownership};
use serde_json::{Value, json};

use crate::api::Kind;
use crate::api::metadata::is_deleting;
use crate::edits::LABEL;
use crate::laws;
use crate::simulate;
use crate::world::{Start, World, address};

const SOON: Duration = Duration::from_secs(60);
/// Neutron takes fifty tags, of which some are left to marks.
const ROOMY: usize = 40;

impl World {
    /// At rest, what a pool created and keeps has the tags of its spec, and nothing else has a tag that only pools write. What
    /// users changed by hand may look different.
    pub fn judge_labels(&self) {
        if self.witness.was_altered() {
            return;
        }
        let (snapshot, forged, others) = (self.snapshot(true), self.witness.forged(), self.witness.others());
        let fips = self.cloud.floating_ips();
        let copied = laws::copied(&fips);
        for fip in fips.iter().filter(|fip| !forged.contains(&fip.id)) {
            let marks = Marks::read(fip);
            // One that a pool created and left behind, since a user had attached it, keeps its tags.
            let is_anothers_labelled = others.contains(&fip.id) && fip.tags.contains(LABEL);
            let Some(created) = &marks.created else {
                self.expect(3, fip.id.as_str(), "left without the tags of a spec", !is_anothers_labelled);
                continue;
            };
            let pools = self.sites.iter().flat_map(|site| site.server.all(Kind::Pool));
            let mut pools = pools.filter(|pool| laws::pool_id(pool).as_ref() == Some(&created.pool));
            let Some(pool) = pools.next().filter(|pool| is_serving(pool)) else { continue };
            let is_kept = match marks.ownership(&created.pool) {
                Ownership::Unclaimed => true,
                Ownership::Claimed(claim) => snapshot.clusters.iter().enumerate().any(|(site, objects)| {
                    let mut all = objects.iter().filter_map(|object| laws::binding(objects, object, site));
                    all.any(|it| it.fip == fip.id && it.claim == claim && it.has_claim && !it.is_edited)
                }),
                _ => false,
            };
            let wanted = pool["spec"]["tags"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let missing: Vec<&str> = wanted.filter(|tag| !fip.tags.contains(*tag)).collect();
            // Nothing more is written on what may be a copy.
            let is_judged = is_kept && !copied.contains(&fip.id) && pools.next().is_none() && fip.tags.len() < ROOMY;
            let how = format!("with the tags of its pool's spec, but without {missing:?}");
            self.expect(7, fip.id.as_str(), &how, !is_judged || missing.is_empty());
        }
    }
}

/// Whether the pool is ready, and is not being deleted.
pub fn is_serving(pool: &Value) -> bool {
    let is_ready = laws::condition(pool, "Ready").is_some_and(|ready| ready["status"] == "True");
    is_ready && !is_deleting(pool)
}

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
