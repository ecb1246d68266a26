//! Pools of two controllers race for the quota of one project. Neutron may exceed its quota in a race; the pools never
//! exceed their own limits, and refused claims say so and are served later.

use super::*;
use crate::support::{Project, await_laws_hold, clouds_yaml, pool, unique, with_namespace};

/// Fewer than the pools' limits allow together.
const QUOTA: usize = 6;
/// Claims of each pool.
const CLAIMS: usize = 4;
/// `maxIPs` of two pools; the other two have none.
const LIMIT: usize = 2;
/// How many claims could be bound without a quota.
const MOST: usize = 2 * LIMIT + 2 * CLAIMS;

/// How many floating IPs each pool has. Fails when a pool has more than its limit.
async fn count_by_pool(ns: &Namespace, ids: &[String]) -> Vec<usize> {
    let cloud = ns.cloud().await;
    let all = cloud.floating_ips().await;
    let counts: Vec<usize> =
        ids.iter().map(|id| all.iter().filter(|fip| fip.description.contains(id.as_str())).count()).collect();
    assert!(counts[0] <= LIMIT && counts[1] <= LIMIT, "a pool has more than its limit of {LIMIT}: {counts:?}");
    counts
}

/// Waits until at least that many claims are bound, and the others say why not.
async fn await_first_addresses(ns: &Namespace, ids: &[String], wanted: usize) {
    eventually(AFTER_LOST_CALLS, async || {
        let counts = count_by_pool(ns, ids).await;
        let (bound, waiting) = (count_bound(ns).await, count_waiting(ns, "PoolExhausted").await);
        if bound >= wanted && bound + waiting == 4 * CLAIMS && counts.iter().sum::<usize>() == bound {
            Ok(())
        } else {
            Err(format!("{bound} of {wanted} bound, {waiting} waiting; the pools have {counts:?}"))
        }
    })
    .await;
    assert_distinct(&bound_addresses(ns).await);
}

/// Waits until every claim is bound, except those above the limit of their pool, which say so.
async fn await_bound_up_to_limits(ns: &Namespace, ids: &[String]) {
    eventually(AFTER_LOST_CALLS, async || {
        count_by_pool(ns, ids).await;
        let claims = ns.list(Kind::Claim).await;
        let is_unlimited = |claim: &&DynamicObject| {
            claim.data["spec"]["poolRef"]["name"].as_str().is_some_and(|pool| pool.starts_with("wide"))
        };
        let wanted = claims.iter().filter(is_unlimited).count() + 2 * LIMIT;
        match (count_bound(ns).await, count_waiting(ns, "PoolExhausted").await) {
            (bound, waiting) if bound == wanted && bound + waiting == claims.len() => Ok(()),
            counts => Err(format!("(bound, waiting) are {counts:?}, but {wanted} can be bound")),
        }
    })
    .await;
    assert_distinct(&bound_addresses(ns).await);
}

#[tokio::test]
async fn pools_of_two_controllers_that_race_for_a_quota_keep_their_own_limits() {
    let project = Project::new().await;
    project.set_quota(QUOTA).await;
    with_namespace(async |ns| {
        ns.use_cloud(project.cloud().await);
        ns.apply_secret("cloud", &clouds_yaml(project.entry())).await;
        let other_filter = unique("filter");
        ns.restart_controller();
        ns.start_controller(&ns.world.account, &[&format!("--watch-filter={other_filter}")]);
        let limit = u32::try_from(LIMIT).expect("a few");
        let pools = [
            pool("narrow").max_ips(limit).served_in(&ns.name),
            pool("narrow-too").max_ips(limit).served_in(&other_filter),
            pool("wide").served_in(&ns.name),
            pool("wide-too").served_in(&other_filter),
        ];
        let mut ids = Vec::new();
        for pool in pools {
            ids.push(create_ready_pool(ns, pool.network("public-large")).await);
        }
        let names = ["narrow", "narrow-too", "wide", "wide-too"];
        let claims = (0..4 * CLAIMS).map(|number| (names[number % 4], format!("web-{number}")));
        join_all(claims.map(async |(pool, server)| drop(ns.create(claim(&server).from(pool)).await))).await;
        await_first_addresses(ns, &ids, QUOTA).await;
        assert!(count_bound(ns).await < MOST, "the quota was no limit");
        await_laws_hold(&[ns]).await;

        // Two claims are released, so that either controller serves others. Then only the pools' limits are left.
        let given = bound_addresses(ns).await;
        join_all(given.iter().take(2).map(|(claim, _)| ns.release(claim))).await;
        join_all(given.iter().take(2).map(|(claim, _)| ns.await_gone(Kind::Claim, claim, BURST))).await;
        project.set_quota(100).await;
        await_bound_up_to_limits(ns, &ids).await;
    })
    .await;
    project.end().await;
}
