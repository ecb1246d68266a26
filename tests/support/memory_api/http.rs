//! The server over HTTP: requests, answers, and watches as streams.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use futures::stream;
use http::{Method, Request, Response};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::admission::Refusal;
use super::objects::{Deletion, Part, text};
use super::{ApiServer, Change, Key, Kind};

/// How long a watch lasts before the server ends it, where the client does not say.
const WATCH_LASTS: u64 = 290;

/// What a request is about.
#[derive(Clone, Debug)]
pub struct Target {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
    pub part: Part,
}

/// A path's target: `/api/v1/…` or `/apis/GROUP/VERSION/…`.
pub fn target(path: &str) -> Option<Target> {
    let mut parts = path.trim_matches('/').split('/').peekable();
    let (group, version) = match parts.next()? {
        "api" => ("", parts.next()?),
        "apis" => (parts.next()?, parts.next()?),
        _ => return None,
    };
    let mut plural = parts.next()?;
    let mut namespace = "";
    let mut rest: Vec<&str> = parts.collect();
    if plural == "namespaces" && rest.len() >= 2 {
        namespace = rest[0];
        plural = rest[1];
        rest.drain(..2);
    }
    let kind = Kind::find(group, version, plural)?;
    let name = rest.first().copied().unwrap_or_default();
    let part = if rest.get(1) == Some(&"status") { Part::Status } else { Part::Main };
    Some(Target { kind, namespace: namespace.into(), name: name.into(), part })
}

/// The parameters of a request.
pub fn query(uri: &http::Uri) -> BTreeMap<String, String> {
    let pairs = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    pairs.map(|(key, value)| (key.into_owned(), value.into_owned())).collect()
}

pub fn answer(code: u16, body: &Value) -> Response<Body> {
    let bytes = serde_json::to_vec(body).expect("JSON has a form");
    Response::builder().status(code).body(Body::from(bytes)).expect("a good answer")
}

impl ApiServer {
    /// Answers a request that is not a watch.
    pub fn serve(&self, request: &Request<Vec<u8>>) -> Response<Body> {
        match self.done(request) {
            Ok((code, body)) => answer(code, &body),
            Err(refusal) => answer(refusal.code, &refusal.body()),
        }
    }

    fn done(&self, request: &Request<Vec<u8>>) -> Result<(u16, Value), Refusal> {
        let path = request.uri().path();
        let Some(Target { kind, namespace, name, part }) = target(path) else {
            return discovery(path).ok_or_else(|| Refusal::new(404, "NotFound", "the server could not find it"));
        };
        let key = Key::new(kind, &namespace, &name);
        let body = || -> Result<Value, Refusal> {
            serde_json::from_slice(request.body()).map_err(|error| Refusal::new(400, "BadRequest", error.to_string()))
        };
        match (request.method(), name.is_empty()) {
            (&Method::GET, true) => Ok((200, self.list(kind, &namespace, &query(request.uri())))),
            (&Method::GET, false) => {
                self.get(&key).map(|object| (200, (*object).clone())).ok_or_else(|| Refusal::missing(&key))
            }
            (&Method::POST, true) => {
                let mut object = body()?;
                object["metadata"]["namespace"] = namespace.into();
                self.create(kind, object).map(|object| (201, (*object).clone()))
            }
            (&Method::PATCH, false) => self.patch(&key, part, &body()?).map(|object| (200, (*object).clone())),
            (&Method::PUT, false) => self.update(&key, part, body()?).map(|object| (200, (*object).clone())),
            (&Method::DELETE, false) => {
                let options = if request.body().is_empty() { json!({}) } else { body()? };
                let wanted = |field: &str| options["preconditions"][field].as_str().map(str::to_owned);
                let how = Deletion {
                    uid: wanted("uid"),
                    version: wanted("resourceVersion"),
                    is_foreground: text(&options["propagationPolicy"]) == "Foreground",
                };
                self.delete(&key, &how).map(|object| (200, (*object).clone()))
            }
            (method, _) => Err(Refusal::new(405, "MethodNotAllowed", format!("{method} is not supported"))),
        }
    }

    fn list(&self, kind: Kind, namespace: &str, query: &BTreeMap<String, String>) -> Value {
        let state = self.state();
        let limit = query.get("limit").and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX);
        let from = query.get("continue").cloned().unwrap_or_default();
        let position = |key: &Key| format!("{}/{}", key.namespace, key.name);
        let mut meant = state
            .objects
            .iter()
            .filter(|(key, _)| key.kind == kind && (namespace.is_empty() || key.namespace == namespace))
            .filter(|(key, _)| position(key) > from);
        let page: Vec<_> = meant.by_ref().take(limit).collect();
        let mut meta = json!({"resourceVersion": state.version.to_string()});
        if meant.next().is_some() {
            meta["continue"] = page.last().map(|(key, _)| position(key)).unwrap_or_default().into();
        }
        let items: Vec<&Value> = page.iter().map(|(_, object)| object.as_ref()).collect();
        json!({"kind": format!("{}List", kind.names().3), "apiVersion": kind.api_version(), "metadata": meta, "items": items})
    }

    /// A watch, as its stream of lines. Each change comes `lag` after it happened; then it ends after its time, or when
    /// watches are cut off.
    pub fn watch(&self, request: &Request<Vec<u8>>, lag: impl FnMut() -> Duration + Send + 'static) -> Response<Body> {
        let Some(Target { kind, namespace, .. }) = target(request.uri().path()) else {
            return answer(404, &Refusal::new(404, "NotFound", "the server could not find it").body());
        };
        let query = query(request.uri());
        let from: u64 = query.get("resourceVersion").and_then(|version| version.parse().ok()).unwrap_or_default();
        let lasts = query.get("timeoutSeconds").and_then(|time| time.parse().ok()).unwrap_or(WATCH_LASTS);
        if from < self.state().forgotten {
            // As the real one does: the watch begins, and says so in its first event.
            let gone = Refusal::new(410, "Expired", "too old resource version").body();
            return answer(200, &json!({"type": "ERROR", "object": gone}));
        }
        let cut = self.state().cut;
        let ends = Instant::now() + Duration::from_secs(lasts);
        let watcher = Watcher { server: self.clone(), kind, namespace, from, cut, ends };
        let lines = stream::unfold((watcher, lag), |(mut watcher, mut lag)| async move {
            let lines = watcher.next(&mut lag).await?;
            Some((Ok::<_, std::convert::Infallible>(lines), (watcher, lag)))
        });
        Response::builder().status(200).body(Body::from_stream(lines)).expect("a good answer")
    }
}

struct Watcher {
    server: ApiServer,
    kind: Kind,
    namespace: String,
    from: u64,
    cut: u64,
    ends: Instant,
}

impl Watcher {
    /// The next lines; none when the watch ends.
    async fn next(&mut self, lag: &mut impl FnMut() -> Duration) -> Option<String> {
        let mut news = self.server.news.subscribe();
        loop {
            if self.server.state().cut != self.cut {
                return None;
            }
            if self.is_news() {
                tokio::time::sleep(lag()).await;
                let is_cut = self.server.state().cut != self.cut;
                return if is_cut { None } else { Some(self.take()) };
            }
            // Nothing of what happened was meant: it need not be looked through again.
            self.from = self.server.version().max(self.from);
            let ends = self.ends;
            tokio::select! {
                biased;
                _ = news.changed() => {}
                () = tokio::time::sleep_until(ends) => return None,
            }
        }
    }

    fn is_meant(&self, change: &Change) -> bool {
        change.version > self.from
            && change.key.kind == self.kind
            && (self.namespace.is_empty() || change.key.namespace == self.namespace)
    }

    fn is_news(&self) -> bool {
        self.server
            .state()
            .changes
            .iter()
            .rev()
            .take_while(|change| change.version > self.from)
            .any(|change| self.is_meant(change))
    }

    fn take(&mut self) -> String {
        let state = self.server.state();
        let line = |change: &Change| format!("{}\n", json!({"type": change.how, "object": *change.object}));
        let begin = state.changes.partition_point(|change| change.version <= self.from);
        let lines = state.changes[begin..].iter().filter(|change| self.is_meant(change)).map(line).collect();
        self.from = state.version;
        lines
    }
}

/// What a group's version serves.
fn discovery(path: &str) -> Option<(u16, Value)> {
    let group_version = path.trim_matches('/').strip_prefix("apis/")?;
    let resources: Vec<Value> = Kind::ALL
        .into_iter()
        .filter(|kind| kind.api_version() == group_version)
        .map(|kind| {
            let (_, _, plural, kind) = kind.names();
            let verbs = ["create", "delete", "get", "list", "patch", "update", "watch"];
            json!({"name": plural, "singularName": "", "kind": kind, "namespaced": true, "verbs": verbs})
        })
        .collect();
    let list =
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources});
    (!resources.is_empty()).then_some((200, list))
}
