//! Law 8 where a cloud refuses, ignores or fails: nothing is tried again before its pause is over, and conditions say why
//! something waits.

use std::time::Duration;

use serde_json::json;

use crate::api::Kind;
use crate::given_up::create_foreign_address;
use crate::laws::condition;
use crate::memory::Alteration;
use crate::simulate;
use crate::users::{key, pause};
use crate::wire::{Fault, Rejection, Side};
use crate::world::{ADDRESSES, Start, World, address};

const START: Start = Start { seed: 5, sites: 1, replicas: 1, slowest: 20, is_logged: true };
const SOON: Duration = Duration::from_secs(60);

/// The most calls of a kind that a process made within a minute.
pub fn peak(world: &World, kind: &str) -> usize {
    world.witness.rates().peaks().get(kind).copied().unwrap_or_default()
}

/// How many objects are written in this time.
async fn writes_within(world: &World, time: Duration) -> u64 {
    let version = || world.sites[0].server.version();
    let before = version();
    world.advance(time).await;
    version() - before
}

/// `web-0` has the one address of its pool, and `web-1` waits.
async fn let_wait(world: &World) {
    let site = &world.sites[0];
    site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}, "maxIPs": 1}));
    site.create_claim("web-0", "public");
    world.await_bound("web-0").await;
    site.create_claim("web-1", "public");
}

#[test]
fn claims_do_not_take_turns_with_an_address_that_none_of_them_gets() {
    for (alteration, min_free, why) in [
        (Alteration::KeepsOldDescription, 1, "did not store the description"),
        (Alteration::RefusesDescriptions, 1, "update_floatingip"),
        (Alteration::RefusesCreations, 0, "create_floatingip"),
    ] {
        let outcome = simulate(&START, async |world: &World| {
            let site = &world.sites[0];
            let network = json!({"filter": {"name": "public"}});
            site.create_pool("public", &json!({"floatingIPNetwork": network, "minFree": min_free, "maxIPs": 1}));
            world.advance(SOON).await;
            world.cloud.alter(alteration);
            ["web-0", "web-1"].iter().for_each(|claim| site.create_claim(claim, "public"));
            let writes = writes_within(world, SOON).await;
            world.expect(8, &format!("{alteration:?}"), &format!("calm, not {writes} writes"), writes < 18);
            let are_told = |first, second| site.is_told(first, why) && site.is_told(second, "for an older claim");
            let says_so = are_told("web-0", "web-1") || are_told("web-1", "web-0");
            world.expect(7, "the claims", "told why they wait", says_so);
            world.cloud.alter(Alteration::None);
            let is_bound = || site.is_bound("web-0") || site.is_bound("web-1");
            let is_served = world.wait_until(SOON, is_bound).await;
            world.expect(7, "one claim", "served", is_served);
        });
        outcome.assert_lawful();
    }
}

#[test]
fn a_claim_that_waits_for_a_released_address_that_cannot_be_marked_stays_calm() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        let_wait(world).await;
        world.advance(Duration::from_secs(5)).await;
        world.cloud.alter(Alteration::KeepsOldDescription);
        site.delete(Kind::Claim, "web-0");
        let writes = writes_within(world, SOON).await;
        world.expect(8, "web-1", &format!("calm, not with {writes} writes"), writes < 29);
        world.expect(7, "web-1", "told why it waits", site.is_told("web-1", "did not store the description"));
        world.cloud.alter(Alteration::None);
        let is_bound = world.wait_until(SOON, || site.is_bound("web-1")).await;
        world.expect(7, "web-1", "bound", is_bound);
    });
    outcome.assert_lawful();
}

#[test]
fn a_claim_that_may_still_get_an_address_keeps_no_other_one_from_a_younger_claim() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        let listed: Vec<String> = (0..2).map(|index| address(index).to_string()).collect();
        world.tamper(|world| {
            (0..2).for_each(|index| drop(world.cloud.create_at(&world.project, &world.network, address(index))))
        });
        site.create_pool("public", &json!({"preAllocatedFloatingIPs": listed}));
        world.advance(Duration::from_secs(5)).await;
        site.create_claim("web-0", "public");
        site.replicas[0].wire().unwrap().plan_write(Fault::RequestLost);
        world.advance(Duration::from_secs(3)).await;
        world.cloud.alter(Alteration::RefusesTags);
        let is_refused = world.wait_until(SOON, || site.is_told("web-0", "update_floatingip:tags")).await;
        world.expect(7, "web-0", "refused after the first request was lost", is_refused);
        world.cloud.alter(Alteration::None);
        site.create_claim("web-1", "public");
        let is_bound = world.wait_until(Duration::from_millis(500), || site.is_bound("web-1")).await;
        world.expect(7, "web-1", "given the other address at once", is_bound);
    });
    outcome.assert_lawful();
}

#[test]
fn one_request_asks_whether_neutron_still_refuses_to_create() {
    let filter = json!({"filter": {"name": "public"}});
    let (spares, none) = (json!({"floatingIPNetwork": filter, "minFree": 20}), json!({"floatingIPNetwork": filter}));
    for (spec, alteration, claims) in [(spares, Alteration::RefusesCreations, 0), (none, Alteration::None, 20)] {
        let outcome = simulate(&START, async |world: &World| {
            let site = &world.sites[0];
            let subnet = world.cloud.ensure_subnet(&world.network, "low", address(0)..=address(0));
            world.cloud.alter(alteration);
            site.create_pool("public", &spec);
            if claims > 0 {
                site.change(Kind::Pool, "public", &json!({"spec": {"subnets": [{"id": subnet.as_str()}]}}));
            }
            world.advance(Duration::from_secs(5)).await;
            (0..claims).for_each(|index| site.create_claim(&format!("web-{index}"), "public"));
            world.advance(3 * SOON).await;
            let most = peak(world, "create floating IP");
            world.expect(8, "Neutron", &format!("asked seldom, not {most} times a minute"), most < 30);
            world.cloud.alter(Alteration::None);
            world.skips_rest.set(true);
        });
        outcome.assert_lawful();
    }
}

#[test]
fn spares_come_from_the_next_subnet_if_the_first_one_is_or_becomes_full() {
    for room in [0, 1] {
        let outcome = simulate(&START, async |world: &World| {
            let site = &world.sites[0];
            let subnet =
                |name, first, last| world.cloud.ensure_subnet(&world.network, name, address(first)..=address(last));
            let (low, high) = (subnet("low", 0, 1), subnet("high", 2, ADDRESSES - 1));
            let other = world.cloud.add_project("other", None);
            (room..2).for_each(|index| drop(world.cloud.create_at(&other, &world.network, address(index))));
            let network = json!({"filter": {"name": "public"}});
            let subnets = json!([{"id": low.as_str()}, {"id": high.as_str()}]);
            site.create_pool("public", &json!({"floatingIPNetwork": network, "subnets": subnets, "minFree": 5}));
            let count = || world.cloud.floating_ips().iter().filter(|fip| fip.project == world.project).count();
            let are_there = world.wait_until(Duration::from_secs(10), || count() == 5).await;
            world.expect(7, "the spares", "there", are_there);
            let most = peak(world, "create floating IP");
            world.expect(8, "Neutron", &format!("asked seldom, not {most} times a minute"), most < 15);
        });
        outcome.assert_lawful();
    }
}

/// 200 spares are no longer wanted. A sweep begins no more calls once the first one is refused.
#[test]
fn a_large_pool_whose_deletions_are_refused_asks_for_a_few_at_a_time() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        world.create_large_pool().await;
        let count = || world.cloud.floating_ips().len();
        world.cloud.alter(Alteration::RefusesDeletions);
        site.change(Kind::Pool, "public", &json!({"spec": {"minFree": 0}}));
        world.advance(3 * SOON).await;
        let most = peak(world, "delete floating IP");
        world.expect(8, "Neutron", &format!("asked seldom, not {most} times a minute"), 0 < most && most < 250);
        let listings = peak(world, "list floating IPs");
        world.expect(8, "Neutron", &format!("listed seldom, not {listings} times a minute"), listings < 6);
        world.cloud.alter(Alteration::None);
        let is_gone = world.wait_until(SOON, || count() == 0).await;
        world.expect(4, "the spares", "gone", is_gone);
    });
    outcome.assert_lawful();
}

#[test]
fn a_pool_that_is_being_deleted_says_that_openstack_does_not_delete() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        let network = json!({"filter": {"name": "public"}});
        site.create_pool("public", &json!({"floatingIPNetwork": network, "minFree": 2}));
        world.wait_until(SOON, || world.cloud.floating_ips().len() == 2).await;
        world.advance(SOON).await;
        world.cloud.alter(Alteration::IgnoresDeletions);
        site.delete(Kind::Pool, "public");
        world.advance(2 * SOON).await;
        let most = peak(world, "delete floating IP");
        world.expect(8, "Neutron", &format!("asked seldom, not {most} times a minute"), most < 60);
        let status = site.server.get(&key(Kind::Pool, "public")).map(|pool| pool["status"].to_string());
        let says_so = status.is_some_and(|status| status.contains("and still has them"));
        world.expect(7, "the pool", "told why it waits", says_so);
        world.cloud.alter(Alteration::None);
        let is_gone = world.wait_until(SOON, || site.server.get(&key(Kind::Pool, "public")).is_none()).await;
        world.expect(9, "the pool", "gone", is_gone && world.cloud.floating_ips().is_empty());
    });
    outcome.assert_lawful();
}

#[test]
fn an_orphan_whose_release_is_not_shown_is_released_once_in_a_grace_period() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        let network = json!({"filter": {"name": "public"}});
        let orphans = json!({"policy": "Release", "graceSeconds": 0});
        site.create_pool("public", &json!({"floatingIPNetwork": network, "orphans": orphans}));
        site.create_claim("web-0", "public");
        world.await_bound("web-0").await;
        world.users_interfered.set(true);
        world.witness.note_alteration(Alteration::HidesTags);
        world.cloud.alter(Alteration::HidesTags);
        site.delete_by_force(Kind::Claim, "web-0");
        site.delete_by_force(Kind::Address, "web-0");
        world.advance(10 * SOON).await;
        let most = peak(world, "tag floating IP");
        world.expect(8, "Neutron", &format!("tagged seldom, not {most} times a minute"), (1..=3).contains(&most));
        world.cloud.alter(Alteration::None);
        world.skips_rest.set(true);
    });
    outcome.assert_lawful();
}

#[test]
fn a_pool_does_not_follow_each_answer_of_a_cloud_that_fails_every_other_time() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        let_wait(world).await;
        world.advance(SOON).await;
        let outage = Fault::Refused(Rejection::Server);
        site.replicas[0].wire().unwrap().add_outage(Side::OpenStack, outage, 4, 5 * SOON);
        let writes = writes_within(world, 5 * SOON).await;
        world.expect(8, "the pool", &format!("calm, not with {writes} writes in 5 minutes"), writes < 100);
    });
    outcome.assert_lawful();
}

/// A floating IP that a user may be about to create is noticed soon. Thousands of pools may name one that never comes.
#[test]
fn a_pool_with_a_missing_address_is_listed_once_a_minute_after_ten_minutes() {
    simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        let listings = async |minutes: u64| {
            let listings = || world.trace.text().matches("list floating IPs").count();
            let before = listings();
            world.advance(Duration::from_secs(60 * minutes)).await;
            listings() - before
        };
        site.create_pool("public", &json!({"preAllocatedFloatingIPs": [address(ADDRESSES + 1)]}));
        let often = listings(5).await;
        world.expect(8, "Neutron", &format!("asked each 12 s, not {often} times in 5 min"), often > 18);
        listings(7).await;
        let seldom = listings(10).await;
        world.expect(8, "Neutron", &format!("asked once a minute, not {seldom} times in 10 min"), seldom <= 11);
        let other = json!({"preAllocatedFloatingIPs": [address(ADDRESSES + 2)]});
        site.change(Kind::Pool, "public", &json!({"spec": other}));
        let again = listings(5).await;
        world.expect(8, "Neutron", &format!("asked each 12 s again, not {again} times in 5 min"), again > 18);
    })
    .assert_lawful();
}

#[test]
fn a_pool_says_what_it_fails_at_beside_serving_claims() {
    let network = json!({"filter": {"name": "public"}});
    let plain = json!({"floatingIPNetwork": network});
    let (spares, tags) = (
        json!({"floatingIPNetwork": network, "minFree": 2}),
        json!({"floatingIPNetwork": network, "tags": ["team-a"]}),
    );
    for (alteration, spec, why) in [
        (Alteration::RefusesDeletions, plain.clone(), "delete_floatingip"),
        (Alteration::FailsDeletions, plain, "500: the server has a bug"),
        (Alteration::RefusesCreations, spares, "create_floatingip"),
        (Alteration::RefusesTags, tags, "spec.tags cannot be added"),
    ] {
        let outcome = simulate(&START, async |world: &World| {
            let site = &world.sites[0];
            site.create_pool("public", &json!({"floatingIPNetwork": network}));
            site.create_claim("web-0", "public");
            world.await_bound("web-0").await;
            world.cloud.alter(alteration);
            site.change(Kind::Pool, "public", &json!({"spec": spec}));
            site.delete(Kind::Claim, "web-0");
            let condition = || {
                let pool = site.server.get(&key(Kind::Pool, "public")).unwrap();
                let found = condition(&pool, "AddressesMaintained").cloned().unwrap_or_default();
                (found["status"] == "True", found["message"].to_string())
            };
            // An outcome that is not known is awaited for a minute each time.
            let is_told = world.wait_until(5 * SOON, || !condition().0).await;
            world.expect(7, "the pool", &format!("told of {alteration:?}"), is_told && condition().1.contains(why));
            let writes = writes_within(world, 5 * SOON).await;
            world.expect(8, "the pool", &format!("calm, not with {writes} writes in 5 minutes"), writes < 5);
            world.cloud.alter(Alteration::None);
            let is_well = world.wait_until(10 * SOON, || condition().0).await;
            world.expect(7, "the pool", "told that it is over", is_well);
        });
        outcome.assert_lawful();
    }
}

/// The message of a claim's `Ready` condition, if that is false.
fn not_ready_message(world: &World, claim: &str) -> String {
    let claim = world.sites[0].server.get(&key(Kind::Claim, claim)).expect("the claim");
    let told = condition(&claim, "Ready").filter(|ready| ready["status"] == "False");
    told.map(|ready| ready["message"].to_string()).unwrap_or_default()
}

/// By a role, a policy, a quota or a webhook.
#[test]
fn a_bound_claim_whose_ip_address_is_gone_is_told_that_kubernetes_refuses_another() {
    for has_network in [true, false] {
        let outcome = simulate(&START, async |world: &World| {
            let site = &world.sites[0];
            let_wait(world).await;
            if !has_network {
                let missing = json!({"filter": {"name": "none"}});
                site.change(Kind::Pool, "public", &json!({"spec": {"floatingIPNetwork": missing}}));
                world.advance(SOON).await;
            }
            let refused = Fault::Refused(Rejection::Forbidden);
            site.replicas[0].wire().expect("it runs").hang("ipaddresses", refused, 2 * SOON);
            site.delete_by_force(Kind::Address, "web-0");
            let is_told =
                world.wait_until(SOON, || not_ready_message(world, "web-0").contains("Kubernetes refused")).await;
            world.expect(7, "web-0", "told", is_told);
            let is_there = || site.server.get(&key(Kind::Address, "web-0")).is_some();
            let is_bound = world.wait_until(5 * SOON, is_there).await;
            world.expect(7, "web-0", "bound again", is_bound);
        });
        outcome.assert_lawful();
    }
}

#[test]
fn a_claim_in_a_deleted_pool_says_that_its_mark_cannot_be_removed() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
        world.advance(SOON).await;
        let refused = Fault::Refused(Rejection::Forbidden);
        site.replicas[0].wire().expect("it runs").hang("ipaddresses", refused, SOON / 2);
        site.create_claim("web-0", "public");
        world.advance(Duration::from_secs(5)).await;
        world.cloud.alter(Alteration::RefusesTags);
        site.delete(Kind::Pool, "public");
        let is_told =
            world.wait_until(2 * SOON, || not_ready_message(world, "web-0").contains("update_floatingip:tags")).await;
        world.expect(
            7,
            "web-0",
            "told",
            is_told && not_ready_message(world, "web-0").contains("is being deleted: create it again"),
        );
        world.cloud.alter(Alteration::None);
        let is_gone = world.wait_until(5 * SOON, || site.server.get(&key(Kind::Pool, "public")).is_none()).await;
        world.expect(9, "public", "gone", is_gone && world.cloud.floating_ips().is_empty());
    });
    outcome.assert_lawful();
}

/// A cloud that fails now and then changes no condition each time.
#[test]
fn a_sweep_that_fails_and_is_tried_again_is_not_told() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
        site.create_claim("web-0", "public");
        world.await_bound("web-0").await;
        world.cloud.alter(Alteration::RefusesDeletions);
        site.delete(Kind::Claim, "web-0");
        world.advance(Duration::from_secs(6)).await;
        world.cloud.alter(Alteration::None);
        world.advance(SOON).await;
        let told = site.server.all(Kind::Event).iter().any(|event| event.to_string().contains("delete_floatingip"));
        world.expect(8, "the pool", "not told", !told);
    });
    outcome.assert_lawful();
}

#[test]
fn an_event_says_once_that_a_waiting_claim_is_paused() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        let_wait(world).await;
        world.advance(SOON).await;
        site.change(Kind::Claim, "web-1", &pause(json!("")));
        world.advance(SOON).await;
        let is_told = || {
            let events = site.server.all(Kind::Event);
            events.iter().any(|event| event.to_string().contains("nothing is done for the claim"))
        };
        world.expect(7, "web-1", "told that it is paused", is_told());
        let writes = writes_within(world, 5 * SOON).await;
        world.expect(8, "web-1", &format!("left alone, not with {writes} writes"), writes == 0);
        site.change(Kind::Claim, "web-1", &pause(json!(null)));
    });
    outcome.assert_lawful();
}

/// The first deletion fails, so that the sweep lists the project until it can no longer take effect: each listing shows the
/// other floating IP, which Neutron said was deleted.
#[test]
fn a_cloud_that_ignores_deletions_is_not_sent_one_deletion_all_the_time() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
        for claim in ["web-0", "web-1"] {
            site.create_claim(claim, "public");
            world.await_bound(claim).await;
        }
        let release = async |claim, alteration| {
            world.witness.note_alteration(alteration);
            world.cloud.alter(alteration);
            site.delete(Kind::Claim, claim);
            world.advance(Duration::from_secs(10)).await;
        };
        release("web-0", Alteration::FailsDeletions).await;
        release("web-1", Alteration::IgnoresDeletions).await;
        world.advance(2 * SOON).await;
        let deletions =
            world.witness.rates().peaks().into_iter().filter(|(kind, _)| kind.contains("delete floating IP"));
        let most = deletions.map(|(_, most)| most).max().unwrap_or_default();
        world.expect(8, "deletions", &format!("tried seldom, not {most} times a minute"), most < 10);
        world.cloud.alter(Alteration::None);
        let are_gone = world.wait_until(2 * SOON, || world.cloud.floating_ips().is_empty()).await;
        world.expect(4, "the floating IPs", "deleted", are_gone);
    });
    outcome.assert_lawful();
}

/// Another writer made an IPAddress with the claim's name, and the watch does not show it.
#[test]
fn an_ip_address_that_the_watch_does_not_show_is_not_created_again_and_again() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        world.bind_in_new_pool("web-0").await;
        site.replicas[0].wire().expect("it runs").stall_watch("ipaddresses", 2 * SOON);
        create_foreign_address(world, "web-1");
        site.create_claim("web-1", "public");
        world.advance(2 * SOON).await;
        let most = peak(world, "POST ipaddresses");
        world.expect(8, "the IPAddress", &format!("created seldom, not {most} times a minute"), most < 10);
        site.delete(Kind::Address, "web-1");
        world.await_bound("web-1").await;
    });
    outcome.assert_lawful();
}
