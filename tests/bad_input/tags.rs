//! A Neutron without tags for floating IPs, and a pool with a network; `network` has a pool without one.

use serde_json::json;

use super::altered_cloud::no_tags;
use crate::support::{
    Kind, OpenStackProxy, RECOVERY, SOON, claim, condition_of, controller, eventually, pool, with_namespace,
};

#[tokio::test]
async fn neutron_without_tags_is_used_by_descriptions_and_reports_what_is_left_out() {
    controller();
    let cloud = OpenStackProxy::to_cloud("demo").await;
    cloud.set_faults(no_tags());
    with_namespace(async |ns| {
        let idle = ns.create_floating_ip("public-large").await;
        ns.apply_secret("cloud", &cloud.clouds_yaml()).await;
        let only = pool("public").network("public-large").list([idle.address.as_str()]);
        let only = only.with("reuse", json!({"policy": "Unmarked"})).with("reuseGracePeriodSeconds", 3600);
        ns.create(only).await;
        let said = ns.await_condition(Kind::Pool, "public", "Ready", "True", "Ready", SOON).await;
        for part in ["standard-attr-tag", "spec.preAllocatedFloatingIPs", "spec.reuse"] {
            assert!(said.contains(part), "{part:?} is not in {said:?}");
        }
        let address = ns.bind(claim("web").from("public")).await;
        assert_ne!(address, idle.address, "an address that cannot be marked is not given");
        let demo = ns.cloud().await;
        let bound = demo.find(&address).await.expect("it is there");
        let pool = ns.get(Kind::Pool, "public").await.expect("it is there");
        let id = pool.data["status"]["poolID"].as_str().expect("it has an id").to_owned();
        assert!(bound.description.contains(&id) && bound.tags.is_empty(), "{bound:?}");

        ns.release(&claim("web").name()).await;
        ns.await_gone(Kind::Claim, &claim("web").name(), SOON).await;
        let released = demo.get(&bound.id).await.expect("it is kept for its grace period");
        assert_ne!(released.description, bound.description, "the release is in the description");
        assert!(released.tags.is_empty());
        ns.patch(Kind::Pool, "public", json!({"spec": {"reuseGracePeriodSeconds": 0}})).await;
        eventually(RECOVERY, async || match demo.get(&bound.id).await {
            None => Ok(()),
            Some(left) => Err(format!("released and still there: {left:?}")),
        })
        .await;

        let kept = demo.get(&idle.id).await.expect("it is not touched");
        assert!(kept.description.is_empty() && kept.tags.is_empty(), "{kept:?}");
        let tagged: Vec<_> = cloud.writes().into_iter().filter(|call| call.contains("/tags")).collect();
        assert_eq!(tagged, [""; 0], "calls that cannot succeed are not made");
        let pool = ns.get(Kind::Pool, "public").await.expect("it is there");
        assert_eq!(condition_of(&pool, "Ready").expect("it is set")["status"], "True");
    })
    .await;
}
