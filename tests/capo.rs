//! CAPO's controllers, Cluster API's and Nova boot machines whose floating IPs come from our pools. `make e2e-capo` starts
//! the servers; a binary of its own, since `make test` has only stand-ins for CAPO's kinds.

#![allow(clippy::restriction, reason = "a panic fails the test")]
#![warn(clippy::dbg_macro, clippy::todo, clippy::unwrap_used)]

#[path = "capo/clusters.rs"]
mod clusters;
#[path = "capo/kubeadm.rs"]
mod kubeadm;
#[path = "capo/kubelets.rs"]
mod kubelets;
#[path = "capo/machines.rs"]
mod machines;
#[path = "capo/migration.rs"]
mod migration;
#[allow(dead_code, unused_imports, reason = "a vocabulary: not every scenario uses every word")]
mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use kube::ResourceExt;
use serde_json::json;

use kubeadm::with_kubeadm;
use kubelets::{with_kubelets, with_kubelets_of};
use machines::{Machines, PATIENCE, claim_of, server};
use support::{
    FloatingIp, Kind, Move, Namespace, PROGRAM, apply_identity, claim, controller, delete_identity, eventually,
    label_namespace, leader_election_flags, pool, previous_program, with_namespace, with_two_clusters,
};

/// A frozen controller's calls to OpenStack end within this time.
const LONGEST_CALL: Duration = Duration::from_secs(35);

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

/// The server `web-0` gets an address; it is deleted, and Neutron has nothing of it.
async fn await_address_and_give_it_back(ns: &Namespace) {
    let address = ns.await_bound(&claim_of("web-0"), PATIENCE).await;
    machines::await_ready_servers(ns, 1).await;
    assert_eq!(machines::await_attached(ns, 1).await, BTreeSet::from([address.clone()]));

    ns.delete(Kind::Server, "web-0").await;
    ns.await_gone(Kind::Claim, &claim_of("web-0"), PATIENCE).await;
    machines::await_released(ns, &BTreeSet::from([address])).await;
}

#[tokio::test]
async fn a_server_gets_an_address_and_gives_it_back() {
    with_capo(async |ns| {
        ns.create(pool("public").network("public")).await;
        ns.create(server("web-0")).await;
        await_address_and_give_it_back(ns).await;
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
            machines.delete_cluster(&used).await;
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_machine_waits_while_the_pool_is_exhausted() {
    with_capo(async |ns| {
        ns.create(pool("public").network("public").max_ips(3)).await;
        let machines = Machines::create(ns, 2, json!({"maxSurge": 1, "maxUnavailable": 0})).await;
        with_kubelets(ns, async {
            machines.await_addresses(2).await;
            let first = ns.list(Kind::Claim).await.iter().map(ResourceExt::name_any).next().expect("there are two");
            // One of the two new machines gets the last address.
            machines.scale(4).await;
            let waiting = eventually(PATIENCE, async || {
                let claims = ns.list(Kind::Claim).await;
                let waiting = claims.iter().filter(|claim| claim.data["status"]["addressRef"]["name"].is_null());
                match (claims.len(), waiting.collect::<Vec<_>>().as_slice()) {
                    (4, [waiting]) => Ok(waiting.name_any()),
                    (claims, waiting) => Err(format!("{} of {claims} claims wait", waiting.len())),
                }
            })
            .await;
            let message = ns.await_condition(Kind::Claim, &waiting, "Ready", "False", "PoolExhausted", PATIENCE).await;
            assert!(message.contains("maxIPs"), "{message}");

            // Cluster API makes another machine in its place, which waits in turn.
            let server = first.strip_suffix("-floating-ip-address").expect("CAPO gives the claim its server's name");
            ns.delete(Kind::Machine, server).await;
            let address = ns.await_bound(&waiting, PATIENCE).await;
            let waited = waiting.strip_suffix("-floating-ip-address").expect("that is its server's name, too");
            machines::await_attached_to(ns, waited, &address).await;
            machines::await_running_machine(ns, waited).await;
            machines.scale(2).await;
            let used = machines.await_addresses(2).await;
            machines.delete_cluster(&used).await;
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
            machines.delete_cluster(&BTreeSet::new()).await;
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
async fn the_floating_ips_of_the_api_server_and_the_bastion_are_left_to_capo() {
    with_capo(async |ns| {
        let [api_server, bastion, free] = create_floating_ips(ns).await.map(|created| created.address);
        let named = json!({"apiServerFloatingIP": api_server, "bastion": clusters::bastion(&bastion)});
        clusters::create_infrastructure(ns, named).await;
        // All three are free: only the OpenStackCluster says that two of them are not to be taken.
        ns.create(pool("public").network("public").reuse_unmarked()).await;
        assert_eq!(ns.bind(claim("web-0")).await, free);
        let created = ns.bind(claim("web-1")).await;
        assert!(created != api_server && created != bastion, "{created} belongs to CAPO");

        clusters::create(ns).await;
        clusters::create_control_plane_machine(ns, "control-plane-0", json!({})).await;
        with_kubelets(ns, async {
            machines::await_attached_to(ns, "control-plane-0", &api_server).await;
            machines::await_attached_to(ns, "prod-bastion", &bastion).await;
            machines::await_running(ns, 1).await;
            clusters::delete_machine(ns, "control-plane-0").await;
            clusters::delete(ns).await;
        })
        .await;
        for address in [api_server, bastion] {
            let found = ns.cloud().await.find(&address).await.expect("CAPO keeps what its user has created");
            assert_eq!((found.port, found.description.as_str(), found.tags.len()), (None, "", 0));
        }
    })
    .await;
}

#[tokio::test]
async fn the_pool_says_that_capo_has_deleted_or_attached_one_of_its_addresses() {
    with_capo(async |ns| {
        let [deleted, attached, last] = create_floating_ips(ns).await;
        ns.create(pool("public").list([&deleted.address, &attached.address, &last.address])).await;
        clusters::create_infrastructure(ns, clusters::without_api_address()).await;
        clusters::create(ns).await;
        clusters::create_control_plane_machine(ns, "control-plane-0", clusters::with_address()).await;
        with_kubelets(ns, async {
            machines::await_attached_to(ns, "control-plane-0", &deleted.address).await;
            clusters::set_bastion(ns, clusters::bastion(&attached.address)).await;
            machines::await_attached_to(ns, "prod-bastion", &attached.address).await;
            clusters::await_failure(ns, &attached.address, "Attached").await;
            // CAPO takes it for the address that it gave the API server.
            clusters::delete_machine(ns, "control-plane-0").await;
            assert!(!ns.cloud().await.delete(&deleted.id).await, "CAPO no longer deletes it");
            clusters::await_failure(ns, &deleted.address, "NotFound").await;

            assert_eq!(ns.bind(claim("web-0")).await, last.address);
            ns.create(claim("web-1")).await;
            clusters::set_bastion(ns, json!({"enabled": false, "floatingIP": attached.address})).await;
            assert_eq!(ns.await_bound(&claim_of("web-1"), PATIENCE).await, attached.address);
            clusters::delete(ns).await;
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_control_plane_machine_gives_its_address_back_where_the_cluster_names_one_for_the_api_server() {
    with_capo(async |ns| {
        let only = ns.create_floating_ip("public").await.address;
        ns.create(pool("public").list([&only])).await;
        let mut named = clusters::without_api_address();
        named["apiServerFloatingIP"] = named["controlPlaneEndpoint"]["host"].clone();
        clusters::create_infrastructure(ns, named).await;
        clusters::create(ns).await;
        with_kubelets(ns, async {
            for machine in ["control-plane-0", "control-plane-1"] {
                clusters::create_control_plane_machine(ns, machine, clusters::with_address()).await;
                machines::await_attached_to(ns, machine, &only).await;
                clusters::delete_machine(ns, machine).await;
            }
            clusters::delete(ns).await;
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_bastion_that_is_replaced_keeps_its_reserved_address() {
    with_capo(async |ns| {
        let reserved = ns.create_floating_ip("public").await.address;
        ns.create(pool("public").network("public").reserve(&claim_of("prod-bastion"), &reserved)).await;
        clusters::apply_example(ns, "bastion/cluster.yaml", |manifest| {
            let mut bastion = clusters::bastion(&reserved);
            bastion["spec"]["floatingIPPoolRef"] = manifest["spec"]["bastion"]["spec"]["floatingIPPoolRef"].clone();
            assert!(manifest["spec"]["bastion"]["floatingIP"].is_string(), "without it CAPO deletes the address");
            manifest["spec"] = clusters::infrastructure(clusters::without_api_address());
            manifest["spec"]["bastion"] = bastion;
        })
        .await;
        clusters::create(ns).await;
        machines::await_attached_to(ns, "prod-bastion", &reserved).await;
        clusters::set_bastion(ns, json!({"enabled": false})).await;
        ns.await_gone(Kind::Claim, &claim_of("prod-bastion"), PATIENCE).await;
        clusters::set_bastion(ns, json!({"enabled": true})).await;
        machines::await_attached_to(ns, "prod-bastion", &reserved).await;
        clusters::delete(ns).await;
        assert!(ns.cloud().await.find(&reserved).await.is_some(), "it is the user's, and stays");
    })
    .await;
}

#[tokio::test]
async fn the_api_server_has_an_address_of_the_pool() {
    with_capo(async |ns| {
        ns.create(pool("public").network("public")).await;
        clusters::apply_example(ns, "api-endpoint/claim.yaml", |_| {}).await;
        let address = ns.await_bound("prod-api-server", PATIENCE).await;
        clusters::create_secrets(ns).await;
        clusters::apply_example(ns, "api-endpoint/cluster.yaml", |manifest| {
            if manifest["kind"] == "OpenStackCluster" {
                manifest["spec"]["apiServerFloatingIP"] = address.as_str().into();
            }
        })
        .await;
        with_kubelets(ns, async {
            for machine in ["control-plane-0", "control-plane-1"] {
                clusters::create_control_plane_machine(ns, machine, json!({})).await;
                machines::await_attached_to(ns, machine, &address).await;
                machines::await_running(ns, 1).await;
                let cluster = ns.get(Kind::Cluster, clusters::NAME).await.expect("the Cluster is there");
                assert_eq!(cluster.data["spec"]["controlPlaneEndpoint"]["host"], address.as_str());
                clusters::delete_machine(ns, machine).await;
            }
            clusters::delete(ns).await;
        })
        .await;
        assert!(ns.cloud().await.find(&address).await.is_some(), "it stays as long as its claim");
        ns.delete(Kind::Claim, "prod-api-server").await;
        machines::await_released(ns, &BTreeSet::from([address])).await;
    })
    .await;
}

#[tokio::test]
async fn the_workers_of_a_cluster_class_have_addresses_of_the_pool_that_the_cluster_names() {
    with_capo(async |ns| {
        ns.create(pool("public").network("public")).await;
        ns.create(pool("other").network("public")).await;
        clusters::create_from_class(ns).await;
        let machines = Machines::of_cluster(ns);
        let scenario = with_kubeadm(ns, async {
            let mut used = machines.await_addresses(5).await;
            clusters::change_workers(ns, 2, "public").await;
            let kept = machines.await_addresses(2).await;
            assert!(used.is_superset(&kept), "a machine changed its address: {used:?}, {kept:?}");
            clusters::change_workers(ns, 2, "other").await;
            clusters::await_claims_of(ns, "other", 2).await;
            used.extend(machines.await_addresses(2).await);
            machines.delete_cluster(&used).await;
        });
        with_kubelets(ns, scenario).await;
    })
    .await;
}

#[tokio::test]
async fn a_moved_cluster_keeps_its_addresses_and_is_scaled_in_its_new_management_cluster() {
    with_two_clusters(async |from, to| {
        from.create_secret_for("demo").await;
        clusters::make_secret_movable(from).await;
        from.restart_controller();
        to.restart_controller();
        from.create(pool("public").network("public").served_in(&from.name)).await;
        let machines = Machines::create(from, 3, json!({"maxSurge": 1, "maxUnavailable": 0})).await;
        with_kubelets_of(&[from, to], async {
            machines.await_addresses(3).await;
            let before = machines::await_attached_by_server(from).await;
            // No Cluster owns it: a label takes it along. No Cluster pauses it either: while it is moved, the controller may
            // write its IPAddress again, which then stays for five minutes.
            clusters::apply_example(from, "api-endpoint/claim.yaml", |_| {}).await;
            let endpoint = from.await_bound("prod-api-server", PATIENCE).await;
            Move::start(from, to).succeed().await;
            let left = clusters::objects_left_in(from).await;
            assert!(left.iter().all(|object| object == "Address prod-api-server"), "{left:?}");
            assert_eq!(to.await_bound("prod-api-server", PATIENCE).await, endpoint);

            clusters::await_control_plane(to).await;
            let machines = Machines::of_cluster(to);
            let kept = machines.await_addresses(3).await;
            assert_eq!(machines::await_attached_by_server(to).await, before);
            machines.scale(5).await;
            let used = machines.await_addresses(5).await;
            assert!(used.is_superset(&kept), "a machine lost its address: {kept:?}, {used:?}");
            machines.scale(2).await;
            let kept = machines.await_addresses(2).await;
            machines::await_released(to, &(&used - &kept)).await;
            eventually(PATIENCE, async || match clusters::objects_left_in(from).await {
                left if left.is_empty() => Ok(()),
                left => Err(format!("{left:?} are left")),
            })
            .await;
            to.delete(Kind::Claim, "prod-api-server").await;
            to.await_gone(Kind::Claim, "prod-api-server", PATIENCE).await;
            machines::await_released(to, &BTreeSet::from([endpoint])).await;
            machines.delete_cluster(&used).await;
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_rolling_update_completes_while_the_controller_is_killed_frozen_upgraded_and_rolled_back() {
    with_capo(async |ns| {
        let leading = leader_election_flags(&ns.name);
        let flags = leading.each_ref().map(String::as_str);
        let start = |program: &str| ns.start_build(program, &ns.world.account, &flags);
        let previous = previous_program();
        let controller = start(&previous);
        ns.create(pool("public").network("public").served_in(&ns.name)).await;
        let machines = Machines::create(ns, 5, json!({"maxSurge": 1, "maxUnavailable": 0})).await;
        with_kubelets(ns, async {
            let mut used = machines.await_addresses(5).await;
            machines.replace_all().await;
            machines.await_new(1).await;
            controller.kill();
            let mut controller = start(&previous);

            machines.await_new(2).await;
            controller.signal("STOP");
            machines::await_waiting_claim(ns).await;
            // Another replica takes over meanwhile.
            let frozen = std::mem::replace(&mut controller, start(&previous));
            tokio::time::sleep(LONGEST_CALL).await;
            frozen.signal("CONT");
            eventually(PATIENCE, async || frozen.ended().map(drop).ok_or("the former leader still runs")).await;

            // As in a rolling update of the Deployment, the next one is there before the last one ends.
            let mut change_to = |program: &str| {
                let former = std::mem::replace(&mut controller, start(program));
                assert!(former.terminate().success());
            };
            machines.await_new(3).await;
            change_to(PROGRAM);
            machines.await_new(4).await;
            change_to(&previous);
            used.extend(machines.await_replaced(5).await);
            change_to(PROGRAM);
            machines.delete_cluster(&used).await;
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_migration_from_capos_pool_keeps_every_address_while_a_machine_is_recreated() {
    with_capo(migration::keep_addresses_while_a_machine_is_recreated).await;
}

#[tokio::test]
async fn a_migration_from_capos_pool_gives_new_addresses_while_machines_are_recreated() {
    with_capo(migration::change_addresses_while_machines_are_recreated).await;
}

#[tokio::test]
async fn a_bastion_moves_from_capos_pool() {
    with_capo(migration::replace_a_bastion).await;
}

/// By CAPO's own kind, which CAPO has since 0.14.
#[tokio::test]
async fn a_pool_has_the_credentials_of_an_identity_of_capo_while_its_selector_allows_the_namespace() {
    with_namespace(async |platform| {
        with_capo(async |ns| {
            platform.create_secret_for("demo").await;
            let selector = json!({"matchLabels": {"identities": "shared"}});
            apply_identity(ns, &ns.name, (&platform.name, "cloud"), selector).await;
            let flag = format!("--cluster-identity-namespaces={}", platform.name);
            ns.start_controller(&ns.world.account, &[&flag]);
            ns.create(pool("public").cluster_identity(&ns.name).network("public").served_in(&ns.name)).await;
            ns.await_condition(Kind::Pool, "public", "Ready", "False", "NamespaceNotAllowed", PATIENCE).await;
            ns.create(server("web-0")).await;
            label_namespace(ns, Some("shared")).await;
            await_address_and_give_it_back(ns).await;
            ns.delete(Kind::Pool, "public").await;
            ns.await_gone(Kind::Pool, "public", PATIENCE).await;
            delete_identity(ns, &ns.name).await;
        })
        .await;
    })
    .await;
}

/// Free floating IPs of the project, as users create them.
async fn create_floating_ips(ns: &Namespace) -> [FloatingIp; 3] {
    let create = async || ns.create_floating_ip("public").await;
    [create().await, create().await, create().await]
}
