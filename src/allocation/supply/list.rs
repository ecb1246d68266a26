//! The addresses of `spec.preAllocatedFloatingIPs`, in the order of the list.

use super::sources::Candidates;
use crate::allocation::ledger::LedgerEntry;
use crate::allocation::situation::Situation;

pub(super) fn candidates(situation: Situation<'_>) -> Candidates<'_> {
    let Situation { ledger, pool, .. } = situation;
    let is_marked = move |address| ledger.at(address).any(|entry| entry.marks.names(&pool.id));
    let listed = pool.listed.iter().copied().filter(move |address| !is_marked(*address));
    Box::new(listed.filter_map(move |address| ledger.at(address).find(|entry| is_listable(&situation, entry))))
}

pub(super) fn permits(situation: &Situation<'_>, entry: &LedgerEntry) -> bool {
    situation.pool.listed.contains(&entry.fip.address)
}

pub(in crate::allocation) fn is_listable(situation: &Situation<'_>, entry: &LedgerEntry) -> bool {
    situation.pool.has_tags
        && entry.is_free()
        && !entry.is_yielded(situation.now)
        && entry.marks.is_empty()
        && entry.has_room_for_tag()
        && !situation.pool.is_excluded(entry.fip.address)
        && !situation.relevant_addresses().is_published(&entry.fip)
}
