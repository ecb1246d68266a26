//! The floating IPs that listings no longer show. They are gone, or the role of the credentials may not see them any more:
//! then Neutron answers 200 with an empty list.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use super::Ledger;
use crate::allocation::identity::PoolId;
use crate::floating_ip::FloatingIpId;

/// How many are kept of a pool, the last ones: users may delete what they like for years.
const KEPT: usize = 64;

/// A floating IP with a pool's mark that the last listing did not show.
#[derive(Clone, Debug)]
pub struct Missing {
    pub id: FloatingIpId,
    pub address: IpAddr,
}

/// Those of each pool that this process serves or cleans up.
pub(super) type MissingOfPools = BTreeMap<PoolId, VecDeque<Missing>>;

impl Ledger {
    /// From now on the pool's floating IPs that go missing are kept, until the pool is [forgotten](Self::forget_pool).
    pub fn keep_missing(&mut self, pool: &PoolId) {
        if !self.missing.contains_key(pool) {
            self.missing.insert(pool.clone(), VecDeque::new());
        }
    }

    /// Those of the pool, until it is [known](Self::note_gone) that they are gone.
    pub fn missing_of_pool(&self, pool: &PoolId) -> impl Iterator<Item = &Missing> {
        self.missing.get(pool).into_iter().flatten()
    }

    /// A missing floating IP does not exist, or is not the pool's.
    pub fn note_gone(&mut self, id: &FloatingIpId, pool: &PoolId) {
        if let Some(missing) = self.missing.get_mut(pool) {
            missing.retain(|missing| missing.id != *id);
        }
    }

    /// A listing does not show a floating IP that was known.
    pub(super) fn note_missing(&mut self, id: &FloatingIpId) {
        let Some(entry) = self.entries.get(id) else { return };
        for pool in entry.marks.pools() {
            let Some(missing) = self.missing.get_mut(pool) else { continue };
            missing.retain(|missing| missing.id != *id);
            if missing.len() == KEPT {
                missing.pop_front();
            }
            missing.push_back(Missing { id: id.clone(), address: entry.fip.address });
        }
    }

    /// A listing shows these.
    pub(super) fn note_listed(&mut self, listed: &BTreeSet<FloatingIpId>) {
        self.missing.values_mut().for_each(|missing| missing.retain(|missing| !listed.contains(&missing.id)));
    }
}
