//! Histories that once lost an address which was still needed, or left an object behind.

use std::time::Duration;

use caip_openstack::api::names::{ABANDON_ANNOTATION, FLOATING_IP_ID_ANNOTATION};
use serde_json::json;

use crate::api::Kind;
use crate::api::deletion::{Deletion, Propagation};
use crate::history::{Owners, Restoration};
use crate::memory::Alteration;
use crate::users::key;
use crate::wire::{Fault, Side};
use crate::world::{ADDRESSES, NAMESPACE, Start, World, address};
use crate::{simulate, simulate_bound};

const START: Start = Start { seed: 5, sites: 1, replicas: 1, slowest: 20, is_logged: true };
const SOON: Duration = Duration::from_secs(60);

#[test]
fn a_released_address_goes_to_the_waiting_claim_that_reserves_it() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
        site.create_claim("web-0", "public");
        world.wait_until(SOON, || site.is_bound("web-0")).await;
        let had = site.address_of("web-0");
        let address = had.as_ref().map(|(address, _)| address.to_string());
        let reservations = json!([{"claim": "web-1", "address": address}]);
        site.change(Kind::Pool, "public", &json!({"spec": {"reservations": reservations}}));
        world.advance(Duration::from_secs(5)).await;
        site.create_claim("web-1", "public");
        world.advance(Duration::from_secs(40)).await;
        world.expect(2, "web-1", "refused while web-0 has the address", !site.is_bound("web-1"));
        site.delete(Kind::Claim, "web-0");
        world.wait_until(SOON, || site.is_bound("web-1")).await;
        world.expect(7, "web-1", "given the floating IP that it reserves", site.address_of("web-1") == had);
    });
    outcome.assert_lawful();
}

#[test]
fn an_address_that_is_attached_during_its_grace_period_is_not_deleted() {
    for attached_after in [20, 60, 100, 115, 118, 119] {
        let outcome = simulate(&START, async |world: &World| {
            let site = &world.sites[0];
            let network = json!({"filter": {"name": "public"}});
            site.create_pool("public", &json!({"floatingIPNetwork": network, "reuseGracePeriodSeconds": 120}));
            site.create_claim("web-0", "public");
            world.wait_until(SOON, || site.is_bound("web-0")).await;
            let (_, id) = site.address_of("web-0").unwrap();
            site.delete(Kind::Claim, "web-0");
            world.advance(Duration::from_secs(attached_after)).await;
            world.tamper(|world| world.cloud.set_port(&id, Some("port-of-a-user")));
            world.advance(Duration::from_secs(300)).await;
            let is_there = world.cloud.floating_ips().iter().any(|fip| fip.id == id);
            world.expect(2, "the attached floating IP", "kept", is_there);
        });
        outcome.assert_lawful();
    }
}

#[test]
fn a_claim_deleted_before_the_watch_delivers_its_ip_address_leaves_none_behind() {
    for seed in 0..20 {
        let start = Start { seed, slowest: 3_000, is_logged: false, ..START };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
            site.create_claim("web-0", "public");
            let is_published = || !site.server.all(Kind::Address).is_empty();
            world.wait_until(SOON, is_published).await;
            site.delete(Kind::Claim, "web-0");
            let is_gone = world.wait_until(SOON, || site.server.all(Kind::Claim).is_empty()).await;
            world.expect(9, "web-0", "gone", is_gone);
            world.expect(9, "its IPAddress", "gone with it", !is_published());
            site.delete(Kind::Pool, "public");
            let is_gone = world.wait_until(SOON, || site.server.all(Kind::Pool).is_empty()).await;
            world.expect(9, "public", "gone", is_gone);
            world.skips_rest.set(true);
        });
        outcome.assert_lawful();
    }
}

/// A user ends a claim whose mark could not be written: with the annotation, or by removing the finalizer.
#[test]
fn the_address_that_a_claim_held_is_given_to_another_when_the_claim_is_abandoned_or_removed_by_force() {
    let cases =
        [(Fault::RequestLost, false), (Fault::RequestLost, true), (Fault::ReplyLost, false), (Fault::ReplyLost, true)];
    for (fault, is_forced) in cases {
        let outcome = simulate(&START, async |world: &World| {
            let site = &world.sites[0];
            world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(0)));
            site.create_pool("public", &json!({"preAllocatedFloatingIPs": [address(0).to_string()]}));
            world.wait_until(SOON, || site.has_condition("public")).await;
            world.advance(Duration::from_secs(5)).await;
            site.replicas[0].add_outage(Side::OpenStack, fault, 8, Duration::from_secs(60));
            site.create_claim("web-0", "public");
            world.advance(Duration::from_secs(30)).await;
            world.expect(7, "web-0", "without an address", !site.is_bound("web-0"));
            let change = match is_forced {
                true => json!({"metadata": {"finalizers": []}}),
                false => json!({"metadata": {"annotations": {ABANDON_ANNOTATION: "true"}}}),
            };
            site.change(Kind::Claim, "web-0", &change);
            site.delete(Kind::Claim, "web-0");
            let is_gone = world.wait_until(SOON, || site.server.all(Kind::Claim).is_empty()).await;
            world.expect(9, "web-0", "gone", is_gone);
            world.advance(Duration::from_secs(200)).await;
            site.create_claim("web-1", "public");
            world.wait_until(SOON, || site.is_bound("web-1")).await;
            let given = site.address_of("web-1").map(|(address, _)| address);
            world.expect(7, "web-1", "given the address", given == Some(address(0)));
        });
        outcome.assert_lawful();
    }
}

/// As a backup is restored with its owner references, which name nothing: the garbage collector deletes the IPAddress before
/// the claim is back.
#[test]
fn a_claim_that_is_restored_after_its_ip_address_has_its_address_again() {
    for is_attached in [false, true] {
        let outcome = simulate(&START, async |world: &World| {
            let site = &world.sites[0];
            let network = json!({"filter": {"name": "public"}});
            site.create_pool("public", &json!({"floatingIPNetwork": network, "orphans": {"graceSeconds": 3600}}));
            site.create_claim("web-0", "public");
            world.wait_until(SOON, || site.is_bound("web-0")).await;
            let Some(had) = site.address_of("web-0") else { return };
            if is_attached {
                world.tamper(|world| world.cloud.set_port(&had.1, Some("port-of-web-0")));
            }
            world.users_interfered.set(true);
            let Some(backup) = site.server.get(&key(Kind::Address, "web-0")) else { return };
            for kind in [Kind::Claim, Kind::Address] {
                site.delete_by_force(kind, "web-0");
                world.advance(Duration::from_secs(5)).await;
            }
            let mut restored = json!({"spec": backup["spec"]});
            restored["metadata"] = json!({"name": "web-0", "namespace": NAMESPACE});
            for field in ["annotations", "finalizers", "labels", "ownerReferences"] {
                restored["metadata"][field] = backup["metadata"][field].clone();
            }
            for owner in restored["metadata"]["ownerReferences"].as_array_mut().into_iter().flatten() {
                owner["uid"] = "of-the-lost-cluster".into();
            }
            let _ = site.server.create(Kind::Address, restored);
            world.advance(Duration::from_secs(15)).await;
            world.expect(5, "the IPAddress", "deleted", site.server.get(&key(Kind::Address, "web-0")).is_none());
            site.create_claim("web-0", "public");
            let is_bound = world.wait_until(SOON, || site.is_bound("web-0")).await;
            world.expect(7, "web-0", "bound", is_bound);
            world.expect(5, "web-0", "given its address again", site.address_of("web-0") == Some(had));
        });
        outcome.assert_lawful();
    }
}

/// As `kubectl delete --cascade=foreground` does: the garbage collector removes the references to the pool.
#[test]
fn a_pool_that_is_deleted_in_the_foreground_waits_for_its_claims_quietly() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
        let claims = ["web-0", "web-1", "web-2"];
        claims.iter().for_each(|claim| site.create_claim(claim, "public"));
        world.wait_until(SOON, || claims.iter().all(|claim| site.is_bound(claim))).await;
        let foreground = Deletion::with(Propagation::Foreground);
        world.advance(SOON).await;
        let before = site.server.version();
        let _ = site.server.delete(&key(Kind::Pool, "public"), &foreground);
        world.advance(SOON).await;
        // The deletion, a reference of each address, the finalizer, the pool's status and its event.
        world.expect(8, "a pool that waits", "quiet", site.server.version() - before < 10);
        claims.iter().for_each(|claim| site.delete(Kind::Claim, claim));
        let is_gone = world.wait_until(2 * SOON, || site.server.all(Kind::Pool).is_empty()).await;
        world.expect(9, "public", "gone", is_gone);
    });
    outcome.assert_lawful();
}

/// Its own owners are kept in memory by their UIDs alone.
#[test]
fn a_repaired_ip_address_keeps_all_owners() {
    for is_deleted in [false, true] {
        simulate_bound(&START, async |world, site| {
            let read = |kind, name| site.server.get(&key(kind, name)).expect("it exists");
            let uid = |kind, name| read(kind, name)["metadata"]["uid"].clone();
            let mut owners = read(Kind::Address, "web-0")["metadata"]["ownerReferences"].clone();
            let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c"});
            owners.as_array_mut().expect("a list").push(cluster);
            owners[2]["uid"] = uid(Kind::Cluster, "c");
            site.change(Kind::Address, "web-0", &json!({"metadata": {"ownerReferences": owners}}));
            world.advance(SOON).await;
            if is_deleted {
                site.delete(Kind::Pool, "public");
                world.advance(SOON).await;
            }
            let without_id = json!({"metadata": {"annotations": {FLOATING_IP_ID_ANNOTATION: null}}});
            site.change(Kind::Address, "web-0", &without_id);
            let has_id =
                || read(Kind::Address, "web-0")["metadata"]["annotations"].get(FLOATING_IP_ID_ANNOTATION).is_some();
            world.expect(5, "the IPAddress", "changed", !has_id());
            let is_repaired = world.wait_until(SOON, has_id).await;
            world.expect(5, "the IPAddress", "repaired", is_repaired);
            let repaired = read(Kind::Address, "web-0");
            world.expect(5, "its owners", "as before", repaired["metadata"]["ownerReferences"] == owners);
            world.skips_rest.set(true);
        });
    }
}

#[test]
fn a_cloud_that_drops_descriptions_gets_no_unmarked_floating_ips() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        world.cloud.alter(Alteration::DropsWhenCreated);
        site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
        site.create_claim("web-0", "public");
        world.advance(2 * SOON).await;
        world.expect(4, "Neutron", "as it was before", world.cloud.floating_ips().is_empty());
        let message = site.server.get(&key(Kind::Claim, "web-0")).map(|claim| claim["status"].to_string());
        let says_so = message.is_some_and(|message| message.contains("did not store the description"));
        world.expect(7, "web-0", "told why", says_so);
        world.cloud.alter(Alteration::None);
        let is_bound = world.wait_until(10 * SOON, || site.is_bound("web-0")).await;
        world.expect(7, "web-0", "bound", is_bound);
    });
    outcome.assert_lawful();
}

#[test]
fn an_unmarked_floating_ip_is_read_before_it_is_deleted_again() {
    for is_attached in [false, true] {
        let outcome = simulate(&START, async |world: &World| {
            let site = &world.sites[0];
            world.cloud.alter(Alteration::DropsWhenCreated);
            site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
            site.create_claim("web-0", "public");
            while world.cloud.floating_ips().is_empty() {
                world.advance(Duration::from_millis(1)).await;
            }
            // The DELETE does not arrive.
            site.replicas[0].wire().unwrap().plan_write(Fault::RequestLost);
            if is_attached {
                world.advance(Duration::from_secs(1)).await;
                world.tamper(|world| {
                    world.cloud.floating_ips().iter().all(|fip| world.cloud.set_port(&fip.id, Some("port-of-a-user")))
                });
            }
            world.advance(2 * SOON).await;
            world.expect(2, "Neutron", "as the user left it", world.cloud.floating_ips().is_empty() != is_attached);
            world.cloud.alter(Alteration::None);
        });
        outcome.assert_lawful();
    }
}

#[test]
fn no_claim_takes_an_unmarked_floating_ip_that_is_being_deleted() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(0)));
        let all: Vec<String> = (0..ADDRESSES).map(|index| address(index).to_string()).collect();
        site.create_pool("listed", &json!({"preAllocatedFloatingIPs": all}));
        site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
        let claims = ["old-0", "db-0", "db-1"];
        claims.iter().for_each(|claim| site.create_claim(claim, "listed"));
        world.advance(SOON).await;
        let is_bound = || claims.iter().filter(|claim| site.is_bound(claim)).count() == 1;
        world.expect(7, "the one address", "bound", is_bound());
        world.cloud.alter(Alteration::DropsWhenCreated);
        site.create_claim("web-0", "public");
        while world.cloud.floating_ips().len() == 1 {
            world.advance(Duration::from_millis(1)).await;
        }
        // The DELETE does not arrive.
        site.replicas[0].wire().unwrap().plan_write(Fault::RequestLost);
        world.advance(Duration::from_millis(200)).await;
        // The sweep lists the project, and finds the new one.
        claims.iter().filter(|claim| site.is_bound(claim)).for_each(|claim| site.delete(Kind::Claim, claim));
        let is_one_served = world.wait_until(Duration::from_secs(4), is_bound).await;
        world.advance(2 * SOON).await;
        world.expect(2, "the one address", "given once more", is_one_served && is_bound());
        world.expect(4, "Neutron", "without the new one", world.cloud.floating_ips().len() == 1);
        world.cloud.alter(Alteration::None);
    });
    outcome.assert_lawful();
}

#[test]
fn a_pool_is_gone_soon_although_a_delete_is_lost() {
    for fault in [Fault::RequestLost, Fault::ReplyLost] {
        let outcome = simulate(&START, async |world: &World| {
            let site = &world.sites[0];
            let network = json!({"filter": {"name": "public"}});
            site.create_pool("public", &json!({"floatingIPNetwork": network, "minFree": 1}));
            world.wait_until(SOON, || !world.cloud.floating_ips().is_empty()).await;
            world.advance(SOON).await;
            site.replicas[0].wire().unwrap().plan_write(fault);
            site.delete(Kind::Pool, "public");
            // Half of it is the time in which the answer may come.
            let is_gone = world.wait_until(SOON, || site.server.get(&key(Kind::Pool, "public")).is_none()).await;
            world.expect(9, "the pool", "gone", is_gone);
            world.expect(4, "Neutron", "as it was before", world.cloud.floating_ips().is_empty());
        });
        outcome.assert_lawful();
    }
}

#[test]
fn a_conflict_is_not_repeated_at_once_while_the_watch_is_late() {
    for moment in (0..100).step_by(10) {
        let outcome = simulate(&START, async |world: &World| {
            let site = &world.sites[0];
            site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
            world.advance(Duration::from_secs(5)).await;
            // The garbage collector removes its finalizer, and the watch does not show it.
            let deletion = Deletion { propagation: Some(Propagation::Foreground), ..Deletion::default() };
            let _ = site.server.delete(&key(Kind::Pool, "public"), &deletion);
            world.advance(Duration::from_millis(moment)).await;
            let wire = site.replicas[0].wire().unwrap();
            wire.stall_watches(Duration::from_secs(50));
            let before = wire.calls();
            world.expect_gone(Kind::Pool).await;
            let calls = wire.calls() - before;
            world.expect(8, "the pool", &format!("deleted with few calls, but with {calls}"), calls < 600);
        });
        outcome.assert_lawful();
    }
}

/// The controller is frozen while all is lost, and restored with the owner references of before: the watch still shows the
/// pool that they name.
#[test]
fn a_claim_that_is_restored_after_its_pool_has_its_address_again_although_the_watch_was_late() {
    let start = Start { slowest: 120, ..START };
    let outcome = simulate(&start, async |world: &World| {
        let site = &world.sites[0];
        site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
        for claim in ["web-0", "web-1"] {
            site.create_claim(claim, "public");
        }
        world.wait_until(SOON, || site.is_bound("web-0") && site.is_bound("web-1")).await;
        world.advance(SOON).await;
        let had = ["web-0", "web-1"].map(|claim| site.address_of(claim));
        site.replicas[0].wire().expect("it runs").freeze(Duration::from_secs(17));
        world
            .restore(site, Restoration { order: 4, gap: 9, owners: Owners::Kept, has_status: false, is_stopped: false })
            .await;
        let have_again = || ["web-0", "web-1"].map(|claim| site.address_of(claim)) == had;
        let are_bound = || site.is_bound("web-0") && site.is_bound("web-1");
        let is_right = world.wait_until(2 * SOON, || have_again() && are_bound()).await;
        world.expect(5, "the claims", "bound to what they had", is_right);
    });
    outcome.assert_lawful();
}
