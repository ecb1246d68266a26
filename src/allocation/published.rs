//! Which addresses Kubernetes names: every IPAddress of every provider, and every pool's list. Kept up by the watches.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::identity::{ClaimKey, PoolId};
use crate::floating_ip::{FloatingIp, FloatingIpId, NetworkId};
use crate::object_name::ObjectName;

/// What an IPAddress names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublishedAddress {
    /// The address.
    pub address: IpAddr,
    /// Whose it is, when one of our pools published it; of any other provider there is none.
    pub ours: Option<Binding>,
}

/// What an IPAddress of ours names, beyond the address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Binding {
    /// The pool.
    pub pool: PoolId,
    /// The claim.
    pub claim: ClaimKey,
    /// The floating IP.
    pub fip: FloatingIpId,
    /// Its network, where that is known: the same address may exist on another one, or in another cloud.
    pub network: Option<NetworkId>,
}

impl Binding {
    /// Whether a floating IP with the same address is meant: this one, or its address on the same network under
    /// another id, since somebody may delete a floating IP under a living machine and Neutron give its address anew.
    fn means(&self, fip: &FloatingIp) -> bool {
        self.fip == fip.id || self.network.as_ref().is_none_or(|network| *network == fip.network)
    }
}

/// Every address that Kubernetes names.
#[derive(Clone, Default, Debug)]
pub struct PublishedAddresses {
    addresses: BTreeMap<ObjectName, PublishedAddress>,
    by_address: BTreeMap<IpAddr, BTreeSet<ObjectName>>,
    by_claim: BTreeMap<(PoolId, ClaimKey), BTreeSet<ObjectName>>,
    listed: BTreeMap<String, BTreeSet<IpAddr>>,
}

impl PublishedAddresses {
    /// An IPAddress was seen as it now is.
    pub fn observe(&mut self, object: ObjectName, naming: PublishedAddress) {
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
    pub fn set_listed(&mut self, pool: String, addresses: BTreeSet<IpAddr>) {
        if addresses.is_empty() {
            self.listed.remove(&pool)
        } else {
            self.listed.insert(pool, addresses)
        };
    }

    /// Whether any pool lists or reserves the address.
    pub fn is_listed(&self, address: IpAddr) -> bool {
        self.listed.values().any(|listed| listed.contains(&address))
    }

    /// Whether an IPAddress names this floating IP: one of ours on the same network; anybody else's by the address.
    pub fn is_published(&self, fip: &FloatingIp) -> bool {
        self.namings(fip.address).any(|naming| naming.ours.as_ref().is_none_or(|ours| ours.means(fip)))
    }

    /// Whether an IPAddress other than this claim's names this floating IP.
    pub fn is_published_for_another(&self, fip: &FloatingIp, pool: &PoolId, claim: &ClaimKey) -> bool {
        let is_the_claims = |ours: &Binding| ours.pool == *pool && ours.claim == *claim;
        self.namings(fip.address)
            .any(|naming| naming.ours.as_ref().is_none_or(|ours| ours.means(fip) && !is_the_claims(ours)))
    }

    /// The claim, of one of our pools, whose IPAddress names this floating IP.
    pub fn owner(&self, fip: &FloatingIp) -> Option<&Binding> {
        self.namings(fip.address).filter_map(|naming| naming.ours.as_ref()).find(|ours| ours.fip == fip.id)
    }

    /// What the IPAddresses of a pool name.
    pub fn of_pool<'a>(&'a self, pool: &'a PoolId) -> impl Iterator<Item = &'a Binding> {
        self.addresses.values().filter_map(|naming| naming.ours.as_ref()).filter(move |ours| ours.pool == *pool)
    }

    /// What the IPAddress of a claim names.
    pub fn of_claim<'a>(&'a self, pool: &'a PoolId, claim: &'a ClaimKey) -> impl Iterator<Item = &'a Binding> {
        self.by_claim
            .get(&(pool.clone(), claim.clone()))
            .into_iter()
            .flatten()
            .filter_map(|object| self.addresses.get(object)?.ours.as_ref())
    }

    fn namings(&self, address: IpAddr) -> impl Iterator<Item = &PublishedAddress> {
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
        assert!(world.published.is_published(&fip(10).0));
        let anew = crate::floating_ip::FloatingIp { id: id(99), ..fip(10).0 };
        assert!(world.published.is_published(&anew));
        let elsewhere = crate::floating_ip::FloatingIp { id: id(99), ..fip(10).on("another").0 };
        assert!(!world.published.is_published(&elsewhere));
        assert!(!world.published.is_published(&fip(11).0));
    }

    #[test]
    fn an_address_that_another_provider_names_is_taken_on_every_network() {
        let world = world().named_by_others(10);
        assert!(world.published.is_published(&fip(10).on("another").0));
        assert_eq!(world.published.owner(&fip(10).0), None);
    }

    #[test]
    fn the_owner_is_the_claim_whose_ip_address_names_the_floating_ip_itself() {
        let world = world().published("web", 10);
        assert_eq!(world.published.owner(&fip(10).0).map(|owner| owner.claim.clone()), Some(key("web")));
        assert!(world.published.is_published_for_another(&fip(10).0, &pool_id("p"), &key("db")));
        assert!(!world.published.is_published_for_another(&fip(10).0, &pool_id("p"), &key("web")));
    }

    #[test]
    fn what_is_gone_names_nothing() {
        let mut world = world().published("web", 10).named_by_others(11);
        world.published.retain(&Default::default());
        assert!(!world.published.is_published(&fip(10).0) && !world.published.is_published(&fip(11).0));
    }

    #[test]
    fn an_ip_address_that_changed_names_only_what_it_names_now() {
        let mut world = world().published("web", 10);
        let object = super::ObjectName::new("team", "web");
        world.published.observe(object, super::PublishedAddress { address: address(11), ours: None });
        assert!(!world.published.is_published(&fip(10).0) && world.published.is_published(&fip(11).0));
    }

    #[test]
    fn a_roster_is_replaced_and_taken_back() {
        let mut world = world().lists([10, 11]);
        assert!(world.published.is_listed(address(11)));
        world.published.set_listed("p".into(), [address(10)].into());
        assert!(!world.published.is_listed(address(11)));
        world.published.set_listed("p".into(), [].into());
        assert!(!world.published.is_listed(address(10)));
    }
}
