//! Somebody writes to everything all the time, as other controllers and people do: the versions that ours read are old as
//! soon as they are read.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use kube::api::{Patch, PatchParams};

use super::*;
use crate::support::{await_lawful, pool, with_namespace};

const CLAIMS: usize = 8;

/// Writes annotations and labels to claims, IPAddresses and pools, again and again, for ever.
async fn storm(ns: &Namespace, written: &AtomicUsize) {
    loop {
        for kind in [Kind::Claim, Kind::Address, Kind::Pool] {
            let objects = ns.list(kind).await;
            join_all(objects.iter().map(|object| touch(ns, kind, object.name_any(), written))).await;
        }
    }
}

async fn touch(ns: &Namespace, kind: Kind, name: String, written: &AtomicUsize) {
    let number = written.fetch_add(1, Ordering::Relaxed).to_string();
    let change =
        json!({"metadata": {"annotations": {"example.com/seen": number}, "labels": {"example.com/seen": number}}});
    // What is gone meanwhile needs no touch.
    let _gone = ns.api(kind).patch(&name, &PatchParams::default(), &Patch::Merge(change)).await;
}

#[tokio::test]
async fn claims_are_served_and_released_while_somebody_writes_to_everything_all_the_time() {
    with_namespace(async |ns| {
        let written = AtomicUsize::new(0);
        let work = async {
            let (id, wire) = served_by_wire(ns, pool("public").network("public-large")).await;
            wire.forget();
            let create = async |number: usize| drop(ns.create(claim(&format!("web-{number}"))).await);
            let release = async |number: usize| ns.release(&named(&format!("web-{number}"))).await;
            join_all((0..CLAIMS).map(create)).await;
            await_bound_count(ns, CLAIMS).await;
            assert_distinct(&addresses(ns).await);
            // Some go while others come, and in the end all go.
            let half = CLAIMS / 2;
            tokio::join!(join_all((0..half).map(release)), join_all((CLAIMS..CLAIMS + half).map(create)));
            eventually(BURST, async || match (ns.list(Kind::Claim).await.len(), count_bound(ns).await) {
                (CLAIMS, CLAIMS) => Ok(()),
                there => Err(format!("(claims, bound) {there:?} of {CLAIMS}")),
            })
            .await;
            await_lawful(&[ns]).await;
            join_all((half..CLAIMS + half).map(release)).await;
            let cloud = ns.cloud().await;
            eventually(BURST, async || match (ns.list(Kind::Claim).await.len(), marked(cloud, &id).await.len()) {
                (0, 0) => Ok(()),
                left => Err(format!("(claims, floating IPs) left: {left:?}")),
            })
            .await;
            // All that writing is nothing to Neutron.
            let most = CLAIMS + half;
            let calls = (wire.count("POST floatingips"), wire.count("DELETE floatingips/ID"));
            assert!(calls.0 <= most && calls.1 <= most, "{most} claims cost {calls:?} calls: {:?}", wire.writes());
        };
        tokio::select! {
            () = work => {}
            () = storm(ns, &written) => {}
        }
        let written = written.into_inner();
        eprintln!("{written} writes of others");
        assert!(written > 20 * CLAIMS, "{written} writes are no storm");
        await_lawful(&[ns]).await;
    })
    .await;
}
