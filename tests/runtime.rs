//! What surrounds the controllers, against a real API server: the lease, the two servers, the program as a process.

mod leader;
mod program;
mod servers;

use std::future::Future;
use std::time::Duration;

use caip_openstack::clock::Clock;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};

/// Nothing here takes longer, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

async fn client() -> kube::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    assert!(std::env::var_os("KUBECONFIG").is_some(), "KUBECONFIG is not set: `make env-up` says which one to use");
    kube::Client::try_default().await.expect("KUBECONFIG names a cluster that can be used")
}

/// Runs `scenario` in a namespace of its own, which goes afterwards.
async fn with_namespace<F: Future<Output = ()>>(scenario: impl FnOnce(kube::Client, String) -> F) {
    let client = client().await;
    let name = unique("runtime");
    let namespaces = Api::<Namespace>::all(client.clone());
    let namespace = Namespace {
        metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    namespaces.create(&PostParams::default(), &namespace).await.expect("a namespace can be made");
    soon(scenario(client, name.clone())).await;
    namespaces.delete(&name, &DeleteParams::default()).await.expect("a namespace can be deleted");
}

/// `prefix` and a few random characters.
fn unique(prefix: &str) -> String {
    format!("{prefix}-{}", Clock::system().random_name(8))
}

/// What `future` resolves to, within [`PATIENCE`].
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it happens in time")
}
