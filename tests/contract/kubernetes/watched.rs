//! Watches and pages from versions that are too old, or that a server has not reached, and lists of all namespaces.

use std::time::Duration;

use caip_openstack::clock::Clock;
use futures::{AsyncBufReadExt, StreamExt, TryStreamExt};
use http::Request as HttpRequest;
use kube::Client;
use serde_json::{Value, json};

use super::real_side::call;
use super::request::collection;
use crate::memory_api::{ApiServer, Kind};
use crate::support::{World, eventually, unique};

/// Long enough for an event that must not come.
const WHILE: Duration = Duration::from_secs(2);

/// The real API server forgets versions each minute, those of a minute before.
const FORGOTTEN_WITHIN: Duration = Duration::from_secs(180);

/// The events of a watch until it has been quiet for a while.
async fn events(lines: impl futures::Stream<Item = std::io::Result<String>>) -> Vec<Value> {
    let mut lines = std::pin::pin!(lines);
    let mut events = Vec::new();
    while let Ok(Some(line)) = tokio::time::timeout(WHILE, lines.next()).await {
        let event: Value = serde_json::from_str(&line.expect("the watch lasts")).expect("a watch sends JSON");
        // They carry a version only, and come by the time.
        if event["type"] != "BOOKMARK" {
            events.push(event);
        }
    }
    events
}

async fn real_events(client: &Client, path: &str, version: &str) -> Vec<Value> {
    let uri = format!("{path}?watch=true&resourceVersion={version}&allowWatchBookmarks=true&timeoutSeconds=20");
    let stream = client.request_stream(HttpRequest::get(uri).body(Vec::new()).expect("a request")).await;
    events(stream.expect("the watch begins").lines()).await
}

async fn memory_events(server: &ApiServer, path: &str, version: &str) -> Vec<Value> {
    let uri = format!("{path}?watch=true&resourceVersion={version}&allowWatchBookmarks=true&timeoutSeconds=20");
    let request = HttpRequest::get(uri).body(Vec::new()).expect("a request");
    let stream = server.watch(&request, || Duration::ZERO).into_body().into_data_stream();
    events(stream.map_err(std::io::Error::other).into_async_read().lines()).await
}

fn memory(namespace: &str) -> ApiServer {
    let server = ApiServer::new(0, Clock::simulated("2026-11-21T09:00:00Z".parse().expect("a time"), 1));
    server.create(Kind::Namespace, json!({"metadata": {"name": namespace}})).expect("a new namespace");
    server
}

fn secret(namespace: &str, name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": namespace}})
}

/// Creates a namespace on both sides.
async fn both_sides() -> (Client, ApiServer, String) {
    let (client, namespace) = (World::new().await.client, unique("contract"));
    let object = json!({"metadata": {"name": namespace}}).to_string().into_bytes();
    call(&client, HttpRequest::post(collection(Kind::Namespace, "")), object).await;
    let server = memory(&namespace);
    (client, server, namespace)
}

async fn create_on_both(client: &Client, server: &ApiServer, namespace: &str, name: &str) {
    let object = secret(namespace, name);
    server.create(Kind::Secret, object.clone()).expect("a new Secret");
    let created = call(client, HttpRequest::post(collection(Kind::Secret, namespace)), object.to_string().into()).await;
    assert_eq!(created.code, 201, "{}", created.body);
}

async fn end(client: &Client, namespace: &str) {
    let path = format!("{}/{namespace}", collection(Kind::Namespace, ""));
    call(client, HttpRequest::delete(path), Vec::new()).await;
}

#[tokio::test]
async fn a_watch_from_a_forgotten_version_says_that_it_is_gone_in_its_first_event() {
    let (client, server, namespace) = both_sides().await;
    create_on_both(&client, &server, &namespace, "one").await;
    server.expire_watches();
    // Its definition is younger than the first version.
    let path = collection(Kind::Claim, &namespace);
    let what = |events: Vec<Value>| {
        let event = |event: &Value| json!([event["type"], event["object"]["code"], event["object"]["reason"]]);
        events.iter().map(event).collect::<Vec<_>>()
    };
    let real = what(real_events(&client, &path, "1").await);
    assert_eq!(real, [json!(["ERROR", 410, "Expired"])]);
    assert_eq!(what(memory_events(&server, &path, "1").await), real);
    end(&client, &namespace).await;
}

#[tokio::test]
async fn a_page_after_a_forgotten_version_is_gone() {
    let (client, server, namespace) = both_sides().await;
    for name in ["one", "two", "three"] {
        create_on_both(&client, &server, &namespace, name).await;
    }
    let path = collection(Kind::Secret, &namespace);
    // `{"v":"meta.k8s.io/v1","rv":1,"start":"one\u0000"}`
    let token = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJvbmVcdTAwMDAifQ";
    let real = eventually(FORGOTTEN_WITHIN, async || {
        let page = HttpRequest::get(format!("{path}?limit=1&continue={token}"));
        let real = call(&client, page, Vec::new()).await;
        if real.code == 200 { Err("the first version is not forgotten") } else { Ok(real) }
    })
    .await;
    let page = |query: String| {
        let request = HttpRequest::get(format!("{path}?limit=1{query}")).body(Vec::new()).expect("a request");
        let body = server.serve(&request).into_body();
        async { axum::body::to_bytes(body, usize::MAX).await.expect("it is whole") }
    };
    let first: Value = serde_json::from_slice(&page(String::new()).await).expect("JSON");
    let token = first["metadata"]["continue"].as_str().expect("there is more").to_owned();
    server.expire_watches();
    let ours: Value = serde_json::from_slice(&page(format!("&continue={token}")).await).expect("JSON");
    assert_eq!((real.code, &real.body["reason"]), (410, &json!("Expired")));
    assert_eq!((&ours["code"], &ours["reason"]), (&json!(410), &json!("Expired")));
    end(&client, &namespace).await;
}

/// An API server whose cache is behind another one's is asked for such a version. So a watch that begins at what a
/// quorum read listed never goes back.
#[tokio::test]
async fn a_watch_from_a_version_that_is_not_reached_delivers_nothing_from_before_it() {
    let (client, server, namespace) = both_sides().await;
    create_on_both(&client, &server, &namespace, "one").await;
    let path = collection(Kind::Secret, &namespace);
    let list = call(&client, HttpRequest::get(&path), Vec::new()).await;
    let version: u64 =
        list.body["metadata"]["resourceVersion"].as_str().and_then(|it| it.parse().ok()).expect("a version");
    let far = (version + 1_000_000).to_string();
    let (real, ours, ()) =
        tokio::join!(real_events(&client, &path, &far), memory_events(&server, &path, &far), async {
            tokio::time::sleep(WHILE / 4).await;
            for name in ["two", "three"] {
                create_on_both(&client, &server, &namespace, name).await;
            }
        });
    assert_eq!((real, ours), (Vec::new(), Vec::new()));
    end(&client, &namespace).await;
}

#[tokio::test]
async fn a_list_of_all_namespaces_has_what_that_of_one_has() {
    let (client, server, namespace) = both_sides().await;
    for name in ["two", "one"] {
        create_on_both(&client, &server, &namespace, name).await;
    }
    let path = "/api/v1/secrets";
    let real = call(&client, HttpRequest::get(path), Vec::new()).await.body;
    let request = HttpRequest::get(path).body(Vec::new()).expect("a request");
    let bytes = axum::body::to_bytes(server.serve(&request).into_body(), usize::MAX).await.expect("it is whole");
    let ours: Value = serde_json::from_slice(&bytes).expect("JSON");
    let names = |list: &Value| {
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let here = items.into_iter().filter(|item| item["metadata"]["namespace"] == namespace.as_str());
        here.map(|item| item["metadata"]["name"].clone()).collect::<Vec<Value>>()
    };
    assert_eq!((names(&real), &real["kind"]), (vec![json!("one"), json!("two")], &json!("SecretList")));
    assert_eq!((names(&ours), &ours["kind"]), (names(&real), &real["kind"]));
    end(&client, &namespace).await;
}
