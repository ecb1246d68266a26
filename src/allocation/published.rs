//! The addresses that Kubernetes names: every provider's IPAddresses, and every pool's list. Kept up to date by the
//! watches.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;

use super::identity::{ClaimKey, PoolId};
use super::index::Index;
use crate::floating_ip::{FloatingIp, FloatingIpId, NetworkId};
use crate::object_name::ObjectName;
use crate::time::{CLOCK_SKEW, after};

/// What an IPAddress names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublishedAddress {
    pub address: IpAddr,
    /// None for an IPAddress of another provider.
    pub binding: Option<Binding>,
}

impl PublishedAddress {
    /// Whether it names this floating IP; another provider's names every one with its address.
    pub(super) fn names(&self, fip: &FloatingIp) -> bool {
        self.address == fip.address && self.binding.as_ref().is_none_or(|binding| binding.covers(fip))
    }
}

/// What an IPAddress of one of our pools says beyond the address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Binding {
    pub pool: PoolId,
    pub claim: ClaimKey,
    pub fip: FloatingIpId,
    /// The floating IP's network, where the IPAddress says it: the same address may exist on another network or cloud.
    pub network: Option<NetworkId>,
    /// When the IPAddress was created.
    pub since: Timestamp,
}

impl Binding {
    pub(super) fn is_of(&self, pool: &PoolId, claim: &ClaimKey) -> bool {
        self.pool == *pool && self.claim == *claim
    }

    /// Whether it covers a floating IP with the same address: this one, or one on the same network with another id, since
    /// a floating IP may be deleted under a running machine and Neutron may then give its address again.
    fn covers(&self, fip: &FloatingIp) -> bool {
        self.fip == fip.id || self.network.as_ref().is_none_or(|network| *network == fip.network)
    }

    /// Whether it names another floating IP, which must have been deleted before this one of the pool was created with the
    /// same address. A restored IPAddress, or one that a user made, is younger.
    pub(super) fn is_of_predecessor(&self, fip: &FloatingIp, pool: &PoolId) -> bool {
        // A user may have removed the network from an IPAddress of the pool.
        let is_on_network = self.network.as_ref().map_or(self.pool == *pool, |network| *network == fip.network);
        let is_older = fip.created_at.is_none_or(|at| self.since <= after(at, CLOCK_SKEW));
        self.fip != fip.id && is_on_network && is_older
    }
}

#[derive(Clone, Default, Debug)]
pub struct PublishedAddresses {
    addresses: BTreeMap<Arc<ObjectName>, PublishedAddress>,
    by_address: Index<IpAddr, Arc<ObjectName>>,
    by_claim: Index<(PoolId, ClaimKey), Arc<ObjectName>>,
    listed: BTreeMap<ObjectName, BTreeSet<IpAddr>>,
    listed_in_tree: CapoAddresses,
    are_in_tree_pools_unknown: bool,
    named_by_clusters: CapoAddresses,
    are_clusters_unknown: bool,
}

/// The addresses that CAPO's objects name, by namespace. A tenant may name any number, and all tenants share the memory: once
/// there are more than [`CapoAddresses::MOST`] in a namespace, any address may be named there.
#[derive(Clone, Default, Debug)]
pub struct CapoAddresses(BTreeMap<String, BTreeSet<IpAddr>>);

impl CapoAddresses {
    /// As many as four pools of ours can list.
    pub const MOST: usize = 4096;

    /// Adds what an object of the namespace names.
    pub fn add(&mut self, namespace: &str, addresses: impl IntoIterator<Item = IpAddr>) {
        let mut addresses = addresses.into_iter().peekable();
        if addresses.peek().is_none() {
            return;
        }
        let named = self.0.entry(namespace.to_owned()).or_default();
        while named.len() <= Self::MOST
            && let Some(address) = addresses.next()
        {
            named.insert(address);
        }
    }

    /// The namespaces whose objects name too many.
    pub fn above_limit(&self) -> impl Iterator<Item = &String> {
        self.0.iter().filter(|(_, named)| named.len() > Self::MOST).map(|(namespace, _)| namespace)
    }

    fn may_name(&self, namespace: &str, address: IpAddr) -> bool {
        self.0.get(namespace).is_some_and(|named| named.len() > Self::MOST || named.contains(&address))
    }
}

/// What is known of CAPO's in-tree pools.
pub enum InTreePools {
    /// What all of them list.
    List(CapoAddresses),
    /// While the CRD is being replaced, what the pools listed still counts.
    NotServed,
    /// They cannot be listed now.
    Unknown,
}

impl PublishedAddresses {
    /// An IPAddress is created or changed.
    pub fn insert(&mut self, object: ObjectName, published: PublishedAddress) {
        self.remove(&object);
        let object = Arc::new(object);
        self.by_address.insert(published.address, object.clone());
        if let Some(binding) = &published.binding {
            self.by_claim.insert((binding.pool.clone(), binding.claim.clone()), object.clone());
        }
        self.addresses.insert(object, published);
    }

    /// An IPAddress is deleted.
    pub fn remove(&mut self, object: &ObjectName) {
        let Some((object, old)) = self.addresses.remove_entry(object) else { return };
        self.by_address.remove(&old.address, &object);
        if let Some(binding) = old.binding {
            self.by_claim.remove(&(binding.pool, binding.claim), &object);
        }
    }

    /// Removes every IPAddress that a complete listing does not contain, and returns the removed ones.
    pub fn retain(&mut self, existing: &BTreeSet<ObjectName>) -> Vec<ObjectName> {
        let known = self.addresses.keys().map(Arc::as_ref);
        let gone: Vec<_> = known.filter(|object| !existing.contains(object)).cloned().collect();
        gone.iter().for_each(|object| self.remove(object));
        gone
    }

    /// What a pool of ours lists and reserves.
    pub fn set_listed(&mut self, pool: ObjectName, addresses: BTreeSet<IpAddr>) {
        match addresses.is_empty() {
            true => self.listed.remove(&pool),
            false => self.listed.insert(pool, addresses),
        };
    }

    pub fn note_in_tree_pools(&mut self, pools: InTreePools) {
        self.are_in_tree_pools_unknown = matches!(pools, InTreePools::Unknown);
        if let InTreePools::List(addresses) = pools {
            self.listed_in_tree = addresses;
        }
    }

    /// What CAPO's clusters name for their API servers and bastions; none where that is not known now.
    pub fn set_named_by_clusters(&mut self, addresses: Option<CapoAddresses>) {
        self.are_clusters_unknown = addresses.is_none();
        self.named_by_clusters = addresses.unwrap_or_else(|| std::mem::take(&mut self.named_by_clusters));
    }

    /// Whether the lists of CAPO's pools or clusters failed the last time: until they succeed, nothing is reused.
    pub fn is_unknown_what_capo_names(&self) -> bool {
        self.are_in_tree_pools_unknown || self.are_clusters_unknown
    }

    pub fn bindings_of_pool<'a>(&'a self, pool: &'a PoolId) -> impl Iterator<Item = &'a Binding> {
        let of_pool = self.by_claim.from((pool.clone(), ClaimKey::lowest()));
        let of_pool = of_pool.take_while(move |((other, _), _)| other == pool);
        of_pool.filter_map(|(_, object)| self.addresses.get(object)?.binding.as_ref())
    }
}

/// What counts of it for one pool: what is in the pool's namespace, or in one with a pool of the same project. What others
/// write, who need not have access to the project, changes nothing for the pool.
#[derive(Clone, Copy)]
pub(super) struct RelevantAddresses<'a> {
    all: &'a PublishedAddresses,
    namespaces: &'a BTreeSet<String>,
}

impl<'a> RelevantAddresses<'a> {
    pub(super) fn new(all: &'a PublishedAddresses, namespaces: &'a BTreeSet<String>) -> Self {
        Self { all, namespaces }
    }

    /// Whether a cluster of CAPO may name the address.
    pub(super) fn may_be_named_by_cluster(self, address: IpAddr) -> bool {
        self.all.are_clusters_unknown || self.may_name(&self.all.named_by_clusters, address)
    }

    /// Whether a pool lists or reserves the address, or one of CAPO's may list it.
    pub(super) fn may_be_listed(self, address: IpAddr) -> bool {
        let mut listed = self.all.listed.iter().filter(|(pool, _)| self.namespaces.contains(&pool.namespace));
        self.all.are_in_tree_pools_unknown
            || listed.any(|(_, listed)| listed.contains(&address))
            || self.may_name(&self.all.listed_in_tree, address)
    }

    fn may_name(self, named: &CapoAddresses, address: IpAddr) -> bool {
        self.namespaces.iter().any(|namespace| named.may_name(namespace, address))
    }

    /// Whether an IPAddress names this floating IP: one of ours on the same network, another provider's by the address.
    pub(super) fn is_published(self, fip: &FloatingIp) -> bool {
        self.is_published_where(fip, |_| true)
    }

    /// Whether an IPAddress other than this claim's names this floating IP.
    pub(super) fn is_published_for_another(self, fip: &FloatingIp, pool: &PoolId, claim: &ClaimKey) -> bool {
        self.is_published_where(fip, |binding| !binding.is_of(pool, claim))
    }

    /// The IPAddresses that name the address of this floating IP of the pool, but a [predecessor](Binding::is_of_predecessor).
    pub(super) fn naming_predecessor(self, fip: &FloatingIp, pool: &PoolId) -> impl Iterator<Item = &'a Binding> {
        let bindings = self.naming(fip).filter_map(|published| published.binding.as_ref());
        bindings.filter(move |binding| binding.is_of_predecessor(fip, pool))
    }

    /// Whether an IPAddress names this floating IP of the pool, and not only a [predecessor](Binding::is_of_predecessor).
    pub(super) fn is_published_itself(self, fip: &FloatingIp, pool: &PoolId) -> bool {
        self.is_published_where(fip, |binding| !binding.is_of_predecessor(fip, pool))
    }

    /// Whether an IPAddress names this floating IP: one of ours that counts, or one of another provider.
    pub(super) fn is_published_where(self, fip: &FloatingIp, counts: impl Fn(&Binding) -> bool) -> bool {
        self.naming(fip).any(|published| published.binding.as_ref().is_none_or(&counts))
    }

    pub(super) fn is_published_by_another_provider(self, address: IpAddr) -> bool {
        self.at(address).any(|published| published.binding.is_none())
    }

    /// The bindings of the IPAddresses, of our pools, that name this floating IP: several, if one is a copy.
    pub(super) fn bindings_of(self, fip: &FloatingIp) -> impl Iterator<Item = &'a Binding> {
        let bindings = self.at(fip.address).filter_map(|published| published.binding.as_ref());
        bindings.filter(move |binding| binding.fip == fip.id)
    }

    /// The claims of the pool for which an older IPAddress than this claim's names the floating IP.
    pub(super) fn older_claims(
        self,
        fip: &'a FloatingIp,
        pool: &'a PoolId,
        claim: &'a ClaimKey,
    ) -> impl Iterator<Item = &'a ClaimKey> {
        let bindings = move || self.naming(fip).filter_map(|it| it.binding.as_ref());
        let since = bindings().filter(move |it| it.is_of(pool, claim)).map(|it| it.since).min();
        let is_older = move |it: &&Binding| since.is_some_and(|since| (it.since, &it.claim) < (since, claim));
        bindings().filter(move |it| it.pool == *pool && it.claim != *claim).filter(is_older).map(|it| &it.claim)
    }

    pub(super) fn of_claim(self, pool: &PoolId, claim: &ClaimKey) -> impl Iterator<Item = &'a PublishedAddress> {
        self.get(self.all.by_claim.get(&(pool.clone(), claim.clone())))
    }

    /// What names this floating IP.
    fn naming(self, fip: &FloatingIp) -> impl Iterator<Item = &'a PublishedAddress> {
        self.at(fip.address).filter(move |published| published.names(fip))
    }

    fn at(self, address: IpAddr) -> impl Iterator<Item = &'a PublishedAddress> {
        self.get(self.all.by_address.get(&address))
    }

    fn get(self, objects: impl Iterator<Item = &'a Arc<ObjectName>>) -> impl Iterator<Item = &'a PublishedAddress> {
        let relevant = objects.filter(move |object| self.namespaces.contains(&object.namespace));
        relevant.filter_map(move |object| self.all.addresses.get(object))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn an_address_of_ours_counts_under_any_id_on_its_network() {
        let fixture = fixture().published("web", 10);
        assert!(fixture.situation().relevant_addresses().is_published(&fip(10).0));
        let again = FloatingIp { id: id(99), ..fip(10).0 };
        assert!(fixture.situation().relevant_addresses().is_published(&again));
        let elsewhere = FloatingIp { id: id(99), ..fip(10).on_network("another").0 };
        assert!(!fixture.situation().relevant_addresses().is_published(&elsewhere));
        assert!(!fixture.situation().relevant_addresses().is_published(&fip(11).0));
    }

    #[test]
    fn an_address_of_another_provider_counts_on_every_network() {
        let fixture = fixture().published_by_others(10);
        assert!(fixture.situation().relevant_addresses().is_published(&fip(10).on_network("another").0));
        assert_eq!(fixture.situation().relevant_addresses().bindings_of(&fip(10).0).count(), 0);
    }

    #[test]
    fn a_floating_ip_is_bound_to_the_claim_whose_ip_address_names_its_id() {
        let fixture = fixture().published("web", 10);
        let bound: Vec<ClaimKey> =
            fixture.situation().relevant_addresses().bindings_of(&fip(10).0).map(|it| it.claim.clone()).collect();
        assert_eq!(bound, [key("web")]);
        assert!(fixture.situation().relevant_addresses().is_published_for_another(
            &fip(10).0,
            &pool_id("p"),
            &key("db")
        ));
        assert!(!fixture.situation().relevant_addresses().is_published_for_another(
            &fip(10).0,
            &pool_id("p"),
            &key("web")
        ));
    }

    #[test]
    fn the_bindings_of_a_pool_are_its_own() {
        let fixture = fixture().published("web", 10).published_by_others(11);
        let bound =
            |pool| fixture.published.bindings_of_pool(&pool).map(|binding| binding.fip.clone()).collect::<Vec<_>>();
        assert_eq!((bound(pool_id("p")), bound(pool_id("other"))), (vec![id(10)], vec![]));
    }

    #[test]
    fn a_deleted_ip_address_publishes_nothing() {
        let mut fixture = fixture().published("web", 10).published_by_others(11);
        fixture.published.retain(&BTreeSet::new());
        assert!(
            !fixture.situation().relevant_addresses().is_published(&fip(10).0)
                && !fixture.situation().relevant_addresses().is_published(&fip(11).0)
        );
    }

    #[test]
    fn a_changed_ip_address_publishes_only_its_new_address() {
        let mut fixture = fixture().published("web", 10);
        let object = ObjectName::new("team", "web");
        fixture.published.insert(object, PublishedAddress { address: address(11), binding: None });
        assert!(
            !fixture.situation().relevant_addresses().is_published(&fip(10).0)
                && fixture.situation().relevant_addresses().is_published(&fip(11).0)
        );
    }

    fn named(namespace: &str, addresses: impl IntoIterator<Item = IpAddr>) -> CapoAddresses {
        let mut named = CapoAddresses::default();
        named.add(namespace, addresses);
        named
    }

    #[test]
    fn of_too_many_addresses_in_a_namespace_any_may_be_named_there() {
        let many = |count: u32| (0..count).map(|number| IpAddr::from(std::net::Ipv4Addr::from(number)));
        let most = u32::try_from(CapoAddresses::MOST).unwrap();
        let mut all = named("team", many(most).chain(many(most)));
        assert!(!all.may_name("team", address(1)) && all.above_limit().next().is_none());
        all.add("team", many(1_000_000));
        assert_eq!(all.above_limit().collect::<Vec<_>>(), ["team"]);
        assert_eq!(all.0["team"].len(), CapoAddresses::MOST + 1);
        assert!(all.may_name("team", address(1)) && !all.may_name("others", address(1)));
    }

    #[test]
    fn a_list_is_replaced_and_removed() {
        let mut fixture = fixture().listed([10, 11]);
        assert!(fixture.situation().relevant_addresses().may_be_listed(address(11)));
        let pool = || ObjectName::new("team", "p");
        fixture.published.set_listed(pool(), [address(10)].into());
        assert!(!fixture.situation().relevant_addresses().may_be_listed(address(11)));
        fixture.published.set_listed(pool(), [].into());
        assert!(!fixture.situation().relevant_addresses().may_be_listed(address(10)));
        fixture.published.note_in_tree_pools(InTreePools::List(named("team", [address(12)])));
        assert!(fixture.situation().relevant_addresses().may_be_listed(address(12)));
        fixture.published.note_in_tree_pools(InTreePools::List(CapoAddresses::default()));
        assert!(!fixture.situation().relevant_addresses().may_be_listed(address(12)));
    }

    #[test]
    fn what_is_named_where_no_pool_of_the_project_is_counts_for_nothing() {
        let naming_in = |namespace: &str| {
            let mut fixture = fixture();
            let binding = Binding {
                pool: pool_id("theirs"),
                claim: ClaimKey::of(namespace, "web"),
                fip: id(10),
                network: Some(network()),
                since: ago(1),
            };
            let object = |name: &str| ObjectName::new(namespace, name);
            let ours = PublishedAddress { address: address(10), binding: Some(binding) };
            fixture.published.insert(object("web"), ours);
            fixture.published.insert(object("other"), PublishedAddress { address: address(11), binding: None });
            fixture.published.set_listed(object("pool"), [address(12)].into());
            fixture.published.note_in_tree_pools(InTreePools::List(named(namespace, [address(13)])));
            fixture
        };
        let counts = |fixture: &Fixture| {
            let relevant = fixture.situation().relevant_addresses();
            [10, 11]
                .map(|last| relevant.is_published(&fip(last).0))
                .into_iter()
                .chain([12, 13].map(|last| relevant.may_be_listed(address(last))))
                .collect::<Vec<_>>()
        };
        assert_eq!(counts(&naming_in("team")), [true; 4]);
        assert_eq!(counts(&naming_in("strangers")), [false; 4]);
        let mut shared = naming_in("strangers");
        shared.namespaces.insert("strangers".into());
        assert_eq!(counts(&shared), [true; 4], "a pool there is of the same project");
    }

    #[test]
    fn what_capo_names_is_known_once_both_lists_succeeded_the_last_time() {
        let mut published = PublishedAddresses::default();
        let mut is_unknown = |pools, clusters| {
            published.note_in_tree_pools(pools);
            published.set_named_by_clusters(clusters);
            published.is_unknown_what_capo_names()
        };
        let named = || Some(CapoAddresses::default());
        assert!(is_unknown(InTreePools::Unknown, named()) && is_unknown(InTreePools::NotServed, None));
        assert!(!is_unknown(InTreePools::NotServed, named()));
    }
}
