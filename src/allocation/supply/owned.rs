//! The addresses that the pool created and no claim has: spares, retained, or released and past the grace period.

use super::sources::Candidates;
use crate::allocation::ledger::LedgerEntry;
use crate::allocation::mark::Ownership;
use crate::allocation::situation::Situation;

pub(super) fn candidates(situation: Situation<'_>) -> Candidates<'_> {
    let unsettled = situation.ledger.unsettled_of_pool(&situation.pool.id);
    Box::new(unsettled.filter(move |entry| is_owned_and_free(&situation, entry)))
}

pub(super) fn permits(situation: &Situation<'_>, entry: &LedgerEntry) -> bool {
    situation.created_here(entry).is_some()
}

pub(in crate::allocation) fn is_owned_and_free(situation: &Situation<'_>, entry: &LedgerEntry) -> bool {
    let Situation { ledger, pool, now, .. } = situation;
    let is_unclaimed = match situation.ownership(entry) {
        Ownership::Unclaimed => true,
        // It has been seen without a port since the release was written.
        Ownership::Released { at, .. } => now.duration_since(at) >= pool.grace && entry.is_confirmed(),
        _ => false,
    };
    is_unclaimed
        && situation.created_here(entry).is_some()
        && entry.is_free()
        && !ledger.is_being_created(entry)
        && !pool.is_excluded(entry.fip.address)
        && situation.is_on_network(entry)
        && !situation.relevant_addresses().is_published(&entry.fip)
        && !ledger.has_copied_mark(entry)
}
