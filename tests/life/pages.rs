//! More floating IPs than Neutron gives in a page: all of them are read, once for a whole burst.

use futures::future::join_all;

use super::*;
use crate::support::{await_lawful, pool, with_namespace};

/// A page of a Neutron with a low `pagination_max_limit`.
const PAGE: usize = 6;
/// Enough for several pages.
const BEFORE: usize = 26;
/// Claims of the burst that a fresh process serves.
const BURST_OF: usize = 6;
/// Pages of the listing that it begins with; the last one is not full.
const PAGES: usize = BEFORE.div_ceil(PAGE);

#[tokio::test]
async fn process_that_starts_reads_all_pages_once_for_a_whole_burst_and_takes_nothing_for_free() {
    let admin = Cloud::named("admin").await;
    let network = admin.external_network(u8::try_from(BEFORE + BURST_OF).expect("a few")).await;
    with_namespace(async |ns| {
        let wire = Wire::to("demo").await;
        wire.page_at_most(PAGE);
        ns.secret("cloud", &wire.clouds_yaml()).await;
        ns.serve();
        let id = ready(ns, pool("public").network(&network.name).served_in(&ns.name)).await;
        join_all((0..BEFORE).map(|number| ns.create(claim(&format!("web-{number}"))))).await;
        await_bound_count_within(TROUBLE, ns, BEFORE).await;
        let before: BTreeSet<_> = addresses(ns).await.into_iter().collect();

        ns.crash();
        wire.forget();
        join_all((0..BURST_OF).map(|number| ns.create(claim(&format!("late-{number}"))))).await;
        ns.serve();
        await_bound_count_within(TROUBLE, ns, BEFORE + BURST_OF).await;
        let pages = wire.count("GET floatingips");
        // What a predecessor sent may land for a while, so that it may look once more.
        assert!((PAGES..=2 * (PAGES + 2)).contains(&pages), "{pages} pages were read: {:?}", wire.calls());
        assert_eq!(wire.count("GET floatingips/ID"), 0, "none is asked for by itself");
        let created = vec!["POST floatingips".to_owned(); BURST_OF];
        assert_eq!(wire.writes(), created, "and nothing else is done");
        let given = addresses(ns).await;
        assert_distinct(&given);
        assert!(before.is_subset(&given.into_iter().collect()), "who had an address keeps it");
        assert_eq!(marked(ns.cloud().await, &id).await.len(), BEFORE + BURST_OF);
        await_lawful(&[ns]).await;

        // So many take their time to go.
        join_all(addresses(ns).await.iter().map(|(claim, _)| ns.release(claim))).await;
        let cloud = ns.cloud().await;
        eventually(TROUBLE, async || match (ns.list(Kind::Claim).await.len(), marked(cloud, &id).await.len()) {
            (0, 0) => Ok(()),
            left => Err(format!("(claims, floating IPs) left: {left:?}")),
        })
        .await;
    })
    .await;
    admin.clean_up().await;
}
