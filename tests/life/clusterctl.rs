//! `clusterctl move` itself, between two management clusters, with a controller in each.

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

/// Waits until an object of this kind is there, or until there is none; or until the move is over.
async fn meanwhile(moving: &mut Move, ns: &Namespace, kind: Kind, is_there: bool) {
    eventually(BURST, async || {
        let is_so = ns.list(kind).await.is_empty() != is_there;
        if is_so || !moving.is_running() { Ok(()) } else { Err("the move does not get that far") }
    })
    .await;
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
        for kind in [Kind::Pool, Kind::Claim, Kind::Address] {
            meanwhile(&mut moving, to, kind, true).await;
            to.serve();
            from.serve();
        }
        assert!(moving.is_running(), "they crashed in the middle");
        for kind in [Kind::Address, Kind::Claim] {
            meanwhile(&mut moving, from, kind, false).await;
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
