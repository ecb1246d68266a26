//! A scripted Keystone and Neutron on one loopback port, which records the requests.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use caip_openstack::clock::Clock;
use caip_openstack::openstack::Credentials;
use futures::{StreamExt, stream};
use k8s_openapi::ByteString;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

#[derive(Clone, Debug)]
pub(super) struct ReceivedRequest {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) token: Option<String>,
    pub(super) body: String,
    pub(super) at: Instant,
}

pub(super) enum Reply {
    Now(Box<Response>),
    Later(Pin<Box<dyn Future<Output = Reply> + Send>>),
    /// Closes the connection without an answer.
    Break,
}

impl Reply {
    pub(super) fn new(status: u16, body: Value) -> Self {
        Self::text(status, &body.to_string())
    }

    pub(super) fn text(status: u16, body: &str) -> Self {
        let response = Response::builder().status(status).body(Body::from(body.to_owned()));
        Self::Now(Box::new(response.expect("a response")))
    }

    pub(super) fn later(reply: impl Future<Output = Self> + Send + 'static) -> Self {
        Self::Later(Box::pin(reply))
    }

    pub(super) fn never() -> Self {
        Self::later(std::future::pending())
    }

    /// A success that begins like this and does not end until `rest` is there.
    pub(super) fn in_two_parts(begin: String, rest: impl Future<Output = String> + Send + 'static) -> Self {
        let parts = stream::once(ready(begin)).chain(stream::once(rest)).map(Ok::<_, Infallible>);
        Self::Now(Box::new(Response::new(Body::from_stream(parts))))
    }

    pub(super) fn unauthorized() -> Self {
        Self::new(401, json!({"error": {"code": 401, "title": "Unauthorized", "message": "hunter2 is not it"}}))
    }

    /// In the form of Neutron.
    pub(super) fn refusal(status: u16, error_type: &str) -> Self {
        Self::new(status, json!({"NeutronError": {"type": error_type, "message": "no", "detail": ""}}))
    }

    pub(super) fn header(mut self, name: &'static str, value: &str) -> Self {
        if let Self::Now(response) = &mut self {
            response.headers_mut().insert(name, value.parse().expect("a header"));
        }
        self
    }
}

type Script = Arc<dyn Fn(&ReceivedRequest) -> Reply + Send + Sync>;
type Override = Arc<dyn Fn(&ReceivedRequest) -> Option<Reply> + Send + Sync>;

#[derive(Clone)]
pub(super) struct Server {
    pub(super) url: String,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
    neutron: Arc<Mutex<Script>>,
    keystone: Arc<Mutex<Option<Override>>>,
}

impl Server {
    /// Serves plain HTTP; `neutron` answers all requests but those for tokens.
    pub(super) async fn start(neutron: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        Self::serve(listener, url, neutron)
    }

    /// On any listener, such as one with TLS.
    pub(super) fn serve<L>(
        listener: L,
        url: String,
        neutron: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static,
    ) -> Self
    where
        L: axum::serve::Listener,
        L::Addr: std::fmt::Debug,
    {
        let script: Script = Arc::new(neutron);
        let (requests, keystone) = (Arc::default(), Arc::default());
        let server = Self { url, requests, neutron: Arc::new(Mutex::new(script)), keystone };
        let handler = server.clone();
        let app = Router::new().fallback(move |request: Request| {
            let server = handler.clone();
            async move { server.answer(request).await }
        });
        tokio::spawn(async move { axum::serve(listener, app).await });
        server
    }

    pub(super) fn set_neutron(&self, neutron: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static) {
        *self.neutron.lock() = Arc::new(neutron);
    }

    /// Where `keystone` returns none, the answer is a token.
    pub(super) fn set_keystone(&self, keystone: impl Fn(&ReceivedRequest) -> Option<Reply> + Send + Sync + 'static) {
        *self.keystone.lock() = Some(Arc::new(keystone));
    }

    pub(super) fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.lock().clone()
    }

    /// The number of requests that begin with, for example, `GET /network`.
    pub(super) fn count(&self, start: &str) -> usize {
        self.requests()
            .iter()
            .filter(|request| format!("{} {}", request.method, request.path).starts_with(start))
            .count()
    }

    async fn answer(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, 1 << 20).await.expect("a small body");
        let received = ReceivedRequest {
            method: parts.method.to_string(),
            path: parts.uri.to_string(),
            token: parts.headers.get("X-Auth-Token").map(|token| token.to_str().expect("text").to_owned()),
            body: String::from_utf8_lossy(&body).into_owned(),
            at: Instant::now(),
        };
        self.requests.lock().push(received.clone());
        let mut reply = if received.path == "/v3/auth/tokens" {
            let keystone = self.keystone.lock().clone();
            let number = self.count("POST /v3/auth/tokens");
            keystone
                .and_then(|keystone| keystone(&received))
                .unwrap_or_else(|| token(number, &self.url, TOKEN_EXPIRES_AT))
        } else {
            let neutron = self.neutron.lock().clone();
            neutron(&received)
        };
        loop {
            match reply {
                Reply::Now(response) => return *response,
                Reply::Later(later) => reply = later.await,
                // hyper closes the connection when a handler is gone.
                Reply::Break => std::panic::resume_unwind(Box::new("the server closes the connection")),
            }
        }
    }
}

/// An hour after [`clock`] starts.
const TOKEN_EXPIRES_AT: &str = "2026-11-21T10:00:00.000000Z";

/// The `number`th token of a test, with Neutron at `url` in one region.
pub(super) fn token(number: usize, url: &str, expires_at: &str) -> Reply {
    token_reply(number, project_of("p1"), catalog(url), expires_at)
}

pub(super) fn token_of_project(project: &str, url: &str) -> Reply {
    token_reply(1, project_of(project), catalog(url), TOKEN_EXPIRES_AT)
}

pub(super) fn token_with_catalog(catalog: Value) -> Reply {
    token_reply(1, project_of("p1"), catalog, TOKEN_EXPIRES_AT)
}

/// One whose user has no default project.
pub(super) fn token_without_project() -> Reply {
    token_reply(1, Value::Null, json!([]), TOKEN_EXPIRES_AT)
}

fn catalog(url: &str) -> Value {
    catalog_of("RegionOne", url)
}

/// With Neutron at `url` in this region.
pub(super) fn catalog_of(region: &str, url: &str) -> Value {
    let endpoint = json!({"id": "e", "interface": "public", "region": region, "url": format!("{url}/network")});
    json!([{"type": "network", "name": "neutron", "endpoints": [endpoint]}])
}

fn project_of(id: &str) -> Value {
    json!({"id": id, "name": "demo"})
}

fn token_reply(number: usize, project: Value, catalog: Value, expires_at: &str) -> Reply {
    let token = json!({"token": {
        "expires_at": expires_at, "issued_at": "2026-11-21T09:00:00.000000Z",
        "user": {"id": "u", "name": "demo"}, "project": project, "catalog": catalog}});
    Reply::new(201, token).header("X-Subject-Token", &format!("token-{number}"))
}

pub(super) fn row(id: &str) -> Value {
    json!({"id": id, "floating_ip_address": "203.0.113.5", "floating_network_id": "n1", "project_id": "p1",
        "tenant_id": "p1", "port_id": null, "description": "", "tags": []})
}

pub(super) fn listing(ids: &[&str]) -> Reply {
    Reply::new(200, json!({"floatingips": ids.iter().map(|id| row(id)).collect::<Vec<_>>()}))
}

pub(super) fn clock() -> Clock {
    Clock::simulated("2026-11-21T09:00:00Z".parse().expect("a time"), 7)
}

pub(super) fn secret(url: &str, password: &str, more: &str) -> BTreeMap<String, ByteString> {
    let yaml = format!(
        "clouds:\n  openstack:\n    {more}\n    auth: {{auth_url: \"{url}\", username: demo, password: {password}, \
         project_name: demo}}\n"
    );
    BTreeMap::from([("clouds.yaml".to_owned(), ByteString(yaml.into_bytes()))])
}

pub(super) fn credentials(url: &str, password: &str) -> Credentials {
    Credentials::from_secret(&secret(url, password, ""), "openstack", None).expect("they are well formed")
}
