//! Two management clusters in one project: two real API servers, and in each a namespace, a pool and claims of the same
//! names, the same list, and the same free floating IPs to reuse.

use futures::future::join_all;

use super::*;
use crate::support::{pool, with_two_clusters};

/// Addresses that both list, that both may reuse, and that either may create.
const LISTED: usize = 5;
const FREE: usize = 4;
const CREATED: usize = 5;
const ADDRESSES: usize = LISTED + FREE + CREATED;
/// Two claims more than addresses, on the two sides together.
const CLAIMS: usize = 8;

fn server(number: usize) -> String {
    format!("web-{number}")
}

/// Creates the claims of these numbers in a namespace, all at once.
async fn burst(ns: &Namespace, numbers: impl Iterator<Item = usize>) {
    join_all(numbers.map(|number| ns.create(claim(&server(number))))).await;
}

/// Releases what holds an address, up to so many, all at once.
async fn release_bound(ns: &Namespace, most: usize) {
    let bound = addresses(ns).await;
    join_all(bound.iter().take(most).map(|(claim, _)| ns.release(claim))).await;
    join_all(bound.iter().take(most).map(|(claim, _)| ns.await_gone(Kind::Claim, claim, BURST))).await;
}

/// Waits until so many claims of both sides are bound; no address is given twice on the way.
async fn await_bound_in_both(sides: [&Namespace; 2], wanted: usize) {
    eventually(TROUBLE, async || {
        let given: Vec<_> = join_all(sides.map(addresses)).await.concat();
        assert_distinct(&given);
        let bound: usize = join_all(sides.map(count_bound)).await.iter().sum();
        if bound == wanted { Ok(()) } else { Err(format!("{bound} of {wanted} claims are bound: {given:?}")) }
    })
    .await;
}

#[tokio::test]
async fn management_clusters_of_one_project_give_no_address_twice_and_release_none_of_each_others() {
    let admin = Cloud::named("admin").await;
    let network = admin.external_network(u8::try_from(ADDRESSES).expect("a few")).await;
    with_two_clusters(async |one, other| {
        let sides = [one, other];
        let mut listed = Vec::new();
        for number in 0..LISTED + FREE {
            let made = one.floating_ip(&network.name).await;
            listed.extend((number < LISTED).then_some(made.address));
        }
        let mut ids = Vec::new();
        for ns in sides {
            ns.secret_for("demo").await;
            ns.serve();
            let public = pool("public").list(listed.clone()).network(&network.name).reuse_unmarked();
            ids.push(ready(ns, public.served_in(&ns.name)).await);
        }
        assert_ne!(ids[0], ids[1], "one name, and yet two pools");

        join_all(sides.map(|ns| burst(ns, 0..CLAIMS))).await;
        await_bound_in_both(sides, ADDRESSES).await;
        // Some of them go on both sides at once, and others come: those that waited are served too.
        join_all(sides.map(|ns| release_bound(ns, 3))).await;
        join_all(sides.map(|ns| burst(ns, CLAIMS..CLAIMS + 2))).await;
        await_bound_in_both(sides, ADDRESSES).await;
        // One side goes altogether, the other is not touched and takes what is free then.
        let kept = addresses(one).await;
        let waiting = one.list(Kind::Claim).await.len() - kept.len();
        release_bound(other, ADDRESSES).await;
        eventually(TROUBLE, async || match count_bound(one).await - kept.len() {
            more if more == waiting => Ok(()),
            more => Err(format!("{more} of {waiting} claims that waited are served")),
        })
        .await;
        let now = addresses(one).await;
        assert!(kept.iter().all(|before| now.contains(before)), "{kept:?}, and now {now:?}");
    })
    .await;
    admin.clean_up().await;
}
