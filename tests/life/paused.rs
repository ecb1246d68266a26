//! Paused pools, claims and Clusters: nothing changes, deletion included.

use super::*;
use crate::support::{SOON, pool, with_namespace};

#[derive(Clone, Copy)]
struct Switch {
    kind: Kind,
    name: &'static str,
    is_spec: bool,
}

impl Switch {
    async fn set(self, ns: &Namespace, is_on: bool) {
        let change = match (self.is_spec, is_on) {
            (true, _) => json!({"spec": {"paused": is_on}}),
            (false, true) => json!({"metadata": {"annotations": {PAUSED: ""}}}),
            (false, false) => json!({"metadata": {"annotations": {PAUSED: null}}}),
        };
        ns.patch(self.kind, self.name, change).await;
    }
}

async fn nothing_changes_while_paused(switch: Switch) {
    with_namespace(async |ns| {
        create_served_pool(ns, pool("public").network("public")).await;
        create_ready_pool(ns, pool("other").network("public")).await;
        ns.create(cluster("prod", json!({}))).await;
        let cloud = ns.cloud().await;
        let name = claim_name("web-0");
        // One claim is bound before, another is created while paused.
        let before = ns.bind(claim("before").of_cluster("prod")).await;
        let mark = floating_ip_of(cloud, &before).await;
        if switch.kind == Kind::Claim {
            ns.create(claim("web-0").of_cluster("prod").annotation(PAUSED, "")).await;
        } else {
            switch.set(ns, true).await;
            await_paused(ns, switch).await;
            ns.create(claim("web-0").of_cluster("prod")).await;
            ns.release(&claim_name("before")).await;
        }
        bind_and_release_in(ns, "other").await;
        let waiting = ns.get(Kind::Claim, &name).await.expect("it is there");
        assert!(!is_protected(&waiting) && waiting.data["status"]["addressRef"].is_null(), "{waiting:?}");
        ns.await_event(Kind::Claim, &name, "Paused", "").await;
        assert_eq!(floating_ip_of(cloud, &before).await, mark);
        assert!(ns.get(Kind::Claim, &claim_name("before")).await.is_some_and(|claim| is_protected(&claim)));

        switch.set(ns, false).await;
        let address = await_bound(ns, "web-0").await;
        if switch.kind == Kind::Claim {
            switch.set(ns, true).await;
            ns.release(&name).await;
            release_claim(ns, "before").await;
            assert!(
                is_marked(&floating_ip_of(cloud, &address).await)
                    && !is_released(&floating_ip_of(cloud, &address).await)
            );
            switch.set(ns, false).await;
            ns.await_gone(Kind::Claim, &name, SOON).await;
            await_floating_ip_deleted(cloud, &address, RECOVERY).await;
        } else {
            ns.await_gone(Kind::Claim, &claim_name("before"), SOON).await;
            await_floating_ip_deleted(cloud, &before, RECOVERY).await;
        }
    })
    .await;
}

/// A pool says that it is paused; a Cluster does not.
async fn await_paused(ns: &Namespace, switch: Switch) {
    if switch.kind == Kind::Pool {
        ns.await_condition(Kind::Pool, "public", "Paused", "True", "Paused", SOON).await;
    } else {
        bind_and_release_in(ns, "other").await;
    }
}

#[tokio::test]
async fn nothing_changes_while_the_cluster_is_paused_by_its_spec() {
    nothing_changes_while_paused(Switch { kind: Kind::Cluster, name: "prod", is_spec: true }).await;
}

#[tokio::test]
async fn nothing_changes_while_the_cluster_is_paused_by_an_annotation() {
    nothing_changes_while_paused(Switch { kind: Kind::Cluster, name: "prod", is_spec: false }).await;
}

#[tokio::test]
async fn nothing_changes_while_the_claim_is_paused() {
    nothing_changes_while_paused(Switch { kind: Kind::Claim, name: "web-0-floating-ip-address", is_spec: false }).await;
}

#[tokio::test]
async fn nothing_changes_while_the_pool_is_paused() {
    nothing_changes_while_paused(Switch { kind: Kind::Pool, name: "public", is_spec: false }).await;
}

#[tokio::test]
async fn deleted_pool_waits_while_it_is_paused() {
    with_namespace(async |ns| {
        let id = create_served_pool(ns, pool("public").network("public").min_free(1)).await;
        await_address_count(ns, "free", 1).await;
        ns.patch(Kind::Pool, "public", json!({"metadata": {"annotations": {PAUSED: ""}}})).await;
        ns.await_condition(Kind::Pool, "public", "Paused", "True", "Paused", SOON).await;
        ns.delete(Kind::Pool, "public").await;
        create_ready_pool(ns, pool("other").network("public")).await;
        bind_and_release_in(ns, "other").await;
        assert_eq!(marked_floating_ips(ns.cloud().await, &id).await.len(), 1);
        assert!(ns.get(Kind::Pool, "public").await.is_some());
        ns.patch(Kind::Pool, "public", json!({"metadata": {"annotations": {PAUSED: null}}})).await;
        ns.await_gone(Kind::Pool, "public", SOON).await;
        assert_eq!(marked_floating_ips(ns.cloud().await, &id).await.len(), 0);
    })
    .await;
}

#[tokio::test]
async fn new_claim_waits_for_its_cluster_but_is_deleted_without_it() {
    with_namespace(async |ns| {
        create_served_pool(ns, pool("public").network("public")).await;
        ns.create(claim("web-0").of_cluster("prod")).await;
        let message = await_waiting(ns, "web-0", "AllocationFailed").await;
        assert!(message.contains("Cluster prod"), "{message}");
        ns.create(cluster("prod", json!({}))).await;
        let address = await_bound(ns, "web-0").await;
        ns.delete_by_force(&[Kind::Cluster]).await;
        release_claim(ns, "web-0").await;
        await_floating_ip_deleted(ns.cloud().await, &address, RECOVERY).await;
    })
    .await;
}

#[tokio::test]
async fn younger_claims_do_not_wait_for_one_whose_cluster_is_paused() {
    with_namespace(async |ns| {
        create_served_pool(ns, pool("public").network("public").max_ips(1)).await;
        ns.create(cluster("prod", json!({}))).await;
        ns.bind(claim("web-0")).await;
        ns.create(claim("web-1").of_cluster("prod")).await;
        await_waiting(ns, "web-1", "PoolExhausted").await;
        create_waiting_claim(ns, "web-2", "PoolExhausted").await;
        let cluster = Switch { kind: Kind::Cluster, name: "prod", is_spec: true };
        cluster.set(ns, true).await;
        release_claim(ns, "web-0").await;
        await_bound(ns, "web-2").await;
        cluster.set(ns, false).await;
        create_waiting_claim(ns, "web-3", "PoolExhausted").await;
        release_claim(ns, "web-2").await;
        await_bound(ns, "web-1").await;
    })
    .await;
}
