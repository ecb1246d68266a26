//! Law 10: what one tenant, or one tenant's cloud, says or does changes nothing for another. The same history of an honest
//! tenant, once alone and once beside hostile ones, leads to the same objects, marks and writes after each event.
//!
//! `SIMULATION_PAIRS` says how many pairs, `SIMULATION_SEED` where to begin. Each event has time to take full effect: a
//! hostile tenant may cost a fair share of time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use caip_openstack::api::names::{
    ADDRESS_FINALIZER, FLOATING_IP_ID_ANNOTATION, GROUP, PAUSED_ANNOTATION, POOL_ID_ANNOTATION, POOL_KIND,
};
use serde_json::{Value, json};

use crate::api::deletion::Deletion;
use crate::api::objects::{Part, finalizers};
use crate::api::{Key, Kind};
use crate::generator::generate;
use crate::history::{Event, Scenario, Tampering};
use crate::laws::{self, text};
use crate::world::{NAMESPACE, Start, World, address};
use crate::{simulate, variable};

/// How many pairs a plain test run has.
const PAIRS: u64 = 2;
/// The events of a history.
const EVENTS: usize = 12;
/// Longer than every timer of a history's pools.
const SETTLES_WITHIN: Duration = Duration::from_secs(240);
const HOSTILE: u8 = 2;

/// How often the API server accepted what hostile tenants did, by what it was.
type Acts = BTreeMap<&'static str, usize>;
const KINDS_OF_ACTS: usize = 6;

#[test]
fn an_honest_tenant_is_served_beside_hostile_ones_as_it_is_alone() {
    let (first, count) = (variable("SIMULATION_SEED").unwrap_or(0), variable("SIMULATION_PAIRS").unwrap_or(PAIRS));
    let (begin, mut acts) = (Instant::now(), Acts::default());
    for seed in first..first + count {
        let events = honest_events(seed);
        let (alone, beside) = (observe(seed, &events, 0), observe(seed, &events, HOSTILE));
        beside.acts.iter().for_each(|(what, accepted)| *acts.entry(what).or_default() += accepted);
        for (index, (alone, beside)) in alone.states.iter().zip(&beside.states).enumerate() {
            let event = events.get(index);
            assert_eq!(alone, beside, "seed {seed}, after event {index}, {event:?}: alone on the left\n{events:?}");
        }
        assert_eq!(alone.states.len(), beside.states.len());
    }
    let took = begin.elapsed().as_secs_f64();
    let all: usize = acts.values().sum();
    println!("{count} pairs of histories from seed {first}, {all} hostile acts {acts:?}, {took:.1} s: no difference");
    assert!(acts.len() == KINDS_OF_ACTS, "the API server refused all others: {acts:?}");
}

/// What users do. Faults are left out: they hit calls by their number.
fn honest_events(seed: u64) -> Vec<Event> {
    use Event::*;
    let is_users = |event: &Event| {
        !matches!(
            event,
            Pass(_)
                | Fault(..)
                | FaultInWrite(..)
                | Outage(..)
                | Terminate(_)
                | JumpClock(..)
                | Freeze(..)
                | Hang(..)
                | Stall(..)
                | ToggleSkipping(_)
                | Alter(_)
                // When it is read again is random.
                | LimitQuota(_)
                // It chooses a pool by its id, which is random.
                | Tamper(_, Tampering::MarkForNobody)
        )
    };
    generate(seed, Scenario::Interference).into_iter().filter(is_users).take(EVENTS).collect()
}

struct Observed {
    /// After each event.
    states: Vec<Vec<String>>,
    acts: Acts,
}

fn observe(seed: u64, events: &[Event], hostile: u8) -> Observed {
    let start = Start { seed, sites: 1, replicas: 1, slowest: 2, is_logged: false };
    let (mut states, mut acts) = (Vec::new(), Acts::default());
    let mut pools = BTreeMap::new();
    simulate(&start, async |world: &World| {
        // What hostile tenants do to their own objects breaks laws.
        world.skips_rest.set(true);
        let tenants: Vec<Hostile> = (0..hostile).map(|index| Hostile::new(world, seed, index)).collect();
        let mut honest = async || {
            for event in events {
                world.apply(*event).await;
                world.advance(SETTLES_WITHIN).await;
                states.push(state(world, &mut pools));
            }
        };
        let everybody = async {
            let all = tenants.iter().map(|tenant| tenant.act(world));
            futures::future::join_all(all).await;
        };
        tokio::select! {
            biased;
            () = honest() => {}
            () = everybody, if hostile > 0 => {}
        }
        for (what, accepted) in tenants.iter().flat_map(|tenant| tenant.acts.take()) {
            *acts.entry(what).or_default() += accepted;
        }
    });
    Observed { states, acts }
}

/// What the honest tenant has, without ids, nonces, versions and times. `pools_of_ids` has each pool's name by its id; it
/// keeps the pools that were removed by force, whose marks remain.
fn state(world: &World, pools_of_ids: &mut BTreeMap<String, String>) -> Vec<String> {
    let server = &world.sites[0].server;
    let own = |kind: Kind| {
        let all = server.all(kind).into_iter();
        all.filter(|object| text(object, "/metadata/namespace") == NAMESPACE).collect::<Vec<_>>()
    };
    let pools = own(Kind::Pool);
    let ids = pools
        .iter()
        .filter_map(|pool| Some((laws::pool_id(pool)?.to_string(), text(pool, "/metadata/name").to_owned())));
    pools_of_ids.extend(ids);
    let plain = |mark: &str| {
        let mut plain = mark.to_owned();
        pools_of_ids.iter().for_each(|(id, name)| plain = plain.replace(id.as_str(), name));
        plain.split(' ').filter(|part| !part.starts_with("nonce=")).collect::<Vec<_>>().join(" ")
    };
    let mut lines: Vec<String> = Vec::new();
    for object in [&pools, &own(Kind::Claim)].into_iter().flatten() {
        let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        let conditions: Vec<String> = conditions
            .map(|it| format!("{}={} {}", text(it, "/type"), text(it, "/status"), text(it, "/reason")))
            .collect();
        let status = &object["status"];
        lines.push(format!(
            "{} {}: {} {:?} {:?} {:?}",
            text(object, "/kind"),
            text(object, "/metadata/name"),
            conditions.join(", "),
            status["addressRef"]["name"],
            status["ips"],
            finalizers(object),
        ));
    }
    for object in own(Kind::Address) {
        lines.push(format!("{} has {}", text(&object, "/metadata/name"), text(&object, "/spec/address")));
    }
    for fip in world.cloud.floating_ips() {
        let tags: Vec<String> = fip.tags.iter().map(|tag| without_time(&plain(tag))).collect();
        let is_attached = fip.is_attached();
        lines.push(format!("{} {is_attached} {:?} {tags:?}", fip.address, plain(&fip.description)));
    }
    lines.push(format!("writes to OpenStack: {}", world.witness.writes()));
    lines.sort();
    lines
}

/// A release tag ends with its time.
fn without_time(tag: &str) -> String {
    match tag.starts_with("caip-out.") {
        true => tag.rsplit_once('.').map_or(tag, |(rest, _)| rest).to_owned(),
        false => tag.to_owned(),
    }
}

/// A tenant with a namespace of its own, and every right in it.
struct Hostile {
    namespace: String,
    seed: u64,
    acts: RefCell<Acts>,
}

impl Hostile {
    fn new(world: &World, seed: u64, index: u8) -> Self {
        let namespace = format!("hostile-{index}");
        let metadata = json!({"name": namespace});
        world.sites[0].server.create(Kind::Namespace, json!({"metadata": metadata})).expect("it is new");
        Self { namespace, seed: seed * 31 + u64::from(index), acts: Default::default() }
    }

    async fn act(&self, world: &World) {
        let mut random = fastrand::Rng::with_seed(self.seed ^ 0xbad);
        loop {
            world.advance(Duration::from_millis(random.u64(100..20_000))).await;
            let (what, accepted) = match random.u8(0..12) {
                0..=2 => ("Secret", self.write_secret(world, &mut random)),
                3..=5 => ("pool", self.create_pool(world, &mut random)),
                6..=7 => ("claim", self.create_claim(world, &mut random)),
                8..=9 => ("IPAddress", self.name_address(world, &mut random)),
                10 => ("annotation", self.annotate(world, &mut random)),
                _ => ("deletion", self.delete(world, &mut random)),
            };
            if accepted.is_some() {
                *self.acts.borrow_mut().entry(what).or_default() += 1;
            }
        }
    }

    fn metadata(&self, name: &str, annotations: &Value) -> Value {
        let annotations = annotations.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        let annotations: BTreeMap<&String, &Value> = annotations.collect();
        json!({"name": name, "namespace": self.namespace, "annotations": annotations})
    }

    /// An id of the honest tenant's pools.
    fn stolen_id(world: &World, random: &mut fastrand::Rng) -> Option<String> {
        let pools = world.sites[0].server.all(Kind::Pool).into_iter();
        let honest = pools.filter(|pool| text(pool, "/metadata/namespace") == NAMESPACE);
        let ids: Vec<String> = honest.filter_map(|pool| Some(laws::pool_id(&pool)?.to_string())).collect();
        ids.get(random.usize(0..=ids.len())).cloned()
    }

    fn write_secret(&self, world: &World, random: &mut fastrand::Rng) -> Option<()> {
        let data = match random.u8(0..4) {
            0 => json!({"clouds.yaml": "e30="}),
            _ => world.liars.secret(random.u64(..) % 1000 + 1000 * self.seed),
        };
        let server = &world.sites[0].server;
        let secret = json!({"metadata": self.metadata("cloud", &json!({})), "data": data});
        let key = Key::new(Kind::Secret, &self.namespace, "cloud");
        match server.create(Kind::Secret, secret) {
            Ok(_) => Some(()),
            Err(_) => server.patch(&key, Part::Main, &json!({"data": data})).ok().map(drop),
        }
    }

    fn create_pool(&self, world: &World, random: &mut fastrand::Rng) -> Option<()> {
        let id = Self::stolen_id(world, random);
        let listed: Vec<String> = (0..4).map(|_| address(random.u8(..)).to_string()).collect();
        let mut spec = json!({
            "identityRef": {"name": "cloud", "cloudName": "openstack"},
            "floatingIPNetwork": {"filter": {"name": "public"}},
            "minFree": random.u8(0..6),
            "orphans": {"policy": "Release", "graceSeconds": 1},
            "reuse": {"policy": "Unmarked", "minIdleSeconds": 0},
        });
        if random.bool() {
            spec["preAllocatedFloatingIPs"] = json!(listed[..1]);
        }
        if random.bool() {
            spec["reservations"] = json!([{"claim": format!("web-{}", random.u8(0..6)), "address": listed[1]}]);
        }
        if random.bool() {
            spec["poolID"] = json!(id);
        }
        let annotations = if random.bool() { json!({POOL_ID_ANNOTATION: id}) } else { json!({}) };
        let name = ["public", "second", "third"][random.usize(0..3)];
        let pool = json!({"metadata": self.metadata(name, &annotations), "spec": spec});
        world.sites[0].server.create(Kind::Pool, pool).ok().map(drop)
    }

    fn create_claim(&self, world: &World, random: &mut fastrand::Rng) -> Option<()> {
        let pool = ["public", "second", "third"][random.usize(0..3)];
        let pool_ref = json!({"apiGroup": GROUP, "kind": POOL_KIND, "name": pool});
        let name = format!("web-{}", random.u8(0..6));
        let claim = json!({"metadata": self.metadata(&name, &json!({})), "spec": {"poolRef": pool_ref}});
        world.sites[0].server.create(Kind::Claim, claim).ok().map(drop)
    }

    /// Writes an IPAddress that names what the honest tenant has.
    fn name_address(&self, world: &World, random: &mut fastrand::Rng) -> Option<()> {
        let fips = world.cloud.floating_ips();
        let fip = fips.get(random.usize(0..=fips.len()));
        let address = fip.map_or_else(|| address(random.u8(..)), |fip| fip.address);
        let annotations = json!({
            POOL_ID_ANNOTATION: Self::stolen_id(world, random),
            FLOATING_IP_ID_ANNOTATION: fip.map(|fip| fip.id.to_string()),
        });
        let name = format!("web-{}", random.u8(0..6));
        let mut metadata = self.metadata(&name, &annotations);
        metadata["finalizers"] = if random.bool() { json!([ADDRESS_FINALIZER]) } else { json!([]) };
        let pool_ref = json!({"apiGroup": GROUP, "kind": POOL_KIND, "name": "public"});
        let spec =
            json!({"claimRef": {"name": name}, "poolRef": pool_ref, "address": address.to_string(), "prefix": 32});
        world.sites[0].server.create(Kind::Address, json!({"metadata": metadata, "spec": spec})).ok().map(drop)
    }

    fn annotate(&self, world: &World, random: &mut fastrand::Rng) -> Option<()> {
        let key = self.any_object(world, random)?;
        let annotations = match random.u8(0..3) {
            0 => json!({POOL_ID_ANNOTATION: Self::stolen_id(world, random)}),
            1 => json!({PAUSED_ANNOTATION: if random.bool() { json!("true") } else { Value::Null }}),
            _ => json!({POOL_ID_ANNOTATION: "x".repeat(1000)}),
        };
        let change = json!({"metadata": {"annotations": annotations}});
        world.sites[0].server.patch(&key, Part::Main, &change).ok().map(drop)
    }

    fn delete(&self, world: &World, random: &mut fastrand::Rng) -> Option<()> {
        let key = self.any_object(world, random)?;
        let server = &world.sites[0].server;
        if random.bool() {
            let _ = server.patch(&key, Part::Main, &json!({"metadata": {"finalizers": null}}));
        }
        server.delete(&key, &Deletion::default()).ok().map(drop)
    }

    fn any_object(&self, world: &World, random: &mut fastrand::Rng) -> Option<Key> {
        let kind = [Kind::Pool, Kind::Claim, Kind::Address, Kind::Secret][random.usize(0..4)];
        let all = world.sites[0].server.all(kind).into_iter();
        let own: Vec<_> = all.filter(|object| text(object, "/metadata/namespace") == self.namespace).collect();
        let object = own.get(random.usize(0..own.len().max(1)))?;
        Some(Key::new(kind, &self.namespace, text(object, "/metadata/name")))
    }
}
