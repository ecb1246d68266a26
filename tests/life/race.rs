//! Pools of two controllers race for the quota of one project. Neutron may let a race through its quota; the pools' own
//! limits are never passed, and who is refused is told and served later.

use futures::future::join_all;

use super::*;
use crate::support::{Project, await_lawful, clouds_yaml, pool, unique, with_namespace};

/// Fewer than the pools may have together.
const QUOTA: usize = 6;
/// Claims of each pool.
const CLAIMS: usize = 4;
/// The limit of two pools; the other two have none.
const LIMIT: usize = 2;
/// What can be bound where the quota does not matter.
const MOST: usize = 2 * LIMIT + 2 * CLAIMS;

/// How many floating IPs carry the mark of each pool.
async fn held(ns: &Namespace, ids: &[String]) -> Vec<usize> {
    let cloud = ns.cloud().await;
    let all = cloud.floating_ips().await;
    ids.iter().map(|id| all.iter().filter(|fip| fip.description.contains(id.as_str())).count()).collect()
}

/// Waits until so many claims are bound at least and each of the others is told why not; no limit is passed on the way.
async fn await_settled(ns: &Namespace, ids: &[String], wanted: usize) {
    eventually(TROUBLE, async || {
        let held = held(ns, ids).await;
        assert!(held[0] <= LIMIT && held[1] <= LIMIT, "a pool has more than its limit of {LIMIT}: {held:?}");
        let (bound, told) = (count_bound(ns).await, count_waiting(ns, "PoolExhausted").await);
        let is_settled = bound >= wanted && bound + told == 4 * CLAIMS && held.iter().sum::<usize>() == bound;
        if is_settled {
            Ok(())
        } else {
            Err(format!("{bound} of {wanted} bound, {told} told; the pools hold {held:?}"))
        }
    })
    .await;
    assert_distinct(&addresses(ns).await);
}

#[tokio::test]
async fn pools_of_two_controllers_race_for_a_quota_and_none_passes_its_own_limit() {
    let project = Project::new().await;
    project.set_quota(QUOTA).await;
    with_namespace(async |ns| {
        ns.sees(project.cloud().await);
        ns.secret("cloud", &clouds_yaml(project.entry())).await;
        let another = unique("filter");
        ns.serve();
        ns.serve_by(&ns.world.account, &[&format!("--watch-filter={another}")]);
        let limit = u32::try_from(LIMIT).expect("a few");
        let pools = [
            pool("narrow").max_ips(limit).served_in(&ns.name),
            pool("narrow-too").max_ips(limit).served_in(&another),
            pool("wide").served_in(&ns.name),
            pool("wide-too").served_in(&another),
        ];
        let mut ids = Vec::new();
        for pool in pools {
            ids.push(ready(ns, pool.network("public-large")).await);
        }
        let names = ["narrow", "narrow-too", "wide", "wide-too"];
        let claims = (0..4 * CLAIMS).map(|number| (names[number % 4], format!("web-{number}")));
        join_all(claims.map(async |(pool, server)| drop(ns.create(claim(&server).from(pool)).await))).await;
        await_settled(ns, &ids, QUOTA).await;
        eprintln!("by a quota of {QUOTA}, {} are bound", count_bound(ns).await);
        assert!(count_bound(ns).await < MOST, "the quota was no limit at all");
        await_lawful(&[ns]).await;

        // Some go: who waits is served, by either controller. Then the quota is raised: only the pools' limits are left.
        let given = addresses(ns).await;
        join_all(given.iter().take(2).map(|(claim, _)| ns.release(claim))).await;
        join_all(given.iter().take(2).map(|(claim, _)| ns.await_gone(Kind::Claim, claim, BURST))).await;
        project.set_quota(100).await;
        let left = ns.list(Kind::Claim).await.len();
        eventually(TROUBLE, async || {
            let held = held(ns, &ids).await;
            assert!(held[0] <= LIMIT && held[1] <= LIMIT, "a pool has more than its limit of {LIMIT}: {held:?}");
            let claims = ns.list(Kind::Claim).await;
            let is_wide = |claim: &&DynamicObject| {
                claim.data["spec"]["poolRef"]["name"].as_str().is_some_and(|pool| pool.starts_with("wide"))
            };
            let wanted = claims.iter().filter(is_wide).count() + 2 * LIMIT;
            let (bound, told) = (count_bound(ns).await, count_waiting(ns, "PoolExhausted").await);
            if bound == wanted && bound + told == left {
                Ok(())
            } else {
                Err(format!("{bound} of {wanted} bound, {told} told"))
            }
        })
        .await;
        assert_distinct(&addresses(ns).await);
        await_lawful(&[ns]).await;
    })
    .await;
    project.end().await;
}
