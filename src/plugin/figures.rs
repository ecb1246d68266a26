//! The counts of a pool, as `usage` and `explain` print them.

use serde::Serialize;

use crate::api::pool::AddressCounts;

#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub(super) struct PoolCapacity {
    #[serde(flatten)]
    pub(super) counts: AddressCounts,
    /// `spec.maxIPs`.
    pub(super) limit: Option<u32>,
    /// None for a closed list, and for a pool that was never resolved.
    pub(super) network: Option<String>,
}

impl PoolCapacity {
    /// The percentage of the capacity that is in use; none for a pool without capacity.
    pub(super) fn percent_used(&self) -> Option<u32> {
        let used = u64::from(self.in_use()) * 100;
        u32::try_from(used.checked_div(u64::from(self.capacity()))?).ok()
    }

    /// The limit, or else everything that the pool has or could give without creating.
    pub(super) fn capacity(&self) -> u32 {
        let AddressCounts { total, free, failed, .. } = self.counts;
        let known = self.in_use().saturating_add(free).saturating_add(failed);
        // The limit may have been lowered below what is in use.
        self.limit.map_or(known.max(total), |limit| limit.max(self.in_use()))
    }

    /// Anyone with permission can write a status, with any figures: so sums saturate.
    fn in_use(&self) -> u32 {
        self.counts.allocated.saturating_add(self.counts.cooling)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(limit: Option<u32>, allocated: u32, free: u32) -> PoolCapacity {
        let counts = AddressCounts { total: allocated, allocated, free, ..AddressCounts::default() };
        PoolCapacity { counts, limit, network: None }
    }

    #[test]
    fn the_limit_is_what_a_pool_is_measured_by_else_what_it_has() {
        assert_eq!(figures(Some(4), 1, 9).percent_used(), Some(25));
        assert_eq!(figures(None, 1, 3).percent_used(), Some(25));
        assert_eq!(figures(None, 0, 0).percent_used(), None);
        assert_eq!(figures(Some(2), 5, 0).percent_used(), Some(100), "the limit was lowered");
        assert_eq!(figures(Some(0), 0, 0).percent_used(), None);
    }

    #[test]
    fn absurd_figures_of_a_status_do_not_overflow() {
        let figures = figures(None, u32::MAX, u32::MAX);
        assert_eq!((figures.capacity(), figures.percent_used()), (u32::MAX, Some(100)));
    }
}
