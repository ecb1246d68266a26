//! What users do to floating IPs, and to the IPAddresses that name them.

use caip_openstack::allocation::mark::{Marks, Ownership, claim_tag};
use caip_openstack::allocation::{ClaimKey, PoolId};
use caip_openstack::api::names::{FLOATING_IP_ID_ANNOTATION, POOL_ID_ANNOTATION};
use caip_openstack::floating_ip::FloatingIp;
use serde_json::{Value, json};

use crate::api::{Change, Kind};
use crate::history::Tampering;
use crate::laws::{self, FORGED_LABEL};
use crate::users::key;
use crate::world::{ADDRESSES, NAMESPACE, Site, World, address};

/// What users fill a floating IP's tags with.
const FILLER: &str = "filler-";
/// At the end of the name of a copied pool.
pub const COPY: &str = "-copy";
/// As many as Neutron takes.
const FILLERS: usize = 50;

impl World {
    pub fn toggle_foreign_address(&self, site: &Site, index: u8) {
        let name = format!("other-{}", index % ADDRESSES);
        if site.server.get(&key(Kind::Address, &name)).is_some() {
            return site.delete(Kind::Address, &name);
        }
        self.users_interfered.set(true);
        let pool = json!({"apiGroup": "ipam.example.org", "kind": "Pool", "name": "p"});
        let spec =
            json!({"address": address(index).to_string(), "prefix": 32, "claimRef": {"name": name}, "poolRef": pool});
        let object = json!({"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec});
        let _ = site.server.create(Kind::Address, object);
    }

    pub fn toggle_cluster(&self, index: u8, named: u8) {
        let address = address(named).to_string();
        let spec = match named % 2 {
            0 => json!({"apiServerFloatingIP": address}),
            _ => json!({"bastion": {"floatingIP": address}}),
        };
        self.toggle_naming(index, Kind::OpenStackCluster, named, &spec);
    }

    pub fn toggle_in_tree_pool(&self, index: u8, listed: u8) {
        let spec = json!({"preAllocatedFloatingIPs": [address(listed).to_string()]});
        self.toggle_naming(index, Kind::InTreePool, listed, &spec);
    }

    /// An object of CAPO names an address, or is deleted.
    fn toggle_naming(&self, index: u8, kind: Kind, named: u8, spec: &Value) {
        let (site, number) = (self.site(index), usize::from(index) % self.sites.len());
        let name = format!("of-capo-{}", named % ADDRESSES);
        let is_there = site.server.get(&key(kind, &name)).is_some();
        self.witness.note_named(number, kind, address(named), !is_there);
        if is_there {
            return site.delete(kind, &name);
        }
        self.users_interfered.set(true);
        let _ = site.server.create(kind, json!({"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}));
    }

    pub fn tamper_with(&self, index: u8, how: Tampering) {
        let fips = self.cloud.floating_ips();
        let meant: Vec<_> = fips.iter().filter(|fip| is_meant(fip, how)).collect();
        let Some(fip) = meant.get(usize::from(index) % meant.len().max(1)) else { return };
        let id = fip.id.clone();
        self.users_interfered.set(true);
        self.tamper(|world| match how {
            Tampering::Attach | Tampering::AttachReleased => _ = world.cloud.set_port(&id, Some("port-of-a-user")),
            Tampering::Detach => _ = world.cloud.set_port(&id, None),
            Tampering::Forward => _ = world.cloud.toggle_forwarding(&id),
            Tampering::Delete => _ = world.cloud.delete(&id),
            Tampering::CopyDescription => {
                let other = fips.iter().find(|other| other.id != id && other.description.is_empty());
                let copy = |copy: &mut FloatingIp| copy.description.clone_from(&fip.description);
                other.iter().for_each(|other| _ = world.cloud.edit(&other.id, copy));
            }
            how => _ = world.cloud.edit(&id, |fip| world.write_text(fip, how)),
        });
    }

    /// What a user changes in a floating IP's description and tags.
    fn write_text(&self, fip: &mut FloatingIp, how: Tampering) {
        match how {
            Tampering::Tag => _ = fip.tags.insert("prod".into()),
            Tampering::DescribeUnmarked => fip.description = "mail".into(),
            // Not over the mark of what a pool created.
            Tampering::Describe if Marks::read(fip).created.is_none() => fip.description = "mail".into(),
            Tampering::Wipe => {
                fip.tags.clear();
                fip.description.clear();
            }
            Tampering::Mark => {
                let theirs = PoolId::parse("theirs").unwrap();
                fip.tags.insert(claim_tag(&theirs, &ClaimKey::of("a", "b")));
            }
            Tampering::Fill | Tampering::FillMarked => fill(fip),
            Tampering::Empty => empty(fip),
            Tampering::MarkForNobody => {
                fip.tags.extend(self.any_pool_id().map(|pool| claim_tag(&pool, &ClaimKey::of("a", "b"))));
            }
            Tampering::MarkReleased(is_future) => {
                fip.tags.extend(forged_release(fip, is_future));
            }
            Tampering::Garble => _ = fip.tags.insert("caip.unreadable".into()),
            _ => {}
        }
    }

    fn any_pool_id(&self) -> Option<PoolId> {
        let mut pools = self.sites.iter().flat_map(|site| site.server.all(Kind::Pool));
        pools.find_map(|pool| laws::pool_id(&pool))
    }

    /// A user copies a claim's IPAddress to another claim's name.
    pub fn copy_address(&self, from: u8, to: u8) {
        self.users_interfered.set(true);
        let ((site, from, pool), (_, to, _)) = (self.claim(from), self.claim(to));
        let Some(original) = site.server.get(&key(Kind::Address, &from)).filter(|_| from != to) else { return };
        let mut copy = forged(&original, &to);
        copy["spec"]["poolRef"]["name"] = pool.into();
        let _ = site.server.create(Kind::Address, copy);
    }

    /// As from a backup that knows the floating IP that the claim had when it was made.
    pub fn restore_address(&self, claim: u8) {
        self.users_interfered.set(true);
        let (site, name, pool) = self.claim(claim);
        let last = {
            let state = site.server.state();
            let of_claim = |change: &&Change| change.key == key(Kind::Address, &name);
            state.changes.iter().rev().find(of_claim).map(|change| change.object.clone())
        };
        let Some(last) = last else { return };
        site.create_claim(&name, pool);
        let _ = site.server.create(Kind::Address, forged(&last, &name));
    }

    pub fn toggle_copied_pool(&self, pool: u8) {
        self.users_interfered.set(true);
        let (site, name) = self.pool(pool);
        let copy = format!("{name}{COPY}");
        if site.server.get(&key(Kind::Pool, &copy)).is_some() {
            site.delete(Kind::Pool, &copy);
        } else if let Some(pool) = site.server.get(&key(Kind::Pool, name)) {
            let annotations = pool["metadata"]["annotations"].clone();
            let meta = json!({"name": copy, "namespace": NAMESPACE, "annotations": annotations});
            let _ = site.server.create(Kind::Pool, json!({"metadata": meta, "spec": pool["spec"]}));
        }
    }

    /// A user removes or changes what an IPAddress says about its floating IP.
    pub fn edit_annotation(&self, index: u8, how: u8) {
        self.users_interfered.set(true);
        let (site, name, _) = self.claim(index);
        let fips = self.cloud.floating_ips();
        let another = fips.get(usize::from(how) % fips.len().max(1)).map(|fip| fip.id.as_str());
        let annotations = match how % 4 {
            0 => json!({FLOATING_IP_ID_ANNOTATION: null, POOL_ID_ANNOTATION: null}),
            1 => json!({FLOATING_IP_ID_ANNOTATION: null}),
            2 => json!({POOL_ID_ANNOTATION: "theirs"}),
            _ => json!({FLOATING_IP_ID_ANNOTATION: another}),
        };
        let labels = json!({FORGED_LABEL: "true"});
        site.change(Kind::Address, &name, &json!({"metadata": {"annotations": annotations, "labels": labels}}));
    }
}

/// Whether a user who does this means such a floating IP.
fn is_meant(fip: &FloatingIp, how: Tampering) -> bool {
    let marks = Marks::read(fip);
    match how {
        Tampering::AttachReleased => !marks.releases.is_empty(),
        Tampering::DescribeUnmarked => marks.is_empty() && fip.description.is_empty(),
        Tampering::FillMarked => !marks.is_empty(),
        Tampering::MarkReleased(_) => holder(fip).is_some(),
        _ => true,
    }
}

/// The claim that has it, and its pool.
fn holder(fip: &FloatingIp) -> Option<(PoolId, ClaimKey)> {
    let marks = Marks::read(fip);
    let claim = |pool: &PoolId| match marks.ownership(pool) {
        Ownership::Claimed(claim) => Some((pool.clone(), claim)),
        _ => None,
    };
    marks.pools().into_iter().find_map(claim)
}

fn fill(fip: &mut FloatingIp) {
    let room = FILLERS.saturating_sub(fip.tags.len());
    fip.tags.extend((0..room).map(|index| format!("{FILLER}{index}")));
}

fn empty(fip: &mut FloatingIp) {
    fip.tags.retain(|tag| !tag.starts_with(FILLER));
}

/// A release of the claim that has the floating IP, long ago or at the end of time.
fn forged_release(fip: &FloatingIp, is_future: bool) -> Option<String> {
    let (pool, claim) = holder(fip)?;
    let at = if is_future { jiff::Timestamp::MAX.as_second() } else { 1 };
    Some(format!("caip-out.{pool}.{claim}.{at:x}"))
}

/// An IPAddress that a user makes of another one, for a claim.
pub fn forged(original: &Value, claim: &str) -> Value {
    let annotations = &original["metadata"]["annotations"];
    let labels = json!({FORGED_LABEL: "true"});
    let meta = json!({"name": claim, "namespace": NAMESPACE, "annotations": annotations, "labels": labels});
    let mut copy = json!({"metadata": meta, "spec": original["spec"]});
    copy["spec"]["claimRef"]["name"] = claim.into();
    copy
}
