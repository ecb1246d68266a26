//! A time in `metadata.managedFields` that no other time may be: any user may write it into an object that the controller
//! watches.

use http::Request;
use kube::ResourceExt;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::plugin::asked;
use crate::support::{Kind, Namespace, RECOVERY, claim, pool, with_namespace};

/// The last day of 9999: Go can read it, and Rust's times end a day before.
const UNREADABLE: &str = "9999-12-31T00:00:00Z";
const READABLE: &str = "2026-01-01T00:00:00Z";

/// Replaces a time in the object, if there is one that is meant: the next write of its manager replaces it, too. Returns the
/// object as text, since a client may not be able to read it.
async fn replace_time(ns: &Namespace, kind: Kind, name: &str, is_meant: impl Fn(&str) -> bool, new: &str) -> String {
    let api = ns.api(kind);
    let (path, client) = (format!("{}/{name}", api.resource_url()), ns.api(kind).into_client());
    let read = Request::get(&path).body(Vec::new()).expect("that is a request");
    let object: Value = client.request_text(read).await.map(|text| text.parse().expect("JSON")).expect("it is there");
    let entries = object["metadata"]["managedFields"].as_array().expect("there are some");
    let entry = entries.iter().position(|entry| entry["time"].as_str().is_some_and(&is_meant));
    let Some(entry) = entry else { return object.to_string() };
    let field = format!("/metadata/managedFields/{entry}/time");
    let mut change = vec![json!({"op": "replace", "path": field, "value": new})];
    if kind == Kind::Secret {
        // Where nothing else changes, the API server keeps the times of its own kinds.
        change.push(json!({"op": "add", "path": "/metadata/labels", "value": {"changed-at": new.replace(':', ".")}}));
    }
    let change = Value::from(change);
    let request = Request::patch(path).header("Content-Type", "application/json-patch+json");
    let request = request.body(change.to_string().into_bytes()).expect("that is a request");
    client.request_text(request).await.expect("a user may write it")
}

#[tokio::test]
async fn time_that_cannot_be_read_stops_no_other_object() {
    with_namespace(async |ns| {
        ns.restart_controller();
        ns.create_secret_for("demo").await;
        for name in ["public", "other", "gone"] {
            ns.create(pool(name).served_in(&ns.name).network("public-large")).await;
        }
        ns.bind(claim("before").from("public")).await;
        let first = claim("before").name();
        let all = [(Kind::Claim, &*first), (Kind::Pool, "other")];
        for (kind, name) in all {
            let written = replace_time(ns, kind, name, |_| true, UNREADABLE).await;
            assert!(written.contains(UNREADABLE), "{kind:?}: {written}");
        }
        assert!(!ns.bind(claim("beside").from("public")).await.is_empty(), "a running controller serves others");
        ns.kill_controllers();
        ns.delete(Kind::Pool, "gone").await;
        ns.remove_finalizers(Kind::Pool, "gone", |_| true).await;
        ns.restart_controller();
        assert!(!ns.bind(claim("later").from("public")).await.is_empty(), "a new one, too");
        assert!(!ns.bind(claim("there").from("other")).await.is_empty(), "the pool itself works");
        let has_two = |secret: Option<&DynamicObject>| secret.is_some_and(|it| it.finalizers().len() == 2);
        ns.await_object(Kind::Secret, "cloud", RECOVERY, "without the finalizer of the pool that is gone", has_two)
            .await;
        let (code, list) = asked(ns, &["list"]).await;
        assert_eq!((code, list["items"].as_array().map(Vec::len)), (0, Some(4)), "{list:#}");
        for (kind, name) in all {
            replace_time(ns, kind, name, |time| time == UNREADABLE, READABLE).await;
        }
        ns.await_bound(&first, RECOVERY).await;
        ns.create(pool("last").served_in(&ns.name).network("public-large")).await;
        ns.await_condition(Kind::Pool, "last", "Ready", "True", "Ready", RECOVERY).await;
        let written = replace_time(ns, Kind::Secret, "cloud", |_| true, UNREADABLE).await;
        assert!(written.contains(UNREADABLE), "{written}");
        ns.delete(Kind::Pool, "last").await;
        ns.await_gone(Kind::Pool, "last", 2 * RECOVERY).await;
        replace_time(ns, Kind::Secret, "cloud", |time| time == UNREADABLE, READABLE).await;
        let secret = ns.get(Kind::Secret, "cloud").await.expect("it is there");
        assert_eq!(secret.finalizers().len(), 2, "those of the other pools: {:?}", secret.finalizers());
    })
    .await;
}
