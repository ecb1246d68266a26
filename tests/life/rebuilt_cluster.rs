//! A management cluster that was lost and is rebuilt from manifests.

use super::*;
use crate::support::{pool, with_namespace};

#[tokio::test]
async fn claims_of_a_rebuilt_cluster_get_their_old_addresses() {
    with_namespace(async |ns| {
        let proxy = OpenStackProxy::to_cloud("demo").await;
        ns.apply_secret("cloud", &proxy.clouds_yaml()).await;
        let listed = ns.create_floating_ip("public").await;
        let pool = || pool("public").list([&listed.address]).network("public").served_in(&ns.name);
        ns.restart_controller();
        // With an id in its spec the pool would wait for calls of a predecessor.
        let id = create_ready_pool(ns, pool()).await;
        let servers = ["web-0", "web-1", "web-2"];
        let mut before = Vec::new();
        for server in servers {
            before.push(ns.bind(claim(server)).await);
        }
        assert!(before.contains(&listed.address));

        ns.kill_controllers();
        ns.delete_by_force(&[Kind::Address, Kind::Claim, Kind::Pool]).await;
        proxy.forget_calls();
        ns.restart_controller();
        create_ready_pool(ns, pool().pool_id(&id)).await;
        let mut after = Vec::new();
        for server in servers {
            after.push(ns.bind_within(claim(server), BURST).await);
        }
        assert_eq!(after, before);
        assert_eq!(proxy.writes(), [""; 0]);
        for server in servers {
            release_claim(ns, server).await;
        }
        // No mark is removed while a call of the first controller may still take effect.
        ns.delete(Kind::Pool, "public").await;
        ns.await_gone(Kind::Pool, "public", BURST).await;
    })
    .await;
}
