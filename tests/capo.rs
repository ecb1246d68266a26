//! CAPO's controllers, Cluster API's and Nova boot machines whose floating IPs come from our pools. `make e2e-capo` starts
//! the servers; a binary of its own, since `make test` has only stand-ins for CAPO's kinds.

#![allow(clippy::restriction, reason = "a panic fails the test")]
#![warn(clippy::dbg_macro, clippy::todo, clippy::unwrap_used)]

#[path = "capo/kubelets.rs"]
mod kubelets;
#[path = "capo/machines.rs"]
mod machines;
#[path = "capo/migration.rs"]
mod migration;
#[allow(dead_code, unused_imports, reason = "a vocabulary: not every scenario uses every word")]
mod support;

use std::collections::BTreeSet;

use kube::ResourceExt;
use serde_json::json;

use kubelets::with_kubelets;
use machines::{Machines, PATIENCE, claim_of, server};
use support::{Kind, Namespace, controller, eventually, pool, with_namespace};

/// What the scenarios here have in common: credentials and a controller.
async fn with_capo(scenario: impl AsyncFnOnce(&Namespace)) {
    with_namespace(async |ns| {
        ns.create_secret_for("demo").await;
        controller();
        scenario(ns).await;
        controller().assert_running();
    })
    .await;
}

#[tokio::test]
async fn a_server_gets_an_address_and_gives_it_back() {
    with_capo(async |ns| {
        ns.create(pool("public").network("public")).await;
        ns.create(server("web-0")).await;
        let address = ns.await_bound(&claim_of("web-0"), PATIENCE).await;
        machines::await_ready_servers(ns, 1).await;
        assert_eq!(machines::await_attached(ns, 1).await, BTreeSet::from([address.clone()]));

        ns.delete(Kind::Server, "web-0").await;
        ns.await_gone(Kind::Claim, &claim_of("web-0"), PATIENCE).await;
        machines::await_released(ns, &BTreeSet::from([address])).await;
    })
    .await;
}

#[tokio::test]
async fn machines_are_scaled_and_replaced_while_the_controller_dies() {
    with_capo(async |ns| {
        let started = ns.start_controller(&ns.world.account, &[]);
        ns.create(pool("public").network("public").served_in(&ns.name)).await;
        let machines = Machines::create(ns, 3, json!({"maxSurge": 1, "maxUnavailable": 0})).await;
        with_kubelets(ns, async {
            let first = machines.await_addresses(3).await;
            machines.scale(10).await;
            let mut used = machines.await_addresses(10).await;
            assert!(used.is_superset(&first), "a machine lost its address: {first:?}, {used:?}");
            machines.scale(3).await;
            let kept = machines.await_addresses(3).await;
            assert!(used.is_superset(&kept), "a machine changed its address: {used:?}, {kept:?}");
            machines::await_released(ns, &(&used - &kept)).await;

            machines.replace_all().await;
            eventually(PATIENCE, async || {
                let claims = ns.list(Kind::Claim).await.len();
                if claims > 3 { Ok(()) } else { Err("no machine is replaced yet") }
            })
            .await;
            started.kill();
            ns.start_controller(&ns.world.account, &[]);
            let replaced = machines.await_replaced(3).await;
            used.extend(replaced);
            machines.delete_cluster().await;
            machines::await_released(ns, &used).await;
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_machine_waits_while_the_pool_is_exhausted() {
    with_capo(async |ns| {
        ns.create(pool("public").network("public").max_ips(2)).await;
        let machines = Machines::create(ns, 2, json!({"maxSurge": 1, "maxUnavailable": 0})).await;
        with_kubelets(ns, async {
            machines.await_addresses(2).await;
            let bound: BTreeSet<_> = ns.list(Kind::Claim).await.iter().map(ResourceExt::name_any).collect();
            machines.scale(3).await;
            let third = eventually(PATIENCE, async || {
                let claims = ns.list(Kind::Claim).await;
                let new = claims.iter().map(ResourceExt::name_any).find(|name| !bound.contains(name));
                new.ok_or("there is no third claim")
            })
            .await;
            let message = ns.await_condition(Kind::Claim, &third, "Ready", "False", "PoolExhausted", PATIENCE).await;
            assert!(message.contains("maxIPs"), "{message}");

            // Cluster API makes another machine in its place, which waits in turn.
            let server = bound.first().and_then(|claim| claim.strip_suffix("-floating-ip-address"));
            ns.delete(Kind::Machine, server.expect("the claim has the name that CAPO gives it")).await;
            ns.await_bound(&third, PATIENCE).await;
            machines.scale(2).await;
            machines.await_addresses(2).await;
            machines.delete_cluster().await;
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_closed_list_keeps_its_addresses_when_all_machines_are_replaced() {
    with_capo(async |ns| {
        let mut listed = BTreeSet::new();
        for _ in 0..3 {
            listed.insert(ns.create_floating_ip("public").await.address);
        }
        ns.create(pool("public").list(listed.iter().cloned())).await;
        let machines = Machines::create(ns, 3, json!({"maxSurge": 0, "maxUnavailable": 1})).await;
        with_kubelets(ns, async {
            assert_eq!(machines.await_addresses(3).await, listed);
            machines.replace_all().await;
            assert_eq!(machines.await_replaced(3).await, listed);
            machines.delete_cluster().await;
        })
        .await;
        // They are the user's, and stay.
        for address in &listed {
            let found = ns.cloud().await.find(address).await.expect("a listed floating IP is never deleted");
            assert_eq!(found.port, None);
        }
    })
    .await;
}

#[tokio::test]
async fn a_migration_from_capos_pool_keeps_every_address_while_a_machine_is_recreated() {
    with_capo(migration::keep_addresses_while_a_machine_is_recreated).await;
}
