//! The owners of a claim, up to the Machine and what created that, as far as the user may read them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt};

/// From a claim to its Cluster: server, infrastructure machine, machine, set, deployment, cluster.
const MAX_OWNERS: usize = 6;

/// `Kind name` of each owner, the nearest first; the last one may be unreadable.
pub(in crate::plugin) async fn list_owners(client: &Client, namespace: &str, owners: &[OwnerReference]) -> Vec<String> {
    let mut chain = Vec::new();
    let mut next = main_owner(owners).cloned();
    while let Some(owner) = next.take().filter(|_| chain.len() < MAX_OWNERS) {
        chain.push(format!("{} {}", owner.kind, owner.name));
        next = read(client, namespace, &owner).await.and_then(|object| main_owner(object.owner_references()).cloned());
    }
    chain
}

/// The controller, or else the first: a claim that CAPO created has one owner.
fn main_owner(owners: &[OwnerReference]) -> Option<&OwnerReference> {
    owners.iter().find(|owner| owner.controller == Some(true)).or_else(|| owners.first())
}

async fn read(client: &Client, namespace: &str, owner: &OwnerReference) -> Option<DynamicObject> {
    let (group, version) = owner.api_version.split_once('/').unwrap_or(("", &owner.api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &owner.kind));
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    api.get(&owner.name).await.ok().filter(|object| object.uid().as_ref() == Some(&owner.uid))
}
