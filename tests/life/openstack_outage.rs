//! OpenStack fails for a while: how many calls that causes, and the order in which claims are served afterwards.

use super::*;
use crate::support::{consistently, pool, with_namespace};

/// The circuit breaker opens after 5 failures in a row, when 8 calls may be under way; then there is one probe at a time,
/// after 1, 2, 4 s and so on, so 3 in 10 s.
const MOST_CALLS: usize = 5 + 3 + 8;

#[tokio::test]
async fn outage_causes_no_more_calls_for_thirty_claims_than_for_three() {
    let (few, many) = tokio::join!(calls_in_outage(3), calls_in_outage(30));
    assert!(few.abs_diff(many) <= 8, "in 10 s of an outage 3 claims caused {few} calls, 30 caused {many}");
}

/// How many calls that many waiting claims cause in 10 s of an outage.
async fn calls_in_outage(claims: usize) -> usize {
    let mut calls = 0;
    with_namespace(async |ns| {
        let (id, proxy) = create_served_pool_behind_proxy(ns, pool("public").network("public-large")).await;
        proxy.forget_calls();
        proxy.fail_everything();
        create_claims(ns, 0..claims).await;
        let sent = || proxy.calls().len() + proxy.authentications();
        consistently(Duration::from_secs(10), async || match sent() {
            sent if sent <= MOST_CALLS => Ok(()),
            sent => Err(format!("{claims} claims caused {sent} calls: {:?}", proxy.calls())),
        })
        .await;
        calls = sent();
        assert_eq!(count_bound(ns).await, 0, "no address can be given");
        proxy.remove_faults();
        await_bound_count(ns, claims, AFTER_LOST_CALLS).await;
        assert_distinct(&bound_addresses(ns).await);
        release_bound_claims(ns).await;
        await_all_released(ns, &id, AFTER_LOST_CALLS).await;
    })
    .await;
    eprintln!("{claims} claims caused {calls} calls in 10 s of an outage");
    calls
}

#[tokio::test]
async fn oldest_claims_are_served_first_after_an_outage() {
    with_namespace(async |ns| {
        let (_, proxy) = create_served_pool_behind_proxy(ns, pool("public").network("public-large").max_ips(1)).await;
        proxy.fail_everything();
        // Their names are in the reverse order of their age.
        for server in ["c-oldest", "b-older", "a-newest"] {
            let created = ns.create(claim(server)).await;
            await_next_second(ns, &created).await;
        }
        for server in ["a-newest", "b-older", "c-oldest"] {
            let is_not_ready = |claim: Option<&DynamicObject>| {
                claim.and_then(|claim| condition_of(claim, "Ready")).is_some_and(|ready| ready["status"] == "False")
            };
            ns.await_object(Kind::Claim, &claim_name(server), RECOVERY, "not ready", is_not_ready).await;
        }
        proxy.remove_faults();
        // Whether a POST of the outage took effect is settled by a listing, a minute later.
        ns.await_bound(&claim_name("c-oldest"), AFTER_LOST_CALLS).await;
        await_waiting(ns, "b-older", "PoolExhausted").await;
        await_waiting(ns, "a-newest", "PoolExhausted").await;
        release_claim(ns, "c-oldest").await;
        await_bound(ns, "b-older").await;
        release_claim(ns, "b-older").await;
        await_bound(ns, "a-newest").await;
    })
    .await;
}
