//! Keystone and Neutron on one loopback port, scripted, and a record of what they were asked.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use caip_openstack::clock::Clock;
use caip_openstack::openstack::Credentials;
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use tokio::time::Instant;

/// One request as it came in.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) token: Option<String>,
    pub(super) body: String,
    pub(super) at: Instant,
}

/// What the server does about a request.
pub(super) enum Reply {
    Now(Box<Response>),
    Later(Pin<Box<dyn Future<Output = Reply> + Send>>),
    /// Closes the connection without a word.
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

    pub(super) fn unauthorized() -> Self {
        Self::new(401, json!({"error": {"code": 401, "title": "Unauthorized", "message": "hunter2 is not it"}}))
    }

    /// Neutron's way of saying no.
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

type Script = Arc<dyn Fn(&Seen) -> Reply + Send + Sync>;
type Override = Arc<dyn Fn(&Seen) -> Option<Reply> + Send + Sync>;

#[derive(Clone)]
pub(super) struct Server {
    pub(super) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    neutron: Arc<Mutex<Script>>,
    keystone: Arc<Mutex<Option<Override>>>,
}

impl Server {
    /// Plain HTTP; `neutron` answers all but tokens.
    pub(super) async fn start(neutron: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        Self::serve(listener, url, neutron)
    }

    /// On any listener, such as one with TLS.
    pub(super) fn serve<L>(listener: L, url: String, neutron: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self
    where
        L: axum::serve::Listener,
        L::Addr: std::fmt::Debug,
    {
        let script: Script = Arc::new(neutron);
        let (seen, keystone) = (Arc::default(), Arc::default());
        let server = Self { url, seen, neutron: Arc::new(Mutex::new(script)), keystone };
        let handler = server.clone();
        let app = Router::new().fallback(move |request: Request| {
            let server = handler.clone();
            async move { server.answer(request).await }
        });
        tokio::spawn(async move { axum::serve(listener, app).await });
        server
    }

    /// Changes what Neutron answers.
    pub(super) fn set_neutron(&self, neutron: impl Fn(&Seen) -> Reply + Send + Sync + 'static) {
        *self.neutron.lock().expect("not poisoned") = Arc::new(neutron);
    }

    /// Lets Keystone answer otherwise than with a token.
    pub(super) fn set_keystone(&self, keystone: impl Fn(&Seen) -> Option<Reply> + Send + Sync + 'static) {
        *self.keystone.lock().expect("not poisoned") = Some(Arc::new(keystone));
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("not poisoned").clone()
    }

    /// How many requests began so: `GET /network`.
    pub(super) fn count(&self, start: &str) -> usize {
        self.seen().iter().filter(|seen| format!("{} {}", seen.method, seen.path).starts_with(start)).count()
    }

    async fn answer(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, 1 << 20).await.expect("a small body");
        let header = parts.headers.get("X-Auth-Token").map(|token| token.to_str().expect("text").to_owned());
        let seen = Seen {
            method: parts.method.to_string(),
            path: parts.uri.to_string(),
            token: header,
            body: String::from_utf8_lossy(&body).into_owned(),
            at: Instant::now(),
        };
        let number = {
            let mut all = self.seen.lock().expect("not poisoned");
            all.push(seen.clone());
            all.iter().filter(|seen| seen.path == "/v3/auth/tokens").count()
        };
        let mut reply = if seen.path == "/v3/auth/tokens" {
            let other = self.keystone.lock().expect("not poisoned").clone();
            other.and_then(|other| other(&seen)).unwrap_or_else(|| token(number, &self.url, TOKEN_EXPIRES_AT))
        } else {
            let script = self.neutron.lock().expect("not poisoned").clone();
            script(&seen)
        };
        loop {
            match reply {
                Reply::Now(response) => return *response,
                Reply::Later(later) => reply = later.await,
                // hyper closes the connection when a handler is gone.
                Reply::Break => std::panic::resume_unwind(Box::new("the server breaks the connection")),
            }
        }
    }
}

/// An hour after [`clock`] starts.
const TOKEN_EXPIRES_AT: &str = "2026-11-21T10:00:00.000000Z";

/// The `number`th token of a test, with Neutron at `url` in one region.
pub(super) fn token(number: usize, url: &str, expires_at: &str) -> Reply {
    let endpoint = json!({"id": "e", "interface": "public", "region": "RegionOne", "url": format!("{url}/network")});
    let catalog = json!([{"type": "network", "name": "neutron", "endpoints": [endpoint]}]);
    token_reply(number, catalog, expires_at)
}

pub(super) fn token_with_catalog(catalog: Value) -> Reply {
    token_reply(1, catalog, TOKEN_EXPIRES_AT)
}

fn token_reply(number: usize, catalog: Value, expires_at: &str) -> Reply {
    let token = json!({"token": {
        "expires_at": expires_at, "issued_at": "2026-11-21T09:00:00.000000Z",
        "user": {"id": "u", "name": "demo"}, "project": {"id": "p1", "name": "demo"}, "catalog": catalog}});
    Reply::new(201, token).header("X-Subject-Token", &format!("token-{number}"))
}

pub(super) fn row(id: &str) -> Value {
    json!({"id": id, "floating_ip_address": "203.0.113.5", "floating_network_id": "n1", "project_id": "p1",
        "tenant_id": "p1", "port_id": null, "description": "", "tags": []})
}

/// A listing of one page.
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
