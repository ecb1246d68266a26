//! The health and diagnostics servers.

use std::future::IntoFuture;
use std::sync::Arc;

use caip_openstack::metrics::Metrics;
use caip_openstack::runtime::diagnostics::{Exposition, TlsOptions, serve_plain, serve_secure};
use caip_openstack::runtime::flags::TlsVersion;
use caip_openstack::runtime::health::{Readiness, router};
use caip_openstack::runtime::listen::BoundedListener;
use http::StatusCode;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;
use tokio::net::TcpListener;

use super::{client, with_namespace};
use crate::support::unique;

fn metrics() -> Exposition {
    Arc::new(|| Metrics::new().to_text())
}

async fn listen() -> (BoundedListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("some port is free");
    let address = listener.local_addr().expect("it is bound").to_string();
    (BoundedListener::new(listener), address)
}

/// Sends the token, if any, and accepts any certificate.
async fn get(url: String, token: Option<&str>) -> (StatusCode, String) {
    let http = reqwest::Client::builder().danger_accept_invalid_certs(true).build().expect("the client is valid");
    let request = token.into_iter().fold(http.get(url), |request, token| request.bearer_auth(token));
    let response = request.send().await.expect("it answers");
    (response.status(), response.text().await.expect("it answers to the end"))
}

async fn create_account_token(client: &kube::Client, namespace: &str, name: &str) -> String {
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
    let account: ServiceAccount =
        serde_json::from_value(json!({"metadata": {"name": name}})).expect("it is an account");
    accounts.create(&PostParams::default(), &account).await.expect("the account is created");
    let request = TokenRequest { spec: TokenRequestSpec::default(), ..TokenRequest::default() };
    let issued = accounts.create_token_request(name, &PostParams::default(), &request).await;
    issued.expect("a token is issued").status.expect("it is issued").token
}

async fn may_read(client: &kube::Client, user: &str) -> bool {
    let wanted = json!({"spec": {"user": user, "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}});
    let review: SubjectAccessReview = serde_json::from_value(wanted).expect("it is a review");
    let review = Api::all(client.clone()).create(&PostParams::default(), &review).await.expect("it is answered");
    review.status.is_some_and(|status| status.allowed)
}

#[tokio::test]
async fn only_authorized_accounts_read_the_metrics() {
    with_namespace(async |client, ns| {
        let scraper = create_account_token(&client, &ns, "scraper").await;
        let stranger = create_account_token(&client, &ns, "stranger").await;
        let name = unique("metrics-reader");
        let (roles, bindings) =
            (Api::<ClusterRole>::all(client.clone()), Api::<ClusterRoleBinding>::all(client.clone()));
        let role = json!({"metadata": {"name": name}, "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]});
        let binding = json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "namespace": ns, "name": "scraper"}],
        });
        let role = serde_json::from_value(role).expect("it is a role");
        let binding = serde_json::from_value(binding).expect("it is a binding");
        roles.create(&PostParams::default(), &role).await.expect("the role is created");
        bindings.create(&PostParams::default(), &binding).await.expect("the binding is created");
        // The binding takes effect after a moment, and the server caches denials.
        while !may_read(&client, &format!("system:serviceaccount:{ns}:scraper")).await {
            tokio::task::yield_now().await;
        }

        let (listener, address) = listen().await;
        let tls = TlsOptions { min_version: TlsVersion::Tls12, cipher_suites: vec![] };
        let server = serve_secure(listener, metrics(), client.clone(), &tls).expect("TLS can be set up");
        let server = tokio::spawn(server);
        let url = || format!("https://{address}/metrics");
        assert_eq!(get(url(), None).await.0, StatusCode::UNAUTHORIZED);
        assert_eq!(get(url(), Some("not-a-token")).await.0, StatusCode::UNAUTHORIZED);
        assert_eq!(get(url(), Some(&stranger)).await.0, StatusCode::FORBIDDEN);
        for _ in 0..2 {
            let (status, text) = get(url(), Some(&scraper)).await;
            assert_eq!(status, StatusCode::OK, "{text}");
            assert!(text.contains("caip_openstack_build_info") && text.ends_with("# EOF\n"));
        }
        assert_eq!(get(format!("https://{address}/"), Some(&scraper)).await.0, StatusCode::FORBIDDEN);
        server.abort();
        roles.delete(&name, &DeleteParams::default()).await.expect("the role is deleted");
        bindings.delete(&name, &DeleteParams::default()).await.expect("the binding is deleted");
    })
    .await;
}

#[tokio::test]
async fn a_client_that_never_completes_the_handshake_blocks_no_other() {
    let client = client().await;
    let (listener, address) = listen().await;
    let tls = TlsOptions { min_version: TlsVersion::Tls13, cipher_suites: vec![] };
    let server = tokio::spawn(serve_secure(listener, metrics(), client, &tls).expect("TLS can be set up"));
    let silent = tokio::net::TcpStream::connect(&address).await.expect("it listens");
    assert_eq!(super::in_time(get(format!("https://{address}/metrics"), None)).await.0, StatusCode::UNAUTHORIZED);
    drop(silent);
    server.abort();
}

#[tokio::test]
async fn insecure_metrics_need_no_token() {
    client().await;
    let (listener, address) = listen().await;
    let server = tokio::spawn(serve_plain(listener, metrics()));
    let (status, text) = get(format!("http://{address}/metrics"), None).await;
    assert_eq!(status, StatusCode::OK);
    assert!(text.contains("caip_openstack_leader 0"), "{text}");
    server.abort();
}

#[tokio::test]
async fn readiness_requires_all_checks_to_pass() {
    let client = client().await;
    let readiness = Readiness::new();
    let (listener, address) = listen().await;
    let server = tokio::spawn(axum::serve(listener, router(client, readiness.clone())).into_future());
    let ready = || get(format!("http://{address}/readyz"), None);
    assert_eq!(ready().await, (StatusCode::OK, "[+] api-server\n".into()), "a standby replica is ready");
    readiness.set("claims", false);
    assert_eq!(ready().await, (StatusCode::SERVICE_UNAVAILABLE, "[+] api-server\n[-] claims\n".into()));
    readiness.set("claims", true);
    assert_eq!(ready().await.0, StatusCode::OK);
    server.abort();
}

#[tokio::test]
async fn without_an_api_server_the_process_is_alive_but_not_ready() {
    client().await;
    let (closed, nowhere) = listen().await;
    drop(closed);
    let config = kube::Config::new(format!("http://{nowhere}").parse().expect("it is a URL"));
    let client = kube::Client::try_from(config).expect("the client is valid");
    let (listener, address) = listen().await;
    let server = tokio::spawn(axum::serve(listener, router(client, Readiness::new())).into_future());
    assert_eq!(get(format!("http://{address}/readyz"), None).await.0, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(get(format!("http://{address}/healthz"), None).await, (StatusCode::OK, "ok".into()));
    server.abort();
}
