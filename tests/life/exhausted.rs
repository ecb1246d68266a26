//! Limits that OpenStack sets.

use reqwest::Method;

use super::*;
use crate::support::{pool, with_namespace};

#[tokio::test]
async fn used_up_quota_is_named_and_claims_are_served_when_it_is_raised() {
    // Nobody else uses this project.
    let (admin, other) = (Cloud::named("admin").await, Cloud::named("other").await);
    let set_quota = async |limit: u32| {
        let path = format!("quotas/{}", other.project());
        let (status, answer) = admin.call(Method::PUT, &path, Some(json!({"quota": {"floatingip": limit}}))).await;
        assert!(status.is_success(), "{answer}");
    };
    set_quota(1).await;
    with_namespace(async |ns| {
        ns.secret_for("other").await;
        controller();
        ready(ns, pool("public").network("public")).await;
        ns.bind(claim("web-0")).await;
        let message = refused(ns, "web-1", "PoolExhausted").await;
        assert!(message.contains("quota") && message.contains("raise"), "{message}");
        ns.await_condition(Kind::Pool, "public", "Exhausted", "True", "Exhausted", HEALS).await;
        set_quota(500).await;
        bound(ns, "web-1").await;
        ns.await_condition(Kind::Pool, "public", "Exhausted", "False", "AddressesAvailable", HEALS).await;
    })
    .await;
    assert_eq!(other.floating_ips().await, []);
}

#[tokio::test]
async fn network_without_addresses_is_named_and_claims_are_served_when_it_has_some() {
    let admin = Cloud::named("admin").await;
    let network = admin.external_network(1).await;
    with_namespace(async |ns| {
        served(ns, pool("public").network(&network.name)).await;
        ns.bind(claim("web-0")).await;
        let message = refused(ns, "web-1", "PoolExhausted").await;
        assert!(message.contains("network has no address left") && message.contains("add"), "{message}");
        refused(ns, "web-2", "PoolExhausted").await;
        // A person adds an allocation range.
        let id = admin.network(&network.name).await;
        let (_, subnets) = admin.call(Method::GET, &format!("subnets?network_id={id}"), None).await;
        let path = format!("subnets/{}", subnets["subnets"][0]["id"].as_str().expect("a subnet has an id"));
        let range = json!([{"start": network.address(0), "end": network.address(1)}]);
        let (status, answer) =
            admin.call(Method::PUT, &path, Some(json!({"subnet": {"allocation_pools": range}}))).await;
        assert!(status.is_success(), "{answer}");
        bound(ns, "web-1").await;
        // A machine goes.
        release(ns, "web-0").await;
        bound(ns, "web-2").await;
    })
    .await;
    admin.clean_up().await;
}
