//! A workload cluster with its machines, as CAPO has them: what `clusterctl move` moves, and what a backup saves.

use std::collections::BTreeMap;

use super::*;
use crate::support::{owner_reference, pool};

const MOVE_LABEL: &str = "clusterctl.cluster.x-k8s.io/move";

/// All kinds of it, owners last.
pub const KINDS: [Kind; 7] =
    [Kind::Address, Kind::Claim, Kind::Server, Kind::Pool, Kind::InfrastructureCluster, Kind::Cluster, Kind::Secret];

/// The claims that hold an address: those of `public` and, last, the one of `other`.
const SERVERS: [&str; 6] = ["web-0", "web-1", "web-2", "web-3", "web-4", "db-0"];
/// The pool `other` has no address for it.
const WAITING: &str = "db-1";

/// What there was when all was well.
pub struct Workload {
    /// The way to OpenStack: the Secret leads through it, wherever it is.
    pub wire: Wire,
    /// The address of each bound claim, by the claim's name.
    pub addresses: BTreeMap<String, String>,
    /// The listed address, which is a claim's.
    pub listed: String,
    ids: [String; 2],
    marked: Vec<FloatingIp>,
}

impl Workload {
    /// Makes all of it in a namespace, whose controller runs.
    pub async fn create(ns: &Namespace) -> Self {
        let wire = Wire::to("demo").await;
        ns.secret("cloud", &wire.clouds_yaml()).await;
        ns.patch(Kind::Secret, "cloud", json!({"metadata": {"labels": {MOVE_LABEL: "true"}}})).await;
        let infrastructure = provisioned_cluster(ns).await;
        let listed = ns.floating_ip("public").await.address;
        let public = pool("public").list([&listed]).network("public").preallocate(1);
        let other = pool("other").network("public").max_ips(1);
        let ids = [ready(ns, public.served_in(&ns.name)).await, ready(ns, other.served_in(&ns.name)).await];
        let bind = async |server| {
            let claim = claim_of(ns, server, &infrastructure).await;
            (named(server), ns.bind_within(claim, BURST).await)
        };
        let addresses = futures::future::join_all(SERVERS.map(bind)).await.into_iter().collect();
        ns.create(claim_of(ns, WAITING, &infrastructure).await).await;
        waits(ns, WAITING, "PoolExhausted").await;
        // The list and five of the network, and the one that is ready.
        await_count(ns, "total", 6).await;
        await_count(ns, "free", 1).await;
        let marked = marks(ns, &ids).await;
        wire.forget();
        Self { wire, addresses, listed, ids, marked }
    }

    /// Waits until every claim is bound in this namespace to the address that it had, and all about it is in order;
    /// nothing was written in Neutron for that.
    pub async fn is_whole_in(&self, ns: &Namespace) {
        self.is_served_in(ns).await;
        assert_eq!(self.wire.writes(), [""; 0], "nothing is written in Neutron");
        assert_eq!(marks(ns, &self.ids).await, self.marked);
    }

    /// The same, where marks may have been written meanwhile; no floating IP was created or deleted.
    pub async fn is_served_in(&self, ns: &Namespace) {
        for (claim, address) in &self.addresses {
            assert_eq!(ns.await_bound(claim, BURST).await, *address, "{claim} has the address that it had");
            ns.await_condition(Kind::Claim, claim, "Ready", "True", "AddressAllocated", HEALS).await;
            eventually(HEALS, async || is_in_order(ns, claim).await).await;
        }
        for pool in ["public", "other"] {
            ns.await_condition(Kind::Pool, pool, "Ready", "True", "Ready", HEALS).await;
        }
        waits(ns, WAITING, "PoolExhausted").await;
        let secret = ns.get(Kind::Secret, "cloud").await.expect("the Secret is there");
        assert!(is_protected(&secret), "{:?}", secret.finalizers());
        for call in ["POST floatingips", "DELETE floatingips/ID"] {
            assert_eq!(self.wire.count(call), 0, "{call}");
        }
    }

    /// A machine goes where its claim is now: its address goes back, and serves the one that waits.
    pub async fn can_be_released_in(&self, ns: &Namespace) {
        let before = self.addresses[&named("db-0")].clone();
        release(ns, "db-0").await;
        // The pool has one address at most: the claim that waits gets that one, or one in its place.
        let after = ns.await_bound(&named(WAITING), AUDITED).await;
        let cloud = ns.cloud().await;
        if after != before {
            until_deleted(cloud, &before, AUDITED).await;
        }
        let holder = self.addresses.iter().find(|(_, address)| **address == self.listed).expect("the list is used");
        ns.release(holder.0).await;
        ns.await_gone(Kind::Claim, holder.0, HEALS).await;
        until(cloud, &self.listed, "unmarked", |fip| !is_marked(fip)).await;
    }
}

/// A Cluster that clusterctl agrees to move: its infrastructure is provisioned, its control plane is initialized.
async fn provisioned_cluster(ns: &Namespace) -> DynamicObject {
    let body =
        json!({"metadata": {"name": "prod"}, "status": {"ready": true, "initialization": {"provisioned": true}}});
    let infrastructure = ns.create(Manifest::new(Kind::InfrastructureCluster, body)).await;
    let endpoint = json!({"host": "192.0.2.1", "port": 6443});
    ns.create(cluster("prod", json!({"controlPlaneEndpoint": endpoint}))).await;
    let initialized = json!({
        "type": "ControlPlaneInitialized", "status": "True", "reason": "Initialized", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"
    });
    // Cluster API writes the whole status as well, at the same time.
    let is_provisioned = |cluster: &DynamicObject| {
        cluster.data["status"]["initialization"]["infrastructureProvisioned"] == true
            && condition_of(cluster, "ControlPlaneInitialized").is_some_and(|found| found["status"] == "True")
            && !cluster.finalizers().is_empty()
    };
    eventually(HEALS, async || {
        let found = ns.get(Kind::Cluster, "prod").await.expect("the Cluster is there");
        if is_provisioned(&found) {
            return Ok(());
        }
        let status = json!({"initialization": {"infrastructureProvisioned": true}, "conditions": [initialized]});
        ns.patch_status(Kind::Cluster, "prod", json!({"status": status})).await;
        Err(format!("the Cluster is not provisioned: {}", found.data["status"]))
    })
    .await;
    ns.await_object(Kind::InfrastructureCluster, "prod", HEALS, "owned by its Cluster", |found| {
        found.is_some_and(|found| !found.owner_references().is_empty())
    })
    .await;
    infrastructure
}

/// The claim of a server, which it is owned by, as all of it is of the Cluster `prod`.
async fn claim_of(ns: &Namespace, server: &str, infrastructure: &DynamicObject) -> Manifest {
    let labels = json!({"cluster.x-k8s.io/cluster-name": "prod"});
    let owners = json!([owner_reference(infrastructure)]);
    let body = json!({"metadata": {"name": server, "labels": labels, "ownerReferences": owners}});
    let owner = ns.create(Manifest::new(Kind::Server, body)).await;
    let pool = if server.starts_with("db") { "other" } else { "public" };
    claim(server).from(pool).of_cluster("prod").owned_by(&owner).into()
}

/// What carries a mark of the pools, in an order of its own.
async fn marks(ns: &Namespace, ids: &[String; 2]) -> Vec<FloatingIp> {
    let cloud = ns.cloud().await;
    let mut all = marked(cloud, &ids[0]).await;
    all.extend(marked(cloud, &ids[1]).await);
    all.sort_by(|one, other| one.id.cmp(&other.id));
    all
}

/// Whether a claim and its IPAddress have the owners and finalizers that they are to have, in this cluster.
async fn is_in_order(ns: &Namespace, claim: &str) -> Result<(), String> {
    let claimed = ns.get(Kind::Claim, claim).await.ok_or("the claim is gone")?;
    let address = ns.get(Kind::Address, claim).await.ok_or("the IPAddress is gone")?;
    let pool = claimed.data["spec"]["poolRef"]["name"].as_str().unwrap_or_default();
    let pool = ns.get(Kind::Pool, pool).await.ok_or("the pool is gone")?;
    let owners: BTreeSet<Option<String>> =
        address.owner_references().iter().map(|owner| Some(owner.uid.clone())).collect();
    if owners != BTreeSet::from([claimed.uid(), pool.uid()]) {
        return Err(format!("the owners of {claim} are {:?}", address.owner_references()));
    }
    match [&claimed, &address, &pool].into_iter().find(|object| !is_protected(object)) {
        Some(object) => Err(format!("{} has no finalizer of ours: {:?}", object.name_any(), object.finalizers())),
        None => Ok(()),
    }
}
