//! Creates and repairs the IPAddress as the Cluster API IPAM provider contract demands. An IPAddress of another writer is
//! never taken over.

use std::collections::BTreeMap;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use super::observe::Observed;
use super::request::read_bound;
use super::{ClaimController, Error};
use crate::allocation::origin::Origin;
use crate::api::address::IpAddressSpec;
use crate::api::claim::{AddressRef, PoolRef};
use crate::api::names::{
    ADDRESS_FINALIZER, CLAIM_KIND, CLUSTER_NAME_LABEL, FLOATING_IP_ID_ANNOTATION, NETWORK_ID_ANNOTATION,
    ORIGIN_ANNOTATION, POOL_ID_ANNOTATION, POOL_KIND,
};
use crate::api::{IpAddress, IpAddressClaim, IpamVersion, OpenStackFloatingIPPool};
use crate::controllers::kubernetes::{Kubernetes, find};
use crate::controllers::leftovers::KEPT_FOR;
use crate::controllers::memory::ResolvedPool;
use crate::controllers::objects::{is_owned_by, read_published};
use crate::controllers::patch::{self, remove_finalizer};
use crate::controllers::stores::with_all_references;
use crate::floating_ip::FloatingIp;
use crate::object_name::{ObjectName, is_name};

/// How the deletion of an IPAddress without a claim is repeated: for about half a minute. If the API server does not answer
/// for so long, the process loses its Lease, and what it leaves is an orphan.
const DELETE_RETRIES: ExponentialBuilder =
    ExponentialBuilder::new().with_min_delay(Duration::from_secs(1)).with_factor(2.0).with_max_times(5);

impl ClaimController {
    pub(super) async fn publish(
        &self,
        observed: &Observed,
        resolved: &ResolvedPool,
        fip: &FloatingIp,
        origin: Origin,
    ) -> Result<(), Error> {
        let Some(pool) = &observed.pool else { return Ok(()) };
        let desired = || desired_address(observed, pool, resolved, fip, origin, self.kube.version);
        match observed.address.as_deref() {
            None => self.create_address(observed, resolved, fip, desired()).await,
            // Deleted while its claim is active: it is removed first, and then created again with the same address.
            Some(address) if address.metadata.deletion_timestamp.is_some() => {
                self.let_go_of_address(address, pool).await
            }
            Some(address) => self.repair_address(observed, pool, address, &desired()).await,
        }
    }

    async fn repair_address(
        &self,
        observed: &Observed,
        pool: &OpenStackFloatingIPPool,
        address: &IpAddress,
        desired: &IpAddress,
    ) -> Result<(), Error> {
        if repair_patch(address, desired).is_none() {
            return Ok(());
        }
        let api = self.kube.addresses(&observed.name.namespace);
        let failed = |error| Error::Kubernetes("repair the IPAddress", error);
        let address = with_all_references(&api, address).await.map_err(failed)?;
        match repair_patch(&address, desired) {
            Some(change) if self.are_owners_current(observed, pool).await? => {
                patch::merge(&api, &observed.name.name, change).await.map(drop).map_err(failed)
            }
            _ => Ok(()),
        }
    }

    /// Whether the claim and the pool exist, and not others with their names that the watches have not delivered. The
    /// garbage collector removes references to owners that do not exist, and with the last one the IPAddress, so that it
    /// would be repaired again and again.
    async fn are_owners_current(&self, observed: &Observed, pool: &OpenStackFloatingIPPool) -> Result<bool, Error> {
        let claim = find(&self.kube.claims(&observed.name.namespace), &observed.name.name).await;
        let claim = claim.map_err(|error| Error::Kubernetes("read the claim", error))?;
        let is_current = claim.is_some_and(|claim| claim.metadata.uid == observed.claim.metadata.uid);
        Ok(is_current && self.is_pool_current(pool).await?)
    }

    async fn is_pool_current(&self, pool: &OpenStackFloatingIPPool) -> Result<bool, Error> {
        self.kube.is_current(pool).await.map_err(|error| Error::Kubernetes("read the pool", error))
    }

    async fn create_address(
        &self,
        observed: &Observed,
        resolved: &ResolvedPool,
        fip: &FloatingIp,
        desired: IpAddress,
    ) -> Result<(), Error> {
        let api = self.kube.addresses(&observed.name.namespace);
        let error = match api.create(&PostParams::default(), &desired).await {
            Ok(created) => {
                self.note_published(&created, observed);
                return Ok(());
            }
            Err(error) => error,
        };
        if patch::is_unknown(&error) {
            self.memory.claims.note_uncertain_address(&observed.claim);
        }
        // Either our own, not seen yet, or another one: the watch delivers that, and the claim is reconciled again.
        if patch::is_conflict(&error) {
            let existing = api.get(&observed.name.name).await;
            let existing = existing.map_err(|error| Error::Kubernetes("read the IPAddress", error))?;
            let is_the_same = read_bound(&existing, &observed.claim, resolved).is_some_and(|bound| bound.fip == fip.id);
            if is_the_same && existing.metadata.deletion_timestamp.is_none() {
                self.note_published(&existing, observed);
                return Ok(());
            }
            self.await_address(observed);
        }
        Err(Error::Kubernetes("create the IPAddress", error))
    }

    /// Records the IPAddress before the watch delivers it, so that its address counts as published at once.
    fn note_published(&self, address: &IpAddress, observed: &Observed) {
        self.await_address(observed);
        if let Some(published) = read_published(address) {
            self.memory.published.write().insert(observed.name.clone(), published);
        }
    }

    /// An IPAddress of this name exists: nothing is created until the watch delivers it.
    fn await_address(&self, observed: &Observed) {
        if self.stores.address(&observed.name).is_none() {
            self.memory.claims.await_address(&observed.claim);
        }
    }

    /// The claim was deleted while it was served, before it had the finalizer. Nothing else would notice its IPAddress:
    /// the garbage collector keeps what the pool still owns. So the IPAddress is deleted, and the sweep releases the
    /// address.
    pub(super) async fn remove_address_without_claim(&self, observed: &Observed) -> Result<(), Error> {
        // The pool is paused, moved or deleted: then the claim may have been moved too.
        if !self.stores.is_serving(&observed.pool_name) {
            return Ok(());
        }
        // The watch may show it for a while. Served again, it would get its IPAddress back, and lose it again.
        self.memory.claims.set_released(&observed.claim, true);
        tracing::info!(claim.name = %observed.name, "deleted while it was served: its address is released");
        // Here, since nothing else comes back to it once the watch has delivered that the claim is gone.
        let api = self.kube.addresses(&observed.name.namespace);
        let read = (async || find(&api, &observed.name.name).await).retry(DELETE_RETRIES).await;
        let failed = |error| Error::Kubernetes("delete the IPAddress", error);
        // A claim of another pool may have its name by now, and an IPAddress of its own.
        let is_of_pool = |address: &IpAddress| address.spec.pool_ref == observed.claim.spec.pool_ref;
        let Some(address) = read.map_err(failed)?.filter(is_of_pool) else { return Ok(()) };
        let delete = async || delete_address(&self.kube, &address).await;
        match delete.retry(DELETE_RETRIES).when(|error| !patch::is_conflict(error)).await {
            Err(error) if !patch::is_conflict(&error) => Err(failed(error)),
            _ => Ok(()),
        }
    }

    /// Removes the finalizer of a deleted IPAddress of the claim's pool, which does not know it. One without this pool as an
    /// owner was restored, and its pool may follow: it stays for a while.
    pub(super) async fn give_up_unknown_address(&self, observed: &Observed) -> Result<(), Error> {
        let (Some(pool), Some(address)) = (&observed.pool, &observed.address) else { return Ok(()) };
        let Some(deleted) = &address.metadata.deletion_timestamp else { return Ok(()) };
        let is_due = || self.clock.now().duration_since(deleted.0) >= KEPT_FOR;
        let is_of_pool = address.spec.pool_ref == observed.claim.spec.pool_ref;
        match is_of_pool && (is_owned_by(address, pool) || is_due()) {
            true => self.let_go_of_address(address, pool).await,
            false => Ok(()),
        }
    }

    /// Removes the finalizer of a deleted IPAddress, unless the watch shows a pool that was removed by force a moment ago, or
    /// that is being restored: then nothing else may say the id.
    async fn let_go_of_address(&self, address: &IpAddress, pool: &OpenStackFloatingIPPool) -> Result<(), Error> {
        match self.is_pool_current(pool).await? {
            true => remove_address_finalizer(&self.kube, address).await,
            false => Ok(()),
        }
    }

    /// Removes the finalizer of a deleted IPAddress whose floating IP is lost, so that the claim gets another address.
    pub(super) async fn give_up_deleted_address(&self, observed: &Observed) -> Result<(), Error> {
        match observed.address.as_deref().filter(|address| address.metadata.deletion_timestamp.is_some()) {
            Some(address) => remove_address_finalizer(&self.kube, address).await,
            None => Ok(()),
        }
    }
}

/// Whether the claim of an IPAddress exists and points at its pool, even if the watch has not delivered it.
pub(in crate::controllers) async fn is_claimed(kube: &Kubernetes, address: &IpAddress) -> Result<bool, Error> {
    let namespace = address.namespace().unwrap_or_default();
    if !is_name(&address.spec.claim_ref.name) {
        return Ok(false);
    }
    let claim = find(&kube.claims(&namespace), &address.spec.claim_ref.name).await;
    let claim = claim.map_err(|error| Error::Kubernetes("read the claim", error))?;
    Ok(claim.is_some_and(|claim| claim.is_of(&namespace, &address.spec.pool_ref.name)))
}

/// Whether the claim may have an IPAddress that the watch has not delivered. Without an answer, it may.
pub(super) async fn may_have_address(kube: &Kubernetes, claim: &ObjectName) -> bool {
    !matches!(find(&kube.addresses(&claim.namespace), &claim.name).await, Ok(None))
}

/// Deletes the IPAddress: the finalizer first, as the Cluster API IPAM provider contract demands.
pub(in crate::controllers) async fn remove_address(kube: &Kubernetes, address: &IpAddress) -> Result<(), Error> {
    remove_address_finalizer(kube, address).await?;
    if address.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    delete_address(kube, address).await.map_err(|error| Error::Kubernetes("delete the IPAddress", error))
}

/// Deletes this IPAddress, and not another one with its name: that is a conflict.
async fn delete_address(kube: &Kubernetes, address: &IpAddress) -> Result<(), kube::Error> {
    let api = kube.addresses(&address.namespace().unwrap_or_default());
    let same = Preconditions { uid: address.uid(), resource_version: None };
    match api.delete(&address.name_any(), &DeleteParams::default().preconditions(same)).await {
        Err(error) if !patch::is_gone(&error) => Err(error),
        _ => Ok(()),
    }
}

async fn remove_address_finalizer(kube: &Kubernetes, address: &IpAddress) -> Result<(), Error> {
    let api = kube.addresses(&address.namespace().unwrap_or_default());
    match remove_finalizer(&api, address, ADDRESS_FINALIZER).await {
        Err(error) if !patch::is_gone(&error) => {
            Err(Error::Kubernetes("remove the finalizer from the IPAddress", error))
        }
        _ => Ok(()),
    }
}

fn owners(observed: &Observed, pool: &OpenStackFloatingIPPool, version: IpamVersion) -> Vec<OwnerReference> {
    let claim = OwnerReference {
        api_version: IpAddressClaim::api_version(&version).into_owned(),
        kind: CLAIM_KIND.into(),
        name: observed.claim.name_any(),
        uid: observed.claim.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    let is_owned = observed.address.as_deref().is_some_and(|address| is_owned_by(address, pool));
    // In a foreground deletion of the pool, the garbage collector removes the reference from what the claim still owns.
    if pool.metadata.deletion_timestamp.is_some() && !is_owned {
        return vec![claim];
    }
    let owner = OwnerReference {
        api_version: OpenStackFloatingIPPool::api_version(&()).into_owned(),
        kind: POOL_KIND.into(),
        name: pool.name_any(),
        uid: pool.uid().unwrap_or_default(),
        controller: Some(false),
        block_owner_deletion: Some(true),
    };
    vec![claim, owner]
}

fn desired_address(
    observed: &Observed,
    pool: &OpenStackFloatingIPPool,
    resolved: &ResolvedPool,
    fip: &FloatingIp,
    origin: Origin,
    version: IpamVersion,
) -> IpAddress {
    let claim = &observed.claim;
    let spec = IpAddressSpec {
        claim_ref: AddressRef { name: claim.name_any() },
        pool_ref: PoolRef::ours(&pool.name_any()),
        address: fip.address.to_string(),
        prefix: if fip.address.is_ipv4() { 32 } else { 128 },
    };
    let mut address = IpAddress::new(version, spec);
    address.metadata.name = Some(claim.name_any());
    address.metadata.namespace = claim.namespace();
    address.metadata.finalizers = Some(vec![ADDRESS_FINALIZER.into()]);
    address.metadata.owner_references = Some(owners(observed, pool, version));
    let cluster = claim.labels().get(CLUSTER_NAME_LABEL);
    address.metadata.labels = cluster.map(|cluster| [(CLUSTER_NAME_LABEL.to_owned(), cluster.clone())].into());
    let annotations = [
        (POOL_ID_ANNOTATION, resolved.policy.id.as_str()),
        (FLOATING_IP_ID_ANNOTATION, fip.id.as_str()),
        (NETWORK_ID_ANNOTATION, fip.network.as_str()),
        (ORIGIN_ANNOTATION, origin.as_str()),
    ];
    address.metadata.annotations = Some(annotations.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    address
}

/// The patch that restores owners, finalizer and annotations, which a restore, a move or a user may have removed.
fn repair_patch(address: &IpAddress, desired: &IpAddress) -> Option<Value> {
    let wanted = desired.owner_references();
    let has_owners = wanted.iter().all(|owner| address.has_owner(&owner.uid));
    let is_protected = patch::has_finalizer(&address.metadata, ADDRESS_FINALIZER);
    let annotations = missing_annotations(address, desired);
    if has_owners && is_protected && annotations.is_empty() {
        return None;
    }
    let mut finalizers = address.metadata.finalizers.clone().unwrap_or_default();
    if !is_protected {
        finalizers.push(ADDRESS_FINALIZER.into());
    }
    let others = address.owner_references().iter().filter(|owner| !address.is_claim_or_pool(owner));
    let owners: Vec<_> = wanted.iter().chain(others).collect();
    let mut change = json!({"metadata": {
        "resourceVersion": address.metadata.resource_version, "finalizers": finalizers, "ownerReferences": owners,
    }});
    if !annotations.is_empty() {
        patch::set_metadata(&mut change, "annotations", json!(annotations));
    }
    Some(change)
}

/// All of them where the pool's id is missing, since an interrupted move loses all. Otherwise the pool's id was checked when
/// the request was built, and what names the floating IP is written where a user changed or removed it.
fn missing_annotations<'a>(address: &IpAddress, desired: &'a IpAddress) -> BTreeMap<&'a String, &'a String> {
    let is_lost = address.annotation(POOL_ID_ANNOTATION).is_none();
    let names_it = |key: &str| [FLOATING_IP_ID_ANNOTATION, NETWORK_ID_ANNOTATION].contains(&key);
    let is_missing =
        |(key, value): &(&String, &String)| is_lost || names_it(key) && address.annotation(key) != Some(value.as_str());
    desired.annotations().iter().filter(is_missing).collect()
}
