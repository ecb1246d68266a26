//! Objects of any namespace: the benchmarks have more namespaces than a scenario.

use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::core::DynamicObject;

use crate::support::{Kind, Manifest, World};

pub fn api(world: &World, kind: Kind, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(world.client.clone(), namespace, &kind.resource(world.version))
}

pub async fn create(world: &World, namespace: &str, manifest: Manifest) -> DynamicObject {
    let object = manifest.object(world.version, namespace);
    let created = api(world, manifest.kind, namespace).create(&PostParams::default(), &object).await;
    created.unwrap_or_else(|error| panic!("{} is refused: {error}", manifest.name()))
}

pub async fn delete(world: &World, kind: Kind, namespace: &str, name: &str) {
    let deleted = api(world, kind, namespace).delete(name, &DeleteParams::default()).await;
    deleted.unwrap_or_else(|error| panic!("{kind:?} {name} cannot be deleted: {error}"));
}
