//! Builds a pool's policy from its spec and what was found in Neutron.

use std::net::IpAddr;

use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use crate::allocation::ledger::Viewer;
use crate::allocation::policy::ReuseRule;
use crate::allocation::{PoolId, PoolPolicy};
use crate::api::OpenStackFloatingIPPool;
use crate::api::pool::{self, OrphanPolicy, ReclaimPolicy, Reuse};
use crate::floating_ip::{NetworkId, SubnetId};

/// What was found in Neutron for a spec.
#[derive(Clone, Default)]
pub(super) struct NeutronFacts {
    pub(super) network: Option<NetworkId>,
    pub(super) subnets: Vec<SubnetId>,
    pub(super) has_tags: bool,
}

pub(super) fn policy_of(
    pool: &OpenStackFloatingIPPool,
    id: &PoolId,
    viewer: Viewer,
    found: NeutronFacts,
    fenced_until: Option<Timestamp>,
) -> PoolPolicy {
    let spec = &pool.spec;
    let orphans = spec.orphans.clone().unwrap_or_default();
    let reservations = spec.reservations.iter();
    PoolPolicy {
        id: id.clone(),
        viewer,
        namespace: pool.namespace().unwrap_or_default(),
        listed: spec.listed(),
        network: found.network,
        subnets: found.subnets,
        max_ips: spec.max_ips.map(count),
        deletes: spec.reclaim_policy == ReclaimPolicy::Delete,
        reuse: reuse_rule(&spec.reuse.clone().unwrap_or_default()),
        excluded: spec.excluded_addresses.iter().filter_map(|range| parse_range(range)).collect(),
        reservations: reservations
            .filter_map(|reservation| Some((reservation.claim.clone(), reservation.address.parse().ok()?)))
            .collect(),
        min_free: count(spec.min_free),
        tags: spec.tags.iter().cloned().collect(),
        grace: seconds(spec.reuse_grace_period_seconds),
        releases_orphans: orphans.policy == OrphanPolicy::Release,
        orphan_grace: seconds(orphans.grace_seconds),
        has_tags: found.has_tags,
        fenced_until,
        only_releases: false,
    }
}

fn reuse_rule(reuse: &Reuse) -> ReuseRule {
    let idle = seconds(reuse.min_idle_seconds);
    match reuse.policy {
        pool::ReusePolicy::Never => ReuseRule::Never,
        pool::ReusePolicy::Unmarked => ReuseRule::Unmarked { idle },
        pool::ReusePolicy::Tagged => ReuseRule::Tagged { tags: reuse.tags.iter().cloned().collect(), idle },
    }
}

fn count(addresses: u32) -> usize {
    addresses.try_into().unwrap_or(usize::MAX)
}

fn seconds(seconds: u32) -> SignedDuration {
    SignedDuration::from_secs(i64::from(seconds))
}

fn parse_range(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}
