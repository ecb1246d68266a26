//! Paused: nothing is done, deletion included.

use super::*;
use crate::support::{SOON, pool, with_namespace};

/// What can be paused, and how.
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

async fn nothing_is_done_while_it_is_on(switch: Switch) {
    with_namespace(async |ns| {
        served(ns, pool("public").network("public")).await;
        ready(ns, pool("other").network("public")).await;
        ns.create(cluster("prod", json!({}))).await;
        let cloud = ns.cloud().await;
        let name = named("web-0");
        // One that is bound before, another that comes while nothing is done.
        let before = ns.bind(claim("before").of_cluster("prod")).await;
        let mark = seen(cloud, &before).await;
        if switch.kind == Kind::Claim {
            ns.create(claim("web-0").of_cluster("prod").annotation(PAUSED, "")).await;
        } else {
            switch.set(ns, true).await;
            await_told(ns, switch).await;
            ns.create(claim("web-0").of_cluster("prod")).await;
            ns.release(&named("before")).await;
        }
        // Another pool works meanwhile.
        ns.bind(claim("sign").from("other")).await;
        release(ns, "sign").await;
        let waiting = ns.get(Kind::Claim, &name).await.expect("it is there");
        assert!(!is_protected(&waiting) && waiting.data["status"]["addressRef"].is_null(), "{waiting:?}");
        assert_eq!(seen(cloud, &before).await, mark);
        assert!(ns.get(Kind::Claim, &named("before")).await.is_some_and(|claim| is_protected(&claim)));

        switch.set(ns, false).await;
        let address = bound(ns, "web-0").await;
        if switch.kind == Kind::Claim {
            switch.set(ns, true).await;
            ns.release(&name).await;
            release(ns, "before").await;
            assert!(is_marked(&seen(cloud, &address).await) && !is_released(&seen(cloud, &address).await));
            switch.set(ns, false).await;
            ns.await_gone(Kind::Claim, &name, SOON).await;
            until_deleted(cloud, &address, HEALS).await;
        } else {
            ns.await_gone(Kind::Claim, &named("before"), SOON).await;
            until_deleted(cloud, &before, HEALS).await;
        }
    })
    .await;
}

/// A pool says that it is paused. Of a Cluster the controller says nothing; it sees it before the claim that comes later.
async fn await_told(ns: &Namespace, switch: Switch) {
    if switch.kind == Kind::Pool {
        ns.await_condition(Kind::Pool, "public", "Paused", "True", "Paused", SOON).await;
    } else {
        // The watches of Clusters and claims are two: one claim's life is time enough for the first.
        ns.bind(claim("first").from("other")).await;
        release(ns, "first").await;
    }
}

#[tokio::test]
async fn nothing_is_done_while_the_cluster_is_paused_by_its_spec() {
    nothing_is_done_while_it_is_on(Switch { kind: Kind::Cluster, name: "prod", is_spec: true }).await;
}

#[tokio::test]
async fn nothing_is_done_while_the_cluster_is_paused_by_an_annotation() {
    nothing_is_done_while_it_is_on(Switch { kind: Kind::Cluster, name: "prod", is_spec: false }).await;
}

#[tokio::test]
async fn nothing_is_done_while_the_claim_is_paused() {
    nothing_is_done_while_it_is_on(Switch { kind: Kind::Claim, name: "web-0-floating-ip-address", is_spec: false })
        .await;
}

#[tokio::test]
async fn nothing_is_done_while_the_pool_is_paused() {
    nothing_is_done_while_it_is_on(Switch { kind: Kind::Pool, name: "public", is_spec: false }).await;
}

#[tokio::test]
async fn pool_that_is_paused_while_it_is_deleted_waits() {
    with_namespace(async |ns| {
        let id = served(ns, pool("public").network("public").preallocate(1)).await;
        await_count(ns, "free", 1).await;
        ns.patch(Kind::Pool, "public", json!({"metadata": {"annotations": {PAUSED: ""}}})).await;
        ns.await_condition(Kind::Pool, "public", "Paused", "True", "Paused", SOON).await;
        ns.delete(Kind::Pool, "public").await;
        ready(ns, pool("other").network("public")).await;
        ns.bind(claim("sign").from("other")).await;
        assert_eq!(marked(ns.cloud().await, &id).await.len(), 1);
        assert!(ns.get(Kind::Pool, "public").await.is_some());
        ns.patch(Kind::Pool, "public", json!({"metadata": {"annotations": {PAUSED: null}}})).await;
        ns.await_gone(Kind::Pool, "public", SOON).await;
        assert_eq!(marked(ns.cloud().await, &id).await.len(), 0);
    })
    .await;
}

#[tokio::test]
async fn new_claim_waits_for_its_cluster_and_goes_without_it() {
    with_namespace(async |ns| {
        served(ns, pool("public").network("public")).await;
        ns.create(claim("web-0").of_cluster("prod")).await;
        let message = waits(ns, "web-0", "AllocationFailed").await;
        assert!(message.contains("Cluster prod"), "{message}");
        ns.create(cluster("prod", json!({}))).await;
        let address = bound(ns, "web-0").await;
        ns.delete(Kind::Cluster, "prod").await;
        ns.patch(Kind::Cluster, "prod", json!({"metadata": {"finalizers": null}})).await;
        ns.await_gone(Kind::Cluster, "prod", HEALS).await;
        release(ns, "web-0").await;
        until_deleted(ns.cloud().await, &address, HEALS).await;
    })
    .await;
}
