//! A reconcile panics: the controllers start again in the same process, and others are served.

use std::time::Duration;

use serde_json::json;

use crate::api::Kind;
use crate::memory::Elsewhere;
use crate::simulate_bound;
use crate::world::{NAMESPACE, Site, Start, World};

const START: Start = Start { seed: 23, sites: 1, replicas: 1, slowest: 20, is_logged: true };
const STRANGERS: &str = "strangers";

/// A pool of another namespace, with a claim. Whatever its Keystone answers makes the controller panic.
fn create_pool_that_panics(world: &World, site: &Site) {
    let metadata = |name: &str| json!({"name": name, "namespace": STRANGERS});
    let data = serde_json::to_value(world.cloud.secret_elsewhere("ours", Elsewhere::Panic)).unwrap();
    let identity = json!({"name": "cloud", "cloudName": "openstack"});
    let spec = json!({"floatingIPNetwork": {"filter": {"name": "public"}}, "identityRef": identity});
    site.server.create(Kind::Namespace, json!({"metadata": {"name": STRANGERS}})).expect("it is new");
    site.server.create(Kind::Secret, json!({"metadata": metadata("cloud"), "data": data})).expect("it is valid");
    site.server.create(Kind::Pool, json!({"metadata": metadata("bad"), "spec": spec})).expect("it is valid");
}

#[test]
fn a_pool_that_causes_panics_delays_others_rarely() {
    simulate_bound(&START, async |world, site| {
        let had = site.address_of("web-0");
        create_pool_that_panics(world, site);
        world.advance(Duration::from_secs(45)).await;
        let (reason, message) = site.ready(Kind::Pool, STRANGERS, "bad");
        world.expect(4, "the pool", "reported", reason == "InternalError" && message.contains("bad"));
        // A new process would have acquired the Lease again, and waited for its predecessor's calls.
        world.expect(4, "the process", "the same", site.replicas[0].past_calls.borrow().is_empty());
        world.expect(7, "pool public", "ready", site.ready(Kind::Pool, NAMESPACE, "public").0 == "Ready");
        let mut slow = 0;
        for index in 1..=60 {
            let claim = format!("web-{index}");
            site.create_claim(&claim, "public");
            world.advance(Duration::from_secs(2)).await;
            slow += u32::from(!site.is_bound(&claim));
            world.advance(Duration::from_secs(58)).await;
            world.expect(7, &claim, "bound within a minute", site.is_bound(&claim));
            site.delete(Kind::Claim, &claim);
        }
        // In an hour the pauses are 1, 2, 4, 8, 16 and 32 minutes.
        world.expect(7, "new claims", &format!("rarely delayed, and {slow} were"), slow <= 6);
        world.expect(5, "web-0", "bound as before", site.address_of("web-0") == had);
    });
}

#[test]
fn a_claim_whose_reconcile_panicked_is_told_and_served_later() {
    simulate_bound(&START, async |world, site| {
        world.advance(Duration::from_secs(60)).await;
        site.create_claim("web-1", "public");
        let wire = site.replicas[0].wire().expect("it runs");
        wire.plan_write(crate::wire::Fault::Panic);
        world.advance(Duration::from_secs(20)).await;
        let (reason, message) = site.ready(Kind::Claim, NAMESPACE, "web-1");
        let is_told = reason == "AllocationFailed" && message.contains("web-1 in this namespace");
        world.expect(7, "web-1", &format!("told, and not {reason}: {message}"), is_told);
        world.advance(Duration::from_secs(100)).await;
        world.expect(7, "web-1", "bound", site.is_bound("web-1"));
        world.expect(4, "Neutron", "left with two addresses", world.cloud.floating_ips().len() == 2);
    });
}
