//! A controller that crashes in the middle of its work, again and again.

use super::*;
use crate::support::{Controller, pool, unique, with_namespace};

#[tokio::test]
async fn controller_that_is_killed_in_a_burst_gives_every_claim_one_address() {
    with_namespace(async |ns| {
        let filter = unique("filter");
        let start = || Controller::start(&[&format!("--watch-filter={filter}")]);
        ns.secret_for("demo").await;
        let mut controller = start();
        // A POST that lands after its sender died and the claim has another address is an orphan: soon found, here.
        let spec = pool("public").list([MISSING]).network("public").label("cluster.x-k8s.io/watch-filter", &filter);
        let id = ready(ns, spec.with("orphans", json!({"policy": "Release", "graceSeconds": 1}))).await;
        let claims = (0..20).map(|number| ns.create(claim(&format!("web-{number}"))));
        futures::future::join_all(claims).await;
        for round in 1..=3 {
            let enough = (round * 4).min(19);
            eventually(BURST, async || match count_bound(ns).await {
                count if count >= enough => Ok(()),
                count => Err(format!("{count} bound, waiting for {enough}")),
            })
            .await;
            controller.kill();
            controller = start();
        }
        await_bound_count(ns, 20).await;
        let given = addresses(ns).await;
        assert_distinct(&given);
        let cloud = ns.cloud().await;
        let given: BTreeSet<String> = given.into_iter().map(|(_, address)| address).collect();
        eventually(AUDITED, async || {
            let marked: BTreeSet<String> = marked(cloud, &id).await.into_iter().map(|fip| fip.address).collect();
            if marked == given { Ok(()) } else { Err(format!("given {given:?}, marked {marked:?}")) }
        })
        .await;

        // And killed while they go.
        for number in 0..20 {
            ns.release(&named(&format!("web-{number}"))).await;
            if number == 10 {
                controller.kill();
                controller = start();
            }
        }
        eventually(BURST, async || match (ns.list(Kind::Claim).await.len(), marked(cloud, &id).await.len()) {
            (0, 0) => Ok(()),
            left => Err(format!("(claims, floating IPs) left: {left:?}")),
        })
        .await;
        ns.delete(Kind::Pool, "public").await;
        ns.await_gone(Kind::Pool, "public", AUDITED).await;
    })
    .await;
}
