//! What a pool does with what Neutron offers.

use std::time::Duration;

use serde_json::json;

use crate::simulate;
use crate::world::{ADDRESSES, Start, World, address};

#[test]
fn excluded_addresses_that_fill_the_limit_do_not_keep_a_claim_waiting() {
    for seed in 0..32 {
        let start = Start { seed, sites: 1, replicas: 1, slowest: 20, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            // Neutron takes one at random: three times in four one of these.
            let excluded: Vec<_> = (ADDRESSES / 4..ADDRESSES).map(|index| address(index).to_string()).collect();
            let network = json!({"filter": {"name": "public"}});
            site.create_pool(
                "public",
                &json!({"floatingIPNetwork": network, "maxIPs": 1, "excludedAddresses": excluded}),
            );
            site.create_claim("web-0", "public");
            let is_bound = world.wait_until(Duration::from_secs(20), || site.is_bound("web-0")).await;
            world.expect(7, "the claim", "bound", is_bound);
        });
        outcome.assert_lawful();
    }
}

/// Each attempt costs a POST and, where descriptions are dropped, a DELETE.
#[test]
fn a_pool_whose_spares_cannot_be_created_asks_neutron_only_now_and_then() {
    for drops_descriptions in [false, true] {
        let start = Start { seed: 1, sites: 1, replicas: 1, slowest: 20, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            match drops_descriptions {
                true => world.cloud.drop_descriptions(true),
                false => world.cloud.set_quota(&world.project, Some(0)),
            }
            site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}, "preallocate": 2}));
            world.advance(Duration::from_secs(30)).await;
            let calls = || site.replicas[0].wire().map_or(0, |wire| wire.calls());
            let before = calls();
            world.advance(Duration::from_secs(300)).await;
            // Each resync costs a few reads, and a refused POST.
            world.expect(8, "a pool without room", "calm", calls() - before < 400);
        });
        outcome.assert_lawful();
    }
}
