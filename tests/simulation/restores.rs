//! Everything of a namespace is lost and restored from a backup, in any order, or moved as `clusterctl move` does.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use caip_openstack::api::names::{DELETE_FOR_MOVE_ANNOTATION, PAUSED_ANNOTATION};
use serde_json::{Value, json};

use crate::api::Kind;
use crate::api::metadata::is_deleting;
use crate::api::objects::Part;
use crate::claims::Uid;
use crate::history::{Owners, Restoration};
use crate::laws;
use crate::users::key;
use crate::world::{NAMESPACE, Site, World};

const ORDERS: [[Kind; 3]; 6] = [
    [Kind::Pool, Kind::Claim, Kind::Address],
    [Kind::Pool, Kind::Address, Kind::Claim],
    [Kind::Claim, Kind::Pool, Kind::Address],
    [Kind::Claim, Kind::Address, Kind::Pool],
    [Kind::Address, Kind::Pool, Kind::Claim],
    [Kind::Address, Kind::Claim, Kind::Pool],
];

const MOVE: Restoration = Restoration { order: 0, gap: 0, owners: Owners::Moved, has_status: false, is_stopped: false };

impl World {
    pub async fn restore(&self, site: &Site, how: Restoration) {
        self.witness.claims().expect_orphans();
        if how.is_stopped {
            site.kill_controllers();
        }
        let is_moved = how.owners == Owners::Moved;
        // clusterctl reads what it moves once the cluster is paused.
        if is_moved {
            self.pause_cluster(site, json!("true"));
            self.advance(Duration::from_secs(5)).await;
        }
        let backup = backup(site);
        let held = self.held_addresses(site, &backup);
        self.lose(site, is_moved);
        let order = ORDERS[if is_moved { 0 } else { usize::from(how.order) % ORDERS.len() }];
        for kind in order {
            self.advance(Duration::from_secs(how.gap.into())).await;
            backup.iter().filter(|(of, _)| *of == kind).for_each(|(_, object)| {
                self.recreate(site, kind, object, &how);
                self.expect_address(site, kind, object, &held);
            });
        }
        if is_moved {
            self.pause_cluster(site, Value::Null);
        }
    }

    /// Moves everything to another management cluster, as `clusterctl move` does: it is created there first.
    pub fn move_to(&self, from: &Site, to: &Site) {
        for (kind, object) in backup(from) {
            self.recreate(to, kind, &object, &MOVE);
        }
        self.lose(from, true);
    }

    fn pause_cluster(&self, site: &Site, value: Value) {
        site.change(Kind::Cluster, "c", &json!({"metadata": {"annotations": {PAUSED_ANNOTATION: value}}}));
    }

    /// Everything is gone at once.
    fn lose(&self, site: &Site, is_moved: bool) {
        for kind in [Kind::Address, Kind::Claim, Kind::Pool] {
            for object in site.server.all(kind) {
                let name = laws::text(&object, "/metadata/name");
                if is_moved {
                    let moved = json!({"metadata": {"annotations": {DELETE_FOR_MOVE_ANNOTATION: ""}}});
                    site.change(kind, name, &moved);
                }
                self.force_delete(site, kind, name);
            }
        }
    }

    fn recreate(&self, site: &Site, kind: Kind, old: &Value, how: &Restoration) {
        let name = laws::text(old, "/metadata/name");
        let mut new = json!({"metadata": {"name": name, "namespace": NAMESPACE}, "spec": old["spec"]});
        for field in ["annotations", "finalizers", "labels"] {
            new["metadata"][field] = old["metadata"][field].clone();
        }
        if let Some(references) = old["metadata"]["ownerReferences"].as_array() {
            let references: Vec<Value> =
                references.iter().filter_map(|owner| adjust(site, owner, how.owners)).collect();
            new["metadata"]["ownerReferences"] = references.into();
        }
        let is_created = site.server.create(kind, new).is_ok();
        if is_created && how.has_status {
            let restored = site.server.patch(&key(kind, name), Part::Status, &json!({"status": old["status"]}));
            if let Some(claim) = restored.ok().filter(|_| kind == Kind::Claim) {
                self.witness.claims().note_restored_status(&site.server, &claim);
            }
        }
    }

    /// The restored claim is the same claim: what it had, it has again. What was lost with it may have been released since,
    /// but must not have been.
    fn expect_address(&self, site: &Site, kind: Kind, old: &Value, held: &BTreeMap<Uid, IpAddr>) {
        let name = laws::text(old, "/metadata/name");
        let new = site.server.get(&key(kind, name)).filter(|_| kind == Kind::Claim);
        if let Some((new, address)) = new.zip(held.get(&Uid::of(&site.server, old))) {
            self.witness.claims().give(&Uid::of(&site.server, &new), *address);
        }
    }

    /// What each claim of a backup has, where the marks in Neutron show it.
    fn held_addresses(&self, site: &Site, backup: &[(Kind, Arc<Value>)]) -> BTreeMap<Uid, IpAddr> {
        let claims = backup.iter().filter(|(kind, _)| *kind == Kind::Claim);
        let held = claims.filter_map(|(_, claim)| {
            let uid = Uid::of(&site.server, claim);
            let binding = self.witness.claims().binding(&uid)?;
            let is_held = self.witness.is_held(&binding.fip, &binding.pool, &binding.claim);
            let is_alone = self.witness.count_marked_for(&binding.pool, &binding.claim) == 1;
            (is_held && is_alone).then_some((uid, binding.address))
        });
        held.collect()
    }
}

/// The objects that are not being deleted; an IPAddress only with its claim.
fn backup(site: &Site) -> Vec<(Kind, Arc<Value>)> {
    let lives = |kind: Kind, name: &str| {
        let object = site.server.get(&key(kind, name));
        object.is_some_and(|object| !is_deleting(&object))
    };
    let kinds = [Kind::Pool, Kind::Claim, Kind::Address];
    let objects =
        kinds.into_iter().flat_map(|kind| site.server.all(kind).into_iter().map(move |object| (kind, object)));
    objects
        .filter(|(kind, object)| {
            let name = laws::text(object, "/metadata/name");
            let claim = laws::text(object, "/spec/claimRef/name");
            lives(*kind, name) && (*kind != Kind::Address || lives(Kind::Claim, claim))
        })
        .collect()
}

/// An owner reference as it is restored; none without one.
fn adjust(site: &Site, owner: &Value, owners: Owners) -> Option<Value> {
    let mut owner = owner.clone();
    match owners {
        Owners::Dropped => return None,
        Owners::Kept => {}
        Owners::Moved => {
            let kind = if laws::text(&owner, "/kind") == "IPAddressClaim" { Kind::Claim } else { Kind::Pool };
            let now = site.server.get(&key(kind, laws::text(&owner, "/name")))?;
            owner["uid"] = now["metadata"]["uid"].clone();
        }
    }
    Some(owner)
}
