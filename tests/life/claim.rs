//! A claim of CAPO's form and what it is given.

use caip_openstack::api::IpamVersion;
use kube::ResourceExt;
use serde_json::json;

use super::*;
use crate::support::{pool, with_namespace};

#[tokio::test]
async fn claim_of_capo_gets_a_new_address_by_the_contract() {
    with_namespace(async |ns| {
        let (id, wire) = served_by_wire(ns, pool("public").network("public")).await;
        ns.create(cluster("prod", json!({}))).await;
        let address = ns.bind(claim("web-0").from("public").of_cluster("prod")).await;
        let name = named("web-0");

        let claimed = ns.get(Kind::Claim, &name).await.expect("the claim is there");
        let public = ns.get(Kind::Pool, "public").await.expect("the pool is there");
        let object = ns.get(Kind::Address, &name).await.expect("it has the claim's name");
        let floating_ip = seen(ns.cloud().await, &address).await;

        assert_eq!(
            object.data["spec"],
            json!({
                "address": address, "prefix": 32, "claimRef": {"name": name}, "poolRef": {
                    "apiGroup": "ipam.cluster.x-k8s.io", "kind": "OpenStackFloatingIPPool", "name": "public"
                }
            })
        );
        let owners = serde_json::to_value(object.owner_references()).expect("owners are plain data");
        let version = claimed.types.as_ref().expect("it has a type").api_version.clone();
        assert_eq!(
            owners,
            json!([
                {
                    "apiVersion": version, "kind": "IPAddressClaim", "name": name, "uid": claimed.uid(),
                    "controller": true, "blockOwnerDeletion": true
                },
                {
                    "apiVersion": "ipam.cluster.x-k8s.io/v1alpha1", "kind": "OpenStackFloatingIPPool",
                    "name": "public", "uid": public.uid(), "controller": false, "blockOwnerDeletion": true
                }
            ])
        );
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

        ns.await_condition(Kind::Claim, &name, "Ready", "True", "AddressAllocated", HEALS).await;
        let status = &claimed.data["status"];
        let old_style = match ns.world.version {
            IpamVersion::V1Beta1 => &status["conditions"][0],
            IpamVersion::V1Beta2 => &status["deprecated"]["v1beta1"]["conditions"][0],
        };
        assert_eq!((&old_style["type"], &old_style["status"]), (&json!("Ready"), &json!("True")));
        let events = ns.events(Kind::Claim, &name).await;
        assert!(events.iter().any(|(reason, note)| reason == "AddressAllocated" && note.contains(&address)));

        let mark = format!("caip-openstack pool={id} nonce=");
        assert!(floating_ip.description.starts_with(&mark), "{floating_ip:?}");
        assert!(floating_ip.description.ends_with(&format!(" (claim {name} in {})", ns.name)), "{floating_ip:?}");
        assert_eq!(wire.writes(), ["POST floatingips"]);
    })
    .await;
}

#[tokio::test]
async fn claims_of_other_pools_are_left_alone() {
    with_namespace(async |ns| {
        served(ns, pool("public").network("public")).await;
        ns.create(claim("in-tree").pool_ref("apiGroup", "infrastructure.cluster.x-k8s.io")).await;
        ns.create(claim("of-another-kind").pool_ref("kind", "InClusterIPPool")).await;
        ns.bind(claim("web-0")).await;
        for server in ["in-tree", "of-another-kind"] {
            let claim = ns.get(Kind::Claim, &named(server)).await.expect("it is there");
            assert!(claim.data["status"].is_null() && !is_protected(&claim), "{claim:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn claim_that_is_deleted_as_soon_as_it_is_made_leaves_nothing() {
    with_namespace(async |ns| {
        let id = served(ns, pool("public").network("public")).await;
        // Some are seen before they are deleted, some after, some never.
        let names: Vec<String> = (0..8).map(|number| named(&format!("web-{number}"))).collect();
        let hasty = names.iter().enumerate().map(|(number, name)| async move {
            ns.create(claim(&format!("web-{number}")).unheld()).await;
            ns.delete(Kind::Claim, name).await;
        });
        futures::future::join_all(hasty).await;
        for name in &names {
            ns.await_gone(Kind::Claim, name, HEALS).await;
            ns.await_gone(Kind::Address, name, HEALS).await;
        }
        let cloud = ns.cloud().await;
        eventually(AUDITED, async || match marked(cloud, &id).await {
            left if left.is_empty() => Ok(()),
            left => Err(format!("left in Neutron: {left:?}")),
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn claims_of_one_name_in_two_namespaces_have_an_address_each() {
    with_namespace(async |one| {
        with_namespace(async |two| {
            let ids = [
                served(one, pool("public").network("public")).await,
                served(two, pool("public").network("public")).await,
            ];
            let (first, second) = tokio::join!(one.bind(claim("web-0")), two.bind(claim("web-0")));
            assert_ne!(first, second);
            let cloud = one.cloud().await;
            for (id, address) in ids.iter().zip([&first, &second]) {
                let marked: Vec<_> = marked(cloud, id).await.into_iter().map(|fip| fip.address).collect();
                assert_eq!(marked, [address.as_str()], "a pool marks its own and no other");
            }
            release(one, "web-0").await;
            until_deleted(cloud, &first, HEALS).await;
            assert!(cloud.find(&second).await.is_some());
        })
        .await;
    })
    .await;
}
