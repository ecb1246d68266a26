//! The ConfigMap of `spec.addressConfigMap`: what it has at which moment, what users do to it, and what remains of it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use caip_openstack::api::names::PAUSED_ANNOTATION;
use serde_json::{Value, json};

use crate::api::Kind;
use crate::laws::{condition, text};
use crate::users::key;
use crate::wire::{Fault, Side};
use crate::world::{NAMESPACE, Site, Start, World, address};
use crate::{is_due, simulate};

const START: Start = Start { seed: 47, sites: 1, replicas: 1, slowest: 20, is_logged: true };
const LIST: &str = "public-addresses";
/// How long the list may lag behind a change that the controller makes.
const LAG: Duration = Duration::from_secs(3);
/// How long a change by others may last.
const REPAIR: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_secs(60);

fn create_pool(site: &Site, spec: Value) {
    let mut whole = json!({"floatingIPNetwork": {"filter": {"name": "public"}}, "addressConfigMap": {"name": LIST}});
    crate::api::objects::merge(&mut whole, &spec);
    site.create_pool("public", &whole);
}

/// The addresses in a ConfigMap; none if it does not exist, or its two forms differ.
fn list(site: &Site, name: &str) -> Option<BTreeSet<IpAddr>> {
    let found = site.server.get(&key(Kind::ConfigMap, name))?;
    let read = |key: &str| {
        let lines = text(&found, &format!("/data/{key}")).lines();
        lines.map(|line| line.trim_end_matches("/32").parse().ok()).collect::<Option<BTreeSet<IpAddr>>>()
    };
    read("addresses").filter(|addresses| read("cidrs").as_ref() == Some(addresses))
}

/// Status and reason of the pool's condition.
fn state(site: &Site) -> (String, String) {
    let pool = site.server.get(&key(Kind::Pool, "public")).map(|pool| (*pool).clone()).unwrap_or_default();
    let found = condition(&pool, "AddressConfigMapCurrent").cloned().unwrap_or_default();
    (text(&found, "/status").to_owned(), text(&found, "/reason").to_owned())
}

fn is_in_state(site: &Site, status: &str, reason: &str) -> bool {
    state(site) == (status.to_owned(), reason.to_owned())
}

async fn expect_list(world: &World, within: Duration, expected: &[IpAddr]) {
    let (site, expected) = (&world.sites[0], expected.iter().copied().collect());
    let is_so = world.wait_until(within, || list(site, LIST).as_ref() == Some(&expected)).await;
    world.expect(11, LIST, &format!("{expected:?}, but {:?}", list(site, LIST)), is_so);
}

/// Creates the pool and the claim `web-0`, which is bound and on the list; returns its address.
async fn bind_on_list(world: &World, spec: Value) -> Option<IpAddr> {
    create_pool(&world.sites[0], spec);
    world.sites[0].create_claim("web-0", "public");
    let address = world.await_bound("web-0").await?;
    expect_list(world, LAG, &[address]).await;
    Some(address)
}

/// The floating IP is there until its grace period ends.
fn expect_resting(world: &World, address: IpAddr) {
    let is_there = world.cloud.floating_ips().iter().any(|fip| fip.address == address);
    world.expect(11, "the floating IP", "there until its grace period ends", is_there);
}

/// The ConfigMap of another owner, with the name that the pool asks for.
fn create_theirs(site: &Site) -> Arc<Value> {
    let theirs = json!({"metadata": {"name": LIST, "namespace": NAMESPACE}, "data": {"addresses": "theirs"}});
    site.server.create(Kind::ConfigMap, theirs).expect("it is valid")
}

#[test]
fn an_address_is_on_the_list_from_its_mark_until_its_release() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        create_pool(site, json!({"reuseGracePeriodSeconds": 60}));
        expect_list(world, SOON, &[]).await;
        world.expect(11, "the condition", "True", is_in_state(site, "True", "ConfigMapUpToDate"));
        site.create_claim("web-0", "public");
        let Some(had) = world.await_bound("web-0").await else { return };
        expect_list(world, LAG, &[had]).await;
        site.delete(Kind::Claim, "web-0");
        expect_list(world, LAG, &[]).await;
        expect_resting(world, had);
    });
    outcome.assert_lawful();
}

#[test]
fn a_released_address_is_on_the_list_while_it_has_a_port() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        create_pool(site, json!({"reuseGracePeriodSeconds": 240}));
        site.create_claim("web-0", "public");
        let Some(had) = world.await_bound("web-0").await else { return };
        let Some((_, id)) = site.address_of("web-0") else { return };
        world.tamper(|world| world.cloud.set_port(&id, Some("port-of-a-machine")));
        // Until it was listed.
        world.advance(2 * SOON).await;
        site.delete(Kind::Claim, "web-0");
        world.expect_gone(Kind::Claim).await;
        world.advance(REPAIR).await;
        expect_list(world, LAG, &[had]).await;
        world.tamper(|world| world.cloud.set_port(&id, None));
        expect_list(world, SOON, &[]).await;
        expect_resting(world, had);
    });
    outcome.assert_lawful();
}

#[test]
fn what_the_pool_has_without_a_claim_is_on_the_list_before_a_claim_comes() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        for index in [0, 1] {
            world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(index)));
        }
        create_pool(site, json!({"preAllocatedFloatingIPs": [address(0)], "minFree": 2}));
        let is_full = world.wait_until(SOON, || list(site, LIST).is_some_and(|list| list.len() == 3)).await;
        world.expect(11, LIST, "of the listed address and two spares", is_full);
        let before = list(site, LIST);
        world.expect(11, LIST, "without what is the project's", before.iter().all(|list| !list.contains(&address(1))));
        site.create_claim("web-0", "public");
        let had = world.await_bound("web-0").await;
        world.expect(11, LIST, "not changed by the first claim", had == Some(address(0)) && list(site, LIST) == before);
        site.delete(Kind::Claim, "web-0");
        world.advance(SOON).await;
        world.expect(11, LIST, "not changed by its release", list(site, LIST) == before);
    });
    outcome.assert_lawful();
}

#[test]
fn a_burst_of_claims_is_few_writes() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        create_pool(site, json!({}));
        expect_list(world, SOON, &[]).await;
        let version = site.server.version();
        (0..8).for_each(|number| site.create_claim(&format!("web-{number}"), "public"));
        let is_full = world.wait_until(SOON, || list(site, LIST).is_some_and(|list| list.len() == 8)).await;
        world.expect(11, LIST, "of eight addresses", is_full);
        world.advance(SOON).await;
        let state = site.server.state();
        let writes = state.changes.iter().filter(|it| it.version > version && it.key.kind == Kind::ConfigMap).count();
        drop(state);
        world.expect(8, LIST, &format!("written once or twice, but {writes} times"), (1..=2).contains(&writes));
    });
    outcome.assert_lawful();
}

#[test]
fn what_others_do_to_the_list_is_repaired() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        let Some(had) = bind_on_list(world, json!({})).await else { return };
        site.delete(Kind::ConfigMap, LIST);
        expect_list(world, REPAIR, &[had]).await;
        for data in [json!({"addresses": "198.51.100.1\n"}), json!({"cidrs": null}), Value::Null] {
            site.change(Kind::ConfigMap, LIST, &json!({"data": data}));
            expect_list(world, REPAIR, &[had]).await;
        }
        site.change(
            Kind::ConfigMap,
            LIST,
            &json!({"data": {"theirs": "kept"}, "metadata": {"labels": {"theirs": "kept"}}}),
        );
        site.create_claim("web-1", "public");
        world.await_bound("web-1").await;
        world.advance(LAG).await;
        let found = site.server.get(&key(Kind::ConfigMap, LIST)).map(|found| found.to_string()).unwrap_or_default();
        world.expect(11, LIST, "with what others added", found.matches(r#""theirs":"kept""#).count() == 2);
    });
    outcome.assert_lawful();
}

#[test]
fn another_owners_config_map_is_left_as_it_is_until_it_is_gone() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        let before = create_theirs(site);
        create_pool(site, json!({}));
        let is_told = || is_in_state(site, "False", "ConfigMapNameTaken");
        world.expect(11, "the pool", "told", world.wait_until(SOON, is_told).await);
        site.create_claim("web-0", "public");
        let Some(had) = world.await_bound("web-0").await else { return };
        world.advance(SOON).await;
        world.expect(11, LIST, "as it was", site.server.get(&key(Kind::ConfigMap, LIST)) == Some(before.clone()));

        site.change(Kind::Pool, "public", &json!({"spec": {"addressConfigMap": {"name": "other"}}}));
        let is_written = || list(site, "other").is_some_and(|list| list.contains(&had));
        world.expect(11, "other", "written", world.wait_until(LAG, is_written).await);
        world.expect(11, LIST, "as it was", site.server.get(&key(Kind::ConfigMap, LIST)) == Some(before));
        site.delete(Kind::ConfigMap, LIST);
        site.change(Kind::Pool, "public", &json!({"spec": {"addressConfigMap": {"name": LIST}}}));
        expect_list(world, LAG, &[had]).await;
        world.expect(11, "other", "deleted", list(site, "other").is_none());
    });
    outcome.assert_lawful();
}

#[test]
fn a_former_name_that_another_owner_has_now_is_left_alone() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        create_pool(site, json!({}));
        expect_list(world, SOON, &[]).await;
        site.change(Kind::Pool, "public", &json!({"metadata": {"annotations": {PAUSED_ANNOTATION: ""}}}));
        world.advance(SOON).await;
        site.delete(Kind::ConfigMap, LIST);
        let theirs = create_theirs(site);
        let change = json!({
            "metadata": {"annotations": {PAUSED_ANNOTATION: null}}, "spec": {"addressConfigMap": {"name": "other"}}
        });
        site.change(Kind::Pool, "public", &change);
        world.expect(11, "other", "written", world.wait_until(SOON, || list(site, "other").is_some()).await);
        world.expect(11, LIST, "as it was", site.server.get(&key(Kind::ConfigMap, LIST)) == Some(theirs));
    });
    outcome.assert_lawful();
}

/// The name is changed and then removed while a process dies at each of its calls.
#[test]
fn the_list_of_a_former_name_is_deleted_whenever_the_controller_dies() {
    for (call, fault) in (0..60).flat_map(|call| [Fault::CrashBefore, Fault::CrashAfter].map(|fault| (call, fault))) {
        if !is_due(call, 5) {
            continue;
        }
        let outcome = simulate(&START, async |world: &World| {
            let site = &world.sites[0];
            site.replicas[0].wire().iter().for_each(|wire| wire.plan(call, fault));
            create_pool(site, json!({}));
            expect_list(world, SOON, &[]).await;
            for name in [Some("other"), None, Some("third")] {
                if let Some(wire) = site.replicas[0].wire() {
                    wire.plan(wire.calls() + call % 12, fault);
                }
                let wanted = name.map(|name| json!({"name": name}));
                site.change(Kind::Pool, "public", &json!({"spec": {"addressConfigMap": wanted}}));
                let left = || -> Vec<String> {
                    site.server.all(Kind::ConfigMap).iter().map(|it| text(it, "/metadata/name").to_owned()).collect()
                };
                let is_so = world.wait_until(SOON, || left() == name.into_iter().collect::<Vec<_>>()).await;
                world.expect(11, "the ConfigMaps", &format!("{name:?}, but {:?}", left()), is_so);
                let is_told = || state(site).0 == if name.is_some() { "True" } else { "" };
                world.expect(11, "the condition", "as asked", world.wait_until(SOON, is_told).await);
            }
        });
        outcome.assert_lawful();
    }
}

#[test]
fn the_list_goes_with_its_pool_and_follows_it_until_then() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        create_pool(site, json!({"reuseGracePeriodSeconds": 60}));
        for claim in ["web-0", "web-1"] {
            site.create_claim(claim, "public");
            world.await_bound(claim).await;
        }
        let stays = site.address_of("web-1").map(|(address, _)| address);
        site.delete(Kind::Pool, "public");
        site.delete(Kind::Claim, "web-0");
        expect_list(world, REPAIR, stays.as_slice()).await;
        site.delete(Kind::ConfigMap, LIST);
        expect_list(world, REPAIR + LAG, stays.as_slice()).await;
        site.delete(Kind::Claim, "web-1");
        world.expect_gone(Kind::Pool).await;
        world.expect_gone(Kind::ConfigMap).await;
    });
    outcome.assert_lawful();
}

#[test]
fn a_pool_that_cannot_see_its_addresses_keeps_the_list() {
    for is_restarted in [false, true] {
        let outcome = simulate(&START, async |world: &World| {
            let site = &world.sites[0];
            let Some(had) = bind_on_list(world, json!({})).await else { return };
            site.change(Kind::Pool, "public", &json!({"spec": {"identityRef": {"cloudName": "nowhere"}}}));
            if is_restarted {
                site.kill_controller();
            }
            let is_told = || is_in_state(site, "Unknown", "AddressesUnknown");
            world.expect(11, "the pool", "told", world.wait_until(SOON, is_told).await);
            world.advance(SOON).await;
            expect_list(world, LAG, &[had]).await;
            site.change(Kind::Pool, "public", &json!({"spec": {"identityRef": {"cloudName": "openstack"}}}));
            let is_told = || is_in_state(site, "True", "ConfigMapUpToDate");
            world.expect(11, "the pool", "current again", world.wait_until(SOON, is_told).await);
        });
        outcome.assert_lawful();
    }
}

#[test]
fn a_pool_that_stops_because_capo_has_one_with_its_name_keeps_the_list_up_to_date() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        let Some(_) = bind_on_list(world, json!({"reuseGracePeriodSeconds": 240})).await else { return };
        let namesake = json!({"metadata": {"name": "public", "namespace": NAMESPACE}, "spec": {}});
        site.server.create(Kind::InTreePool, namesake).expect("it is valid");
        let has_stopped = || site.ready(Kind::Pool, NAMESPACE, "public").0 == "NameConflict";
        world.expect(7, "the pool", "stopped", world.wait_until(SOON, has_stopped).await);
        site.delete(Kind::Claim, "web-0");
        expect_list(world, REPAIR, &[]).await;
        world.expect(11, "the floating IP", "there", world.cloud.floating_ips().len() == 1);
    });
    outcome.assert_lawful();
}

/// As behind a webhook that does not answer.
#[test]
fn writes_of_the_list_that_hang_or_fail_delay_no_claim() {
    for fault in [Fault::Late(Duration::from_secs(29)), Fault::RefusedLate(Duration::from_secs(10))] {
        let outcome = simulate(&START, async |world: &World| {
            let site = &world.sites[0];
            create_pool(site, json!({}));
            expect_list(world, SOON, &[]).await;
            site.replicas[0].wire().iter().for_each(|wire| wire.hang("configmaps", fault, 4 * SOON));
            for number in 0..3 {
                let claim = format!("web-{number}");
                site.create_claim(&claim, "public");
                let is_bound = world.wait_until(Duration::from_secs(2), || site.is_bound(&claim)).await;
                world.expect(11, &claim, "bound at once", is_bound);
                world.advance(LAG).await;
            }
            let is_told = || is_in_state(site, "False", "ConfigMapWriteFailed");
            world.expect(11, "the pool", "told", world.wait_until(SOON, is_told).await);
            let is_ready = site.ready(Kind::Pool, NAMESPACE, "public").0 == "Ready";
            world.expect(11, "the pool", "ready all the same", is_ready);
            world.advance(4 * SOON).await;
            let is_told = || is_in_state(site, "True", "ConfigMapUpToDate");
            world.expect(11, "the pool", "current again", world.wait_until(SOON, is_told).await);
            world.expect(11, LIST, "complete", list(site, LIST).is_some_and(|list| list.len() == 3));
        });
        outcome.assert_lawful();
    }
}

/// A restore from a backup, or `clusterctl move`, gives the pool another UID.
#[test]
fn a_pool_that_is_created_again_has_its_list_again() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        let Some(had) = bind_on_list(world, json!({"poolID": "kept"})).await else { return };
        site.delete_by_force(Kind::Pool, "public");
        create_pool(site, json!({"poolID": "kept"}));
        world.advance(SOON).await;
        expect_list(world, REPAIR, &[had]).await;
        let uid = |kind, name: &str, path: &str| {
            site.server.get(&key(kind, name)).map(|object| text(&object, path).to_owned())
        };
        let owner = uid(Kind::ConfigMap, LIST, "/metadata/ownerReferences/0/uid");
        world.expect(11, LIST, "of the new pool", owner == uid(Kind::Pool, "public", "/metadata/uid"));
    });
    outcome.assert_lawful();
}

#[test]
fn an_outage_of_either_side_leaves_a_current_list() {
    for side in [Side::Kubernetes, Side::OpenStack] {
        for seed in (0..12).filter(|seed| is_due(*seed, 3)) {
            let start = Start { seed: seed as u64, ..START };
            let outcome = simulate(&start, async |world: &World| {
                let site = &world.sites[0];
                create_pool(site, json!({"minFree": 1}));
                world.advance(Duration::from_secs(5)).await;
                let fault = [Fault::ReplyLost, Fault::RequestLost, Fault::Late(LAG)][seed % 3];
                site.replicas[0].add_outage(side, fault, 4, SOON);
                for number in 0..3 {
                    site.create_claim(&format!("web-{number}"), "public");
                    world.advance(Duration::from_secs(7)).await;
                }
                site.delete(Kind::Claim, "web-0");
                world.advance(2 * SOON).await;
                // The law about lists is judged at the end.
                world.expect(7, "web-2", "bound", site.is_bound("web-2"));
            });
            outcome.assert_lawful();
        }
    }
}
