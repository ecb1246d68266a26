//! Pools that must not both serve: with one id, or with the name of a pool of CAPO.

use super::*;
use crate::support::{SOON, pool, unique, with_namespace};

#[tokio::test]
async fn newer_pool_with_a_copied_id_waits_until_the_older_one_is_gone() {
    with_namespace(async |ns| {
        let id = create_served_pool(ns, pool("older").network("public")).await;
        ns.bind(claim("web-0").from("older")).await;
        ns.create(pool("public").network("public").annotation(POOL_ID, &id)).await;
        let message = ns.await_condition(Kind::Pool, "public", "Ready", "False", "DuplicatePoolID", SOON).await;
        assert!(message.contains("pool older"), "{message}");
        let message = create_waiting_claim(ns, "web-1", "PoolNotReady").await;
        assert!(message.contains("pool older"), "{message}");
        ns.await_condition(Kind::Pool, "older", "Ready", "True", "Ready", SOON).await;
        release_claim(ns, "web-0").await;
        delete_pool(ns, "older").await;
        ns.await_condition(Kind::Pool, "public", "Ready", "True", "Ready", RECOVERY).await;
        await_bound(ns, "web-1").await;
    })
    .await;
}

#[tokio::test]
async fn newer_pool_with_a_copied_id_is_deleted_without_touching_addresses_of_the_older_one() {
    with_namespace(async |ns| {
        let id = unique("p");
        create_served_pool(ns, pool("older").network("public").pool_id(&id)).await;
        let address = ns.bind(claim("web-0").from("older")).await;
        let before = floating_ip_of(ns.cloud().await, &address).await;
        ns.create(pool("public").network("public").pool_id(&id)).await;
        ns.await_condition(Kind::Pool, "public", "Ready", "False", "DuplicatePoolID", SOON).await;
        delete_pool(ns, "public").await;
        assert_eq!(floating_ip_of(ns.cloud().await, &address).await, before);
    })
    .await;
}

#[tokio::test]
async fn pool_waits_while_capo_has_a_pool_with_its_name() {
    with_namespace(async |ns| {
        let finalizers = json!(["openstackfloatingippool.infrastructure.cluster.x-k8s.io"]);
        let metadata = json!({"name": "public", "finalizers": finalizers});
        ns.create(Manifest::new(Kind::InTreePool, json!({"metadata": metadata}))).await;
        ns.create_secret_for("demo").await;
        controller();
        ns.create(pool("public").network("public")).await;
        let message = ns.await_condition(Kind::Pool, "public", "Ready", "False", "NameConflict", SOON).await;
        assert!(message.contains("delete one of the two"), "{message}");
        create_waiting_claim(ns, "web-0", "PoolNotReady").await;
        // A pool with another name is served.
        create_ready_pool(ns, pool("other").network("public")).await;
        // It gives nothing any more, and stays as long as an IPAddress has its pool's name: ours, too.
        ns.delete(Kind::InTreePool, "public").await;
        ns.await_condition(Kind::Pool, "public", "Ready", "True", "Ready", RECOVERY).await;
        await_bound(ns, "web-0").await;
        assert!(ns.get(Kind::InTreePool, "public").await.is_some());
        ns.patch(Kind::InTreePool, "public", json!({"metadata": {"finalizers": null}})).await;
    })
    .await;
}
