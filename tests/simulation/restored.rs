//! The API server's data are restored from a backup of etcd while the controllers run: objects and versions are older than
//! what they saw. With a bump of the revision, watches from before are refused; without, they are silent.

use std::time::Duration;

use serde_json::json;

use crate::api::{Backup, Kind};
use crate::laws::text;
use crate::users::key;
use crate::wire::{Fault, Rejection, Side};
use crate::world::{Site, Start, World, address};
use crate::{is_due, simulate};

/// `etcdutl snapshot restore --bump-revision`; 0 is a restore without it.
const BUMPS: [u64; 2] = [0, 1_000_000_000];
/// Within this time after a restore, new claims are served.
const SERVED_WITHIN: Duration = Duration::from_secs(60);
/// Shorter, and longer, than a leader keeps its Lease without the API server.
const OUTAGES: [Duration; 2] = [Duration::from_secs(4), Duration::from_secs(14)];

/// The API server is unreachable, and comes back with the backup.
async fn restore(world: &World, backup: Backup, bump: u64, outage: Duration) {
    let site = &world.sites[0];
    let unreachable = Fault::Refused(Rejection::Unreachable);
    site.replicas.iter().for_each(|replica| replica.add_outage(Side::Kubernetes, unreachable, 8, outage));
    site.server.cut_watches();
    world.advance(outage / 2).await;
    site.server.restore(backup, bump);
    world.advance(outage / 2).await;
}

/// `public` has a list and a network; `small` has one address, and so `next` waits until `old` is gone.
async fn create_fixtures(world: &World) {
    for index in [0, 1] {
        world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(index)));
    }
    let site = &world.sites[0];
    let network = json!({"filter": {"name": "public"}});
    let list = [address(0).to_string()];
    site.create_pool("public", &json!({"preAllocatedFloatingIPs": list, "floatingIPNetwork": network}));
    site.create_pool("small", &json!({"preAllocatedFloatingIPs": [address(1).to_string()]}));
    for (claim, pool) in [("kept", "public"), ("released", "public"), ("old", "small")] {
        site.create_claim(claim, pool);
        await_bound(world, claim).await;
    }
    site.create_claim("next", "small");
    world.advance(Duration::from_secs(10)).await;
}

async fn await_bound(world: &World, claim: &str) {
    let is_bound = world.wait_until(SERVED_WITHIN, || world.sites[0].is_bound(claim)).await;
    world.expect(7, claim, "bound in time", is_bound);
}

/// What the backup does not have: `old` and `released` are gone, `next` has the address of `old`, `lost` has one.
async fn change_everything(world: &World) {
    let site = &world.sites[0];
    site.delete(Kind::Claim, "old");
    site.delete(Kind::Claim, "released");
    await_bound(world, "next").await;
    world.users_interfered.set(true);
    if let Some((_, fip)) = site.address_of("next") {
        world.tamper(|world| world.cloud.set_port(&fip, Some("port-of-next")));
    }
    site.create_claim("lost", "public");
    await_bound(world, "lost").await;
    world.advance(Duration::from_secs(20)).await;
}

fn says(site: &Site, claim: &str, message: &str) -> bool {
    let claim = site.server.get(&key(Kind::Claim, claim));
    claim.is_some_and(|claim| text(&claim, "/status/conditions/0/message").contains(message))
}

async fn await_message(world: &World, claim: &str, message: &str) {
    let is_told = world.wait_until(SERVED_WITHIN, || says(&world.sites[0], claim, message)).await;
    world.expect(5, claim, &format!("told: {message}"), is_told);
}

#[test]
fn claims_are_served_after_a_restore_and_the_marks_decide() {
    for (replicas, bump, outage) in
        [1, 2].into_iter().flat_map(|it| BUMPS.map(|bump| (it, bump))).flat_map(|(a, b)| OUTAGES.map(|it| (a, b, it)))
    {
        let start = Start { seed: 23, sites: 1, replicas, slowest: 20, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            create_fixtures(world).await;
            let site = &world.sites[0];
            let (backup, had) = (site.server.back_up(), site.address_of("kept"));
            change_everything(world).await;
            let lost = site.address_of("lost");
            restore(world, backup, bump, outage).await;

            site.create_claim("new", "public");
            await_bound(world, "new").await;
            world.expect(
                1,
                "new",
                "given a free address",
                site.address_of("new").map(|it| it.0) != lost.map(|it| it.0),
            );
            await_message(world, "old", "is marked for another claim").await;
            await_message(world, "released", "no longer exists in the project").await;
            world.expect(5, "kept", "with its address", site.address_of("kept") == had);

            // As the condition says. The claim that the mark names has the address again.
            site.delete(Kind::Address, "old");
            site.delete(Kind::Claim, "released");
            await_bound(world, "next").await;
            world.expect(5, "next", "with its address", site.address_of("next").map(|it| it.0) == Some(address(1)));
        });
        outcome.assert_lawful();
    }
}

/// The backup is restored right after a write, before the watch has delivered it.
#[test]
fn a_claim_whose_last_write_is_undone_is_served_again() {
    let moments = BUMPS.into_iter().flat_map(|bump| (0..40).map(move |step| (bump, step)));
    for (bump, step) in moments.filter(|(_, step)| is_due(*step, 4)) {
        let step = step as u64;
        let start = Start { seed: step, sites: 1, replicas: 1, slowest: 60, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}, "maxIPs": 2}));
            site.create_claim("web-0", "public");
            await_bound(world, "web-0").await;
            world.advance(Duration::from_secs(20)).await;
            site.create_claim("web-1", "public");
            let (backup, had) = (site.server.back_up(), site.address_of("web-0"));
            site.delete(Kind::Claim, "web-0");
            world.advance(Duration::from_millis(15 * step)).await;
            restore(world, backup, bump, OUTAGES[0]).await;
            await_bound(world, "web-1").await;
            world.advance(SERVED_WITHIN).await;
            // It was not deleted after all.
            world.expect(5, "web-0", "there, with its address", site.address_of("web-0") == had);
            site.delete(Kind::Claim, "web-0");
            let is_gone = || site.server.get(&key(Kind::Claim, "web-0")).is_none();
            world.expect(9, "web-0", "gone", world.wait_until(SERVED_WITHIN, is_gone).await);
        });
        outcome.assert_lawful();
    }
}
