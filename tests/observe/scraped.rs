//! Two controllers, one that is read by HTTPS with a token and one by plain HTTP, and a real Prometheus that reads them.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use super::dashboard::{queries, variables};
use super::families::series_names;
use super::{metrics_in, rules};
use crate::support::{
    Controller, Kind, Namespace, Prometheus, RECOVERY, claim, eventually, pool, unique, with_namespace,
};

const ADDRESS: &str = "--diagnostics-address=127.0.0.1:0";

/// A ServiceAccount that may read /metrics, like that of a Prometheus.
struct Reader {
    name: String,
    token: String,
}

impl Reader {
    async fn new(ns: &Namespace) -> Self {
        let (client, name) = (ns.world.client.clone(), unique("metrics-reader"));
        let account: ServiceAccount = object(json!({"metadata": {"name": name}}));
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &ns.name);
        accounts.create(&PostParams::default(), &account).await.expect("an account can be made");
        let rule = json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]});
        let role: ClusterRole = object(json!({"metadata": {"name": name}, "rules": [rule]}));
        Api::all(client.clone()).create(&PostParams::default(), &role).await.expect("a role can be made");
        let binding: ClusterRoleBinding = object(json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "namespace": ns.name, "name": name}],
        }));
        Api::all(client).create(&PostParams::default(), &binding).await.expect("a binding can be made");
        let request = TokenRequest { spec: TokenRequestSpec::default(), ..TokenRequest::default() };
        let issued = accounts.create_token_request(&name, &PostParams::default(), &request).await;
        let token = issued.expect("a token can be had").status.expect("it is issued").token;
        Self { name, token }
    }

    async fn end(self, ns: &Namespace) {
        let client = &ns.world.client;
        let (roles, bindings) =
            (Api::<ClusterRole>::all(client.clone()), Api::<ClusterRoleBinding>::all(client.clone()));
        roles.delete(&self.name, &DeleteParams::default()).await.expect("a role can be deleted");
        bindings.delete(&self.name, &DeleteParams::default()).await.expect("a binding can be deleted");
    }
}

fn object<T: serde::de::DeserializeOwned>(body: Value) -> T {
    serde_json::from_value(body).expect("it is an object of that kind")
}

/// The two controllers, and the Prometheus that reads them as a ServiceMonitor would have it: the labels `namespace` and
/// `pool` of a sample are the pool's, not the scraped pod's.
async fn prometheus(ns: &Namespace, reader: &Reader) -> Prometheus {
    let secure: Arc<Controller> = ns.start_controller(&ns.world.account, &[ADDRESS]);
    let filter = format!("--watch-filter={}-plain", ns.name);
    let plain = ns.start_controller(&ns.world.account, &[ADDRESS, "--insecure-diagnostics", &filter]);
    let job = |name: &str, scheme: &str, address: String| {
        json!({
            "job_name": name, "scheme": scheme, "honor_labels": true,
            "static_configs": [{"targets": [address], "labels": {"namespace": "caip-openstack-system"}}],
        })
    };
    let mut by_https = job("secure", "https", secure.diagnostics().await);
    by_https["authorization"] = json!({"credentials": reader.token});
    by_https["tls_config"] = json!({"insecure_skip_verify": true});
    let jobs = json!([by_https, job("plain", "http", plain.diagnostics().await)]);
    Prometheus::start(&jobs, &rules(&[])).await
}

/// Waits until a query has `count` results.
async fn await_results(prometheus: &Prometheus, query: &str, count: usize) -> Vec<Value> {
    await_results_within(RECOVERY, prometheus, query, count).await
}

async fn await_results_within(within: Duration, prometheus: &Prometheus, query: &str, count: usize) -> Vec<Value> {
    eventually(within, async || match prometheus.query(query).await {
        Ok(found) if found.len() == count => Ok(found),
        found => Err(format!("{query} has not {count} results: {found:?}")),
    })
    .await
}

/// Waits until a query has one result with this value.
async fn await_value(prometheus: &Prometheus, query: &str, value: &str) {
    eventually(RECOVERY, async || match prometheus.query(query).await.as_deref() {
        Ok([one]) if one["value"][1] == value => Ok(()),
        found => Err(format!("{query} is not {value}: {found:?}")),
    })
    .await;
}

#[tokio::test]
async fn prometheus_scrapes_what_alerts_and_dashboard_need() {
    with_namespace(async |ns| {
        let reader = Reader::new(ns).await;
        let prometheus = prometheus(ns, &reader).await;
        await_value(&prometheus, r#"up{job="plain"}"#, "1").await;
        await_value(&prometheus, r#"up{job="secure"}"#, "1").await;
        let of = |pool: &str| format!(r#"namespace="{}",pool="{pool}""#, ns.name);

        // Without any pool: counters start at 0, and there are no series of pools.
        await_value(&prometheus, r#"caip_openstack_releases_total{job="secure",result="failure"}"#, "0").await;
        await_results(&prometheus, "caip_openstack_pool_size", 0).await;

        let (public, other, leaving) = (of("public"), of("other"), of("leaving"));
        check_pools_without_claims(ns, &prometheus, &public, &other).await;

        ns.bind(claim("web-0")).await;
        ns.bind(claim("web-1")).await;
        ns.create(claim("web-2")).await;
        create_leaving_pool(ns).await;
        await_results(&prometheus, &format!("caip_openstack_pool_deletion_timestamp_seconds{{{leaving}}}"), 1).await;
        await_value(&prometheus, &format!(r#"caip_openstack_claims_waiting{{{public},reason="PoolExhausted"}}"#), "1")
            .await;
        check_panels(&prometheus, &ns.name).await;
        check_alerts(&prometheus, &ns.name).await;

        for server in ["web-2", "web-0", "web-1", "web-3"] {
            ns.release(&format!("{server}-floating-ip-address")).await;
        }
        await_value(&prometheus, &format!(r#"sum(caip_openstack_claims_waiting{{{public}}})"#), "0").await;
        ns.delete(Kind::Pool, "public").await;
        for (pool, labels) in [("public", &public), ("leaving", &leaving)] {
            ns.await_gone(Kind::Pool, pool, RECOVERY).await;
            await_results(&prometheus, &format!(r#"{{__name__=~"caip_openstack_.+",{labels}}}"#), 0).await;
        }
        await_results(&prometheus, r#"{__name__=~"caip_openstack_quota_.+",job="secure"}"#, 0).await;
        await_value(&prometheus, &format!("caip_openstack_pool_ready{{{other}}}"), "1").await;
        reader.end(ns).await;
    })
    .await;
}

/// All series of a pool exist before there is any claim. `public` and `other` are the labels of the two pools.
async fn check_pools_without_claims(ns: &Namespace, prometheus: &Prometheus, public: &str, other: &str) {
    ns.create_secret_for("demo").await;
    // The controller writes no ConfigMaps, and shows that.
    let public_pool = pool("public").network("public").max_ips(2).with("addressConfigMap", json!({"name": "public"}));
    ns.create(public_pool.served_in(&ns.name)).await;
    ns.create(pool("other").network("public").max_ips(1).served_in(&format!("{}-plain", ns.name))).await;
    ns.await_condition(Kind::Pool, "public", "Ready", "True", "Ready", RECOVERY).await;
    await_results(prometheus, &format!("caip_openstack_pool_addresses{{{public}}}"), 4).await;
    await_results(prometheus, &format!("caip_openstack_claims_waiting{{{public}}} == 0"), 3).await;
    await_value(prometheus, &format!("caip_openstack_pool_exhausted{{{public}}}"), "0").await;
    await_value(prometheus, &format!(r#"caip_openstack_pool_ready{{{other},job="plain"}}"#), "1").await;
    await_value(prometheus, &format!("caip_openstack_pool_capacity{{{public}}}"), "2").await;
    // The cloud's series start at 0, for each controller that uses it.
    await_results(prometheus, r#"caip_openstack_allocations_total{origin="created",result="success"} == 0"#, 2).await;
    // Two pools share one project. On a busy machine the first reading may fail; the next comes after half a minute.
    let quota = r#"caip_openstack_quota_used_floating_ips{job="secure"}"#;
    await_results_within(RECOVERY * 3, prometheus, quota, 1).await;
}

/// A pool that is being deleted, and waits for the claim of `web-3`.
async fn create_leaving_pool(ns: &Namespace) {
    ns.create(pool("leaving").network("public").served_in(&ns.name)).await;
    ns.bind(claim("web-3").from("leaving")).await;
    ns.delete(Kind::Pool, "leaving").await;
}

/// Every panel has a number to show, and every variable something to choose from.
async fn check_panels(prometheus: &Prometheus, namespace: &str) {
    let is_number = |series: &Value| series["value"][1].as_str().is_some_and(|value| value != "NaN");
    for query in queries().into_iter().chain(variables()) {
        let asked = query.expression.replace("$__rate_interval", "1m").replace("$namespace", namespace);
        let asked = asked.replace("$pool", ".*").replace("$cloud", ".*").replace("$job", "secure|plain");
        assert!(!asked.contains('$'), "{asked}");
        eventually(RECOVERY, async || match prometheus.query(&asked).await {
            Ok(found) if found.iter().any(is_number) => Ok(()),
            found => Err(format!("{:?} is empty: {asked}: {found:?}", query.panel)),
        })
        .await;
    }
}

/// Prometheus evaluates each rule without error, over series that it has scraped, and the expected alerts are active.
async fn check_alerts(prometheus: &Prometheus, namespace: &str) {
    let known = prometheus.metric_names().await;
    let missing: Vec<_> = series_names().into_iter().filter(|name| !known.contains(name)).collect();
    assert!(missing.is_empty(), "never scraped: {missing:?}");
    let rules = eventually(RECOVERY, async || {
        let rules = prometheus.rules().await;
        let unknown = rules.iter().find(|rule| rule["health"] != "ok");
        unknown.map_or(Ok(rules.clone()), |rule| Err(format!("{rule}")))
    })
    .await;
    for rule in &rules {
        let (name, expression) = (&rule["name"], rule["query"].as_str().expect("a rule has a query"));
        let asked: Vec<&str> = metrics_in(expression).collect();
        assert!(!asked.is_empty(), "{name}");
        let unknown: Vec<_> = asked.into_iter().filter(|metric| !known.contains(*metric)).collect();
        assert!(unknown.is_empty(), "{name} asks for {unknown:?}");
        prometheus.query(expression).await.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let told = |alert: &str| format!(r#"ALERTS{{alertname="{alert}",namespace="{namespace}",pool="public"}}"#);
    await_results(prometheus, &told("CaipPoolExhausted"), 1).await;
    await_results(prometheus, &told("CaipPoolNearlyExhausted"), 3).await;
    await_results(prometheus, r#"ALERTS{alertname="CaipLeaderMissing"}"#, 0).await;
}
