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
