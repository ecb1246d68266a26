//! The part of the kubeadm providers, whose kinds are stand-ins here: the control plane is initialized, and machines have
//! their bootstrap data.

use kube::ResourceExt;
use serde_json::{Value, json};

use crate::kubelets::meanwhile;
use crate::support::{Kind, Namespace};

/// Runs a scenario; meanwhile control planes and machines become ready as soon as they exist. No control plane machine is
/// created: its status says that all are there, since Cluster API creates workers only then.
pub async fn with_kubeadm(ns: &Namespace, scenario: impl Future<Output = ()>) {
    let control_plane = |spec: &Value| {
        let count = &spec["replicas"];
        json!({"initialization": {"controlPlaneInitialized": true}, "version": spec["version"], "replicas": count,
            "readyReplicas": count, "availableReplicas": count, "upToDateReplicas": count})
    };
    let bootstrap = |_: &Value| json!({"initialization": {"dataSecretCreated": true}, "dataSecretName": "bootstrap"});
    meanwhile(scenario, async || {
        initialize(ns, Kind::ControlPlane, control_plane).await;
        initialize(ns, Kind::BootstrapConfig, bootstrap).await;
    })
    .await;
}

async fn initialize(ns: &Namespace, kind: Kind, status: impl Fn(&Value) -> Value) {
    for object in ns.list(kind).await {
        if object.metadata.deletion_timestamp.is_none() && object.data["status"]["initialization"].is_null() {
            ns.patch(kind, &object.name_any(), json!({"status": status(&object.data["spec"])})).await;
        }
    }
}
