//! CAPO's cluster identities, as a platform writes them, and the labels that their selectors are compared with.

use k8s_openapi::api::core::v1::Namespace as KubeNamespace;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use serde_json::{Value, json};

use super::Namespace;
use super::manifest::PoolBuilder;

fn api(ns: &Namespace) -> Api<DynamicObject> {
    let (group, version) = ("infrastructure.cluster.x-k8s.io", "v1alpha1");
    let resource = ApiResource {
        group: group.into(),
        version: version.into(),
        api_version: format!("{group}/{version}"),
        kind: "OpenStackClusterIdentity".into(),
        plural: "openstackclusteridentities".into(),
    };
    Api::all_with(ns.world.client.clone(), &resource)
}

/// Writes the cluster identity of this name, which is cluster-wide, for a Secret: its namespace and name. With null as the
/// selector it has none.
pub async fn apply_identity(ns: &Namespace, name: &str, secret: (&str, &str), selector: Value) {
    let mut spec = json!({"secretRef": {"namespace": secret.0, "name": secret.1}});
    if !selector.is_null() {
        spec["namespaceSelector"] = selector;
    }
    let identity = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "OpenStackClusterIdentity",
        "metadata": {"name": name}, "spec": spec
    });
    let how = PatchParams::apply("scenario").force();
    api(ns).patch(name, &how, &Patch::Apply(&identity)).await.expect("the API server takes it");
}

pub async fn delete_identity(ns: &Namespace, name: &str) {
    api(ns).delete(name, &DeleteParams::default()).await.expect("it is there");
}

/// Sets the namespace's label `identities`, or removes it.
pub async fn label_namespace(ns: &Namespace, value: Option<&str>) {
    let namespaces: Api<KubeNamespace> = Api::all(ns.world.client.clone());
    let change = json!({"metadata": {"labels": {"identities": value}}});
    namespaces.patch(&ns.name, &PatchParams::default(), &Patch::Merge(&change)).await.expect("it can be labelled");
}

impl PoolBuilder {
    /// With the credentials of a cluster identity.
    pub fn cluster_identity(self, name: &str) -> Self {
        self.with("identityRef", json!({"type": "ClusterIdentity", "name": name, "cloudName": "openstack"}))
    }
}
