//! Watches: keep what Kubernetes has in stores, and tell who must look.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::core::{DeserializeGuard, NamespaceResourceScope};
use kube::runtime::reflector::store::Writer;
use kube::{Api, Client, Resource, ResourceExt};

use super::context::{Context, Stores, all, name_of};
use crate::allocation::published::{Binding, PublishedAddress};
use crate::allocation::{ClaimKey, PoolId};
use crate::api::names::{
    CLUSTER_NAME_LABEL, FLOATING_IP_ID_ANNOTATION, NETWORK_ID_ANNOTATION, POOL_ID_ANNOTATION, SECRET_FINALIZER_PREFIX,
};
use crate::api::{Cluster, IpAddress, IpAddressClaim, IpamVersion, OpenStackFloatingIPPool};
use crate::floating_ip::{FloatingIpId, NetworkId};
use crate::metrics::PoolLabels;
use crate::object_name::ObjectName;

mod apis;
mod stream;

pub(super) use apis::{another_version, await_apis};

use stream::{Change, SecretChange, drive, drive_secrets, list};

/// The writing ends of [`Stores`].
pub(super) struct Watches {
    pools: Writer<OpenStackFloatingIPPool>,
    claims: Writer<IpAddressClaim>,
    addresses: Writer<IpAddress>,
    clusters: Writer<Cluster>,
}

pub(super) fn stores(version: IpamVersion) -> (Stores, Watches) {
    let (pools, claims) = (Writer::new(()), Writer::new(version));
    let (addresses, clusters) = (Writer::new(version), Writer::new(version));
    let stores = Stores {
        pools: pools.as_reader(),
        claims: claims.as_reader(),
        addresses: addresses.as_reader(),
        clusters: clusters.as_reader(),
    };
    (stores, Watches { pools, claims, addresses, clusters })
}

impl Watches {
    /// Runs until the process ends.
    pub(super) async fn drive(self, ctx: Arc<Context>) {
        let scope = ctx.options.namespace.clone();
        let (client, version) = (ctx.client.clone(), ctx.version);
        let pools = within(&client, scope.as_deref());
        let secrets = within(&client, scope.as_deref());
        tokio::select! {
            // In this order always, so that a simulation repeats.
            biased;
            () = drive(pools, self.pools, |change| pool_changed(&ctx, change)) => {}
            () = drive(api(&client, scope.as_deref(), version), self.claims, |change| claim_changed(&ctx, change)) => {}
            () = drive(api(&client, scope.as_deref(), version), self.addresses, |change| address_changed(&ctx, change)) => {}
            () = drive(api(&client, scope.as_deref(), version), self.clusters, |change| cluster_changed(&ctx, change)) => {}
            () = drive_secrets(secrets, |secret| secret_changed(&ctx, secret)) => {}
        }
    }

    /// Lists every kind once, as a watch that begins does, for somebody who looks and does nothing.
    pub(super) async fn list(&mut self, ctx: &Context) -> Result<(), kube::Error> {
        let scope = ctx.options.namespace.as_deref();
        let (client, version) = (&ctx.client, ctx.version);
        list(within(client, scope), &mut self.pools, |change| pool_changed(ctx, change)).await?;
        list(api(client, scope, version), &mut self.claims, |change| claim_changed(ctx, change)).await?;
        list(api(client, scope, version), &mut self.addresses, |change| address_changed(ctx, change)).await?;
        list(api(client, scope, version), &mut self.clusters, |change| cluster_changed(ctx, change)).await
    }
}

/// A kind of ours or of Kubernetes', in one namespace or in all.
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

/// The same of Cluster API's, whose version is found out.
fn api<K>(client: &Client, namespace: Option<&str>, version: IpamVersion) -> Api<DeserializeGuard<K>>
where
    DeserializeGuard<K>: Resource<DynamicType = IpamVersion, Scope = kube::core::DynamicResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &version),
        None => Api::all_with(client.clone(), &version),
    }
}

fn pool_changed(ctx: &Context, change: Change<'_, OpenStackFloatingIPPool>) {
    match change {
        Change::Seen(pool) => {
            let listed = pool.spec.listed().into_iter();
            let reserved = pool.spec.reservations.iter().filter_map(|reservation| reservation.address.parse().ok());
            ctx.published_mut(|published| {
                published.set_listed(list_key(&name_of(pool)), listed.chain(reserved).collect())
            });
            ctx.wake_pool(&name_of(pool));
        }
        Change::Gone(pool) => pool_gone(ctx, &name_of(pool)),
        Change::All(living) => {
            let known = ctx.registry.names().into_iter();
            known.filter(|pool| !living.contains(pool)).for_each(|pool| pool_gone(ctx, &pool));
            // One that went while the controllers started anew is known to the metrics alone.
            ctx.metrics.retain_pools(|pool| living.contains(&ObjectName::new(&pool.namespace, &pool.name)));
        }
    }
}

fn pool_gone(ctx: &Context, name: &ObjectName) {
    ctx.published_mut(|published| published.set_listed(list_key(name), BTreeSet::new()));
    ctx.registry.forget(name);
    ctx.wake_left(name);
    ctx.metrics.pool_gone(&PoolLabels { namespace: name.namespace.clone(), name: name.name.clone() });
    // All of its claims: one that was left alone with the pool, paused, waits for nothing that anybody knows of.
    super::pool::wake_claims(ctx, name, |_| true);
    // Another may have waited for this one's id.
    all(&ctx.stores.pools, |_| true).iter().for_each(|other| ctx.wake_pool(&name_of(other.as_ref())));
}

/// The pools that name the Secret look at it again, and those whose finalizer is on it although they no longer do.
fn secret_changed(ctx: &Context, change: SecretChange<'_>) {
    let is_ours = |finalizer: &&String| finalizer.starts_with(SECRET_FINALIZER_PREFIX);
    let (secret, ours): (_, BTreeSet<String>) = match change {
        Change::Seen(secret) => {
            (name_of(secret), secret.metadata.finalizers.iter().flatten().filter(is_ours).cloned().collect())
        }
        // A restarted watch may not tell of one that went meanwhile; to let it go again does no harm.
        Change::Gone(secret) => (name_of(secret), BTreeSet::new()),
        Change::All(_) => return,
    };
    ctx.kept_secrets().observe(secret.clone(), ours.clone());
    let is_concerned = |pool: &OpenStackFloatingIPPool| {
        pool.namespace().as_deref() == Some(&secret.namespace)
            && (pool.spec.identity_ref.name == secret.name
                || (!ours.is_empty() && ours.contains(&super::pool::secret_finalizer(pool))))
    };
    for pool in all(&ctx.stores.pools, is_concerned) {
        ctx.wake_pool(&name_of(pool.as_ref()));
    }
}

/// The name under which a pool of ours keeps its listed in the published.
fn list_key(pool: &ObjectName) -> String {
    format!("ipam/{}/{}", pool.namespace, pool.name)
}

fn claim_changed(ctx: &Context, change: Change<'_, IpAddressClaim>) {
    match change {
        Change::Seen(claim) if claim.spec.pool_ref.is_ours() => ctx.wake_claim(&name_of(claim)),
        Change::Gone(claim) if claim.spec.pool_ref.is_ours() => {
            let pool = ObjectName::new(claim.namespace().unwrap_or_default(), &claim.spec.pool_ref.name);
            super::claim::forget(ctx, &pool, claim);
            // A pool that is being deleted waits for its last claim.
            ctx.wake_pool(&pool);
        }
        Change::Seen(_) | Change::Gone(_) => {}
        Change::All(living) => super::claim::retain(ctx, living),
    }
}

fn address_changed(ctx: &Context, change: Change<'_, IpAddress>) {
    match change {
        Change::Seen(address) => {
            ctx.writes().saw_address(&name_of(address));
            if let Some(naming) = naming(address) {
                ctx.published_mut(|published| published.observe(name_of(address), naming));
            }
            wake_owner(ctx, address);
        }
        Change::Gone(address) => {
            ctx.writes().saw_address(&name_of(address));
            ctx.published_mut(|published| published.forget(&name_of(address)));
            wake_owner(ctx, address);
        }
        Change::All(living) => {
            ctx.writes().saw_all_addresses();
            let gone = ctx.published_mut(|published| published.retain(living));
            // Their claims, which have the same names, were not told that they went.
            gone.iter().for_each(|claim| ctx.wake_claim(claim));
        }
    }
}

fn wake_owner(ctx: &Context, address: &IpAddress) {
    if address.spec.pool_ref.is_ours() {
        let namespace = address.namespace().unwrap_or_default();
        ctx.wake_claim(&ObjectName::new(&namespace, &address.spec.claim_ref.name));
        if address.metadata.deletion_timestamp.is_some() {
            ctx.wake_sweeper(&ObjectName::new(&namespace, &address.spec.pool_ref.name));
        }
    }
}

/// What an IPAddress names; ours are known by the pool's id and the floating IP's, which others may not have written.
pub(super) fn naming(object: &IpAddress) -> Option<PublishedAddress> {
    let address = object.spec.address.parse().ok()?;
    let annotations = object.annotations();
    let ours = || {
        let pool = PoolId::parse(annotations.get(POOL_ID_ANNOTATION)?)?;
        let fip = FloatingIpId::new(annotations.get(FLOATING_IP_ID_ANNOTATION)?);
        let claim = ClaimKey::of(&object.namespace()?, &object.spec.claim_ref.name);
        let network = annotations.get(NETWORK_ID_ANNOTATION).map(NetworkId::new);
        object.spec.pool_ref.is_ours().then_some(Binding { pool, claim, fip, network })
    };
    Some(PublishedAddress { address, ours: ours() })
}

fn cluster_changed(ctx: &Context, change: Change<'_, Cluster>) {
    let is_concerned = |cluster: &ObjectName| match change {
        Change::Seen(seen) | Change::Gone(seen) => *cluster == name_of(seen),
        // Those that went meanwhile; of the others it is told one by one.
        Change::All(living) => !living.contains(cluster),
    };
    let belongs = |claim: &IpAddressClaim| {
        let cluster = || Some(ObjectName::new(claim.namespace()?, cluster_of(claim)?));
        claim.spec.pool_ref.is_ours() && cluster().is_some_and(|cluster| is_concerned(&cluster))
    };
    for claim in all(&ctx.stores.claims, belongs) {
        ctx.wake_claim(&name_of(claim.as_ref()));
    }
}

/// The Cluster that a claim belongs to: by its spec, or by the label that CAPO sets (contract, part A.3).
pub(super) fn cluster_of(claim: &IpAddressClaim) -> Option<&str> {
    let by_label = || claim.labels().get(CLUSTER_NAME_LABEL).map(String::as_str);
    claim.spec.cluster_name.as_deref().or_else(by_label).filter(|name| !name.is_empty())
}
