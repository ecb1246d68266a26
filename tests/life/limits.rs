//! `maxIPs`, and whose turn it is.

use super::*;
use crate::support::{pool, with_namespace};

#[tokio::test]
async fn release_serves_those_that_wait_in_the_order_of_their_age() {
    with_namespace(async |ns| {
        served(ns, pool("public").network("public").max_ips(1)).await;
        ns.bind(claim("web-0")).await;
        let message = refused(ns, "z-elder", "PoolExhausted").await;
        assert!(message.contains("spec.maxIPs (1)") && message.contains("raise it"), "{message}");
        let elder = ns.get(Kind::Claim, &named("z-elder")).await.expect("it is there");
        // Kubernetes counts ages in whole seconds.
        eventually(HEALS, async || match ns.dry_run(claim("a-younger")).await {
            Ok(claim) if claim.creation_timestamp() > elder.creation_timestamp() => Ok(()),
            _ => Err("the second has not passed"),
        })
        .await;
        refused(ns, "a-younger", "PoolExhausted").await;
        release(ns, "web-0").await;
        bound(ns, "z-elder").await;
        assert_eq!(count_bound(ns).await, 1);
        waits(ns, "a-younger", "PoolExhausted").await;
        release(ns, "z-elder").await;
        bound(ns, "a-younger").await;
    })
    .await;
}

#[tokio::test]
async fn raising_the_limit_serves_and_lowering_it_takes_nothing_away() {
    with_namespace(async |ns| {
        let id = served(ns, pool("public").network("public").max_ips(1)).await;
        let first = ns.bind(claim("web-0")).await;
        refused(ns, "web-1", "PoolExhausted").await;
        ns.patch(Kind::Pool, "public", json!({"spec": {"maxIPs": 2}})).await;
        let second = bound(ns, "web-1").await;
        ns.patch(Kind::Pool, "public", json!({"spec": {"maxIPs": 1}})).await;
        refused(ns, "web-2", "PoolExhausted").await;
        let is_told = |claim: Option<&DynamicObject>| {
            let ready = claim.and_then(|claim| condition_of(claim, "Ready"));
            ready.is_some_and(|ready| ready["message"].as_str().is_some_and(|text| text.contains("spec.maxIPs (1)")))
        };
        ns.await_object(Kind::Claim, &named("web-2"), HEALS, "told the new limit", is_told).await;
        let mut kept: Vec<_> = marked(ns.cloud().await, &id).await.into_iter().map(|fip| fip.address).collect();
        kept.sort();
        let mut given = vec![first, second];
        given.sort();
        assert_eq!(kept, given);
        assert_eq!(count_bound(ns).await, 2);
    })
    .await;
}

#[tokio::test]
async fn release_above_a_lowered_limit_serves_nobody() {
    with_namespace(async |ns| {
        let id = served(ns, pool("public").network("public").max_ips(2)).await;
        let first = ns.bind(claim("web-0")).await;
        ns.bind(claim("web-1")).await;
        ns.patch(Kind::Pool, "public", json!({"spec": {"maxIPs": 1}})).await;
        refused(ns, "web-2", "PoolExhausted").await;
        release(ns, "web-0").await;
        until_deleted(ns.cloud().await, &first, HEALS).await;
        assert_eq!((count_bound(ns).await, marked(ns.cloud().await, &id).await.len()), (1, 1));
        release(ns, "web-1").await;
        bound(ns, "web-2").await;
    })
    .await;
}
