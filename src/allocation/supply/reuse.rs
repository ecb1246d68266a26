//! The free floating IPs of the project that `spec.reuse` allows, by address.

use super::sources::Candidates;
use crate::allocation::ledger::LedgerEntry;
use crate::allocation::mark::without_marks;
use crate::allocation::policy::ReuseRule;
use crate::allocation::situation::Situation;

pub(super) fn candidates(situation: Situation<'_>) -> Candidates<'_> {
    if situation.pool.reuse == ReuseRule::Never || situation.pool.network.is_none() {
        return Box::new(std::iter::empty());
    }
    Box::new(situation.ledger.unmarked_and_unattached().filter(move |entry| is_reusable(&situation, entry)))
}

fn is_reusable(situation: &Situation<'_>, entry: &LedgerEntry) -> bool {
    let Situation { pool, now, .. } = situation;
    let published = situation.relevant_addresses();
    entry.is_free()
        && !entry.is_yielded(*now)
        && entry.has_room_for_tag()
        && pool.may_reuse(&entry.fip)
        && pool.has_been_idle(&entry.fip, *now)
        && !pool.is_excluded(entry.fip.address)
        && pool.reserved_for(entry.fip.address).is_none()
        && !published.may_be_listed(entry.fip.address)
        && !published.is_published(&entry.fip)
        && !published.may_be_named_by_cluster(entry.fip.address)
}

pub(super) fn permits(situation: &Situation<'_>, entry: &LedgerEntry) -> bool {
    let pool = situation.pool;
    let published = situation.relevant_addresses();
    // What a pool lists may not have been known when it was chosen.
    pool.may_reuse(&without_marks(&entry.fip))
        && !published.may_be_listed(entry.fip.address)
        && !published.may_be_named_by_cluster(entry.fip.address)
}
