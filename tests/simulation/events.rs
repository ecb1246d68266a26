//! What each event of a history does to the world.

use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use caip_openstack::allocation::mark::{Marks, claim_tag};
use caip_openstack::allocation::{ClaimKey, PoolId};
use caip_openstack::api::names::{PAUSED_ANNOTATION, POOL_ID_ANNOTATION};
use serde_json::{Value, json};

use crate::api::objects::{Deletion, finalizers};
use crate::api::{ApiServer, Kind};
use crate::history::{Edit, Event, Tampering, call_fault, outage_fault, side};
use crate::laws;
use crate::users::key;
use crate::world::{ADDRESSES, NAMESPACE, Site, World, address};

/// The pools of each site: the same names everywhere.
pub const POOLS: [&str; 2] = ["public", "second"];
/// Claims of each site: the first of each pair is of the first pool.
const CLAIMS: u8 = 6;
/// CAPO's finalizer on a claim, until the machine is gone.
const CAPO_FINALIZER: &str = "openstackmachine.infrastructure.cluster.x-k8s.io/ip-claim";

impl World {
    fn site(&self, index: u8) -> &Site {
        &self.sites[usize::from(index) % self.sites.len()]
    }

    /// A site, one of its claims' names, and that claim's pool.
    fn claim(&self, index: u8) -> (&Site, String, &'static str) {
        let local = usize::from(index) / self.sites.len() % usize::from(CLAIMS);
        (self.site(index), format!("web-{local}"), POOLS[local % 2])
    }

    fn pool(&self, index: u8) -> (&Site, &'static str) {
        (self.site(index), POOLS[usize::from(index) / self.sites.len() % 2])
    }

    fn process(&self, index: u8) -> &crate::process::Process {
        let site = self.site(index);
        &site.replicas[usize::from(index) / self.sites.len() % site.replicas.len()]
    }

    pub async fn apply(&self, event: Event) {
        self.trace.record(|| format!("--- {event:?}"));
        match event {
            Event::Pass(time) => self.advance(Duration::from_millis(u64::from(time) * 10)).await,
            Event::CreatePool(pool) => {
                let (site, name) = self.pool(pool);
                site.create_pool(name, &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
            }
            Event::DeletePool(pool, is_foreground) => self.delete_pool(pool, is_foreground),
            Event::Edit(pool, edit) => self.edit(pool, edit),
            Event::CreateClaim(claim) => {
                let (site, name, pool) = self.claim(claim);
                site.create_claim(&name, pool);
            }
            Event::DeleteClaim(claim) => self.claim(claim).0.delete(Kind::Claim, &self.claim(claim).1),
            Event::ForceDeleteClaim(claim) => self.force_delete_claim(claim),
            Event::ToggleFinalizer(claim) => self.toggle_finalizer(claim),
            Event::DeleteAddress(claim) => self.claim(claim).0.delete(Kind::Address, &self.claim(claim).1),
            Event::StartMachine(claim) => self.start_machine(claim),
            Event::StopMachine(claim) => self.stop_machine(claim),
            Event::Tamper(fip, how) => self.tamper_with(fip, how),
            Event::CreateFloatingIp(index) => self.create_floating_ip(address(index)),
            Event::ToggleForeignAddress(site, index) => self.toggle_foreign_address(self.site(site), index),
            Event::TogglePause(what, index) => self.toggle_pause(what, index),
            Event::WipeId(pool) => self.wipe_id(pool),
            Event::ToggleSecret(site) => self.toggle_secret(&self.site(site).server),
            Event::Fault(process, after, kind) => {
                if let Some(wire) = self.process(process).wire() {
                    wire.plan(wire.calls() + usize::from(after), call_fault(kind));
                }
            }
            Event::Outage(process, to, kind, seconds) => {
                let lasts = Duration::from_secs(seconds.into());
                self.process(process).add_outage(side(to), outage_fault(kind), 1 + kind % 8, lasts);
            }
            Event::Kill(process) => {
                if let Some(wire) = self.process(process).wire() {
                    wire.kill();
                }
            }
            Event::Terminate(process) => self.process(process).terminate.notify_waiters(),
            Event::ExpireWatches(site) => self.site(site).server.expire_watches(),
            Event::CutWatches(site) => self.site(site).server.cut_watches(),
            Event::JumpClock(process, seconds) => self.process(process).skew.store(seconds.into(), Relaxed),
        }
    }

    fn delete_pool(&self, pool: u8, is_foreground: bool) {
        self.users_interfered.set(true);
        let (site, name) = self.pool(pool);
        let _ = site.server.delete(&key(Kind::Pool, name), &Deletion { is_foreground, ..Deletion::default() });
    }

    fn force_delete_claim(&self, claim: u8) {
        let (site, name, _) = self.claim(claim);
        self.users_interfered.set(true);
        site.change(Kind::Claim, &name, &json!({"metadata": {"finalizers": null}}));
        site.delete(Kind::Claim, &name);
    }

    fn start_machine(&self, claim: u8) {
        let (site, name, _) = self.claim(claim);
        let bound = site.address_of(&name).filter(|_| site.is_bound(&name));
        if let Some((_, id)) = bound.filter(|_| !self.is_deleting(site, &name)) {
            self.tamper(|world| world.cloud.set_port(&id, Some(&format!("port-of-{name}"))));
        }
    }

    fn stop_machine(&self, claim: u8) {
        let (site, name, _) = self.claim(claim);
        if let Some((_, id)) = site.address_of(&name) {
            self.tamper(|world| world.cloud.set_port(&id, None));
        }
    }

    fn create_floating_ip(&self, address: IpAddr) {
        self.users_interfered.set(true);
        self.tamper(|world| {
            if world.cloud.floating_ips().iter().all(|fip| fip.address != address) {
                world.cloud.create_at(&world.project, &world.network, address);
            }
        });
    }

    fn wipe_id(&self, pool: u8) {
        self.users_interfered.set(true);
        let (site, name) = self.pool(pool);
        // A process that dies before it has written the id again can only read it from an IPAddress that stays.
        let shows_id = |address: &Value| {
            let claim = laws::text(address, "/spec/claimRef/name");
            address["spec"]["poolRef"]["name"] == name && !self.is_deleting(site, claim)
        };
        if !site.server.all(Kind::Address).iter().any(|address| shows_id(address)) {
            let pool = site.server.get(&key(Kind::Pool, name));
            self.lost_ids.borrow_mut().extend(pool.as_deref().and_then(laws::pool_id));
        }
        site.change(Kind::Pool, name, &json!({"metadata": {"annotations": {POOL_ID_ANNOTATION: null}}}));
    }

    fn toggle_secret(&self, server: &ApiServer) {
        let secret = key(Kind::Secret, "cloud");
        if server.get(&secret).is_some() {
            let _ = server.delete(&secret, &Deletion::default());
        } else {
            self.create_secret(server);
        }
    }

    fn is_deleting(&self, site: &Site, claim: &str) -> bool {
        let claim = site.server.get(&key(Kind::Claim, claim));
        claim.is_none_or(|claim| claim["metadata"].get("deletionTimestamp").is_some())
    }

    fn toggle_finalizer(&self, claim: u8) {
        let (site, name, _) = self.claim(claim);
        let Some(object) = site.server.get(&key(Kind::Claim, &name)) else { return };
        let mut all = finalizers(&object);
        match all.iter().position(|finalizer| *finalizer == CAPO_FINALIZER) {
            Some(at) => drop(all.remove(at)),
            None => all.push(CAPO_FINALIZER),
        }
        site.change(Kind::Claim, &name, &json!({"metadata": {"finalizers": all}}));
    }

    fn toggle_pause(&self, what: u8, index: u8) {
        let (kind, site, name) = match what % 3 {
            0 => (Kind::Cluster, self.site(index), "c".to_owned()),
            1 => (Kind::Pool, self.pool(index).0, self.pool(index).1.to_owned()),
            _ => (Kind::Claim, self.claim(index).0, self.claim(index).1),
        };
        let Some(object) = site.server.get(&key(kind, &name)) else { return };
        let is_paused = object["metadata"]["annotations"].get(PAUSED_ANNOTATION).is_some();
        let value = if is_paused { Value::Null } else { "true".into() };
        site.change(kind, &name, &json!({"metadata": {"annotations": {PAUSED_ANNOTATION: value}}}));
    }

    fn toggle_foreign_address(&self, site: &Site, index: u8) {
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

    fn tamper_with(&self, index: u8, how: Tampering) {
        let fips = self.cloud.floating_ips();
        let Some(fip) = fips.get(usize::from(index) % fips.len().max(1)) else { return };
        let id = fip.id.clone();
        self.users_interfered.set(true);
        let marks = Marks::read(fip);
        self.tamper(|world| {
            let edit =
                |change: &dyn Fn(&mut caip_openstack::floating_ip::FloatingIp)| _ = world.cloud.edit(&id, change);
            match how {
                Tampering::Attach => _ = world.cloud.set_port(&id, Some("port-of-a-user")),
                Tampering::Detach => _ = world.cloud.set_port(&id, None),
                Tampering::Delete => _ = world.cloud.delete(&id),
                Tampering::Tag => edit(&|fip| _ = fip.tags.insert("prod".into())),
                Tampering::Describe if marks.created.is_some() => {}
                Tampering::Describe => edit(&|fip| fip.description = "mail".into()),
                Tampering::Wipe => edit(&|fip| {
                    fip.tags.clear();
                    fip.description.clear();
                }),
                Tampering::Mark => edit(&|fip| {
                    let theirs = PoolId::parse("theirs").unwrap();
                    fip.tags.insert(claim_tag(&theirs, &ClaimKey::of("a", "b")));
                }),
            }
        });
    }

    fn edit(&self, pool: u8, edit: Edit) {
        self.users_interfered.set(true);
        let (site, name) = self.pool(pool);
        let Some(object) = site.server.get(&key(Kind::Pool, name)) else { return };
        let spec = &object["spec"];
        let change = match edit {
            Edit::Limit(limit) => {
                let limit = limit % 6;
                // Creations that are under way may still land.
                let floor = self.marked(site, name) + 4;
                self.floors.borrow_mut().insert((site.server.id(), name.to_owned()), floor);
                json!({"maxIPs": if limit == 5 { Value::Null } else { limit.into() }})
            }
            Edit::List(index) => toggle_item(spec, "preAllocatedFloatingIPs", address(index).to_string().into()),
            Edit::Exclude(index) => toggle_item(spec, "excludedAddresses", address(index).to_string().into()),
            Edit::Reserve(claim, index) => toggle_reservation(spec, &self.claim(claim).1, address(index)),
            Edit::Preallocate(count) => json!({"preallocate": count % 3}),
            Edit::Retain => {
                json!({"reclaimPolicy": if spec["reclaimPolicy"] == "Retain" { "Delete" } else { "Retain" }})
            }
            Edit::Reuse(how) => {
                let (policy, tags) = [("Never", Value::Null), ("Unmarked", Value::Null), ("Tagged", json!(["prod"]))]
                    [usize::from(how % 3)]
                .clone();
                json!({"reuse": {"policy": policy, "tags": tags, "minIdleSeconds": 60 * (1 + how / 3 % 2)}})
            }
            Edit::Grace(seconds) => json!({"reuseGracePeriodSeconds": seconds % 60}),
            Edit::OrphanGrace(seconds) => json!({"orphans": {"graceSeconds": 60 + seconds % 60}}),
            Edit::Subnets => toggle(spec, "subnets", json!([{"filter": {"name": "v4"}}])),
            Edit::Network => toggle(spec, "floatingIPNetwork", json!({"filter": {"name": "public"}})),
        };
        site.change(Kind::Pool, name, &json!({"spec": change}));
    }

    /// How many floating IPs carry a pool's mark.
    fn marked(&self, site: &Site, pool: &str) -> usize {
        let id = site.server.get(&key(Kind::Pool, pool)).and_then(|pool| crate::laws::pool_id(&pool));
        let Some(id) = id else { return 0 };
        self.cloud.floating_ips().iter().filter(|fip| Marks::read(fip).pools().contains(&id)).count()
    }

    /// Ends what keeps the controllers from their work, so that everything can come to rest.
    pub fn unblock(&self) {
        for site in &self.sites {
            for kind in [Kind::Cluster, Kind::Pool, Kind::Claim] {
                for object in site.server.all(kind) {
                    let name = crate::laws::text(&object, "/metadata/name").to_owned();
                    if object["metadata"]["annotations"].get(PAUSED_ANNOTATION).is_some() {
                        site.change(kind, &name, &json!({"metadata": {"annotations": {PAUSED_ANNOTATION: null}}}));
                    }
                }
            }
            let secret = site.server.get(&key(Kind::Secret, "cloud"));
            if secret.is_none() {
                self.create_secret(&site.server);
            }
        }
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
