//! Limits that OpenStack sets: a quota, and a network's addresses.

use reqwest::Method;

use super::*;
use crate::support::{Project, clouds_yaml, pool, with_external_network, with_namespace};

#[tokio::test]
async fn exhausted_quota_is_reported_and_claims_are_served_when_it_is_raised() {
    let project = Project::new().await;
    project.set_quota(1).await;
    with_namespace(async |ns| {
        ns.use_cloud(project.cloud().await);
        ns.apply_secret("cloud", &clouds_yaml(project.entry())).await;
        controller();
        create_ready_pool(ns, pool("public").network("public")).await;
        ns.bind(claim("web-0")).await;
        let message = create_waiting_claim(ns, "web-1", "PoolExhausted").await;
        assert!(message.contains("quota") && message.contains("raise"), "{message}");
        ns.await_condition(Kind::Pool, "public", "Exhausted", "True", "Exhausted", RECOVERY).await;
        project.set_quota(500).await;
        await_bound(ns, "web-1").await;
        ns.await_condition(Kind::Pool, "public", "Exhausted", "False", "AddressesAvailable", RECOVERY).await;
    })
    .await;
    project.end().await;
}

#[tokio::test]
async fn exhausted_network_is_reported_and_claims_are_served_when_it_is_extended() {
    with_external_network(1, async |ns, network| {
        create_served_pool(ns, pool("public").network(&network.name)).await;
        ns.bind(claim("web-0")).await;
        let message = create_waiting_claim(ns, "web-1", "PoolExhausted").await;
        assert!(message.contains("network has no address left") && message.contains("add"), "{message}");
        create_waiting_claim(ns, "web-2", "PoolExhausted").await;
        // An administrator extends the allocation pool.
        let admin = Cloud::named("admin").await;
        let id = admin.network(&network.name).await;
        let (_, subnets) = admin.call(Method::GET, &format!("subnets?network_id={id}"), None).await;
        let path = format!("subnets/{}", subnets["subnets"][0]["id"].as_str().expect("a subnet has an id"));
        let range = json!([{"start": network.address(0), "end": network.address(1)}]);
        let (status, answer) =
            admin.call(Method::PUT, &path, Some(json!({"subnet": {"allocation_pools": range}}))).await;
        assert!(status.is_success(), "{answer}");
        await_bound(ns, "web-1").await;
        release_claim(ns, "web-0").await;
        await_bound(ns, "web-2").await;
    })
    .await;
}
