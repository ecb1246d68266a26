//! A Neutron that cannot tag floating IPs, and a pool with a network; `network` has one without.

use serde_json::json;

use super::cloud::no_tags;
use crate::support::{HEALS, Kind, SOON, Wire, claim, condition_of, controller, eventually, pool, with_namespace};

#[tokio::test]
async fn a_network_without_tags_serves_by_descriptions_and_says_what_it_leaves_out() {
    controller();
    let cloud = Wire::to("demo").await;
    cloud.set(no_tags());
    with_namespace(async |ns| {
        let idle = ns.floating_ip("public-large").await;
        ns.secret("cloud", &cloud.clouds_yaml()).await;
        let only = pool("public").network("public-large").list([idle.address.as_str()]);
        ns.create(only.with("reuse", json!({"policy": "Unmarked"}))).await;
        let said = ns.await_condition(Kind::Pool, "public", "Ready", "True", "Ready", SOON).await;
        for part in ["standard-attr-tag", "spec.preAllocatedFloatingIPs", "spec.reuse"] {
            assert!(said.contains(part), "{part:?} is not in {said:?}");
        }
        let address = ns.bind(claim("web").from("public")).await;
        assert_ne!(address, idle.address, "what cannot be marked is not given");
        let demo = ns.cloud().await;
        let bound = demo.find(&address).await.expect("it is there");
        let pool = ns.get(Kind::Pool, "public").await.expect("it is there");
        let id = pool.data["status"]["poolID"].as_str().expect("it has an id").to_owned();
        assert!(bound.description.contains(&id) && bound.tags.is_empty(), "{bound:?}");

        // Held back until the release has been seen: something is attached.
        ns.patch(Kind::Pool, "public", json!({"spec": {"reuseGracePeriodSeconds": 5}})).await;
        ns.release(&claim("web").name()).await;
        ns.await_gone(Kind::Claim, &claim("web").name(), SOON).await;
        let resting = demo.get(&bound.id).await.expect("it rests before it goes");
        assert_ne!(resting.description, bound.description, "the release is in the description");
        assert!(resting.tags.is_empty());
        eventually(HEALS, async || match demo.get(&bound.id).await {
            None => Ok(()),
            Some(left) => Err(format!("released and still there: {left:?}")),
        })
        .await;

        let kept = demo.get(&idle.id).await.expect("nobody touched it");
        assert!(kept.description.is_empty() && kept.tags.is_empty(), "{kept:?}");
        let tagged: Vec<_> = cloud.writes().into_iter().filter(|call| call.contains("/tags")).collect();
        assert_eq!(tagged, [""; 0], "a call that cannot work is not made");
        let pool = ns.get(Kind::Pool, "public").await.expect("it is there");
        assert_eq!(condition_of(&pool, "Ready").expect("it is told")["status"], "True");
    })
    .await;
}
