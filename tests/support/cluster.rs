//! Clusters of Cluster API, and their infrastructure as CAPO would have it.

use kube::ResourceExt;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::manifest::{Kind, Manifest};
use super::namespace::Namespace;
use super::wait::{RECOVERY, eventually};

/// A Cluster as users have it, without infrastructure.
pub fn cluster(name: &str, spec: Value) -> Manifest {
    let reference = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackCluster", "name": name});
    let mut body = json!({"metadata": {"name": name}, "spec": spec});
    body["spec"]["infrastructureRef"] = reference;
    Manifest::new(Kind::Cluster, body)
}

impl Namespace {
    /// Creates the Cluster `prod` so that clusterctl moves it: its infrastructure is provisioned, its control plane
    /// initialized. Returns the infrastructure.
    pub async fn create_provisioned_cluster(&self) -> DynamicObject {
        let body =
            json!({"metadata": {"name": "prod"}, "status": {"ready": true, "initialization": {"provisioned": true}}});
        let infrastructure = self.create(Manifest::new(Kind::InfrastructureCluster, body)).await;
        let endpoint = json!({"host": "192.0.2.1", "port": 6443});
        self.create(cluster("prod", json!({"controlPlaneEndpoint": endpoint}))).await;
        self.await_provisioned().await;
        self.await_object(Kind::InfrastructureCluster, "prod", RECOVERY, "owned by its Cluster", |found| {
            found.is_some_and(|found| !found.owner_references().is_empty())
        })
        .await;
        infrastructure
    }

    /// Waits until the Cluster `prod` is provisioned, and says so in the place of its control plane. Cluster API writes its
    /// conditions too, perhaps after this and from an earlier view: what moves the Cluster calls this again.
    pub async fn await_provisioned(&self) {
        eventually(RECOVERY, async || {
            let found = self.get(Kind::Cluster, "prod").await.expect("the Cluster is there");
            if is_provisioned(&found) {
                return Ok(());
            }
            let status = json!({"initialization": {"infrastructureProvisioned": true}, "conditions": [initialized()]});
            self.patch_status(Kind::Cluster, "prod", json!({"status": status})).await;
            Err(format!("the Cluster is not provisioned: {}", found.data["status"]))
        })
        .await;
    }
}

fn is_provisioned(cluster: &DynamicObject) -> bool {
    // Cluster API 1.10 has no v1beta2.
    let status = &cluster.data["status"];
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let initialized = conditions.find(|condition| condition["type"] == "ControlPlaneInitialized");
    (status["initialization"]["infrastructureProvisioned"] == true || status["infrastructureReady"] == true)
        && initialized.is_some_and(|found| found["status"] == "True")
        && !cluster.finalizers().is_empty()
}

fn initialized() -> Value {
    json!({
        "type": "ControlPlaneInitialized", "status": "True", "reason": "Initialized", "message": "by the test",
        "lastTransitionTime": "2026-01-01T00:00:00Z"
    })
}
