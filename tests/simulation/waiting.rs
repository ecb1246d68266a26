//! Claims that wait for a particular address, and addresses that rest before they are given again.

use std::net::IpAddr;
use std::time::Duration;

use caip_openstack::api::names::PAUSED_ANNOTATION;
use caip_openstack::floating_ip::{FloatingIp, FloatingIpId};
use serde_json::json;

use crate::api::Kind;
use crate::fault::{Fault, Rejection, Side};
use crate::simulate;
use crate::users::key;
use crate::world::{ADDRESSES, Start, World, address};

fn start(seed: u64) -> Start {
    Start { seed, sites: 1, replicas: 1, slowest: 20, is_logged: true }
}

/// Creates a pool that reserves for `web-1` the address that `web-0` has. Returns that.
async fn reserve_held(world: &World) -> Option<IpAddr> {
    let site = &world.sites[0];
    site.create_pool("public", &json!({"reuseGracePeriodSeconds": 30}));
    site.create_claim("web-0", "public");
    let held = world.await_bound("web-0").await?;
    let reservations = json!([{"claim": "web-1", "address": held.to_string()}]);
    site.change(Kind::Pool, "public", &json!({"spec": {"reservations": reservations}}));
    world.advance(Duration::from_secs(5)).await;
    Some(held)
}

#[test]
fn a_reserved_address_that_another_claim_holds_is_given_once_it_is_released() {
    for seed in 0..8 {
        let outcome = simulate(&start(seed), async |world: &World| {
            let site = &world.sites[0];
            let Some(held) = reserve_held(world).await else { return };
            site.create_claim("web-1", "public");
            world.advance(Duration::from_secs(20)).await;
            world.expect(7, "web-1", "waiting", !site.is_bound("web-1"));
            site.delete(Kind::Claim, "web-0");
            let given = world.await_bound("web-1").await;
            world.expect(7, "web-1", "given its reservation", given == Some(held));
        });
        outcome.assert_lawful();
    }
}

/// Law 7. The address is kept until its claim is created.
#[test]
fn a_reserved_address_is_given_to_a_claim_that_is_created_long_after_its_release() {
    for seed in 0..8 {
        let outcome = simulate(&start(seed), async |world: &World| {
            let site = &world.sites[0];
            let Some(held) = reserve_held(world).await else { return };
            site.delete(Kind::Claim, "web-0");
            world.advance(Duration::from_secs(180)).await;
            site.create_claim("web-1", "public");
            let given = world.await_bound("web-1").await;
            world.expect(7, "web-1", "given its reservation", given == Some(held));
        });
        outcome.assert_lawful();
    }
}

/// Law 7. Neutron offers the address to another claim, and its deletion has to be sent again. Its claim comes meanwhile.
#[test]
fn an_address_that_was_offered_is_not_deleted_once_a_claim_waits_for_it_by_a_reservation() {
    let mut kept = 0;
    for (seed, call) in (0..3).flat_map(|seed| (15..45).map(move |call| (seed, call))) {
        let start = Start { seed, sites: 1, replicas: 1, slowest: 12, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            site.replicas[0].plans.borrow_mut().push_back([(call, Fault::RequestLost)].into());
            (2..ADDRESSES).for_each(|index| world.create_attached(address(index)));
            let reserved = || world.cloud.floating_ips().into_iter().find(|fip| fip.address == address(0));
            let reservations = json!([{"claim": "web-0", "address": address(0).to_string()}]);
            let network = json!({"filter": {"name": "public"}});
            site.create_pool("public", &json!({"floatingIPNetwork": network, "reservations": reservations}));
            site.create_claim("web-1", "public");
            let is_offered = world.wait_until(Duration::from_secs(60), || reserved().is_some()).await;
            if !is_offered {
                return;
            }
            kept += 1;
            site.create_claim("web-0", "public");
            let is_bound = world.wait_until(Duration::from_secs(240), || site.is_bound("web-0")).await;
            world.expect(7, "web-0", "given its reservation", is_bound);
        });
        outcome.assert_lawful();
    }
    println!("{kept} deletions were sent again");
    assert!(kept > 0, "no deletion was sent again while the claim came");
}

/// The pool counts the claims that wait, and writes that with its other figures: once after each change.
#[test]
fn a_pool_counts_the_claims_that_wait_for_it() {
    for seed in 0..8 {
        let outcome = simulate(&start(seed), async |world: &World| {
            let site = &world.sites[0];
            site.create_pool("public", &json!({"maxIPs": 1}));
            site.create_claim("web-0", "public");
            world.await_bound("web-0").await;
            let public = || site.server.get(&key(Kind::Pool, "public")).unwrap_or_default();
            let is_shown = |count| {
                world.wait_until(Duration::from_secs(30), move || {
                    public()["status"]["claims"]["waiting"].as_u64() == Some(count)
                })
            };
            world.expect(7, "public", "showing that no claim waits", is_shown(0).await);
            site.create_claim("web-1", "public");
            site.create_claim("web-2", "public");
            world.expect(7, "public", "showing two waiting claims", is_shown(2).await);
            site.delete(Kind::Claim, "web-2");
            world.expect(7, "public", "showing one waiting claim", is_shown(1).await);
            let version = || public()["metadata"]["resourceVersion"].clone();
            let settled = version();
            world.advance(Duration::from_secs(90)).await;
            world.expect(8, "public", "not written while a claim waits", version() == settled);
            site.delete(Kind::Claim, "web-0");
            world.await_bound("web-1").await;
            world.expect(7, "public", "showing that no claim waits", is_shown(0).await);
        });
        outcome.assert_lawful();
    }
}

#[test]
fn a_cooling_address_that_a_user_attaches_is_not_deleted_before_it_is_detached() {
    for seed in 0..8 {
        let outcome = simulate(&start(seed), async |world: &World| {
            let site = &world.sites[0];
            site.create_pool("public", &json!({"reuseGracePeriodSeconds": 60}));
            site.create_claim("web-0", "public");
            world.await_bound("web-0").await;
            let Some((_, id)) = site.address_of("web-0") else { return };
            site.delete(Kind::Claim, "web-0");
            let is_gone = || site.server.get(&key(Kind::Claim, "web-0")).is_none();
            world.expect(9, "web-0", "gone", world.wait_until(Duration::from_secs(30), is_gone).await);
            world.advance(Duration::from_secs(20 + 5 * seed)).await;
            world.tamper(|world| world.cloud.set_port(&id, Some("port-of-a-user")));
            world.advance(Duration::from_secs(300)).await;
            let is_there = || world.cloud.floating_ips().iter().any(|fip| fip.id == id);
            world.expect(2, "an address that is attached", "there", is_there());
            world.tamper(|world| world.cloud.set_port(&id, None));
            let is_deleted = world.wait_until(Duration::from_secs(300), || !is_there()).await;
            world.expect(4, "an unused address", "deleted", is_deleted);
        });
        outcome.assert_lawful();
    }
}

/// Neutron refuses a tag beyond the fiftieth.
#[test]
fn a_listed_address_that_is_full_of_tags_is_passed_over_and_can_be_released() {
    let outcome = simulate(&start(3), async |world: &World| {
        let site = &world.sites[0];
        let fips = [0, 1].map(|index| {
            world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(index))).id
        });
        let fill = |id: &FloatingIpId| {
            let tags = |fip: &mut FloatingIp| {
                let room = 50 - fip.tags.len();
                fip.tags.extend((0..room).map(|number| format!("of-a-user-{number}")));
            };
            world.tamper(|world| world.cloud.edit(id, tags));
        };
        fill(&fips[0]);
        site.create_pool("public", &json!({"preAllocatedFloatingIPs": [address(0), address(1)]}));
        site.create_claim("web-0", "public");
        let given = world.await_bound("web-0").await;
        world.expect(7, "web-0", "given the second address", given == Some(address(1)));
        fill(&fips[1]);
        site.delete(Kind::Claim, "web-0");
        world.expect_gone(Kind::Claim).await;
        let marked =
            world.cloud.floating_ips().into_iter().any(|fip| fip.tags.iter().any(|tag| tag.starts_with("caip")));
        world.expect(4, "the address", "unmarked", !marked);
    });
    outcome.assert_lawful();
}

/// Binds every address of the network to a claim, and deletes these claims one after another while each tag waits for its
/// turn, so that there is always one under way. Others wait from the beginning.
async fn release_all_slowly(world: &World, waiting: &[&str]) {
    let site = &world.sites[0];
    let claims: Vec<String> = (0..ADDRESSES).map(|number| format!("web-{number}")).collect();
    site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
    for claim in &claims {
        site.create_claim(claim, "public");
        world.await_bound(claim).await;
    }
    waiting.iter().for_each(|claim| site.create_claim(claim, "public"));
    world.advance(Duration::from_secs(90)).await;
    let wire = site.replicas[0].wire().expect("it runs");
    wire.delay_turns(Duration::from_secs(60), Duration::from_secs(2));
    for claim in &claims {
        site.delete(Kind::Claim, claim);
        world.advance(Duration::from_millis(1500)).await;
    }
}

#[test]
fn a_waiting_claim_is_served_while_others_are_released() {
    let outcome = simulate(&start(5), async |world: &World| {
        release_all_slowly(world, &["late"]).await;
        world.expect(7, "late", "bound before the last one is released", world.sites[0].is_bound("late"));
    });
    outcome.assert_lawful();
}

#[test]
fn a_sweep_for_which_no_claim_waits_lets_the_tags_of_a_release_go_first() {
    let outcome = simulate(&start(5), async |world: &World| {
        release_all_slowly(world, &[]).await;
        let are_gone = world.wait_until(Duration::from_secs(20), || world.cloud.floating_ips().is_empty()).await;
        world.expect(4, "the floating IPs", "deleted", are_gone);
        let most = world.witness.rates().peaks().get("list floating IPs").copied().unwrap_or_default();
        world.expect(8, "the project", &format!("listed a few times, not {most}"), most <= 5);
    });
    outcome.assert_lawful();
}

/// `older` has the name that is woken last. Both wait for the address that `web-0` has; no other can be created.
async fn let_two_wait(world: &World, spec: serde_json::Value) {
    let site = &world.sites[0];
    site.create_pool("public", &spec);
    site.create_claim("web-0", "public");
    world.await_bound("web-0").await;
    for claim in ["older", "a-younger-one"] {
        site.create_claim(claim, "public");
        world.advance(Duration::from_secs(5)).await;
    }
    world.advance(Duration::from_secs(90)).await;
    world.expect(7, "both", "waiting", !site.is_bound("older") && !site.is_bound("a-younger-one"));
}

async fn expect_older_first(world: &World, when: &str) {
    let site = &world.sites[0];
    let is_served = world.wait_until(Duration::from_secs(90), || site.is_bound("older")).await;
    world.expect(7, "older", &format!("bound {when}"), is_served && !site.is_bound("a-younger-one"));
}

#[test]
fn a_creation_that_may_fail_leaves_an_existing_address_to_the_oldest_claim() {
    let outcome = simulate(&start(5), async |world: &World| {
        let site = &world.sites[0];
        world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(0)));
        world.cloud.set_quota(&world.project, Some(1));
        let network = json!({"filter": {"name": "public"}});
        let spec = json!({"preAllocatedFloatingIPs": [address(0).to_string()], "floatingIPNetwork": network});
        let_two_wait(world, spec).await;
        site.delete(Kind::Claim, "web-0");
        expect_older_first(world, "while the quota is used up").await;
        world.cloud.set_quota(&world.project, None);
    });
    outcome.assert_lawful();
}

/// Law 7. What came of its last request is not known, and the requests before it were refused.
#[test]
fn a_request_without_an_answer_costs_the_oldest_claim_no_place() {
    let mut asked = 0;
    for seed in 0..12 {
        let outcome = simulate(&start(seed), async |world: &World| {
            let site = &world.sites[0];
            world.cloud.set_quota(&world.project, Some(1));
            let_two_wait(world, json!({"floatingIPNetwork": {"filter": {"name": "public"}}})).await;
            let wire = site.replicas[0].wire().expect("it runs");
            wire.add_outage(Side::OpenStack, Fault::Refused(Rejection::Server), 4, Duration::from_secs(120));
            let is_asked = || {
                let claim = site.server.get(&key(Kind::Claim, "older")).unwrap_or_default();
                claim.to_string().contains("AllocationFailed")
            };
            let was_asked = world.wait_until(Duration::from_secs(100), is_asked).await;
            asked += usize::from(was_asked);
            wire.clear_faults();
            world.cloud.set_quota(&world.project, Some(2));
            expect_older_first(world, "although its last request was not answered").await;
            world.cloud.set_quota(&world.project, None);
        });
        outcome.assert_lawful();
    }
    assert!(asked > 0, "no request remained without an answer");
}

#[test]
fn a_new_process_serves_the_oldest_waiting_claim_first() {
    for is_killed in [false, true] {
        let outcome = simulate(&start(5), async |world: &World| {
            let site = &world.sites[0];
            let_two_wait(world, json!({"floatingIPNetwork": {"filter": {"name": "public"}}, "maxIPs": 1})).await;
            match is_killed {
                true => site.kill_controller(),
                false => site.replicas[0].terminate.notify_waiters(),
            }
            site.change(Kind::Pool, "public", &json!({"spec": {"maxIPs": 2}}));
            expect_older_first(world, "by the next process").await;
        });
        outcome.assert_lawful();
    }
}

/// The sweep lists as soon as no call of the former process can land, before the claim is tried again.
#[test]
fn a_new_process_leaves_a_released_address_to_a_waiting_claim() {
    let outcome = simulate(&start(5), async |world: &World| {
        let site = &world.sites[0];
        let network = json!({"filter": {"name": "public"}});
        site.create_pool("public", &json!({"floatingIPNetwork": network, "maxIPs": 1, "reuseGracePeriodSeconds": 10}));
        site.create_claim("web-0", "public");
        let held = world.await_bound("web-0").await;
        site.create_claim("web-1", "public");
        world.advance(Duration::from_secs(60)).await;
        site.delete(Kind::Claim, "web-0");
        world.advance(Duration::from_secs(3)).await;
        site.kill_controller();
        let given = world.await_bound("web-1").await;
        world.expect(7, "web-1", "given the released address", given == held);
    });
    outcome.assert_lawful();
}

#[test]
fn claims_that_waited_for_the_calls_of_a_former_process_are_not_refused_what_is_there() {
    const CLAIMS: [&str; 6] = ["web-0", "web-1", "web-2", "web-3", "web-4", "web-5"];
    let outcome = simulate(&start(5), async |world: &World| {
        let site = &world.sites[0];
        site.create_pool(
            "public",
            &json!({"floatingIPNetwork": {"filter": {"name": "public"}}, "maxIPs": CLAIMS.len()}),
        );
        world.advance(Duration::from_secs(30)).await;
        site.kill_controller();
        world.advance(Duration::from_secs(5)).await;
        for claim in CLAIMS {
            site.create_claim(claim, "public");
            world.advance(Duration::from_secs(1)).await;
        }
        let are_bound = || CLAIMS.iter().all(|claim| site.is_bound(claim));
        let are_bound_soon = world.wait_until(Duration::from_secs(90), are_bound).await;
        world.expect(7, "the claims", "bound", are_bound_soon);
        let events = site.server.all(Kind::Event);
        let is_refused = events.iter().any(|event| event["reason"] == "PoolExhausted");
        world.expect(7, "the claims", "never refused", !is_refused);
    });
    outcome.assert_lawful();
}

/// The pool is gone and another one keeps what is known of the project; then the waiting claim is deleted, too.
#[test]
fn a_claim_that_was_deleted_without_its_pool_keeps_no_place_in_the_queue_of_the_next_one() {
    let outcome = simulate(&start(7), async |world: &World| {
        let site = &world.sites[0];
        let network = json!({"filter": {"name": "public"}});
        let create_pool = || {
            site.create_pool("public", &json!({"floatingIPNetwork": network, "poolID": "shared", "maxIPs": 1}));
        };
        site.create_pool("other", &json!({"floatingIPNetwork": network}));
        create_pool();
        site.create_claim("web-0", "public");
        world.await_bound("web-0").await;
        site.create_claim("web-1", "public");
        site.create_claim("paused", "public");
        let paused = json!({"metadata": {"annotations": {PAUSED_ANNOTATION: "true"}}});
        site.change(Kind::Claim, "paused", &paused);
        world.advance(Duration::from_secs(60)).await;
        site.delete(Kind::Pool, "public");
        site.delete(Kind::Claim, "web-0");
        let is_gone = || site.server.get(&key(Kind::Pool, "public")).is_none();
        world.expect(9, "the pool", "gone", world.wait_until(Duration::from_secs(120), is_gone).await);
        site.delete(Kind::Claim, "web-1");
        world.advance(Duration::from_secs(60)).await;
        create_pool();
        site.create_claim("web-2", "public");
        world.await_bound("web-2").await;
    });
    outcome.assert_lawful();
}
