//! Clusters: Cluster API's own controllers write to them at any time, so they are in no generated history. What users do
//! to them is compared by the answers' codes and reasons.

use http::Request as HttpRequest;
use serde_json::{Value, json};

use super::memory_side::MemorySide;
use super::normal::Answer;
use super::real_side::call;
use super::request::{Known, Request, Verb, collection};
use crate::memory_api::Kind;
use crate::support::{World, unique};

fn requests() -> Vec<Request> {
    let request = |verb: Verb, name: &str, body: Value| Request {
        verb,
        kind: Kind::Cluster,
        name: name.to_owned(),
        body: (!body.is_null()).then_some(body),
    };
    let new = |name: &str, mut spec: Value| {
        let (meta, version) = (json!({"name": name}), Kind::Cluster.api_version());
        if let Some(infrastructure) = spec.get_mut("infrastructureRef").and_then(Value::as_object_mut) {
            infrastructure.insert("name".into(), name.into());
        }
        request(
            Verb::Create,
            name,
            match spec {
                Value::Null => json!({"apiVersion": version, "kind": "Cluster", "metadata": meta}),
                spec => json!({"apiVersion": version, "kind": "Cluster", "metadata": meta, "spec": spec}),
            },
        )
    };
    let kind = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackCluster", "name": "c"});
    let patch = |name: &str, body: Value| request(Verb::Patch, name, body);
    vec![
        new("without-a-spec", Value::Null),
        new("with-an-empty-spec", json!({})),
        new("without-infrastructure", json!({"paused": true})),
        new("c", json!({"infrastructureRef": kind})),
        new("c", json!({"infrastructureRef": kind})),
        new("Not_A_Name", json!({"infrastructureRef": kind})),
        request(Verb::Get, "c", Value::Null),
        request(Verb::Get, "missing", Value::Null),
        patch("c", json!({"spec": {"paused": true}})),
        patch("c", json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": "true"}}})),
        patch("c", json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}})),
        patch("c", json!({"spec": {"infrastructureRef": null}})),
        patch("c", json!({"spec": null})),
        patch("c", json!({"metadata": {"resourceVersion": "1"}})),
        patch("missing", json!({"spec": {"paused": true}})),
        patch("c", json!({"spec": {"paused": false}})),
        request(Verb::Delete, "missing", Value::Null),
        request(Verb::Delete, "c", Value::Null),
    ]
}

#[tokio::test]
async fn clusters_are_accepted_and_refused_as_by_cluster_api() {
    let (client, namespace) = (World::new().await.client, unique("contract"));
    let object = json!({"metadata": {"name": namespace}}).to_string().into_bytes();
    call(&client, HttpRequest::post(collection(Kind::Namespace, "")), object).await;
    let mut memory = MemorySide::new(&namespace);
    let outcome = |answer: &Answer| {
        let reason = answer.body["reason"].as_str().unwrap_or_default().to_owned();
        (answer.code, if answer.code < 400 { String::new() } else { reason })
    };
    for request in requests() {
        let ours = memory.send(&request);
        let (parts, body) = request.for_side(&namespace, &Known::default()).into_parts();
        let mut real = HttpRequest::builder().method(parts.method).uri(parts.uri);
        if request.verb == Verb::Patch {
            real = real.header("content-type", "application/merge-patch+json");
        }
        let theirs = call(&client, real, body).await;
        assert_eq!(outcome(&ours), outcome(&theirs), "{request:?}: {} {}", ours.body, theirs.body);
    }
    let path = format!("{}/{namespace}", collection(Kind::Namespace, ""));
    call(&client, HttpRequest::delete(path), Vec::new()).await;
}
