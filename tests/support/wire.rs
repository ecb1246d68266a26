//! A wire between the program and OpenStack: it passes everything on to the real servers, remembers what Neutron was
//! asked, and is as bad as it is told to be.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use http::{HeaderName, HeaderValue};
use serde_json::Value;
use tokio::net::TcpListener;

use super::clouds::{cloud_entry, clouds_yaml};
use super::fault::{EVERYTHING, Fault, How};
use super::openstack::Cloud;
use super::tls::Tls;

/// What is passed on with a request, and with an answer.
const HEADERS: [&str; 5] = ["x-auth-token", "x-subject-token", "content-type", "retry-after", "x-openstack-request-id"];

/// A scenario's own way to OpenStack, until the test ends: it sees the calls of its own pools and of nobody else.
#[derive(Clone)]
pub struct Wire(Arc<Ends>);

struct Ends {
    url: String,
    keystone: String,
    neutron: String,
    entry: Value,
    http: reqwest::Client,
    // Plain mutexes: held for a look or a change, never across an await.
    calls: Mutex<Vec<String>>,
    faults: Mutex<Vec<Fault>>,
    authentications: AtomicUsize,
    landed: AtomicUsize,
    /// The longest page that is asked for.
    page: AtomicUsize,
}

impl Wire {
    /// To a cloud of `OS_CLIENT_CONFIG_FILE`, by plain HTTP on any port.
    pub async fn to(cloud: &str) -> Self {
        Self::listen(TcpListener::bind("127.0.0.1:0").await.expect("some port is free"), cloud).await
    }

    /// By plain HTTP on a listener.
    pub async fn listen(listener: TcpListener, cloud: &str) -> Self {
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        Self::serve(listener, url, cloud).await
    }

    /// By TLS, and the certificate that it shows.
    pub async fn with_tls(cloud: &str) -> (Self, String) {
        let (tls, certificate) = Tls::listen().await;
        let url = format!("https://{}", tls.address());
        (Self::serve(tls, url, cloud).await, certificate)
    }

    async fn serve<L>(listener: L, url: String, cloud: &str) -> Self
    where
        L: axum::serve::Listener,
        L::Addr: std::fmt::Debug,
    {
        let neutron = Cloud::named(cloud).await.endpoint().to_owned();
        let entry = cloud_entry(cloud);
        let keystone = entry["auth"]["auth_url"].as_str().expect("a cloud has an auth_url").to_owned();
        let keystone = keystone.trim_end_matches('/').trim_end_matches("/v3").to_owned();
        let http = reqwest::Client::builder().no_proxy().build().expect("an HTTP client needs nothing");
        let (calls, faults) = (Mutex::default(), Mutex::default());
        let (authentications, landed) = (AtomicUsize::default(), AtomicUsize::default());
        let page = AtomicUsize::new(usize::MAX);
        let ends = Ends { url, keystone, neutron, entry, http, calls, faults, authentications, landed, page };
        let wire = Self(Arc::new(ends));
        let ends = wire.0.clone();
        let app = Router::new().fallback(move |request: Request| {
            let ends = ends.clone();
            async move { ends.answer(request).await }
        });
        tokio::spawn(async move { axum::serve(listener, app).await });
        wire
    }

    /// A `clouds.yaml` that leads through the wire.
    pub fn clouds_yaml(&self) -> String {
        self.leading_here(&clouds_yaml(&self.0.entry))
    }

    /// A `clouds.yaml` for the real cloud, changed to lead through the wire.
    pub fn leading_here(&self, clouds_yaml: &str) -> String {
        clouds_yaml.replace(&self.0.keystone, &self.0.url)
    }

    /// Where it listens.
    pub fn url(&self) -> &str {
        &self.0.url
    }

    /// Every call to Neutron so far, such as `PUT floatingips/ID/tags/TAG`, in their order.
    pub fn calls(&self) -> Vec<String> {
        self.0.calls().clone()
    }

    /// How many calls of this kind there were.
    pub fn count(&self, call: &str) -> usize {
        self.calls().iter().filter(|seen| *seen == call).count()
    }

    /// The calls that change something.
    pub fn writes(&self) -> Vec<String> {
        self.calls().into_iter().filter(|call| !call.starts_with("GET ")).collect()
    }

    /// How often Keystone was asked for a token.
    pub fn authentications(&self) -> usize {
        self.0.authentications.load(Ordering::Relaxed)
    }

    /// How many calls that came late have been done by now.
    pub fn landed(&self) -> usize {
        self.0.landed.load(Ordering::Relaxed)
    }

    /// Forgets what was seen so far.
    pub fn forget(&self) {
        self.0.calls().clear();
        self.0.authentications.store(0, Ordering::Relaxed);
    }

    /// From now on this goes wrong, and nothing else: the first that meets a call happens to it.
    pub fn set(&self, faults: impl IntoIterator<Item = Fault>) {
        *self.0.faults() = faults.into_iter().collect();
    }

    /// From now on Neutron gives no longer pages than this, as one with a lower maximum would.
    pub fn page_at_most(&self, rows: usize) {
        self.0.page.store(rows, Ordering::Relaxed);
    }

    /// From now on OpenStack is out of order.
    pub fn cut(&self) {
        self.set([Fault::page(EVERYTHING, 503)]);
    }

    /// The faults that have not happened as often as they were to.
    pub fn faults_left(&self) -> Vec<String> {
        self.0.faults().iter().filter(|fault| fault.left != Some(0)).map(Fault::describe).collect()
    }
}

/// A request that was read, and what it is.
struct Call {
    parts: http::request::Parts,
    body: Vec<u8>,
    is_keystone: bool,
}

impl Ends {
    fn calls(&self) -> MutexGuard<'_, Vec<String>> {
        self.calls.lock().expect("no code panics while it holds the calls")
    }

    fn faults(&self) -> MutexGuard<'_, Vec<Fault>> {
        self.faults.lock().expect("no code panics while it holds the faults")
    }

    /// The fault that happens to this call.
    fn fault(&self, call: &str, is_keystone: bool) -> Option<Fault> {
        let mut faults = self.faults();
        let fault = faults.iter_mut().find(|fault| fault.meets(call, is_keystone))?;
        fault.left = fault.left.map(|left| left - 1);
        Some(fault.clone())
    }

    async fn answer(self: &Arc<Self>, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let body = to_bytes(body, 1 << 20).await.unwrap_or_default().to_vec();
        let is_keystone = parts.uri.path().starts_with("/v3");
        let call = call_name(parts.method.as_str(), parts.uri.path());
        match is_keystone {
            true => drop(self.authentications.fetch_add(1, Ordering::Relaxed)),
            false => self.calls().push(call.clone()),
        }
        let fault = self.fault(&call, is_keystone);
        let call = Call { parts, body, is_keystone };
        let Some(fault) = fault else { return self.pass(call, |text| text).await };
        match fault.how {
            How::Change(change) => return self.pass(call, |text| change(text)).await,
            How::Late(pause) => {
                let ends = self.clone();
                // Apart from the caller's connection: it lands when the caller has died, too.
                let landing = tokio::spawn(async move {
                    tokio::time::sleep(pause).await;
                    let answer = ends.pass(call, |text| text).await;
                    ends.landed.fetch_add(1, Ordering::Relaxed);
                    answer
                });
                return landing.await.unwrap_or_else(|_| response(502, Vec::new(), Vec::new()));
            }
            _ if fault.is_done => drop(self.pass(call, |text| text).await),
            _ => {}
        }
        match fault.how {
            How::Answer(status, headers, body) => {
                let header = |(name, value): (_, String)| {
                    (HeaderName::from_static(name), HeaderValue::from_str(&value).expect("it is a header"))
                };
                response(status, headers.into_iter().map(header).collect(), body.into_bytes())
            }
            How::Never => std::future::pending().await,
            // The server closes the connection when a handler is gone.
            _ => std::panic::resume_unwind(Box::new("the connection breaks")),
        }
    }

    async fn pass(&self, call: Call, change: impl Fn(String) -> String) -> Response {
        let path = call.parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let path = shorter_page(path, self.page.load(Ordering::Relaxed));
        let base = if call.is_keystone { &self.keystone } else { &self.neutron };
        let mut out = self.http.request(call.parts.method.clone(), format!("{base}{path}")).body(call.body);
        for (name, value) in call.parts.headers.iter().filter(|(name, _)| HEADERS.contains(&name.as_str())) {
            out = out.header(name, value);
        }
        let Ok(answer) = out.send().await else { return response(502, Vec::new(), Vec::new()) };
        let headers = answer.headers().iter().filter(|(name, _)| HEADERS.contains(&name.as_str()));
        let headers = headers.map(|(name, value)| (name.clone(), value.clone())).collect();
        let status = answer.status().as_u16();
        let Ok(body) = answer.text().await else { return response(502, Vec::new(), Vec::new()) };
        // The catalogue leads through the wire too.
        let body = if call.is_keystone { body.replace(&self.neutron, &self.url) } else { body };
        response(status, headers, change(body).into_bytes())
    }
}

fn response(status: u16, headers: Vec<(HeaderName, HeaderValue)>, body: Vec<u8>) -> Response {
    let mut response = Response::builder().status(status).body(Body::from(body)).expect("a response");
    response.headers_mut().extend(headers);
    response
}

/// The same path and query, for a page of so many rows at most.
fn shorter_page(path: &str, most: usize) -> String {
    let shorter = |part: &str| match part.strip_prefix("limit=").map(str::parse::<usize>) {
        Some(Ok(rows)) => format!("limit={}", rows.min(most)),
        _ => part.to_owned(),
    };
    match path.split_once('?') {
        Some((path, query)) => format!("{path}?{}", query.split('&').map(shorter).collect::<Vec<_>>().join("&")),
        None => path.to_owned(),
    }
}

/// A call without its ids and tags: `PUT floatingips/ID/tags/TAG`. `path` has no query.
pub fn call_name(method: &str, path: &str) -> String {
    let path = path.trim_start_matches("/v2.0/");
    if let Some(path) = path.strip_prefix("/v3/") {
        return format!("{method} {path}");
    }
    let mut parts: Vec<&str> = path.split('/').collect();
    for (at, name) in [(1, "ID"), (3, "TAG")] {
        if let Some(part) = parts.get_mut(at) {
            *part = name;
        }
    }
    format!("{method} {}", parts.join("/"))
}
