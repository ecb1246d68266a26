//! Two management clusters in one project, each with a pool and claims of the same names, the same predefined addresses
//! and the same floating IPs to reuse.

use super::*;
use crate::support::{pool, with_two_clusters};

/// Addresses that both pools list, that both may reuse, and that either may create.
const LISTED: usize = 5;
const FREE: usize = 4;
const CREATED: usize = 5;
const ADDRESSES: usize = LISTED + FREE + CREATED;
/// In each cluster: together two more than addresses.
const CLAIMS: usize = 8;

/// Releases up to that many bound claims, all at once.
async fn release_some(ns: &Namespace, most: usize) {
    let bound = bound_addresses(ns).await;
    join_all(bound.iter().take(most).map(|(claim, _)| ns.release(claim))).await;
    join_all(bound.iter().take(most).map(|(claim, _)| ns.await_gone(Kind::Claim, claim, BURST))).await;
}

/// Waits until that many claims of both clusters are bound; no address is given twice meanwhile.
async fn await_bound_in_both(sides: [&Namespace; 2], wanted: usize) {
    eventually(AFTER_LOST_CALLS, async || {
        let given: Vec<_> = join_all(sides.map(bound_addresses)).await.concat();
        assert_distinct(&given);
        let bound: usize = join_all(sides.map(count_bound)).await.iter().sum();
        if bound == wanted { Ok(()) } else { Err(format!("{bound} of {wanted} claims are bound: {given:?}")) }
    })
    .await;
}

#[tokio::test]
async fn two_management_clusters_in_one_project_neither_share_nor_release_each_others_addresses() {
    let admin = Cloud::named("admin").await;
    let network = admin.external_network(ADDRESSES).await;
    with_two_clusters(async |one, other| {
        let sides = [one, other];
        let mut listed = Vec::new();
        for number in 0..LISTED + FREE {
            let made = one.create_floating_ip(&network.name).await;
            listed.extend((number < LISTED).then_some(made.address));
        }
        let mut ids = Vec::new();
        for ns in sides {
            ns.create_secret_for("demo").await;
            ns.restart_controller();
            let public = pool("public").list(listed.clone()).network(&network.name).reuse_unmarked();
            ids.push(create_ready_pool(ns, public.served_in(&ns.name)).await);
        }
        assert_ne!(ids[0], ids[1], "the pools differ in spite of their name");

        join_all(sides.map(|ns| create_claims(ns, 0..CLAIMS))).await;
        await_bound_in_both(sides, ADDRESSES).await;
        // In both clusters some claims are released at once, and others created: those that waited are served too.
        join_all(sides.map(|ns| release_some(ns, 3))).await;
        join_all(sides.map(|ns| create_claims(ns, CLAIMS..CLAIMS + 2))).await;
        await_bound_in_both(sides, ADDRESSES).await;
        // One cluster releases everything: the other keeps its addresses and gets what is free.
        let kept = bound_addresses(one).await;
        let waiting = one.list(Kind::Claim).await.len() - kept.len();
        release_some(other, ADDRESSES).await;
        eventually(AFTER_LOST_CALLS, async || match count_bound(one).await - kept.len() {
            more if more == waiting => Ok(()),
            more => Err(format!("{more} of {waiting} claims that waited are served")),
        })
        .await;
        let now = bound_addresses(one).await;
        assert!(kept.iter().all(|before| now.contains(before)), "{kept:?}, and now {now:?}");
    })
    .await;
    admin.clean_up().await;
}
