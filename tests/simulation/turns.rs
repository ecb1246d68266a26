//! Deletions and releases that wait for their turn: when it comes, they may no longer be wanted.

use std::time::Duration;

use serde_json::json;

use crate::api::Kind;
use crate::simulate;
use crate::users::{key, pause};
use crate::wire::{Rejection, Wire};
use crate::world::{NAMESPACE, Start, World};

const START: Start = Start { seed: 5, sites: 1, replicas: 1, slowest: 20, is_logged: true };
const SOON: Duration = Duration::from_secs(60);

/// Creates a pool with 200 spares. From then on calls wait that long for their turn.
async fn create_large_pool_with_turns_after(world: &World, delay: Duration) -> Wire {
    world.create_large_pool().await;
    let wire = world.sites[0].replicas[0].wire().expect("it runs");
    wire.delay_turns(10 * SOON, delay);
    wire
}

#[test]
fn a_large_sweep_lists_the_project_again_instead_of_reading_each_floating_ip() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        let wire = create_large_pool_with_turns_after(world, Duration::from_secs(2)).await;
        site.change(Kind::Pool, "public", &json!({"spec": {"minFree": 0}}));
        let is_done = world.wait_until(2 * SOON, || world.cloud.floating_ips().is_empty()).await;
        world.expect(8, "public", "its spares are deleted", is_done);
        let peaks = world.witness.rates().peaks();
        let peak = |kind: &str| peaks.get(kind).copied().unwrap_or_default();
        let (reads, listings) = (peak("read floating IP"), peak("list floating IPs"));
        let how = format!("with few reads, not {reads} and {listings} listings a minute");
        world.expect(8, "public", &how, reads < 10 && listings < 30);
        wire.clear_faults();
    });
    outcome.assert_lawful();
}

/// Either all floating IPs are outdated when their turn comes, or those that were not sent at once: then one sweep is not
/// enough.
#[test]
fn a_large_sweep_goes_on_however_late_its_turns_are() {
    for delay in [4500, 6000].map(Duration::from_millis) {
        let outcome = simulate(&START, async |world: &World| {
            let site = &world.sites[0];
            let wire = create_large_pool_with_turns_after(world, delay).await;
            site.change(Kind::Pool, "public", &json!({"spec": {"minFree": 0}}));
            let is_done = world.wait_until(3 * SOON, || world.cloud.floating_ips().is_empty()).await;
            world.expect(8, "public", &format!("its spares are deleted with turns after {delay:?}"), is_done);
            wire.clear_faults();
        });
        outcome.assert_lawful();
    }
}

/// Spares that are no longer wanted are being deleted when the user sets `Retain`.
#[test]
fn a_large_sweep_ends_soon_after_its_pool_is_to_retain() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        let wire = create_large_pool_with_turns_after(world, Duration::from_secs(5)).await;
        site.change(Kind::Pool, "public", &json!({"spec": {"minFree": 0}}));
        let count = || world.cloud.floating_ips().len();
        let has_begun = world.wait_until(SOON, || count() < 200).await;
        world.expect(8, "public", "its spares are being deleted", has_begun);
        site.change(Kind::Pool, "public", &json!({"spec": {"reclaimPolicy": "Retain"}}));
        // As long as the watch may take. Other deletions wait for their turn.
        world.advance(Duration::from_secs(2)).await;
        let left = count();
        world.advance(SOON).await;
        world.expect(3, "public", &format!("retained, with {left} and not {}", count()), left > 100 && count() == left);
        wire.clear_faults();
    });
    outcome.assert_lawful();
}

/// Everything was lost, and a Cluster is paused so that the claims can be restored.
#[test]
fn orphans_whose_release_waits_for_its_turn_stay_once_a_cluster_is_paused() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        world.create_large_pool().await;
        site.change(Kind::Pool, "public", &json!({"spec": {"reuseGracePeriodSeconds": 600}}));
        let claims: Vec<_> = (0..80).map(|number| format!("web-{number}")).collect();
        claims.iter().for_each(|claim| site.create_claim(claim, "public"));
        let are_bound = world.wait_until(5 * SOON, || claims.iter().all(|claim| site.is_bound(claim))).await;
        world.expect(7, "the claims", "bound", are_bound);
        world.users_interfered.set(true);
        for kind in [Kind::Claim, Kind::Address] {
            claims.iter().for_each(|claim| site.delete_by_force(kind, claim));
        }
        let wire = site.replicas[0].wire().expect("it runs");
        wire.delay_turns(10 * SOON, Duration::from_secs(5));
        let count = || {
            let fips = world.cloud.floating_ips();
            fips.iter().filter(|fip| fip.tags.iter().any(|tag| tag.starts_with("caip-out."))).count()
        };
        let has_begun = world.wait_until(5 * SOON, || count() > 0).await;
        world.expect(4, "the orphans", "being released", has_begun);
        site.change(Kind::Cluster, "c", &json!({"spec": {"paused": true}}));
        // As long as the watch may take.
        world.advance(Duration::from_secs(2)).await;
        let left = count();
        world.advance(2 * SOON).await;
        world.expect(5, "the orphans", &format!("left alone after {left} of 80"), left < 80 && count() == left);
        wire.clear_faults();
        site.change(Kind::Cluster, "c", &json!({"spec": {"paused": false}}));
        // Grace periods end later.
        world.skips_rest.set(true);
    });
    outcome.assert_lawful();
}

/// Its claim is restored while the deletions wait for their turn.
#[test]
fn a_floating_ip_that_a_restored_claim_has_again_is_not_deleted_with_its_pool() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        let network = json!({"filter": {"name": "public"}});
        site.create_pool(
            "public",
            &json!({"floatingIPNetwork": network, "reuseGracePeriodSeconds": 600, "minFree": 8}),
        );
        site.create_claim("web-0", "public");
        world.advance(SOON).await;
        let (had, backup) = (site.address_of("web-0"), site.server.get(&key(Kind::Address, "web-0")));
        let (had, backup) = (had.expect("it is bound"), backup.expect("it has an IPAddress"));
        site.delete(Kind::Claim, "web-0");
        world.expect_gone(Kind::Address).await;
        world.users_interfered.set(true);

        let wire = site.replicas[0].wire().expect("it runs");
        wire.delay_turns(10 * SOON, Duration::from_secs(4));
        site.delete(Kind::Pool, "public");
        world.advance(Duration::from_secs(2)).await;
        world.expect(9, "public", "the deletions wait", world.cloud.floating_ips().len() == 9);
        let metadata =
            json!({"name": "web-0", "namespace": NAMESPACE, "annotations": backup["metadata"]["annotations"].clone()});
        let _ = site.server.create(Kind::Address, json!({"metadata": metadata, "spec": backup["spec"]}));
        site.create_claim("web-0", "public");
        let is_bound = world.wait_until(2 * SOON, || site.is_bound("web-0")).await;
        world.expect(7, "web-0", "bound", is_bound);
        world.expect(5, "web-0", "given its address again", site.address_of("web-0") == Some(had.clone()));
        wire.clear_faults();
        world.advance(SOON).await;
        world.expect(5, "web-0", "kept it", world.cloud.floating_ips().iter().any(|fip| fip.id == had.1));
    });
    outcome.assert_lawful();
}

/// Law 8. OpenStack has done all that was asked.
#[test]
fn a_clean_up_that_a_pause_interrupts_blames_nobody() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}, "minFree": 8}));
        world.advance(SOON).await;
        let wire = site.replicas[0].wire().expect("it runs");
        wire.delay_turns(10 * SOON, Duration::from_secs(2));
        site.delete(Kind::Pool, "public");
        world.advance(Duration::from_millis(1500)).await;
        site.change(Kind::Pool, "public", &pause(json!("")));
        world.advance(SOON).await;
        let left = world.cloud.floating_ips().len();
        world.expect(9, "public", "left alone", left > 0);
        let pool = site.server.get(&key(Kind::Pool, "public")).unwrap_or_default().to_string();
        world.expect(8, "public", "not said to be kept by OpenStack", !pool.contains("ask its operator"));
        wire.clear_faults();
        site.change(Kind::Pool, "public", &pause(json!(null)));
        world.expect_gone(Kind::Pool).await;
        world.skips_rest.set(true);
    });
    outcome.assert_lawful();
}

#[test]
fn a_large_clean_up_ends_soon_after_its_pool_is_paused() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        let wire = create_large_pool_with_turns_after(world, Duration::from_secs(5)).await;
        let count = || world.cloud.floating_ips().len();
        site.delete(Kind::Pool, "public");
        world.advance(Duration::from_secs(10)).await;
        site.change(Kind::Pool, "public", &pause(json!("")));
        world.advance(Duration::from_secs(2)).await;
        let left = count();
        world.advance(SOON).await;
        world.expect(9, "public", &format!("left alone with {left}"), left > 100 && count() == left);
        wire.clear_faults();
        site.change(Kind::Pool, "public", &pause(json!(null)));
        let is_gone = world.wait_until(5 * SOON, || count() == 0).await;
        world.expect(9, "public", "gone", is_gone);
    });
    outcome.assert_lawful();
}

/// What a pool with many spares is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Work {
    /// A sweep deletes spares.
    Sweep,
    /// The clean-up of a deleted pool deletes them.
    CleanUp,
    /// It only removes the marks, since the floating IPs are attached.
    CleanUpOfAttached,
}

/// The API server is gone, or has come back with other data: claims that are not known may have what is to be deleted.
#[test]
fn nothing_more_is_deleted_or_unmarked_while_a_watch_is_interrupted() {
    for work in [Work::Sweep, Work::CleanUp, Work::CleanUpOfAttached] {
        let outcome = simulate(&START, async |world: &World| {
            let site = &world.sites[0];
            let wire = create_large_pool_with_turns_after(world, Duration::from_secs(5)).await;
            if work == Work::CleanUpOfAttached {
                world.users_interfered.set(true);
                for fip in world.cloud.floating_ips() {
                    world.tamper(|world| world.cloud.set_port(&fip.id, Some("a-port")));
                }
            }
            let count = || world.cloud.floating_ips().iter().filter(|fip| !fip.description.is_empty()).count();
            match work {
                Work::Sweep => site.change(Kind::Pool, "public", &json!({"spec": {"minFree": 0}})),
                Work::CleanUp | Work::CleanUpOfAttached => site.delete(Kind::Pool, "public"),
            }
            let has_begun = world.wait_until(SOON, || count() < 200).await;
            world.expect(8, "public", "its spares lose their marks", has_begun);
            wire.refuse("ipaddressclaims", Rejection::Unreachable, SOON);
            site.server.expire_watches();
            // Until the watch has failed.
            world.advance(Duration::from_secs(1)).await;
            let left = count();
            world.advance(SOON / 2).await;
            let how = format!("{work:?}: left alone with {left} and not {}", count());
            world.expect(9, "public", &how, left > 100 && count() == left);
            wire.clear_faults();
            let is_done = world.wait_until(5 * SOON, || count() == 0).await;
            world.expect(8, "public", &format!("{work:?} goes on"), is_done);
        });
        outcome.assert_lawful();
    }
}

/// A pool whose claims were lost is being deleted. A user pauses a Cluster, to restore the claims.
#[test]
fn attached_floating_ips_keep_their_claims_marks_once_a_cluster_is_paused() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
        let claims: Vec<_> = (0..8).map(|number| format!("web-{number}")).collect();
        claims.iter().for_each(|claim| site.create_claim(claim, "public"));
        let are_bound = world.wait_until(SOON, || claims.iter().all(|claim| site.is_bound(claim))).await;
        world.expect(7, "the claims", "bound", are_bound);
        world.users_interfered.set(true);
        for (_, id) in claims.iter().filter_map(|claim| site.address_of(claim)) {
            world.tamper(|world| world.cloud.set_port(&id, Some("a-port")));
        }
        for kind in [Kind::Claim, Kind::Address] {
            claims.iter().for_each(|claim| site.delete_by_force(kind, claim));
        }
        let wire = site.replicas[0].wire().expect("it runs");
        wire.delay_turns(10 * SOON, Duration::from_secs(5));
        site.delete(Kind::Pool, "public");
        world.advance(Duration::from_secs(3)).await;
        site.change(Kind::Cluster, "c", &json!({"spec": {"paused": true}}));
        world.advance(SOON).await;
        let marked = world.cloud.floating_ips().iter().filter(|fip| fip.description.contains(" claim=")).count();
        world.expect(5, "the claims", &format!("marked on all of their floating IPs, not on {marked}"), marked == 8);
        let pool = site.server.get(&key(Kind::Pool, "public")).unwrap_or_default().to_string();
        world.expect(9, "public", "said to wait", pool.contains("while a Cluster of the namespace is paused"));
        wire.clear_faults();
        site.change(Kind::Cluster, "c", &json!({"spec": {"paused": false}}));
        let is_gone = world.wait_until(2 * SOON, || site.server.get(&key(Kind::Pool, "public")).is_none()).await;
        world.expect(9, "public", "gone", is_gone);
    });
    outcome.assert_lawful();
}
