//! A proxy between the program and OpenStack: it passes calls on to the real servers, records those to Neutron, and makes
//! calls fail as a scenario says.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use http::{HeaderName, HeaderValue};
use serde_json::Value;
use tokio::net::TcpListener;

use super::clouds::{cloud_entry, clouds_yaml};
use super::fault::{EVERYTHING, Effect, Fault};
use super::openstack::Cloud;
use super::tls_listener::Tls;
use super::wait::eventually;

/// What is passed on with a request, and with an answer.
const HEADERS: [&str; 5] = ["x-auth-token", "x-subject-token", "content-type", "retry-after", "x-openstack-request-id"];

/// A write that Neutron has answered.
pub struct NeutronWrite<'a> {
    pub method: &'a http::Method,
    pub path: &'a str,
    pub status: u16,
    pub body: &'a [u8],
    pub answer: &'a str,
}

/// Whether the caller gets the answer.
type WriteObserver = Box<dyn Fn(&NeutronWrite<'_>) -> bool + Send + Sync>;

/// Ends with the test. It records only the calls of pools whose credentials lead through it.
#[derive(Clone)]
pub struct OpenStackProxy(Arc<Ends>);

struct Ends {
    url: String,
    keystone: String,
    neutron: String,
    entry: Value,
    http: reqwest::Client,
    // Plain mutexes: held for one access, never across an await.
    calls: Mutex<Vec<String>>,
    faults: Mutex<Vec<Fault>>,
    authentications: AtomicUsize,
    delayed_calls_done: AtomicUsize,
    /// The most rows of a page.
    page: AtomicUsize,
    write_observer: OnceLock<WriteObserver>,
}

impl OpenStackProxy {
    /// A proxy to a cloud of `OS_CLIENT_CONFIG_FILE`, with plain HTTP on any port.
    pub async fn to_cloud(cloud: &str) -> Self {
        Self::listen(TcpListener::bind("127.0.0.1:0").await.expect("some port is free"), cloud).await
    }

    /// The same on a listener.
    pub async fn listen(listener: TcpListener, cloud: &str) -> Self {
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        Self::serve(listener, url, cloud).await
    }

    /// The same with TLS; returns its certificate too.
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
        let (authentications, delayed_calls_done) = (AtomicUsize::default(), AtomicUsize::default());
        let page = AtomicUsize::new(usize::MAX);
        let write_observer = OnceLock::new();
        let ends = Ends {
            url,
            keystone,
            neutron,
            entry,
            http,
            calls,
            faults,
            authentications,
            delayed_calls_done,
            page,
            write_observer,
        };
        let proxy = Self(Arc::new(ends));
        let ends = proxy.0.clone();
        let app = Router::new().fallback(move |request: Request| {
            let ends = ends.clone();
            async move { ends.answer(request).await }
        });
        tokio::spawn(async move { axum::serve(listener, app).await });
        proxy
    }

    /// A `clouds.yaml` that leads through the proxy.
    pub fn clouds_yaml(&self) -> String {
        self.through_proxy(&clouds_yaml(&self.0.entry))
    }

    /// Changes a `clouds.yaml` of the real cloud to lead through the proxy.
    pub fn through_proxy(&self, clouds_yaml: &str) -> String {
        clouds_yaml.replace(&self.0.keystone, &self.0.url)
    }

    pub fn url(&self) -> &str {
        &self.0.url
    }

    /// Every call to Neutron so far, such as `PUT floatingips/ID/tags/TAG`, in their order.
    pub fn calls(&self) -> Vec<String> {
        self.0.calls().clone()
    }

    pub fn count(&self, call: &str) -> usize {
        self.calls().iter().filter(|seen| *seen == call).count()
    }

    /// The calls that change something.
    pub fn writes(&self) -> Vec<String> {
        self.calls().into_iter().filter(|call| !call.starts_with("GET ")).collect()
    }

    /// How many calls to Keystone there were.
    pub fn authentications(&self) -> usize {
        self.0.authentications.load(Ordering::Relaxed)
    }

    /// How many calls with a [`Fault::delay`] OpenStack has done by now.
    pub fn delayed_calls_done(&self) -> usize {
        self.0.delayed_calls_done.load(Ordering::Relaxed)
    }

    /// Begins to record and count from nothing.
    pub fn forget_calls(&self) {
        self.0.calls().clear();
        self.0.authentications.store(0, Ordering::Relaxed);
    }

    /// Replaces the faults. The first that applies to a call decides what happens to it.
    pub fn set_faults(&self, faults: impl IntoIterator<Item = Fault>) {
        *self.0.faults() = faults.into_iter().collect();
    }

    /// Limits Neutron's pages, as a lower `pagination_max_limit` does.
    pub fn page_at_most(&self, rows: usize) {
        self.0.page.store(rows, Ordering::Relaxed);
    }

    /// Calls `observer` after each write that Neutron has done, before the answer goes back: it is lost where `observer`
    /// says `false`. To be called once.
    pub fn observe_writes(&self, observer: impl Fn(&NeutronWrite<'_>) -> bool + Send + Sync + 'static) {
        assert!(self.0.write_observer.set(Box::new(observer)).is_ok(), "the writes are observed already");
    }

    /// OpenStack works normally again.
    pub fn remove_faults(&self) {
        self.set_faults([]);
    }

    /// Every call is answered with 503.
    pub fn fail_everything(&self) {
        self.set_faults([Fault::page(EVERYTHING, 503)]);
    }

    /// Waits until every fault has happened as often as it should.
    pub async fn await_faults_used(&self, within: Duration) {
        eventually(within, async || {
            let faults = self.0.faults();
            let left: Vec<_> = faults.iter().filter(|fault| fault.left != Some(0)).map(Fault::describe).collect();
            if left.is_empty() { Ok(()) } else { Err(format!("these faults are left: {left:?}")) }
        })
        .await;
    }
}

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
        let fault = faults.iter_mut().find(|fault| fault.applies_to(call, is_keystone))?;
        fault.left = fault.left.map(|left| left - 1);
        Some(fault.clone())
    }

    async fn answer(self: &Arc<Self>, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let body = to_bytes(body, 1 << 20).await.unwrap_or_default().to_vec();
        let is_keystone = parts.uri.path().starts_with("/v3");
        let name = call_name(parts.method.as_str(), parts.uri.path());
        match is_keystone {
            true => drop(self.authentications.fetch_add(1, Ordering::Relaxed)),
            false => self.calls().push(name.clone()),
        }
        let call = Call { parts, body, is_keystone };
        match self.fault(&name, is_keystone) {
            Some(fault) => self.answer_with(fault, call).await,
            None => self.pass(call, |text| text).await,
        }
    }

    async fn answer_with(self: &Arc<Self>, fault: Fault, call: Call) -> Response {
        match fault.effect {
            Effect::Rewrite(change) => return self.pass(call, |text| change(text)).await,
            Effect::Delay(pause) => return self.pass_after(pause, call).await,
            _ if fault.is_done => drop(self.pass(call, |text| text).await),
            _ => {}
        }
        match fault.effect {
            Effect::Answer(status, headers, body) => {
                let header = |(name, value): (_, String)| {
                    (HeaderName::from_static(name), HeaderValue::from_str(&value).expect("it is a header"))
                };
                response(status, headers.into_iter().map(header).collect(), body.into_bytes())
            }
            Effect::NoAnswer => std::future::pending().await,
            // The server closes the connection when a handler panics.
            _ => std::panic::resume_unwind(Box::new("the connection breaks")),
        }
    }

    async fn pass_after(self: &Arc<Self>, pause: Duration, call: Call) -> Response {
        let ends = self.clone();
        // In a task of its own, so that it is done also when the caller has died.
        let passing = tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            let answer = ends.pass(call, |text| text).await;
            ends.delayed_calls_done.fetch_add(1, Ordering::Relaxed);
            answer
        });
        passing.await.unwrap_or_else(|_| response(502, Vec::new(), Vec::new()))
    }

    async fn pass(&self, call: Call, change: impl Fn(String) -> String) -> Response {
        let path = call.parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let path = shorter_page(path, self.page.load(Ordering::Relaxed));
        let base = if call.is_keystone { &self.keystone } else { &self.neutron };
        let method = &call.parts.method;
        let mut out = self.http.request(method.clone(), format!("{base}{path}")).body(call.body.clone());
        for (name, value) in call.parts.headers.iter().filter(|(name, _)| HEADERS.contains(&name.as_str())) {
            out = out.header(name, value);
        }
        let Ok(answer) = out.send().await else { return response(502, Vec::new(), Vec::new()) };
        let headers = answer.headers().iter().filter(|(name, _)| HEADERS.contains(&name.as_str()));
        let headers = headers.map(|(name, value)| (name.clone(), value.clone())).collect();
        let status = answer.status().as_u16();
        let Ok(body) = answer.text().await else { return response(502, Vec::new(), Vec::new()) };
        if let Some(observer) = self.write_observer.get().filter(|_| !call.is_keystone && *method != http::Method::GET)
        {
            let write = NeutronWrite { method, path: call.parts.uri.path(), status, body: &call.body, answer: &body };
            if !observer(&write) {
                return std::future::pending().await;
            }
        }
        // The catalogue must lead through the proxy too.
        let body = if call.is_keystone { body.replace(&self.neutron, &self.url) } else { body };
        response(status, headers, change(body).into_bytes())
    }
}

fn response(status: u16, headers: Vec<(HeaderName, HeaderValue)>, body: Vec<u8>) -> Response {
    let mut response = Response::builder().status(status).body(Body::from(body)).expect("a response");
    response.headers_mut().extend(headers);
    response
}

/// The same path and query, with a limit of that many rows.
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
