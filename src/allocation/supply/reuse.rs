//! The free floating IPs of the project that `spec.reuse` allows, by address.

use super::sources::Candidates;
use crate::allocation::ledger::LedgerEntry;
use crate::allocation::mark::without_marks;
use crate::allocation::policy::ReuseRule;
use crate::allocation::published::RelevantAddresses;
use crate::allocation::situation::Situation;

pub(super) fn candidates(situation: Situation<'_>) -> Candidates<'_> {
    if situation.pool.reuse == ReuseRule::Never || situation.pool.network.is_none() {
        return Box::new(std::iter::empty());
    }
    Box::new(situation.ledger.unmarked_and_unattached().filter(move |entry| is_reusable(&situation, entry)))
}

fn is_reusable(situation: &Situation<'_>, entry: &LedgerEntry) -> bool {
    let Situation { pool, now, .. } = situation;
    entry.is_free()
        && !entry.is_yielded(*now)
        && entry.has_room_for_tag()
        && pool.may_reuse(&entry.fip)
        && pool.has_been_idle(&entry.fip, *now)
        && !pool.is_excluded(entry.fip.address)
        && pool.reserved_for(entry.fip.address).is_none()
        && !may_be_named(situation, entry)
        && !possibly_relevant(situation).any(|published| published.is_published(&entry.fip))
}

pub(super) fn permits(situation: &Situation<'_>, entry: &LedgerEntry) -> bool {
    // What a pool lists may not have been known when it was chosen.
    situation.pool.may_reuse(&without_marks(&entry.fip)) && !may_be_named(situation, entry)
}

/// Whether a pool may list or reserve it, or a cluster name it.
fn may_be_named(situation: &Situation<'_>, entry: &LedgerEntry) -> bool {
    let address = entry.fip.address;
    possibly_relevant(situation)
        .any(|published| published.may_be_listed(address) || published.may_be_named_by_cluster(address))
}

/// What counts for the pool, and what may turn out to count once all pools are resolved.
fn possibly_relevant<'a>(situation: &Situation<'a>) -> impl Iterator<Item = RelevantAddresses<'a>> {
    let published = situation.published;
    [situation.namespaces, situation.unresolved]
        .into_iter()
        .filter(|namespaces| !namespaces.is_empty())
        .map(move |namespaces| RelevantAddresses::new(published, namespaces))
}
