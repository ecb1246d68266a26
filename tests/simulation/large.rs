//! Users write any number of finalizers and owner references into objects. What the controller does not keep of them in
//! memory changes nothing, and is not lost when it writes the others.

use std::time::Duration;

use serde_json::{Value, json};

use crate::api::Kind;
use crate::simulate_bound;
use crate::users::key;
use crate::world::{NAMESPACE, Site, Start, World, address};

const START: Start = Start { seed: 23, sites: 1, replicas: 1, slowest: 20, is_logged: true };
const SOON: Duration = Duration::from_secs(60);

/// Of a user: more than 16 KiB together.
fn finalizers() -> Vec<String> {
    (0..80).map(|number| format!("{}.example.org/{number}", "x".repeat(240))).collect()
}

/// Owners of a kind that the garbage collector does not know: the first of them alone has more than 16 KiB.
fn owners() -> Vec<Value> {
    let owner =
        |uid: &str, name: &str| json!({"apiVersion": "example.org/v1", "kind": "Owner", "name": name, "uid": uid});
    vec![owner("of-large", &"x".repeat(17_000)), owner("of-small", "small")]
}

impl Site {
    /// A user adds these finalizers and owner references.
    fn enlarge(&self, kind: Kind, name: &str, finalizers: &[String], owners: &[Value]) {
        let object = self.server.get(&key(kind, name)).expect("it is there");
        let with = |field: &str, more: Vec<Value>| {
            let had = object["metadata"][field].as_array().cloned().unwrap_or_default();
            [more, had].concat()
        };
        let finalizers = with("finalizers", finalizers.iter().map(|name| json!(name)).collect());
        let owners = with("ownerReferences", owners.to_vec());
        self.change(kind, name, &json!({"metadata": {"finalizers": finalizers, "ownerReferences": owners}}));
    }

    /// How many of a list of an object's metadata a user wrote.
    fn count(&self, kind: Kind, name: &str, field: &str) -> usize {
        let object = self.server.get(&key(kind, name)).expect("it is there");
        let all = object["metadata"][field].as_array().cloned().unwrap_or_default();
        all.iter().filter(|item| item.to_string().contains("example.org")).count()
    }

    /// A user removes the user's finalizers.
    fn reduce(&self, kind: Kind, name: &str) {
        let object = self.server.get(&key(kind, name)).expect("it is there");
        let mut all = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        all.retain(|name| !name.to_string().contains("example.org"));
        self.change(kind, name, &json!({"metadata": {"finalizers": all}}));
    }
}

async fn expect_gone(world: &World, kind: Kind, name: &str) {
    let is_gone = || world.sites[0].server.get(&key(kind, name)).is_none();
    world.expect(9, &format!("{kind:?} {name}"), "gone", world.wait_until(SOON, is_gone).await);
}

#[test]
fn a_claim_whose_ip_address_has_large_owners_is_released() {
    simulate_bound(&START, async |world, site| {
        site.enlarge(Kind::Address, "web-0", &[], &owners());
        world.advance(SOON / 6).await;
        site.kill_controller();
        world.advance(SOON).await;
        site.delete(Kind::Claim, "web-0");
        expect_gone(world, Kind::Claim, "web-0").await;
        expect_gone(world, Kind::Address, "web-0").await;
    });
}

#[test]
fn finalizers_and_owners_that_are_not_kept_in_memory_stay_on_an_ip_address() {
    simulate_bound(&START, async |world, site| {
        site.enlarge(Kind::Address, "web-0", &finalizers(), &owners());
        world.advance(SOON / 6).await;
        site.kill_controller();
        world.advance(SOON).await;
        // Ours is written again.
        let of_user = finalizers();
        site.change(Kind::Address, "web-0", &json!({"metadata": {"finalizers": of_user}}));
        let is_protected = || {
            let address = site.server.get(&key(Kind::Address, "web-0"));
            address
                .is_some_and(|it| it["metadata"]["finalizers"].to_string().contains("openstackfloatingippool-protect"))
        };
        world.expect(5, "web-0", "protected again", world.wait_until(SOON, is_protected).await);
        let count = |field: &str| site.count(Kind::Address, "web-0", field);
        let counts = (count("finalizers"), count("ownerReferences"));
        world.expect(2, "web-0", &format!("with all of the user's, not {counts:?}"), counts == (of_user.len(), 2));
        site.delete(Kind::Claim, "web-0");
        expect_gone(world, Kind::Claim, "web-0").await;
        let counts = (count("finalizers"), count("ownerReferences"));
        world.expect(2, "web-0", &format!("with all of the user's, not {counts:?}"), counts == (of_user.len(), 2));
        site.reduce(Kind::Address, "web-0");
        expect_gone(world, Kind::Address, "web-0").await;
    });
}

#[test]
fn a_waiting_claim_that_becomes_large_is_served_in_its_turn() {
    simulate_bound(&START, async |world, site| {
        site.change(Kind::Pool, "public", &json!({"spec": {"maxIPs": 2}}));
        site.create_claim("web-1", "public");
        world.await_bound("web-1").await;
        for claim in ["web-2", "web-3"] {
            site.create_claim(claim, "public");
            world.advance(Duration::from_secs(5)).await;
        }
        site.enlarge(Kind::Claim, "web-2", &finalizers(), &[]);
        world.advance(Duration::from_secs(5)).await;
        // Its condition has to change.
        site.change(Kind::Pool, "public", &json!({"spec": {"maxIPs": 1}}));
        world.advance(SOON).await;
        site.delete(Kind::Claim, "web-0");
        site.delete(Kind::Claim, "web-1");
        world.await_bound("web-2").await;
        let count = site.count(Kind::Claim, "web-2", "finalizers");
        world.expect(2, "web-2", "with all of the user's finalizers", count == finalizers().len());
        site.delete(Kind::Claim, "web-2");
        world.advance(SOON / 6).await;
        world.expect(2, "web-2", "kept by a user's finalizer", site.address_of("web-2").is_some());
        site.reduce(Kind::Claim, "web-2");
        world.await_bound("web-3").await;
    });
}

#[test]
fn a_large_pool_serves_and_is_deleted() {
    simulate_bound(&START, async |world, site| {
        site.enlarge(Kind::Pool, "public", &finalizers(), &owners());
        site.kill_controller();
        world.advance(SOON).await;
        site.create_claim("web-1", "public");
        world.await_bound("web-1").await;
        // A new one is adopted with what a user wrote.
        let listed = json!({"preAllocatedFloatingIPs": [address(5)]});
        world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(5)));
        let metadata = json!({"name": "large", "namespace": NAMESPACE, "finalizers": finalizers()});
        site.create_pool("of-spec", &listed);
        let spec = site.server.get(&key(Kind::Pool, "of-spec")).expect("it is there")["spec"].clone();
        site.delete(Kind::Pool, "of-spec");
        expect_gone(world, Kind::Pool, "of-spec").await;
        site.server.create(Kind::Pool, json!({"metadata": metadata, "spec": spec})).expect("it is valid");
        site.create_claim("web-2", "large");
        world.await_bound("web-2").await;
        for claim in ["web-0", "web-1", "web-2"] {
            site.delete(Kind::Claim, claim);
            expect_gone(world, Kind::Claim, claim).await;
        }
        for pool in ["public", "large"] {
            site.delete(Kind::Pool, pool);
            world.advance(SOON).await;
            let count = site.count(Kind::Pool, pool, "finalizers");
            world.expect(2, pool, "with all of the user's finalizers", count == finalizers().len());
            site.reduce(Kind::Pool, pool);
            expect_gone(world, Kind::Pool, pool).await;
        }
    });
}
