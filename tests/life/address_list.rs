//! The ConfigMap of `spec.addressConfigMap`: current, repaired, moved and deleted; and what is left alone.

use super::workload::Workload;
use super::*;
use crate::support::{Move, SOON, pool, with_namespace, with_two_clusters};

const LIST: &str = "public-addresses";
const CURRENT: &str = "AddressConfigMapCurrent";
/// What docs/pool.md says, with a margin for servers that share two cores: an address is listed within 2 s.
const LISTED_WITHIN: Duration = Duration::from_secs(6);
/// What others change is repaired within half a minute.
const REPAIRED_WITHIN: Duration = Duration::from_secs(30);

fn start_controller(ns: &Namespace) {
    ns.start_controller(&ns.world.account, &["--address-config-maps"]);
}

fn pool_with_list(ns: &Namespace) -> PoolBuilder {
    pool("public").network("public").with("addressConfigMap", json!({"name": LIST})).served_in(&ns.name)
}

async fn await_state(ns: &Namespace, status: &str, reason: &str) -> String {
    ns.await_condition(Kind::Pool, "public", CURRENT, status, reason, REPAIRED_WITHIN).await
}

/// Waits until a ConfigMap has these addresses, in both forms and no other.
async fn await_list(ns: &Namespace, name: &str, addresses: &[&str], within: Duration) {
    let mut sorted: Vec<std::net::IpAddr> = addresses.iter().map(|it| it.parse().expect("an address")).collect();
    sorted.sort();
    let lines = |suffix: &str| sorted.iter().map(|address| format!("{address}{suffix}\n")).collect::<String>();
    let (lines, ranges) = (lines(""), lines("/32"));
    let is_it = |found: Option<&DynamicObject>| {
        found.is_some_and(|it| it.data["data"]["addresses"] == lines && it.data["data"]["cidrs"] == ranges)
    };
    ns.await_object(Kind::ConfigMap, name, within, &format!("the list of {addresses:?}"), is_it).await;
}

#[tokio::test]
async fn config_map_has_the_pools_addresses_while_claims_come_and_go() {
    with_namespace(async |ns| {
        start_controller(ns);
        ns.create_secret_for("demo").await;
        let listed = ns.create_floating_ip("public").await.address;
        let spec = pool_with_list(ns).list([&listed]).with("reuseGracePeriodSeconds", 60);
        ns.create(spec).await;
        await_state(ns, "True", "ConfigMapUpToDate").await;
        await_list(ns, LIST, &[&listed], LISTED_WITHIN).await;
        assert_eq!(ns.bind(claim("web-0")).await, listed);
        let created = ns.bind(claim("web-1")).await;
        await_list(ns, LIST, &[&listed, &created], LISTED_WITHIN).await;
        ns.await_event(Kind::Pool, "public", "ConfigMapUpToDate", "").await;
        let reasons: Vec<String> =
            ns.events(Kind::Pool, "public").await.into_iter().map(|(reason, _)| reason).collect();
        assert_eq!(reasons.iter().filter(|reason| *reason == "ConfigMapUpToDate").count(), 1, "{reasons:?}");

        ns.release(&claim_name("web-1")).await;
        ns.await_gone(Kind::Claim, &claim_name("web-1"), RECOVERY).await;
        await_list(ns, LIST, &[&listed], REPAIRED_WITHIN).await;
        let left = ns.cloud().await.find(&created).await;
        assert!(left.is_some(), "it left the list before it is deleted");
        ns.release(&claim_name("web-0")).await;
        ns.await_gone(Kind::Claim, &claim_name("web-0"), RECOVERY).await;
        delete_pool(ns, "public").await;
        ns.await_gone(Kind::ConfigMap, LIST, RECOVERY).await;
    })
    .await;
}

#[tokio::test]
async fn config_map_is_repaired_renamed_and_deleted() {
    with_namespace(async |ns| {
        start_controller(ns);
        ns.create_secret_for("demo").await;
        ns.create(pool_with_list(ns)).await;
        let address = ns.bind(claim("web-0")).await;
        await_list(ns, LIST, &[&address], LISTED_WITHIN).await;
        ns.patch(Kind::ConfigMap, LIST, json!({"data": {"addresses": "198.51.100.1\n", "theirs": "kept"}})).await;
        await_list(ns, LIST, &[&address], REPAIRED_WITHIN).await;
        let found = ns.get(Kind::ConfigMap, LIST).await.expect("it is there");
        assert_eq!(found.data["data"]["theirs"], "kept");
        ns.delete(Kind::ConfigMap, LIST).await;
        await_list(ns, LIST, &[&address], REPAIRED_WITHIN).await;

        ns.patch(Kind::Pool, "public", json!({"spec": {"addressConfigMap": {"name": "other"}}})).await;
        await_list(ns, "other", &[&address], SOON).await;
        ns.await_gone(Kind::ConfigMap, LIST, SOON).await;
        // The next process knows the name from the pool alone.
        ns.kill_controllers();
        start_controller(ns);
        ns.patch(Kind::Pool, "public", json!({"spec": {"addressConfigMap": null}})).await;
        ns.await_gone(Kind::ConfigMap, "other", SOON).await;
        let is_untold = |pool: Option<&DynamicObject>| pool.is_some_and(|pool| condition_of(pool, CURRENT).is_none());
        ns.await_object(Kind::Pool, "public", SOON, "without the condition", is_untold).await;
    })
    .await;
}

#[tokio::test]
async fn config_map_of_another_owner_is_left_as_it_is() {
    with_namespace(async |ns| {
        start_controller(ns);
        ns.create_secret_for("demo").await;
        let theirs = json!({"metadata": {"name": LIST}, "data": {"addresses": "theirs"}});
        let theirs = ns.create(Manifest::new(Kind::ConfigMap, theirs)).await;
        ns.create(pool_with_list(ns)).await;
        let message = await_state(ns, "False", "ConfigMapNameTaken").await;
        assert!(message.contains(LIST) && message.contains("delete it"), "{message}");
        let address = ns.bind(claim("web-0")).await;
        ns.await_condition(Kind::Pool, "public", "Ready", "True", "Ready", SOON).await;
        let found = ns.get(Kind::ConfigMap, LIST).await.expect("it is there");
        assert_eq!(found.resource_version(), theirs.resource_version(), "nothing of it is touched");
        ns.delete(Kind::ConfigMap, LIST).await;
        await_list(ns, LIST, &[&address], REPAIRED_WITHIN).await;
        await_state(ns, "True", "ConfigMapUpToDate").await;
    })
    .await;
}

#[tokio::test]
async fn controller_without_the_flag_writes_no_config_map_and_says_so() {
    with_namespace(async |ns| {
        ns.restart_controller();
        ns.create_secret_for("demo").await;
        ns.create(pool_with_list(ns)).await;
        let message = await_state(ns, "False", "ConfigMapsDisabled").await;
        assert!(message.contains("--address-config-maps"), "{message}");
        ns.bind(claim("web-0")).await;
        assert!(ns.get(Kind::ConfigMap, LIST).await.is_none());
    })
    .await;
}

#[tokio::test]
async fn clusterctl_move_takes_the_config_map_along() {
    with_two_clusters(async |from, to| {
        start_controller(from);
        start_controller(to);
        let workload = Workload::create(from).await;
        from.patch(Kind::Pool, "public", json!({"spec": {"addressConfigMap": {"name": LIST}}})).await;
        await_state(from, "True", "ConfigMapUpToDate").await;
        let listed = |found: DynamicObject| found.data["data"]["addresses"].as_str().map(str::to_owned);
        let before = listed(from.get(Kind::ConfigMap, LIST).await.expect("it is there"));
        Move::start(from, to).succeed().await;
        from.await_gone(Kind::ConfigMap, LIST, RECOVERY).await;
        workload.await_unchanged_in(to).await;
        await_state(to, "True", "ConfigMapUpToDate").await;
        let (moved, pool) = (to.get(Kind::ConfigMap, LIST).await, to.get(Kind::Pool, "public").await);
        let (moved, pool) = (moved.expect("it is there"), pool.expect("it is there"));
        assert_eq!(moved.owner_references()[0].uid, pool.uid().expect("it has one"));
        assert_eq!(listed(moved), before);
        workload.release_in(to).await;
    })
    .await;
}
