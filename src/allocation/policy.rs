//! A pool's rules: its spec, parsed, with its network resolved. Built once per change, by the pool controller.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};

use super::identity::{ClaimKey, PoolId};
use super::ledger::Viewer;
use crate::floating_ip::{FloatingIp, NetworkId, SubnetId};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolPolicy {
    /// Its identity in marks.
    pub id: PoolId,
    /// Whose credentials it has.
    pub viewer: Viewer,
    /// Of the pool and its claims.
    pub namespace: String,
    /// The predefined addresses, in the order in which they are given.
    pub listed: Vec<IpAddr>,
    /// The network to reuse and create on; none for a closed list.
    pub network: Option<NetworkId>,
    /// Subnets to create on, in order of preference; Neutron chooses when empty.
    pub subnets: Vec<SubnetId>,
    /// The most addresses that may carry the pool's mark.
    pub max_ips: Option<usize>,
    /// Whether what we created is deleted once released.
    pub deletes: bool,
    /// Which free floating IPs of the project may be used.
    pub reuse: ReuseRule,
    /// Never given.
    pub excluded: Vec<IpNet>,
    /// Kept for one claim each, by the claim's name.
    pub reservations: BTreeMap<String, IpAddr>,
    /// How many addresses that the pool created are kept free and ready.
    pub min_free: usize,
    /// What the pool created carries these tags beside its marks.
    pub tags: BTreeSet<String>,
    /// How long a released address is given to no other claim.
    pub grace: SignedDuration,
    /// Whether orphans are released, or only reported.
    pub releases_orphans: bool,
    /// How long an orphan must be seen as one before it is released.
    pub orphan_grace: SignedDuration,
    /// Whether floating IPs can carry tags here.
    pub has_tags: bool,
    /// Until then a predecessor's late writes may still land: nothing is chosen or swept, and with a limit nothing is
    /// created. Absent where the predecessor is known to have finished its calls.
    pub fenced_until: Option<Timestamp>,
    /// The pool has a problem, or is being deleted and its network is not known: addresses are only released.
    pub only_releases: bool,
}

/// Which free floating IPs of the project may be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReuseRule {
    Never,
    /// Those without tags, description and DNS name.
    Unmarked {
        /// Not changed for this long.
        idle: SignedDuration,
    },
    /// Those with all of these tags.
    Tagged {
        tags: BTreeSet<String>,
        /// Not changed for this long.
        idle: SignedDuration,
    },
}

impl PoolPolicy {
    pub fn is_excluded(&self, address: IpAddr) -> bool {
        self.excluded.iter().any(|range| range.contains(&address))
    }

    /// The claim that the address is kept for, by name.
    pub(super) fn reserved_for(&self, address: IpAddr) -> Option<&str> {
        self.reservations.iter().find(|(_, reserved)| **reserved == address).map(|(claim, _)| claim.as_str())
    }

    /// Whether the pool's spec lets any claim have the address.
    pub(super) fn is_for_any_claim(&self, address: IpAddr) -> bool {
        !self.is_excluded(address) && self.reserved_for(address).is_none()
    }

    /// Whether the pool's spec allows the claim to have the address.
    pub fn allows(&self, address: IpAddr, claim: &ClaimKey) -> bool {
        let is_claims = |owner: &str| ClaimKey::of(&self.namespace, owner) == *claim;
        !self.is_excluded(address) && self.reserved_for(address).is_none_or(is_claims)
    }

    /// Whether `spec.reuse` allows a floating IP without marks, by its tags and texts.
    pub(super) fn may_reuse(&self, fip: &FloatingIp) -> bool {
        self.network.as_ref() == Some(&fip.network)
            && self.has_tags
            && match &self.reuse {
                ReuseRule::Never => false,
                ReuseRule::Unmarked { .. } => {
                    fip.tags.is_empty() && fip.description.is_empty() && fip.dns_name.is_empty()
                }
                ReuseRule::Tagged { tags, .. } => tags.is_subset(&fip.tags),
            }
    }

    /// Whether a floating IP has not changed for as long as `spec.reuse` asks: otherwise its owner may be about to use it.
    pub(super) fn has_been_idle(&self, fip: &FloatingIp, now: Timestamp) -> bool {
        match &self.reuse {
            ReuseRule::Never => false,
            ReuseRule::Unmarked { idle } | ReuseRule::Tagged { idle, .. } => {
                fip.changed_at.is_some_and(|at| now.duration_since(at) >= *idle)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn may_reuse(fip: Fip) -> bool {
        may_reuse_in(&fixture().pool, &fip)
    }

    fn may_reuse_in(pool: &PoolPolicy, fip: &Fip) -> bool {
        pool.may_reuse(&fip.0) && pool.has_been_idle(&fip.0, start())
    }

    #[test]
    fn only_floating_ips_without_tags_and_texts_are_reused() {
        assert!(may_reuse(fip(10)));
        assert!(!may_reuse(fip(10).tag("prod")));
        assert!(!may_reuse(fip(10).described("mail")));
        let mut named = fip(10);
        named.0.dns_name = "www".into();
        assert!(!may_reuse(named));
        assert!(!may_reuse(fip(10).on_network("another")));
    }

    #[test]
    fn a_recently_changed_floating_ip_is_not_reused() {
        assert!(!may_reuse(fip(10).changed_at(ago(299))));
        assert!(may_reuse(fip(10).changed_at(ago(300))));
        let mut unknown = fip(10);
        unknown.0.changed_at = None;
        assert!(!may_reuse(unknown));
    }

    #[test]
    fn only_floating_ips_with_all_configured_tags_are_reused() {
        let tags: BTreeSet<String> = ["a".into(), "b".into()].into();
        let fixture = fixture().with_policy(|pool| pool.reuse = ReuseRule::Tagged { tags, idle: seconds(300) });
        let may = |fip: Fip| may_reuse_in(&fixture.pool, &fip);
        assert!(may(fip(10).tag("a").tag("b").tag("c").described("anything")));
        assert!(!may(fip(10).tag("a")));
        assert!(!may(fip(10)));
        assert!(!may(fip(10).tag("a").tag("b").changed_at(ago(1))));
    }

    #[test]
    fn nothing_is_reused_without_tags_a_network_or_permission() {
        let may = |change: fn(&mut PoolPolicy)| may_reuse_in(&fixture().with_policy(change).pool, &fip(10));
        assert!(!may(|pool| pool.has_tags = false));
        assert!(!may(|pool| pool.reuse = ReuseRule::Never));
        assert!(!may(|pool| pool.network = None));
    }

    #[test]
    fn excluded_addresses_are_never_allowed_and_reserved_ones_only_to_their_claim() {
        let pool = fixture().excluding("203.0.113.64/28").reserving("web", 10).pool;
        assert!(!pool.allows(address(66), &key("web")));
        assert!(pool.allows(address(10), &key("web")) && !pool.allows(address(10), &key("db")));
        assert!(pool.allows(address(11), &key("db")));
        assert_eq!(pool.reserved_for(address(10)), Some("web"));
    }
}
