//! How a generated history ends: everything comes to rest, claims that come then are served or refused with reason, and
//! everything can be deleted. What a process remembers and should not shows only in what it does next.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use caip_openstack::allocation::mark::Marks;
use caip_openstack::api::names::{GROUP, POOL_KIND};
use caip_openstack::floating_ip::{FloatingIp, FloatingIpId};
use serde_json::{Value, json};

use crate::api::metadata::is_deleting;
use crate::api::objects::finalizers;
use crate::api::{Key, Kind};
use crate::events::CAPO_FINALIZER;
use crate::labels::is_serving;
use crate::laws::{self, FORGED_LABEL, Violation};
use crate::memory::Alteration;
use crate::tampering::COPY;
use crate::users::key;
use crate::world::{NAMESPACE, Site, World};

/// Longer than any timer after which a waiting claim is tried again, but the one for a cloud that drops descriptions.
const SERVED_WITHIN: Duration = Duration::from_secs(120);
const DELETED_WITHIN: Duration = Duration::from_secs(600);
/// For how long a cloud that never does as it is told is watched.
const ALTERED_FOR: Duration = Duration::from_secs(900);

/// The most floating IPs that a process creates at a time in a history: one for each of its waiting claims, at most.
const CREATED_AT_ONCE: usize = 4;

impl World {
    pub async fn end(&self, seed: u64) {
        self.skips_rest.set(true);
        // The other half is altered for ever: no law about marks can hold there.
        if !self.cloud.alteration().spares_marks() && seed.is_multiple_of(2) {
            self.advance(ALTERED_FOR).await;
            self.judge(false);
            return self.judge_unmarked();
        }
        self.cloud.alter(Alteration::None);
        self.settle().await;
        self.judge_unmarked();
        self.judge_counters();
        self.judge_labels();
        if !self.has_violations() {
            self.probe().await;
        }
        if !self.has_violations() {
            self.judge_order(seed).await;
        }
        if !self.has_violations() {
            self.tear_down(seed).await;
        }
    }

    /// Law 4: what we created has a mark, unless a fault kept us from deleting what the cloud did not mark. A process that
    /// dies has several calls under way.
    fn judge_unmarked(&self) {
        let (unmarked, faults) = (self.witness.unmarked(), self.witness.rates().interruptions());
        let is_leak = unmarked.len() > faults * CREATED_AT_ONCE;
        let how = format!("created and never marked, with {faults} faults: {unmarked:?}");
        self.violations.borrow_mut().extend(is_leak.then(|| Violation::new(4, "floating IPs", how)));
    }

    /// What a status counts as allocated belongs to claims, or to IPAddresses: of a claim that was removed by force, of
    /// another pool, or of another provider, which keep it from being released. What it counts as waiting has no address.
    /// A pool that refuses claims since it is exhausted says so.
    fn judge_counters(&self) {
        for site in &self.sites {
            let objects = [site.server.all(Kind::Claim), site.server.all(Kind::Address)].concat();
            let is_foreign = |object: &Value| laws::text(object, "/spec/poolRef/apiGroup") != GROUP;
            let foreign = objects.iter().filter(|object| is_foreign(object)).count();
            // The counters of others need not be those of now.
            for pool in site.server.all(Kind::Pool).into_iter().filter(|pool| is_serving(pool)) {
                let name = laws::text(&pool, "/metadata/name");
                // A copy counts what the original's claims have, whose pool is gone.
                let names = [name, name.trim_end_matches(COPY)];
                let of_pool = objects.iter().filter(|object| names.contains(&laws::text(object, "/spec/poolRef/name")));
                let claims: BTreeSet<&str> = of_pool.map(|object| laws::text(object, "/metadata/name")).collect();
                // The floating IP of an IPAddress was deleted, and this pool got its address.
                let of_others =
                    objects.iter().filter(|object| !names.contains(&laws::text(object, "/spec/poolRef/name")));
                let published: BTreeSet<&str> = of_others.map(|object| laws::text(object, "/spec/address")).collect();
                let id = laws::pool_id(&pool);
                let is_kept = |fip: &FloatingIp| {
                    published.contains(fip.address.to_string().as_str())
                        && id.as_ref().is_some_and(|id| Marks::read(fip).names(id))
                };
                let kept = self.cloud.floating_ips().iter().filter(|fip| is_kept(fip)).count();
                let allocated = pool["status"]["addresses"]["allocated"].as_u64().unwrap_or_default();
                // What users forged looks allocated until it is released as an orphan.
                let most = claims.len() + foreign + kept + self.witness.forged().len();
                let is_right = usize::try_from(allocated).is_ok_and(|allocated| allocated <= most);
                self.expect(4, name, &format!("{allocated} addresses allocated, but by {claims:?}"), is_right);
                let (shown, waiting) = (pool["status"]["claims"]["waiting"].as_u64(), site.waiting_claims(name));
                let is_right = shown == u64::try_from(waiting.len()).ok();
                self.expect(7, name, &format!("showing {shown:?} waiting claims, but for {waiting:?}"), is_right);
                let exhausted = laws::condition(&pool, "Exhausted").map_or("", |it| laws::text(it, "/status"));
                let is_right = exhausted == "True" || site.queue(&pool).is_empty();
                self.expect(7, name, "exhausted, since it refuses claims for that reason", is_right);
            }
        }
    }

    /// A new claim of each pool.
    async fn probe(&self) {
        self.trace.record(|| "--- new claims".to_owned());
        for site in &self.sites {
            for pool in site.server.all(Kind::Pool) {
                let name = laws::text(&pool, "/metadata/name");
                site.create_claim(&format!("late-{name}"), name);
                // One after the other: while a pool looks for an address that it may have, it holds what it may not.
                self.advance(Duration::from_secs(20)).await;
            }
        }
        self.advance(SERVED_WITHIN).await;
        self.judge(true);
    }

    /// Law 7: an address that is released, or that a higher limit allows, goes to the claim that has waited longest, also
    /// if the process that gives it is a new one.
    async fn judge_order(&self, seed: u64) {
        self.trace.record(|| "--- a pool gets an address back".to_owned());
        for site in &self.sites {
            for pool in site.server.all(Kind::Pool).into_iter().filter(|pool| is_serving(pool)) {
                let name = laws::text(&pool, "/metadata/name");
                if site.queue(&pool).is_empty() {
                    continue;
                }
                let youngest = format!("later-{name}");
                site.create_claim(&youngest, name);
                self.wait_until(SERVED_WITHIN, || site.has_condition(&youngest)).await;
                let (queue, offers) = (site.queue(&pool), self.witness.offers());
                if queue.len() < 2 || !self.make_room(site, &pool, seed).await {
                    continue;
                }
                self.wait_until(SERVED_WITHIN, || queue.iter().any(|claim| site.is_bound(claim))).await;
                // There may be room for several.
                self.advance(Duration::from_secs(30)).await;
                let served: Vec<bool> = queue.iter().map(|claim| site.is_bound(claim)).collect();
                let how = format!("serving the oldest of {queue:?} first, but {served:?}");
                // What was offered in vain uses the quota up until it is deleted (docs/guarantees.md, Limits).
                let is_in_order = served.is_sorted_by(|older, younger| older >= younger);
                self.expect(7, name, &how, is_in_order || self.witness.offers() > offers);
                self.served_in_order.set(self.served_in_order.get() + usize::from(served.contains(&true)));
            }
        }
        self.advance(SERVED_WITHIN).await;
        self.judge(true);
    }

    /// Deletes a claim of the pool or raises its limit, in some histories while its process ends. False if neither is
    /// possible.
    async fn make_room(&self, site: &Site, pool: &Value, seed: u64) -> bool {
        let name = laws::text(pool, "/metadata/name");
        // Whether there are two sites follows from the remainder by 3.
        match (seed / 3 % 3, pool["spec"]["maxIPs"].as_u64(), self.find_releasable(site, name)) {
            (0, Some(limit), _) => {
                site.kill_controllers();
                site.change(Kind::Pool, name, &json!({"spec": {"maxIPs": limit + 1}}));
            }
            (1, _, Some(released)) => {
                site.delete(Kind::Claim, &released);
                self.advance(Duration::from_millis(seed % 16 * 200)).await;
                site.kill_controllers();
            }
            (_, _, Some(released)) => site.delete(Kind::Claim, &released),
            (_, _, None) => return false,
        }
        true
    }

    /// A claim of the pool that is gone when it is deleted, and whose address is free then.
    fn find_releasable(&self, site: &Site, pool: &str) -> Option<String> {
        let claims = site.server.all(Kind::Claim).into_iter();
        let claims = claims.filter(|claim| {
            laws::text(claim, "/spec/poolRef/name") == pool && !finalizers(claim).contains(&CAPO_FINALIZER)
        });
        let mut names = claims.map(|claim| laws::text(&claim, "/metadata/name").to_owned());
        let fips = self.cloud.floating_ips();
        let is_idle = |id: &FloatingIpId| fips.iter().any(|fip| fip.id == *id && !fip.is_attached());
        names.find(|claim| site.is_bound(claim) && site.address_of(claim).is_some_and(|(_, id)| is_idle(&id)))
    }

    async fn tear_down(&self, seed: u64) {
        self.trace.record(|| "--- everything is deleted".to_owned());
        let orders = [
            [Kind::Claim, Kind::Pool, Kind::Secret],
            [Kind::Pool, Kind::Claim, Kind::Secret],
            [Kind::Secret, Kind::Pool, Kind::Claim],
        ];
        for site in &self.sites {
            site.drop_what_users_keep();
        }
        for kind in orders[(seed / 2 % 3) as usize] {
            for site in &self.sites {
                site.server.all(kind).iter().for_each(|object| site.delete(kind, laws::text(object, "/metadata/name")));
            }
            self.advance(Duration::from_secs(seed % 5)).await;
        }
        let left = || self.sites.iter().flat_map(Site::ours_left).collect::<Vec<_>>();
        self.wait_until(DELETED_WITHIN, || left().is_empty()).await;
        let left = left();
        self.expect(9, "everything", &format!("deleted: {left:?}"), left.is_empty());
        self.advance(Duration::from_secs(60)).await;
        self.judge(true);
    }
}

impl Site {
    /// The claims of the pool that have no address and are not being deleted.
    pub fn waiting_claims(&self, pool: &str) -> Vec<String> {
        let mut claims = self.server.all(Kind::Claim);
        claims.retain(|claim| {
            let pool_ref = ["apiGroup", "kind", "name"].map(|field| claim["spec"]["poolRef"][field].as_str());
            pool_ref == [Some(GROUP), Some(POOL_KIND), Some(pool)]
                && claim["status"].get("addressRef").is_none()
                && !is_deleting(claim)
        });
        claims.iter().map(|claim| laws::text(claim, "/metadata/name").to_owned()).collect()
    }

    /// The claims that were told that the pool has no address for them, and wait for any, the oldest first.
    fn queue(&self, pool: &Value) -> Vec<String> {
        let objects: Vec<Arc<Value>> = self.server.state().objects.values().cloned().collect();
        let reservations = pool["spec"]["reservations"].as_array().into_iter().flatten();
        let reserving: BTreeSet<&str> = reservations.map(|it| laws::text(it, "/claim")).collect();
        let mut queue: Vec<(String, String)> = Vec::new();
        for claim in self.waiting_claims(laws::text(pool, "/metadata/name")) {
            let Some(object) = self.server.get(&key(Kind::Claim, &claim)) else { continue };
            let is_refused =
                laws::condition(&object, "Ready").is_some_and(|ready| laws::text(ready, "/reason") == "PoolExhausted");
            if is_refused && !reserving.contains(claim.as_str()) && !laws::is_left_alone(&objects, &object) {
                queue.push((laws::text(&object, "/metadata/creationTimestamp").to_owned(), claim));
            }
        }
        queue.sort();
        queue.into_iter().map(|(_, claim)| claim).collect()
    }

    /// CAPO's finalizers, and the IPAddresses that users made.
    fn drop_what_users_keep(&self) {
        for claim in self.server.all(Kind::Claim) {
            let rest: Vec<&str> = finalizers(&claim).into_iter().filter(|it| *it != CAPO_FINALIZER).collect();
            self.change(Kind::Claim, laws::text(&claim, "/metadata/name"), &json!({"metadata": {"finalizers": rest}}));
        }
        for address in self.server.all(Kind::Address) {
            if address["metadata"]["labels"].get(FORGED_LABEL).is_some() {
                self.delete(Kind::Address, laws::text(&address, "/metadata/name"));
            }
        }
    }

    fn ours_left(&self) -> Vec<Key> {
        let state = self.server.state();
        let is_ours = |key: &Key, object: &Value| match key.kind {
            Kind::Claim | Kind::Pool | Kind::Secret => key.namespace == NAMESPACE,
            Kind::Address => laws::binding(&[], object, 0).is_some(),
            _ => false,
        };
        state.objects.iter().filter(|(key, object)| is_ours(key, object)).map(|(key, _)| key.clone()).collect()
    }
}
