//! What each event of a history does to the world.

use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use caip_openstack::allocation::PoolId;
use caip_openstack::api::names::{PAUSED_ANNOTATION, POOL_ID_ANNOTATION};
use serde_json::{Value, json};

use crate::api::Kind;
use crate::api::deletion::{Deletion, Propagation};
use crate::api::metadata::is_deleting;
use crate::api::objects::finalizers;
use crate::claims::Uid;
use crate::generator::{call_fault, hang, outage_fault, outage_share, side};
use crate::history::Event;
use crate::laws;
use crate::tampering::COPY;
use crate::told;
use crate::users::key;
use crate::wire::Wire;
use crate::world::{ADDRESSES, Site, World, address};

/// The pools of each site: the same names everywhere.
pub const POOLS: [&str; 2] = ["public", "second"];
/// Claims of each site: the first of each pair is of the first pool.
const CLAIMS: u8 = 6;
/// What an overwritten id of a pool begins with.
const WIPED: &str = "wiped";
/// CAPO's finalizer on a claim, until the machine is gone.
pub const CAPO_FINALIZER: &str = "openstackmachine.infrastructure.cluster.x-k8s.io/ip-claim";

impl World {
    pub fn site(&self, index: u8) -> &Site {
        &self.sites[usize::from(index) % self.sites.len()]
    }

    /// A site, one of its claims' names, and that claim's pool.
    pub fn claim(&self, index: u8) -> (&Site, String, &'static str) {
        let local = usize::from(index) / self.sites.len() % usize::from(CLAIMS);
        (self.site(index), format!("web-{local}"), POOLS[local % 2])
    }

    pub fn pool(&self, index: u8) -> (&Site, &'static str) {
        (self.site(index), POOLS[usize::from(index) / self.sites.len() % 2])
    }

    fn process(&self, index: u8) -> &crate::process::Process {
        let site = self.site(index);
        let leader = || site.replicas.iter().find(|replica| site.is_leader(replica));
        let leader = if index < Event::LEADER { None } else { leader() };
        leader.unwrap_or(&site.replicas[usize::from(index) / self.sites.len() % site.replicas.len()])
    }

    pub async fn apply(&self, event: Event) {
        self.trace.record(|| format!("--- {event:?}"));
        match event {
            Event::Pass(time) => self.advance(Duration::from_millis(u64::from(time) * 10)).await,
            Event::CreatePool(pool) => {
                let (site, name) = self.pool(pool);
                site.create_pool(name, &json!({"floatingIPNetwork": {"filter": {"name": "public"}}}));
            }
            Event::CreatePoolWithId(number) => {
                let (site, name) = self.pool(number);
                let id = format!("given-{}-{name}", usize::from(number) % self.sites.len());
                site.create_pool(name, &json!({"floatingIPNetwork": {"filter": {"name": "public"}}, "poolID": id}));
            }
            Event::DeletePool(pool, is_foreground) => self.delete_pool(pool, is_foreground),
            Event::Edit(pool, edit) => self.edit(pool, edit),
            Event::CreateClaim(claim) => {
                let (site, name, pool) = self.claim(claim);
                self.note_unseen_edit(site, pool);
                site.create_claim(&name, pool);
            }
            Event::DeleteClaim(claim) => self.delete_claim(claim),
            Event::ForceDeleteClaim(claim) => self.force_delete_claim(claim),
            Event::ToggleFinalizer(claim) => self.toggle_finalizer(claim),
            Event::DeleteAddress(claim) => self.claim(claim).0.delete(Kind::Address, &self.claim(claim).1),
            Event::StartMachine(claim) => self.start_machine(claim),
            Event::StopMachine(claim) => self.stop_machine(claim),
            Event::Tamper(fip, how) => self.tamper_with(fip, how),
            Event::CreateFloatingIp(index) => self.create_floating_ip(address(index)),
            Event::ToggleForeignAddress(site, index) => self.toggle_foreign_address(self.site(site), index),
            Event::ToggleCluster(site, index) => self.toggle_cluster(site, index),
            Event::ToggleInTreePool(site, index) => self.toggle_in_tree_pool(site, index),
            Event::TogglePause(what, index) => self.toggle_pause(what, index),
            Event::WipeId(pool) => self.wipe_id(pool),
            Event::ToggleSecret(site) => self.toggle_secret(&self.site(site).server),
            Event::Alter(how) => self.alter(how),
            Event::LimitQuota(limit) => {
                let limit = u32::from(limit % 12);
                self.quota_has_changed.set(true);
                self.cloud.set_quota(&self.project, (limit < u32::from(ADDRESSES)).then_some(limit));
            }
            Event::Revoke => self.revoke(),
            Event::RenewSecret(site) => self.renew_secret(&self.site(site).server),
            Event::MisdirectSecret(site, is_project) => self.misdirect_secret(&self.site(site).server, is_project),
            Event::RenameNetwork => self.rename_network(),
            Event::MoveNeutron => self.cloud.move_neutron(),
            Event::MoveKeystone(site) => self.move_keystone(&self.site(site).server),
            Event::CopyAddress(from, to) => self.copy_address(from, to),
            Event::RestoreAddress(claim) => self.restore_address(claim),
            Event::ToggleCopiedPool(pool) => self.toggle_copied_pool(pool),
            Event::EditAnnotation(address, how) => self.edit_annotation(address, how),
            Event::EditConfigMap(index, how) => self.edit_config_map(index, how),
            Event::ForceDeletePool(pool) => self.force_delete_pool(pool),
            Event::Restore(site, how) => self.restore(self.site(site), how).await,
            trouble => self.cause(trouble),
        }
    }

    /// What goes wrong in a process, or between it and the servers.
    fn cause(&self, trouble: Event) {
        match trouble {
            Event::Fault(process, after, kind) => {
                self.with_wire(process, |wire| wire.plan(wire.calls() + usize::from(after), call_fault(kind)));
            }
            Event::FaultInWrite(process, kind) => self.with_wire(process, |wire| wire.plan_write(call_fault(kind))),
            Event::Outage(process, to, kind, seconds) => {
                let lasts = Duration::from_secs(seconds.into());
                self.process(process).add_outage(side(to), outage_fault(kind), outage_share(kind), lasts);
            }
            Event::Kill(process) => self.with_wire(process, Wire::kill),
            Event::Terminate(process) => self.process(process).terminate.notify_waiters(),
            Event::ExpireWatches(site) => self.site(site).server.expire_watches(),
            Event::CutWatches(site) => self.site(site).server.cut_watches(),
            Event::JumpClock(process, seconds) => self.process(process).skew.store(seconds.into(), Relaxed),
            Event::Freeze(process, seconds) => self.with_wire(process, |wire| wire.freeze(seconds_of(seconds))),
            Event::Hang(process, what, seconds) => {
                let (plural, fault) = hang(what);
                self.with_wire(process, |wire| wire.hang(plural, fault, seconds_of(seconds)));
            }
            Event::Stall(process, seconds, ends) => {
                self.with_wire(process, |wire| wire.stall_watches(seconds_of(seconds)));
                if ends {
                    self.site(process).server.expire_watches();
                }
            }
            Event::ToggleSkipping(process) => self.with_wire(process, |wire| wire.skip_states(!wire.skips_states())),
            other => unreachable!("{other:?} is no trouble"),
        }
    }

    fn with_wire(&self, process: u8, act: impl FnOnce(&Wire)) {
        if let Some(wire) = self.process(process).wire() {
            act(&wire);
        }
    }

    fn delete_pool(&self, pool: u8, is_foreground: bool) {
        self.users_interfered.set(true);
        let (site, name) = self.pool(pool);
        self.note_left_to_copy(site, name);
        let propagation = is_foreground.then_some(Propagation::Foreground);
        let _ = site.server.delete(&key(Kind::Pool, name), &Deletion { propagation, ..Deletion::default() });
    }

    fn delete_claim(&self, claim: u8) {
        let (site, name, _) = self.claim(claim);
        let address = site.server.get(&key(Kind::Address, &name));
        let pool = address.as_deref().and_then(|address| told::pool_of(&site.server, address));
        // Its id was overwritten a moment ago, and the IPAddress that shows it goes.
        if pool.is_some_and(|pool| laws::pool_id(&pool).is_some_and(|id| id.as_str().starts_with(WIPED))) {
            self.lost_ids.borrow_mut().extend(address.as_deref().and_then(laws::pool_id));
        }
        site.delete(Kind::Claim, &name);
    }

    fn force_delete_claim(&self, claim: u8) {
        let (site, name, _) = self.claim(claim);
        self.users_interfered.set(true);
        self.force_delete(site, Kind::Claim, &name);
    }

    /// Removes an object by hand, finalizers or not.
    pub fn force_delete(&self, site: &Site, kind: Kind, name: &str) {
        if let Some(object) = site.server.get(&key(kind, name)) {
            self.witness.claims().note_forced(&Uid::of(&site.server, &object));
        }
        site.delete_by_force(kind, name);
    }

    fn force_delete_pool(&self, pool: u8) {
        self.users_interfered.set(true);
        let (site, name) = self.pool(pool);
        self.note_left_to_copy(site, name);
        let pool = site.server.get(&key(Kind::Pool, name));
        // A user may have wiped its id, which its status and its IPAddresses then still show.
        let reported = pool.as_deref().and_then(reported_id);
        let addresses = site.server.all(Kind::Address).into_iter();
        let addresses = addresses.filter(|address| address["spec"]["poolRef"]["name"] == name);
        let ids = pool.into_iter().chain(addresses).filter_map(|object| laws::pool_id(&object));
        self.lost_ids.borrow_mut().extend(ids.chain(reported));
        self.force_delete(site, Kind::Pool, name);
    }

    /// A copy of the pool has what it had, whatever the copy's own limit is.
    fn note_left_to_copy(&self, site: &Site, pool: &str) {
        if site.server.get(&key(Kind::Pool, &format!("{pool}{COPY}"))).is_some() {
            self.raise_floor(site, pool);
        }
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
        if self.has_claims() {
            self.users_interfered.set(true);
        }
        self.tamper(|world| {
            if world.cloud.floating_ips().iter().all(|fip| fip.address != address) {
                world.cloud.create_at(&world.project, &world.network, address);
            }
        });
    }

    fn has_claims(&self) -> bool {
        self.sites.iter().any(|site| !site.server.all(Kind::Claim).is_empty())
    }

    /// Removes a pool's id, or overwrites it.
    fn wipe_id(&self, number: u8) {
        self.users_interfered.set(true);
        let (site, name) = self.pool(number);
        let new = (number > u8::MAX / 2).then(|| format!("{WIPED}{}", site.server.version()));
        // A process that dies before it has written the id again can only read it from the status or from an IPAddress that
        // stays; if it was overwritten, from both.
        let shows_id = |address: &Value| {
            let claim = laws::text(address, "/spec/claimRef/name");
            address["spec"]["poolRef"]["name"] == name && !self.is_deleting(site, claim)
        };
        let pool = site.server.get(&key(Kind::Pool, name));
        let reported = pool.as_deref().and_then(reported_id);
        let is_shown = site.server.all(Kind::Address).iter().any(|address| shows_id(address));
        let is_kept = if new.is_some() { reported.is_some() && is_shown } else { reported.is_some() || is_shown };
        if !is_kept {
            // The annotation may have been removed before.
            let shown = pool.as_deref().and_then(laws::pool_id);
            self.lost_ids.borrow_mut().extend(shown.into_iter().chain(reported));
        }
        site.change(Kind::Pool, name, &json!({"metadata": {"annotations": {POOL_ID_ANNOTATION: new}}}));
    }

    pub fn is_deleting(&self, site: &Site, claim: &str) -> bool {
        let claim = site.server.get(&key(Kind::Claim, claim));
        claim.is_none_or(|claim| is_deleting(&claim))
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

    fn edit_config_map(&self, index: u8, how: u8) {
        let site = self.site(index);
        let all = site.server.all(Kind::ConfigMap);
        let Some(found) = all.get(usize::from(index) / self.sites.len() % all.len().max(1)) else { return };
        let name = laws::text(found, "/metadata/name");
        match how % 5 {
            0 => site.delete(Kind::ConfigMap, name),
            1 => site.change(Kind::ConfigMap, name, &json!({"data": {"addresses": "198.51.100.1\n"}})),
            2 => site.change(Kind::ConfigMap, name, &json!({"data": null})),
            3 => site.change(Kind::ConfigMap, name, &json!({"data": {"theirs": "kept"}})),
            _ => site.change(Kind::ConfigMap, name, &json!({"metadata": {"ownerReferences": null}})),
        }
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
}

fn seconds_of(seconds: u8) -> Duration {
    Duration::from_secs(seconds.into())
}

/// The id in a pool's status.
fn reported_id(pool: &Value) -> Option<PoolId> {
    PoolId::parse(laws::text(pool, "/status/poolID"))
}
