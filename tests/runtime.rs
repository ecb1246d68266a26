//! The runtime against a real API server: leader election, the two HTTP servers, the program as a process.

mod client;
mod leader;
mod program;
mod servers;

use std::future::Future;
use std::time::Duration;

use caip_openstack::clock::Clock;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};

/// Enough for any step, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

async fn client() -> kube::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    assert!(std::env::var_os("KUBECONFIG").is_some(), "KUBECONFIG is not set: `make env-up` says which one to use");
    kube::Client::try_default().await.expect("KUBECONFIG names a usable cluster")
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

fn unique(prefix: &str) -> String {
    format!("{prefix}-{}", Clock::system().random_name(8))
}

/// Fails after [`TIMEOUT`].
async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, future).await.expect("timed out")
}
