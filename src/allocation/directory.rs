//! Which addresses Kubernetes names: every IPAddress of every provider, and every pool's list. Kept up by the watches.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::identity::{ClaimKey, PoolId};
use crate::floating_ip::{FloatingIp, FloatingIpId, NetworkId};

/// A namespaced object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ObjectName {
    /// The object `name` in `namespace`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl std::fmt::Display for ObjectName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What an IPAddress names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Naming {
    /// The address.
    pub address: IpAddr,
    /// Whose it is, when one of our pools published it; of any other provider there is none.
    pub ours: Option<OurNaming>,
}

/// What an IPAddress of ours names, beyond the address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OurNaming {
    /// The pool.
    pub pool: PoolId,
    /// The claim.
    pub claim: ClaimKey,
    /// The floating IP.
    pub fip: FloatingIpId,
    /// Its network, where that is known: the same address may exist on another one, or in another cloud.
    pub network: Option<NetworkId>,
}

impl OurNaming {
    /// Whether a floating IP with the same address is meant: this one, or its address on the same network under
    /// another id, since somebody may delete a floating IP under a living machine and Neutron give its address anew.
    fn means(&self, fip: &FloatingIp) -> bool {
        self.fip == fip.id || self.network.as_ref().is_none_or(|network| *network == fip.network)
    }
}

/// Every address that Kubernetes names.
#[derive(Clone, Default, Debug)]
pub struct Directory {
    addresses: BTreeMap<ObjectName, Naming>,
    by_address: BTreeMap<IpAddr, BTreeSet<ObjectName>>,
    by_claim: BTreeMap<(PoolId, ClaimKey), BTreeSet<ObjectName>>,
    rosters: BTreeMap<String, BTreeSet<IpAddr>>,
}

impl Directory {
    /// An IPAddress was seen as it now is.
    pub fn observe(&mut self, object: ObjectName, naming: Naming) {
        self.forget(&object);
        self.by_address.entry(naming.address).or_default().insert(object.clone());
        if let Some(ours) = &naming.ours {
            self.by_claim.entry((ours.pool.clone(), ours.claim.clone())).or_default().insert(object.clone());
        }
        self.addresses.insert(object, naming);
    }

    /// An IPAddress is gone.
    pub fn forget(&mut self, object: &ObjectName) {
        let Some(old) = self.addresses.remove(object) else { return };
        unlink(&mut self.by_address, &old.address, object);
        if let Some(ours) = old.ours {
            unlink(&mut self.by_claim, &(ours.pool, ours.claim), object);
        }
    }

    /// Forgets every IPAddress that is not among these, and says which: the watch started anew.
    pub fn retain(&mut self, living: &BTreeSet<ObjectName>) -> Vec<ObjectName> {
        let gone: Vec<_> = self.addresses.keys().filter(|object| !living.contains(object)).cloned().collect();
        gone.iter().for_each(|object| self.forget(object));
        gone
    }

    /// A pool, ours or CAPO's in-tree, lists or reserves these.
    pub fn set_roster(&mut self, pool: String, addresses: BTreeSet<IpAddr>) {
        if addresses.is_empty() {
            self.rosters.remove(&pool)
        } else {
            self.rosters.insert(pool, addresses)
        };
    }

    /// Whether any pool lists or reserves the address.
    pub fn is_rostered(&self, address: IpAddr) -> bool {
        self.rosters.values().any(|roster| roster.contains(&address))
    }

    /// Whether an IPAddress names this floating IP: one of ours on the same network; anybody else's by the address.
    pub fn is_named(&self, fip: &FloatingIp) -> bool {
        self.namings(fip.address).any(|naming| naming.ours.as_ref().is_none_or(|ours| ours.means(fip)))
    }

    /// Whether an IPAddress other than this claim's names this floating IP.
    pub fn is_anothers(&self, fip: &FloatingIp, pool: &PoolId, claim: &ClaimKey) -> bool {
        let is_the_claims = |ours: &OurNaming| ours.pool == *pool && ours.claim == *claim;
        self.namings(fip.address)
            .any(|naming| naming.ours.as_ref().is_none_or(|ours| ours.means(fip) && !is_the_claims(ours)))
    }

    /// The claim, of one of our pools, whose IPAddress names this floating IP.
    pub fn owner(&self, fip: &FloatingIp) -> Option<&OurNaming> {
        self.namings(fip.address).filter_map(|naming| naming.ours.as_ref()).find(|ours| ours.fip == fip.id)
    }

    /// What the IPAddresses of a pool name.
    pub fn of_pool<'a>(&'a self, pool: &'a PoolId) -> impl Iterator<Item = &'a OurNaming> {
        self.addresses.values().filter_map(|naming| naming.ours.as_ref()).filter(move |ours| ours.pool == *pool)
    }

    /// What the IPAddress of a claim names.
    pub fn of_claim<'a>(&'a self, pool: &'a PoolId, claim: &'a ClaimKey) -> impl Iterator<Item = &'a OurNaming> {
        self.by_claim
            .get(&(pool.clone(), claim.clone()))
            .into_iter()
            .flatten()
            .filter_map(|object| self.addresses.get(object)?.ours.as_ref())
    }

    fn namings(&self, address: IpAddr) -> impl Iterator<Item = &Naming> {
        self.by_address.get(&address).into_iter().flatten().filter_map(|object| self.addresses.get(object))
    }
}

fn unlink<K: Ord>(index: &mut BTreeMap<K, BTreeSet<ObjectName>>, key: &K, object: &ObjectName) {
    if let Some(objects) = index.get_mut(key) {
        objects.remove(object);
        if objects.is_empty() {
            index.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::vocabulary::*;

    #[test]
    fn an_address_that_ours_names_is_taken_under_any_id_on_its_network() {
        let world = world().published("web", 10);
        assert!(world.directory.is_named(&fip(10).0));
        let anew = crate::floating_ip::FloatingIp { id: id(99), ..fip(10).0 };
        assert!(world.directory.is_named(&anew));
        let elsewhere = crate::floating_ip::FloatingIp { id: id(99), ..fip(10).on("another").0 };
        assert!(!world.directory.is_named(&elsewhere));
        assert!(!world.directory.is_named(&fip(11).0));
    }

    #[test]
    fn an_address_that_another_provider_names_is_taken_on_every_network() {
        let world = world().named_by_others(10);
        assert!(world.directory.is_named(&fip(10).on("another").0));
        assert_eq!(world.directory.owner(&fip(10).0), None);
    }

    #[test]
    fn the_owner_is_the_claim_whose_ip_address_names_the_floating_ip_itself() {
        let world = world().published("web", 10);
        assert_eq!(world.directory.owner(&fip(10).0).map(|owner| owner.claim.clone()), Some(key("web")));
        assert!(world.directory.is_anothers(&fip(10).0, &pool_id("p"), &key("db")));
        assert!(!world.directory.is_anothers(&fip(10).0, &pool_id("p"), &key("web")));
    }

    #[test]
    fn what_is_gone_names_nothing() {
        let mut world = world().published("web", 10).named_by_others(11);
        world.directory.retain(&Default::default());
        assert!(!world.directory.is_named(&fip(10).0) && !world.directory.is_named(&fip(11).0));
    }

    #[test]
    fn an_ip_address_that_changed_names_only_what_it_names_now() {
        let mut world = world().published("web", 10);
        let object = super::ObjectName::new("team", "web");
        world.directory.observe(object, super::Naming { address: address(11), ours: None });
        assert!(!world.directory.is_named(&fip(10).0) && world.directory.is_named(&fip(11).0));
    }

    #[test]
    fn a_roster_is_replaced_and_taken_back() {
        let mut world = world().lists([10, 11]);
        assert!(world.directory.is_rostered(address(11)));
        world.directory.set_roster("p".into(), [address(10)].into());
        assert!(!world.directory.is_rostered(address(11)));
        world.directory.set_roster("p".into(), [].into());
        assert!(!world.directory.is_rostered(address(10)));
    }
}
