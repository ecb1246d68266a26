//! What a pool does with what Neutron offers.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::Kind;
use crate::crash::survives_a_fault_at_any_call;
use crate::laws::condition;
use crate::memory::Alteration;
use crate::simulate;
use crate::users::key;
use crate::world::{ADDRESSES, Site, Start, World, address};

const SOON: Duration = Duration::from_secs(60);
/// Why a claim waits, in the words of its condition.
const FULL: &str = "the network has no address left";
const ONLY_UNWANTED: &str = "the network offered only addresses";

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

/// Without `minFree`, a claim asks; with it, the sweep does.
#[test]
fn subnets_that_offer_only_excluded_addresses_are_passed_over() {
    struct Case {
        min_free: usize,
        max_ips: Option<u32>,
        quota: Option<u32>,
        large_subnets: u8,
    }
    let case = Case { min_free: 0, max_ips: None, quota: None, large_subnets: 1 };
    let cases = [
        Case { ..case },
        Case { large_subnets: 3, ..case },
        Case { max_ips: Some(1), large_subnets: 2, ..case },
        Case { max_ips: Some(6), ..case },
        Case { quota: Some(1), ..case },
        Case { quota: Some(5), large_subnets: 2, ..case },
        Case { min_free: 2, ..case },
        Case { min_free: 2, large_subnets: 3, ..case },
        Case { min_free: 2, max_ips: Some(8), ..case },
        Case { min_free: 1, quota: Some(2), ..case },
    ];
    for Case { min_free, max_ips, quota, large_subnets } in cases {
        let start = Start { seed: 1, sites: 1, replicas: 1, slowest: 20, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            world.cloud.set_quota(&world.project, quota);
            let mut subnets: Vec<_> = (0..large_subnets)
                .map(|index| {
                    let large = |last: u8| IpAddr::from([198, 51, 100 + index, last]);
                    world.cloud.add_subnet(&world.network, &format!("large-{index}"), large(1)..=large(254))
                })
                .collect();
            subnets.push(world.cloud.ensure_subnet(&world.network, "low", address(0)..=address(5)));
            let subnets: Vec<_> = subnets.iter().map(|subnet| json!({"id": subnet.as_str()})).collect();
            let network = json!({"filter": {"name": "public"}});
            let excluded = ["198.51.100.0/24", "198.51.101.0/24", "198.51.102.0/24"];
            let spec = json!({
                "floatingIPNetwork": network, "subnets": subnets, "excludedAddresses": excluded, "minFree": min_free,
                "maxIPs": max_ips,
            });
            site.create_pool("public", &spec);
            let count = || world.cloud.floating_ips().len();
            if min_free > 0 {
                let are_there = world.wait_until(2 * SOON, || count() == min_free).await;
                world.expect(7, "the spares", "there", are_there);
            }
            for index in 0..4 {
                let claim = format!("web-{index}");
                site.create_claim(&claim, "public");
                let is_bound = world.wait_until(2 * SOON, || site.is_bound(&claim)).await;
                world.expect(7, &claim, "bound", is_bound);
                site.delete(Kind::Claim, &claim);
                let is_gone = world.wait_until(SOON, || count() <= min_free).await;
                world.expect(4, &claim, "released", is_gone);
            }
            world.advance(SOON).await;
            let most = world.witness.rates().peaks().get("create floating IP").copied().unwrap_or_default();
            // Eight of each subnet at the beginning, and when it is asked again.
            let limit = 30 + 20 * usize::from(large_subnets);
            world.expect(8, "Neutron", &format!("asked seldom, not {most} times a minute"), most < limit);
        });
        outcome.assert_lawful();
    }
}

/// Neutron offers them again and again, and has none other in between.
#[test]
fn a_full_network_that_gets_excluded_addresses_back_changes_what_a_claim_is_told_once() {
    let (one, two) = (&[2][..], &[2, 6][..]);
    for (has_subnets, max_ips, freed) in [
        (false, Some(1), one),
        (true, None, one),
        (true, Some(1), one),
        (true, Some(2), one),
        (true, Some(1), two),
        (true, Some(2), two),
    ] {
        let start = Start { seed: 1, sites: 1, replicas: 1, slowest: 20, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            (0..ADDRESSES).for_each(|index| world.create_attached(address(index)));
            let mut spec = json!({
                "floatingIPNetwork": {"filter": {"name": "public"}}, "maxIPs": max_ips,
                "excludedAddresses": [address(2).to_string(), address(6).to_string()],
            });
            if has_subnets {
                spec["subnets"] = halves(world);
            }
            site.create_pool("public", &spec);
            site.create_claim("web-0", "public");
            world.advance(SOON).await;
            let status = || site.server.get(&key(Kind::Claim, "web-0")).unwrap()["status"].to_string();
            world.expect(7, "web-0", "told that the network is full", site.is_told("web-0", FULL));
            freed.iter().for_each(|index| world.delete_at(address(*index)));
            world.advance(SOON).await;
            let told = status();
            world.expect(7, "web-0", "told what is left of it", site.is_told("web-0", ONLY_UNWANTED));
            for minute in 0..60 {
                world.advance(SOON).await;
                world.expect(8, "web-0", &format!("told the same after {minute} min: {}", status()), status() == told);
            }
        });
        outcome.assert_lawful();
    }
}

/// Another pool's claim asks first, each time, so that this pool's never does.
#[test]
fn a_pool_whose_subnets_another_pool_finds_full_says_so_while_a_claim_waits() {
    for seed in 0..8 {
        let start = Start { seed, sites: 1, replicas: 1, slowest: 20, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            (0..ADDRESSES).for_each(|index| world.create_attached(address(index)));
            let spec = json!({"floatingIPNetwork": {"filter": {"name": "public"}}, "subnets": halves(world)});
            ["first", "second"].iter().for_each(|pool| site.create_pool(pool, &spec));
            world.advance(Duration::from_secs(5)).await;
            site.create_claim("web-0", "first");
            world.advance(Duration::from_millis(500)).await;
            site.create_claim("web-1", "second");
            for _ in 0..12 {
                world.advance(Duration::from_secs(5)).await;
                world.expect(7, "web-1", "told that the network is full", site.is_told("web-1", FULL));
                for name in ["first", "second"] {
                    let pool = site.server.get(&key(Kind::Pool, name)).unwrap();
                    let is_exhausted = condition(&pool, "Exhausted").is_some_and(|it| it["status"] == "True");
                    world.expect(7, name, "exhausted, as it tells its claim", is_exhausted);
                }
            }
        });
        outcome.assert_lawful();
    }
}

/// The two subnets that the network's addresses are in.
fn halves(world: &World) -> Value {
    let subnet = |name, first, last| {
        let subnet = world.cloud.ensure_subnet(&world.network, name, address(first)..=address(last));
        json!({"id": subnet.as_str()})
    };
    json!([subnet("low", 0, 4), subnet("high", 5, ADDRESSES - 1)])
}

/// Two pools get it from Neutron again and again, and delete it each time. One of them lists it, and another pool lists it
/// and reserves it, perhaps in another management cluster.
#[test]
fn an_address_that_a_pool_only_tries_changes_no_status() {
    for (seed, sites) in (0..6).flat_map(|seed| [(seed, 1), (seed, 2)]) {
        let start = Start { seed, sites, replicas: 1, slowest: 900, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let (first, last) = (&world.sites[0], &world.sites[sites - 1]);
            (1..ADDRESSES).for_each(|index| world.create_attached(address(index)));
            let tried = address(0).to_string();
            let mut spec = json!({"floatingIPNetwork": {"filter": {"name": "public"}}, "excludedAddresses": [tried]});
            if seed % 2 == 1 {
                spec["subnets"] = halves(world);
            }
            first.create_pool("public", &spec);
            spec["preAllocatedFloatingIPs"] = json!([tried]);
            first.create_pool("second", &spec);
            let reservations = json!([{"claim": "web-2", "address": tried}]);
            last.create_pool("third", &json!({"preAllocatedFloatingIPs": [tried], "reservations": reservations}));
            let pools = [(first, "public", "web-0"), (first, "second", "web-1"), (last, "third", "web-2")];
            // Without one that waits, the last management cluster soon lists less often.
            let waiting = if seed < 2 && sites == 2 { 2 } else { 3 };
            pools[..waiting].iter().for_each(|(site, pool, claim)| site.create_claim(claim, pool));
            world.advance(5 * SOON).await;
            let told = |site: &Site, kind: Kind, name: &str| {
                site.server.get(&key(kind, name)).map(|object| object["status"].to_string())
            };
            let all = || {
                let of_pair = |(site, pool, claim): &(&Site, &str, &str)| {
                    [told(site, Kind::Pool, pool), told(site, Kind::Claim, claim)]
                };
                pools.iter().flat_map(of_pair).collect::<Vec<_>>()
            };
            let before = all();
            for _ in 0..360 {
                world.advance(Duration::from_secs(5)).await;
                world.expect(8, "each status", &format!("the same: {before:?} {:?}", all()), all() == before);
            }
        });
        outcome.assert_lawful();
    }
}

/// Neutron may delete it at once, as far as the other management cluster knows: what it says changes once, and soon.
#[test]
fn a_listed_address_that_another_management_cluster_keeps_is_soon_said_to_be_its() {
    let start = Start { seed: 1, sites: 2, replicas: 1, slowest: 20, is_logged: true };
    let outcome = simulate(&start, async |world: &World| {
        let (first, second) = (&world.sites[0], &world.sites[1]);
        (1..ADDRESSES).for_each(|index| world.create_attached(address(index)));
        second.create_pool("listing", &json!({"preAllocatedFloatingIPs": [address(0).to_string()]}));
        // Its failed address is looked for every twelve seconds for ten minutes only.
        world.advance(20 * SOON).await;
        let status = || second.server.get(&key(Kind::Pool, "listing")).unwrap()["status"].to_string();
        let before = status();
        first.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
        first.create_claim("web-0", "public");
        let changed = |from: &str| status() != from;
        let is_told = world.wait_until(3 * SOON, || changed(&before)).await;
        world.expect(7, "the pool", "told of the address", is_told && status().contains("MarkedByOther"));
        let told = status();
        world.advance(10 * SOON).await;
        world.expect(8, "the pool", "told nothing else", !changed(&told));
    });
    outcome.assert_lawful();
}

/// Each attempt costs a POST and, where descriptions are dropped, a DELETE.
#[test]
fn a_pool_whose_spares_cannot_be_created_asks_neutron_only_now_and_then() {
    for drops_descriptions in [false, true] {
        let start = Start { seed: 1, sites: 1, replicas: 1, slowest: 20, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            match drops_descriptions {
                true => world.cloud.alter(Alteration::DropsWhenCreated),
                false => world.cloud.set_quota(&world.project, Some(0)),
            }
            site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}, "minFree": 2}));
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

/// A user of the project had the address. Nothing else is left in the network once it is deleted.
#[test]
fn an_address_that_neutron_offers_for_another_claim_is_kept_for_the_one_that_reserves_it() {
    for min_free in [0, 1] {
        let start = Start { seed: 3, sites: 1, replicas: 1, slowest: 20, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            (0..ADDRESSES).for_each(|index| world.create_attached(address(index)));
            let reservations = json!([{"claim": "web-0", "address": address(0).to_string()}]);
            let network = json!({"filter": {"name": "public"}});
            let spec = json!({"floatingIPNetwork": network, "reservations": reservations, "minFree": min_free});
            site.create_pool("public", &spec);
            site.create_claim("web-0", "public");
            site.create_claim("web-1", "public");
            world.advance(Duration::from_secs(30)).await;
            world.delete_at(address(0));
            let is_bound = world.wait_until(Duration::from_secs(90), || site.is_bound("web-0")).await;
            world.expect(7, "web-0", "bound to the address that is reserved for it", is_bound);
        });
        outcome.assert_lawful();
    }
}

#[test]
fn a_claim_is_told_soon_that_another_one_got_what_was_left() {
    let start = Start { seed: 3, sites: 1, replicas: 1, slowest: 20, is_logged: true };
    let outcome = simulate(&start, async |world: &World| {
        let site = &world.sites[0];
        (1..ADDRESSES).for_each(|index| world.create_attached(address(index)));
        let reservations = json!([{"claim": "web-0", "address": address(0).to_string()}]);
        let network = json!({"filter": {"name": "public"}});
        site.create_pool("public", &json!({"floatingIPNetwork": network, "reservations": reservations}));
        site.create_claim("web-1", "public");
        world.advance(10 * SOON).await;
        world.expect(7, "web-1", "told what is left", site.is_told("web-1", ONLY_UNWANTED));
        site.create_claim("web-0", "public");
        let is_bound = world.wait_until(16 * SOON, || site.is_bound("web-0")).await;
        world.expect(7, "web-0", "bound", is_bound);
        let is_told = world.wait_until(SOON, || site.is_told("web-1", FULL)).await;
        world.expect(7, "web-1", "told that the network is full", is_told);
    });
    outcome.assert_lawful();
}

/// The process dies before it deletes what it may not give, and nothing else is left in the network.
#[test]
fn excluded_addresses_that_a_process_left_behind_do_not_stay() {
    for seed in 0..24 {
        let start = Start { seed, sites: 1, replicas: 1, slowest: 100, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            let taken = ADDRESSES - 3;
            for index in 0..taken {
                world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(index)));
            }
            let excluded: Vec<_> = (taken..ADDRESSES).map(|index| address(index).to_string()).collect();
            let network = json!({"filter": {"name": "public"}});
            site.create_pool("public", &json!({"floatingIPNetwork": network, "excludedAddresses": excluded}));
            world.advance(Duration::from_secs(30)).await;
            site.create_claim("web-0", "public");
            world.advance(Duration::from_millis(100 + 25 * seed)).await;
            site.kill_controller();
            world.advance(Duration::from_secs(60)).await;
            let is_clean = || world.cloud.floating_ips().len() == usize::from(taken);
            let is_clean = world.wait_until(Duration::from_secs(60), is_clean).await;
            world.expect(4, "what the pool may not give", "deleted", is_clean);
        });
        outcome.assert_lawful();
    }
}

#[test]
fn a_cloud_that_hides_tags_is_not_sent_one_tag_all_the_time() {
    let start = Start { seed: 5, sites: 1, replicas: 1, slowest: 2, is_logged: true };
    let outcome = simulate(&start, async |world: &World| {
        let site = &world.sites[0];
        world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(0)));
        site.create_pool("public", &json!({"preAllocatedFloatingIPs": [address(0).to_string()]}));
        world.advance(Duration::from_secs(30)).await;
        world.witness.note_alteration(Alteration::HidesTags);
        world.cloud.alter(Alteration::HidesTags);
        site.create_claim("web-0", "public");
        world.advance(Duration::from_secs(120)).await;
        let most = world.witness.rates().peaks().into_iter().find(|(kind, _)| kind.contains("tag floating IP"));
        world.expect(8, "the tag", &format!("written a few times a minute: {most:?}"), most.is_none_or(|it| it.1 < 30));
        world.cloud.alter(Alteration::None);
        let is_bound = world.wait_until(Duration::from_secs(60), || site.is_bound("web-0")).await;
        world.expect(7, "web-0", "bound", is_bound);
    });
    outcome.assert_lawful();
}

/// Laws 4 and 7, with a fault at each single call. The claim may have only a quarter of the addresses that Neutron offers.
/// Soon after it is bound, none of the others is left, and they never fill the pool's limit.
#[test]
fn what_a_claim_may_not_have_is_soon_deleted_whatever_fails() {
    let unwanted: Vec<IpAddr> = (ADDRESSES / 4..ADDRESSES).map(address).collect();
    let reserve = |address: &IpAddr| json!({"claim": format!("absent-{address}"), "address": address});
    let reservations: Vec<_> = unwanted.iter().map(reserve).collect();
    let orphans = |policy: &str| json!({"policy": policy, "graceSeconds": 3600});
    let pools = [
        ("excluded", json!({"excludedAddresses": unwanted, "orphans": orphans("Report")})),
        ("limited", json!({"excludedAddresses": unwanted, "orphans": orphans("Release"), "maxIPs": 1})),
        (
            "retained",
            json!({"excludedAddresses": unwanted, "orphans": orphans("Release"), "maxIPs": 1, "reclaimPolicy": "Retain"}),
        ),
        ("spare", json!({"excludedAddresses": unwanted, "reclaimPolicy": "Retain", "minFree": 1, "maxIPs": 2})),
        ("reserved", json!({"reservations": reservations, "orphans": orphans("Release")})),
    ];
    survives_a_fault_at_any_call(&pools, 60, 61, |pool, fault, is_logged| {
        let start = Start { seed: 4, sites: 1, replicas: 1, slowest: 12, is_logged };
        simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            site.replicas[0].plans.borrow_mut().push_back(fault.into_iter().collect());
            site.create_pool("public", pool);
            site.create_claim("web-0", "public");
            let is_bound = world.wait_until(4 * SOON, || site.is_bound("web-0")).await;
            world.expect(7, "web-0", "bound", is_bound);
            let is_deleted = || world.cloud.floating_ips().iter().all(|fip| !unwanted.contains(&fip.address));
            world.expect(4, "what web-0 may not have", "deleted", world.wait_until(5 * SOON, is_deleted).await);
        })
    });
}
