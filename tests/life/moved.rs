//! What `clusterctl move` does to objects: no action whatever on them.

use kube::api::{DeleteParams, Patch, PatchParams};

use super::*;
use crate::support::{pool, with_namespace};

/// As clusterctl takes an object away: it replaces the annotations, deletes, and strips the finalizers.
async fn take_away(ns: &Namespace, kind: Kind, name: &str) {
    let marked = json!([{"op": "add", "path": "/metadata/annotations",
        "value": {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}}]);
    let marked: Patch<Value> = Patch::Json(serde_json::from_value(marked).expect("that is a patch"));
    ns.api(kind).patch(name, &PatchParams::default(), &marked).await.expect("it can be annotated");
    ns.api(kind).delete(name, &DeleteParams::default()).await.expect("it can be deleted");
}

async fn strip(ns: &Namespace, kind: Kind, name: &str) {
    if ns.get(kind, name).await.is_some() {
        ns.patch(kind, name, json!({"metadata": {"finalizers": null}})).await;
    }
    ns.await_gone(kind, name, HEALS).await;
}

#[tokio::test]
async fn move_takes_nothing_from_a_claim_and_it_finds_its_address_where_it_arrives() {
    with_namespace(async |ns| {
        let (id, wire) = served_by_wire(ns, pool("public").network("public").preallocate(1)).await;
        ready(ns, pool("other").network("public")).await;
        await_count(ns, "free", 1).await;
        let address = ns.bind(claim("web-0")).await;
        await_count(ns, "total", 2).await;
        let name = named("web-0");
        let before = marked(ns.cloud().await, &id).await;
        wire.forget();
        let all = [(Kind::Address, name.as_str()), (Kind::Claim, &name), (Kind::Pool, "public")];
        for (kind, name) in all {
            take_away(ns, kind, name).await;
        }
        // Time enough to do wrong: another pool serves a whole life.
        ns.bind(claim("sign").from("other")).await;
        for (kind, name) in all {
            let left = ns.get(kind, name).await.expect("finalizers keep it");
            assert!(is_protected(&left) && left.annotations().len() == 1, "{left:?}");
        }
        ns.let_go(&name).await;
        for (kind, name) in all {
            strip(ns, kind, name).await;
        }
        assert_eq!(marked(ns.cloud().await, &id).await, before);

        // They arrive, their annotations with them.
        ns.create(pool("public").network("public").preallocate(1).annotation(POOL_ID, &id)).await;
        assert_eq!(ns.bind(claim("web-0")).await, address);
        await_count(ns, "total", 2).await;
    })
    .await;
}

#[tokio::test]
async fn address_that_is_being_moved_is_not_released_when_its_claim_is_gone_already() {
    with_namespace(async |ns| {
        let id = served(ns, pool("public").network("public")).await;
        ready(ns, pool("other").network("public")).await;
        let address = ns.bind(claim("web-0")).await;
        let (name, before) = (named("web-0"), marked(ns.cloud().await, &id).await);
        take_away(ns, Kind::Address, &name).await;
        take_away(ns, Kind::Claim, &name).await;
        strip(ns, Kind::Claim, &name).await;
        // Time enough to do wrong: another pool serves a whole life.
        ns.bind(claim("sign").from("other")).await;
        release(ns, "sign").await;
        assert_eq!(marked(ns.cloud().await, &id).await, before);
        assert!(ns.get(Kind::Address, &name).await.is_some_and(|address| is_protected(&address)));
        strip(ns, Kind::Address, &name).await;
        // It arrives.
        assert_eq!(ns.bind(claim("web-0")).await, address);
    })
    .await;
}

#[tokio::test]
async fn address_without_its_claim_is_not_released_while_a_cluster_is_paused() {
    with_namespace(async |ns| {
        served(ns, pool("public").network("public")).await;
        ready(ns, pool("other").network("public")).await;
        ns.create(cluster("prod", json!({}))).await;
        let address = ns.bind(claim("web-0").of_cluster("prod")).await;
        let (cloud, name) = (ns.cloud().await, named("web-0"));
        let before = seen(cloud, &address).await;
        ns.patch(Kind::Cluster, "prod", json!({"spec": {"paused": true}})).await;
        // The watches of Clusters and claims are two: one claim's life is time enough for the first.
        ns.bind(claim("first").from("other")).await;
        ns.delete(Kind::Address, &name).await;
        ns.delete(Kind::Claim, &name).await;
        strip(ns, Kind::Claim, &name).await;
        ns.bind(claim("sign").from("other")).await;
        release(ns, "sign").await;
        assert_eq!(seen(cloud, &address).await, before);
        assert!(ns.get(Kind::Address, &name).await.is_some_and(|address| is_protected(&address)));
        ns.patch(Kind::Cluster, "prod", json!({"spec": {"paused": null}})).await;
        ns.await_gone(Kind::Address, &name, AUDITED).await;
        until_deleted(cloud, &address, HEALS).await;
    })
    .await;
}
