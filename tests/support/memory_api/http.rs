//! The server over HTTP: requests and answers.

use std::collections::{BTreeMap, BTreeSet};

use axum::body::Body;
use http::{Method, Request, Response};
use serde_json::{Value, json};

use super::deletion::{Deleted, Deletion, Propagation};
use super::objects::{Part, text};
use super::refusal::Refusal;
use super::{ApiServer, Key, Kind};

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
    let part = match rest.get(1) {
        None => Part::Main,
        Some(&"status") if kind.has_status() => Part::Status,
        Some(_) => return None,
    };
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

/// Whether only the metadata is asked for.
pub(super) fn is_for_metadata(request: &Request<Vec<u8>>) -> bool {
    let accept = request.headers().get(http::header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains("as=PartialObjectMetadata"))
}

/// An object, without all but its metadata.
pub(super) fn metadata_of(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

impl ApiServer {
    /// Answers a request that is not a watch.
    pub fn serve(&self, request: &Request<Vec<u8>>) -> Response<Body> {
        match self.done(request) {
            Ok((code, body)) if is_for_metadata(request) => answer(code, &reduced(body)),
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
            serde_json::from_slice(request.body()).map_err(|error| Refusal::bad_request(error.to_string()))
        };
        match (request.method(), name.is_empty()) {
            (&Method::GET, true) => Ok((200, self.list(kind, &namespace, &query(request.uri()))?)),
            (&Method::GET, false) => {
                self.get(&key).map(|object| (200, (*object).clone())).ok_or_else(|| Refusal::missing(&key))
            }
            (&Method::POST, true) => {
                let object = within(&namespace, body()?)?;
                self.create(kind, object).map(|object| (201, (*object).clone()))
            }
            (&Method::PATCH, false) => self.patch(&key, part, &body()?).map(|object| (200, (*object).clone())),
            (&Method::PUT, false) => self
                .update(&key, part, within(&namespace, body()?)?)
                .map(|(object, is_new)| (if is_new { 201 } else { 200 }, (*object).clone())),
            (&Method::DELETE, false) => {
                let options = if request.body().is_empty() { json!({}) } else { body()? };
                self.delete(&key, &deletion(&options)).map(|deleted| (200, deleted_body(&key, deleted)))
            }
            (method, _) => Err(Refusal::new(405, "MethodNotAllowed", format!("{method} is not supported"))),
        }
    }
}

/// An object for a namespace; one that names another is refused.
fn within(namespace: &str, mut object: Value) -> Result<Value, Refusal> {
    let given = text(&object["metadata"]["namespace"]);
    if !given.is_empty() && given != namespace {
        return Err(Refusal::bad_request("the namespace of the object does not match that of the request"));
    }
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
    Ok(object)
}

fn deletion(options: &Value) -> Deletion {
    let wanted = |field: &str| options["preconditions"][field].as_str().map(str::to_owned);
    let propagation = match text(&options["propagationPolicy"]) {
        "Foreground" => Some(Propagation::Foreground),
        "Background" => Some(Propagation::Background),
        "Orphan" => Some(Propagation::Orphan),
        _ => None,
    };
    Deletion { uid: wanted("uid"), version: wanted("resourceVersion"), propagation }
}

fn deleted_body(key: &Key, deleted: Deleted) -> Value {
    match deleted {
        Deleted::Waits(object) => (*object).clone(),
        Deleted::Gone(object) => {
            let details = json!({
                "name": key.name, "group": key.kind.names().0, "kind": key.kind.names().2, "uid": object["metadata"]["uid"],
            });
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
        }
    }
}

/// The metadata of an object, or of each in a list.
fn reduced(mut body: Value) -> Value {
    let Some(items) = body["items"].as_array_mut() else { return metadata_of(&body) };
    items.iter_mut().for_each(|item| *item = metadata_of(item));
    if items.is_empty() {
        // So the real one writes no items.
        body["items"] = Value::Null;
    }
    body["kind"] = "PartialObjectMetadataList".into();
    body["apiVersion"] = "meta.k8s.io/v1".into();
    body
}

/// Which groups there are, or what a group's version serves.
fn discovery(path: &str) -> Option<(u16, Value)> {
    if path == "/apis" {
        return Some((200, groups()));
    }
    let group_version = path.trim_matches('/').strip_prefix("apis/")?;
    let resources: Vec<Value> = Kind::ALL
        .into_iter()
        .filter(|kind| kind.api_version() == group_version)
        .map(|known| {
            let (_, _, plural, kind) = known.names();
            let verbs = ["create", "delete", "get", "list", "patch", "update", "watch"];
            json!({"name": plural, "singularName": "", "kind": kind, "namespaced": known.is_namespaced(), "verbs": verbs})
        })
        .collect();
    let list =
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources});
    (!resources.is_empty()).then_some((200, list))
}

fn groups() -> Value {
    let mut groups: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (group, version, ..) in Kind::ALL.map(Kind::names) {
        groups.entry(group).or_default().insert(version);
    }
    groups.remove("");
    let group = |(name, versions): (&str, BTreeSet<&str>)| {
        let version = |version| json!({"groupVersion": format!("{name}/{version}"), "version": version});
        json!({"name": name, "versions": versions.into_iter().map(version).collect::<Vec<_>>()})
    };
    let groups: Vec<Value> = groups.into_iter().map(group).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}
