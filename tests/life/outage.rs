//! OpenStack is away for a while: what it costs meanwhile, and whose turn it is afterwards.

use futures::future;

use super::*;
use crate::support::{pool, stays, with_namespace};

/// The breaker's rule: after 5 failures in a row nobody calls but one probe at a time, after 1, 2, 4 s and so on, so 3 in
/// 10 s; 8 calls may be under way when the fifth fails.
const OUTAGE_COSTS: usize = 5 + 3 + 8;

#[tokio::test]
async fn outage_costs_no_more_calls_for_thirty_claims_than_for_three_and_ends_by_itself() {
    let (few, many) = tokio::join!(outage(3), outage(30));
    assert!(few.abs_diff(many) <= 8, "in 10 s of an outage 3 claims cost {few} calls, 30 cost {many}");
}

/// An outage under so many waiting claims; returns how many calls they cost in 10 s.
async fn outage(claims: usize) -> usize {
    let mut cost = 0;
    with_namespace(async |ns| {
        let (id, wire) = served_by_wire(ns, pool("public").network("public-large")).await;
        wire.forget();
        wire.cut();
        let servers: Vec<String> = (0..claims).map(|number| format!("web-{number}")).collect();
        future::join_all(servers.iter().map(|server| ns.create(claim(server)))).await;
        let sent = || wire.calls().len() + wire.authentications();
        stays(Duration::from_secs(10), async || match sent() {
            sent if sent <= OUTAGE_COSTS => Ok(()),
            sent => Err(format!("{claims} claims cost {sent} calls: {:?}", wire.calls())),
        })
        .await;
        cost = sent();
        assert_eq!(count_bound(ns).await, 0, "nothing can be given");
        wire.set([]);
        await_bound_count_within(TROUBLE, ns, claims).await;
        assert_distinct(&addresses(ns).await);
        for server in servers {
            ns.release(&named(&server)).await;
        }
        let cloud = ns.cloud().await;
        eventually(TROUBLE, async || match marked(cloud, &id).await.len() {
            0 => Ok(()),
            left => Err(format!("{left} floating IPs are left")),
        })
        .await;
    })
    .await;
    eprintln!("{claims} claims cost {cost} calls in 10 s of an outage");
    cost
}

#[tokio::test]
async fn after_an_outage_the_oldest_are_served_first_where_the_limit_decides() {
    with_namespace(async |ns| {
        let (_, wire) = served_by_wire(ns, pool("public").network("public-large").max_ips(1)).await;
        wire.cut();
        // Names in the other order, and in seconds of their own, since Kubernetes counts ages in whole ones.
        for server in ["c-eldest", "b-elder", "a-youngest"] {
            let before = ns.create(claim(server)).await;
            eventually(HEALS, async || match ns.dry_run(claim("later")).await {
                Ok(later) if later.creation_timestamp() > before.creation_timestamp() => Ok(()),
                _ => Err("the second has not passed"),
            })
            .await;
        }
        for server in ["a-youngest", "b-elder", "c-eldest"] {
            let told = |claim: Option<&DynamicObject>| {
                claim.and_then(|claim| condition_of(claim, "Ready")).is_some_and(|ready| ready["status"] == "False")
            };
            ns.await_object(Kind::Claim, &named(server), HEALS, "told", told).await;
        }
        wire.set([]);
        // Whether a POST of the outage was done is settled by reading, a minute later.
        ns.await_bound(&named("c-eldest"), TROUBLE).await;
        waits(ns, "b-elder", "PoolExhausted").await;
        waits(ns, "a-youngest", "PoolExhausted").await;
        release(ns, "c-eldest").await;
        bound(ns, "b-elder").await;
        release(ns, "b-elder").await;
        bound(ns, "a-youngest").await;
    })
    .await;
}
