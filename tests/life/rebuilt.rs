//! A management cluster that was lost and is built again from manifests.

use super::*;
use crate::support::{Controller, pool, unique, with_namespace};

#[tokio::test]
async fn claims_of_a_rebuilt_cluster_get_their_old_addresses() {
    with_namespace(async |ns| {
        let (filter, id) = (unique("filter"), unique("p"));
        let start = || Controller::start(&[&format!("--watch-filter={filter}")]);
        let wire = Wire::to("demo").await;
        ns.secret("cloud", &wire.clouds_yaml()).await;
        let listed = ns.floating_ip("public").await;
        let manifest = || {
            let pool = pool("public").list([&listed.address]).network("public").pool_id(&id);
            pool.label("cluster.x-k8s.io/watch-filter", &filter)
        };
        let servers = ["web-0", "web-1", "web-2"];
        let first = start();
        ready(ns, manifest()).await;
        let mut before = Vec::new();
        for server in servers {
            // The list is fenced for the length of a call, since nobody knows who wrote in this id's name before.
            before.push(ns.bind_within(claim(server), BURST).await);
        }
        assert!(before.contains(&listed.address));

        first.kill();
        ns.lose(&[Kind::Address, Kind::Claim, Kind::Pool]).await;
        wire.forget();
        let _second = start();
        ready(ns, manifest()).await;
        let mut after = Vec::new();
        for server in servers {
            after.push(ns.bind_within(claim(server), BURST).await);
        }
        assert_eq!(after, before);
        assert_eq!(wire.writes(), [""; 0]);
        for server in servers {
            release(ns, server).await;
        }
        ns.delete(Kind::Pool, "public").await;
        ns.await_gone(Kind::Pool, "public", BURST).await;
    })
    .await;
}
