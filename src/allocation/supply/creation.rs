//! Where a floating IP is created, and how many may be.

use super::{Supply, Unavailable};
use crate::allocation::ledger::UNWANTED_LIMIT;
use crate::allocation::refusal::Refusal;
use crate::allocation::situation::Situation;
use crate::floating_ip::{FloatingIp, NetworkId, SubnetId};

/// Where a floating IP is to be created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreationPlace {
    pub network: NetworkId,
    /// Neutron chooses one when there is none.
    pub subnet: Option<SubnetId>,
}

impl Supply<'_> {
    /// How many creations may begin now, `maxIPs` aside: none, one that probes whether Neutron still refuses, or any
    /// number.
    pub(super) fn creatable(&self) -> usize {
        let Situation { ledger, pool, now, .. } = self.situation;
        match pool.network.is_some() && ledger.may_create(pool, now) {
            false => 0,
            true if ledger.is_probing(pool, now) => 1,
            true => usize::MAX,
        }
    }

    /// Whether a creation is expected to succeed.
    pub(super) fn may_create_without_probing(&self) -> bool {
        let Situation { ledger, pool, .. } = self.situation;
        // While claims wait for any address, one of them asks again soon.
        let is_refusing = match self.situation.queue_for_any().next() {
            None => ledger.is_refusing(&pool.id),
            Some(_) => ledger.creation_refusal(&pool.id).is_some() || ledger.lacks_subnet(pool),
        };
        pool.network.is_some() && !is_refusing && !ledger.offers_only_unwanted(pool)
    }

    pub(super) fn creation_place(&self) -> Result<CreationPlace, Unavailable> {
        let Situation { ledger, pool, now, .. } = self.situation;
        let Some(network) = pool.network.clone() else { return Err(Unavailable::Refused(self.refusal())) };
        // With a limit, a late POST of a previous process would be one too many.
        if pool.max_ips.is_some() && self.situation.fence().is_some() {
            return Err(Unavailable::Fenced);
        }
        // Where a pool has subnets, each pauses of its own.
        if pool.subnets.is_empty() && ledger.count_unwanted(&pool.id) >= UNWANTED_LIMIT {
            return Err(Unavailable::Refused(Refusal::OnlyUnwanted));
        }
        match ledger.usable_subnet(pool, now) {
            None if !pool.subnets.is_empty() => Err(Unavailable::Refused(ledger.subnets_refusal(pool))),
            subnet => Ok(CreationPlace { network, subnet: subnet.cloned() }),
        }
    }

    /// How many of these missing spares `maxIPs` allows, and how many of them can be created now.
    pub(in crate::allocation) fn creatable_spares(&self, missing: usize) -> (usize, usize) {
        let allowed = missing.min(self.room());
        // Each of the pool's subnets may pause.
        let now = if self.spare_place().is_some() { allowed.min(self.creatable()) } else { 0 };
        (allowed, now)
    }

    /// Where to create a spare; `None` where a limit, or a refusal of Neutron, forbids it now.
    pub fn spare_place(&self) -> Option<CreationPlace> {
        if self.room() == 0 || self.creatable() == 0 {
            return None;
        }
        self.creation_place().ok()
    }
}

/// Whether any claim could get a floating IP that was created as a spare.
pub fn is_usable_spare(situation: &Situation<'_>, fip: &FloatingIp) -> bool {
    situation.pool.is_for_any_claim(fip.address)
        && !situation.relevant_addresses().is_published(fip)
        && !situation.was_anothers(fip, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocation::testing::*;

    #[test]
    fn a_spare_is_created_within_the_limit_and_unless_neutron_refuses() {
        let place = |fixture: Fixture| Supply::new(fixture.situation()).spare_place();
        let somewhere = Some(CreationPlace { network: network(), subnet: None });
        assert_eq!(place(fixture()), somewhere);
        assert_eq!(place(fixture().max_ips(1)), somewhere);
        assert_eq!(place(fixture().max_ips(1).fips([fip(10).idle()])), None);
        assert_eq!(place(fixture().blocked()), None);
        assert_eq!(place(fixture().with_policy(|pool| pool.network = None)), None);
    }

    #[test]
    fn a_spare_is_usable_unless_it_is_excluded_or_published() {
        let is_usable = |fixture: Fixture| is_usable_spare(&fixture.situation(), &fip(10).0);
        assert!(is_usable(fixture()));
        assert!(!is_usable(fixture().excluding("203.0.113.10/32")));
        assert!(!is_usable(fixture().published_by_others(10)));
        let same_address = |last: u8| Fip(FloatingIp { address: address(10), ..fip(last).0 });
        let held = || fixture().fips([same_address(11).created_for("web")]);
        assert!(!is_usable(held().active_claim("web")), "that claim's IPAddress may follow");
        assert!(is_usable(held()) && is_usable(held().active_claim("web").published("web", 12)));
        assert!(is_usable(fixture().fips([same_address(11).idle()])));
    }
}
