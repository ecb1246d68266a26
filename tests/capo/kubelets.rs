//! The part of the kubelets. Nova's servers are not run, so nothing joins the clusters; but a MachineDeployment replaces its
//! machines one after another only when the new ones have a Node that is ready.

use std::time::Duration;

use futures::future::{Either, select};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::sleep;

use crate::support::{Kind, Namespace};

/// Runs a scenario; meanwhile each machine that has a server gets a ready Node. The management cluster is the workload
/// cluster as well: see [`crate::clusters::create_secrets`].
pub async fn with_kubelets(ns: &Namespace, scenario: impl Future<Output = ()>) {
    with_kubelets_of(&[ns], scenario).await;
}

/// The same for machines that are moved from one namespace to another; their Nodes are in the management cluster of the
/// first.
pub async fn with_kubelets_of(sides: &[&Namespace], scenario: impl Future<Output = ()>) {
    let ns = sides.first().expect("machines are in a namespace");
    let nodes: Api<Node> = Api::all(ns.world.client.clone());
    meanwhile(scenario, async || {
        for side in sides {
            join(side, &nodes).await;
        }
    })
    .await;
    for node in nodes.list(&Default::default()).await.expect("nodes can be listed") {
        if node.labels().get("e2e") == Some(&ns.name) {
            // An error means that it is gone.
            let _gone = nodes.delete(&node.name_any(), &DeleteParams::default()).await;
        }
    }
}

/// Runs a scenario, and `work` again and again until it ends.
pub async fn meanwhile(scenario: impl Future<Output = ()>, mut work: impl AsyncFnMut()) {
    let work = async {
        loop {
            work().await;
            sleep(Duration::from_millis(500)).await;
        }
    };
    match select(Box::pin(scenario), Box::pin(work)).await {
        Either::Left(((), _work)) => {}
        Either::Right((never, _scenario)) => never,
    }
}

async fn join(ns: &Namespace, nodes: &Api<Node>) {
    for machine in ns.list(Kind::Machine).await {
        let Some(server) = machine.data["spec"]["providerID"].as_str() else { continue };
        if machine.metadata.deletion_timestamp.is_some() || machine.data["status"]["nodeRef"].is_object() {
            continue;
        }
        let node = json!({
            "metadata": {"name": machine.name_any(), "labels": {"e2e": ns.name}},
            "spec": {"providerID": server}
        });
        let node: Node = serde_json::from_value(node).expect("that is a Node");
        // An error means that it is there already.
        let _joined = nodes.create(&PostParams::default(), &node).await;
        let conditions =
            [("Ready", "True"), ("MemoryPressure", "False"), ("DiskPressure", "False"), ("PIDPressure", "False")];
        let conditions = conditions.map(|(of, status)| {
            json!({"type": of, "status": status, "reason": "Kubelet", "message": "",
                "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"})
        });
        let ready = json!({"status": {"conditions": conditions}});
        let name = machine.name_any();
        nodes.patch_status(&name, &PatchParams::default(), &Patch::Merge(&ready)).await.expect("a Node can be changed");
    }
}
