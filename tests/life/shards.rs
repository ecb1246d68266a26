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
        let mut listed = Vec::new();
        for _ in 0..LISTED {
            listed.push(ns.create_floating_ip("public").await.address);
        }
        for (name, filter) in ["one", "two"].iter().zip(&filters) {
            create_ready_pool(ns, pool(name).list(listed.clone()).served_in(filter)).await;
        }
        // Each pool has a claim for every address of the list.
        let claims = (0..2 * LISTED).map(|number| claim(&format!("web-{number}")).from(["one", "two"][number % 2]));
        join_all(claims.map(async |claim| drop(ns.create(claim).await))).await;
        await_counts(ns, LISTED, LISTED).await;

        // All of the first pool's claims are deleted while its shard is down: the other one goes on.
        one.kill();
        let of_one: Vec<String> = (0..LISTED).map(|number| claim_name(&format!("web-{}", 2 * number))).collect();
        join_all(of_one.iter().map(|name| ns.release(name))).await;
        let held = LISTED - count_bound_of(ns, "two").await;
        ns.create(pool("three").network("public").served_in(&filters[1])).await;
        ns.bind_within(claim("other").from("three"), BURST).await;
        assert_eq!(
            LISTED - count_bound_of(ns, "two").await,
            held,
            "an address was taken from a pool whose shard is down"
        );

        start(&filters[0]);
        join_all(of_one.iter().map(|name| ns.await_gone(Kind::Claim, name, BURST))).await;
        await_counts(ns, LISTED + 1, 0).await;
    })
    .await;
}
