//! Nothing changes, so nothing is written.

use super::*;
use crate::support::{consistently, pool, with_namespace};

/// A ready pool is reconciled 63 to 76 s after its last listing.
const LONGEST_RESYNC: Duration = Duration::from_secs(77);

#[tokio::test]
async fn nothing_is_written_when_nothing_changed() {
    with_namespace(async |ns| {
        let listed = ns.create_floating_ip("public").await;
        let spec = pool("public").list([&listed.address]).network("public").min_free(1);
        let (_, proxy) = create_served_pool_behind_proxy(ns, spec).await;
        create_claims(ns, 0..8).await;
        await_bound_count(ns, 8, BURST).await;
        await_address_count(ns, "allocated", 8).await;
        await_address_count(ns, "free", 1).await;
        await_none_waiting(ns).await;
        proxy.forget_calls();
        let before = versions(ns).await;
        consistently(LONGEST_RESYNC, async || {
            let (now, writes) = (versions(ns).await, proxy.writes());
            match now == before && writes.is_empty() {
                true => Ok(()),
                false => Err(format!("objects {before:?} became {now:?}; Neutron saw {writes:?}")),
            }
        })
        .await;
        assert!(proxy.count("GET floatingips") <= 2, "{:?}", proxy.calls());
        assert_eq!(proxy.calls().len(), proxy.count("GET floatingips"));
    })
    .await;
}

async fn versions(ns: &Namespace) -> Vec<(String, Option<String>)> {
    let mut all = Vec::new();
    for kind in [Kind::Pool, Kind::Claim, Kind::Address, Kind::Secret] {
        let objects = ns.list(kind).await;
        all.extend(objects.iter().map(|object| (object.name_any(), object.resource_version())));
    }
    all
}
