//! A tenant's own Keystone can name any project and any Neutron. What it says changes nothing for others.

use std::time::Duration;

use caip_openstack::api::names::{GROUP, POOL_ID_ANNOTATION, POOL_KIND};
use serde_json::{Value, json};

use crate::api::deletion::Deletion;
use crate::api::objects::Part;
use crate::api::{Key, Kind};
use crate::laws;
use crate::memory::Elsewhere;
use crate::users::{key, pause};
use crate::wire::{Fault, Side};
use crate::world::{ADDRESSES, NAMESPACE, Site, Start, World, address};
use crate::{simulate, simulate_bound};

const START: Start = Start { seed: 11, sites: 1, replicas: 1, slowest: 20, is_logged: true };
const SOON: Duration = Duration::from_secs(60);

/// A pool whose Secret names the tenant's own Keystone.
fn create_pool_of_tenant(world: &World, site: &Site) {
    let data = serde_json::to_value(world.cloud.secret_elsewhere("ours", Elsewhere::Keystone)).unwrap();
    let secret = json!({"metadata": {"name": "tenant", "namespace": NAMESPACE}, "data": data});
    site.server.create(Kind::Secret, secret).expect("it is valid");
    let identity = json!({"name": "tenant", "cloudName": "openstack"});
    let list = json!({"preAllocatedFloatingIPs": ["203.0.113.200"], "identityRef": identity});
    site.create_pool("tenant", &list);
}

#[test]
fn a_project_that_another_keystone_says_is_empty_is_not() {
    simulate_bound(&START, async |world, site| {
        let had = site.address_of("web-0");
        create_pool_of_tenant(world, site);
        world.advance(3 * SOON).await;
        site.delete(Kind::Address, "web-0");
        world.advance(3 * SOON).await;
        world.expect(5, "web-0", "bound to the address that it had", site.address_of("web-0") == had && had.is_some());
        site.delete(Kind::Pool, "tenant");
    });
}

const STRANGERS: &str = "strangers";

/// A pool of another namespace, with a Secret of its own.
fn create_pool_of_strangers(site: &Site, secret: &Value, annotations: &Value, spec: &Value) {
    let metadata = |name: &str| json!({"name": name, "namespace": STRANGERS, "annotations": annotations});
    let mut whole = json!({"identityRef": {"name": "cloud", "cloudName": "openstack"}, "reclaimPolicy": "Delete"});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let pool = json!({"metadata": metadata("copy"), "spec": whole});
    let _ = site.server.create(Kind::Namespace, json!({"metadata": {"name": STRANGERS}}));
    site.server.create(Kind::Secret, json!({"metadata": metadata("cloud"), "data": secret})).expect("it is valid");
    site.server.create(Kind::Pool, pool).expect("it is valid");
}

fn network() -> Value {
    json!({"floatingIPNetwork": {"filter": {"name": "public"}}})
}

/// A pool of strangers elsewhere has the id `guessed`.
async fn let_strangers_guess_the_id(world: &World, site: &Site, place: Elsewhere) {
    let secret = json!(world.cloud.secret_elsewhere("ours", place));
    let spec = json!({"poolID": "guessed", "preAllocatedFloatingIPs": ["203.0.113.200"]});
    create_pool_of_strangers(site, &secret, &json!({}), &spec);
    world.advance(SOON).await;
}

/// A pool with the id `guessed`, which a pool of strangers had first, serves, also after a restart, and can be deleted.
async fn expect_rebuilt_pool_serves(world: &World, site: &Site) {
    let mut spec = network();
    spec["poolID"] = json!("guessed");
    site.create_pool("rebuilt", &spec);
    site.create_claim("web-1", "rebuilt");
    world.advance(SOON).await;
    world.expect(4, "web-1", "bound", site.address_of("web-1").is_some());
    site.kill_controller();
    world.advance(2 * SOON).await;
    world.expect(7, "pool rebuilt", "ready", site.ready(Kind::Pool, "team", "rebuilt").0 == "Ready");
    site.delete(Kind::Claim, "web-1");
    site.delete(Kind::Pool, "rebuilt");
    world.advance(SOON).await;
    let is_left = site.server.get(&Key::new(Kind::Pool, "team", "rebuilt")).is_some();
    world.expect(4, "pool rebuilt", "deleted", !is_left && world.cloud.floating_ips().len() == 1);
}

#[test]
fn a_pool_in_another_project_that_had_the_id_first_stops_nobody() {
    simulate_bound(&START, async |world, site| {
        let_strangers_guess_the_id(world, site, Elsewhere::Project).await;
        expect_rebuilt_pool_serves(world, site).await;
    });
}

/// What its calls may still do is not expected in another namespace.
#[test]
fn a_pool_of_another_namespace_that_had_the_id_a_moment_ago_delays_nobody() {
    simulate_bound(&START, async |world, site| {
        let_strangers_guess_the_id(world, site, Elsewhere::Project).await;
        let copy = Key::new(Kind::Pool, STRANGERS, "copy");
        site.server.delete(&copy, &Deletion::default()).expect("it is there");
        world.expect(9, "copy", "gone", world.wait_until(SOON, || site.server.get(&copy).is_none()).await);
        let mut spec = network();
        (spec["poolID"], spec["maxIPs"]) = (json!("guessed"), json!(1));
        site.create_pool("rebuilt", &spec);
        site.create_claim("web-1", "rebuilt");
        let is_bound = world.wait_until(SOON / 6, || site.is_bound("web-1")).await;
        world.expect(4, "web-1", "bound at once", is_bound);
    });
}

/// Its own Keystone says that it is of the same project.
#[test]
fn a_pool_with_the_id_stops_nobody_unless_it_is_proven_to_be_of_the_project() {
    simulate_bound(&START, async |world, site| {
        let_strangers_guess_the_id(world, site, Elsewhere::Keystone).await;
        expect_rebuilt_pool_serves(world, site).await;
    });
}

/// Keystone has another URL for each of the two pools: nothing but the marks shows that they are of one project.
async fn copy_under_another_url(world: &World, site: &Site, spec: &Value) {
    let pool = site.server.get(&Key::new(Kind::Pool, "team", "public")).unwrap();
    let copied = json!({POOL_ID_ANNOTATION: laws::pool_id(&pool).unwrap().as_str()});
    world.cloud.move_keystone("ours", "https://keystone.memory/v3/");
    create_pool_of_strangers(site, &json!(world.cloud.secret("ours")), &copied, spec);
}

fn create_claim_of_strangers(site: &Site, name: &str) {
    let pool_ref = json!({"apiGroup": GROUP, "kind": POOL_KIND, "name": "copy"});
    let claim = json!({"metadata": {"name": name, "namespace": STRANGERS}, "spec": {"poolRef": pool_ref}});
    site.server.create(Kind::Claim, claim).expect("it is valid");
}

fn address_of_stranger(site: &Site, claim: &str) -> Option<String> {
    let address = site.server.get(&Key::new(Kind::Address, STRANGERS, claim))?;
    Some(laws::text(&address, "/spec/address").to_owned())
}

#[test]
fn a_copy_that_writes_keystones_url_differently_sees_the_marks_and_stops() {
    simulate_bound(&START, async |world, site| {
        let had = world.cloud.floating_ips();
        copy_under_another_url(world, site, &network()).await;
        create_claim_of_strangers(site, "web-9");
        world.advance(5 * SOON).await;
        world.expect(4, "the copy", "stopped", site.ready(Kind::Pool, STRANGERS, "copy").0 == "DuplicatePoolID");
        world.expect(4, "Neutron", "as it was", world.cloud.floating_ips() == had);
        let _ = site.server.delete(&Key::new(Kind::Claim, STRANGERS, "web-9"), &Deletion::default());
        let _ = site.server.delete(&Key::new(Kind::Pool, STRANGERS, "copy"), &Deletion::default());
        world.advance(SOON).await;
        world.expect(4, "Neutron", "as it was", world.cloud.floating_ips() == had);
    });
}

/// A pool and its copy bind a claim each, `web-1` and `web-9`, before either one sees the other's mark. Then the copy stops.
async fn bind_in_both(world: &World, site: &Site) {
    site.delete(Kind::Claim, "web-0");
    site.change(Kind::Pool, "public", &json!({"spec": {"orphans": {"policy": "Release", "graceSeconds": 1}}}));
    world.advance(SOON).await;
    copy_under_another_url(world, site, &network()).await;
    world.advance(SOON).await;
    create_claim_of_strangers(site, "web-9");
    site.create_claim("web-1", "public");
    world.advance(SOON).await;
    let (ours, theirs) = (site.address_of("web-1"), address_of_stranger(site, "web-9"));
    world.expect(4, "web-1 and web-9", "bound", ours.is_some() && theirs.is_some());
    world.advance(5 * SOON).await;
    let reasons = [site.ready(Kind::Pool, "team", "public").0, site.ready(Kind::Pool, STRANGERS, "copy").0];
    world.expect(4, "the copy", "stopped", reasons == ["Ready", "DuplicatePoolID"]);
    world.expect(4, "Neutron", "left with both addresses", world.cloud.floating_ips().len() == 2);
}

/// The older pool serves, and no claim loses its address.
#[test]
fn claims_of_two_pools_with_one_id_keep_their_addresses_until_they_are_deleted() {
    simulate_bound(&START, async |world, site| {
        bind_in_both(world, site).await;
        let ours = site.address_of("web-1");
        site.kill_controller();
        world.advance(SOON).await;
        let _ = site.server.delete(&Key::new(Kind::Claim, STRANGERS, "web-9"), &Deletion::default());
        world.advance(2 * SOON).await;
        let is_left = site.server.get(&Key::new(Kind::Claim, STRANGERS, "web-9")).is_some();
        world.expect(4, "web-9", "released", !is_left && world.cloud.floating_ips().len() == 1);
        world.expect(5, "web-1", "bound as before", site.address_of("web-1") == ours);
    });
}

/// Law 9. A copy plans no sweep that would come back.
#[test]
fn an_ip_address_without_a_claim_of_a_copy_goes_after_the_fence_of_a_new_process() {
    simulate_bound(&START, async |world, site| {
        bind_in_both(world, site).await;
        let ours = site.address_of("web-1");
        site.kill_controller();
        world.users_interfered.set(true);
        let [claim, address] = [Kind::Claim, Kind::Address].map(|kind| Key::new(kind, STRANGERS, "web-9"));
        let _ = site.server.patch(&claim, Part::Main, &json!({"metadata": {"finalizers": null}}));
        let _ = site.server.delete(&claim, &Deletion::default());
        let _ = site.server.delete(&address, &Deletion::default());
        world.advance(SOON).await;
        world.expect(9, "the IPAddress of web-9", "gone", site.server.get(&address).is_none());
        let is_released = world.wait_until(SOON, || world.cloud.floating_ips().len() == 1).await;
        world.expect(4, "the address of web-9", "released", is_released);
        world.expect(5, "web-1", "bound as before", site.address_of("web-1") == ours);
    });
}

/// As after a restore, which creates the pools again in any order.
#[test]
fn of_two_pools_with_one_id_the_one_with_addresses_serves() {
    simulate_bound(&START, async |world, site| {
        let pool = site.server.get(&Key::new(Kind::Pool, "team", "public")).unwrap();
        let copied = json!({POOL_ID_ANNOTATION: laws::pool_id(&pool).unwrap().as_str()});
        site.kill_controller();
        site.delete_by_force(Kind::Pool, "public");
        create_pool_of_strangers(site, &json!(world.cloud.secret("ours")), &copied, &network());
        site.create_pool("public", &network());
        site.change(Kind::Pool, "public", &json!({"metadata": {"annotations": copied}}));
        world.advance(2 * SOON).await;
        let reasons = [site.ready(Kind::Pool, "team", "public").0, site.ready(Kind::Pool, STRANGERS, "copy").0];
        world.expect(4, "the copy", "stopped", reasons == ["Ready", "DuplicatePoolID"]);
    });
}

/// Its owner may write any id on it.
#[test]
fn an_older_pool_takes_nothing_from_one_that_has_only_free_addresses() {
    simulate_bound(&START, async |world, site| {
        site.create_pool("spares", &json!({"floatingIPNetwork": network()["floatingIPNetwork"], "minFree": 2}));
        world.advance(SOON).await;
        site.delete(Kind::Claim, "web-0");
        world.advance(SOON).await;
        let id = || site.server.get(&key(Kind::Pool, "spares")).and_then(|pool| laws::pool_id(&pool)).unwrap();
        let copied = json!({POOL_ID_ANNOTATION: id().as_str()});
        world.users_interfered.set(true);
        site.change(Kind::Pool, "public", &json!({"metadata": {"annotations": copied}}));
        for is_restarted in [false, true] {
            if is_restarted {
                site.kill_controller();
            }
            world.advance(SOON).await;
            let reasons = ["public", "spares"].map(|pool| site.ready(Kind::Pool, NAMESPACE, pool).0);
            world.expect(3, "public", &format!("stopped, but {reasons:?}"), reasons == ["DuplicatePoolID", "Ready"]);
        }
        let had = world.cloud.floating_ips();
        site.delete(Kind::Pool, "public");
        let is_gone = || site.server.get(&key(Kind::Pool, "public")).is_none();
        world.expect(9, "public", "gone", world.wait_until(SOON, is_gone).await);
        world.expect(3, "Neutron", "as it was", world.cloud.floating_ips() == had && had.len() == 2);
    });
}

/// Otherwise it would release the floating IPs of claims that it does not know.
#[test]
fn a_copy_of_a_pool_stops_although_the_credentials_of_the_pool_have_expired() {
    simulate_bound(&START, async |world, site| {
        world.advance(SOON).await;
        let had = world.cloud.floating_ips();
        let pool = site.server.get(&Key::new(Kind::Pool, "team", "public")).unwrap();
        let id = laws::pool_id(&pool).unwrap();
        world.cloud.change_password("ours", "rotated");
        site.kill_controller();
        let (secret, copied) = (json!(world.cloud.secret("ours")), json!({POOL_ID_ANNOTATION: id.as_str()}));
        create_pool_of_strangers(site, &secret, &copied, &network());
        world.advance(5 * SOON).await;
        let (reason, message) = site.ready(Kind::Pool, STRANGERS, "copy");
        world.expect(4, "the copy", "stopped", reason == "DuplicatePoolID" && !message.contains("namespace team"));
        world.expect(4, "Neutron", "as it was", world.cloud.floating_ips() == had);
        let _ = site.server.delete(&Key::new(Kind::Pool, STRANGERS, "copy"), &Deletion::default());
        world.advance(SOON).await;
        world.expect(4, "Neutron", "as it was", world.cloud.floating_ips() == had);
        site.change(Kind::Secret, "cloud", &json!({"data": secret}));
        world.advance(SOON).await;
    });
}

/// What is wrong with a copy besides its id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flaw {
    NoNetwork,
    /// CAPO has a pool with its name.
    Namesake,
    /// The same, and only a listing shows that it is of the pool's project: Keystone has another URL for it.
    NoNetworkUnderAnotherUrl,
}

/// Laws 4 and 11. The copy would delete what rests in the pool, and write its addresses into a ConfigMap of its own.
#[test]
fn a_copy_with_a_problem_of_its_own_touches_nothing_of_the_pool() {
    for flaw in [Flaw::NoNetwork, Flaw::Namesake, Flaw::NoNetworkUnderAnotherUrl] {
        simulate_bound(&START, async |world, site| {
            let grace = json!({"spec": {"reuseGracePeriodSeconds": 3600, "reclaimPolicy": "Retain"}});
            site.change(Kind::Pool, "public", &grace);
            site.create_claim("web-1", "public");
            world.await_bound("web-1").await;
            site.delete(Kind::Claim, "web-0");
            world.advance(SOON).await;
            let pool = site.server.get(&Key::new(Kind::Pool, "team", "public")).unwrap();
            let copied = json!({POOL_ID_ANNOTATION: laws::pool_id(&pool).unwrap().as_str()});
            let network = if flaw == Flaw::Namesake { "public" } else { "missing" };
            let mut spec = json!({"floatingIPNetwork": {"filter": {"name": network}}});
            spec["addressConfigMap"] = json!({"name": "copied-addresses"});
            if flaw == Flaw::Namesake {
                let namesake = json!({"metadata": {"name": "copy", "namespace": STRANGERS}, "spec": {}});
                let _ = site.server.create(Kind::Namespace, json!({"metadata": {"name": STRANGERS}}));
                site.server.create(Kind::InTreePool, namesake).expect("it is valid");
            }
            match flaw {
                Flaw::NoNetworkUnderAnotherUrl => copy_under_another_url(world, site, &spec).await,
                _ => create_pool_of_strangers(site, &json!(world.cloud.secret("ours")), &copied, &spec),
            }
            create_claim_of_strangers(site, "web-9");
            world.advance(SOON).await;
            let (_, message) = site.ready(Kind::Claim, STRANGERS, "web-9");
            let is_told = message.contains("DuplicatePoolID");
            world.expect(7, "web-9", &format!("told why, but {message} ({flaw:?})"), is_told);
            let _ = site.server.delete(&Key::new(Kind::Claim, STRANGERS, "web-9"), &Deletion::default());
            world.advance(5 * SOON).await;
            let left = world.cloud.floating_ips().len();
            world.expect(4, "the floating IPs", &format!("as they were, but {left} ({flaw:?})"), left == 2);
            let reason = site.ready(Kind::Pool, STRANGERS, "copy").0;
            world.expect(4, "the copy", &format!("told so, but {reason} ({flaw:?})"), reason == "DuplicatePoolID");
            let written = site.server.get(&Key::new(Kind::ConfigMap, STRANGERS, "copied-addresses"));
            world.expect(11, "the copy", "without a ConfigMap", written.is_none());
            site.change(Kind::Pool, "public", &json!({"spec": {"reuseGracePeriodSeconds": 0}}));
        });
    }
}

#[test]
fn a_copy_in_another_namespace_stops_while_the_pool_works() {
    simulate_bound(&START, async |world, site| {
        let pool = site.server.get(&Key::new(Kind::Pool, "team", "public")).unwrap();
        let copied = json!({POOL_ID_ANNOTATION: laws::pool_id(&pool).unwrap().as_str()});
        site.delete(Kind::Claim, "web-0");
        world.advance(SOON).await;
        create_pool_of_strangers(site, &json!(world.cloud.secret("ours")), &copied, &network());
        world.advance(SOON).await;
        world.expect(4, "the copy", "stopped", site.ready(Kind::Pool, STRANGERS, "copy").0 == "DuplicatePoolID");
        site.delete(Kind::Pool, "public");
        world.advance(SOON).await;
        world.expect(7, "the copy", "ready", site.ready(Kind::Pool, STRANGERS, "copy").0 == "Ready");
    });
}

/// What is known of the project stays: nothing waits for calls of before, and nothing counts twice.
#[test]
fn a_pool_follows_neutron_to_another_url() {
    for is_being_deleted in [false, true] {
        simulate_bound(&START, async |world, site| {
            site.create_claim("web-1", "public");
            world.await_bound("web-1").await;
            if is_being_deleted {
                site.delete(Kind::Pool, "public");
                world.advance(SOON).await;
            }
            world.cloud.move_neutron();
            site.delete(Kind::Claim, "web-0");
            let is_gone = || site.server.get(&key(Kind::Claim, "web-0")).is_none();
            world.expect(7, "web-0", "released", world.wait_until(SOON, is_gone).await);
            if !is_being_deleted {
                site.create_claim("web-2", "public");
                let is_bound = world.wait_until(Duration::from_secs(20), || site.is_bound("web-2")).await;
                world.expect(7, "web-2", "bound", is_bound);
            }
            world.cloud.move_neutron();
            site.delete(Kind::Claim, "web-1");
            site.delete(Kind::Pool, "public");
            site.delete(Kind::Claim, "web-2");
            world.advance(2 * SOON).await;
            let is_left = site.server.get(&key(Kind::Pool, "public")).is_some();
            world.expect(9, "public", "gone", !is_left && world.cloud.floating_ips().is_empty());
        });
    }
}

/// The ledger of the new one may have been listed before the POST.
#[test]
fn a_claim_that_is_served_while_keystone_gets_another_url_is_not_said_to_have_lost_its_address() {
    for seed in (0..40).chain(190..200) {
        let start = Start { seed, slowest: 2_000, is_logged: true, ..START };
        simulate_bound(&start, async |world, site| {
            world.move_keystone(&site.server);
            world.advance(Duration::from_millis(7 * seed)).await;
            site.create_claim("web-1", "public");
            let told = || site.server.get(&key(Kind::Claim, "web-1")).map(|claim| claim["status"].to_string());
            let is_told = || told().is_some_and(|status| status.contains("no longer exists"));
            let is_said_to_be_lost = world.wait_until(SOON / 4, is_told).await;
            world.expect(5, "web-1", "left with its address", !is_said_to_be_lost);
        });
    }
}

/// It gets its turn after the fence of the new session has ended.
#[test]
fn a_call_that_waits_for_its_turn_while_keystone_gets_another_url_is_not_sent() {
    simulate_bound(&START, async |world, site| {
        site.change(Kind::Pool, "public", &json!({"spec": {"maxIPs": 2}}));
        world.advance(SOON).await;
        site.replicas[0].wire().expect("it runs").delay_turns(Duration::from_secs(1), 2 * SOON);
        site.create_claim("web-1", "public");
        world.advance(Duration::from_secs(2)).await;
        world.move_keystone(&site.server);
        site.create_claim("web-2", "public");
        let is_bound = world.wait_until(2 * SOON, || site.is_bound("web-2")).await;
        world.expect(7, "web-2", "bound", is_bound);
        for _ in 0..120 {
            world.advance(Duration::from_secs(1)).await;
            world.expect(6, "public", "within maxIPs", world.cloud.floating_ips().len() <= 2);
        }
    });
}

/// The ledger of the new one does not know of the POST.
#[test]
fn a_call_that_lands_after_keystone_got_another_url_is_found() {
    for deleted_after in [3, 8, 15, 20] {
        simulate_bound(&START, async |world, site| {
            site.change(Kind::Pool, "public", &json!({"spec": {"orphans": {"policy": "Report"}}}));
            world.advance(SOON).await;
            let late = Fault::Late(Duration::from_secs(55));
            site.replicas[0].add_outage(Side::OpenStack, late, 8, Duration::from_secs(3));
            site.create_claim("web-1", "public");
            world.advance(Duration::from_secs(31)).await;
            world.cloud.move_keystone("ours", "https://keystone.memory/v3/");
            let data = serde_json::to_value(world.cloud.secret("ours")).unwrap();
            site.change(Kind::Secret, "cloud", &json!({"data": data}));
            world.advance(Duration::from_secs(deleted_after)).await;
            site.delete(Kind::Claim, "web-1");
            world.advance(2 * SOON).await;
            world.expect(4, "Neutron", "left with the address of web-0", world.cloud.floating_ips().len() == 1);
        });
    }
}

/// Laws 6 and 7. Neutron answers each of their listings with 200 and nothing.
#[test]
fn credentials_that_see_nothing_of_a_project_change_nothing_for_its_other_pools() {
    for seed in 0..4 {
        let outcome = simulate(&Start { seed, ..START }, async |world: &World| {
            let site = &world.sites[0];
            world.cloud.add_blind_user("blind", "ours");
            // It looks for what it does not find every few seconds.
            let listed = json!({"preAllocatedFloatingIPs": [address(ADDRESSES - 1).to_string()]});
            create_pool_of_strangers(site, &json!(world.cloud.secret("blind")), &json!({}), &listed);
            world.advance(SOON).await;
            let mut spec = network();
            spec["maxIPs"] = json!(2);
            site.create_pool("public", &spec);
            for claim in ["web-0", "web-1"] {
                site.create_claim(claim, "public");
                world.await_bound(claim).await;
            }
            site.create_claim("web-2", "public");
            let is_bound = world.wait_until(4 * SOON, || site.is_bound("web-2")).await;
            world.expect(6, "public", "within its limit", !is_bound && world.cloud.floating_ips().len() == 2);
            site.delete(Kind::Claim, "web-0");
            let is_served = world.wait_until(2 * SOON, || site.is_bound("web-2")).await;
            world.expect(7, "web-2", "given what was released", is_served);
        });
        outcome.assert_lawful();
    }
}

/// A pool of the project, in another namespace, lists a floating IP without a mark.
async fn list_elsewhere(world: &World, site: &Site) {
    world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(0)));
    let listed = json!({"preAllocatedFloatingIPs": [address(0).to_string()]});
    create_pool_of_strangers(site, &json!(world.cloud.secret("ours")), &json!({}), &listed);
    world.advance(SOON).await;
}

fn create_pool_that_reuses(site: &Site) {
    let mut spec = network();
    spec["reuse"] = json!({"policy": "Unmarked", "minIdleSeconds": 0});
    site.create_pool("public", &spec);
}

/// The process is restarted while a pool elsewhere is paused. What that pool lists is of the project.
#[test]
fn what_a_paused_pool_elsewhere_lists_is_not_reused_after_a_restart() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        list_elsewhere(world, site).await;
        let copy = Key::new(Kind::Pool, STRANGERS, "copy");
        site.server.patch(&copy, Part::Main, &pause(json!(""))).expect("it is there");
        world.advance(SOON).await;
        site.kill_controller();
        world.advance(2 * SOON).await;
        create_pool_that_reuses(site);
        site.create_claim("web-0", "public");
        let given = world.await_bound("web-0").await;
        world.expect(
            2,
            "what another pool of the project lists",
            "not given",
            given.is_some_and(|it| it != address(0)),
        );
        site.server.delete(&copy, &Deletion::default()).expect("it is there");
        world.skips_rest.set(true);
    });
    outcome.assert_lawful();
}

/// Another process takes over while the Secret of a pool elsewhere is wrong. What that pool lists is of the project.
#[test]
fn what_a_pool_elsewhere_lists_is_not_reused_before_that_pool_is_resolved() {
    let start = Start { replicas: 2, ..START };
    let outcome = simulate(&start, async |world: &World| {
        let site = &world.sites[0];
        list_elsewhere(world, site).await;
        create_pool_that_reuses(site);
        world.advance(SOON).await;
        let leader = site.replicas.iter().find(|replica| site.is_leader(replica)).expect("one leads");
        leader.terminate.notify_waiters();
        let set_credentials = |data: &Value| {
            let secret = Key::new(Kind::Secret, STRANGERS, "cloud");
            site.server.patch(&secret, Part::Main, &json!({"data": data})).expect("it can be changed");
        };
        set_credentials(&json!({"clouds.yaml": "e30="}));
        site.create_claim("web-0", "public");
        let is_bound = world.wait_until(SOON, || site.is_bound("web-0")).await;
        world.expect(7, "web-0", "bound", is_bound);
        let has_listed = site.address_of("web-0").is_some_and(|(has, _)| has == address(0));
        world.expect(2, "what another pool of the project lists", "not given", !has_listed);
        set_credentials(&json!(world.cloud.secret("ours")));
        site.server.delete(&Key::new(Kind::Pool, STRANGERS, "copy"), &Deletion::default()).expect("it is there");
    });
    outcome.assert_lawful();
}
