//! `clusterctl move` itself, between two management clusters, with a controller in each.

use kube::api::{Patch, PatchParams};

use super::workload::{KINDS, Workload};
use super::*;
use crate::support::{Move, unique, with_two_clusters};

/// What is left where it all was.
async fn left_in(ns: &Namespace) -> Vec<String> {
    let mut left = Vec::new();
    for kind in KINDS {
        left.extend(ns.list(kind).await.iter().map(|object| format!("{kind:?} {}", object.name_any())));
    }
    left
}

/// Waits until the move has brought an object.
async fn arrives(ns: &Namespace, kind: Kind, name: &str) {
    ns.await_object(kind, name, BURST, "there", |object| object.is_some()).await;
}

/// The user lets the Cluster go on, without which clusterctl does not begin again.
async fn unpause(ns: &Namespace) {
    ns.patch(Kind::Cluster, "prod", json!({"spec": {"paused": null}})).await;
}

/// Takes `delete-for-move` off what clusterctl copied with it, as a user would: it copies objects as they are, also those
/// that it was about to delete when it was cut off.
async fn mend(ns: &Namespace) {
    let path = "/metadata/annotations/clusterctl.cluster.x-k8s.io~1delete-for-move";
    let mended: Patch<Value> =
        Patch::Json(serde_json::from_value(json!([{"op": "remove", "path": path}])).expect("a patch"));
    for kind in KINDS {
        for object in ns.list(kind).await {
            if object.annotations().contains_key("clusterctl.cluster.x-k8s.io/delete-for-move") {
                let patched = ns.api(kind).patch(&object.name_any(), &PatchParams::default(), &mended).await;
                patched.expect("it can be annotated");
            }
        }
    }
}

#[tokio::test]
async fn clusterctl_move_leaves_every_claim_its_address_and_neutron_alone() {
    with_two_clusters(async |from, to| {
        from.serve();
        to.serve();
        let workload = Workload::create(from).await;
        Move::start(from, to).done().await;
        assert_eq!(left_in(from).await, [""; 0]);
        workload.is_whole_in(to).await;
        workload.can_be_released_in(to).await;
    })
    .await;
}

#[tokio::test]
async fn controllers_that_crash_while_clusterctl_moves_lose_and_make_no_address() {
    with_two_clusters(async |from, to| {
        from.serve();
        to.serve();
        let workload = Workload::create(from).await;
        let mut moving = Move::start(from, to);
        let claim = named("web-0");
        for (kind, name) in [(Kind::Pool, "public"), (Kind::Claim, &claim), (Kind::Address, &claim)] {
            arrives(to, kind, name).await;
            to.serve();
            from.serve();
        }
        assert!(moving.is_running(), "they crashed in the middle");
        for kind in [Kind::Address, Kind::Claim] {
            from.await_gone(kind, &claim, BURST).await;
            from.serve();
            to.serve();
        }
        moving.done().await;
        assert_eq!(left_in(from).await, [""; 0]);
        workload.is_whole_in(to).await;
        workload.can_be_released_in(to).await;
    })
    .await;
}

#[tokio::test]
async fn clusterctl_move_by_a_directory_leaves_every_claim_its_address_and_neutron_alone() {
    with_two_clusters(async |from, to| {
        from.serve();
        to.serve();
        let workload = Workload::create(from).await;
        let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(unique("moved"));
        std::fs::create_dir(&directory).expect("a directory can be made");
        Move::into_directory(from, &directory).done().await;
        // The old management cluster ends here: two that serve the same objects cannot be told apart.
        from.crash();
        from.lose(&KINDS).await;
        Move::from_directory(to, &directory).done().await;
        workload.is_whole_in(to).await;
        workload.can_be_released_in(to).await;
        std::fs::remove_dir_all(&directory).expect("it can be removed");
    })
    .await;
}

#[tokio::test]
async fn clusterctl_move_that_was_cut_off_twice_is_begun_again_and_leaves_every_claim_its_address() {
    with_two_clusters(async |from, to| {
        from.serve();
        to.serve();
        let workload = Workload::create(from).await;
        let claim = named("web-0");
        let moving = Move::start(from, to);
        arrives(to, Kind::Address, &claim).await;
        moving.kill();
        unpause(from).await;
        // Where it was it works on, and nothing is amiss: where it goes it is still paused.
        workload.is_whole_in(from).await;
        let moving = Move::start(from, to);
        from.await_gone(Kind::Address, &claim, BURST).await;
        moving.kill();
        unpause(from).await;
        Move::start(from, to).done().await;
        mend(to).await;
        workload.is_whole_in(to).await;
        // An IPAddress that the source made again while it worked on may be left there: nobody deletes it.
        from.crash();
        from.lose(&KINDS).await;
        workload.can_be_released_in(to).await;
    })
    .await;
}
