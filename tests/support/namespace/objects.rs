//! Objects of a namespace: created, changed, read and deleted.

use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{DynamicObject, GroupVersionKind};
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::Namespace;
use crate::support::manifest::{Kind, Manifest};
use crate::support::wait::RECOVERY;

impl Namespace {
    pub async fn create(&self, manifest: impl Into<Manifest>) -> DynamicObject {
        let manifest = manifest.into();
        let name = manifest.name();
        self.try_create(manifest).await.unwrap_or_else(|error| panic!("{name} is refused: {error}"))
    }

    /// Creates an object that the API server may refuse.
    pub async fn try_create(&self, manifest: impl Into<Manifest>) -> Result<DynamicObject, kube::Error> {
        self.post(manifest.into(), &PostParams::default()).await
    }

    pub async fn dry_run(&self, manifest: impl Into<Manifest>) -> Result<DynamicObject, kube::Error> {
        self.post(manifest.into(), &PostParams { dry_run: true, field_manager: None }).await
    }

    async fn post(&self, manifest: Manifest, how: &PostParams) -> Result<DynamicObject, kube::Error> {
        let object = manifest.object(self.world.version, &self.name);
        self.api(manifest.kind).create(how, &object).await
    }

    /// Applies an object, server-side, as `kubectl apply` does.
    pub async fn apply(&self, manifest: impl Into<Manifest>) -> DynamicObject {
        let manifest = manifest.into();
        let object = manifest.object(self.world.version, &self.name);
        self.api(manifest.kind)
            .patch(&manifest.name(), &PatchParams::apply("scenario").force(), &Patch::Apply(&object))
            .await
            .unwrap_or_else(|error| panic!("{} is refused: {error}", manifest.name()))
    }

    /// Applies an object of any kind that the API server serves, in the namespace.
    pub async fn apply_any(&self, manifest: &Value, how: &PatchParams) -> Result<DynamicObject, kube::Error> {
        let mut object: DynamicObject = serde_json::from_value(manifest.clone()).map_err(kube::Error::SerdeError)?;
        let types = object.types.clone().unwrap_or_default();
        let kind = GroupVersionKind::try_from(&types).expect("a manifest names its group, version and kind");
        let (resource, capabilities) = pinned_kind(&self.world.client, &kind).await?;
        let api: Api<DynamicObject> = match capabilities.scope {
            Scope::Cluster => Api::all_with(self.world.client.clone(), &resource),
            Scope::Namespaced => Api::namespaced_with(self.world.client.clone(), &self.name, &resource),
        };
        object.metadata.namespace = (capabilities.scope == Scope::Namespaced).then(|| self.name.clone());
        let name = object.metadata.name.clone().expect("a manifest has a name");
        api.patch(&name, how, &Patch::Apply(&object)).await
    }

    /// Changes an object by a JSON merge patch.
    pub async fn patch(&self, kind: Kind, name: &str, change: Value) -> DynamicObject {
        self.api(kind)
            .patch(name, &PatchParams::default(), &Patch::Merge(&change))
            .await
            .unwrap_or_else(|error| panic!("{kind:?} {name} cannot be changed: {error}"))
    }

    /// Changes the status of an object by a JSON merge patch of the whole object.
    pub async fn patch_status(&self, kind: Kind, name: &str, change: Value) -> DynamicObject {
        self.api(kind)
            .patch_status(name, &PatchParams::default(), &Patch::Merge(&change))
            .await
            .unwrap_or_else(|error| panic!("the status of {kind:?} {name} cannot be changed: {error}"))
    }

    /// Removes CAPO's finalizer from a claim, as CAPO does when the machine is gone.
    pub async fn remove_capo_finalizer(&self, claim: &str) {
        self.remove_finalizers(Kind::Claim, claim, |finalizer| {
            finalizer.starts_with("openstackmachine.infrastructure.cluster.x-k8s.io/")
        })
        .await;
    }

    /// Deletes an object if it exists; does not wait.
    pub async fn delete(&self, kind: Kind, name: &str) {
        match self.api(kind).delete(name, &DeleteParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => panic!("{kind:?} {name} cannot be deleted: {error}"),
        }
    }

    /// Deletes a claim and removes CAPO's finalizer, as CAPO does; does not wait.
    pub async fn release(&self, claim: &str) {
        self.delete(Kind::Claim, claim).await;
        self.remove_capo_finalizer(claim).await;
    }

    pub async fn get(&self, kind: Kind, name: &str) -> Option<DynamicObject> {
        self.api(kind).get_opt(name).await.unwrap_or_else(|error| panic!("{kind:?} {name} cannot be read: {error}"))
    }

    pub async fn list(&self, kind: Kind) -> Vec<DynamicObject> {
        let listed = self.api(kind).list(&ListParams::default()).await;
        listed.unwrap_or_else(|error| panic!("{kind:?} cannot be listed: {error}")).items
    }

    /// Deletes all objects of these kinds without their finalizers, as when the cluster is lost.
    pub async fn delete_by_force(&self, kinds: &[Kind]) {
        for kind in kinds {
            for object in self.list(*kind).await {
                self.delete(*kind, &object.name_any()).await;
                self.remove_finalizers(*kind, &object.name_any(), |_| true).await;
                self.await_gone(*kind, &object.name_any(), RECOVERY).await;
            }
        }
    }

    pub async fn remove_finalizers(&self, kind: Kind, name: &str, which: impl Fn(&str) -> bool) {
        let api = self.api(kind);
        // Others change finalizers at the same time, so the patch names the version that it was made from.
        for _ in 0..20 {
            let Ok(Some(object)) = api.get_opt(name).await else { return };
            let kept: Vec<_> = object.finalizers().iter().filter(|finalizer| !which(finalizer)).collect();
            if kept.len() == object.finalizers().len() {
                return;
            }
            let version = object.resource_version();
            let change = json!({"metadata": {"finalizers": kept, "resourceVersion": version}});
            match api.patch(name, &PatchParams::default(), &Patch::Merge(&change)).await {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(kube::Error::Api(status)) if status.code == 404 => return,
                Err(error) => panic!("the finalizers of {kind:?} {name} cannot be changed: {error}"),
                Ok(_) => return,
            }
        }
        panic!("the finalizers of {kind:?} {name} change too often");
    }
}
