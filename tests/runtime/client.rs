//! The connections to the API server.

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use caip_openstack::runtime::client::connect;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::json;
use tokio::net::TcpListener;

use super::in_time;
use crate::support::unique;

/// More than the controllers' connection sends at a time.
const HUNG: usize = 40;

/// An API server that answers requests for its version, and nothing else: an admission webhook hangs.
async fn start_hung_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("some port is free");
    let address = listener.local_addr().expect("it is bound");
    let version = json!({
        "major": "1", "minor": "35", "gitVersion": "v1.35.0", "gitCommit": "", "gitTreeState": "", "buildDate": "",
        "goVersion": "", "compiler": "", "platform": "",
    });
    let router = Router::new()
        .route("/version", get(async move || version.to_string()))
        .fallback(async || std::future::pending::<()>().await);
    tokio::spawn(axum::serve(listener, router).into_future());
    format!("http://{address}")
}

/// The requests for the Lease and for health go through the second connection.
#[tokio::test]
async fn the_lease_does_not_wait_behind_requests_of_the_controllers_that_hang() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url = start_hung_server().await;
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(unique("kubeconfig"));
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
    });
    std::fs::write(&file, text.to_string()).expect("the kubeconfig is written");
    let clients = in_time(connect(Some(&file), Arc::new(|_| ()))).await.expect("the API server answers");
    std::fs::remove_file(&file).expect("it is there");
    let secrets = Api::<Secret>::default_namespaced(clients.work.clone());
    for _ in 0..HUNG {
        let secrets = secrets.clone();
        tokio::spawn(async move { secrets.get("any").await });
    }
    tokio::task::yield_now().await;
    in_time(clients.control.apiserver_version()).await.expect("it is answered");
}
