//! A namespace of the real API server, as the other side. Watches record all that happens in it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{AsyncBufReadExt, StreamExt};
use http::{HeaderValue, Request as HttpRequest};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::memory_side::{Log, known, note_page};
use super::normal::{Answer, Event};
use super::request::{Known, Request, collection};
use crate::memory_api::{Key, Kind};

/// The kinds in a namespace whose changes are compared.
pub const WATCHED: [Kind; 9] = [
    Kind::Secret,
    Kind::Claim,
    Kind::Address,
    Kind::Pool,
    Kind::InTreePool,
    Kind::OpenStackCluster,
    Kind::Event,
    Kind::Lease,
    Kind::ConfigMap,
];

/// A ConfigMap that Kubernetes adds to each namespace.
const ROOT_CERTIFICATES: &str = "kube-root-ca.crt";

pub struct RealSide {
    client: Client,
    namespace: String,
    log: Arc<Mutex<Log>>,
    news: watch::Receiver<u64>,
    next_pages: BTreeMap<Kind, String>,
    watches: Vec<JoinHandle<()>>,
}

impl Drop for RealSide {
    fn drop(&mut self) {
        self.watches.iter().for_each(JoinHandle::abort);
    }
}

impl RealSide {
    /// Creates the namespace, and watches it.
    pub async fn new(client: &Client, namespace: &str) -> Self {
        let object = json!({"metadata": {"name": namespace}}).to_string().into_bytes();
        let answer = call(client, HttpRequest::post(collection(Kind::Namespace, "")), object).await;
        assert_eq!(answer.code, 201, "{}", answer.body);
        let (sender, news) = watch::channel(0);
        let (log, sender) = (Arc::default(), Arc::new(sender));
        let mut watches = Vec::new();
        for kind in WATCHED {
            let path = collection(kind, namespace);
            let list = call(client, HttpRequest::get(&path), Vec::new()).await;
            let version = list.body["metadata"]["resourceVersion"].as_str().expect("a list has a version").to_owned();
            let recorder =
                Recorder { kind, namespace: namespace.to_owned(), log: Arc::clone(&log), news: sender.clone() };
            watches.push(tokio::spawn(recorder.follow(client.clone(), path, version)));
        }
        let (client, namespace) = (client.clone(), namespace.to_owned());
        Self { client, namespace, log, news, next_pages: BTreeMap::new(), watches }
    }

    pub async fn send(&mut self, request: &Request) -> Answer {
        let (parts, body) = request.for_side(&self.namespace, &self.known()).into_parts();
        let answer = send(&self.client, HttpRequest::from_parts(parts, Body::from(body))).await;
        note_page(&mut self.next_pages, request, &answer);
        answer
    }

    /// The next list of the kind begins at its beginning.
    pub fn forget_page(&mut self, kind: Kind) {
        self.next_pages.remove(&kind);
    }

    pub async fn delete_namespace(&self) -> Answer {
        let path = format!("{}/{}", collection(Kind::Namespace, ""), self.namespace);
        call(&self.client, HttpRequest::delete(path), Vec::new()).await
    }

    pub async fn namespace_exists(&self) -> bool {
        let path = format!("{}/{}", collection(Kind::Namespace, ""), self.namespace);
        call(&self.client, HttpRequest::get(path), Vec::new()).await.code == 200
    }

    pub fn log(&self) -> Log {
        self.log.lock().expect("no code panics while it holds the log").clone()
    }

    pub fn known(&self) -> Known {
        known(&self.log(), &self.next_pages)
    }

    /// Returns when something happened since the last call, or after this time; whether something did.
    pub async fn wait_for_news(&mut self, longest: Duration) -> bool {
        tokio::time::timeout(longest, self.news.changed()).await.is_ok()
    }
}

/// Writes the events of one kind into the log.
struct Recorder {
    kind: Kind,
    namespace: String,
    log: Arc<Mutex<Log>>,
    news: Arc<watch::Sender<u64>>,
}

impl Recorder {
    async fn follow(self, client: Client, path: String, mut version: String) {
        loop {
            let uri = format!("{path}?watch=true&resourceVersion={version}&timeoutSeconds=280");
            let request = HttpRequest::get(uri).body(Vec::new()).expect("a good request");
            let stream = client.request_stream(request).await.expect("the watch begins");
            let mut lines = stream.lines();
            while let Some(Ok(line)) = lines.next().await {
                let event: Value = serde_json::from_str(&line).expect("a watch sends JSON");
                let how = event["type"].as_str().expect("an event has a type").to_owned();
                let object = Arc::new(event["object"].clone());
                let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
                assert_ne!(how, "ERROR", "the watch failed: {object}");
                version = text("resourceVersion");
                let key = Key::new(self.kind, &self.namespace, &text("name"));
                if key.name == ROOT_CERTIFICATES {
                    continue;
                }
                self.log.lock().expect("no panic").entry(key).or_default().push(Event { how, object });
                self.news.send_modify(|count| *count += 1);
            }
        }
    }
}

/// Sends a request with a body.
pub async fn call(client: &Client, request: http::request::Builder, body: Vec<u8>) -> Answer {
    let mut request = request.body(Body::from(body)).expect("a good request");
    request.headers_mut().entry("content-type").or_insert(HeaderValue::from_static("application/json"));
    send(client, request).await
}

async fn send(client: &Client, request: HttpRequest<Body>) -> Answer {
    let answer = client.send(request).await.expect("the API server answers");
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect_bytes().await.expect("it answers to the end");
    let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned().into());
    Answer { code, body }
}
