//! The runtime against a real API server: leader election, the two HTTP servers, the program as a process.

mod client;
mod leader;
mod program;
mod servers;

use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};

use crate::support::{self, unique};

/// Enough for any step, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

async fn client() -> kube::Client {
    support::client("KUBECONFIG").await
}

/// Runs `scenario` in a new namespace, which is deleted afterwards.
async fn with_namespace<F: Future<Output = ()>>(scenario: impl FnOnce(kube::Client, String) -> F) {
    let client = client().await;
    let name = unique("runtime");
    let namespaces = Api::<Namespace>::all(client.clone());
    let namespace = Namespace {
        metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    namespaces.create(&PostParams::default(), &namespace).await.expect("the namespace is created");
    in_time(scenario(client, name.clone())).await;
    namespaces.delete(&name, &DeleteParams::default()).await.expect("the namespace is deleted");
}

/// Fails after [`TIMEOUT`].
async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, future).await.expect("timed out")
}
