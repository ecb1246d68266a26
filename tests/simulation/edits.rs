//! What users change in a pool's spec, and how it is as it should be again at the end.

use std::net::IpAddr;

use caip_openstack::allocation::mark::Marks;
use caip_openstack::api::names::PAUSED_ANNOTATION;
use serde_json::{Value, json};

use crate::api::Kind;
use crate::api::metadata::is_deleting;
use crate::history::Edit;
use crate::identities;
use crate::laws;
use crate::memory::Elsewhere;
use crate::operators::{OTHER_SECRET, OTHER_USER, USER};
use crate::users::key;
use crate::world::{ADDRESSES, Site, World, address};

/// A tag that nobody else writes.
pub const LABEL: &str = "cost-centre-7";

impl World {
    pub fn edit(&self, pool: u8, edit: Edit) {
        let (site, name) = self.pool(pool);
        if !site.server.all(Kind::Claim).is_empty() {
            self.users_interfered.set(true);
        }
        let Some(object) = site.server.get(&key(Kind::Pool, name)) else { return };
        let spec = &object["spec"];
        let change = match edit {
            Edit::Limit(limit) => self.limit(site, name, limit % 6),
            Edit::Reserve(claim, index) => toggle_reservation(spec, &self.claim(claim).1, address(index)),
            Edit::ReserveHeld(holder, claim) => match site.address_of(&self.claim(holder).1) {
                Some((held, _)) => toggle_reservation(spec, &self.claim(claim).1, held),
                None => json!({}),
            },
            Edit::Region => {
                self.cloud.add_user(OTHER_USER, USER);
                [USER, OTHER_USER].iter().for_each(|user| self.cloud.accept_other_region(user));
                json!({"identityRef": toggle(&spec["identityRef"], "region", Elsewhere::REGION.into())})
            }
            Edit::Identity(how) => json!({"identityRef": self.identity(site, how)}),
            Edit::NetworkId => {
                let network = match spec["floatingIPNetwork"].get("id") {
                    None => json!({"id": self.network.as_str(), "filter": null}),
                    Some(_) => json!({"id": null, "filter": {"name": "public"}}),
                };
                json!({"floatingIPNetwork": network})
            }
            Edit::SubnetList(how) => json!({"subnets": self.subnets(how)}),
            Edit::AddressConfigMap(how) => {
                let named = |name: &str| json!({"addressConfigMap": {"name": name}});
                match how % 8 {
                    0..=3 => named(&format!("{name}-addresses")),
                    4 | 5 => named(&format!("{name}-list")),
                    6 => named("shared"),
                    _ => json!({"addressConfigMap": null}),
                }
            }
            edit => change(spec, edit),
        };
        site.change(Kind::Pool, name, &json!({"spec": change}));
    }

    /// Credentials of the same project, unless the Secret does not exist.
    fn identity(&self, site: &Site, how: u8) -> Value {
        match how % 8 {
            0..=2 => {
                self.create_other_secret(&site.server);
                json!({"type": null, "name": OTHER_SECRET})
            }
            3 => {
                identities::allow(site, true);
                json!({"type": "ClusterIdentity", "name": "shared"})
            }
            4 | 5 => json!({"type": null, "name": "cloud"}),
            _ => json!({"type": null, "name": "missing"}),
        }
    }

    /// Parts of the network. They are added when they are first named, so that other histories stay as they are.
    fn subnets(&self, how: u8) -> Value {
        let add = |name, first, last| self.cloud.ensure_subnet(&self.network, name, address(first)..=address(last));
        let (low, high) = (add("low", 0, 3), add("high", 4, ADDRESSES - 1));
        match how % 6 {
            0 => json!([{"filter": {"name": "high"}}, {"filter": {"name": "low"}}]),
            1 => json!([{"id": low.as_str()}, {"filter": {"name": "v4"}}]),
            2 => json!([{"filter": {"name": "low"}}]),
            3 => json!([{"id": high.as_str()}]),
            4 => json!([{"id": high.as_str()}, {"id": low.as_str()}]),
            _ => Value::Null,
        }
    }

    fn limit(&self, site: &Site, pool: &str, limit: u8) -> Value {
        self.raise_floor(site, pool);
        json!({"maxIPs": if limit == 5 { Value::Null } else { limit.into() }})
    }

    /// The pool may have as many addresses as now, whatever its limit becomes.
    pub fn raise_floor(&self, site: &Site, pool: &str) {
        // Creations that are under way may still land.
        let floor = self.marked(site, pool) + if site.server.all(Kind::Claim).is_empty() { 0 } else { 4 };
        self.floors.borrow_mut().insert((site.server.id(), pool.to_owned()), floor);
    }

    /// A new claim may be served before the controller has seen the pool's last edit: then the edit is one of a pool with
    /// claims.
    pub fn note_unseen_edit(&self, site: &Site, pool: &str) {
        let is_seen = |pool: &Value| pool["status"]["observedGeneration"] == pool["metadata"]["generation"];
        let Some(object) = site.server.get(&key(Kind::Pool, pool)) else { return };
        if object["metadata"]["generation"] == 1 || is_seen(&object) {
            return;
        }
        self.users_interfered.set(true);
        if let Some(floor) = self.floors.borrow_mut().get_mut(&(site.server.id(), pool.to_owned())) {
            *floor += 1;
        }
    }

    /// How many floating IPs carry a pool's mark.
    fn marked(&self, site: &Site, pool: &str) -> usize {
        let id = site.server.get(&key(Kind::Pool, pool)).and_then(|pool| laws::pool_id(&pool));
        let Some(id) = id else { return 0 };
        self.cloud.floating_ips().iter().filter(|fip| Marks::read(fip).pools().contains(&id)).count()
    }

    /// Ends what keeps the controllers from their work, so that everything can come to rest.
    pub fn unblock(&self) {
        for site in &self.sites {
            for kind in [Kind::Cluster, Kind::Pool, Kind::Claim] {
                for object in site.server.all(kind) {
                    let name = laws::text(&object, "/metadata/name").to_owned();
                    if object["metadata"]["annotations"].get(PAUSED_ANNOTATION).is_some() {
                        site.change(kind, &name, &json!({"metadata": {"annotations": {PAUSED_ANNOTATION: null}}}));
                    }
                }
            }
            let pools = site.server.all(Kind::Pool);
            let is_shared = pools.iter().any(|pool| laws::text(pool, "/spec/identityRef/type") == "ClusterIdentity");
            let secret = site.server.get(&key(Kind::Secret, "cloud"));
            // A pool that uses it through the identity does not keep it from being deleted.
            if is_shared && secret.is_some_and(|it| is_deleting(&it)) {
                site.delete_by_force(Kind::Secret, "cloud");
            }
            self.renew_secret(&site.server);
            for pool in &pools {
                self.correct(site, pool);
            }
        }
    }

    /// A person does what the pool's conditions ask for.
    fn correct(&self, site: &Site, pool: &Value) {
        let name = laws::text(pool, "/metadata/name");
        let name_of_secret = match laws::text(pool, "/spec/identityRef/name") {
            OTHER_SECRET => OTHER_SECRET,
            _ => "cloud",
        };
        let identity = json!({"type": null, "name": name_of_secret, "region": null, "cloudName": "openstack"});
        let identity = json!({"identityRef": identity});
        site.change(Kind::Pool, name, &json!({"spec": identity}));
        // What users left behind stays where it is only reported.
        if self.witness.claims().are_orphans_expected() || self.users_interfered.get() {
            site.change(Kind::Pool, name, &json!({"spec": {"orphans": {"policy": "Release"}}}));
        }
    }
}

/// The change of a spec that depends on nothing else.
fn change(spec: &Value, edit: Edit) -> Value {
    match edit {
        Edit::List(index) => toggle_item(spec, "preAllocatedFloatingIPs", address(index).to_string().into()),
        Edit::Exclude(index) => toggle_item(spec, "excludedAddresses", address(index).to_string().into()),
        Edit::ExcludeRange(index) => {
            let range = format!("203.0.113.{}/31", 10 + index % ADDRESSES / 2 * 2);
            toggle_item(spec, "excludedAddresses", range.into())
        }
        Edit::Unreserve(index) => without_reservation(spec, index),
        Edit::MinFree(count) => json!({"minFree": count % 3}),
        Edit::Retain => json!({"reclaimPolicy": swap(&spec["reclaimPolicy"], "Retain", "Delete")}),
        Edit::Reuse(how) => {
            let (policy, tags) = [("Never", Value::Null), ("Unmarked", Value::Null), ("Tagged", json!(["prod"]))]
                [usize::from(how % 3)]
            .clone();
            json!({"reuse": {"policy": policy, "tags": tags, "minIdleSeconds": 60 * (1 + how / 3 % 2)}})
        }
        Edit::Grace(seconds) => json!({"reuseGracePeriodSeconds": seconds % 60}),
        Edit::OrphanGrace(seconds) => json!({"orphans": {"graceSeconds": 60 + seconds % 60}}),
        Edit::OrphanPolicy => json!({"orphans": {"policy": swap(&spec["orphans"]["policy"], "Report", "Release")}}),
        Edit::Subnets => toggle(spec, "subnets", json!([{"filter": {"name": "v4"}}])),
        Edit::MissingSubnet => toggle(spec, "subnets", json!([{"filter": {"name": "none"}}])),
        Edit::Network => toggle(spec, "floatingIPNetwork", json!({"filter": {"name": "public"}})),
        Edit::Tags(which) => toggle_item(spec, "tags", if which % 3 < 2 { LABEL.into() } else { "prod".into() }),
        Edit::CloudName => {
            json!({"identityRef": {"cloudName": swap(&spec["identityRef"]["cloudName"], "other", "openstack")}})
        }
        _ => json!({}),
    }
}

/// The change that sets a field, or removes it when it is set.
fn toggle(spec: &Value, field: &str, value: Value) -> Value {
    json!({field: if spec.get(field).is_some() { Value::Null } else { value }})
}

/// The change that adds an item to a list, or removes it.
fn toggle_item(spec: &Value, field: &str, item: Value) -> Value {
    let mut all: Vec<Value> = spec[field].as_array().cloned().unwrap_or_default();
    match all.iter().position(|other| *other == item) {
        Some(at) => drop(all.remove(at)),
        None => all.push(item),
    }
    json!({field: if all.is_empty() { Value::Null } else { Value::Array(all) }})
}

/// An address is reserved once, and a claim has one reservation: else nothing changes.
fn toggle_reservation(spec: &Value, claim: &str, address: IpAddr) -> Value {
    let address = address.to_string();
    let mut reserved = spec["reservations"].as_array().into_iter().flatten();
    if reserved.any(|it| it["address"] == address.as_str() || it["claim"] == claim) {
        return json!({});
    }
    toggle_item(spec, "reservations", json!({"claim": claim, "address": address}))
}

fn without_reservation(spec: &Value, index: u8) -> Value {
    let mut reserved: Vec<Value> = spec["reservations"].as_array().cloned().unwrap_or_default();
    if !reserved.is_empty() {
        reserved.remove(usize::from(index) % reserved.len());
    }
    json!({"reservations": if reserved.is_empty() { Value::Null } else { Value::Array(reserved) }})
}

fn swap(value: &Value, one: &str, other: &str) -> Value {
    if *value == one { other.into() } else { one.into() }
}
