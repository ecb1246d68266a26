//! Orphaned floating IPs are reported, and released only if a second read confirms that they are orphans.

use std::path::PathBuf;
use std::time::Duration;

use kube::ResourceExt;
use serde_json::{Value, json};

use super::*;
use crate::support::{FloatingIp, Kind, RECOVERY, controller, eventually, pool, unique, with_namespace};

/// Until the controller has seen what was written in Neutron, and done its part.
const AUDITED: Duration = Duration::from_secs(100);

/// A pool that leaves its orphans to people; its id in marks.
async fn served(ns: &Namespace) -> String {
    ns.create_secret_for("demo").await;
    controller();
    ns.create(pool("public").network("public").with("orphans", json!({"policy": "Report"}))).await;
    ns.await_condition(Kind::Pool, "public", "Ready", "True", "Ready", RECOVERY).await;
    let pool = ns.get(Kind::Pool, "public").await.expect("it is there");
    pool.annotations()["openstackfloatingippool.ipam.cluster.x-k8s.io/pool-id"].clone()
}

/// A floating IP with the mark of a claim that does not exist, as after the loss of etcd.
async fn orphan(ns: &Namespace, id: &str) -> FloatingIp {
    let nonce = unique("n").replace('-', "0");
    let mark = format!("caip-openstack pool={id} nonce={nonce} claim=aaaabbbbccccdddd (claim lost in lost)");
    ns.cloud().await.create("public", &mark).await
}

/// Writes a report, and returns where it is and what it says.
async fn report(ns: &Namespace) -> (PathBuf, Value) {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.json", unique("orphans")));
    let ended = plugin(ns, &["orphans", "--report", path.to_str().expect("it is UTF-8")]).await;
    assert_eq!(ended.code, 1, "there are orphans: {ended:?}");
    let text = std::fs::read_to_string(&path).expect("the report is there");
    (path, serde_json::from_str(&text).expect("a report is JSON"))
}

async fn release(ns: &Namespace, report: &std::path::Path) -> (i32, Value) {
    asked(ns, &["orphans", "release", "--yes", "--from-report", report.to_str().expect("it is UTF-8")]).await
}

fn of<'a>(all: &'a Value, address: &str) -> &'a Value {
    let all = all.as_array().expect("it is a list");
    all.iter().find(|one| one["address"] == address).unwrap_or_else(|| panic!("{address} is not in {all:?}"))
}

#[tokio::test]
async fn what_both_looks_call_an_orphan_is_released_and_what_has_a_port_is_not() {
    with_namespace(async |ns| {
        let id = served(ns).await;
        assert_eq!(plugin(ns, &["orphans"]).await.code, 0, "there are none");
        let (lost, used) = (orphan(ns, &id).await, orphan(ns, &id).await);
        let port = ns.cloud().await.port("private").await;
        ns.cloud().await.attach(&used.id, &port).await;
        let (path, written) = report(ns).await;
        assert_eq!(of(&written["orphans"], &lost.address)["blockedBy"], Value::Null);
        let blocked_by = of(&written["orphans"], &used.address)["blockedBy"].to_string();
        assert!(blocked_by.contains("attached"), "{blocked_by}");

        let file = path.to_str().expect("it is UTF-8");
        let ended = plugin(ns, &["orphans", "release", "--from-report", file]).await;
        assert!(ended.code == 2 && ended.err.contains("--yes"), "there is no prompt without a terminal: {ended:?}");
        assert_eq!(ns.cloud().await.get(&lost.id).await, Some(lost.clone()), "nothing was written");

        let (code, done) = release(ns, &path).await;
        assert_eq!((code, &of(&done, &lost.address)["isReleased"]), (1, &json!(true)), "{done:#}");
        let left = of(&done, &used.address);
        assert!(left["isReleased"] == false && left["why"].to_string().contains("attached"), "{left:#}");
        eventually(AUDITED, async || match ns.cloud().await.get(&lost.id).await {
            None => Ok(()),
            Some(found) => Err(format!("the controller has not given it back: {found:?}")),
        })
        .await;
        let used_now = ns.cloud().await.get(&used.id).await.expect("it stays");
        assert_eq!((used_now.description, used_now.tags), (used.description, used.tags));
        ns.cloud().await.delete(&used.id).await;
    })
    .await;
}

#[tokio::test]
async fn a_report_that_is_out_of_date_releases_nothing() {
    with_namespace(async |ns| {
        let id = served(ns).await;
        let (changed, gone) = (orphan(ns, &id).await, orphan(ns, &id).await);
        let (path, mut written) = report(ns).await;
        let cloud = ns.cloud().await;
        cloud.describe(&changed.id, "in use after all").await;
        cloud.delete(&gone.id).await;
        let (code, done) = release(ns, &path).await;
        assert_eq!(code, 1);
        assert!(of(&done, &changed.address)["why"].to_string().contains("create a new report"), "{done:#}");
        assert!(of(&done, &gone.address)["why"].to_string().contains("gone"), "{done:#}");
        let now = cloud.get(&changed.id).await.expect("it stays");
        assert_eq!((now.description.as_str(), now.tags.len()), ("in use after all", 0));

        let file = path.to_str().expect("it is UTF-8");
        let again = plugin(ns, &["orphans", "--report", file]).await;
        assert!(again.code == 2 && again.err.contains("cannot be written"), "a report is not overwritten: {again:?}");
        written["cluster"] = "https://elsewhere/".into();
        std::fs::write(&path, written.to_string()).expect("it can be written");
        let ended = plugin(ns, &["orphans", "release", "--yes", "--from-report", file]).await;
        assert!(ended.code == 2 && ended.err.contains("elsewhere"), "{ended:?}");
    })
    .await;
}

#[tokio::test]
async fn nothing_is_released_while_a_cluster_of_the_namespace_is_paused() {
    with_namespace(async |ns| {
        let id = served(ns).await;
        let lost = orphan(ns, &id).await;
        let cluster = json!({"metadata": {"name": "demo"}, "spec": {
            "paused": true,
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackCluster", "name": "demo"}
        }});
        ns.create(crate::support::Manifest::new(Kind::Cluster, cluster)).await;
        let (path, written) = report(ns).await;
        assert!(of(&written["orphans"], &lost.address)["blockedBy"].to_string().contains("paused"), "{written:#}");
        let (code, done) = release(ns, &path).await;
        assert!(code == 1 && of(&done, &lost.address)["why"].to_string().contains("paused"), "{done:#}");
        assert_eq!(ns.cloud().await.get(&lost.id).await, Some(lost.clone()));
        ns.patch(Kind::Cluster, "demo", json!({"spec": {"paused": false}})).await;
        ns.cloud().await.delete(&lost.id).await;
    })
    .await;
}
