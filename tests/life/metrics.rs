//! What is counted moves as the world does.

use super::*;
use crate::support::{Controller, pool, unique, with_namespace};

#[tokio::test]
async fn metrics_tell_what_became_of_claims_and_pools() {
    with_namespace(async |ns| {
        let filter = unique("filter");
        let controller = Controller::start(&[
            &format!("--watch-filter={filter}"),
            "--diagnostics-address=127.0.0.1:0",
            "--insecure-diagnostics",
        ]);
        ns.secret_for("demo").await;
        let spec = pool("public").network("public").max_ips(2).label("cluster.x-k8s.io/watch-filter", &filter);
        ready(ns, spec).await;
        let address = controller.diagnostics().await;
        let await_metric = async |metric: &str, value: &str| {
            eventually(HEALS, async || {
                let answer = reqwest::get(format!("http://{address}/metrics")).await.expect("it answers");
                let text = answer.text().await.expect("it answers to the end");
                let metric = metric.replace("POOL", &format!(r#"namespace="{}",pool="public""#, ns.name));
                let line = text.lines().find(|line| line.starts_with(&format!("{metric} "))).map(str::to_owned);
                match line {
                    Some(line) if line == format!("{metric} {value}") => Ok(()),
                    None if value.is_empty() => Ok(()),
                    line => Err(format!("{metric} is not {value:?}, but {line:?}")),
                }
            })
            .await;
        };
        await_metric("caip_pool_ready{POOL}", "1").await;
        await_metric("caip_pool_limit{POOL}", "2").await;
        // As hack/env/seed.py sets it.
        let (project, neutron) = (ns.cloud().await.project(), ns.cloud().await.endpoint());
        let quota = format!(r#"caip_quota_floating_ips{{project="{project}",neutron="{neutron}",kind="limit"}}"#);
        await_metric(&quota, "5000").await;
        ns.bind(claim("web-0")).await;
        ns.bind(claim("web-1")).await;
        refused(ns, "web-2", "PoolExhausted").await;
        await_metric(r#"caip_pool_addresses{POOL,state="allocated"}"#, "2").await;
        await_metric(r#"caip_pool_size{POOL}"#, "2").await;
        await_metric(r#"caip_claims_waiting{POOL,reason="PoolExhausted"}"#, "1").await;
        await_metric(r#"caip_allocations_total{source="created",result="success"}"#, "2").await;
        await_metric(r#"caip_openstack_requests_total{operation="create_floating_ip",result="ok"}"#, "2").await;
        release(ns, "web-2").await;
        await_metric(r#"caip_claims_waiting{POOL,reason="PoolExhausted"}"#, "0").await;
        release(ns, "web-0").await;
        await_metric(r#"caip_pool_addresses{POOL,state="allocated"}"#, "1").await;
        await_metric(r#"caip_openstack_requests_total{operation="delete_floating_ip",result="ok"}"#, "1").await;
        await_metric(r#"caip_released_floating_ips_total{how="deleted"}"#, "1").await;
        await_metric(r#"caip_releases_total{result="success"}"#, "2").await;
        release(ns, "web-1").await;
        ns.delete(Kind::Pool, "public").await;
        ns.await_gone(Kind::Pool, "public", HEALS).await;
        await_metric("caip_pool_ready{POOL}", "").await;
        await_metric(r#"caip_pool_size{POOL}"#, "").await;
        await_metric(&quota, "").await;
    })
    .await;
}
