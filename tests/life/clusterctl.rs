//! The real `clusterctl move` between two management clusters with a controller each.

use kube::api::{Patch, PatchParams};

use super::workload::{KINDS, Workload};
use super::*;
use crate::support::{Move, unique, with_two_clusters};

/// Starts both controllers, and creates a workload cluster on the first side.
async fn create_workload(from: &Namespace, to: &Namespace) -> Workload {
    from.restart_controller();
    to.restart_controller();
    Workload::create(from).await
}

async fn objects_left_in(ns: &Namespace) -> Vec<String> {
    let mut left = Vec::new();
    for kind in KINDS {
        left.extend(ns.list(kind).await.iter().map(|object| format!("{kind:?} {}", object.name_any())));
    }
    left
}

async fn await_arrival(ns: &Namespace, kind: Kind, name: &str) {
    ns.await_object(kind, name, BURST, "there", |object| object.is_some()).await;
}

/// clusterctl does not move a paused Cluster.
async fn unpause(ns: &Namespace) {
    ns.patch(Kind::Cluster, "prod", json!({"spec": {"paused": null}})).await;
}

/// Removes `delete-for-move` from copied objects, as a user would: clusterctl also copies objects that it was about to
/// delete when it was interrupted.
async fn remove_delete_for_move(ns: &Namespace) {
    let path = "/metadata/annotations/clusterctl.cluster.x-k8s.io~1delete-for-move";
    let removal: Patch<Value> =
        Patch::Json(serde_json::from_value(json!([{"op": "remove", "path": path}])).expect("a patch"));
    for kind in KINDS {
        for object in ns.list(kind).await {
            if object.annotations().contains_key("clusterctl.cluster.x-k8s.io/delete-for-move") {
                let patched = ns.api(kind).patch(&object.name_any(), &PatchParams::default(), &removal).await;
                patched.expect("it can be annotated");
            }
        }
    }
}

#[tokio::test]
async fn clusterctl_move_keeps_every_address_without_a_write_to_neutron() {
    with_two_clusters(async |from, to| {
        let workload = create_workload(from, to).await;
        Move::start(from, to).succeed().await;
        assert_eq!(objects_left_in(from).await, [""; 0]);
        workload.await_unchanged_in(to).await;
        workload.release_in(to).await;
    })
    .await;
}

#[tokio::test]
async fn controllers_crashing_during_clusterctl_move_neither_lose_nor_create_addresses() {
    with_two_clusters(async |from, to| {
        let workload = create_workload(from, to).await;
        let mut moving = Move::start(from, to);
        let claim = claim_name("web-0");
        for (kind, name) in [(Kind::Pool, "public"), (Kind::Claim, &claim), (Kind::Address, &claim)] {
            await_arrival(to, kind, name).await;
            to.restart_controller();
            from.restart_controller();
        }
        assert!(moving.is_running(), "they crashed during the move");
        for kind in [Kind::Address, Kind::Claim] {
            from.await_gone(kind, &claim, BURST).await;
            from.restart_controller();
            to.restart_controller();
        }
        moving.succeed().await;
        assert_eq!(objects_left_in(from).await, [""; 0]);
        workload.await_unchanged_in(to).await;
        workload.release_in(to).await;
    })
    .await;
}

#[tokio::test]
async fn clusterctl_move_through_a_directory_keeps_every_address_without_a_write_to_neutron() {
    with_two_clusters(async |from, to| {
        let workload = create_workload(from, to).await;
        let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(unique("moved"));
        std::fs::create_dir(&directory).expect("a directory can be made");
        Move::into_directory(from, &directory).succeed().await;
        // The old management cluster ends here: two that serve the same objects cannot be distinguished.
        from.kill_controllers();
        from.delete_by_force(&KINDS).await;
        Move::from_directory(to, &directory).succeed().await;
        workload.await_unchanged_in(to).await;
        workload.release_in(to).await;
        std::fs::remove_dir_all(&directory).expect("it can be removed");
    })
    .await;
}

#[tokio::test]
async fn clusterctl_move_interrupted_twice_and_repeated_keeps_every_address() {
    with_two_clusters(async |from, to| {
        let workload = create_workload(from, to).await;
        let claim = claim_name("web-0");
        let moving = Move::start(from, to);
        await_arrival(to, Kind::Address, &claim).await;
        moving.kill();
        unpause(from).await;
        // The source serves again; the target is still paused.
        workload.await_unchanged_in(from).await;
        let moving = Move::start(from, to);
        from.await_gone(Kind::Address, &claim, BURST).await;
        moving.kill();
        unpause(from).await;
        Move::start(from, to).succeed().await;
        remove_delete_for_move(to).await;
        workload.await_unchanged_in(to).await;
        // An IPAddress that the source recreated meanwhile may stay there: clusterctl does not delete it.
        from.kill_controllers();
        from.delete_by_force(&KINDS).await;
        workload.release_in(to).await;
    })
    .await;
}
