//! Everything is deleted, in ten orders of the 720 that the simulation takes (`tests/simulation/deletion.rs`): all ends,
//! and nothing is left in Neutron.

use futures::future::join_all;
use k8s_openapi::api::core::v1::Namespace as KubeNamespace;
use kube::Api;
use kube::api::DeleteParams;

use super::*;
use crate::support::{pool, with_namespace};

/// What is deleted, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Cluster,
    Claims,
    Addresses,
    Pool,
    Secret,
    Namespace,
}

use What::{Addresses, Claims, Cluster, Namespace as All, Pool, Secret};

/// Each kind is first, last, and before and after each other one at least once.
const ORDERS: [[What; 6]; 10] = [
    [Cluster, Claims, Addresses, Pool, Secret, All],
    [Secret, Pool, Addresses, Claims, Cluster, All],
    [All, Secret, Cluster, Pool, Claims, Addresses],
    [Addresses, Pool, Secret, Cluster, All, Claims],
    [Pool, Secret, All, Cluster, Addresses, Claims],
    [Claims, All, Pool, Secret, Addresses, Cluster],
    [Secret, Addresses, All, Claims, Pool, Cluster],
    [Addresses, Claims, Cluster, All, Secret, Pool],
    [Pool, Cluster, Claims, All, Addresses, Secret],
    [Cluster, Addresses, Secret, All, Claims, Pool],
];

async fn delete(ns: &Namespace, what: What) {
    let all = async |kind: Kind| {
        for object in ns.list(kind).await {
            ns.delete(kind, &object.name_any()).await;
        }
    };
    match what {
        Cluster => all(Kind::Cluster).await,
        Claims => all(Kind::Claim).await,
        Addresses => all(Kind::Address).await,
        Pool => all(Kind::Pool).await,
        Secret => ns.delete(Kind::Secret, "cloud").await,
        All => {
            let namespaces: Api<KubeNamespace> = Api::all(ns.world.client.clone());
            namespaces.delete(&ns.name, &DeleteParams::default()).await.expect("it can be deleted");
        }
    }
}

async fn everything_goes(order: [What; 6]) {
    with_namespace(async |ns| {
        let listed = ns.floating_ip("public").await.address;
        ns.create(cluster("prod", json!({}))).await;
        let id = served(ns, pool("public").list([&listed]).network("public").preallocate(1)).await;
        for number in 0..2 {
            ns.bind(claim(&format!("web-{number}")).of_cluster("prod").unheld()).await;
        }
        await_count(ns, "total", 3).await;
        for what in order {
            delete(ns, what).await;
        }
        let namespaces: Api<KubeNamespace> = Api::all(ns.world.client.clone());
        eventually(TROUBLE, async || match namespaces.get_opt(&ns.name).await {
            Ok(None) => Ok(()),
            Ok(Some(left)) => Err(format!("{order:?}: {:?}", left.status.and_then(|status| status.conditions))),
            Err(error) => Err(error.to_string()),
        })
        .await;
        let cloud = ns.cloud().await;
        assert_eq!(marked(cloud, &id).await, [], "{order:?}");
        assert!(
            cloud.find(&listed).await.is_some_and(|fip| !is_marked(&fip)),
            "{order:?}: the listed one is the user's"
        );
    })
    .await;
}

#[tokio::test]
async fn deletion_in_ten_orders_ends_and_leaves_nothing() {
    for some in ORDERS.chunks(5) {
        join_all(some.iter().map(|order| everything_goes(*order))).await;
    }
}
