//! An IPAddress that a user created with the claim's name.

use serde_json::{Value, json};

use super::case::assert_not_written;
use crate::support::{Kind, Manifest, RECOVERY, SOON, claim, controller, pool, with_namespace};

#[tokio::test]
async fn ip_address_created_by_hand_is_reported_and_not_touched() {
    controller();
    let ours = json!({"apiGroup": "ipam.cluster.x-k8s.io", "kind": "OpenStackFloatingIPPool", "name": "public"});
    let others = json!({"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "public"});
    // One that looks like ours, and one as another provider creates it.
    let ip_address = |server: &str, pool: &Value, for_claim: &str| {
        let body = json!({
            "metadata": {"name": claim(server).name()},
            "spec": {"claimRef": {"name": for_claim}, "poolRef": pool, "address": "203.0.113.66", "prefix": 32}
        });
        Manifest::new(Kind::Address, body)
    };
    with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        ns.create(pool("public").network("public-large")).await;
        ns.create(ip_address("alike", &ours, &claim("alike").name())).await;
        ns.create(ip_address("other", &others, "another")).await;
        for server in ["alike", "other"] {
            let name = claim(server).name();
            ns.create(claim(server).from("public")).await;
            let message = ns.await_condition(Kind::Claim, &name, "Ready", "False", "AllocationFailed", SOON).await;
            for part in [format!("IPAddress {name}"), "delete it".to_owned()] {
                assert!(message.contains(&part), "{part:?} is not in {message:?}");
            }
        }
        let (alike, other) = (claim("alike").name(), claim("other").name());
        tokio::join!(assert_not_written(ns, Kind::Claim, &alike), assert_not_written(ns, Kind::Claim, &other));
        assert!(!ns.bind(claim("beside").from("public")).await.is_empty(), "other claims are served");
        for server in ["alike", "other"] {
            let name = claim(server).name();
            let before = ns.get(Kind::Address, &name).await.expect("it is there");
            assert!(before.metadata.finalizers.is_none() && before.metadata.owner_references.is_none(), "{before:?}");
            ns.delete(Kind::Address, &name).await;
            let address = ns.await_bound(&name, RECOVERY).await;
            assert_ne!(address, "203.0.113.66");
        }
    })
    .await;
}
