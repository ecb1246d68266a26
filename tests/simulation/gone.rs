//! Claims whose address is gone, IPAddress and floating IP.

use std::time::Duration;

use serde_json::json;

use crate::api::Kind;
use crate::deletion::orders_of_some;
use crate::users::key;
use crate::wire::Fault;
use crate::world::{ADDRESSES, Start, World, address};
use crate::{is_due, simulate};

/// Law 1. The claim had an address that is gone. The reply to the creation of its next one is lost, and the floating IP has
/// the address that the IPAddress of another claim names: its floating IP was deleted, too.
#[test]
fn a_claim_that_had_an_address_does_not_get_one_that_is_still_published() {
    for seed in 0..12 {
        let start = Start { seed, sites: 1, replicas: 1, slowest: 20, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            (2..ADDRESSES).for_each(|index| world.create_attached(address(index)));
            let site = &world.sites[0];
            site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
            ["web-0", "web-1"].iter().for_each(|claim| site.create_claim(claim, "public"));
            let had = world.await_bound("web-0").await;
            world.await_bound("web-1").await;
            for fip in world.cloud.floating_ips().iter().filter(|fip| fip.port.is_none()) {
                world.tamper(|world| world.cloud.delete(&fip.id));
            }
            had.into_iter().for_each(|address| world.create_attached(address));
            world.users_interfered.set(true);
            // Until the next listing the claims count as bound.
            world.advance(Duration::from_secs(100)).await;
            if let Some(wire) = site.replicas[0].wire() {
                wire.plan_write(Fault::ReplyLost);
            }
            site.delete(Kind::Address, "web-0");
            world.advance(Duration::from_secs(120)).await;
            let claim = site.server.get(&key(Kind::Claim, "web-0"));
            let status = claim.map_or_else(Default::default, |claim| claim["status"].clone());
            world.expect(7, "the claim", "without the address that it had", status["addressRef"].is_null());
            let is_refused = status["conditions"][0]["reason"] == "PoolExhausted";
            world.expect(7, "the claim", "told that no other address is left", is_refused);
            let is_there = site.server.get(&key(Kind::Address, "web-0")).is_some();
            world.expect(1, "the claim", "without the address that another IPAddress names", !is_there);
            world.skips_rest.set(true);
        });
        outcome.assert_lawful();
    }
}

/// What happens once a floating IP was created for `web-1` with the address of the one that `web-0` had, and the reply was
/// lost. The user may use the new one before the controller has seen it.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Step {
    Attach,
    Detach,
    Restart,
    DeleteFormerClaim,
    DeleteNewClaim,
    CreateNewClaim,
}

/// Law 1, and none is leaked.
#[test]
fn a_new_floating_ip_with_an_address_that_is_still_published_is_not_given_whatever_its_user_does() {
    use Step::*;
    let all = [Attach, Detach, Restart, DeleteFormerClaim, DeleteNewClaim, CreateNewClaim];
    let losses = [Fault::ReplyLost, Fault::CrashAfter];
    let points = orders_of_some(&all).into_iter().flat_map(|order| losses.map(|loss| (order.clone(), loss)));
    let points = points.flat_map(|(order, loss)| [0, 8, 70].map(|pause| (order.clone(), loss, pause)));
    for (_, (order, loss, pause)) in points.enumerate().filter(|(point, _)| is_due(*point, 149)) {
        let start = Start { seed: pause, sites: 1, replicas: 1, slowest: 20, is_logged: true };
        let outcome = simulate(&start, async |world: &World| {
            let site = &world.sites[0];
            (1..ADDRESSES).for_each(|index| world.create_attached(address(index)));
            world.bind_in_new_pool("web-0").await;
            world.users_interfered.set(true);
            world.delete_at(address(0));
            let wire = site.replicas[0].wire().expect("the process runs");
            wire.plan_write(loss);
            site.create_claim("web-1", "public");
            let is_created = world.wait_until(Duration::from_secs(60), || !wire.is_write_planned()).await;
            world.expect(7, "the controller", "creating", is_created);
            let created = world.cloud.floating_ips().into_iter().find(|fip| fip.address == address(0)).unwrap();
            world.delete_at(address(1));
            for step in &order {
                world.trace.record(|| format!("--- {step:?}"));
                match step {
                    Attach => _ = world.tamper(|world| world.cloud.set_port(&created.id, Some("port-of-a-user"))),
                    Detach => _ = world.tamper(|world| world.cloud.set_port(&created.id, None)),
                    Restart => site.kill_controller(),
                    DeleteFormerClaim => site.delete(Kind::Claim, "web-0"),
                    DeleteNewClaim => site.delete(Kind::Claim, "web-1"),
                    CreateNewClaim => site.create_claim("web-1", "public"),
                }
                world.advance(Duration::from_secs(pause)).await;
                world.judge(false);
            }
        });
        outcome.assert_lawful();
    }
}
