//! A newer version of this provider has written marks that this one cannot read, and was rolled back.

use std::time::Duration;

use caip_openstack::floating_ip::{FloatingIp, FloatingIpId};
use serde_json::{Value, json};

use crate::api::Kind;
use crate::calm::peak;
use crate::simulate;
use crate::users::key;
use crate::wire::Fault;
use crate::world::{Site, Start, World, address};

const LONG: Duration = Duration::from_secs(600);

/// One floating IP is listed, one could be reused, and one was created for a claim. The pool could delete that one: it
/// treats orphans, and what it cannot use, without a grace period.
#[test]
fn what_a_newer_version_has_marked_is_never_used_released_or_deleted_and_is_reported() {
    for seed in 0..4 {
        let start = Start { seed, sites: 1, replicas: 1, slowest: 20, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            let [listed, reusable] = [0, 1].map(|index| {
                world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(index))).id
            });
            world.users_interfered.set(true);
            mark(world, &listed, |fip| _ = fip.tags.insert("caip2.k.list".into()));
            mark(world, &reusable, |fip| _ = fip.tags.insert("caip2-out.k.list".into()));
            let spec = json!({
                "preAllocatedFloatingIPs": [address(0)], "floatingIPNetwork": {"filter": {"name": "public"}},
                "reuse": {"policy": "Unmarked", "minIdleSeconds": 0}, "orphans": {"policy": "Release", "graceSeconds": 0},
            });
            site.create_pool("public", &spec);
            site.create_claim("web-0", "public");
            let Some(created) = world.await_bound("web-0").await.and_then(|_| site.address_of("web-0")) else { return };
            world.expect(2, "web-0", "given a new floating IP", ![&listed, &reusable].contains(&&created.1));
            mark(world, &created.1, |fip| fip.description = "caip-openstack v=2 k=list (claim web-0 in team)".into());
            let marked = [listed, reusable, created.1];
            let before = as_they_are(world, &marked);

            world.advance(LONG).await;
            let failed = site.object(Kind::Pool, "public")["status"]["failed"].clone();
            let is_reported =
                failed[0]["reason"] == "MarkedByNewerVersion" && failed[0]["address"] == json!(address(0));
            world.expect(7, "public", &format!("reporting what it lists, not {failed}"), is_reported);
            let claim = site.object(Kind::Claim, "web-0");
            let is_told = claim["status"].to_string().contains("a mark of a newer version");
            world.expect(7, "web-0", "told why its address is not ready", is_told);

            site.delete(Kind::Claim, "web-0");
            world.expect_gone(Kind::Claim).await;
            world.advance(LONG).await;
            site.delete(Kind::Pool, "public");
            world.expect_gone(Kind::Pool).await;
            let after = as_they_are(world, &marked);
            world.expect(2, "what a newer version has marked", &format!("{before:?}, not {after:?}"), before == after);
        });
        outcome.assert_lawful();
    }
}

fn mark(world: &World, id: &FloatingIpId, write: impl Fn(&mut FloatingIp)) {
    world.tamper(|world| world.cloud.edit(id, write));
}

fn as_they_are(world: &World, ids: &[FloatingIpId]) -> Vec<FloatingIp> {
    world.cloud.floating_ips().into_iter().filter(|fip| ids.contains(&fip.id)).collect()
}

impl Site {
    fn object(&self, kind: Kind, name: &str) -> Value {
        self.server.get(&key(kind, name)).map(|object| (*object).clone()).unwrap_or_default()
    }
}

/// Law 8. The mark comes while a claim takes a spare, and stays.
#[test]
fn a_claim_that_finds_the_mark_of_a_newer_version_gives_the_address_up_a_few_times_a_minute() {
    let start = Start { seed: 3, sites: 1, replicas: 1, slowest: 20, is_logged: true };
    let outcome = simulate(&start, async |world: &World| {
        let site = &world.sites[0];
        site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}, "minFree": 1}));
        world.advance(Duration::from_secs(20)).await;
        let spare = world.cloud.floating_ips().pop().expect("the spare is there").id;
        site.replicas[0].wire().expect("it runs").plan_write(Fault::Late(Duration::from_secs(2)));
        site.create_claim("web-0", "public");
        world.advance(Duration::from_secs(1)).await;
        world.users_interfered.set(true);
        mark(world, &spare, |fip| _ = fip.tags.insert("caip2.k.list".into()));
        world.advance(LONG / 5).await;
        let most = peak(world, "untag floating IP") + peak(world, "describe floating IP");
        world.expect(8, "Neutron", &format!("asked seldom, not {most} times a minute"), most < 60);
        world.expect(7, "web-0", "told why it waits", site.is_told("web-0", "a newer version of caip-openstack"));
        mark(world, &spare, |fip| _ = fip.tags.remove("caip2.k.list"));
        world.await_bound("web-0").await;
    });
    outcome.assert_lawful();
}
