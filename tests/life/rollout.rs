//! A rolling update where the pool has as many addresses as there are machines.

use super::*;
use crate::support::{pool, with_namespace};

const MACHINES: u32 = 3;

#[tokio::test]
async fn rolling_update_of_a_full_pool_waits_for_each_old_machine_and_goes_on_with_its_address() {
    with_namespace(async |ns| {
        let id = served(ns, pool("public").network("public").max_ips(MACHINES)).await;
        let cloud = ns.cloud().await;
        let mut old = Vec::new();
        for machine in 0..MACHINES {
            let address = ns.bind(claim(&format!("old-{machine}"))).await;
            let port = cloud.port("private").await;
            cloud.attach(&seen(cloud, &address).await.id, &port).await;
            old.push((address, port));
        }
        let mut new = Vec::new();
        for (machine, (address, port)) in old.into_iter().enumerate() {
            let (leaves, comes) = (format!("old-{machine}"), format!("new-{machine}"));
            let message = refused(ns, &comes, "PoolExhausted").await;
            assert!(message.contains("spec.maxIPs"), "{message}");
            // The server is still there: CAPO keeps the claim, and the address is in use.
            ns.delete(Kind::Claim, &named(&leaves)).await;
            waits(ns, &comes, "PoolExhausted").await;
            assert_eq!(seen(cloud, &address).await.port.as_ref(), Some(&port));

            cloud.delete_port(&port).await;
            ns.let_go(&named(&leaves)).await;
            assert_eq!(bound(ns, &comes).await, address, "{comes} has what {leaves} gave back");
            let port = cloud.port("private").await;
            cloud.attach(&seen(cloud, &address).await.id, &port).await;
            new.push(port);
            assert_eq!(marked(cloud, &id).await.len(), MACHINES as usize, "no more than the limit allows");
        }
        let addresses = addresses(ns).await;
        assert_eq!(addresses.len(), MACHINES as usize, "{addresses:?}");
        assert_distinct(&addresses);
        for port in new {
            cloud.delete_port(&port).await;
        }
    })
    .await;
}
