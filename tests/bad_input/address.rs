//! An IPAddress that somebody made by hand under the claim's name.

use serde_json::{Value, json};

use super::case::is_untouched;
use crate::support::{HEALS, Kind, Manifest, SOON, claim, controller, pool, with_namespace};

#[tokio::test]
async fn an_ip_address_made_by_hand_is_left_alone_and_told_until_it_is_gone() {
    controller();
    let ours = json!({"apiGroup": "ipam.cluster.x-k8s.io", "kind": "OpenStackFloatingIPPool", "name": "public"});
    let others = json!({"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "public"});
    // As if it were ours, down to the pool and the claim; and as another provider would make one.
    let by_hand = |server: &str, pool: &Value, for_claim: &str| {
        let body = json!({
            "metadata": {"name": claim(server).name()},
            "spec": {"claimRef": {"name": for_claim}, "poolRef": pool, "address": "203.0.113.66", "prefix": 32}
        });
        Manifest::new(Kind::Address, body)
    };
    with_namespace(async |ns| {
        ns.secret_for("demo").await;
        ns.create(pool("public").network("public-large")).await;
        ns.create(by_hand("alike", &ours, &claim("alike").name())).await;
        ns.create(by_hand("other", &others, "somebody-elses")).await;
        for server in ["alike", "other"] {
            let name = claim(server).name();
            ns.create(claim(server).from("public")).await;
            let message = ns.await_condition(Kind::Claim, &name, "Ready", "False", "AllocationFailed", SOON).await;
            for part in [format!("IPAddress {name}"), "delete it".to_owned()] {
                assert!(message.contains(&part), "{part:?} is not in {message:?}");
            }
        }
        let (alike, other) = (claim("alike").name(), claim("other").name());
        tokio::join!(is_untouched(ns, Kind::Claim, &alike), is_untouched(ns, Kind::Claim, &other));
        assert!(!ns.bind(claim("beside").from("public")).await.is_empty(), "one claim's trouble is its own");
        for server in ["alike", "other"] {
            let name = claim(server).name();
            let before = ns.get(Kind::Address, &name).await.expect("it is there");
            assert!(before.metadata.finalizers.is_none() && before.metadata.owner_references.is_none(), "{before:?}");
            ns.delete(Kind::Address, &name).await;
            let address = ns.await_bound(&name, HEALS).await;
            assert_ne!(address, "203.0.113.66");
        }
    })
    .await;
}
