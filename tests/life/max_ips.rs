//! `maxIPs`, and the order in which waiting claims are served.

use super::*;
use crate::support::{pool, with_namespace};

#[tokio::test]
async fn released_address_goes_to_the_oldest_waiting_claim() {
    with_namespace(async |ns| {
        create_served_pool(ns, pool("public").network("public").max_ips(1)).await;
        ns.bind(claim("web-0")).await;
        let message = create_waiting_claim(ns, "z-older", "PoolExhausted").await;
        assert!(message.contains("spec.maxIPs (1)") && message.contains("raise it"), "{message}");
        let older = ns.get(Kind::Claim, &claim_name("z-older")).await.expect("it is there");
        await_next_second(ns, &older).await;
        create_waiting_claim(ns, "a-newer", "PoolExhausted").await;
        release_claim(ns, "web-0").await;
        await_bound(ns, "z-older").await;
        assert_eq!(count_bound(ns).await, 1);
        await_waiting(ns, "a-newer", "PoolExhausted").await;
        release_claim(ns, "z-older").await;
        await_bound(ns, "a-newer").await;
    })
    .await;
}

#[tokio::test]
async fn raised_limit_serves_waiting_claims_and_lowered_limit_takes_nothing_away() {
    with_namespace(async |ns| {
        let id = create_served_pool(ns, pool("public").network("public").max_ips(1)).await;
        let first = ns.bind(claim("web-0")).await;
        create_waiting_claim(ns, "web-1", "PoolExhausted").await;
        ns.patch(Kind::Pool, "public", json!({"spec": {"maxIPs": 2}})).await;
        let second = await_bound(ns, "web-1").await;
        ns.patch(Kind::Pool, "public", json!({"spec": {"maxIPs": 1}})).await;
        create_waiting_claim(ns, "web-2", "PoolExhausted").await;
        let names_new_limit = |claim: Option<&DynamicObject>| {
            let ready = claim.and_then(|claim| condition_of(claim, "Ready"));
            ready.is_some_and(|ready| ready["message"].as_str().is_some_and(|text| text.contains("spec.maxIPs (1)")))
        };
        ns.await_object(
            Kind::Claim,
            &claim_name("web-2"),
            RECOVERY,
            "waiting because of the new limit",
            names_new_limit,
        )
        .await;
        assert_eq!(marked_addresses(ns.cloud().await, &id).await, [first, second].into());
        assert_eq!(count_bound(ns).await, 2);
    })
    .await;
}

#[tokio::test]
async fn release_above_a_lowered_limit_serves_no_claim() {
    with_namespace(async |ns| {
        let id = create_served_pool(ns, pool("public").network("public").max_ips(2)).await;
        let first = ns.bind(claim("web-0")).await;
        ns.bind(claim("web-1")).await;
        ns.patch(Kind::Pool, "public", json!({"spec": {"maxIPs": 1}})).await;
        create_waiting_claim(ns, "web-2", "PoolExhausted").await;
        release_claim(ns, "web-0").await;
        await_floating_ip_deleted(ns.cloud().await, &first, RECOVERY).await;
        assert_eq!((count_bound(ns).await, marked_floating_ips(ns.cloud().await, &id).await.len()), (1, 1));
        release_claim(ns, "web-1").await;
        await_bound(ns, "web-2").await;
    })
    .await;
}
