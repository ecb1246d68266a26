//! What users do in a run. Each workload is a short script that waits for the effect of each of its steps.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::sleep;

use super::scene::{PATIENCE, Scene};
use crate::support::{FloatingIp, Kind, Manifest, Move, Namespace, claim, cluster, owner_reference, pool};

/// How long a user pauses a Cluster. What happens meanwhile may be seen before or after the pause: the end is the same.
const PAUSE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Debug)]
pub enum Workload {
    /// A pool is created, and a claim, which gets a new address.
    Bind,
    /// A claim with a new address is released; the address is deleted.
    ReleaseCreated,
    /// A claim with a listed address is released; the address goes back to the list.
    ReleaseListed,
    /// A claim that waits for the only listed address gets it when another one is released.
    ServeFromList,
    /// A claim that waits because of `maxIPs` gets an address when another one is released.
    ServeAtLimit,
    /// A pool is deleted while a claim has an address of it, and another one is free.
    DeletePool,
    /// A pool creates a spare, a claim gets it, and the pool creates another one.
    Replenish,
    /// A Cluster is paused while one of its claims is released and another one created.
    Pause,
    /// `clusterctl move` moves everything to another management cluster.
    Move,
}

impl Workload {
    pub const ALL: [Self; 9] = [
        Self::Bind,
        Self::ReleaseCreated,
        Self::ReleaseListed,
        Self::ServeFromList,
        Self::ServeAtLimit,
        Self::DeletePool,
        Self::Replenish,
        Self::Pause,
        Self::Move,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Bind => "bind",
            Self::ReleaseCreated => "release-created",
            Self::ReleaseListed => "release-listed",
            Self::ServeFromList => "serve-from-list",
            Self::ServeAtLimit => "serve-at-limit",
            Self::DeletePool => "delete-pool",
            Self::Replenish => "replenish",
            Self::Pause => "pause",
            Self::Move => "move",
        }
    }

    pub fn is_between_clusters(self) -> bool {
        self == Self::Move
    }

    /// Everything that must be there before; it is not perturbed.
    pub async fn prepare(self, scene: &Scene<'_>) {
        let new = pool("public").network("public");
        match self {
            Self::Bind | Self::Replenish => {}
            Self::ReleaseCreated => {
                scene.create_pool(new).await;
                scene.bind("web-0").await;
            }
            Self::ReleaseListed | Self::ServeFromList => {
                let listed = scene.create_floating_ip("listed").await;
                scene.create_pool(pool("public").list([listed.address])).await;
                scene.bind("web-0").await;
            }
            Self::ServeAtLimit => {
                scene.create_pool(new.max_ips(1)).await;
                scene.bind("web-0").await;
            }
            Self::DeletePool => {
                scene.create_pool(new.min_free(1)).await;
                scene.bind("web-0").await;
            }
            Self::Pause => {
                scene.create_pool(new).await;
                scene.create(cluster("prod", json!({}))).await;
                scene.ns().bind_within(claim("web-0").of_cluster("prod"), PATIENCE).await;
            }
            Self::Move => prepare_move(scene).await,
        }
        if matches!(self, Self::ServeFromList | Self::ServeAtLimit) {
            scene.create_waiting("web-1", "PoolExhausted").await;
        }
        // The last write.
        match self {
            Self::Bind | Self::Replenish => {}
            Self::DeletePool => scene.await_counts(1, 1).await,
            _ => scene.await_counts(1, 0).await,
        }
    }

    pub async fn perform(self, scene: &Scene<'_>) {
        match self {
            Self::Bind => {
                scene.create_pool(pool("public").network("public")).await;
                scene.bind("web-0").await;
            }
            Self::ReleaseCreated => {
                let address = address_of(scene, "web-0").await;
                scene.release("web-0").await;
                scene.await_floating_ip(&address, |found| found.is_none()).await;
            }
            Self::ReleaseListed => {
                let address = address_of(scene, "web-0").await;
                scene.release("web-0").await;
                scene.await_floating_ip(&address, |found| found.is_some_and(is_unmarked)).await;
            }
            Self::ServeFromList | Self::ServeAtLimit => {
                scene.release("web-0").await;
                scene.await_bound("web-1").await;
            }
            Self::DeletePool => delete_pool(scene).await,
            Self::Replenish => {
                scene.create_pool(pool("public").network("public").min_free(1)).await;
                scene.await_counts(0, 1).await;
                scene.bind("web-0").await;
                scene.await_counts(1, 1).await;
            }
            Self::Pause => pause(scene.ns(), scene).await,
            Self::Move => {
                scene.ns().await_provisioned().await;
                Move::start(scene.ns(), scene.target()).succeed().await;
                scene.target().await_bound(&claim("web-0").name(), PATIENCE).await;
            }
        }
    }
}

async fn delete_pool(scene: &Scene<'_>) {
    let ns = scene.ns();
    ns.delete(Kind::Pool, "public").await;
    ns.await_condition(Kind::Pool, "public", "Ready", "False", "Deleting", PATIENCE).await;
    scene.release("web-0").await;
    ns.await_gone(Kind::Pool, "public", PATIENCE).await;
}

async fn pause(ns: &Namespace, scene: &Scene<'_>) {
    ns.patch(Kind::Cluster, "prod", json!({"spec": {"paused": true}})).await;
    ns.release(&claim("web-0").name()).await;
    ns.create(claim("web-1").of_cluster("prod")).await;
    sleep(PAUSE).await;
    ns.patch(Kind::Cluster, "prod", json!({"spec": {"paused": null}})).await;
    scene.await_released("web-0").await;
    scene.await_bound("web-1").await;
    scene.await_counts(1, 0).await;
}

/// Everything that clusterctl moves with a Cluster.
async fn prepare_move(scene: &Scene<'_>) {
    let ns = scene.ns();
    ns.patch(Kind::Secret, "cloud", json!({"metadata": {"labels": {"clusterctl.cluster.x-k8s.io/move": "true"}}}))
        .await;
    let infrastructure = ns.create_provisioned_cluster().await;
    let labels = json!({"cluster.x-k8s.io/cluster-name": "prod"});
    let owners = json!([owner_reference(&infrastructure)]);
    let server = json!({"metadata": {"name": "web-0", "labels": labels, "ownerReferences": owners}});
    let server = ns.create(Manifest::new(Kind::Server, server)).await;
    scene.create_pool(pool("public").network("public")).await;
    ns.bind_within(claim("web-0").of_cluster("prod").owned_by(&server), PATIENCE).await;
}

async fn address_of(scene: &Scene<'_>, server: &str) -> String {
    let found = scene.ns().get(Kind::Address, &claim(server).name()).await.expect("it is bound");
    found.data["spec"]["address"].as_str().map(str::to_owned).expect("an IPAddress has an address")
}

fn is_unmarked(fip: &FloatingIp) -> bool {
    !fip.description.contains("caip") && !fip.tags.iter().any(|tag| tag.contains("caip"))
}
