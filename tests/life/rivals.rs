//! Two pools where there may be only one.

use super::*;
use crate::support::{SOON, pool, unique, with_namespace};

#[tokio::test]
async fn younger_pool_with_a_copied_id_stands_back_until_the_elder_is_gone() {
    with_namespace(async |ns| {
        let id = served(ns, pool("elder").network("public")).await;
        ns.bind(claim("web-0").from("elder")).await;
        ns.create(pool("public").network("public").annotation(POOL_ID, &id)).await;
        let message = ns.await_condition(Kind::Pool, "public", "Ready", "False", "DuplicatePoolID", SOON).await;
        assert!(message.contains("pool elder"), "{message}");
        let message = refused(ns, "web-1", "PoolNotReady").await;
        assert!(message.contains("pool elder"), "{message}");
        ns.await_condition(Kind::Pool, "elder", "Ready", "True", "Ready", SOON).await;
        release(ns, "web-0").await;
        ns.delete(Kind::Pool, "elder").await;
        ns.await_gone(Kind::Pool, "elder", HEALS).await;
        ns.await_condition(Kind::Pool, "public", "Ready", "True", "Ready", HEALS).await;
        bound(ns, "web-1").await;
    })
    .await;
}

#[tokio::test]
async fn younger_pool_with_a_copied_id_is_deleted_without_touching_the_elders_addresses() {
    with_namespace(async |ns| {
        let id = unique("p");
        served(ns, pool("elder").network("public").pool_id(&id)).await;
        let address = ns.bind(claim("web-0").from("elder")).await;
        let before = seen(ns.cloud().await, &address).await;
        ns.create(pool("public").network("public").pool_id(&id)).await;
        ns.await_condition(Kind::Pool, "public", "Ready", "False", "DuplicatePoolID", SOON).await;
        ns.delete(Kind::Pool, "public").await;
        ns.await_gone(Kind::Pool, "public", HEALS).await;
        assert_eq!(seen(ns.cloud().await, &address).await, before);
    })
    .await;
}

#[tokio::test]
async fn pool_of_capo_with_the_same_name_stops_ours_until_one_is_gone() {
    with_namespace(async |ns| {
        ns.create(Manifest::new(Kind::InTreePool, json!({"metadata": {"name": "public"}}))).await;
        ns.secret_for("demo").await;
        controller();
        ns.create(pool("public").network("public")).await;
        let message = ns.await_condition(Kind::Pool, "public", "Ready", "False", "NameConflict", SOON).await;
        assert!(message.contains("delete one of the two"), "{message}");
        refused(ns, "web-0", "PoolNotReady").await;
        // Another name is nobody's rival.
        ready(ns, pool("other").network("public")).await;
        ns.delete(Kind::InTreePool, "public").await;
        ns.await_condition(Kind::Pool, "public", "Ready", "True", "Ready", HEALS).await;
        bound(ns, "web-0").await;
    })
    .await;
}
