//! What CAPO's objects say about floating IPs: its in-tree pools, and the addresses that its clusters name. One list
//! serves all pools.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::DynamicObject;
use kube::core::ApiResource;

use crate::allocation::{CapoAddresses, InTreePools};
use crate::api::guarded::Guarded;
use crate::api::names::{CAPO_GROUP, POOL_KIND};
use crate::clock::Clock;
use crate::controllers::kubernetes::Kubernetes;
use crate::controllers::memory::Memory;
use crate::controllers::pages;
use crate::controllers::stores::name_of;
use crate::controllers::watch::readable;
use crate::object_name::ObjectName;
use crate::time::before;

/// How old the lists may be where nothing depends on what was created a moment ago.
const VALIDITY: SignedDuration = SignedDuration::from_secs(5);

/// Where an OpenStackCluster names floating IPs that CAPO attaches, or has attached: for the API server and the bastion.
const NAMED_BY_CLUSTER: [&str; 5] = [
    "/spec/apiServerFloatingIP",
    "/spec/apiServer/floatingIP",
    "/spec/controlPlaneEndpoint/host",
    "/spec/bastion/floatingIP",
    "/status/bastion/floatingIP",
];

/// Lists CAPO's objects in the watched namespaces, for all pools.
pub(in crate::controllers) struct CapoObjects {
    kube: Kubernetes,
    /// The namespace that is watched; all of them when there is none.
    namespace: Option<String>,
    memory: Arc<Memory>,
    clock: Clock,
    // tokio's mutexes: held for a list, so that pools that ask meanwhile share it.
    pools: tokio::sync::Mutex<Option<(Timestamp, PoolNames)>>,
    clusters: tokio::sync::Mutex<Option<Timestamp>>,
    /// The namespaces whose objects of a kind name too many addresses, as the log says.
    above_limit: parking_lot::Mutex<BTreeMap<&'static str, BTreeSet<String>>>,
}

/// The names of CAPO's in-tree pools that may give addresses; none where they are not served. One that is being deleted gives
/// none, and may stay for long: it waits for IPAddresses of every pool with its name, ours too.
type PoolNames = Option<Arc<BTreeSet<ObjectName>>>;

/// Where an in-tree pool has addresses that it may give, or has given. What is removed from its list stays in its status.
const NAMED_BY_POOL: [&str; 3] = ["/spec/preAllocatedFloatingIPs", "/status/availableIPs", "/status/claimedIPs"];

impl CapoObjects {
    pub(in crate::controllers) fn new(
        kube: Kubernetes,
        namespace: Option<String>,
        memory: Arc<Memory>,
        clock: Clock,
    ) -> Self {
        let (pools, clusters, above_limit) = Default::default();
        Self { kube, namespace, memory, clock, pools, clusters, above_limit }
    }

    /// Lists now what may name a floating IP that is about to be reused.
    pub(in crate::controllers) async fn refresh(&self) -> Result<(), kube::Error> {
        self.pool_names(true).await?;
        self.refresh_clusters(true).await
    }

    /// CAPO's in-tree pools. With `is_now`, a list that begins now or later; otherwise it may be a few seconds old. While
    /// that fails, no pool reuses a floating IP.
    pub(in crate::controllers) async fn pool_names(&self, is_now: bool) -> Result<PoolNames, kube::Error> {
        let since = self.since(is_now);
        let mut listed = self.pools.lock().await;
        if let Some((_, names)) = listed.as_ref().filter(|(began, _)| *began >= since) {
            return Ok(names.clone());
        }
        let began = self.clock.now();
        let (mut giving, mut addresses) = (BTreeSet::new(), CapoAddresses::default());
        let see = |pool: DynamicObject| {
            let name = name_of(&pool);
            addresses.add(&name.namespace, listed_addresses(&pool));
            if pool.metadata.deletion_timestamp.is_none() {
                giving.insert(name);
            }
        };
        let is_served = self.list(POOL_KIND, "openstackfloatingippools", "v1alpha1", see).await;
        let pools = match &is_served {
            Ok(true) => {
                self.warn_above_limit(POOL_KIND, &addresses);
                InTreePools::List(addresses)
            }
            Ok(false) => InTreePools::NotServed,
            Err(_) => InTreePools::Unknown,
        };
        self.memory.published.write().note_in_tree_pools(pools);
        if is_served.is_err() {
            *listed = None;
        }
        let names: PoolNames = is_served?.then(|| Arc::new(giving));
        *listed = Some((began, names.clone()));
        Ok(names)
    }

    /// Lists the addresses that CAPO's clusters name. Until that succeeds, no pool reuses a floating IP.
    pub(in crate::controllers) async fn refresh_clusters(&self, is_now: bool) -> Result<(), kube::Error> {
        let since = self.since(is_now);
        let mut listed = self.clusters.lock().await;
        if listed.is_some_and(|began| began >= since) {
            return Ok(());
        }
        let began = self.clock.now();
        let (named, result) = match self.list_clusters().await {
            Ok(named) => (Some(named), Ok(())),
            Err(error) => (None, Err(error)),
        };
        *listed = named.is_some().then_some(began);
        self.memory.published.write().set_named_by_clusters(named);
        result
    }

    async fn list_clusters(&self) -> Result<CapoAddresses, kube::Error> {
        for version in ["v1beta1", "v1beta2"] {
            let mut named = CapoAddresses::default();
            let see = |cluster: DynamicObject| named.add(&name_of(&cluster).namespace, named_addresses(&cluster));
            if self.list("OpenStackCluster", "openstackclusters", version, see).await? {
                self.warn_above_limit("OpenStackCluster", &named);
                return Ok(named);
            }
        }
        Ok(CapoAddresses::default())
    }

    /// Once for each namespace: a tenant must not fill the log.
    fn warn_above_limit(&self, kind: &'static str, named: &CapoAddresses) {
        let above: BTreeSet<String> = named.above_limit().cloned().collect();
        let before = self.above_limit.lock().insert(kind, above.clone()).unwrap_or_default();
        for namespace in above.difference(&before) {
            let most = CapoAddresses::MOST;
            tracing::warn!(
                namespace,
                "CAPO's objects of the namespace name more than {most} addresses: nothing is reused there"
            );
        }
    }

    fn since(&self, is_now: bool) -> Timestamp {
        if is_now { self.clock.now() } else { before(self.clock.now(), VALIDITY) }
    }

    /// Lists the objects of a kind. False where it is not served in this version.
    async fn list(
        &self,
        kind: &str,
        plural: &str,
        version: &str,
        mut see: impl FnMut(DynamicObject),
    ) -> Result<bool, kube::Error> {
        let resource = ApiResource {
            group: CAPO_GROUP.into(),
            version: version.into(),
            api_version: format!("{CAPO_GROUP}/{version}"),
            kind: kind.into(),
            plural: plural.into(),
        };
        let client = self.kube.client.clone();
        let api: Api<Guarded<DynamicObject>> = match &self.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        };
        match pages::for_each(&api, |object| readable(object).into_iter().for_each(&mut see)).await {
            Ok(()) => Ok(true),
            Err(error) if self.kube.is_unserved(&resource, &error).await => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn listed_addresses(pool: &DynamicObject) -> impl Iterator<Item = IpAddr> {
    let lists = NAMED_BY_POOL.iter().filter_map(|field| pool.data.pointer(field)?.as_array());
    lists.flatten().filter_map(|address| address.as_str()?.parse().ok())
}

fn named_addresses(cluster: &DynamicObject) -> impl Iterator<Item = IpAddr> {
    NAMED_BY_CLUSTER.iter().filter_map(|field| cluster.data.pointer(field)?.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(data: serde_json::Value) -> DynamicObject {
        let resource = ApiResource::erase::<crate::api::OpenStackFloatingIPPool>(&());
        DynamicObject { data, ..DynamicObject::new("c", &resource) }
    }

    fn addresses(last: &[u8]) -> Vec<IpAddr> {
        last.iter().map(|last| IpAddr::from([192, 0, 2, *last])).collect()
    }

    #[test]
    fn an_in_tree_pool_may_still_give_what_was_removed_from_its_list() {
        let data = json!({
            "spec": {"preAllocatedFloatingIPs": ["192.0.2.1", 7, "none"]},
            "status": {"availableIPs": ["192.0.2.2"], "claimedIPs": ["192.0.2.3"], "failedIPs": ["192.0.2.4"]}
        });
        let listed = |data| listed_addresses(&object(data)).collect::<Vec<_>>();
        assert_eq!(listed(data), addresses(&[1, 2, 3]));
        assert_eq!(listed(json!({"status": {"availableIPs": null}})), addresses(&[]));
    }

    #[test]
    fn a_cluster_names_the_floating_ips_of_its_api_server_and_bastion() {
        let named = |data| named_addresses(&object(data)).collect::<Vec<_>>();
        for (data, expected) in [
            (
                json!({"spec": {"apiServerFloatingIP": "192.0.2.1", "bastion": {"floatingIP": "192.0.2.2"}}}),
                &[1, 2][..],
            ),
            (json!({"spec": {"controlPlaneEndpoint": {"host": "api.example.org", "port": 6443}}}), &[]),
            (json!({"spec": {"apiServer": {"floatingIP": "192.0.2.3"}, "bastion": {"floatingIP": 7}}}), &[3]),
        ] {
            assert_eq!(named(data.clone()), addresses(expected), "{data}");
        }
    }
}
