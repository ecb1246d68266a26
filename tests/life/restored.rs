//! A restore from a backup into another management cluster: the objects arrive without status and uids, in any order, and
//! without owners or with those of the lost cluster.

use super::workload::{KINDS, Workload};
use super::*;
use crate::support::{cloud_entry, clouds_yaml, pool, with_two_clusters};
use Kind::{Address, Claim, Cluster, InfrastructureCluster, Pool, Secret, Server};

/// Whether a backup has the owners of IPAddresses, as Velero's have. In another cluster they are owners that do not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owners {
    Dropped,
    Kept,
}

/// All objects of a kind, as a backup has them.
async fn back_up(ns: &Namespace, kind: Kind, owners: Owners) -> Vec<Manifest> {
    let all = ns.list(kind).await;
    // Every namespace has Secrets of its own.
    let ours = all.into_iter().filter(|object| kind != Kind::Secret || object.name_any() == "cloud");
    ours.map(|object| {
        let mut kept = vec!["name", "labels", "annotations", "finalizers"];
        if (kind, owners) == (Kind::Address, Owners::Kept) {
            kept.push("ownerReferences");
        }
        let mut metadata = serde_json::to_value(&object.metadata).expect("metadata is JSON");
        metadata.as_object_mut().expect("metadata is an object").retain(|field, _| kept.contains(&field.as_str()));
        let mut body = object.data;
        body.as_object_mut().expect("an object is one in JSON").remove("status");
        body["metadata"] = metadata;
        Manifest::new(kind, body)
    })
    .collect()
}

/// Everything is lost and restored elsewhere, kind by kind; the claims are served before the kind `awaited` arrives.
async fn restore_everything(order: [Kind; 7], awaited: Option<Kind>, owners: Owners) {
    with_two_clusters(async |lost, new| {
        lost.restart_controller();
        let workload = Workload::create(lost).await;
        let mut backup = Vec::new();
        for kind in order {
            backup.push((kind, back_up(lost, kind, owners).await));
        }
        lost.kill_controllers();
        lost.delete_by_force(&KINDS).await;

        new.restart_controller();
        create_other_pool(new).await;
        for (kind, objects) in backup {
            if awaited == Some(kind) {
                await_bound_count(new, workload.addresses.len(), BURST).await;
            }
            for object in objects {
                match new.try_create(object).await {
                    // The controller has created it meanwhile.
                    Err(kube::Error::Api(status)) if status.is_already_exists() && awaited == Some(kind) => {}
                    created => drop(created.expect("it can be restored")),
                }
            }
            if (kind, owners) == (Kind::Address, Owners::Kept) {
                await_deleted_by_garbage_collector(new).await;
            }
            bind_and_release_in(new, "elsewhere").await;
        }
        workload.await_unchanged_in(new).await;
        workload.release_in(new).await;
    })
    .await;
}

/// Waits until every IPAddress is being deleted, or is gone.
async fn await_deleted_by_garbage_collector(ns: &Namespace) {
    eventually(BURST, async || {
        let addresses = ns.list(Kind::Address).await;
        let left = addresses.iter().filter(|address| address.metadata.deletion_timestamp.is_none()).count();
        if left == 0 { Ok(()) } else { Err(format!("{left} IPAddresses are not being deleted")) }
    })
    .await;
}

/// A pool that is not part of the restore, with credentials of its own.
async fn create_other_pool(ns: &Namespace) {
    ns.apply_secret("elsewhere", &clouds_yaml(&cloud_entry("demo"))).await;
    let identity = json!({"name": "elsewhere", "cloudName": "openstack"});
    create_ready_pool(ns, pool("elsewhere").with("identityRef", identity).network("public").served_in(&ns.name)).await;
}

#[tokio::test]
async fn restoring_claims_first_and_their_cluster_last_keeps_every_address() {
    let order = [Claim, Address, Server, Pool, InfrastructureCluster, Secret, Cluster];
    restore_everything(order, None, Owners::Dropped).await;
}

#[tokio::test]
async fn restoring_addresses_first_and_their_pool_last_keeps_every_address() {
    let order = [Address, Secret, Cluster, InfrastructureCluster, Server, Claim, Pool];
    restore_everything(order, None, Owners::Dropped).await;
}

#[tokio::test]
async fn restoring_addresses_after_their_claims_are_served_changes_nothing() {
    let order = [Pool, Cluster, InfrastructureCluster, Secret, Server, Claim, Address];
    restore_everything(order, Some(Address), Owners::Dropped).await;
}

#[tokio::test]
async fn restoring_addresses_before_their_claims_into_a_ready_pool_keeps_every_address() {
    let order = [Secret, Pool, Address, Cluster, InfrastructureCluster, Server, Claim];
    restore_everything(order, None, Owners::Dropped).await;
}

#[tokio::test]
async fn restoring_addresses_with_owners_that_do_not_exist_before_their_claims_keeps_every_address() {
    let order = [Secret, Pool, Address, Cluster, InfrastructureCluster, Server, Claim];
    restore_everything(order, None, Owners::Kept).await;
}
