//! The cloud drops descriptions: a pool cannot mark what it creates, and says so instead of creating more and more.

use super::*;
use crate::support::{Fault, pool, with_namespace};

/// All that Neutron answers about floating IPs, without descriptions. Neutron itself has them, so that what is left behind
/// can be found.
fn dropped_descriptions() -> [Fault; 3] {
    fn drop_it(floating_ip: &mut Value) {
        floating_ip["description"] = "".into();
    }
    let one = |call| Fault::edited(call, |body| body.get_mut("floatingip").into_iter().for_each(drop_it));
    let all = |body: &mut Value| body["floatingips"].as_array_mut().into_iter().flatten().for_each(drop_it);
    [one("POST floatingips"), one("GET floatingips/ID"), Fault::edited("GET floatingips", all)]
}

#[tokio::test]
async fn floating_ips_are_not_created_again_and_again_in_a_cloud_that_drops_descriptions() {
    with_namespace(async |ns| {
        let (id, proxy) = create_served_pool_behind_proxy(ns, pool("public").network("public-large")).await;
        proxy.set_faults(dropped_descriptions());
        let message = create_waiting_claim(ns, "web-0", "PoolExhausted").await;
        assert!(message.contains("did not store the description"), "{message}");
        // A claim is tried again every 5 s.
        tokio::time::sleep(Duration::from_secs(12)).await;
        assert_eq!(proxy.count("POST floatingips"), 1);
        assert_eq!(marked_floating_ips(ns.cloud().await, &id).await, [], "what has no mark is deleted");
        // Tags are not dropped.
        let listed = ns.create_floating_ip("public-large").await.address;
        ns.patch(Kind::Pool, "public", json!({"spec": {"preAllocatedFloatingIPs": [listed]}})).await;
        assert_eq!(await_bound(ns, "web-0").await, listed);
        assert_eq!(proxy.count("POST floatingips"), 1);
    })
    .await;
}
