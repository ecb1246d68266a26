//! Deletion of everything, in ten of the 720 orders that the simulation tests (`tests/simulation/deletion.rs`): it
//! completes, and nothing is left in Neutron.

use super::*;
use crate::support::{pool, with_namespace};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Cluster,
    Claims,
    Addresses,
    Pool,
    Secret,
    Namespace,
}

use Step::{Addresses, Claims, Cluster, Namespace as All, Pool, Secret};

/// Each kind is first, last, and before and after each other one at least once.
const ORDERS: [[Step; 6]; 10] = [
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

async fn delete(ns: &Namespace, step: Step) {
    let all = async |kind: Kind| {
        for object in ns.list(kind).await {
            ns.delete(kind, &object.name_any()).await;
        }
    };
    match step {
        Cluster => all(Kind::Cluster).await,
        Claims => all(Kind::Claim).await,
        Addresses => all(Kind::Address).await,
        Pool => all(Kind::Pool).await,
        Secret => ns.delete(Kind::Secret, "cloud").await,
        All => delete_namespace(ns).await,
    }
}

async fn delete_everything(order: [Step; 6]) {
    with_namespace(async |ns| {
        let listed = ns.create_floating_ip("public").await.address;
        ns.create(cluster("prod", json!({}))).await;
        let id = create_served_pool(ns, pool("public").list([&listed]).network("public").min_free(1)).await;
        for number in 0..2 {
            ns.bind(claim(&format!("web-{number}")).of_cluster("prod").without_capo_finalizer()).await;
        }
        await_address_count(ns, "total", 3).await;
        for step in order {
            delete(ns, step).await;
        }
        eprintln!("{order:?}");
        await_namespace_deleted(ns, AFTER_LOST_CALLS).await;
        let cloud = ns.cloud().await;
        assert_eq!(marked_floating_ips(cloud, &id).await, [], "{order:?}");
        assert!(!is_marked(&floating_ip_of(cloud, &listed).await), "{order:?}: the predefined address is the user's");
    })
    .await;
}

#[tokio::test]
async fn deletion_in_any_of_ten_orders_completes_and_leaks_nothing() {
    for orders in ORDERS.chunks(5) {
        join_all(orders.iter().map(|order| delete_everything(*order))).await;
    }
}
