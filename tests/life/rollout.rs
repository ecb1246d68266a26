//! A rolling update with as many addresses as machines.

use super::*;
use crate::support::{pool, with_namespace};

const MACHINES: u32 = 3;

#[tokio::test]
async fn rolling_update_of_a_full_pool_reuses_the_address_of_each_old_machine() {
    with_namespace(async |ns| {
        let id = create_served_pool(ns, pool("public").network("public").max_ips(MACHINES)).await;
        let cloud = ns.cloud().await;
        let mut old = Vec::new();
        for machine in 0..MACHINES {
            let address = ns.bind(claim(&format!("old-{machine}"))).await;
            let port = cloud.port("private").await;
            cloud.attach(&floating_ip_of(cloud, &address).await.id, &port).await;
            old.push((address, port));
        }
        let mut new = Vec::new();
        for (machine, (address, port)) in old.into_iter().enumerate() {
            let (old_machine, new_machine) = (format!("old-{machine}"), format!("new-{machine}"));
            let message = create_waiting_claim(ns, &new_machine, "PoolExhausted").await;
            assert!(message.contains("spec.maxIPs"), "{message}");
            // The server is still there: CAPO keeps the claim, and the address is in use.
            ns.delete(Kind::Claim, &claim_name(&old_machine)).await;
            await_waiting(ns, &new_machine, "PoolExhausted").await;
            assert_eq!(floating_ip_of(cloud, &address).await.port.as_ref(), Some(&port));

            cloud.delete_port(&port).await;
            ns.remove_capo_finalizer(&claim_name(&old_machine)).await;
            assert_eq!(await_bound(ns, &new_machine).await, address, "{new_machine} gets the address of {old_machine}");
            let port = cloud.port("private").await;
            cloud.attach(&floating_ip_of(cloud, &address).await.id, &port).await;
            new.push(port);
            assert_eq!(marked_floating_ips(cloud, &id).await.len(), MACHINES as usize, "no more than the limit allows");
        }
        let addresses = bound_addresses(ns).await;
        assert_eq!(addresses.len(), MACHINES as usize, "{addresses:?}");
        assert_distinct(&addresses);
        for port in new {
            cloud.delete_port(&port).await;
        }
    })
    .await;
}
