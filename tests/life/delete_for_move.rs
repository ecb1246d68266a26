//! Objects that `clusterctl move` deletes: the controller leaves them and their floating IPs alone.

use kube::api::{DeleteParams, Patch, PatchParams};

use super::*;
use crate::support::{pool, with_namespace};

/// Deletes an object as clusterctl does, up to its finalizers: replaces the annotations, then deletes.
async fn delete_for_move(ns: &Namespace, kind: Kind, name: &str) {
    let marked = json!([{"op": "add", "path": "/metadata/annotations",
        "value": {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}}]);
    let marked: Patch<Value> = Patch::Json(serde_json::from_value(marked).expect("that is a patch"));
    ns.api(kind).patch(name, &PatchParams::default(), &marked).await.expect("it can be annotated");
    ns.api(kind).delete(name, &DeleteParams::default()).await.expect("it can be deleted");
}

async fn strip_finalizers(ns: &Namespace, kind: Kind, name: &str) {
    if ns.get(kind, name).await.is_some() {
        ns.patch(kind, name, json!({"metadata": {"finalizers": null}})).await;
    }
    ns.await_gone(kind, name, RECOVERY).await;
}

#[tokio::test]
async fn moved_claim_keeps_its_address() {
    with_namespace(async |ns| {
        let (id, proxy) = create_served_pool_behind_proxy(ns, pool("public").network("public").min_free(1)).await;
        create_ready_pool(ns, pool("other").network("public")).await;
        await_address_count(ns, "free", 1).await;
        let address = ns.bind(claim("web-0")).await;
        await_address_count(ns, "total", 2).await;
        let name = claim_name("web-0");
        let before = marked_floating_ips(ns.cloud().await, &id).await;
        proxy.forget_calls();
        let all = [(Kind::Address, name.as_str()), (Kind::Claim, &name), (Kind::Pool, "public")];
        for (kind, name) in all {
            delete_for_move(ns, kind, name).await;
        }
        bind_and_release_in(ns, "other").await;
        for (kind, name) in all {
            let left = ns.get(kind, name).await.expect("finalizers keep it");
            assert!(is_protected(&left) && left.annotations().len() == 1, "{left:?}");
        }
        ns.remove_capo_finalizer(&name).await;
        for (kind, name) in all {
            strip_finalizers(ns, kind, name).await;
        }
        assert_eq!(marked_floating_ips(ns.cloud().await, &id).await, before);

        // They arrive with their annotations.
        ns.create(pool("public").network("public").min_free(1).annotation(POOL_ID, &id)).await;
        assert_eq!(ns.bind(claim("web-0")).await, address);
        await_address_count(ns, "total", 2).await;
    })
    .await;
}

#[tokio::test]
async fn moving_address_is_not_released_after_its_claim_is_gone() {
    with_namespace(async |ns| {
        let id = create_served_pool(ns, pool("public").network("public")).await;
        create_ready_pool(ns, pool("other").network("public")).await;
        let address = ns.bind(claim("web-0")).await;
        let (name, before) = (claim_name("web-0"), marked_floating_ips(ns.cloud().await, &id).await);
        delete_for_move(ns, Kind::Address, &name).await;
        delete_for_move(ns, Kind::Claim, &name).await;
        strip_finalizers(ns, Kind::Claim, &name).await;
        bind_and_release_in(ns, "other").await;
        assert_eq!(marked_floating_ips(ns.cloud().await, &id).await, before);
        assert!(ns.get(Kind::Address, &name).await.is_some_and(|address| is_protected(&address)));
        strip_finalizers(ns, Kind::Address, &name).await;
        // The claim arrives.
        assert_eq!(ns.bind(claim("web-0")).await, address);
    })
    .await;
}

#[tokio::test]
async fn address_without_a_claim_is_not_released_while_a_cluster_is_paused() {
    with_namespace(async |ns| {
        create_served_pool(ns, pool("public").network("public")).await;
        create_ready_pool(ns, pool("other").network("public")).await;
        ns.create(cluster("prod", json!({}))).await;
        let address = ns.bind(claim("web-0").of_cluster("prod")).await;
        let (cloud, name) = (ns.cloud().await, claim_name("web-0"));
        let before = floating_ip_of(cloud, &address).await;
        ns.patch(Kind::Cluster, "prod", json!({"spec": {"paused": true}})).await;
        bind_and_release_in(ns, "other").await;
        ns.delete(Kind::Address, &name).await;
        ns.delete(Kind::Claim, &name).await;
        strip_finalizers(ns, Kind::Claim, &name).await;
        bind_and_release_in(ns, "other").await;
        assert_eq!(floating_ip_of(cloud, &address).await, before);
        assert!(ns.get(Kind::Address, &name).await.is_some_and(|address| is_protected(&address)));
        ns.patch(Kind::Cluster, "prod", json!({"spec": {"paused": null}})).await;
        ns.await_gone(Kind::Address, &name, RESYNC).await;
        await_floating_ip_deleted(cloud, &address, RECOVERY).await;
    })
    .await;
}
