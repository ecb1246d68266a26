//! What is known of each claim, by the pool that it points at. A claim's spec never changes, and so neither does its pool.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::watched::{WatchedObject, hash, metadata_input};
use crate::allocation::ClaimKey;
use crate::allocation::situation::{ClaimState, QueuePosition};
use crate::api::conditions::{ClaimReport, DesiredCondition, is_claim_refused};
use crate::api::{IpAddress, IpAddressClaim, IpamVersion};
use crate::clock::instant_after;
use crate::controllers::stores::name_of;
use crate::object_name::ObjectName;

/// How long to wait for the watch to deliver an IPAddress that exists. After that, it was deleted before the watch saw it.
pub(in crate::controllers) const ADDRESS_APPEARS_WITHIN: Duration = Duration::from_secs(10);
/// How long after it was sent a creation without an answer may still take effect: kube-apiserver ends a request after
/// `--request-timeout`, 60 s by default.
const CREATION_LANDS_WITHIN: Duration = Duration::from_secs(60);

/// A claim that has no address, or has lost it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::controllers) struct WaitingClaim {
    /// The reason of its condition.
    pub(in crate::controllers) reason: &'static str,
    /// It had an address, and so has a machine: how it lost that.
    pub(in crate::controllers) lost: Option<&'static str>,
    /// From its condition, or from this process.
    pub(in crate::controllers) since: Timestamp,
}

#[derive(Default)]
struct ClaimRecord {
    uid: Option<String>,
    /// It has not been reconciled yet.
    is_new: bool,
    /// It has no address, whether or not its condition says why.
    is_waiting: bool,
    /// Its position among those that were refused an address.
    queued: Option<QueuePosition>,
    /// It was skipped because of its pool.
    is_skipped: bool,
    watched: WatchedObject,
    /// Its finalizer was removed while it was being deleted. The reply to that patch has no version of its own.
    is_released: bool,
    /// It is being deleted, and its last release failed.
    is_release_failing: bool,
    /// An event says that it is paused.
    is_paused: bool,
}

#[derive(Default)]
struct PoolClaims {
    records: BTreeMap<ObjectName, ClaimRecord>,
    /// The same claims, as decisions name them.
    states: BTreeMap<ClaimKey, ClaimState>,
    queue: BTreeSet<QueuePosition>,
    /// Those in the queue that failed to get what the pool has.
    failed: BTreeSet<QueuePosition>,
    /// Those of which it is known why they have no address.
    waiting: BTreeMap<ObjectName, WaitingClaim>,
    /// The pool's IPAddresses, by name, and the claim that each is for.
    addresses: BTreeMap<String, String>,
    /// Those of them that do not have the name of an existing claim that they are for: few, where there are thousands.
    unpaired_addresses: BTreeSet<String>,
    /// IPAddresses that exist and that the watch has not delivered yet, with the time when that was known. They outlive
    /// their claims, since a pool that is being deleted waits for them too.
    awaited_addresses: BTreeMap<ObjectName, Instant>,
    /// IPAddresses whose creation has an unknown outcome, with the time until which it may take effect. They outlive their
    /// claims too.
    uncertain_addresses: BTreeMap<ObjectName, Instant>,
}

impl PoolClaims {
    fn insert(&mut self, claim: &ObjectName, record: ClaimRecord) {
        self.queue.extend(record.queued.clone());
        self.records.insert(claim.clone(), record);
        self.pair(claim);
    }

    fn remove(&mut self, claim: &ObjectName) {
        let Some(record) = self.records.remove(claim) else { return };
        self.pair(claim);
        self.waiting.remove(claim);
        self.states.remove(&ClaimKey::of(&claim.namespace, &claim.name));
        if let Some(position) = record.queued {
            self.queue.remove(&position);
            self.failed.remove(&position);
        }
    }

    /// The claim or the IPAddress of this name was added or removed.
    fn pair(&mut self, name: &ObjectName) {
        let is_paired = |claim: &String| *claim == name.name && self.records.contains_key(name);
        if self.addresses.get(&name.name).is_none_or(is_paired) {
            self.unpaired_addresses.remove(&name.name);
        } else {
            self.unpaired_addresses.insert(name.name.clone());
        }
    }

    fn is_awaited(&self, address: &ObjectName) -> bool {
        self.awaited_addresses.get(address).is_some_and(|since| since.elapsed() < ADDRESS_APPEARS_WITHIN)
    }

    /// How long a creation of the IPAddress may still take effect.
    fn uncertain_for(&self, address: &ObjectName) -> Option<Duration> {
        let until = self.uncertain_addresses.get(address)?;
        until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    fn has_uncertain_addresses(&self) -> bool {
        self.uncertain_addresses.keys().any(|address| self.uncertain_for(address).is_some())
    }

    /// Forgets addresses that are no longer awaited. True if nothing is left.
    fn prune(&mut self) -> bool {
        self.awaited_addresses.retain(|_, since| since.elapsed() < ADDRESS_APPEARS_WITHIN);
        self.uncertain_addresses.retain(|_, until| Instant::now() < *until);
        self.records.is_empty()
            && self.addresses.is_empty()
            && self.awaited_addresses.is_empty()
            && self.uncertain_addresses.is_empty()
    }
}

/// A record for each claim.
#[derive(Default)]
pub(in crate::controllers) struct ClaimRecords(Mutex<BTreeMap<ObjectName, PoolClaims>>);

impl ClaimRecords {
    /// The claim exists. A recreated one starts with an empty record.
    pub(in crate::controllers) fn observe(&self, claim: &IpAddressClaim) {
        let mut pools = self.0.lock();
        let (pool, name) = (pool_of(claim), name_of(claim));
        let is_known = |claims: &PoolClaims| claims.records.get(&name).is_some_and(|record| record.uid == claim.uid());
        if !pools.get(&pool).is_some_and(is_known) {
            // A claim may be deleted and created again with another pool while no watch runs.
            pools.values_mut().for_each(|claims| claims.remove(&name));
            // A former process may have let it wait. Its first reconcile decides whether it keeps its place.
            let is_queued = claim.is_waiting() && is_claim_refused(claim.status.as_ref());
            let queued = is_queued.then(|| QueuePosition {
                since: claim.created_at(),
                object: name.clone(),
                key: ClaimKey::of(&name.namespace, &name.name),
            });
            let record = ClaimRecord { uid: claim.uid(), is_new: true, queued, ..Default::default() };
            pools.entry(pool.clone()).or_default().insert(&name, record);
        }
        let claims = pools.entry(pool).or_default();
        if let Some(record) = claims.records.get_mut(&name).filter(|record| !record.watched.is_awaited_after(claim)) {
            record.is_waiting = claim.is_waiting();
        }
        let is_being_deleted = claim.metadata.deletion_timestamp.is_some();
        if is_being_deleted {
            claims.waiting.remove(&name);
        }
        let state = match (is_being_deleted, claim.address_name()) {
            (true, _) => ClaimState::Deleting,
            (false, Some(_)) => ClaimState::Bound,
            (false, None) => ClaimState::Waiting,
        };
        claims.states.insert(ClaimKey::of(&name.namespace, &name.name), state);
    }

    /// Whether this is the claim's first reconcile. Only the first call says so.
    pub(in crate::controllers) fn is_first_reconcile(&self, claim: &IpAddressClaim) -> bool {
        self.update(claim, |record| std::mem::take(&mut record.is_new)).unwrap_or(false)
    }

    pub(in crate::controllers) fn remove(&self, claim: &IpAddressClaim) {
        let mut pools = self.0.lock();
        if let Some(claims) = pools.get_mut(&pool_of(claim)) {
            claims.remove(&name_of(claim));
        }
        pools.retain(|_, claims| !claims.prune());
    }

    /// A claim of this name points at no pool of ours. True if one did before.
    pub(in crate::controllers) fn forget(&self, claim: &ObjectName) -> bool {
        let mut pools = self.0.lock();
        let is_known = pools.values().any(|claims| claims.records.contains_key(claim));
        pools.values_mut().for_each(|claims| claims.remove(claim));
        pools.retain(|_, claims| !claims.prune());
        is_known
    }

    /// Removes every claim that a complete listing does not contain, and returns the removed ones.
    pub(in crate::controllers) fn retain(&self, existing: &BTreeSet<ObjectName>) -> Vec<ObjectName> {
        let mut pools = self.0.lock();
        let known = pools.values().flat_map(|claims| claims.records.keys());
        let gone: Vec<_> = known.filter(|claim| !existing.contains(claim)).cloned().collect();
        pools.values_mut().for_each(|claims| gone.iter().for_each(|claim| claims.remove(claim)));
        pools.retain(|_, claims| !claims.prune());
        gone
    }

    fn update<T>(&self, claim: &IpAddressClaim, change: impl FnOnce(&mut ClaimRecord) -> T) -> Option<T> {
        self.change(claim, |claims, name| claims.records.get_mut(&name).map(change)).flatten()
    }

    /// Changes what is known of a pool's claims, if this one is known.
    fn change<T>(&self, claim: &IpAddressClaim, change: impl FnOnce(&mut PoolClaims, ObjectName) -> T) -> Option<T> {
        let (mut pools, name) = (self.0.lock(), name_of(claim));
        let claims = pools.get_mut(&pool_of(claim))?;
        let is_known = claims.records.get(&name).is_some_and(|record| record.uid == claim.uid());
        is_known.then(|| change(claims, name))
    }

    /// Whether the claim is older than what this process wrote. Then the claim is woken when the watch delivers the write.
    pub(in crate::controllers) fn put_off_if_outdated(&self, claim: &IpAddressClaim) -> bool {
        self.update(claim, |record| record.watched.put_off_if_outdated(claim)).unwrap_or(false)
    }

    /// Whether the claim is released, so that nothing is left to do for it.
    pub(in crate::controllers) fn is_released(&self, claim: &IpAddressClaim) -> bool {
        self.update(claim, |record| record.is_released).unwrap_or(false)
    }

    /// The watch has listed all claims. What it shows counts, even if it is older than what this process wrote: the API
    /// server's data may have been restored from a backup.
    pub(in crate::controllers) fn forget_versions(&self) {
        let mut pools = self.0.lock();
        for record in pools.values_mut().flat_map(|claims| claims.records.values_mut()) {
            (record.watched, record.is_released) = (WatchedObject::default(), false);
        }
    }

    /// Whether a claim that the watch delivered has to be reconciled.
    pub(in crate::controllers) fn needs_reconcile(&self, claim: &IpAddressClaim, version: IpamVersion) -> bool {
        let ready = ClaimReport::read(claim.status.as_ref(), version).map(hash);
        let input = hash((metadata_input(&claim.metadata), claim.address_name()));
        self.update(claim, |record| record.watched.needs_reconcile(claim, input, ready)).unwrap_or(true)
    }

    /// The claim's condition is this, or is about to be written.
    pub(in crate::controllers) fn note_report(&self, claim: &IpAddressClaim, condition: &DesiredCondition) {
        let report = hash(ClaimReport::of(condition));
        self.update(claim, |record| record.watched.note_report(report));
    }

    /// Lets the next event of the claim request a reconcile, whatever it changes.
    pub(in crate::controllers) fn reconcile_at_next_event(&self, claim: &IpAddressClaim) {
        self.update(claim, |record| record.watched.is_reconcile_due = true);
    }

    /// Whether this process has written to the claim, and the watch has not delivered that.
    pub(in crate::controllers) fn is_write_awaited(&self, claim: &IpAddressClaim) -> bool {
        self.update(claim, |record| record.watched.is_awaited_after(claim)).unwrap_or(false)
    }

    /// The newest version of the claim that is known: this one, or what this process has written since.
    pub(in crate::controllers) fn newest_version(&self, claim: &IpAddressClaim) -> Option<String> {
        let written = self.update(claim, |record| record.watched.written_after(claim)).flatten();
        written.map(|version| version.to_string()).or_else(|| claim.resource_version())
    }

    pub(in crate::controllers) fn note_written(&self, claim: &IpAddressClaim) {
        self.update(claim, |record| {
            record.watched.note_written(claim);
            record.is_waiting = claim.is_waiting();
        });
    }

    /// How many of the pool's claims have no address, including those that are being served at this moment.
    pub(in crate::controllers) fn count_waiting(&self, pool: &ObjectName) -> usize {
        let pools = self.0.lock();
        pools.get(pool).map_or(0, |claims| claims.records.values().filter(|record| record.is_waiting).count())
    }

    /// The claim is about to lose its finalizer, or did not after all.
    pub(in crate::controllers) fn set_released(&self, claim: &IpAddressClaim, is_released: bool) {
        self.update(claim, |record| record.is_released = is_released);
    }

    /// The claim has no address. Keeps the time since which it has been waiting, if that is known. Returns whether that is
    /// new: it did not wait before, or how it lost its address has changed. One that is being deleted does not wait: whatever
    /// wakes those that do would let it be released again and again.
    pub(in crate::controllers) fn set_waiting(&self, claim: &IpAddressClaim, waiting: WaitingClaim) -> bool {
        let is_new = self.change(claim, |claims, name| {
            if claims.states.get(&ClaimKey::of(&name.namespace, &name.name)) == Some(&ClaimState::Deleting) {
                return false;
            }
            let before = claims.waiting.get(&name);
            let is_new = before.is_none_or(|before| before.lost != waiting.lost);
            let since = before.map_or(waiting.since, |before| before.since);
            claims.waiting.insert(name, WaitingClaim { since, ..waiting });
            is_new
        });
        is_new.unwrap_or(false)
    }

    /// The claim has its address; returns how it waited.
    pub(in crate::controllers) fn end_waiting(&self, claim: &IpAddressClaim) -> Option<WaitingClaim> {
        self.change(claim, |claims, name| claims.waiting.remove(&name)).flatten()
    }

    /// Whether the claim is known to have lost its address.
    pub(in crate::controllers) fn is_lost(&self, claim: &IpAddressClaim) -> bool {
        let is_lost =
            self.change(claim, |claims, name| claims.waiting.get(&name).is_some_and(|waiting| waiting.lost.is_some()));
        is_lost.unwrap_or(false)
    }

    pub(in crate::controllers) fn waiting(&self, pool: &ObjectName) -> Vec<(ObjectName, WaitingClaim)> {
        let pools = self.0.lock();
        let waiting = pools.get(pool).into_iter().flat_map(|claims| &claims.waiting);
        waiting.map(|(claim, waiting)| (claim.clone(), waiting.clone())).collect()
    }

    /// The same claims: the oldest of those in the queue first, then the others.
    pub(in crate::controllers) fn waiting_in_order(&self, pool: &ObjectName) -> Vec<ObjectName> {
        let pools = self.0.lock();
        let Some(claims) = pools.get(pool) else { return Vec::new() };
        let queue = claims.queue.iter().map(|position| &position.object);
        let queued: BTreeSet<&ObjectName> = queue.clone().collect();
        let queue = queue.filter(|claim| claims.waiting.contains_key(*claim));
        queue.chain(claims.waiting.keys().filter(|claim| !queued.contains(claim))).cloned().collect()
    }

    /// The claim is being deleted, and its release failed or not. Returns whether that is new.
    pub(in crate::controllers) fn set_release_failing(&self, claim: &IpAddressClaim, is_failing: bool) -> bool {
        let before = self.update(claim, |record| std::mem::replace(&mut record.is_release_failing, is_failing));
        before.is_some_and(|before| before != is_failing)
    }

    /// Nothing is done for the claim since something is paused, or not so. True if it was not paused before.
    pub(in crate::controllers) fn set_paused(&self, claim: &IpAddressClaim, is_paused: bool) -> bool {
        let before = self.update(claim, |record| std::mem::replace(&mut record.is_paused, is_paused));
        is_paused && before == Some(false)
    }

    /// How many claims of the pool are being deleted and could not be released.
    pub(in crate::controllers) fn count_failing_releases(&self, pool: &ObjectName) -> usize {
        let pools = self.0.lock();
        let records = pools.get(pool).into_iter().flat_map(|claims| claims.records.values());
        records.filter(|record| record.is_release_failing).count()
    }

    /// The claim was refused an address, or failed to get one; `None` when it was neither. Returns whether it has left the
    /// queue.
    pub(in crate::controllers) fn set_queued(
        &self,
        claim: &IpAddressClaim,
        position: Option<QueuePosition>,
        has_failed: bool,
    ) -> bool {
        let has_left = self.change(claim, |claims, name| {
            let Some(record) = claims.records.get_mut(&name) else { return false };
            let before = std::mem::replace(&mut record.queued, position.clone());
            if let Some(before) = &before {
                claims.queue.remove(before);
                claims.failed.remove(before);
            }
            let has_left = before.is_some() && position.is_none();
            claims.failed.extend(position.clone().filter(|_| has_failed));
            claims.queue.extend(position);
            has_left
        });
        has_left.unwrap_or(false)
    }

    /// Whether an older claim of the pool, of those that count, failed to get what the pool has, and is tried again first.
    pub(in crate::controllers) fn is_after_failed(
        &self,
        pool: &ObjectName,
        position: &QueuePosition,
        counts: impl Fn(&ObjectName) -> bool,
    ) -> bool {
        let pools = self.0.lock();
        let mut failed = pools.get(pool).into_iter().flat_map(|claims| claims.failed.range(..position));
        failed.any(|older| counts(&older.object))
    }

    /// Whether a claim waits for an address in any of these namespaces.
    pub(in crate::controllers) fn is_any_queued_in(&self, namespaces: &BTreeSet<String>) -> bool {
        let pools = self.0.lock();
        pools.iter().any(|(pool, claims)| !claims.queue.is_empty() && namespaces.contains(&pool.namespace))
    }

    /// Reads a pool's claims, and the positions of those that wait in the queue.
    pub(in crate::controllers) fn read<T>(
        &self,
        pool: &ObjectName,
        read: impl FnOnce(&BTreeMap<ClaimKey, ClaimState>, &BTreeSet<QueuePosition>) -> T,
    ) -> T {
        let pools = self.0.lock();
        match pools.get(pool) {
            Some(claims) => read(&claims.states, &claims.queue),
            None => read(&BTreeMap::new(), &BTreeSet::new()),
        }
    }

    /// The claim was skipped because of its pool: it is woken when the pool has been reconciled.
    pub(in crate::controllers) fn skip(&self, claim: &IpAddressClaim) {
        self.update(claim, |record| record.is_skipped = true);
    }

    /// The claims that were skipped because of their pool, each once.
    pub(in crate::controllers) fn take_skipped(&self, pool: &ObjectName) -> Vec<ObjectName> {
        let mut pools = self.0.lock();
        let records = pools.get_mut(pool).into_iter().flat_map(|claims| &mut claims.records);
        records.filter_map(|(claim, record)| std::mem::take(&mut record.is_skipped).then(|| claim.clone())).collect()
    }

    /// An IPAddress with the claim's name exists, and the watch has not delivered it.
    pub(in crate::controllers) fn await_address(&self, claim: &IpAddressClaim) {
        let mut pools = self.0.lock();
        pools.entry(pool_of(claim)).or_default().awaited_addresses.insert(name_of(claim), Instant::now());
    }

    pub(in crate::controllers) fn is_address_awaited(&self, claim: &IpAddressClaim) -> bool {
        self.0.lock().get(&pool_of(claim)).is_some_and(|claims| claims.is_awaited(&name_of(claim)))
    }

    /// Whether an IPAddress that is not seen yet may be one of this pool, or the creation of one has an unknown outcome.
    pub(in crate::controllers) fn is_any_address_awaited(&self, pool: &ObjectName) -> bool {
        let pools = self.0.lock();
        let mut of_namespace = pools.iter().filter(|(other, _)| other.namespace == pool.namespace);
        of_namespace.any(|(other, claims)| {
            claims.awaited_addresses.keys().any(|address| claims.is_awaited(address))
                || other == pool && claims.has_uncertain_addresses()
        })
    }

    /// The creation of the claim's IPAddress has an unknown outcome. When it was sent is not known: it may have waited for its
    /// turn.
    pub(in crate::controllers) fn note_uncertain_address(&self, claim: &IpAddressClaim) {
        let mut pools = self.0.lock();
        let until = instant_after(Instant::now(), CREATION_LANDS_WITHIN);
        pools.entry(pool_of(claim)).or_default().uncertain_addresses.insert(name_of(claim), until);
    }

    pub(super) fn has_unknown_outcomes(&self) -> bool {
        self.0.lock().values().any(PoolClaims::has_uncertain_addresses)
    }

    /// How long a creation of the claim's IPAddress may still take effect.
    pub(in crate::controllers) fn address_uncertain_for(
        &self,
        pool: &ObjectName,
        claim: &ObjectName,
    ) -> Option<Duration> {
        self.0.lock().get(pool)?.uncertain_for(claim)
    }

    /// The watch delivered an IPAddress.
    pub(in crate::controllers) fn observe_address(&self, address: &IpAddress) {
        let (pool, name) = (pool_of_address(address), name_of(address));
        let mut pools = self.0.lock();
        if let Some(claims) = pools.get_mut(&pool) {
            claims.awaited_addresses.remove(&name);
        }
        if address.spec.pool_ref.is_ours() {
            let claim = address.spec.claim_ref.name.clone();
            let claims = pools.entry(pool).or_default();
            claims.addresses.insert(name.name.clone(), claim);
            claims.pair(&name);
        }
    }

    /// The watch delivered the deletion of an IPAddress.
    pub(in crate::controllers) fn forget_address(&self, address: &IpAddress) {
        let name = name_of(address);
        if let Some(claims) = self.0.lock().get_mut(&pool_of_address(address)) {
            claims.awaited_addresses.remove(&name);
            claims.addresses.remove(&name.name);
            claims.pair(&name);
        }
    }

    /// The watch has listed all IPAddresses, and delivers each again: one that was created and deleted before that is never
    /// seen.
    pub(in crate::controllers) fn forget_all_addresses(&self) {
        self.0.lock().values_mut().for_each(|claims| {
            claims.awaited_addresses.clear();
            claims.addresses.clear();
            claims.unpaired_addresses.clear();
        });
    }

    /// The IPAddresses of a pool whose claim does not exist, or points at another pool.
    pub(in crate::controllers) fn addresses_without_claim(&self, pool: &ObjectName) -> Vec<ObjectName> {
        self.addresses_where(pool, |_, _, exists| !exists())
    }

    /// The IPAddresses of a pool that have another name than the existing claim that they are for: a user made them.
    pub(in crate::controllers) fn copied_addresses(&self, pool: &ObjectName) -> Vec<ObjectName> {
        self.addresses_where(pool, |name, claim, exists| name != claim && exists())
    }

    /// The IPAddresses of a pool that are meant: by their name, their claim's, and whether that claim points at the pool.
    fn addresses_where(
        &self,
        pool: &ObjectName,
        is_meant: impl Fn(&str, &str, &dyn Fn() -> bool) -> bool,
    ) -> Vec<ObjectName> {
        let pools = self.0.lock();
        let Some(claims) = pools.get(pool) else { return Vec::new() };
        let in_namespace = |name: &str| ObjectName::new(&pool.namespace, name);
        let exists = |claim: &str| claims.records.contains_key(&in_namespace(claim));
        let unpaired = claims.unpaired_addresses.iter().filter_map(|name| Some((name, claims.addresses.get(name)?)));
        let meant = unpaired.filter(|(name, claim)| is_meant(name, claim, &|| exists(claim)));
        meant.map(|(name, _)| in_namespace(name)).collect()
    }

    pub(super) fn len(&self) -> usize {
        let mut pools = self.0.lock();
        pools.retain(|_, claims| !claims.prune());
        pools
            .values()
            .flat_map(|claims| {
                let addresses = [&claims.awaited_addresses, &claims.uncertain_addresses].map(BTreeMap::len);
                [claims.records.len(), claims.addresses.len()].into_iter().chain(addresses)
            })
            .sum()
    }
}

/// The pool that a claim points at.
fn pool_of(claim: &IpAddressClaim) -> ObjectName {
    ObjectName::new(claim.namespace().unwrap_or_default(), &claim.spec.pool_ref.name)
}

fn pool_of_address(address: &IpAddress) -> ObjectName {
    ObjectName::new(address.namespace().unwrap_or_default(), &address.spec.pool_ref.name)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::{Value, json};

    use super::*;
    use crate::api::names::GROUP;

    const NAMES: [&str; 3] = ["web", "db", "mail"];

    fn pool() -> ObjectName {
        ObjectName::new("team", "public")
    }

    /// A claim, or an IPAddress, of the pool.
    fn object<K: serde::de::DeserializeOwned>(name: &str, more: Value) -> K {
        let pool_ref = json!({"apiGroup": GROUP, "kind": "OpenStackFloatingIPPool", "name": "public"});
        let mut object = json!({"metadata": {"namespace": "team", "name": name, "uid": name}, "spec": more});
        object["spec"]["poolRef"] = pool_ref;
        serde_json::from_value(object).expect("that is one")
    }

    fn claim(name: &str) -> IpAddressClaim {
        object(name, json!({}))
    }

    fn address(name: &str, of: &str) -> IpAddress {
        object(name, json!({"claimRef": {"name": of}, "address": "203.0.113.5", "prefix": 32}))
    }

    /// The pool's IPAddresses without a claim, and those that have another name than their existing claim, by a look at all.
    fn looked_for(claims: &ClaimRecords) -> [Vec<ObjectName>; 2] {
        let pools = claims.0.lock();
        let known = pools.get(&pool());
        let all = || known.into_iter().flat_map(|claims| &claims.addresses);
        let exists = |claim: &String| known.is_some_and(|it| it.records.contains_key(&ObjectName::new("team", claim)));
        let named = |(name, _): (&String, &String)| ObjectName::new("team", name);
        let without = all().filter(|(_, claim)| !exists(claim)).map(named).collect();
        [without, all().filter(|(name, claim)| name != claim && exists(claim)).map(named).collect()]
    }

    #[test]
    fn addresses_that_are_not_paired_with_a_claim_are_found_after_any_changes() {
        let (claims, mut chance) = (ClaimRecords::default(), fastrand::Rng::with_seed(7));
        let mut found = [0, 0];
        for _ in 0..10_000 {
            let [name, other] = [(); 2].map(|()| NAMES[chance.usize(..NAMES.len())]);
            match chance.u8(..16) {
                0..5 => claims.observe(&claim(name)),
                5..8 => claims.remove(&claim(name)),
                8 => drop(claims.forget(&name_of(&claim(name)))),
                9 => drop(claims.retain(&[name_of(&claim(name))].into())),
                10..13 => claims.observe_address(&address(name, if chance.bool() { name } else { other })),
                13..15 => claims.forget_address(&address(name, other)),
                _ => claims.forget_all_addresses(),
            }
            let actual = [claims.addresses_without_claim(&pool()), claims.copied_addresses(&pool())];
            assert_eq!(actual, looked_for(&claims));
            found = [0, 1].map(|kind| found[kind] + actual[kind].len());
        }
        assert!(found.iter().all(|count| *count > 1000), "{found:?}");
    }

    #[test]
    fn an_uncertain_creation_is_awaited_by_its_own_pool_alone() {
        let claims = ClaimRecords::default();
        claims.note_uncertain_address(&claim("web-0"));
        let other = ObjectName::new(&pool().namespace, "other");
        assert!(claims.is_any_address_awaited(&pool()) && !claims.is_any_address_awaited(&other));
    }

    fn queue(claims: &ClaimRecords) -> Vec<String> {
        claims.read(&pool(), |_, queue| queue.iter().map(|position| position.object.name.clone()).collect())
    }

    #[test]
    fn a_claim_that_a_former_process_refused_has_its_place_until_it_is_reconciled() {
        let told = |name: &str, status: Value| IpAddressClaim {
            status: serde_json::from_value(status).expect("that is a status"),
            ..claim(name)
        };
        let ready = |reason: &str| json!({"conditions": [{"type": "Ready", "status": "False", "reason": reason}]});
        let mut bound = ready("PoolExhausted");
        bound["addressRef"] = json!({"name": "mail"});
        let claims = ClaimRecords::default();
        claims.observe(&told("web", ready("PoolExhausted")));
        claims.observe(&told("db", ready("PoolNotReady")));
        claims.observe(&told("mail", bound));
        assert_eq!(queue(&claims), ["web"]);
        assert!(claims.is_any_queued_in(&["team".to_owned()].into()));
        assert!(!claims.is_any_queued_in(&["other".to_owned()].into()));
        claims.set_queued(&claim("web"), None, false);
        claims.observe(&told("web", ready("PoolExhausted")));
        assert_eq!(queue(&claims), [""; 0], "the watch may be late");
    }

    fn position(name: &str, second: i64) -> QueuePosition {
        QueuePosition {
            since: Timestamp::from_second(second).unwrap(),
            object: ObjectName::new("team", name),
            key: ClaimKey::of("team", name),
        }
    }

    #[test]
    fn a_claim_is_after_an_older_one_that_failed_and_counts() {
        let claims = ClaimRecords::default();
        claims.observe(&claim("db"));
        claims.set_queued(&claim("db"), Some(position("db", 2)), true);
        let is_after = |second, counted: &str| {
            claims.is_after_failed(&pool(), &position("web", second), |older| older.name == counted)
        };
        assert_eq!([is_after(3, "db"), is_after(1, "db"), is_after(3, "mail")], [true, false, false]);
        claims.set_queued(&claim("db"), Some(position("db", 2)), false);
        assert!(!is_after(3, "db"), "it was refused");
    }

    #[test]
    fn waiting_claims_are_woken_in_the_order_of_the_queue() {
        let (claims, since) = (ClaimRecords::default(), Timestamp::from_second(0).unwrap());
        for (name, second) in [("db", Some(2)), ("mail", None), ("web", Some(1))] {
            claims.observe(&claim(name));
            claims.set_waiting(&claim(name), WaitingClaim { reason: "PoolExhausted", lost: None, since });
            claims.set_queued(&claim(name), second.map(|second| position(name, second)), false);
        }
        let names = |claims: &ClaimRecords| -> Vec<String> {
            claims.waiting_in_order(&pool()).into_iter().map(|claim| claim.name).collect()
        };
        assert_eq!(names(&claims), ["web", "db", "mail"]);
        claims.end_waiting(&claim("web"));
        assert_eq!(names(&claims), ["db", "mail"]);
    }

    #[test]
    fn a_claim_waits_until_it_has_its_address_or_is_gone() {
        let claims = ClaimRecords::default();
        let since = |second: i64| Timestamp::from_second(second).unwrap();
        let waiting = |second| WaitingClaim { reason: "PoolExhausted", lost: None, since: since(second) };
        let times = |claims: &ClaimRecords| -> Vec<(String, Timestamp)> {
            claims.waiting(&pool()).into_iter().map(|(claim, waiting)| (claim.name, waiting.since)).collect()
        };
        claims.set_waiting(&claim("web"), waiting(1));
        assert!(times(&claims).is_empty(), "it is not known");
        for name in NAMES {
            claims.observe(&claim(name));
            claims.set_waiting(&claim(name), waiting(1));
        }
        claims.set_waiting(&claim("db"), waiting(2));
        let of = |name: &str| (name.to_owned(), since(1));
        assert_eq!(times(&claims), [of("db"), of("mail"), of("web")], "since it first waited");
        assert_eq!(claims.end_waiting(&claim("db")), Some(waiting(1)));
        let mut deleted = claim("db");
        deleted.metadata.deletion_timestamp = Some(Time(since(3)));
        claims.set_waiting(&claim("db"), waiting(1));
        claims.observe(&deleted);
        assert!(!claims.set_waiting(&deleted, waiting(3)), "it is being deleted");
        assert_eq!(times(&claims), [of("mail"), of("web")]);
        claims.remove(&claim("mail"));
        let again = IpAddressClaim {
            metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                uid: Some("another".into()),
                ..claim("web").metadata
            },
            ..claim("web")
        };
        assert_eq!(claims.end_waiting(&again), None, "another claim of that name");
        assert_eq!(times(&claims), [of("web")]);
        claims.observe(&again);
        assert!(times(&claims).is_empty(), "it was created again");
    }
}
