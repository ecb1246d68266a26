//! A cloud with one thing wrong: the real Keystone and Neutron behind a port of its own, some answers changed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::{Cloud, Tls, cloud_entry, clouds_yaml};

/// What is wrong with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// Nothing.
    None,
    /// Keystone takes this long.
    SlowKeystone(Duration),
    /// The project sees only the networks of these names.
    Shows(&'static [&'static str]),
    /// Neutron has no tags: as releases before 2018, or one with the plug-in switched off.
    NoTags,
}

/// The cloud. Ends with the test's runtime.
#[derive(Clone)]
pub(super) struct OddCloud(Arc<Shared>);

struct Shared {
    http: reqwest::Client,
    url: String,
    keystone: String,
    neutron: String,
    // Plain mutexes: held for a look or a change, never across an await.
    fault: Mutex<Fault>,
    asked: Mutex<Vec<String>>,
}

impl OddCloud {
    /// By plain HTTP on any port.
    pub(super) async fn start(fault: Fault) -> Self {
        Self::listen(TcpListener::bind("127.0.0.1:0").await.expect("a port"), fault).await
    }

    /// By plain HTTP on a listener.
    pub(super) async fn listen(listener: TcpListener, fault: Fault) -> Self {
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        Self::serve(listener, url, fault).await
    }

    /// By TLS, and the certificate that it shows.
    pub(super) async fn with_tls() -> (Self, String) {
        let (tls, certificate) = Tls::listen().await;
        let url = format!("https://{}", tls.address());
        (Self::serve(tls, url, Fault::None).await, certificate)
    }

    async fn serve<L>(listener: L, url: String, fault: Fault) -> Self
    where
        L: axum::serve::Listener,
        L::Addr: std::fmt::Debug,
    {
        let keystone = cloud_entry("demo")["auth"]["auth_url"].as_str().expect("demo has an auth_url").to_owned();
        let keystone = keystone.trim_end_matches('/').trim_end_matches("/v3").to_owned();
        let neutron = Cloud::named("demo").await.endpoint().to_owned();
        let http = reqwest::Client::builder().no_proxy().build().expect("an HTTP client needs nothing");
        let (fault, asked) = (Mutex::new(fault), Mutex::default());
        let cloud = Self(Arc::new(Shared { http, url, keystone, neutron, fault, asked }));
        let server = cloud.clone();
        let app = Router::new().fallback(move |request: Request| {
            let server = server.clone();
            async move { server.answer(request).await }
        });
        tokio::spawn(async move { axum::serve(listener, app).await });
        cloud
    }

    /// What is wrong from now on.
    pub(super) fn set(&self, fault: Fault) {
        *self.0.fault.lock().expect("no code panics while it holds the fault") = fault;
    }

    /// A `clouds.yaml` for the user `demo` at this cloud.
    pub(super) fn clouds_yaml(&self) -> String {
        self.leading_here(&clouds_yaml(&cloud_entry("demo")))
    }

    /// A `clouds.yaml` for the real cloud, changed to lead here.
    pub(super) fn leading_here(&self, clouds_yaml: &str) -> String {
        clouds_yaml.replace(&self.0.keystone, &self.0.url)
    }

    /// The requests so far whose method and path contain this.
    pub(super) fn asked(&self, part: &str) -> usize {
        let asked = self.0.asked.lock().expect("no code panics while it holds the list");
        asked.iter().filter(|asked| asked.contains(part)).count()
    }

    async fn answer(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        self.0.asked.lock().expect("no code panics while it holds the list").push(format!("{} {path}", parts.method));
        let fault = *self.0.fault.lock().expect("no code panics while it holds the fault");
        match fault {
            Fault::SlowKeystone(pause) if path.starts_with("/v3") => tokio::time::sleep(pause).await,
            Fault::NoTags if path.contains("/tags") || path.contains("/extensions/standard-attr-tag") => {
                return answer(404, "<html><h1>404 Not Found</h1></html>".to_owned());
            }
            _ => {}
        }
        let target = match path.strip_prefix("/network") {
            Some(rest) => format!("{}{rest}", self.0.neutron),
            None => format!("{}{path}", self.0.keystone),
        };
        let mut forwarded = self.0.http.request(parts.method, target);
        for name in ["x-auth-token", "x-subject-token", "content-type"] {
            if let Some(value) = parts.headers.get(name) {
                forwarded = forwarded.header(name, value);
            }
        }
        let body = axum::body::to_bytes(body, 1 << 20).await.expect("a small body");
        let real = forwarded.body(body).send().await.expect("the real cloud answers");
        let (status, token) = (real.status().as_u16(), real.headers().get("x-subject-token").cloned());
        let text = real.text().await.expect("the real cloud answers in full");
        // The catalogue leads here too.
        let text = text.replace(&self.0.neutron, &format!("{}/network", self.0.url));
        let mut response = answer(status, twist(fault, text));
        if let Some(token) = token {
            response.headers_mut().insert("x-subject-token", token);
        }
        response
    }
}

fn answer(status: u16, body: String) -> Response {
    Response::builder().status(status).body(Body::from(body)).expect("a response")
}

/// Changes an answer of the real cloud to what this one would say.
fn twist(fault: Fault, text: String) -> String {
    let Ok(mut body) = serde_json::from_str::<Value>(&text) else { return text };
    match fault {
        Fault::None | Fault::SlowKeystone(_) => return text,
        Fault::Shows(names) => keep(&mut body["networks"], |row| names.iter().any(|name| row["name"] == **name)),
        Fault::NoTags => {
            keep(&mut body["extensions"], |row| row["alias"] != "standard-attr-tag" && row["alias"] != "tag-creation");
            let rows = body["floatingips"].as_array_mut().into_iter().flatten();
            rows.for_each(|row| drop(row.as_object_mut().map(|row| row.remove("tags"))));
            if let Some(row) = body["floatingip"].as_object_mut() {
                row.remove("tags");
            }
        }
    }
    body.as_object_mut().expect("OpenStack answers in objects").retain(|_, value| *value != json!(null));
    body.to_string()
}

fn keep(rows: &mut Value, which: impl Fn(&Value) -> bool) {
    if let Some(rows) = rows.as_array_mut() {
        rows.retain(which);
    }
}
