//! Watches keep the stores and the controllers' memory up to date, and wake what must be reconciled.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::core::{DynamicResourceScope, NamespaceResourceScope};
use kube::runtime::reflector::store::Writer;
use kube::{Api, Client, Resource, ResourceExt};

use super::kubernetes::Kubernetes;
use super::memory::{Memory, PoolState};
use super::objects::{cluster_of, read_published};
use super::pool::secret_finalizer;
use super::stores::{Stores, name_of, sorted};
use super::wake::Wake;
use crate::api::guarded::Guarded;
use crate::api::names::SECRET_FINALIZER_PREFIX;
use crate::api::{Cluster, IpAddress, IpAddressClaim, IpamVersion, OpenStackFloatingIPPool};
use crate::clock::Clock;
use crate::metrics::{Metrics, PoolLabels};
use crate::object_name::ObjectName;

mod apis;
mod stream;

pub(super) use apis::{another_version, await_apis};
pub(super) use stream::readable;

use stream::{Change, SecretChange, drive, drive_secrets, list};

/// The writing ends of [`Stores`].
pub(super) struct Writers {
    pools: Writer<OpenStackFloatingIPPool>,
    claims: Writer<IpAddressClaim>,
    addresses: Writer<IpAddress>,
    clusters: Writer<Cluster>,
}

pub(super) fn stores(version: IpamVersion) -> (Stores, Writers) {
    let (pools, claims) = (Writer::new(()), Writer::new(version));
    let (addresses, clusters) = (Writer::new(version), Writer::new(version));
    let stores = Stores {
        pools: pools.as_reader(),
        claims: claims.as_reader(),
        addresses: addresses.as_reader(),
        clusters: clusters.as_reader(),
        version,
    };
    (stores, Writers { pools, claims, addresses, clusters })
}

/// Lists every kind once, for read-only tools.
pub(super) async fn list_all(
    kube: &Kubernetes,
    namespace: Option<&str>,
    memory: &Memory,
    writers: &mut Writers,
) -> Result<(), kube::Error> {
    let Kubernetes { client, version } = kube;
    list(within(client, namespace), &mut writers.pools, |change| drop(remember_pool(memory, &change))).await?;
    list(within_versioned(client, namespace, *version), &mut writers.claims, |change| {
        drop(remember_claim(memory, &change))
    })
    .await?;
    let addresses = within_versioned(client, namespace, *version);
    list(addresses, &mut writers.addresses, |change| drop(remember_address(memory, &change))).await?;
    list(within_versioned(client, namespace, *version), &mut writers.clusters, |_| {}).await
}

/// Watches everything, for the controllers.
pub(super) struct Watches {
    pub(super) kube: Kubernetes,
    /// The namespace to watch; all of them when there is none.
    pub(super) namespace: Option<String>,
    pub(super) stores: Stores,
    pub(super) memory: Arc<Memory>,
    pub(super) wake: Wake,
    pub(super) metrics: Metrics,
    pub(super) clock: Clock,
}

impl Watches {
    /// Runs until the process ends.
    pub(super) async fn drive(&self, writers: Writers) {
        let Kubernetes { client, version } = &self.kube;
        let namespace = self.namespace.as_deref();
        let claims = within_versioned(client, namespace, *version);
        let addresses = within_versioned(client, namespace, *version);
        let clusters = within_versioned(client, namespace, *version);
        let interruptions = &self.memory.interruptions;
        tokio::select! {
            // In this order always, so that a simulation repeats.
            biased;
            () = drive(within(client, namespace), writers.pools, interruptions, |change| self.pool_changed(&change)) => {}
            () = drive(claims, writers.claims, interruptions, |change| self.claim_changed(&change)) => {}
            () = drive(addresses, writers.addresses, interruptions, |change| self.address_changed(&change)) => {}
            () = drive(clusters, writers.clusters, interruptions, |change| self.cluster_changed(&change)) => {}
            () = drive_secrets(within(client, namespace), |change| self.secret_changed(&change)) => {}
        }
    }

    fn pool_changed(&self, change: &Change<'_, OpenStackFloatingIPPool>) {
        let gone = remember_pool(&self.memory, change);
        match change {
            Change::Applied(pool) if self.memory.pools.needs_reconcile(pool) => self.wake.pool(&name_of(*pool)),
            Change::Applied(_) | Change::Deleted(_) => {}
            // Only the metrics know a pool that was deleted while the controllers restarted.
            Change::Listed(existing) => {
                let exists = |pool: &PoolLabels| existing.contains(&ObjectName::new(&pool.namespace, &pool.name));
                self.metrics.retain_pools(exists);
            }
        }
        gone.iter().for_each(|(pool, known)| self.pool_is_gone(pool, known));
    }

    fn pool_is_gone(&self, pool: &ObjectName, known: &PoolState) {
        if let Some(resolved) = &known.resolved {
            self.memory.leave_ledger(resolved, self.clock.now());
        }
        self.metrics.pool_gone(&PoolLabels { namespace: pool.namespace.clone(), name: pool.name.clone() });
        self.wake.release_leftovers();
        // All of its claims, since a paused one is in no list of waiting or skipped claims.
        self.wake.claims_of(pool, |_| true);
        // Another pool may have waited for this one's id.
        self.wake.duplicate_pools();
    }

    fn claim_changed(&self, change: &Change<'_, IpAddressClaim>) {
        // For the holds of those that are gone.
        remember_claim(&self.memory, change).iter().for_each(|claim| self.wake.claim(claim));
        match change {
            Change::Applied(claim)
                if claim.spec.pool_ref.is_ours() && self.memory.claims.needs_reconcile(claim, self.kube.version) =>
            {
                self.wake.claim(&name_of(*claim));
            }
            // An event says that nothing is done for it.
            Change::Applied(claim) if claim.spec.pool_ref.is_misspelt() || claim.spec.pool_ref.is_capos() => {
                self.wake.claim(&name_of(*claim));
            }
            Change::Deleted(claim) if claim.spec.pool_ref.is_ours() => {
                let pool = ObjectName::new(claim.namespace().unwrap_or_default(), &claim.spec.pool_ref.name);
                self.wake.after_removal(&pool);
            }
            Change::Applied(_) | Change::Deleted(_) => {}
            // A pool that is being deleted waits for its last claim, and a claim's address may be an orphan now.
            Change::Listed(_) => self.memory.pools.names().iter().for_each(|pool| self.wake.pool(pool)),
        }
    }

    fn address_changed(&self, change: &Change<'_, IpAddress>) {
        let gone = remember_address(&self.memory, change);
        if let Change::Applied(address) | Change::Deleted(address) = change
            && address.spec.pool_ref.is_ours()
        {
            let namespace = address.namespace().unwrap_or_default();
            self.wake.claim(&ObjectName::new(&namespace, &address.spec.claim_ref.name));
            // Until it is gone, the sweep keeps its floating IP.
            if address.metadata.deletion_timestamp.is_some() || matches!(change, Change::Deleted(_)) {
                self.wake.after_removal(&ObjectName::new(&namespace, &address.spec.pool_ref.name));
            }
        }
        if !gone.is_empty() {
            self.memory.pools.names().iter().for_each(|pool| self.wake.pool(pool));
        }
        // An IPAddress has the name of its claim.
        gone.iter().for_each(|claim| self.wake.claim(claim));
    }

    fn cluster_changed(&self, change: &Change<'_, Cluster>) {
        let is_concerned = |cluster: &ObjectName| match change {
            Change::Applied(changed) | Change::Deleted(changed) => *cluster == name_of(*changed),
            // The deleted ones. Each of the others gets its own event.
            Change::Listed(existing) => !existing.contains(cluster),
        };
        let belongs = |claim: &IpAddressClaim| {
            let cluster = || Some(ObjectName::new(claim.namespace()?, cluster_of(claim)?));
            claim.spec.pool_ref.is_ours() && cluster().is_some_and(|cluster| is_concerned(&cluster))
        };
        sorted(&self.stores.claims, belongs).iter().for_each(|claim| self.wake.claim(&name_of(claim.as_ref())));
    }

    /// Wakes the pools that name the Secret, or whose cluster identity does, and those whose finalizer is on it although they
    /// no longer do.
    fn secret_changed(&self, change: &SecretChange<'_>) {
        let (secret, ours): (_, BTreeSet<String>) = match change {
            Change::Applied(secret) => {
                let finalizers = secret.metadata.finalizers.iter().flatten();
                let ours = finalizers.filter(|finalizer| finalizer.starts_with(SECRET_FINALIZER_PREFIX));
                (name_of(*secret), ours.cloned().collect())
            }
            Change::Deleted(secret) => (name_of(*secret), BTreeSet::new()),
            Change::Listed(existing) => return self.memory.secrets.lock().retain(existing),
        };
        self.memory.secrets.lock().observe(secret.clone(), ours.clone());
        if !ours.is_empty() {
            self.wake.release_leftovers();
        }
        let is_concerned = |pool: &OpenStackFloatingIPPool| {
            pool.namespace().as_deref() == Some(&secret.namespace)
                && (pool.spec.identity_ref.own_secret() == Some(&secret.name)
                    || !ours.is_empty() && ours.contains(&secret_finalizer(pool)))
        };
        sorted(&self.stores.pools, is_concerned).iter().for_each(|pool| self.wake.pool(&name_of(pool.as_ref())));
        self.memory.pools.with_identity_secret(&secret).iter().for_each(|pool| self.wake.pool(pool));
    }
}

/// Returns the pools that are gone, with what was known of them.
fn remember_pool(memory: &Memory, change: &Change<'_, OpenStackFloatingIPPool>) -> Vec<(ObjectName, PoolState)> {
    let gone = match change {
        Change::Applied(pool) => {
            let replaced = memory.pools.observe(pool);
            let listed = pool.spec.listed().into_iter();
            let reserved = pool.spec.reservations.iter().filter_map(|reservation| reservation.address.parse().ok());
            memory.published.write().set_listed(name_of(*pool), listed.chain(reserved).collect());
            return replaced.map(|replaced| (name_of(*pool), replaced)).into_iter().collect();
        }
        Change::Deleted(pool) => vec![name_of(*pool)],
        Change::Listed(existing) => {
            memory.pools.note_listed();
            memory.pools.missing_from(existing)
        }
    };
    let forget = |pool: ObjectName| {
        memory.published.write().set_listed(pool.clone(), BTreeSet::new());
        let known = memory.pools.remove(&pool).unwrap_or_default();
        (pool, known)
    };
    gone.into_iter().map(forget).collect()
}

/// Returns the deleted claims.
fn remember_claim(memory: &Memory, change: &Change<'_, IpAddressClaim>) -> Vec<ObjectName> {
    match change {
        Change::Applied(claim) if claim.spec.pool_ref.is_ours() => {
            memory.claims.observe(claim);
            Vec::new()
        }
        Change::Deleted(claim) if claim.spec.pool_ref.is_ours() => {
            memory.claims.remove(claim);
            vec![name_of(*claim)]
        }
        // It may have replaced one of ours while no watch ran.
        Change::Applied(claim) | Change::Deleted(claim) => {
            Some(name_of(*claim)).filter(|name| memory.claims.forget(name)).into_iter().collect()
        }
        Change::Listed(existing) => {
            memory.claims.forget_versions();
            memory.claims.retain(existing)
        }
    }
}

/// Returns the IPAddresses that a listing shows as deleted.
fn remember_address(memory: &Memory, change: &Change<'_, IpAddress>) -> Vec<ObjectName> {
    match change {
        Change::Applied(address) => {
            memory.claims.observe_address(address);
            if let Some(published) = read_published(address) {
                memory.published.write().insert(name_of(*address), published);
            }
            Vec::new()
        }
        Change::Deleted(address) => {
            memory.claims.forget_address(address);
            memory.published.write().remove(&name_of(*address));
            Vec::new()
        }
        Change::Listed(existing) => {
            memory.claims.forget_all_addresses();
            memory.published.write().retain(existing)
        }
    }
}

/// One of our kinds or Kubernetes', in one namespace or in all.
fn within<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope>,
    K::DynamicType: Default,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// The same for Cluster API's kinds, whose version is discovered.
fn within_versioned<K>(client: &Client, namespace: Option<&str>, version: IpamVersion) -> Api<Guarded<K>>
where
    Guarded<K>: Resource<DynamicType = IpamVersion, Scope = DynamicResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &version),
        None => Api::all_with(client.clone(), &version),
    }
}
