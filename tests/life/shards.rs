//! Shards: several controllers in one management cluster, each of which serves the pools with its own watch filter.

use super::*;
use crate::support::{pool, unique, with_namespace};

/// In the lists of both pools.
const LISTED: usize = 4;

/// How many claims of a pool are bound.
async fn count_bound_of(ns: &Namespace, pool: &str) -> usize {
    let claims = ns.list(Kind::Claim).await;
    let is_bound = |claim: &&DynamicObject| {
        claim.data["spec"]["poolRef"]["name"] == pool && claim.data["status"]["addressRef"]["name"].is_string()
    };
    claims.iter().filter(is_bound).count()
}

async fn await_counts(ns: &Namespace, bound: usize, waiting: usize) {
    eventually(AFTER_LOST_CALLS, async || match (count_bound(ns).await, count_waiting(ns, "PoolExhausted").await) {
        counts if counts == (bound, waiting) => Ok(()),
        counts => Err(format!("(bound, waiting) are {counts:?} instead of {:?}", (bound, waiting))),
    })
    .await;
    assert_distinct(&bound_addresses(ns).await);
}

#[tokio::test]
async fn shards_share_a_list_and_do_not_depend_on_each_other() {
    with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        let filters = [unique("shard"), unique("shard")];
        let start = |filter: &str| ns.start_controller(&ns.world.account, &[&format!("--watch-filter={filter}")]);
        let [one, _] = filters.each_ref().map(|filter| start(filter));
        let (mut listed, mut own) = (Vec::new(), Vec::new());
        for _ in 0..LISTED {
            listed.push(ns.create_floating_ip("public").await.address);
        }
        for (name, filter) in ["one", "two"].iter().zip(&filters) {
            own.push(ns.create_floating_ip("public").await.address);
            let list = listed.iter().cloned().chain(own.last().cloned());
            create_ready_pool(ns, pool(name).list(list).served_in(filter)).await;
        }
        // Each pool has a claim for every address of its list.
        let each = LISTED + 1;
        let claims = (0..2 * each).map(|number| claim(&format!("web-{number}")).from(["one", "two"][number % 2]));
        join_all(claims.map(async |claim| drop(ns.create(claim).await))).await;
        await_counts(ns, LISTED + 2, LISTED).await;
        let of_two = count_bound_of(ns, "two").await;
        let bound = bound_addresses(ns).await;
        for (pool, own) in ["one", "two"].iter().zip(&own) {
            let (claim, _) = bound.iter().find(|(_, address)| address == own).expect("all are bound");
            let claim = ns.get(Kind::Claim, claim).await.expect("it is there");
            assert_eq!(claim.data["spec"]["poolRef"]["name"], *pool, "both shards serve");
        }

        // All of the first pool's claims are deleted while its shard is down: the other one goes on.
        one.kill();
        let of_one: Vec<String> = (0..each).map(|number| claim_name(&format!("web-{}", 2 * number))).collect();
        join_all(of_one.iter().map(|name| ns.release(name))).await;
        ns.create(pool("three").network("public").served_in(&filters[1])).await;
        ns.bind_within(claim("other").from("three"), BURST).await;
        let now = count_bound_of(ns, "two").await;
        assert_eq!(now, of_two, "an address was taken from a pool whose shard is down");

        start(&filters[0]);
        join_all(of_one.iter().map(|name| ns.await_gone(Kind::Claim, name, BURST))).await;
        await_counts(ns, each + 1, 0).await;
    })
    .await;
}

#[tokio::test]
async fn pool_moves_to_another_shard_with_its_addresses() {
    with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        let filters = [unique("shard"), unique("shard")];
        let [one, _two] = filters
            .each_ref()
            .map(|filter| ns.start_controller(&ns.world.account, &[&format!("--watch-filter={filter}")]));
        create_ready_pool(ns, pool("public").network("public").served_in(&filters[0])).await;
        let had = ns.bind_within(claim("before").from("public"), BURST).await;
        let paused = |value: Value| json!({"metadata": {"annotations": {PAUSED: value}}});
        ns.patch(Kind::Pool, "public", paused(json!(""))).await;
        let label = json!({"metadata": {"labels": {"cluster.x-k8s.io/watch-filter": filters[1]}}});
        ns.patch(Kind::Pool, "public", label).await;
        ns.patch(Kind::Pool, "public", paused(json!(null))).await;
        // The first shard has nothing to do with it any more.
        one.kill();
        let new = ns.bind_within(claim("after").from("public"), BURST).await;
        assert_ne!(new, had);
        let is_kept = bound_addresses(ns).await.contains(&(claim_name("before"), had));
        assert!(is_kept, "the claim keeps its address");
        for name in ["before", "after"].map(claim_name) {
            ns.release(&name).await;
            ns.await_gone(Kind::Claim, &name, BURST).await;
        }
    })
    .await;
}
