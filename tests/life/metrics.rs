//! Metrics follow what happens to claims and pools.

use super::orphans::{create_orphan, pool_with_orphan_policy};
use super::*;
use crate::support::{OpenStackProxy, cloud_entry, pool, with_namespace};

pub(super) const PLAIN: [&str; 2] = ["--diagnostics-address=127.0.0.1:0", "--insecure-diagnostics"];
const WATCH_FILTER: &str = "cluster.x-k8s.io/watch-filter";

/// The label of the test cloud.
fn cloud_label() -> String {
    let entry = cloud_entry("demo");
    let auth_url: url::Url = entry["auth"]["auth_url"].as_str().and_then(|url| url.parse().ok()).expect("it has a URL");
    let (host, port) = (auth_url.host_str().expect("it has a host"), auth_url.port_or_known_default().expect("a port"));
    let region = entry["region_name"].as_str().expect("hack/env/seed.py writes a region");
    format!(r#"cloud="{host}:{port}/{region}""#)
}

/// Waits until a metric has a value or, if that is empty, does not exist. `POOL` stands for the labels of the pool
/// `public`, and `CLOUD` for that of the cloud.
async fn await_metric(ns: &Namespace, address: &str, metric: &str, value: &str) {
    eventually(RECOVERY, async || {
        let answer = reqwest::get(format!("http://{address}/metrics")).await.expect("it answers");
        let text = answer.text().await.expect("it answers to the end");
        let metric = metric.replace("POOL", &format!(r#"namespace="{}",pool="public""#, ns.name));
        let metric = metric.replace("CLOUD", &cloud_label());
        let line = text.lines().find(|line| line.starts_with(&format!("{metric} "))).map(str::to_owned);
        match line {
            Some(line) if line == format!("{metric} {value}") => Ok(()),
            None if value.is_empty() => Ok(()),
            line => Err(format!("{metric} is not {value:?}, but {line:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn metrics_follow_claims_and_pools() {
    with_namespace(async |ns| {
        let controller = ns.start_controller(&ns.world.account, &PLAIN);
        ns.create_secret_for("demo").await;
        create_ready_pool(ns, pool("public").network("public").max_ips(2).served_in(&ns.name)).await;
        let address = controller.diagnostics().await;
        let await_metric = async |metric: &str, value: &str| await_metric(ns, &address, metric, value).await;
        await_metric("caip_openstack_pool_ready{POOL}", "1").await;
        await_metric("caip_openstack_pool_limit{POOL}", "2").await;
        // As hack/env/seed.py sets it.
        let (project, neutron) = (ns.cloud().await.project(), ns.cloud().await.endpoint());
        let quota =
            format!(r#"caip_openstack_quota_limit_floating_ips{{project="{project}",neutron="{neutron}/v2.0/"}}"#);
        await_metric(&quota, "5000").await;
        ns.bind(claim("web-0")).await;
        ns.bind(claim("web-1")).await;
        create_waiting_claim(ns, "web-2", "PoolExhausted").await;
        await_metric(r#"caip_openstack_pool_addresses{POOL,state="allocated"}"#, "2").await;
        await_metric("caip_openstack_pool_size{POOL}", "2").await;
        await_metric(r#"caip_openstack_claims_waiting{POOL,reason="PoolExhausted"}"#, "1").await;
        await_metric(r#"caip_openstack_allocations_total{CLOUD,origin="created",result="success"}"#, "2").await;
        await_metric(r#"caip_openstack_requests_total{CLOUD,operation="create_floating_ip",result="ok"}"#, "2").await;
        release_claim(ns, "web-2").await;
        await_metric(r#"caip_openstack_claims_waiting{POOL,reason="PoolExhausted"}"#, "0").await;
        release_claim(ns, "web-0").await;
        await_metric(r#"caip_openstack_pool_addresses{POOL,state="allocated"}"#, "1").await;
        await_metric(r#"caip_openstack_requests_total{CLOUD,operation="delete_floating_ip",result="ok"}"#, "1").await;
        await_metric(r#"caip_openstack_released_floating_ips_total{how="deleted"}"#, "1").await;
        await_metric(r#"caip_openstack_releases_total{result="success"}"#, "2").await;
        release_claim(ns, "web-1").await;
        delete_pool(ns, "public").await;
        await_metric("caip_openstack_pool_ready{POOL}", "").await;
        await_metric("caip_openstack_pool_size{POOL}", "").await;
        await_metric(&quota, "").await;
    })
    .await;
}

#[tokio::test]
async fn pool_metrics_exist_while_the_controller_serves_the_pool_or_it_is_paused() {
    with_namespace(async |ns| {
        let controller = ns.start_controller(&ns.world.account, &PLAIN);
        let address = controller.diagnostics().await;
        let await_metric = async |metric: &str, value: &str| await_metric(ns, &address, metric, value).await;
        ns.create_secret_for("demo").await;
        ns.create(pool("public").network("public").served_in(&ns.name).annotation(PAUSED, "")).await;
        await_metric("caip_openstack_pool_paused{POOL}", "1").await;
        await_metric("caip_openstack_pool_ready{POOL}", "0").await;
        ns.patch(Kind::Pool, "public", json!({"metadata": {"annotations": {PAUSED: null}}})).await;
        await_metric("caip_openstack_pool_ready{POOL}", "1").await;
        await_metric("caip_openstack_pool_paused{POOL}", "0").await;
        await_metric("caip_openstack_pool_credentials_valid{POOL}", "1").await;

        // The controller that serves it now shows it: shown twice, it would count twice in every sum.
        ns.patch(Kind::Pool, "public", json!({"metadata": {"labels": {WATCH_FILTER: "another"}}})).await;
        await_metric("caip_openstack_pool_ready{POOL}", "").await;
        await_metric("caip_openstack_last_listing_timestamp_seconds{POOL}", "").await;
        ns.patch(Kind::Pool, "public", json!({"metadata": {"labels": {WATCH_FILTER: ns.name}}})).await;
        await_metric("caip_openstack_pool_ready{POOL}", "1").await;

        ns.delete_by_force(&[Kind::Secret]).await;
        await_metric(r#"caip_openstack_pool_problem{POOL,reason="SecretNotFound"}"#, "1").await;
        await_metric("caip_openstack_pool_credentials_valid{POOL}", "0").await;
        ns.create_secret_for("demo").await;
        await_metric(r#"caip_openstack_pool_problem{POOL,reason="SecretNotFound"}"#, "0").await;
        await_metric("caip_openstack_pool_credentials_valid{POOL}", "1").await;
    })
    .await;
}

#[tokio::test]
async fn oldest_waiting_claim_keeps_its_timestamp_across_controllers() {
    with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        ns.restart_controller();
        create_ready_pool(ns, pool("public").list([MISSING]).served_in(&ns.name)).await;
        create_waiting_claim(ns, "web-0", "PoolExhausted").await;
        ns.kill_controllers();
        let claim = ns.get(Kind::Claim, &claim_name("web-0")).await.expect("the claim is there");
        let since = condition_of(&claim, "Ready").and_then(|ready| ready["lastTransitionTime"].as_str());
        let since: jiff::Timestamp = since.and_then(|since| since.parse().ok()).expect("a condition has a time");
        let next = ns.start_controller(&ns.world.account, &PLAIN);
        let since = format!("{}.0", since.as_second());
        let metric = "caip_openstack_oldest_waiting_claim_timestamp_seconds{POOL}";
        await_metric(ns, &next.diagnostics().await, metric, &since).await;
        ns.release(&claim_name("web-0")).await;
        ns.delete(Kind::Pool, "public").await;
        // Nothing is released or removed while a call of the first controller may still take effect.
        ns.await_gone(Kind::Claim, &claim_name("web-0"), BURST).await;
        ns.await_gone(Kind::Pool, "public", BURST).await;
    })
    .await;
}

#[tokio::test]
async fn lost_addresses_failing_releases_and_deletions_that_wait_are_told_apart_from_waiting_claims() {
    with_namespace(async |ns| {
        let proxy = OpenStackProxy::to_cloud("demo").await;
        ns.apply_secret("cloud", &proxy.clouds_yaml()).await;
        let controller = ns.start_controller(&ns.world.account, &PLAIN);
        create_ready_pool(ns, pool("public").network("public").served_in(&ns.name)).await;
        let address = controller.diagnostics().await;
        let await_metric = async |metric: &str, value: &str| await_metric(ns, &address, metric, value).await;
        await_metric(r#"caip_openstack_lost_addresses{POOL,reason="Deleted"}"#, "0").await;
        let lost = ns.bind(claim("web-0")).await;
        ns.bind(claim("web-1")).await;
        ns.cloud().await.delete(&floating_ip_of(ns.cloud().await, &lost).await.id).await;
        ns.await_condition(Kind::Claim, &claim_name("web-0"), "Ready", "False", "AllocationFailed", RESYNC).await;
        await_metric(r#"caip_openstack_lost_addresses{POOL,reason="Deleted"}"#, "1").await;
        await_metric(r#"caip_openstack_claims_waiting{POOL,reason="AllocationFailed"}"#, "0").await;
        await_metric("caip_openstack_oldest_waiting_claim_timestamp_seconds{POOL}", "").await;
        await_metric("caip_openstack_claims_release_failing{POOL}", "0").await;
        await_metric("caip_openstack_pool_deletion_timestamp_seconds{POOL}", "").await;

        release_claim(ns, "web-0").await;
        await_metric(r#"caip_openstack_lost_addresses{POOL,reason="Deleted"}"#, "0").await;
        proxy.fail_everything();
        ns.release(&claim_name("web-1")).await;
        await_metric("caip_openstack_claims_release_failing{POOL}", "1").await;
        ns.delete(Kind::Pool, "public").await;
        let pool = ns.get(Kind::Pool, "public").await.expect("it waits for its claim");
        let since = pool.metadata.deletion_timestamp.expect("it is being deleted").0.as_second();
        await_metric("caip_openstack_pool_deletion_timestamp_seconds{POOL}", &format!("{since}.0")).await;

        // The writes that failed may still take effect for a minute.
        proxy.remove_faults();
        ns.await_gone(Kind::Claim, &claim_name("web-1"), BURST).await;
        ns.await_gone(Kind::Pool, "public", BURST).await;
        await_metric("caip_openstack_pool_deletion_timestamp_seconds{POOL}", "").await;
        await_metric("caip_openstack_claims_release_failing{POOL}", "").await;
    })
    .await;
}

#[tokio::test]
async fn orphan_is_not_counted_as_allocated() {
    with_namespace(async |ns| {
        let controller = ns.start_controller(&ns.world.account, &PLAIN);
        ns.create_secret_for("demo").await;
        let id = create_ready_pool(ns, pool_with_orphan_policy("Report").served_in(&ns.name)).await;
        let address = controller.diagnostics().await;
        ns.bind(claim("web-0")).await;
        create_orphan(ns, &id).await;
        ns.await_condition(Kind::Pool, "public", "OrphansDetected", "True", "OrphansFound", RESYNC).await;
        await_address_count(ns, "allocated", 1).await;
        await_metric(ns, &address, r#"caip_openstack_pool_addresses{POOL,state="allocated"}"#, "1").await;
    })
    .await;
}
