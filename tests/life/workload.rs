//! A workload cluster with machines as CAPO creates them, which `clusterctl move` moves and a backup saves.

use std::collections::BTreeMap;

use super::*;
use crate::support::{owner_reference, pool};

const MOVE_LABEL: &str = "clusterctl.cluster.x-k8s.io/move";

/// Its kinds, owners last.
pub const KINDS: [Kind; 7] =
    [Kind::Address, Kind::Claim, Kind::Server, Kind::Pool, Kind::InfrastructureCluster, Kind::Cluster, Kind::Secret];

/// Servers with an address: the last one's is from the pool `other`.
const SERVERS: [&str; 6] = ["web-0", "web-1", "web-2", "web-3", "web-4", "db-0"];
/// A server whose claim waits: the pool `other` has only one address.
const WAITING: &str = "db-1";

/// The workload cluster as it was created.
pub struct Workload {
    /// The Secret leads through it, also in another management cluster.
    proxy: OpenStackProxy,
    /// By the claim's name.
    pub addresses: BTreeMap<String, String>,
    /// The predefined address, which a claim has.
    pub listed: String,
    ids: [String; 2],
    marked: Vec<FloatingIp>,
}

impl Workload {
    /// Creates it in a namespace whose controller runs.
    pub async fn create(ns: &Namespace) -> Self {
        let proxy = OpenStackProxy::to_cloud("demo").await;
        ns.apply_secret("cloud", &proxy.clouds_yaml()).await;
        ns.patch(Kind::Secret, "cloud", json!({"metadata": {"labels": {MOVE_LABEL: "true"}}})).await;
        let infrastructure = ns.create_provisioned_cluster().await;
        let listed = ns.create_floating_ip("public").await.address;
        let public = pool("public").list([&listed]).network("public").min_free(1);
        let other = pool("other").network("public").max_ips(1);
        let ids = [
            create_ready_pool(ns, public.served_in(&ns.name)).await,
            create_ready_pool(ns, other.served_in(&ns.name)).await,
        ];
        let bind = async |server| {
            let claim = create_server(ns, server, &infrastructure).await;
            (claim_name(server), ns.bind_within(claim, BURST).await)
        };
        let addresses = join_all(SERVERS.map(bind)).await.into_iter().collect();
        ns.create(create_server(ns, WAITING, &infrastructure).await).await;
        await_waiting(ns, WAITING, "PoolExhausted").await;
        // Five that are bound and one spare.
        await_address_count(ns, "total", 6).await;
        await_address_count(ns, "free", 1).await;
        let marked = floating_ips_of_pools(ns, &ids).await;
        ns.await_provisioned().await;
        proxy.forget_calls();
        Self { proxy, addresses, listed, ids, marked }
    }

    /// Waits until every claim is bound in this namespace as before, without a write to Neutron.
    pub async fn await_unchanged_in(&self, ns: &Namespace) {
        self.await_served_in(ns).await;
        assert_eq!(self.proxy.writes(), [""; 0], "nothing is written in Neutron");
        assert_eq!(floating_ips_of_pools(ns, &self.ids).await, self.marked);
    }

    /// Waits until every claim is bound to the address that it had, and no floating IP was created or deleted.
    async fn await_served_in(&self, ns: &Namespace) {
        for (claim, address) in &self.addresses {
            assert_eq!(ns.await_bound(claim, BURST).await, *address, "{claim} has the address that it had");
            ns.await_condition(Kind::Claim, claim, "Ready", "True", "AddressAllocated", RECOVERY).await;
            eventually(RECOVERY, async || check_owners_and_finalizers(ns, claim).await).await;
        }
        for pool in ["public", "other"] {
            ns.await_condition(Kind::Pool, pool, "Ready", "True", "Ready", RECOVERY).await;
        }
        await_waiting(ns, WAITING, "PoolExhausted").await;
        let secret = ns.get(Kind::Secret, "cloud").await.expect("the Secret is there");
        assert!(is_protected(&secret), "{:?}", secret.finalizers());
        for call in ["POST floatingips", "DELETE floatingips/ID"] {
            assert_eq!(self.proxy.count(call), 0, "{call}");
        }
    }

    /// Releases two claims: one serves the claim that waits, the other had the predefined address.
    pub async fn release_in(&self, ns: &Namespace) {
        let before = self.addresses[&claim_name("db-0")].clone();
        ns.release(&claim_name("db-0")).await;
        // Where the pool has just arrived, the release waits for as long as a call of the other cluster may still land.
        ns.await_gone(Kind::Claim, &claim_name("db-0"), RESYNC).await;
        // The pool has at most one address: the waiting claim gets the same one or its replacement.
        let after = ns.await_bound(&claim_name(WAITING), RESYNC).await;
        let cloud = ns.cloud().await;
        if after != before {
            await_floating_ip_deleted(cloud, &before, RESYNC).await;
        }
        let (claim, _) = self.addresses.iter().find(|(_, address)| **address == self.listed).expect("a claim has it");
        ns.release(claim).await;
        ns.await_gone(Kind::Claim, claim, RECOVERY).await;
        await_unmarked(cloud, &self.listed).await;
    }
}

/// Creates a server of the Cluster `prod`; returns its claim.
async fn create_server(ns: &Namespace, server: &str, infrastructure: &DynamicObject) -> Manifest {
    let labels = json!({"cluster.x-k8s.io/cluster-name": "prod"});
    let owners = json!([owner_reference(infrastructure)]);
    let body = json!({"metadata": {"name": server, "labels": labels, "ownerReferences": owners}});
    let owner = ns.create(Manifest::new(Kind::Server, body)).await;
    let pool = if server.starts_with("db") { "other" } else { "public" };
    claim(server).from(pool).of_cluster("prod").owned_by(&owner).into()
}

/// The floating IPs with a mark of the pools, ordered by id.
async fn floating_ips_of_pools(ns: &Namespace, ids: &[String; 2]) -> Vec<FloatingIp> {
    let cloud = ns.cloud().await;
    let mut all = marked_floating_ips(cloud, &ids[0]).await;
    all.extend(marked_floating_ips(cloud, &ids[1]).await);
    all.sort_by(|one, other| one.id.cmp(&other.id));
    all
}

/// `Err` where a claim or its IPAddress lacks an owner or a finalizer in this cluster.
async fn check_owners_and_finalizers(ns: &Namespace, claim: &str) -> Result<(), String> {
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
        Some(object) => {
            Err(format!("{} has no finalizer of the controller: {:?}", object.name_any(), object.finalizers()))
        }
        None => Ok(()),
    }
}
