//! Others write to every object all the time: the versions that the controller reads are outdated at once.

use std::sync::atomic::{AtomicUsize, Ordering};

use kube::api::{Patch, PatchParams};

use super::*;
use crate::support::{pool, with_namespace};

const CLAIMS: usize = 8;

/// Writes annotations and labels of claims, IPAddresses and pools for ever.
async fn write_forever(ns: &Namespace, written: &AtomicUsize) {
    loop {
        for kind in [Kind::Claim, Kind::Address, Kind::Pool] {
            let objects = ns.list(kind).await;
            join_all(objects.iter().map(|object| write(ns, kind, object.name_any(), written))).await;
        }
    }
}

async fn write(ns: &Namespace, kind: Kind, name: String, written: &AtomicUsize) {
    let number = written.fetch_add(1, Ordering::Relaxed).to_string();
    let change =
        json!({"metadata": {"annotations": {"example.com/seen": number}, "labels": {"example.com/seen": number}}});
    // The object may be gone meanwhile.
    let _gone = ns.api(kind).patch(&name, &PatchParams::default(), &Patch::Merge(change)).await;
}

#[tokio::test]
async fn claims_are_served_and_released_under_constant_writes_by_others() {
    with_namespace(async |ns| {
        let written = AtomicUsize::new(0);
        let work = async {
            let (id, proxy) = create_served_pool_behind_proxy(ns, pool("public").network("public-large")).await;
            proxy.forget_calls();
            let create = async |number: usize| drop(ns.create(claim(&format!("web-{number}"))).await);
            let release = async |number: usize| ns.release(&claim_name(&format!("web-{number}"))).await;
            join_all((0..CLAIMS).map(create)).await;
            await_bound_count(ns, CLAIMS, BURST).await;
            assert_distinct(&bound_addresses(ns).await);
            // Some are released while others are created, and then all are released.
            let half = CLAIMS / 2;
            tokio::join!(join_all((0..half).map(release)), join_all((CLAIMS..CLAIMS + half).map(create)));
            eventually(BURST, async || match (ns.list(Kind::Claim).await.len(), count_bound(ns).await) {
                (CLAIMS, CLAIMS) => Ok(()),
                there => Err(format!("(claims, bound) {there:?} of {CLAIMS}")),
            })
            .await;
            join_all((half..CLAIMS + half).map(release)).await;
            await_all_released(ns, &id, BURST).await;
            // Neutron gets no more calls for it.
            let most = CLAIMS + half;
            let calls = (proxy.count("POST floatingips"), proxy.count("DELETE floatingips/ID"));
            assert!(calls.0 <= most && calls.1 <= most, "{most} claims caused {calls:?} calls: {:?}", proxy.writes());
        };
        tokio::select! {
            () = work => {}
            () = write_forever(ns, &written) => {}
            () = write_forever(ns, &written) => {}
        }
        let written = written.into_inner();
        // Each object of a claim in each of its states; how many more depends on how fast the servers are.
        assert!(written > 20 * CLAIMS, "there were only {written} writes");
    })
    .await;
}
