//! More floating IPs than Neutron returns in a page: all pages are read, once for a burst of claims.

use futures::future::join_all;

use super::*;
use crate::support::{pool, with_external_network};

/// The rows of a page, as with a low `pagination_max_limit`.
const PAGE: usize = 6;
/// Claims that are bound before: enough for several pages.
const BEFORE: usize = 26;
/// Claims that the restarted controller serves.
const LATE: usize = 6;
/// Pages of its first listing; the last one is not full.
const PAGES: usize = BEFORE.div_ceil(PAGE);
/// While claims wait, the project is listed at most so often.
const RELISTED_AFTER: Duration = Duration::from_secs(9);

#[tokio::test]
async fn started_controller_reads_every_page_once_for_a_burst_of_claims() {
    with_external_network(BEFORE + LATE, async |ns, network| {
        let proxy = OpenStackProxy::to_cloud("demo").await;
        proxy.page_at_most(PAGE);
        ns.apply_secret("cloud", &proxy.clouds_yaml()).await;
        ns.restart_controller();
        let id = create_ready_pool(ns, pool("public").network(&network.name).served_in(&ns.name)).await;
        create_claims(ns, 0..BEFORE).await;
        await_bound_count(ns, BEFORE, AFTER_LOST_CALLS).await;
        let before: BTreeSet<_> = bound_addresses(ns).await.into_iter().collect();

        ns.kill_controllers();
        proxy.forget_calls();
        join_all((0..LATE).map(|number| ns.create(claim(&format!("late-{number}"))))).await;
        ns.restart_controller();
        let begun = std::time::Instant::now();
        await_bound_count(ns, BEFORE + LATE, AFTER_LOST_CALLS).await;
        let pages = proxy.count("GET floatingips");
        // It may list once more, after the calls of its predecessor can no longer take effect; and while claims wait, which
        // a busy Neutron makes them do.
        let waited = begun.elapsed().as_secs() / RELISTED_AFTER.as_secs();
        let listings = 2 + usize::try_from(waited).expect("a few");
        assert!((PAGES..=listings * (PAGES + 2)).contains(&pages), "{pages} pages were read: {:?}", proxy.calls());
        assert_eq!(proxy.count("GET floatingips/ID"), 0, "no floating IP is read alone");
        let created = vec!["POST floatingips".to_owned(); LATE];
        assert_eq!(proxy.writes(), created, "nothing else is written");
        let given = bound_addresses(ns).await;
        assert_distinct(&given);
        assert!(before.is_subset(&given.into_iter().collect()), "claims keep their addresses");
        assert_eq!(marked_floating_ips(ns.cloud().await, &id).await.len(), BEFORE + LATE);

        // That many take longer than the clean-up of a scenario waits.
        release_bound_claims(ns).await;
        await_all_released(ns, &id, AFTER_LOST_CALLS).await;
    })
    .await;
}
