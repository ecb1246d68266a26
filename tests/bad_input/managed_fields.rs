//! A time in `metadata.managedFields` that no other time may be: any user may write it into an object that the controller
//! watches.

use http::Request;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::plugin::asked;
use crate::support::{Kind, Namespace, RECOVERY, claim, eventually, pool, with_namespace};

/// The last day of 9999: Go can read it, and Rust's times end a day before.
const UNREADABLE: &str = "9999-12-31T00:00:00Z";
const READABLE: &str = "2026-01-01T00:00:00Z";
/// A field manager with no other entry in the objects.
const USER: &str = "user";

/// The path of an object, and a client for it.
fn at(ns: &Namespace, kind: Kind, name: &str) -> (String, Client) {
    let api = ns.api(kind);
    (format!("{}/{name}", api.resource_url()), api.into_client())
}

/// Replaces the time of an entry in the object, if there is one that is meant: the next write of its manager replaces it,
/// too. Returns the object as text, since a client may not be able to read it.
async fn replace_time(ns: &Namespace, kind: Kind, name: &str, is_meant: impl Fn(&Value) -> bool, new: &str) -> String {
    let (path, client) = at(ns, kind, name);
    let read = Request::get(&path).body(Vec::new()).expect("that is a request");
    let object: Value = client.request_text(read).await.map(|text| text.parse().expect("JSON")).expect("it is there");
    let entries = object["metadata"]["managedFields"].as_array().expect("there are some");
    let entry = entries.iter().position(is_meant);
    let Some(entry) = entry else { return object.to_string() };
    let field = format!("/metadata/managedFields/{entry}/time");
    let mut change = vec![json!({"op": "replace", "path": field, "value": new})];
    // Where nothing else changes, the API server may keep the time. The change is that of this request's manager.
    if kind == Kind::Secret || entries[entry]["manager"] == USER {
        let mut labels = object["metadata"]["labels"].clone();
        labels["changed-at"] = json!(new.replace(':', "."));
        change.push(json!({"op": "add", "path": "/metadata/labels", "value": labels}));
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
            replace_time(ns, kind, name, |entry| entry["time"] == UNREADABLE, READABLE).await;
        }
        ns.await_bound(&first, RECOVERY).await;
        ns.create(pool("last").served_in(&ns.name).network("public-large")).await;
        ns.await_condition(Kind::Pool, "last", "Ready", "True", "Ready", RECOVERY).await;
        let written = replace_time(ns, Kind::Secret, "cloud", |_| true, UNREADABLE).await;
        assert!(written.contains(UNREADABLE), "{written}");
        ns.delete(Kind::Pool, "last").await;
        ns.await_gone(Kind::Pool, "last", 2 * RECOVERY).await;
        replace_time(ns, Kind::Secret, "cloud", |entry| entry["time"] == UNREADABLE, READABLE).await;
        ns.await_object(Kind::Secret, "cloud", RECOVERY, "with the finalizers of the other pools alone", has_two).await;
    })
    .await;
}

/// Deletes an object that a client may not be able to read; does not wait.
async fn delete_unread(ns: &Namespace, kind: Kind, name: &str) {
    let (path, client) = at(ns, kind, name);
    let request = Request::delete(path).body(Vec::new()).expect("that is a request");
    client.request_text(request).await.expect("it can be deleted");
}

async fn await_unread_gone(ns: &Namespace, kind: Kind, name: &str) {
    let (path, client) = at(ns, kind, name);
    eventually(2 * RECOVERY, async || {
        let read = Request::get(&path).body(Vec::new()).expect("that is a request");
        match client.request_text(read).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            found => Err(format!("{kind:?} {name} is still there: {found:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn time_that_cannot_be_read_keeps_no_finalizer() {
    with_namespace(async |ns| {
        ns.restart_controller();
        ns.create_secret_for("demo").await;
        ns.create(pool("public").served_in(&ns.name).network("public-large")).await;
        let address = ns.bind(claim("web").from("public").without_capo_finalizer()).await;
        let created = ns.cloud().await.find(&address).await.expect("it was created for the claim");
        ns.bind(claim("lost").from("public").without_capo_finalizer()).await;
        let lost = claim("lost").name();
        let name = claim("web").name();
        for (kind, name) in [(Kind::Address, &*name), (Kind::Claim, &name), (Kind::Pool, "public")] {
            // In an entry of its own, since the controller's writes replace the time of theirs.
            let change = Patch::Merge(json!({"metadata": {"labels": {"changed-by": "user"}}}));
            let user = PatchParams { field_manager: Some(USER.into()), ..PatchParams::default() };
            ns.api(kind).patch(name, &user, &change).await.expect("a user may change it");
            let written = replace_time(ns, kind, name, |entry| entry["manager"] == USER, UNREADABLE).await;
            assert!(written.contains(UNREADABLE), "{kind:?}: {written}");
        }
        ns.kill_controllers();
        ns.delete(Kind::Claim, &lost).await;
        ns.remove_finalizers(Kind::Claim, &lost, |_| true).await;
        ns.delete(Kind::Address, &lost).await;
        ns.restart_controller();
        ns.await_gone(Kind::Address, &lost, 2 * RECOVERY).await;
        delete_unread(ns, Kind::Claim, &name).await;
        await_unread_gone(ns, Kind::Claim, &name).await;
        await_unread_gone(ns, Kind::Address, &name).await;
        delete_unread(ns, Kind::Pool, "public").await;
        await_unread_gone(ns, Kind::Pool, "public").await;
        assert_eq!(ns.cloud().await.get(&created.id).await, None, "the pool created it");
    })
    .await;
}
