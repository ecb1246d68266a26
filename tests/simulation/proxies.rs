//! A proxy in front of the API server answers 404 with a page. That says nothing about the object that was asked for.

use std::time::Duration;

use serde_json::json;

use crate::api::Kind;
use crate::users::key;
use crate::wire::Rejection;
use crate::world::{NAMESPACE, Start, World, address};
use crate::{simulate, simulate_bound};

const START: Start = Start { seed: 19, sites: 1, replicas: 1, slowest: 20, is_logged: true };
const SOON: Duration = Duration::from_secs(60);

#[test]
fn everything_is_deleted_although_a_proxy_answers_404_for_a_while() {
    for what in [
        "PATCH /apis/ipam.cluster.x-k8s.io/v1beta2/namespaces/team/ipaddressclaims",
        "PATCH /apis/ipam.cluster.x-k8s.io/v1beta2/namespaces/team/ipaddresses",
        "DELETE /apis/ipam.cluster.x-k8s.io/v1beta2/namespaces/team/ipaddresses",
        "GET /apis/ipam.cluster.x-k8s.io/v1beta2/namespaces/team/ipaddresses",
        "openstackfloatingippools",
        "PATCH /api/v1/namespaces/team/secrets",
        "GET /api/v1/namespaces/team/secrets",
        "configmaps",
    ] {
        simulate_bound(&START, async |world, site| {
            let list = json!({"spec": {"addressConfigMap": {"name": "addresses"}}});
            site.change(Kind::Pool, "public", &list);
            world.advance(SOON / 6).await;
            site.replicas[0].wire().expect("it runs").refuse(what, Rejection::Page, SOON / 2);
            site.delete(Kind::Claim, "web-0");
            world.advance(SOON / 6).await;
            site.delete(Kind::Pool, "public");
            site.delete(Kind::Secret, "cloud");
            let has = |kind: Kind, name: &str| site.server.get(&key(kind, name)).is_some();
            let kinds =
                [(Kind::Claim, "web-0"), (Kind::Address, "web-0"), (Kind::Pool, "public"), (Kind::Secret, "cloud")];
            for (kind, name) in kinds {
                let is_gone = world.wait_until(2 * SOON, || !has(kind, name)).await;
                world.expect(9, &format!("{kind:?} {name}"), &format!("gone, with 404 to {what}"), is_gone);
            }
            world.expect(4, "Neutron", &format!("empty, with 404 to {what}"), world.cloud.floating_ips().is_empty());
        });
    }
}

#[test]
fn an_address_that_a_cluster_of_capo_names_is_not_reused_while_a_proxy_answers_404() {
    let outcome = simulate(&START, async |world: &World| {
        let site = &world.sites[0];
        let named = world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(0)));
        let spec = json!({"apiServerFloatingIP": named.address.to_string()});
        let cluster = json!({"metadata": {"name": "c", "namespace": NAMESPACE}, "spec": spec});
        site.server.create(Kind::OpenStackCluster, cluster).expect("it is valid");
        world.wait_until(SOON, || site.replicas[0].wire().is_some()).await;
        // Not what the server lists that it serves.
        let wire = site.replicas[0].wire().expect("it runs");
        wire.refuse("infrastructure.cluster.x-k8s.io", Rejection::Page, 3 * SOON);
        let reuse = json!({"policy": "Unmarked", "minIdleSeconds": 0});
        site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}, "reuse": reuse}));
        site.create_claim("web-0", "public");
        world.advance(2 * SOON).await;
        let has = site.address_of("web-0").map(|(address, _)| address);
        world.expect(2, "web-0", "without the cluster's address", has != Some(named.address));
        let is_bound = world.wait_until(3 * SOON, || site.is_bound("web-0")).await;
        world.expect(7, "web-0", "bound once there is an answer", is_bound);
        let has = site.address_of("web-0").map(|(address, _)| address);
        world.expect(2, "web-0", "given another address", has != Some(named.address));
    });
    outcome.assert_lawful();
}

/// Law 7. The list failed while the pool was idle, and nothing tells when it would succeed.
#[test]
fn a_pool_reuses_again_soon_after_the_clusters_of_capo_could_not_be_listed() {
    for seed in 0..8 {
        let outcome = simulate(&Start { seed, ..START }, async |world: &World| {
            let site = &world.sites[0];
            let free = world.tamper(|world| world.cloud.create_at(&world.project, &world.network, address(0)));
            let reuse = json!({"policy": "Unmarked", "minIdleSeconds": 0});
            site.create_pool("public", &json!({"floatingIPNetwork": {"filter": {"name": "public"}}, "reuse": reuse}));
            world.advance(SOON).await;
            let wire = site.replicas[0].wire().expect("it runs");
            // An idle pool is reconciled at least once meanwhile.
            wire.refuse("openstackclusters", Rejection::Page, Duration::from_secs(80));
            world.advance(Duration::from_secs(80 + 26)).await;
            site.create_claim("web-0", "public");
            let given = world.await_bound("web-0").await;
            world.expect(7, "web-0", "given the free floating IP", given == Some(free.address));
        });
        outcome.assert_lawful();
    }
}
