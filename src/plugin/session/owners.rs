//! For whom a claim is: its owners up to the Machine and what made that, as far as the user may read them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt};

/// More than there are from a claim to a Cluster: server, infrastructure machine, machine, set, deployment, cluster.
const HOPS: usize = 6;

/// `Kind name` of each owner, the nearest first. What cannot be read ends the line, but is named.
pub(in crate::plugin) async fn chain(client: &Client, namespace: &str, owners: &[OwnerReference]) -> Vec<String> {
    let mut chain = Vec::new();
    let mut next = leading(owners).cloned();
    while let Some(owner) = next.take().filter(|_| chain.len() < HOPS) {
        chain.push(format!("{} {}", owner.kind, owner.name));
        next = read(client, namespace, &owner).await.and_then(|object| leading(object.owner_references()).cloned());
    }
    chain
}

/// The one that made it; of a claim that CAPO made, the only one.
fn leading(owners: &[OwnerReference]) -> Option<&OwnerReference> {
    owners.iter().find(|owner| owner.controller == Some(true)).or_else(|| owners.first())
}

async fn read(client: &Client, namespace: &str, owner: &OwnerReference) -> Option<DynamicObject> {
    let (group, version) = owner.api_version.split_once('/').unwrap_or(("", &owner.api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &owner.kind));
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    api.get(&owner.name).await.ok().filter(|object| object.uid().as_ref() == Some(&owner.uid))
}
