//! The IPAddress: made by the contract, kept as it should be, and never taken over from somebody else.

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, PostParams};
use kube::core::TypeMeta;
use kube::{Resource, ResourceExt};
use serde_json::json;

use super::{Error, Observed};
use crate::allocation::claim::{BoundAddress, Origin};
use crate::allocation::mark::Ownership;
use crate::api::address::IpAddressSpec;
use crate::api::claim::{AddressRef, PoolRef};
use crate::api::names::{
    ADDRESS_FINALIZER, CLUSTER_NAME_LABEL, FLOATING_IP_ID_ANNOTATION, NETWORK_ID_ANNOTATION, ORIGIN_ANNOTATION,
    POOL_ID_ANNOTATION, POOL_KIND,
};
use crate::api::{IpAddress, IpAddressClaim, IpamVersion, OpenStackFloatingIPPool};
use crate::controllers::context::Context;
use crate::controllers::patch;
use crate::controllers::registry::ResolvedPool;
use crate::controllers::watch;
use crate::floating_ip::{FloatingIp, FloatingIpId};
use crate::object_name::ObjectName;

/// What the claim's IPAddress names; an error, for the user, when somebody else made it.
pub(super) fn published(observed: &Observed, served: &ResolvedPool) -> Result<Option<BoundAddress>, String> {
    let Some(address) = observed.address.as_deref() else { return Ok(None) };
    let published = read(address, &observed.claim, served).or_else(|| recognize(address, observed, served));
    published.map(Some).ok_or_else(|| {
        format!(
            "IPAddress {} exists, but was not made by this pool for this claim: delete it, and the claim gets an address",
            address.name_any()
        )
    })
}

fn read(address: &IpAddress, claim: &IpAddressClaim, served: &ResolvedPool) -> Option<BoundAddress> {
    let annotations = address.annotations();
    let is_ours =
        is_for(address, claim) && annotations.get(POOL_ID_ANNOTATION).is_some_and(|id| id == served.policy.id.as_str());
    let fip = annotations.get(FLOATING_IP_ID_ANNOTATION).filter(|_| is_ours)?;
    Some(BoundAddress { address: address.spec.address.parse().ok()?, fip: FloatingIpId::new(fip) })
}

/// An IPAddress that lost its annotations, as by a move that was cut off and begun again: it is ours where the address that
/// it names has the claim's mark in Neutron.
fn recognize(address: &IpAddress, observed: &Observed, served: &ResolvedPool) -> Option<BoundAddress> {
    let annotations = address.annotations();
    let has_lost = ![POOL_ID_ANNOTATION, FLOATING_IP_ID_ANNOTATION].iter().any(|key| annotations.contains_key(*key));
    let named: IpAddr = address.spec.address.parse().ok()?;
    let (ledger, id) = (served.project.ledger(), &served.policy.id);
    let held = Ownership::Held(observed.key.clone());
    let mut theirs = ledger.of_claim(id, &observed.key);
    let entry = theirs.find(|entry| entry.fip.address == named && entry.marks.ownership(id) == held)?;
    (has_lost && is_for(address, &observed.claim)).then(|| BoundAddress { address: named, fip: entry.fip.id.clone() })
}

fn is_for(address: &IpAddress, claim: &IpAddressClaim) -> bool {
    address.spec.claim_ref.name == claim.name_any() && address.spec.pool_ref == claim.spec.pool_ref
}

/// Makes the claim's IPAddress what it should be.
pub(super) async fn run(
    observed: &Observed,
    ctx: &Arc<Context>,
    served: &ResolvedPool,
    fip: &FloatingIp,
    origin: Origin,
) -> Result<(), Error> {
    let failed = |what| move |error| Error::Kubernetes(what, error);
    let api = ctx.addresses(&observed.name.namespace);
    let Some(pool) = &observed.pool else { return Ok(()) };
    match observed.address.as_deref() {
        None => {
            match api.create(&PostParams::default(), &desired(observed, pool, served, fip, origin, ctx.version)).await {
                Ok(created) => {
                    know(&created, observed, ctx);
                    Ok(())
                }
                // Our own, not seen yet, or somebody else's: the watch brings it, and then it is looked at.
                Err(error) if patch::is_conflict(&error) => {
                    let existing = api.get(&observed.name.name).await.map_err(failed("read the IPAddress"))?;
                    match read(&existing, &observed.claim, served) {
                        Some(published)
                            if published.fip == fip.id && existing.metadata.deletion_timestamp.is_none() =>
                        {
                            know(&existing, observed, ctx);
                            Ok(())
                        }
                        _ => Err(Error::Kubernetes("create the IPAddress", error)),
                    }
                }
                Err(error) => Err(Error::Kubernetes("create the IPAddress", error)),
            }
        }
        // Deleted under a living claim: it goes, and comes back with the same address.
        Some(address) if address.metadata.deletion_timestamp.is_some() => {
            remove_finalizer(ctx, address).await?;
            Ok(())
        }
        Some(address) => match repair(address, &desired(observed, pool, served, fip, origin, ctx.version)) {
            None => Ok(()),
            Some(change) => {
                patch::merge(&api, &observed.name.name, change).await.map(drop).map_err(failed("repair the IPAddress"))
            }
        },
    }
}

/// The claim's IPAddress is there. The watch will say the same; until then nobody else may take the address for unnamed.
fn know(address: &IpAddress, observed: &Observed, ctx: &Context) {
    ctx.created_address(&observed.name);
    if let Some(naming) = watch::naming(address) {
        ctx.published_mut(|published| published.observe(observed.name.clone(), naming));
    }
}

/// Whether the claim has an IPAddress, also where no watch has brought it: asked of the API server. Where that does not
/// say, it may have one.
pub(super) async fn may_have_one(ctx: &Context, claim: &ObjectName) -> bool {
    !matches!(ctx.addresses(&claim.namespace).get_opt(&claim.name).await, Ok(None))
}

/// The claim went while it was served. It can: the API server deletes an object that had no finalizer when it looked,
/// even if one was put on before it is done. Nobody else would miss the address, since the garbage collector leaves what
/// the pool still owns. So the IPAddress is deleted, and the sweep gives back what a claim that is gone has named.
pub(super) async fn without_claim(observed: &Observed, ctx: &Arc<Context>) -> Result<(), Error> {
    // Taken away by a move, or for another reason to leave things as they are: the audit sees to it.
    if !ctx.is_at_work(&observed.pool_name) {
        return Ok(());
    }
    tracing::info!(claim.name = %observed.name, "went while it was served: its address is given back");
    let api = ctx.addresses(&observed.name.namespace);
    match api.delete(&observed.name.name, &DeleteParams::default()).await {
        Err(error) if !patch::is_not_found(&error) => Err(Error::Kubernetes("delete the IPAddress", error)),
        _ => Ok(()),
    }
}

/// Takes the IPAddress away: finalizer first, as the contract has it.
pub(super) async fn remove(ctx: &Arc<Context>, address: &IpAddress) -> Result<(), Error> {
    remove_finalizer(ctx, address).await?;
    if address.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let api = ctx.addresses(&address.namespace().unwrap_or_default());
    let same = kube::api::Preconditions { uid: address.uid(), resource_version: None };
    match api.delete(&address.name_any(), &DeleteParams::default().preconditions(same)).await {
        Ok(_) => Ok(()),
        Err(error) if patch::is_not_found(&error) => Ok(()),
        Err(error) => Err(Error::Kubernetes("delete the IPAddress", error)),
    }
}

pub(super) async fn remove_finalizer(ctx: &Arc<Context>, address: &IpAddress) -> Result<(), Error> {
    let Some(change) = patch::without_finalizer(&address.metadata, ADDRESS_FINALIZER) else { return Ok(()) };
    let api = ctx.addresses(&address.namespace().unwrap_or_default());
    match patch::merge(&api, &address.name_any(), change).await {
        Ok(_) => Ok(()),
        Err(error) if patch::is_not_found(&error) => Ok(()),
        Err(error) => Err(Error::Kubernetes("take the finalizer off the IPAddress", error)),
    }
}

fn owners(claim: &IpAddressClaim, pool: &OpenStackFloatingIPPool, version: IpamVersion) -> Vec<OwnerReference> {
    let owners = json!([
        {
            "apiVersion": IpAddressClaim::api_version(&version), "kind": "IPAddressClaim", "name": claim.name_any(),
            "uid": claim.uid(), "controller": true, "blockOwnerDeletion": true,
        },
        {
            "apiVersion": OpenStackFloatingIPPool::api_version(&()), "kind": POOL_KIND, "name": pool.name_any(),
            "uid": pool.uid(), "controller": false, "blockOwnerDeletion": true,
        },
    ]);
    serde_json::from_value(owners).expect("owner references are well formed")
}

fn desired(
    observed: &Observed,
    pool: &OpenStackFloatingIPPool,
    served: &ResolvedPool,
    fip: &FloatingIp,
    origin: Origin,
    version: IpamVersion,
) -> IpAddress {
    let claim = &observed.claim;
    let mut address = IpAddress {
        spec: IpAddressSpec {
            claim_ref: AddressRef { name: claim.name_any() },
            pool_ref: PoolRef::ours(&pool.name_any()),
            address: fip.address.to_string(),
            prefix: if fip.address.is_ipv4() { 32 } else { 128 },
        },
        types: Some(TypeMeta {
            api_version: IpAddress::api_version(&version).into_owned(),
            kind: IpAddress::kind(&version).into_owned(),
        }),
        ..IpAddress::default()
    };
    address.metadata.name = Some(claim.name_any());
    address.metadata.namespace = claim.namespace();
    address.metadata.finalizers = Some(vec![ADDRESS_FINALIZER.into()]);
    address.metadata.owner_references = Some(owners(claim, pool, version));
    address.metadata.labels =
        claim.labels().get(CLUSTER_NAME_LABEL).map(|cluster| [(CLUSTER_NAME_LABEL.to_owned(), cluster.clone())].into());
    address.metadata.annotations = Some(
        [
            (POOL_ID_ANNOTATION, served.policy.id.as_str()),
            (FLOATING_IP_ID_ANNOTATION, fip.id.as_str()),
            (NETWORK_ID_ANNOTATION, fip.network.as_str()),
            (ORIGIN_ANNOTATION, origin.as_str()),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into(),
    );
    address
}

/// What a restore, a move or a hand has taken from the IPAddress: owners, finalizer, annotations.
fn repair(address: &IpAddress, desired: &IpAddress) -> Option<serde_json::Value> {
    let wanted = desired.owner_references();
    let has_owners = wanted.iter().all(|owner| address.owner_references().iter().any(|its| its.uid == owner.uid));
    let is_protected = patch::has_finalizer(&address.metadata, ADDRESS_FINALIZER);
    // What is there was looked at before; only where all of it is missing it is written again.
    let has_annotations = address.annotations().contains_key(POOL_ID_ANNOTATION);
    if has_owners && is_protected && has_annotations {
        return None;
    }
    let mut finalizers = address.metadata.finalizers.clone().unwrap_or_default();
    if !is_protected {
        finalizers.push(ADDRESS_FINALIZER.into());
    }
    let is_foreign = |its: &&OwnerReference| !wanted.iter().any(|ours| ours.kind == its.kind && ours.name == its.name);
    let others = address.owner_references().iter().filter(is_foreign);
    let owners: Vec<&OwnerReference> = wanted.iter().chain(others).collect();
    let mut change = json!({"metadata": {
        "resourceVersion": address.metadata.resource_version, "finalizers": finalizers, "ownerReferences": owners,
    }});
    if !has_annotations {
        change["metadata"]["annotations"] = json!(desired.annotations());
    }
    Some(change)
}
