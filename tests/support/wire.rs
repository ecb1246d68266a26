//! A wire between the program and OpenStack: it passes everything on, remembers what Neutron was asked, and can be cut.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use serde_json::Value;

use super::clouds::{cloud_entry, clouds_yaml};
use super::openstack::Cloud;

/// What is passed on with a request, and with an answer.
const HEADERS: [&str; 5] = ["x-auth-token", "x-subject-token", "content-type", "retry-after", "x-openstack-request-id"];

/// A scenario's own way to OpenStack: it sees the calls of its own pools and of nobody else.
#[derive(Clone)]
pub struct Wire(Arc<Ends>);

struct Ends {
    url: String,
    keystone: String,
    neutron: String,
    entry: Value,
    http: reqwest::Client,
    // A plain mutex: held to add or count, never across an await.
    calls: Mutex<Vec<String>>,
    is_cut: AtomicBool,
}

impl Wire {
    /// To a cloud of `OS_CLIENT_CONFIG_FILE`, until the test ends.
    pub async fn to(cloud: &str) -> Self {
        let neutron = Cloud::named(cloud).await.endpoint().to_owned();
        let mut entry = cloud_entry(cloud);
        let keystone = entry["auth"]["auth_url"].as_str().expect("a cloud has an auth_url").to_owned();
        let keystone = keystone.trim_end_matches('/').trim_end_matches("/v3").to_owned();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("some port is free");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        entry["auth"]["auth_url"] = format!("{url}/v3").into();
        let http = reqwest::Client::builder().no_proxy().build().expect("an HTTP client needs nothing");
        let (calls, is_cut) = (Mutex::default(), AtomicBool::default());
        let wire = Self(Arc::new(Ends { url, keystone, neutron, entry, http, calls, is_cut }));
        let ends = wire.0.clone();
        let app = Router::new().fallback(move |request: Request| {
            let ends = ends.clone();
            async move { ends.pass(request).await }
        });
        tokio::spawn(async move { axum::serve(listener, app).await });
        wire
    }

    /// A `clouds.yaml` that leads through the wire.
    pub fn clouds_yaml(&self) -> String {
        clouds_yaml(&self.0.entry)
    }

    /// Every call to Neutron so far, such as `PUT floatingips/ID/tags/TAG`, in their order.
    pub fn calls(&self) -> Vec<String> {
        self.0.calls.lock().expect("no code panics while it holds the calls").clone()
    }

    /// How many calls of this kind there were.
    pub fn count(&self, call: &str) -> usize {
        self.calls().iter().filter(|seen| *seen == call).count()
    }

    /// The calls that change something.
    pub fn writes(&self) -> Vec<String> {
        self.calls().into_iter().filter(|call| !call.starts_with("GET ")).collect()
    }

    /// Forgets what was seen so far.
    pub fn forget(&self) {
        self.0.calls.lock().expect("no code panics while it holds the calls").clear();
    }

    /// From now on OpenStack is out of order.
    pub fn cut(&self) {
        self.0.is_cut.store(true, Ordering::Relaxed);
    }
}

impl Ends {
    async fn pass(&self, request: Request) -> Response {
        if self.is_cut.load(Ordering::Relaxed) {
            return answer(503, Vec::new(), b"out of order".to_vec());
        }
        let (parts, body) = request.into_parts();
        let body = to_bytes(body, 1 << 20).await.unwrap_or_default();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let is_keystone = path.starts_with("/v3");
        if !is_keystone {
            let call = kind(parts.method.as_str(), parts.uri.path());
            self.calls.lock().expect("no code panics while it holds the calls").push(call);
        }
        let base = if is_keystone { &self.keystone } else { &self.neutron };
        let mut out = self.http.request(parts.method.clone(), format!("{base}{path}")).body(body);
        for (name, value) in parts.headers.iter().filter(|(name, _)| HEADERS.contains(&name.as_str())) {
            out = out.header(name, value);
        }
        let Ok(response) = out.send().await else { return answer(502, Vec::new(), Vec::new()) };
        let headers = response.headers().iter().filter(|(name, _)| HEADERS.contains(&name.as_str()));
        let headers = headers.map(|(name, value)| (name.clone(), value.clone())).collect();
        let status = response.status().as_u16();
        let Ok(body) = response.bytes().await else { return answer(502, Vec::new(), Vec::new()) };
        let body = match is_keystone {
            // The catalogue leads through the wire too.
            true => String::from_utf8_lossy(&body).replace(&self.neutron, &self.url).into_bytes(),
            false => body.to_vec(),
        };
        answer(status, headers, body)
    }
}

fn answer(status: u16, headers: Vec<(http::HeaderName, http::HeaderValue)>, body: Vec<u8>) -> Response {
    let mut response = Response::builder().status(status).body(Body::from(body)).expect("a response");
    response.headers_mut().extend(headers);
    response
}

/// A call without what differs between two of its kind.
fn kind(method: &str, path: &str) -> String {
    let mut parts: Vec<&str> = path.trim_start_matches("/v2.0/").split('/').collect();
    for (at, name) in [(1, "ID"), (3, "TAG")] {
        if let Some(part) = parts.get_mut(at) {
            *part = name;
        }
    }
    format!("{method} {}", parts.join("/"))
}
