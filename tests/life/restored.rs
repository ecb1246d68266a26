//! A restore from a backup into another management cluster: the objects come without status, owners and uids, in an
//! order that nobody chose with us in mind.

use super::workload::{KINDS, Workload};
use super::*;
use crate::support::{cloud_entry, clouds_yaml, pool, with_two_clusters};
use Kind::{Address, Claim, Cluster, InfrastructureCluster, Pool, Secret, Server};

/// All objects of a kind, as a backup has them.
async fn saved(ns: &Namespace, kind: Kind) -> Vec<Manifest> {
    let all = ns.list(kind).await;
    // Every namespace has Secrets of its own.
    let ours = all.into_iter().filter(|object| kind != Kind::Secret || object.name_any() == "cloud");
    ours.map(|object| {
        let kept = ["name", "labels", "annotations", "finalizers"];
        let mut metadata = serde_json::to_value(&object.metadata).expect("metadata is JSON");
        metadata.as_object_mut().expect("metadata is an object").retain(|field, _| kept.contains(&field.as_str()));
        let mut body = object.data;
        body.as_object_mut().expect("an object is one in JSON").remove("status");
        body["metadata"] = metadata;
        Manifest::new(kind, body)
    })
    .collect()
}

/// That pool serves a whole life: time enough to do wrong.
async fn time_passes(ns: &Namespace) {
    ns.bind(claim("sign").from("sign")).await;
    release(ns, "sign").await;
}

/// Everything is lost, and comes back elsewhere, kind by kind; `awaited`: the claims are served before the next kind comes.
async fn everything_is_restored(order: [Kind; 7], awaited: Option<Kind>) {
    with_two_clusters(async |lost, new| {
        lost.serve();
        let workload = Workload::create(lost).await;
        let mut backup = Vec::new();
        for kind in order {
            backup.push((kind, saved(lost, kind).await));
        }
        lost.crash();
        lost.lose(&KINDS).await;

        new.serve();
        clock(new).await;
        for (kind, objects) in backup {
            if awaited == Some(kind) {
                await_bound_count(new, workload.addresses.len()).await;
            }
            for object in objects {
                match new.try_create(object).await {
                    // What the controller made meanwhile stays as it is.
                    Err(kube::Error::Api(status)) if status.is_already_exists() && awaited == Some(kind) => {}
                    created => drop(created.expect("it can be restored")),
                }
            }
            time_passes(new).await;
        }
        workload.is_whole_in(new).await;
        workload.can_be_released_in(new).await;
    })
    .await;
}

/// A pool that has nothing to do with what is restored, by a way of its own to OpenStack: what it does takes time.
async fn clock(ns: &Namespace) {
    ns.secret("sign", &clouds_yaml(&cloud_entry("demo"))).await;
    let identity = json!({"name": "sign", "cloudName": "openstack"});
    ready(ns, pool("sign").with("identityRef", identity).network("public").served_in(&ns.name)).await;
}

#[tokio::test]
async fn restore_of_claims_first_and_their_cluster_last_gives_every_claim_its_address() {
    let order = [Claim, Address, Server, Pool, InfrastructureCluster, Secret, Cluster];
    everything_is_restored(order, None).await;
}

#[tokio::test]
async fn restore_of_addresses_first_and_their_pool_last_gives_every_claim_its_address() {
    let order = [Address, Secret, Cluster, InfrastructureCluster, Server, Claim, Pool];
    everything_is_restored(order, None).await;
}

#[tokio::test]
async fn restore_of_addresses_after_their_claims_are_served_finds_them_there() {
    let order = [Pool, Cluster, InfrastructureCluster, Secret, Server, Claim, Address];
    everything_is_restored(order, Some(Address)).await;
}

#[tokio::test]
async fn restore_of_addresses_before_their_claims_where_the_pool_works_gives_every_claim_its_address() {
    let order = [Secret, Pool, Address, Cluster, InfrastructureCluster, Server, Claim];
    everything_is_restored(order, None).await;
}
