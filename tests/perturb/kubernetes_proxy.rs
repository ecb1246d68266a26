//! An HTTP proxy between a controller and its API server. It passes everything on, and records writes and what lists and
//! watches deliver. As the run's perturbation says, it withholds an event, breaks a watch, or has the API server answer a
//! list with an older state.

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderName, StatusCode, header};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::recorder::{Recorder, Reply};
use super::request::{Target, Verb, short_name};
use super::trace::Version;
use super::watch_stream::WatchStream;
use crate::support::laws::pool_id;
use crate::support::{Namespace, Tls, kubeconfig, unique};

/// What is passed on with a request.
const HEADERS: [HeaderName; 4] = [header::AUTHORIZATION, header::ACCEPT, header::CONTENT_TYPE, header::USER_AGENT];

/// Ends when it is dropped.
pub struct KubernetesProxy {
    kubeconfig: String,
    server: JoinHandle<()>,
}

struct Ends {
    /// 1 for the target of a move.
    side: usize,
    url: String,
    http: reqwest::Client,
    recorder: Recorder,
}

impl KubernetesProxy {
    /// A proxy to the API server of a namespace.
    pub async fn start(ns: &Namespace, side: usize, recorder: &Recorder) -> Self {
        let account = Kubeconfig::read_from(&ns.world.account).expect("the kubeconfig can be read");
        let config = Config::from_custom_kubeconfig(account, &KubeConfigOptions::default()).await;
        let config = config.expect("the kubeconfig names a server");
        let authorities = config.root_cert.unwrap_or_default();
        let authorities =
            authorities.iter().map(|der| reqwest::Certificate::from_der(der).expect("it is a certificate"));
        let http = reqwest::Client::builder().no_proxy().tls_certs_only(authorities).build();
        let http = http.expect("an HTTP client needs nothing");
        let url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let ends = Arc::new(Ends { side, url, http, recorder: recorder.clone() });
        let (tls, certificate) = Tls::listen().await;
        let kubeconfig = write_kubeconfig(&ns.world.account, &format!("https://{}", tls.address()), &certificate);
        let app = Router::new().fallback(move |request: Request| {
            let ends = ends.clone();
            async move { ends.answer(request).await }
        });
        let server = tokio::spawn(async move {
            axum::serve(tls, app).await.expect("a server on loopback goes on");
        });
        Self { kubeconfig, server }
    }

    /// A kubeconfig that leads through the proxy.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }
}

impl Drop for KubernetesProxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// The same kubeconfig for another server; returns its path.
fn write_kubeconfig(original: &str, url: &str, certificate: &str) -> String {
    let name = unique("perturb");
    let authority = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.crt"));
    std::fs::write(&authority, certificate).expect("a file can be written");
    let cluster = json!({"server": url, "certificate-authority": authority});
    kubeconfig::write_changed(original, &name, "/clusters/0/cluster", cluster)
}

impl Ends {
    async fn answer(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let body = to_bytes(body, 1 << 22).await.unwrap_or_default();
        let query = parts.uri.query().unwrap_or_default().to_owned();
        let answered = match Target::of(self.side, parts.uri.path()) {
            None => self.pass(&parts, &query, body).await,
            Some(target) => match target.verb(&parts.method, &query) {
                Verb::Watch => self.watch(&parts, &query, target.resource).await,
                Verb::List => self.list(&parts, &query, &target).await,
                Verb::Get => self.pass(&parts, &query, body).await,
                Verb::Write => self.write(&parts, &query, body, &target).await,
            },
        };
        // The API server cannot be reached.
        answered.unwrap_or_else(|_| response(StatusCode::BAD_GATEWAY, Body::empty()))
    }

    async fn send(&self, parts: &Parts, query: &str, body: Bytes) -> reqwest::Result<reqwest::Response> {
        let url = format!("{}{}?{query}", self.url, parts.uri.path());
        let mut request = self.http.request(parts.method.clone(), url).body(body);
        for (name, value) in parts.headers.iter().filter(|(name, _)| HEADERS.contains(name)) {
            request = request.header(name, value);
        }
        request.send().await
    }

    async fn pass(&self, parts: &Parts, query: &str, body: Bytes) -> reqwest::Result<Response> {
        let answer = self.send(parts, query, body).await?;
        let status = answer.status();
        Ok(response(status, Body::from(answer.bytes().await?)))
    }

    async fn write(&self, parts: &Parts, query: &str, body: Bytes, target: &Target) -> reqwest::Result<Response> {
        let path_name = target.object(&Value::Null);
        let latest = self.recorder.latest(&target.resource, &path_name);
        let answer = self.send(parts, query, body).await?;
        let (status, bytes) = (answer.status(), answer.bytes().await?);
        let object: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        // What lost its last finalizer is gone, and the answer has its former resource version.
        let is_gone = object["kind"] == "Status"
            || object.pointer("/metadata/deletionTimestamp").is_some()
                && object.pointer("/metadata/finalizers").is_none();
        self.note_pool_id(&target.resource, &object);
        let is_object = status.is_success() && !is_gone;
        let found = is_object.then(|| Version::of(&target.resource, &target.object(&object), &object, false));
        let is_new = found.as_ref().is_none_or(|found| latest.is_none_or(|latest| found.revision > latest));
        let call = target.call(&parts.method, &object);
        match self.recorder.write(Some(self.side), call, status.is_success() && is_new, found) {
            Reply::Delivered => Ok(response(status, Body::from(bytes))),
            // The connection is closed: its other end has been killed.
            Reply::Lost => std::future::pending().await,
        }
    }

    async fn list(&self, parts: &Parts, query: &str, target: &Target) -> reqwest::Result<Response> {
        // With a limit of one the controller only asks whether the kind is served.
        let is_probe = query.split('&').any(|part| part == "limit=1");
        let stale = if is_probe { None } else { self.recorder.stale_revision(&target.resource) };
        let query = match stale {
            Some(revision) => format!("{query}&resourceVersion={revision}&resourceVersionMatch=Exact"),
            None => query.to_owned(),
        };
        let answer = self.send(parts, &query, Bytes::new()).await?;
        let (status, bytes) = (answer.status(), answer.bytes().await?);
        if stale.is_some() {
            self.recorder.stale_list_was_answered(status.is_success());
        } else if !is_probe {
            self.record_list(&target.resource, &bytes);
        }
        Ok(response(status, Body::from(bytes)))
    }

    fn record_list(&self, resource: &str, bytes: &[u8]) {
        let list: Value = serde_json::from_slice(bytes).unwrap_or_default();
        for object in list["items"].as_array().into_iter().flatten() {
            let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
            self.note_pool_id(resource, object);
            self.recorder.delivery("LISTED", resource, &short_name(name), object);
        }
    }

    async fn watch(&self, parts: &Parts, query: &str, resource: String) -> reqwest::Result<Response> {
        let broken = self.recorder.broken_watches();
        tokio::time::sleep(self.recorder.watch_begins(&resource)).await;
        let answer = self.send(parts, query, Bytes::new()).await?;
        let status = answer.status();
        Ok(response(status, WatchStream::pass(answer, resource, broken, self.recorder.clone())))
    }

    fn note_pool_id(&self, resource: &str, object: &Value) {
        let id = pool_id(object).filter(|_| resource.ends_with("openstackfloatingippools"));
        id.iter().for_each(|id| self.recorder.note_pool_id(id.as_str()));
    }
}

fn response(status: StatusCode, body: Body) -> Response {
    let builder = Response::builder().status(status).header(header::CONTENT_TYPE, "application/json");
    builder.body(body).expect("that is a response")
}
