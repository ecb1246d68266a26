//! What all controllers share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::Duration;

use jiff::Timestamp;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Resource, ResourceExt};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::events::Events;
use super::project::Projects;
use super::registry::Registry;
use super::{Options, Setup};
use crate::allocation::{PoolId, PublishedAddresses};
use crate::api::names::{DELETE_FOR_MOVE_ANNOTATION, PAUSED_ANNOTATION};
use crate::api::{Cluster, IpAddress, IpAddressClaim, IpamVersion, OpenStackFloatingIPPool};
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::object_name::ObjectName;
use crate::openstack::Clouds;
use crate::runtime::health::Readiness;

/// What Kubernetes has, as the watches last saw it.
#[derive(Clone)]
pub(super) struct Stores {
    pub(super) pools: Store<OpenStackFloatingIPPool>,
    pub(super) claims: Store<IpAddressClaim>,
    pub(super) addresses: Store<IpAddress>,
    pub(super) clusters: Store<Cluster>,
}

impl Stores {
    /// Waits until every kind has been listed once. A missing object means something only then.
    pub(super) async fn ready(&self) {
        // An error means that the writer is gone: then the watches have ended, and so does `run`.
        let (pools, claims) = (self.pools.wait_until_ready(), self.claims.wait_until_ready());
        let (addresses, clusters) = (self.addresses.wait_until_ready(), self.clusters.wait_until_ready());
        let _ = tokio::join!(pools, claims, addresses, clusters);
    }
}

/// Who must look again. Sending never waits; the controllers drop duplicates.
pub(super) struct Wake {
    pools: mpsc::UnboundedSender<ObjectRef<OpenStackFloatingIPPool>>,
    sweeps: mpsc::UnboundedSender<ObjectRef<OpenStackFloatingIPPool>>,
    claims: mpsc::UnboundedSender<ObjectRef<IpAddressClaim>>,
}

/// The other ends of [`Wake`].
pub(super) struct Woken {
    pub(super) pools: mpsc::UnboundedReceiver<ObjectRef<OpenStackFloatingIPPool>>,
    pub(super) sweeps: mpsc::UnboundedReceiver<ObjectRef<OpenStackFloatingIPPool>>,
    pub(super) claims: mpsc::UnboundedReceiver<ObjectRef<IpAddressClaim>>,
}

pub(super) fn wakers() -> (Wake, Woken) {
    let (pools, woken_pools) = mpsc::unbounded_channel();
    let (sweeps, woken_sweeps) = mpsc::unbounded_channel();
    let (claims, woken_claims) = mpsc::unbounded_channel();
    (Wake { pools, sweeps, claims }, Woken { pools: woken_pools, sweeps: woken_sweeps, claims: woken_claims })
}

/// A claim that has no address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Waiting {
    /// The reason of its condition.
    pub(super) reason: &'static str,
    /// Since when, as its condition or this process knows.
    pub(super) since: Timestamp,
}

/// What we wrote and the watches may not have brought yet. Without it a second look, before the watch has caught up,
/// would do and say everything twice.
#[derive(Default)]
pub(super) struct Writes {
    claims: BTreeMap<ObjectName, u64>,
    /// Claims that were let go, by uid: the reply to a patch that removes an object has no version of its own.
    let_go: BTreeSet<String>,
    pools: BTreeMap<ObjectName, u64>,
    /// IPAddresses that were created and not yet seen, and since when.
    addresses: BTreeMap<ObjectName, Instant>,
}

/// How long an IPAddress that was created is waited for. The watch brings it in less, or it was deleted at once and is
/// never seen: then one looks for oneself.
pub(super) const COMES: Duration = Duration::from_secs(10);

/// Versions are numbers that grow, as Kubernetes promises from 1.35 on and etcd always did.
fn version(object: &impl Resource) -> Option<u64> {
    object.resource_version()?.parse().ok()
}

fn is_past(written: &mut BTreeMap<ObjectName, u64>, name: &ObjectName, object: &impl Resource) -> bool {
    let Some(last) = written.get(name) else { return false };
    let is_past = version(object).is_some_and(|seen| seen < *last);
    if !is_past {
        written.remove(name);
    }
    is_past
}

impl Writes {
    /// A claim was written, and now is so.
    pub(super) fn claim(&mut self, name: &ObjectName, claim: &IpAddressClaim) {
        self.claims.extend(version(claim).map(|version| (name.clone(), version)));
    }

    /// A pool was written, and now is so.
    pub(super) fn pool(&mut self, name: &ObjectName, pool: &OpenStackFloatingIPPool) {
        self.pools.extend(version(pool).map(|version| (name.clone(), version)));
    }

    /// Whether the claim is older than what we wrote to it: the watch brings that, and wakes it again.
    pub(super) fn is_past_claim(&mut self, name: &ObjectName, claim: &IpAddressClaim) -> bool {
        is_past(&mut self.claims, name, claim) || claim.uid().is_some_and(|uid| self.let_go.contains(&uid))
    }

    /// The claim is about to lose our finalizer, or did not after all.
    pub(super) fn let_go(&mut self, claim: &IpAddressClaim, is_so: bool) {
        let Some(uid) = claim.uid() else { return };
        if is_so {
            self.let_go.insert(uid)
        } else {
            self.let_go.remove(&uid)
        };
    }

    /// Whether an IPAddress was created a moment ago: the watch brings it, and that wakes its claim.
    pub(super) fn is_coming(&self, address: &ObjectName) -> bool {
        self.addresses.get(address).is_some_and(|since| since.elapsed() < COMES)
    }

    /// The same of any IPAddress of a namespace.
    pub(super) fn is_any_coming(&self, namespace: &str) -> bool {
        self.addresses.keys().any(|address| address.namespace == namespace && self.is_coming(address))
    }

    /// The watch told of an IPAddress, or that it went.
    pub(super) fn saw_address(&mut self, address: &ObjectName) {
        self.addresses.remove(address);
    }

    /// The watch of IPAddresses started anew: one that was created and deleted while nobody watched is never seen.
    pub(super) fn saw_all_addresses(&mut self) {
        self.addresses.clear();
    }

    /// Whether the pool is older than what we wrote to it.
    pub(super) fn is_past_pool(&mut self, name: &ObjectName, pool: &OpenStackFloatingIPPool) -> bool {
        is_past(&mut self.pools, name, pool)
    }

    /// The watch of claims started anew: these are all that there are.
    pub(super) fn retain_claims(&mut self, claims: &Store<IpAddressClaim>) {
        let living: BTreeSet<String> = claims.state().iter().filter_map(|claim| claim.uid()).collect();
        self.let_go.retain(|uid| living.contains(uid));
    }

    /// A claim is gone.
    pub(super) fn forget_claim(&mut self, name: &ObjectName, claim: &IpAddressClaim) {
        self.claims.remove(name);
        self.let_go(claim, false);
    }
}

/// The Secrets that finalizers of ours keep, as the watch last saw them.
#[derive(Default)]
pub(super) struct KeptSecrets(BTreeMap<ObjectName, BTreeSet<String>>);

impl KeptSecrets {
    /// A Secret has these finalizers of ours.
    pub(super) fn observe(&mut self, secret: ObjectName, finalizers: BTreeSet<String>) {
        match finalizers.is_empty() {
            true => drop(self.0.remove(&secret)),
            false => drop(self.0.insert(secret, finalizers)),
        }
    }

    /// The Secrets of a namespace that a finalizer is on, by name.
    pub(super) fn of(&self, namespace: &str, finalizer: &str) -> BTreeSet<String> {
        let of_namespace = self.0.iter().filter(|(secret, _)| secret.namespace == namespace);
        of_namespace.filter(|(_, on)| on.contains(finalizer)).map(|(secret, _)| secret.name.clone()).collect()
    }
}

/// What a sweep found and left as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Found {
    /// Addresses that belong to no claim although they say so.
    pub(super) orphans: Vec<std::net::IpAddr>,
}

/// Everything that a reconcile needs besides its object.
pub(super) struct Context {
    pub(super) client: kube::Client,
    pub(super) clouds: Arc<dyn Clouds>,
    pub(super) options: Options,
    pub(super) metrics: Metrics,
    pub(super) readiness: Readiness,
    pub(super) clock: Clock,
    pub(super) version: IpamVersion,
    pub(super) stores: Stores,
    pub(super) registry: Registry,
    pub(super) projects: Projects,
    /// When this process started: the first moment at which it wrote anything.
    pub(super) started: Timestamp,
    // Plain locks, all of them: held for a look or a change in memory, never across an await.
    published: RwLock<PublishedAddresses>,
    waiting: Mutex<BTreeMap<ObjectName, BTreeMap<ObjectName, Waiting>>>,
    left: Mutex<BTreeMap<ObjectName, BTreeSet<ObjectName>>>,
    reports: Mutex<BTreeSet<ObjectName>>,
    writes: Mutex<Writes>,
    minted: Mutex<BTreeSet<PoolId>>,
    found: Mutex<BTreeMap<ObjectName, Found>>,
    kept_secrets: Mutex<KeptSecrets>,
    wake: Wake,
    pub(super) events: Events,
}

impl Context {
    pub(super) fn new(setup: Setup, version: IpamVersion, stores: Stores, wake: Wake, events: Events) -> Self {
        Self {
            started: setup.clock.now(),
            client: setup.client,
            clouds: setup.clouds,
            options: setup.options,
            metrics: setup.metrics,
            readiness: setup.readiness,
            clock: setup.clock,
            version,
            stores,
            registry: Registry::default(),
            projects: Projects::default(),
            published: RwLock::default(),
            waiting: Mutex::default(),
            left: Mutex::default(),
            reports: Mutex::default(),
            writes: Mutex::default(),
            minted: Mutex::default(),
            found: Mutex::default(),
            kept_secrets: Mutex::default(),
            wake,
            events,
        }
    }

    pub(super) fn claims(&self, namespace: &str) -> Api<IpAddressClaim> {
        Api::namespaced_with(self.client.clone(), namespace, &self.version)
    }

    pub(super) fn addresses(&self, namespace: &str) -> Api<IpAddress> {
        Api::namespaced_with(self.client.clone(), namespace, &self.version)
    }

    pub(super) fn pools(&self, namespace: &str) -> Api<OpenStackFloatingIPPool> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Looks at, or changes, what Kubernetes names.
    pub(super) fn published<T>(&self, look: impl FnOnce(&PublishedAddresses) -> T) -> T {
        look(&self.published.read().expect("no code panics while it holds the published"))
    }

    pub(super) fn published_mut<T>(&self, change: impl FnOnce(&mut PublishedAddresses) -> T) -> T {
        change(&mut self.published.write().expect("no code panics while it holds the published"))
    }

    /// The claims that have no address, by pool.
    pub(super) fn waiting(&self) -> MutexGuard<'_, BTreeMap<ObjectName, BTreeMap<ObjectName, Waiting>>> {
        self.waiting.lock().expect("no code panics while it holds the waiting claims")
    }

    /// The claims that nothing was done about because of their pool, by pool.
    fn left(&self) -> MutexGuard<'_, BTreeMap<ObjectName, BTreeSet<ObjectName>>> {
        self.left.lock().expect("no code panics while it holds the claims that are left")
    }

    /// Nothing is done about a claim because of its pool: it is looked at again when the pool has been.
    pub(super) fn leave(&self, pool: &ObjectName, claim: &ObjectName) {
        self.left().entry(pool.clone()).or_default().insert(claim.clone());
    }

    /// Wakes the claims that were left because of their pool.
    pub(super) fn wake_left(&self, pool: &ObjectName) {
        let left = self.left().remove(pool);
        left.iter().flatten().for_each(|claim| self.wake_claim(claim));
    }

    /// Whether the pool, as last seen, is there, is to stay, and is not paused: whether anything may be begun for it.
    pub(super) fn is_at_work(&self, pool: &ObjectName) -> bool {
        self.pool(pool).is_some_and(|pool| is_to_be_served(&pool))
    }

    /// What we wrote and the watches may not have brought yet.
    pub(super) fn writes(&self) -> MutexGuard<'_, Writes> {
        self.writes.lock().expect("no code panics while it holds the writes")
    }

    /// A pool, as the watch last brought it.
    pub(super) fn pool(&self, name: &ObjectName) -> Option<Arc<OpenStackFloatingIPPool>> {
        self.stores.pools.get(&ObjectRef::new(&name.name).within(&name.namespace))
    }

    /// A claim, as the watch last brought it.
    pub(super) fn claim(&self, name: &ObjectName) -> Option<Arc<IpAddressClaim>> {
        self.stores.claims.get(&ObjectRef::new_with(&name.name, self.version).within(&name.namespace))
    }

    /// An IPAddress, as the watch last brought it.
    pub(super) fn address(&self, name: &ObjectName) -> Option<Arc<IpAddress>> {
        self.stores.addresses.get(&ObjectRef::new_with(&name.name, self.version).within(&name.namespace))
    }

    /// An IPAddress is there. The watch may have brought it before the reply came.
    pub(super) fn created_address(&self, name: &ObjectName) {
        if self.address(name).is_none() {
            self.writes().addresses.insert(name.clone(), Instant::now());
        }
    }

    /// The pool ids that this process made: nobody wrote in their name before, so they need no fence.
    pub(super) fn minted(&self) -> MutexGuard<'_, BTreeSet<PoolId>> {
        self.minted.lock().expect("no code panics while it holds the ids")
    }

    /// What the last sweep of each pool found.
    pub(super) fn found(&self) -> MutexGuard<'_, BTreeMap<ObjectName, Found>> {
        self.found.lock().expect("no code panics while it holds what was found")
    }

    /// The Secrets that finalizers of ours keep.
    pub(super) fn kept_secrets(&self) -> MutexGuard<'_, KeptSecrets> {
        self.kept_secrets.lock().expect("no code panics while it holds the Secrets")
    }

    /// The pool's spec, credentials or figures must be looked at.
    pub(super) fn wake_pool(&self, pool: &ObjectName) {
        // A receiver that is gone means that the process ends.
        let _ = self.wake.pools.send(ObjectRef::new(&pool.name).within(&pool.namespace));
    }

    /// Something of the pool may have to be swept.
    pub(super) fn wake_sweeper(&self, pool: &ObjectName) {
        let _ = self.wake.sweeps.send(ObjectRef::new(&pool.name).within(&pool.namespace));
    }

    /// The claim must be looked at.
    pub(super) fn wake_claim(&self, claim: &ObjectName) {
        let reference = ObjectRef::new_with(&claim.name, self.version).within(&claim.namespace);
        let _ = self.wake.claims.send(reference);
    }

    /// The pool's figures have changed: it reports them soon, once for a whole burst.
    pub(super) fn report_soon(self: &Arc<Self>, pool: &ObjectName) {
        let is_new = self.reports().insert(pool.clone());
        if is_new {
            let (ctx, pool) = (self.clone(), pool.clone());
            // Not joined: it ends by itself, and a report that is lost at shutdown is made at the next start.
            tokio::spawn(async move {
                tokio::time::sleep(REPORT_DELAY).await;
                ctx.reports().remove(&pool);
                ctx.wake_pool(&pool);
            });
        }
    }

    fn reports(&self) -> MutexGuard<'_, BTreeSet<ObjectName>> {
        self.reports.lock().expect("no code panics while it holds the reports")
    }

    /// Wakes every claim of a pool that has no address.
    pub(super) fn wake_waiting(&self, pool: &ObjectName) {
        let waiting: Vec<ObjectName> =
            self.waiting().get(pool).map(|claims| claims.keys().cloned().collect()).unwrap_or_default();
        waiting.iter().for_each(|claim| self.wake_claim(claim));
    }
}

/// How long a pool gathers changes of its figures before it writes them.
const REPORT_DELAY: Duration = Duration::from_secs(1);

/// Whether the pool is to stay, and is not paused or being moved.
pub(super) fn is_to_be_served(pool: &OpenStackFloatingIPPool) -> bool {
    let is_marked = |key| pool.annotations().contains_key(key);
    pool.metadata.deletion_timestamp.is_none()
        && !is_marked(PAUSED_ANNOTATION)
        && !is_marked(DELETE_FOR_MOVE_ANNOTATION)
}

/// The objects of a store that are meant, by name: a store by itself has no order.
pub(super) fn all<K>(store: &Store<K>, which: impl Fn(&K) -> bool) -> Vec<Arc<K>>
where
    K: Resource + Clone + 'static,
    K::DynamicType: Eq + std::hash::Hash + Clone,
{
    let mut objects = store.state_filter(which);
    objects.sort_by_cached_key(|object| name_of(object.as_ref()));
    objects
}

/// An object's namespace and name.
pub(super) fn name_of<K: Resource>(object: &K) -> ObjectName {
    ObjectName::new(object.namespace().unwrap_or_default(), object.name_any())
}
