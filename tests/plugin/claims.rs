//! Who has this address, why has this machine none, how full are the pools?

use serde_json::json;

use super::*;
use crate::support::{Kind, Manifest, claim, controller, pool, with_external_network, with_namespace};

/// A pool that the run's controller serves; ready.
async fn served(ns: &Namespace, pool: crate::support::PoolBuilder) {
    ns.create_secret_for("demo").await;
    controller();
    let pool: Manifest = pool.into();
    let name = pool.name();
    ns.create(pool).await;
    ns.await_condition(Kind::Pool, &name, "Ready", "True", "Ready", crate::support::RECOVERY).await;
}

async fn refused(ns: &Namespace, server: &str, reason: &str) {
    ns.create(claim(server)).await;
    let name = format!("{server}-floating-ip-address");
    ns.await_condition(Kind::Claim, &name, "Ready", "False", reason, crate::support::RECOVERY).await;
}

fn text<'a>(value: &'a serde_json::Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("{field} is no text: {value:#}"))
}

#[tokio::test]
async fn a_bound_address_is_traced_to_its_machine_and_to_neutron() {
    with_namespace(async |ns| {
        served(ns, pool("public").network("public").max_ips(2)).await;
        let server = ns.create(Manifest::new(Kind::Server, json!({"metadata": {"name": "web-0"}}))).await;
        let address = ns.bind(claim("web-0").owned_by(&server)).await;
        let (code, found) = asked(ns, &["who-has", &address]).await;
        assert_eq!(code, 0, "{found:#}");
        let holder = &found["holders"][0];
        assert_eq!((text(holder, "claim"), text(holder, "pool")), ("web-0-floating-ip-address", "public"));
        assert_eq!((text(holder, "origin"), &holder["owners"]), ("created", &json!(["OpenStackServer web-0"])));
        let fip = ns.cloud().await.find(&address).await.expect("it is there");
        assert_eq!(found["floatingIps"][0]["id"], fip.id.as_str());
        let ownership = text(&found["floatingIps"][0], "ownership");
        assert!(ownership.contains("marked for claim") && ownership.contains("web-0"), "{ownership}");

        let (code, why) = asked(ns, &["explain", "web-0"]).await;
        assert_eq!((code, text(&why, "address")), (0, address.as_str()));
        let usage = asked(ns, &["usage"]).await.1;
        let figures = ["allocated", "free", "limit", "waiting"].map(|figure| usage[0][figure].as_u64());
        // The figures are reported a moment after a claim is bound.
        assert!(figures[0] <= Some(1) && figures[2] == Some(2) && figures[3] == Some(0), "{usage:#}");
    })
    .await;
}

#[tokio::test]
async fn an_address_that_nobody_has_is_looked_for_in_neutron() {
    with_namespace(async |ns| {
        served(ns, pool("public").network("public").excluded(["203.0.113.252"])).await;
        let own = ns.create_floating_ip("public").await;
        let (code, found) = asked(ns, &["who-has", &own.address]).await;
        assert_eq!((code, text(&found["floatingIps"][0], "ownership")), (1, "no pool has marked it"));
        let ended = plugin(ns, &["who-has", "203.0.113.252"]).await;
        assert_eq!(ended.code, 1);
        assert!(ended.out.contains("spec.excludedAddresses") && ended.out.contains("no such floating IP"), "{ended:?}");
        assert_eq!(plugin(ns, &["who-has", "web-0"]).await.code, 2, "no address");
    })
    .await;
}

#[tokio::test]
async fn a_claim_that_waits_learns_its_place_and_what_would_help() {
    with_namespace(async |ns| {
        served(ns, pool("public").network("public").max_ips(1)).await;
        ns.bind(claim("web-0")).await;
        refused(ns, "web-1", "PoolExhausted").await;
        let (code, why) = asked(ns, &["explain", "web-1-floating-ip-address"]).await;
        assert_eq!(code, 1);
        assert!(text(&why, "why").contains("spec.maxIPs (1)"), "{why:#}");
        assert_eq!((text(&why["condition"], "reason"), &why["place"]["position"]), ("PoolExhausted", &json!(1)));
        let remedies = why["remedies"].to_string();
        assert!(remedies.contains("raise spec.maxIPs to 2") && remedies.contains("delete one of the 1"), "{remedies}");
        // What is said to help does.
        ns.patch(Kind::Pool, "public", json!({"spec": {"maxIPs": 2}})).await;
        ns.await_bound("web-1-floating-ip-address", crate::support::RECOVERY).await;
        assert_eq!(asked(ns, &["explain", "web-1"]).await.0, 0);
    })
    .await;
}

#[tokio::test]
async fn an_address_that_a_cluster_names_is_not_counted_as_free() {
    with_external_network(4, async |ns, network| {
        let endpoint = ns.create_floating_ip(&network.name).await;
        let spec = json!({"apiServerFloatingIP": endpoint.address});
        let cluster = Manifest::new(Kind::InfrastructureCluster, json!({"metadata": {"name": "demo"}, "spec": spec}));
        ns.create(cluster).await;
        served(ns, pool("public").network(&network.name).reuse_unmarked()).await;
        ns.bind(claim("web-0")).await;
        let (code, why) = asked(ns, &["explain", "web-0"]).await;
        assert_eq!((code, &why["capacity"]["free"]), (0, &json!(0)), "{why:#}");
        ns.create_floating_ip(&network.name).await;
        let why = asked(ns, &["explain", "web-0"]).await.1;
        assert_eq!(why["capacity"]["free"], json!(1), "{why:#}");
    })
    .await;
}

#[tokio::test]
async fn an_address_of_the_list_that_cannot_be_given_is_named() {
    with_namespace(async |ns| {
        served(ns, pool("public").list(["203.0.113.252"])).await;
        refused(ns, "web-0", "PoolExhausted").await;
        let (code, why) = asked(ns, &["explain", "web-0"]).await;
        assert_eq!(code, 1);
        let remedies = why["remedies"].to_string();
        assert!(remedies.contains("203.0.113.252 is not a floating IP of the project"), "{remedies}");
    })
    .await;
}

#[tokio::test]
async fn a_pool_that_is_not_ready_and_a_cluster_that_is_paused_are_the_reason() {
    with_namespace(async |ns| {
        controller();
        ns.create(pool("public").network("public")).await;
        refused(ns, "web-0", "PoolNotReady").await;
        let (code, why) = asked(ns, &["explain", "web-0"]).await;
        assert!(code == 1 && text(&why, "why").contains("Secret cloud"), "{why:#}");
        let cluster = json!({"metadata": {"name": "demo"}, "spec": {
            "paused": true,
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackCluster", "name": "demo"}
        }});
        ns.create(Manifest::new(Kind::Cluster, cluster)).await;
        ns.create(claim("web-1").of_cluster("demo")).await;
        let (code, why) = asked(ns, &["explain", "web-1"]).await;
        assert_eq!((code, text(&why, "why")), (1, "its Cluster is paused"));
        assert!(text(&why, "next").contains("spec.paused"), "{why:#}");
        ns.patch(Kind::Cluster, "demo", json!({"spec": {"paused": false}})).await;
        ns.create_secret_for("demo").await;
        ns.await_bound("web-1-floating-ip-address", crate::support::RECOVERY).await;
    })
    .await;
}

#[tokio::test]
async fn what_does_not_exist_is_said_by_name() {
    with_namespace(async |ns| {
        let ended = plugin(ns, &["explain", "nothing"]).await;
        assert_eq!(ended.code, 3);
        assert!(ended.err.contains("nothing-floating-ip-address") && ended.out.is_empty(), "{ended:?}");
        let ended = plugin(ns, &["usage", "nothing"]).await;
        assert!(ended.code == 3 && ended.err.contains("OpenStackFloatingIPPool nothing"), "{ended:?}");
        assert_eq!(plugin(ns, &["usage"]).await.code, 0);
        let ended = plugin(ns, &["usage", "--context", "nowhere"]).await;
        assert!(ended.code == 4 && ended.err.contains("nowhere"), "{ended:?}");
    })
    .await;
}

#[tokio::test]
async fn the_users_own_cloud_serves_where_the_secret_does_not() {
    with_namespace(async |ns| {
        ns.create(pool("public").network("public")).await;
        ns.create(claim("web-0")).await;
        let (_, why) = asked(ns, &["explain", "web-0", "--os-cloud", "demo"]).await;
        assert!(text(&why, "why").contains("the pool may create one"), "{why:#}");
        let ended = plugin(ns, &["explain", "web-0", "--os-cloud", "nowhere"]).await;
        assert!(ended.code == 2 && ended.err.contains("nowhere"), "{ended:?}");
    })
    .await;
}
