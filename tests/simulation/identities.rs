//! A pool with the credentials of a cluster identity, which its namespace may use at one time and not at another.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::objects::Part;
use crate::api::{Key, Kind};
use crate::fault::Rejection;
use crate::world::{NAMESPACE, Site, Start, World, address};
use crate::{is_due, simulate};

const START: Start = Start { seed: 31, sites: 1, replicas: 1, slowest: 20, is_logged: true };
const SOON: Duration = Duration::from_secs(60);

/// For the Secret of all histories, and namespaces with a label.
pub fn identity() -> Value {
    json!({
        "metadata": {"name": "shared"},
        "spec": {
            "secretRef": {"name": "cloud", "namespace": NAMESPACE},
            "namespaceSelector": {"matchLabels": {"identities": "shared"}},
        },
    })
}

pub fn allow(site: &Site, is_allowed: bool) {
    let value = if is_allowed { json!("shared") } else { Value::Null };
    let change = json!({"metadata": {"labels": {"identities": value}}});
    site.server.patch(&Key::new(Kind::Namespace, "", NAMESPACE), Part::Main, &change).expect("it is there");
}

fn create_pool(site: &Site) {
    let identity = json!({"type": "ClusterIdentity", "name": "shared", "cloudName": "openstack"});
    site.create_pool("public", &json!({"identityRef": identity, "floatingIPNetwork": {"filter": {"name": "public"}}}));
}

/// `web-0` has an address of a pool whose namespace may use the identity. Returns the address.
async fn bind(world: &World) -> Option<IpAddr> {
    let site = &world.sites[0];
    allow(site, true);
    create_pool(site);
    site.create_claim("web-0", "public");
    world.await_bound("web-0").await
}

#[test]
fn nothing_is_changed_with_an_identity_that_the_namespace_may_not_use() {
    for is_restarted in [false, true] {
        let outcome = simulate(&START, async |world: &World| {
            let site = &world.sites[0];
            let had = bind(world).await;
            allow(site, false);
            if is_restarted {
                site.kill_controller();
            }
            world.advance(SOON).await;
            world.expect(5, "web-0", "bound as before", had == site.address_of("web-0").map(|(address, _)| address));

            let before = world.cloud.floating_ips();
            site.change(Kind::Pool, "public", &json!({"spec": {"minFree": 2}}));
            site.delete(Kind::Claim, "web-0");
            site.create_claim("web-1", "public");
            world.advance(3 * SOON).await;
            world.expect(4, "Neutron", "as it was", world.cloud.floating_ips() == before);
            world.expect(7, "web-1", "told why it waits", site.is_told("web-1", "NamespaceNotAllowed"));
            world.expect(9, "web-0", "told why it waits", site.is_told("web-0", "namespaceSelector"));

            allow(site, true);
            world.await_bound("web-1").await;
            let is_gone = world.wait_until(SOON, || site.address_of("web-0").is_none()).await;
            world.expect(9, "web-0", "gone", is_gone);
        });
        outcome.assert_lawful();
    }
}

#[test]
fn a_deleted_pool_waits_until_its_namespace_may_use_the_identity_again() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        bind(world).await;
        allow(site, false);
        world.advance(SOON).await;
        site.delete(Kind::Claim, "web-0");
        site.delete(Kind::Pool, "public");
        world.advance(3 * SOON).await;
        world.expect(4, "Neutron", "as it was", world.cloud.floating_ips().len() == 1);
        let (reason, message) = site.ready(Kind::Pool, NAMESPACE, "public");
        let is_told = reason == "Deleting" && message.contains("namespaceSelector") && message.contains("abandon");
        world.expect(9, "the pool", "told why it waits", is_told);
        allow(site, true);
        world.expect_gone(Kind::Claim).await;
        world.expect_gone(Kind::Pool).await;
        world.expect(4, "Neutron", "empty", world.cloud.floating_ips().is_empty());
    });
    outcome.assert_lawful();
}

/// Law 10. The cloud asks to wait for longer than a namespace may keep its access.
#[test]
fn access_is_withdrawn_soon_although_the_cloud_asks_to_wait() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        bind(world).await;
        let wire = site.replicas[0].wire().expect("it runs");
        wire.refuse("list floating IPs", Rejection::Later, 3 * SOON);
        let is_failing = || site.ready(Kind::Pool, NAMESPACE, "public").0 == "OpenStackUnreachable";
        let has_failed = world.wait_until(2 * SOON, is_failing).await;
        world.expect(7, "the pool", "told that the cloud refuses", has_failed);
        wire.clear_faults();
        allow(site, false);
        world.advance(Duration::from_secs(30)).await;
        let (reason, _) = site.ready(Kind::Pool, NAMESPACE, "public");
        world.expect(
            10,
            "the pool",
            &format!("refused the identity, and not {reason}"),
            reason == "NamespaceNotAllowed",
        );
        allow(site, true);
    });
    outcome.assert_lawful();
}

#[test]
fn the_laws_hold_whenever_access_is_withdrawn() {
    for at in (0..80).filter(|at| is_due(*at, 4)) {
        let outcome = simulate(&START, async |world: &World| {
            let site = &world.sites[0];
            allow(site, true);
            create_pool(site);
            (0..4).for_each(|number| site.create_claim(&format!("web-{number}"), "public"));
            world.advance(Duration::from_millis(25 * u64::try_from(at).unwrap())).await;
            allow(site, false);
            // Only this wakes the pool at once.
            site.change(Kind::Pool, "public", &json!({"spec": {"maxIPs": 8}}));
            world.advance(Duration::from_millis(100)).await;
            site.delete(Kind::Claim, "web-0");
            site.create_claim("web-4", "public");
            world.advance(Duration::from_millis(900)).await;
            allow(site, true);
            world.await_bound("web-4").await;
        });
        outcome.assert_lawful();
    }
}

/// The pool of the other management cluster has a Secret of its own. Which of two claims has the address is decided by a
/// read after the tag, also for a claim whose pool loses its session in between.
#[test]
fn an_address_that_two_management_clusters_list_is_given_once_whenever_access_is_withdrawn() {
    // An odd share, so that either claim is the first.
    for history in (0..400_u64).filter(|history| is_due(*history as usize, 15)) {
        let start = Start { seed: history, sites: 2, slowest: 200, ..START };
        let outcome = simulate(&start, async |world: &World| {
            world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(0)));
            let listed = json!([address(0).to_string()]);
            let (site, other) = (&world.sites[0], &world.sites[1]);
            allow(site, true);
            let identity = json!({"type": "ClusterIdentity", "name": "shared", "cloudName": "openstack"});
            site.create_pool("public", &json!({"identityRef": identity, "preAllocatedFloatingIPs": listed}));
            other.create_pool("public", &json!({"preAllocatedFloatingIPs": listed}));
            world.advance(SOON).await;

            let (first, second) = if history % 2 == 0 { (site, other) } else { (other, site) };
            first.create_claim("web-0", "public");
            world.advance(Duration::from_millis(history / 2 % 20 * 40)).await;
            second.create_claim("web-0", "public");
            world.advance(Duration::from_millis(history / 40 * 100)).await;
            allow(site, false);
            site.change(Kind::Pool, "public", &json!({"spec": {"maxIPs": 8}}));
            world.advance(3 * SOON).await;
            let bound = world.sites.iter().filter(|site| site.is_bound("web-0")).count();
            world.expect(1, "the address", "given once", bound <= 1);
            allow(site, true);
            world.advance(5 * SOON).await;
            let bound = world.sites.iter().filter(|site| site.is_bound("web-0")).count();
            world.expect(7, "one of the claims", "bound", bound == 1);
            world.judge(false);
        });
        outcome.assert_lawful();
    }
}
