//! Watches and pages from versions that are too old, or that a server has not reached, watches of metadata alone, lists of
//! all namespaces, and which kinds are served.

use std::collections::BTreeSet;
use std::time::Duration;

use caip_openstack::clock::Clock;
use futures::{AsyncBufReadExt, StreamExt, TryStreamExt};
use http::Request as HttpRequest;
use http::header::ACCEPT;
use kube::Client;
use serde_json::{Value, json};

use super::real_side::call;
use super::request::collection;
use crate::memory_api::deletion::Deletion;
use crate::memory_api::objects::{Part, text};
use crate::memory_api::{ApiServer, Key, Kind};
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

const JSON: &str = "application/json";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

fn watch(path: &str, version: &str, accept: &str) -> HttpRequest<Vec<u8>> {
    let uri = format!("{path}?watch=true&resourceVersion={version}&allowWatchBookmarks=true&timeoutSeconds=20");
    HttpRequest::get(uri).header(ACCEPT, accept).body(Vec::new()).expect("a request")
}

async fn real_events(client: &Client, watch: HttpRequest<Vec<u8>>) -> Vec<Value> {
    let stream = client.request_stream(watch).await;
    events(stream.expect("the watch begins").lines()).await
}

async fn memory_events(server: &ApiServer, watch: HttpRequest<Vec<u8>>) -> Vec<Value> {
    let stream = server.watch(&watch, || Duration::ZERO).into_body().into_data_stream();
    events(stream.map_err(std::io::Error::other).into_async_read().lines()).await
}

async fn read_memory(server: &ApiServer, request: http::request::Builder) -> Value {
    let request = request.body(Vec::new()).expect("a request");
    let bytes = axum::body::to_bytes(server.serve(&request).into_body(), usize::MAX).await.expect("it is whole");
    serde_json::from_slice(&bytes).expect("JSON")
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

async fn create_on_both(client: &Client, server: &ApiServer, object: &Value) {
    server.create(Kind::Secret, object.clone()).expect("a new Secret");
    let path = collection(Kind::Secret, text(&object["metadata"]["namespace"]));
    let created = call(client, HttpRequest::post(path), object.to_string().into()).await;
    assert_eq!(created.code, 201, "{}", created.body);
}

async fn end(client: &Client, namespace: &str) {
    let path = format!("{}/{namespace}", collection(Kind::Namespace, ""));
    call(client, HttpRequest::delete(path), Vec::new()).await;
}

#[tokio::test]
async fn a_watch_from_a_forgotten_version_says_that_it_is_gone_in_its_first_event() {
    let (client, server, namespace) = both_sides().await;
    create_on_both(&client, &server, &secret(&namespace, "one")).await;
    server.expire_watches();
    // Its definition is younger than the first version.
    let path = collection(Kind::Claim, &namespace);
    let what = |events: Vec<Value>| {
        let event = |event: &Value| json!([event["type"], event["object"]["code"], event["object"]["reason"]]);
        events.iter().map(event).collect::<Vec<_>>()
    };
    let real = what(real_events(&client, watch(&path, "1", JSON)).await);
    assert_eq!(real, [json!(["ERROR", 410, "Expired"])]);
    assert_eq!(what(memory_events(&server, watch(&path, "1", JSON)).await), real);
    end(&client, &namespace).await;
}

#[tokio::test]
async fn a_page_after_a_forgotten_version_is_gone() {
    let (client, server, namespace) = both_sides().await;
    for name in ["one", "two", "three"] {
        create_on_both(&client, &server, &secret(&namespace, name)).await;
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
    let page = |query: String| read_memory(&server, HttpRequest::get(format!("{path}?limit=1{query}")));
    let first = page(String::new()).await;
    let token = first["metadata"]["continue"].as_str().expect("there is more").to_owned();
    server.expire_watches();
    let ours = page(format!("&continue={token}")).await;
    assert_eq!((real.code, &real.body["reason"]), (410, &json!("Expired")));
    assert_eq!((&ours["code"], &ours["reason"]), (&json!(410), &json!("Expired")));
    end(&client, &namespace).await;
}

/// An API server whose cache is behind another one's is asked for such a version. So a watch that begins at what a
/// quorum read listed never goes back.
#[tokio::test]
async fn a_watch_from_a_version_that_is_not_reached_delivers_nothing_from_before_it() {
    let (client, server, namespace) = both_sides().await;
    create_on_both(&client, &server, &secret(&namespace, "one")).await;
    let path = collection(Kind::Secret, &namespace);
    let list = call(&client, HttpRequest::get(&path), Vec::new()).await;
    let version: u64 =
        list.body["metadata"]["resourceVersion"].as_str().and_then(|it| it.parse().ok()).expect("a version");
    let far = (version + 1_000_000).to_string();
    let (real, ours, ()) = tokio::join!(
        real_events(&client, watch(&path, &far, JSON)),
        memory_events(&server, watch(&path, &far, JSON)),
        async {
            tokio::time::sleep(WHILE / 4).await;
            for name in ["two", "three"] {
                create_on_both(&client, &server, &secret(&namespace, name)).await;
            }
        }
    );
    assert_eq!((real, ours), (Vec::new(), Vec::new()));
    end(&client, &namespace).await;
}

#[tokio::test]
async fn a_list_of_all_namespaces_has_what_that_of_one_has() {
    let (client, server, namespace) = both_sides().await;
    for name in ["two", "one"] {
        create_on_both(&client, &server, &secret(&namespace, name)).await;
    }
    let path = "/api/v1/secrets";
    let real = call(&client, HttpRequest::get(path), Vec::new()).await.body;
    let ours = read_memory(&server, HttpRequest::get(path)).await;
    let names = |list: &Value| {
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let here = items.into_iter().filter(|item| item["metadata"]["namespace"] == namespace.as_str());
        here.map(|item| item["metadata"]["name"].clone()).collect::<Vec<Value>>()
    };
    assert_eq!((names(&real), &real["kind"]), (vec![json!("one"), json!("two")], &json!("SecretList")));
    assert_eq!((names(&ours), &ours["kind"]), (names(&real), &real["kind"]));
    end(&client, &namespace).await;
}

/// As the controllers watch Secrets, and as an inspection reads them: their data stay where they are.
#[tokio::test]
async fn metadata_alone_is_read_and_watched_alike() {
    let (client, server, namespace) = both_sides().await;
    let path = collection(Kind::Secret, &namespace);
    let before = call(&client, HttpRequest::get(&path), Vec::new()).await;
    let before = before.body["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
    let own_before = server.version().to_string();
    let mut with_data = secret(&namespace, "one");
    with_data["data"] = json!({"clouds.yaml": "e30="});
    create_on_both(&client, &server, &with_data).await;
    let one = format!("{path}/one");
    let change = json!({"metadata": {"labels": {"example.org/kind": "one"}}, "data": {"clouds.yaml": "W10="}});
    let key = Key::new(Kind::Secret, &namespace, "one");
    server.patch(&key, Part::Main, &change).expect("it is there");
    let patch = HttpRequest::patch(&one).header("content-type", "application/merge-patch+json");
    call(&client, patch, change.to_string().into()).await;
    let shape = |object: &Value| {
        let meta = &object["metadata"];
        json!([object["kind"], object["apiVersion"], meta["name"], meta["labels"], object.get("data")])
    };
    let real = call(&client, HttpRequest::get(&one).header(ACCEPT, METADATA), Vec::new()).await.body;
    let ours = read_memory(&server, HttpRequest::get(&one).header(ACCEPT, METADATA)).await;
    let expected = json!(["PartialObjectMetadata", "meta.k8s.io/v1", "one", {"example.org/kind": "one"}, null]);
    assert_eq!((shape(&real), shape(&ours)), (expected.clone(), expected));
    server.delete(&key, &Deletion::default()).expect("it is there");
    call(&client, HttpRequest::delete(&one), Vec::new()).await;
    let shapes = |events: Vec<Value>| {
        events.iter().map(|event| json!([event["type"], shape(&event["object"])])).collect::<Vec<_>>()
    };
    let real = shapes(real_events(&client, watch(&path, &before, METADATA)).await);
    assert_eq!(real.len(), 3, "{real:?}");
    assert_eq!(shapes(memory_events(&server, watch(&path, &own_before, METADATA)).await), real);
    end(&client, &namespace).await;
}

/// The real one serves more.
#[tokio::test]
async fn what_is_served_in_memory_is_served_alike() {
    let (client, server, namespace) = both_sides().await;
    let resources = |list: &Value| {
        let resources = list["resources"].as_array().cloned().unwrap_or_default();
        let facts = resources.iter().map(|it| json!([it["name"], it["kind"], it["namespaced"]]).to_string());
        facts.collect::<BTreeSet<String>>()
    };
    let versions: BTreeSet<String> =
        Kind::ALL.into_iter().map(Kind::api_version).filter(|it| it.contains('/')).collect();
    for version in versions {
        let path = format!("/apis/{version}");
        let real = resources(&call(&client, HttpRequest::get(&path), Vec::new()).await.body);
        let ours = resources(&read_memory(&server, HttpRequest::get(&path)).await);
        assert!(!ours.is_empty() && ours.is_subset(&real), "{version}: {ours:?}, and really {real:?}");
    }
    let missing = "/apis/ipam.cluster.x-k8s.io/v1alpha7";
    let real = call(&client, HttpRequest::get(missing), Vec::new()).await.code;
    let ours = read_memory(&server, HttpRequest::get(missing)).await;
    assert_eq!((real, &ours["code"]), (404, &json!(404)));
    end(&client, &namespace).await;
}
