//! Deletion ends: in whatever order everything is deleted, Neutron is left as it was before, and no finalizer remains.
//! With OpenStack gone for good an annotation ends it, and events name what is left behind.

use std::cell::Cell;
use std::time::Duration;

use caip_openstack::allocation::mark::{Marks, claim_tag};
use caip_openstack::allocation::{ClaimKey, PoolId};
use caip_openstack::api::names::{ABANDON_ANNOTATION, ADDRESS_FINALIZER};
use caip_openstack::floating_ip::FloatingIpId;
use serde_json::{Value, json};

use crate::api::{Change, Kind};
use crate::laws::text;
use crate::memory::Alteration;
use crate::tampering::forged;
use crate::users::key;
use crate::wire::{Fault, Rejection, Side};
use crate::world::{NAMESPACE, Site, Start, World, address};
use crate::{Outcome, is_due, simulate, simulate_bound};

const START: Start = Start { seed: 5, sites: 1, replicas: 1, slowest: 20, is_logged: true };
const SOON: Duration = Duration::from_secs(60);

/// What is deleted, each at its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Cluster,
    Claims,
    Addresses,
    Pool,
    Secret,
    Namespace,
}

const ALL: [What; 6] = [What::Cluster, What::Claims, What::Addresses, What::Pool, What::Secret, What::Namespace];
/// The claims of [`create_fixtures`].
pub const CLAIMS: [&str; 3] = ["web-0", "web-1", "web-2"];

/// All orders of all of them.
pub fn orders<T: Copy + PartialEq>(all: &[T]) -> Vec<Vec<T>> {
    orders_of_some(all).into_iter().filter(|order| order.len() == all.len()).collect()
}

/// All orders of none, some or all of them.
pub fn orders_of_some<T: Copy + PartialEq>(all: &[T]) -> Vec<Vec<T>> {
    let longer = |order: &Vec<T>| -> Vec<Vec<T>> {
        let left = all.iter().filter(|what| !order.contains(what));
        left.map(|what| [order.as_slice(), &[*what]].concat()).collect()
    };
    let with_one_more = |orders: &Vec<Vec<T>>| Some(orders.iter().flat_map(longer).collect());
    std::iter::successors(Some(vec![Vec::new()]), with_one_more).take(all.len() + 1).flatten().collect()
}

fn delete(world: &World, what: What) {
    let site = &world.sites[0];
    world.trace.record(|| format!("--- delete {what:?}"));
    match what {
        What::Cluster => site.delete(Kind::Cluster, "c"),
        What::Claims => CLAIMS.iter().for_each(|claim| site.delete(Kind::Claim, claim)),
        What::Addresses => CLAIMS.iter().for_each(|claim| site.delete(Kind::Address, claim)),
        What::Pool => site.delete(Kind::Pool, "public"),
        What::Secret => site.delete(Kind::Secret, "cloud"),
        What::Namespace => {
            let namespace = crate::api::Key::new(Kind::Namespace, "", NAMESPACE);
            let _ = site.server.delete(&namespace, &crate::api::deletion::Deletion::default());
        }
    }
}

/// A pool with an address of its list, a retained one and a spare, and three claims that have addresses.
pub async fn create_fixtures(world: &World) {
    world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(0)));
    let site = &world.sites[0];
    let spec = json!({
        "preAllocatedFloatingIPs": [address(0).to_string()], "floatingIPNetwork": {"filter": {"name": "public"}},
        "minFree": 1,
    });
    site.create_pool("public", &spec);
    CLAIMS.iter().for_each(|claim| site.create_claim(claim, "public"));
    let is_bound = world.wait_until(Duration::from_secs(60), || CLAIMS.iter().all(|claim| site.is_bound(claim))).await;
    world.expect(7, "the claims", "bound in time", is_bound);
}

fn delete_in_order(order: &[What], gap: Duration, is_logged: bool) -> Outcome {
    let start = Start { seed: 3, sites: 1, replicas: 1, slowest: 20, is_logged };
    simulate(&start, async |world: &World| {
        create_fixtures(world).await;
        for what in order {
            delete(world, *what);
            world.advance(gap).await;
        }
        let left = |kind: Kind| world.sites[0].server.all(kind).len();
        let is_empty = || left(Kind::Claim) + left(Kind::Address) + left(Kind::Pool) + left(Kind::Secret) == 0;
        let is_gone = || world.sites[0].server.get(&crate::api::Key::new(Kind::Namespace, "", NAMESPACE)).is_none();
        let is_gone_in_time = world.wait_until(Duration::from_secs(300), || is_empty() && is_gone()).await;
        world.expect(9, "the namespace", "gone with all that was in it", is_gone_in_time);
        let fips = world.cloud.floating_ips();
        let is_clean = fips.len() == 1 && Marks::read(&fips[0]).is_empty();
        world.expect(4, "Neutron", "as it was before", is_clean);
        // There is nothing left that could settle.
        world.skips_rest.set(true);
        world.advance(Duration::from_secs(60)).await;
        world.judge(true);
    })
}

#[test]
fn every_order_of_deleting_everything_ends() {
    let orders = orders(&ALL);
    assert_eq!(orders.len(), 720);
    for (pace, gap) in [Duration::ZERO, Duration::from_millis(700), Duration::from_secs(11)].into_iter().enumerate() {
        for (index, order) in orders.iter().enumerate() {
            if is_due(index + pace, 3) && !delete_in_order(order, gap, false).violations.is_empty() {
                let logged = delete_in_order(order, gap, true);
                panic!("{order:?} with {gap:?} in between: {:?}\n{}", logged.violations, logged.log);
            }
        }
    }
}

#[test]
fn without_openstack_the_abandon_annotation_ends_a_deletion_and_events_name_what_is_left_behind() {
    let outcome = simulate(&START, async |world: &World| {
        create_fixtures(world).await;
        let site = &world.sites[0];
        let named: Vec<String> =
            CLAIMS.iter().filter_map(|claim| site.address_of(claim)).map(|(address, _)| address.to_string()).collect();
        let ever = Duration::from_secs(1_000_000);
        site.replicas[0].add_outage(Side::OpenStack, Fault::Refused(Rejection::Unreachable), 8, ever);
        for what in [What::Secret, What::Claims, What::Pool] {
            delete(world, what);
        }
        world.advance(Duration::from_secs(300)).await;
        let pool = site.server.get(&key(Kind::Pool, "public"));
        let conditions = pool.iter().flat_map(|pool| pool["status"]["conditions"].as_array().into_iter().flatten());
        let says_so = conditions
            .filter(|condition| condition["type"] == "Ready")
            .any(|ready| text(ready, "/message").contains(ABANDON_ANNOTATION));
        world.expect(9, "the pool", "ready to say what is in the way, and which annotation ends it", says_so);
        site.change(Kind::Pool, "public", &json!({"metadata": {"annotations": {ABANDON_ANNOTATION: "true"}}}));
        let left = |kind: Kind| site.server.all(kind).len();
        let is_gone_in_time = world
            .wait_until(Duration::from_secs(120), || {
                left(Kind::Claim) + left(Kind::Address) + left(Kind::Pool) + left(Kind::Secret) == 0
            })
            .await;
        world.expect(9, "everything", "gone", is_gone_in_time);
        let notes: Vec<Value> = site.server.all(Kind::Event).iter().map(|event| event["note"].clone()).collect();
        let all = notes.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n");
        for address in named {
            world.expect(9, &address, "named in an event as left behind", all.contains(&address));
        }
        world.skips_rest.set(true);
    });
    outcome.assert_lawful();
}

#[test]
fn an_abandoned_pool_that_waits_for_machines_says_once_what_it_leaves_behind() {
    simulate_bound(&START, async |world, site| {
        site.change(Kind::Pool, "public", &json!({"metadata": {"annotations": {ABANDON_ANNOTATION: "true"}}}));
        site.delete(Kind::Pool, "public");
        world.advance(Duration::from_secs(600)).await;
        let said = |change: &&Change| change.key.kind == Kind::Event && change.object["reason"] == "Abandoned";
        let times = site.server.state().changes.iter().filter(said).count();
        world.expect(8, "what is left behind", &format!("said once, but {times} times"), times == 1);
        site.delete(Kind::Claim, "web-0");
        world.expect_gone(Kind::Pool).await;
        world.skips_rest.set(true);
    });
}

#[test]
fn an_attached_address_is_called_left_once_although_its_marks_cannot_be_removed() {
    simulate_bound(&START, async |world, site| {
        let (_, id) = site.address_of("web-0").unwrap();
        world.tamper(|world| world.cloud.set_port(&id, Some("port-of-a-machine")));
        site.delete_by_force(Kind::Claim, "web-0");
        site.delete_by_force(Kind::Address, "web-0");
        world.cloud.alter(Alteration::RefusesDescriptions);
        site.delete(Kind::Pool, "public");
        let said = || {
            let changes = &site.server.state().changes;
            changes
                .iter()
                .filter(|it| it.key.kind == Kind::Event && it.object["reason"] == "AttachedFloatingIPLeft")
                .count()
        };
        world.advance(Duration::from_secs(120)).await;
        world.cloud.alter(Alteration::None);
        world.expect_gone(Kind::Pool).await;
        world.expect(8, "what is left", &format!("said once, but {} times", said()), said() == 1);
        world.skips_rest.set(true);
    });
}

/// Law 9. The watch does not show that the claim has the finalizer, and its IPAddress is about to be created.
#[test]
fn a_pool_waits_for_a_claim_whose_finalizer_it_has_not_seen() {
    // The claim is seen, and its finalizer is not.
    let hits = Cell::new(0);
    for moment in (0..100).step_by(5) {
        let start = Start { seed: moment, sites: 1, replicas: 1, slowest: 20, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
            world.advance(SOON).await;
            let wire = site.replicas[0].wire().expect("it runs");
            site.create_claim("web-0", "public");
            world.advance(Duration::from_millis(moment)).await;
            wire.stall_watch("ipaddressclaims", Duration::from_secs(30));
            wire.hang("ipaddresses", Fault::Late(Duration::from_secs(8)), Duration::from_secs(20));
            let is_created = world.wait_until(SOON, || !world.cloud.floating_ips().is_empty()).await;
            world.expect(7, "web-0", "given a floating IP", is_created);
            site.delete(Kind::Pool, "public");
            world.advance(Duration::from_secs(40)).await;
            if site.address_of("web-0").is_some() {
                hits.set(hits.get() + 1);
                world.expect(9, "the floating IP", "there", world.cloud.floating_ips().len() == 1);
            }
            site.delete(Kind::Claim, "web-0");
            world.expect_gone(Kind::Pool).await;
        });
        outcome.assert_lawful();
    }
    assert!(hits.get() > 0, "no claim had its address by then");
}

/// Law 9. While a Cluster is paused, what a pool left behind may be moved.
#[test]
fn what_is_left_of_a_pool_goes_once_no_cluster_is_paused() {
    simulate_bound(&START, async |world, site| {
        world.users_interfered.set(true);
        let pause = |is_paused: bool| site.change(Kind::Cluster, "c", &json!({"spec": {"paused": is_paused}}));
        pause(true);
        world.advance(SOON).await;
        site.delete_by_force(Kind::Claim, "web-0");
        site.delete_by_force(Kind::Pool, "public");
        site.delete(Kind::Address, "web-0");
        world.advance(10 * SOON).await;
        world.expect(5, "the IPAddress", "there", site.address_of("web-0").is_some());
        pause(false);
        let is_gone = world.wait_until(10 * SOON, || site.address_of("web-0").is_none()).await;
        world.expect(9, "the IPAddress", "gone", is_gone);
        world.skips_rest.set(true);
    });
}

/// The pool is full when `web-1` comes, and another writer makes an IPAddress with that claim's name.
async fn publish_as_another_writer(world: &World, site: &Site) {
    site.change(Kind::Pool, "public", &json!({"spec": {"maxIPs": 1}}));
    world.advance(SOON).await;
    site.create_claim("web-1", "public");
    world.advance(SOON).await;
    world.users_interfered.set(true);
    let original = site.server.get(&key(Kind::Address, "web-0")).unwrap();
    let mut other = forged(&original, "web-1");
    other["metadata"]["annotations"] = json!({});
    other["spec"]["address"] = "198.51.100.1".into();
    site.server.create(Kind::Address, other).expect("it is valid");
}

/// Law 9. An IPAddress of another writer has the claim's name.
#[test]
fn a_pool_does_not_wait_for_a_claim_that_has_another_writers_ip_address() {
    simulate_bound(&START, async |world, site| {
        publish_as_another_writer(world, site).await;
        world.advance(SOON).await;
        site.delete(Kind::Pool, "public");
        world.advance(SOON).await;
        let wire = site.replicas[0].wire().expect("it runs");
        let before = wire.calls();
        world.advance(10 * SOON).await;
        let calls = wire.calls() - before;
        world.expect(8, "the pool", &format!("waiting with few calls, but with {calls}"), calls < 400);
        site.delete(Kind::Claim, "web-0");
        world.expect_gone(Kind::Pool).await;
        world.expect(9, "the IPAddress", "left", site.server.get(&key(Kind::Address, "web-1")).is_some());
        site.delete(Kind::Address, "web-1");
        site.delete(Kind::Claim, "web-1");
    });
}

/// What else is wrong when a pool is deleted whose claim has another writer's IPAddress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trouble {
    Nothing,
    /// OpenStack does not answer a new process, and the pool is abandoned.
    Gone,
    /// The Cluster was removed by force.
    NoCluster,
}

/// Law 9. It waits for the claim alone, and nothing is the claim's.
#[test]
fn a_pool_goes_whatever_else_is_wrong_with_a_claim_that_has_another_writers_ip_address() {
    for trouble in [Trouble::Nothing, Trouble::Gone, Trouble::NoCluster] {
        let outcome = simulate(&START, async |world: &World| {
            let site = &world.sites[0];
            world.bind_in_new_pool("web-0").await;
            publish_as_another_writer(world, site).await;
            site.delete(Kind::Claim, "web-0");
            world.advance(SOON).await;
            match trouble {
                Trouble::Nothing => {}
                Trouble::Gone => {
                    site.kill_controller();
                    let is_back = || site.replicas[0].wire().is_some_and(|wire| !wire.is_dead());
                    world.expect(9, "a new process", "there", world.wait_until(SOON, is_back).await);
                    let unreachable = Fault::Refused(Rejection::Unreachable);
                    site.replicas[0].add_outage(Side::OpenStack, unreachable, 8, 60 * SOON);
                    let abandoned = json!({"metadata": {"annotations": {ABANDON_ANNOTATION: "true"}}});
                    site.change(Kind::Pool, "public", &abandoned);
                }
                Trouble::NoCluster => site.delete_by_force(Kind::Cluster, "c"),
            }
            world.advance(SOON).await;
            site.delete(Kind::Pool, "public");
            world.expect_gone(Kind::Pool).await;
            let state = site.server.state();
            let of_claim = state.changes.iter().filter(|change| change.key == key(Kind::Claim, "web-1"));
            let said = |change: &Change| change.object["status"].to_string().contains("is being deleted");
            world.expect(9, "web-1", &format!("told that its pool goes ({trouble:?})"), of_claim.into_iter().any(said));
            let named = |change: &Change| {
                change.key.kind == Kind::Event && text(&change.object, "/note").contains("198.51.100.1")
            };
            world.expect(9, "another writer's address", "in no event", !state.changes.iter().any(named));
            drop(state);
            world.expect(9, "the IPAddress", "left", site.server.get(&key(Kind::Address, "web-1")).is_some());
            world.skips_rest.set(true);
        });
        outcome.assert_lawful();
    }
}

/// It waits for its pool, and its release for the calls: only one of them is in its condition.
#[test]
fn a_claim_whose_pool_is_deleted_while_its_calls_are_uncertain_is_left_in_peace() {
    let start = Start { seed: 5, sites: 1, replicas: 1, slowest: 20, is_logged: false };
    let outcome = simulate(&start, async |world: &World| {
        let site = &world.sites[0];
        for index in 0..2 {
            world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(index)));
        }
        let list = json!([address(0).to_string(), address(1).to_string()]);
        site.create_pool("listed", &json!({"preAllocatedFloatingIPs": list}));
        site.create_claim("web-0", "listed");
        world.advance(Duration::from_secs(30)).await;
        site.create_claim("web-1", "listed");
        world.advance(Duration::from_millis(50)).await;
        site.replicas[0].add_outage(Side::OpenStack, Fault::ReplyLost, 8, Duration::from_secs(12));
        site.delete(Kind::Pool, "listed");
        world.advance(Duration::from_secs(180)).await;
    });
    outcome.assert_lawful();
}

/// Law 3. Whether the pool keeps its addresses is decided while it waits for its last claim.
#[test]
fn a_pool_that_is_being_deleted_does_as_its_present_spec_says() {
    for (seed, is_kept) in [(0, true), (1, false)] {
        let start = Start { seed, sites: 1, replicas: 1, slowest: 20, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            let [before, after] = if is_kept { ["Delete", "Retain"] } else { ["Retain", "Delete"] };
            let network = json!({"filter": {"name": "public"}});
            site.create_pool("public", &json!({"floatingIPNetwork": network, "reclaimPolicy": before}));
            site.create_claim("web-0", "public");
            world.await_bound("web-0").await;
            site.delete(Kind::Pool, "public");
            world.advance(Duration::from_secs(60)).await;
            site.change(Kind::Pool, "public", &json!({"spec": {"reclaimPolicy": after}}));
            world.advance(Duration::from_secs(60)).await;
            site.delete(Kind::Claim, "web-0");
            world.expect_gone(Kind::Pool).await;
            let left = world.cloud.floating_ips().len();
            world.expect(3, "the floating IP", &format!("kept: {is_kept}"), left == usize::from(is_kept));
        });
        outcome.assert_lawful();
    }
}

/// Law 9. A claim waits for an address when its Cluster is removed by force, and then its pool is deleted.
#[test]
fn a_waiting_claim_whose_cluster_is_gone_does_not_hold_its_pool() {
    for seed in 0..4 {
        let start = Start { seed, sites: 1, replicas: 1, slowest: 20, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            let network = json!({"filter": {"name": "public"}});
            site.create_pool("public", &json!({"floatingIPNetwork": network, "maxIPs": 1}));
            site.create_claim("web-0", "public");
            world.await_bound("web-0").await;
            site.create_claim("web-1", "public");
            world.advance(Duration::from_secs(10)).await;
            site.change(Kind::Pool, "public", &json!({"spec": {"excludedAddresses": ["203.0.113.0/24"]}}));
            world.advance(Duration::from_secs(1)).await;
            site.delete(Kind::Claim, "web-0");
            world.advance(Duration::from_secs(10)).await;
            world.users_interfered.set(true);
            site.delete_by_force(Kind::Cluster, "c");
            world.advance(Duration::from_secs(10)).await;
            site.delete(Kind::Pool, "public");
            world.expect_gone(Kind::Pool).await;
            world.skips_rest.set(true);
        });
        outcome.assert_lawful();
    }
}

/// The claim `web-0` is bound, and another owner has marked its address, which has been noticed. Returns that mark.
async fn bind_contested(world: &World) -> (FloatingIpId, String) {
    let id = world.create_listed();
    world.sites[0].create_claim("web-0", "public");
    world.await_bound("web-0").await;
    let theirs = claim_tag(&PoolId::parse("theirs").unwrap(), &ClaimKey::of("a", "b"));
    world.tamper(|world| world.cloud.edit(&id, |fip| _ = fip.tags.insert(theirs.clone())));
    world.advance(10 * SOON).await;
    (id, theirs)
}

/// Law 1. The other owner may give the address away as soon as our mark is gone: not while the API server refuses to delete
/// the IPAddress, or a finalizer keeps it.
#[test]
fn a_mark_beside_another_owners_is_removed_after_the_ip_address() {
    for is_refused in [true, false] {
        let outcome = simulate(&START, async |world: &World| {
            let (id, theirs) = bind_contested(world).await;
            let site = &world.sites[0];
            let set_finalizers = |finalizers: &[&str]| {
                site.change(Kind::Address, "web-0", &json!({"metadata": {"finalizers": finalizers}}));
            };
            if is_refused {
                let refused = Fault::Refused(Rejection::Server);
                site.replicas[0].wire().iter().for_each(|wire| wire.hang("ipaddresses", refused, SOON));
            } else {
                set_finalizers(&[ADDRESS_FINALIZER, "example.com/held"]);
            }
            site.delete(Kind::Claim, "web-0");
            let is_marked = || world.cloud.floating_ips().iter().any(|fip| fip.tags.iter().any(|tag| *tag != theirs));
            let is_published = || site.server.get(&key(Kind::Address, "web-0")).is_some();
            let is_withdrawn = world.wait_until(SOON / 2, || !is_marked()).await;
            world.expect(1, "web-0", "marked while it has an IPAddress", !is_withdrawn && is_published());
            if !is_refused {
                let (reason, message) = site.ready(Kind::Claim, NAMESPACE, "web-0");
                let is_told = reason == "ReleaseFailed" && message.contains("example.com/held");
                world.expect(7, "web-0", &format!("told so, but {reason}: {message}"), is_told);
                set_finalizers(&[]);
            }
            let is_withdrawn = world.wait_until(2 * SOON, || !is_marked()).await;
            world.expect(1, "web-0", "without an IPAddress as its mark is removed", is_withdrawn && !is_published());
            world.tamper(|world| world.cloud.edit(&id, |fip| _ = fip.tags.remove(&theirs)));
        });
        outcome.assert_lawful();
    }
}

/// Law 9. OpenStack is gone when the IPAddress is, and the mark is not.
#[test]
fn an_event_names_an_address_that_another_owner_has_marked_when_it_is_left_behind() {
    let outcome = simulate(&START, async |world: &World| {
        bind_contested(world).await;
        let site = &world.sites[0];
        let ever = Duration::from_secs(1_000_000);
        site.replicas[0].add_outage(Side::OpenStack, Fault::Refused(Rejection::Unreachable), 8, ever);
        site.delete(Kind::Claim, "web-0");
        world.expect_gone(Kind::Address).await;
        site.change(Kind::Pool, "public", &json!({"metadata": {"annotations": {ABANDON_ANNOTATION: "true"}}}));
        world.expect_gone(Kind::Claim).await;
        let named = address(0).to_string();
        let is_said = site.server.all(Kind::Event).iter().any(|event| text(event, "/note").contains(&named));
        world.expect(9, &named, "named in an event as left behind", is_said);
        world.skips_rest.set(true);
    });
    outcome.assert_lawful();
}

/// `clusterctl move` failed after it had created the Cluster, paused, and the pool. The user begins again.
#[test]
fn a_copy_of_a_pool_that_an_interrupted_move_left_is_deleted_without_touching_what_claims_have() {
    let start = Start { sites: 2, ..START };
    let outcome = simulate(&start, async |world: &World| {
        let [from, to] = &world.sites[..] else { return };
        let spec = json!({"floatingIPNetwork": {"filter": {"name": "public"}}, "poolID": "k3v9x0q2ab"});
        from.create_pool("public", &spec);
        ["web-0", "web-1"].iter().for_each(|claim| from.create_claim(claim, "public"));
        let is_bound = world.wait_until(SOON, || from.is_bound("web-0") && from.is_bound("web-1")).await;
        world.expect(7, "the claims", "bound", is_bound);
        let Some((_, attached)) = from.address_of("web-0") else { return };
        world.tamper(|world| world.cloud.set_port(&attached, Some("port-of-web-0")));
        world.users_interfered.set(true);
        from.change(Kind::Cluster, "c", &json!({"spec": {"paused": true}}));
        to.change(Kind::Cluster, "c", &json!({"spec": {"paused": true}}));
        to.create_pool("public", &spec);
        world.advance(3 * SOON).await;
        let before = world.cloud.floating_ips();

        to.delete(Kind::Pool, "public");
        world.advance(3 * SOON).await;
        world.expect(5, "the copy's deletion", "without effect", world.cloud.floating_ips() == before);
        let pool = to.server.get(&key(Kind::Pool, "public")).unwrap_or_default().to_string();
        world.expect(9, "public", "said to wait", pool.contains("while a Cluster of the namespace is paused"));
        to.change(Kind::Pool, "public", &json!({"metadata": {"annotations": {ABANDON_ANNOTATION: "true"}}}));
        let is_gone = world.wait_until(SOON, || to.server.get(&key(Kind::Pool, "public")).is_none()).await;
        world.expect(9, "public", "gone", is_gone);
        world.expect(5, "the copy's end", "without effect", world.cloud.floating_ips() == before);
        [from, to].iter().for_each(|site| site.change(Kind::Cluster, "c", &json!({"spec": {"paused": false}})));
    });
    outcome.assert_lawful();
}
