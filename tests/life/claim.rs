//! Claims as CAPO creates them, and what they get.

use caip_openstack::api::IpamVersion;
use kube::ResourceExt;
use serde_json::json;

use super::*;
use crate::support::{pool, with_namespace};

fn assert_owners(address: &DynamicObject, claim: &DynamicObject, pool: &DynamicObject) {
    let version = &claim.types.as_ref().expect("it has a type").api_version;
    assert_eq!(
        serde_json::to_value(address.owner_references()).expect("owners are plain data"),
        json!([
            {
                "apiVersion": version, "kind": "IPAddressClaim", "name": claim.name_any(), "uid": claim.uid(),
                "controller": true, "blockOwnerDeletion": true
            },
            {
                "apiVersion": "ipam.cluster.x-k8s.io/v1alpha1", "kind": "OpenStackFloatingIPPool",
                "name": pool.name_any(), "uid": pool.uid(), "controller": false, "blockOwnerDeletion": true
            }
        ])
    );
}

/// The condition is also where v1beta1 has it.
fn assert_deprecated_condition(version: IpamVersion, claim: &DynamicObject) {
    let status = &claim.data["status"];
    let condition = match version {
        IpamVersion::V1Beta1 => &status["conditions"][0],
        IpamVersion::V1Beta2 => &status["deprecated"]["v1beta1"]["conditions"][0],
    };
    assert_eq!((&condition["type"], &condition["status"]), (&json!("Ready"), &json!("True")));
}

#[tokio::test]
async fn capo_claim_gets_a_new_address_and_all_that_the_contract_requires() {
    with_namespace(async |ns| {
        let (id, proxy) = create_served_pool_behind_proxy(ns, pool("public").network("public")).await;
        ns.create(cluster("prod", json!({}))).await;
        let address = ns.bind(claim("web-0").from("public").of_cluster("prod")).await;
        let name = claim_name("web-0");

        let claimed = ns.get(Kind::Claim, &name).await.expect("the claim is there");
        let public = ns.get(Kind::Pool, "public").await.expect("the pool is there");
        let object = ns.get(Kind::Address, &name).await.expect("it has the claim's name");
        let floating_ip = floating_ip_of(ns.cloud().await, &address).await;

        assert_eq!(
            object.data["spec"],
            json!({
                "address": address, "prefix": 32, "claimRef": {"name": name}, "poolRef": {
                    "apiGroup": "ipam.cluster.x-k8s.io", "kind": "OpenStackFloatingIPPool", "name": "public"
                }
            })
        );
        assert_owners(&object, &claimed, &public);
        assert!(is_protected(&object) && is_protected(&claimed) && is_protected(&public));
        assert_eq!(object.labels().get("cluster.x-k8s.io/cluster-name").map(String::as_str), Some("prod"));
        let annotation = |name: &str| {
            let full = format!("openstackfloatingippool.ipam.cluster.x-k8s.io/{name}");
            object.annotations().get(&full).cloned().unwrap_or_default()
        };
        assert_eq!(
            [annotation("pool-id"), annotation("floating-ip-id"), annotation("network-id"), annotation("origin")],
            [id.clone(), floating_ip.id.clone(), floating_ip.network.clone(), "created".into()]
        );

        ns.await_condition(Kind::Claim, &name, "Ready", "True", "AddressAllocated", RECOVERY).await;
        assert_deprecated_condition(ns.world.version, &claimed);
        ns.await_event(Kind::Claim, &name, "AddressAllocated", &address).await;

        let mark = format!("caip-openstack pool={id} nonce=");
        assert!(floating_ip.description.starts_with(&mark), "{floating_ip:?}");
        assert!(floating_ip.description.ends_with(&format!(" (claim {name} in {})", ns.name)), "{floating_ip:?}");
        assert_eq!(proxy.writes(), ["POST floatingips"]);
    })
    .await;
}

#[tokio::test]
async fn claims_of_other_pool_kinds_are_ignored() {
    with_namespace(async |ns| {
        create_served_pool(ns, pool("public").network("public")).await;
        ns.create(claim("in-tree").pool_ref("apiGroup", "infrastructure.cluster.x-k8s.io")).await;
        ns.create(claim("of-another-kind").pool_ref("kind", "InClusterIPPool")).await;
        ns.create(claim("misspelt").pool_ref("kind", "OpenStackFloatingIpPool")).await;
        ns.bind(claim("web-0")).await;
        for (server, is_told) in [("in-tree", true), ("of-another-kind", false), ("misspelt", true)] {
            let name = claim_name(server);
            let claim = ns.get(Kind::Claim, &name).await.expect("it is there");
            assert!(claim.data["status"].is_null() && !is_protected(&claim), "{claim:?}");
            let is_wrong = |(reason, _): &(String, String)| reason == "WrongPoolRef";
            eventually(RECOVERY, async || match ns.events(Kind::Claim, &name).await {
                events if events.iter().any(is_wrong) == is_told => Ok(()),
                events => Err(format!("{server}: {events:?}")),
            })
            .await;
        }
    })
    .await;
}

#[tokio::test]
async fn claim_deleted_right_after_its_creation_leaves_nothing_behind() {
    with_namespace(async |ns| {
        let id = create_served_pool(ns, pool("public").network("public")).await;
        // The controller sees some before they are deleted, some after, some never.
        let servers: Vec<String> = (0..8).map(|number| format!("web-{number}")).collect();
        join_all(servers.iter().map(async |server| {
            ns.create(claim(server).without_capo_finalizer()).await;
            ns.delete(Kind::Claim, &claim_name(server)).await;
        }))
        .await;
        for server in &servers {
            await_claim_gone(ns, server).await;
        }
        await_all_released(ns, &id, RESYNC).await;
    })
    .await;
}

#[tokio::test]
async fn claims_with_the_same_name_in_two_namespaces_get_one_address_each() {
    with_namespace(async |one| {
        with_namespace(async |two| {
            let ids = [
                create_served_pool(one, pool("public").network("public")).await,
                create_served_pool(two, pool("public").network("public")).await,
            ];
            let (first, second) = tokio::join!(one.bind(claim("web-0")), two.bind(claim("web-0")));
            assert_ne!(first, second);
            let cloud = one.cloud().await;
            for (id, address) in ids.iter().zip([&first, &second]) {
                assert_eq!(marked_addresses(cloud, id).await, [address.clone()].into(), "a pool marks only its own");
            }
            release_claim(one, "web-0").await;
            await_floating_ip_deleted(cloud, &first, RECOVERY).await;
            assert!(cloud.find(&second).await.is_some());
        })
        .await;
    })
    .await;
}
