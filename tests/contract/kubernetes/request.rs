//! A generated request. It names UIDs and resource versions by object and age, so that both servers, and a shorter
//! history, get the same request although theirs differ.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use http::{Method, Request as HttpRequest};
use serde_json::Value;

use crate::memory_api::{Key, Kind};

/// A UID that no object has. Each namespace and name has its own: the garbage collector knows owners by their UID alone, so
/// histories with one in common would disturb each other.
pub fn no_uid(key: &Key) -> String {
    let mut hasher = DefaultHasher::new();
    format!("{key:?}").hash(&mut hasher);
    format!("11111111-1111-4111-8111-{:012x}", hasher.finish() >> 16)
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verb {
    Create,
    Get,
    /// All pages of at most so many objects are separate requests; 0 for no limit.
    List(usize),
    /// The next page of the last list of the kind that has one.
    NextPage(usize),
    /// Of the metadata alone.
    ListMetadata,
    Patch,
    PatchStatus,
    Update,
    Delete,
}

#[derive(Clone, Debug)]
pub struct Request {
    pub verb: Verb,
    pub kind: Kind,
    /// Of a kind that is in no namespace: what is added to the name of the history's namespace.
    pub name: String,
    pub body: Option<Value>,
}

/// What a side knows of its objects: enough to fill in a request.
#[derive(Default, Debug)]
pub struct Known {
    /// The versions of each object name, oldest first.
    pub versions: BTreeMap<Key, Vec<String>>,
    /// The UIDs of each object name, oldest first.
    pub uids: BTreeMap<Key, Vec<String>>,
    pub next_pages: BTreeMap<Kind, String>,
}

/// The placeholder of an object's UID: its own (0), or that of an object of its name before (1 …).
pub fn uid_of(kind: Kind, name: &str, age: usize) -> String {
    format!("@uid/{kind:?}/{name}/{age}")
}

/// The placeholder of an object's resource version: the current one (0), or one before.
pub fn version_of(kind: Kind, name: &str, age: usize) -> String {
    format!("@version/{kind:?}/{name}/{age}")
}

impl Known {
    fn fill(&self, namespace: &str, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(filled) = self.meant(namespace, text) {
                    *text = filled;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.fill(namespace, item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.fill(namespace, field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// What a placeholder stands for.
    fn meant(&self, namespace: &str, text: &str) -> Option<String> {
        let mut parts = text.strip_prefix('@')?.split('/');
        let (what, kind, name, age) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let kind = Kind::ALL.into_iter().find(|known| format!("{known:?}") == kind)?;
        let key = Key::new(kind, namespace, name);
        let (known, otherwise) =
            if what == "uid" { (self.uids.get(&key), no_uid(&key)) } else { (self.versions.get(&key), "1".to_owned()) };
        let age: usize = age.parse().ok()?;
        let value = known.and_then(|all| all.get(all.len().checked_sub(age + 1)?));
        Some(value.cloned().unwrap_or(otherwise))
    }
}

impl Request {
    /// The request for one side.
    pub fn for_side(&self, namespace: &str, known: &Known) -> HttpRequest<Vec<u8>> {
        let mut body = self.body.clone();
        if let Some(body) = &mut body {
            known.fill(namespace, body);
            if self.verb == Verb::Create && !self.kind.is_namespaced() {
                body["metadata"]["name"] = self.full_name(namespace).into();
            }
        }
        let (method, content) = match self.verb {
            Verb::Create => (Method::POST, "application/json"),
            Verb::Get | Verb::List(_) | Verb::NextPage(_) | Verb::ListMetadata => (Method::GET, "application/json"),
            Verb::Patch | Verb::PatchStatus => (Method::PATCH, "application/merge-patch+json"),
            Verb::Update => (Method::PUT, "application/json"),
            Verb::Delete => (Method::DELETE, "application/json"),
        };
        let accept = match self.verb {
            Verb::ListMetadata => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            _ => "application/json",
        };
        HttpRequest::builder()
            .method(method)
            .uri(self.uri(namespace, known))
            .header("content-type", content)
            .header("accept", accept)
            .body(body.map(|body| body.to_string().into_bytes()).unwrap_or_default())
            .expect("a good request")
    }

    /// No two histories name the same object.
    fn full_name(&self, namespace: &str) -> String {
        match (self.kind.is_namespaced(), self.name.as_str()) {
            (true, name) => name.to_owned(),
            (false, "") => namespace.to_owned(),
            (false, name) => format!("{namespace}-{name}"),
        }
    }

    fn uri(&self, namespace: &str, known: &Known) -> String {
        let collection = collection(self.kind, namespace);
        let name = self.full_name(namespace);
        match self.verb {
            Verb::Create | Verb::List(0) | Verb::ListMetadata => collection,
            Verb::List(limit) => format!("{collection}?limit={limit}"),
            Verb::NextPage(limit) => match known.next_pages.get(&self.kind) {
                Some(token) => {
                    let token: String = url::form_urlencoded::byte_serialize(token.as_bytes()).collect();
                    format!("{collection}?limit={limit}&continue={token}")
                }
                None => format!("{collection}?limit={limit}"),
            },
            Verb::PatchStatus => format!("{collection}/{name}/status"),
            Verb::Get | Verb::Patch | Verb::Update | Verb::Delete => format!("{collection}/{name}"),
        }
    }
}

/// The path of a kind's objects in a namespace.
pub fn collection(kind: Kind, namespace: &str) -> String {
    let plural = kind.names().2;
    let root = match kind.api_version() {
        version if version.contains('/') => format!("/apis/{version}"),
        version => format!("/api/{version}"),
    };
    match kind.is_namespaced() {
        true => format!("{root}/namespaces/{namespace}/{plural}"),
        false => format!("{root}/{plural}"),
    }
}
