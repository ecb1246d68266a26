//! Which floating IPs a pool can give, and in which order. Who counts under `maxIPs` is the ledger's to say.

use jiff::Timestamp;

use super::{ClaimRequest, Origin, is_free};
use crate::allocation::ledger::{Ledger, LedgerEntry};
use crate::allocation::mark::Ownership;
use crate::allocation::policy::{PoolPolicy, ReusePolicy};
use crate::allocation::published::PublishedAddresses;

/// What can be given without creating anything, in the order of choice.
pub(super) struct Candidates;

impl Candidates {
    /// What the pool owns: idle, or released and rested.
    pub(super) fn owned<'a>(
        ledger: &'a Ledger,
        published: &PublishedAddresses,
        pool: &PoolPolicy,
        claim: &ClaimRequest,
        now: Timestamp,
    ) -> Vec<&'a LedgerEntry> {
        ledger
            .of_pool(&pool.id)
            .filter(|entry| is_ownable(ledger, published, pool, entry, now))
            .filter(|entry| pool.allows(entry.fip.address, &claim.object.name))
            .collect()
    }

    /// What nobody of our kind has marked: the list in its order, then the project's by address.
    pub(super) fn others<'a>(
        ledger: &'a Ledger,
        published: &PublishedAddresses,
        pool: &PoolPolicy,
        claim: &ClaimRequest,
        now: Timestamp,
    ) -> Vec<(Origin, &'a LedgerEntry)> {
        let name = &claim.object.name;
        let listed = pool.listed.iter().flat_map(|address| ledger.at(*address));
        let listed = listed.filter(|entry| is_listable(published, pool, entry) && pool.allows(entry.fip.address, name));
        let mut others: Vec<_> = listed.map(|entry| (Origin::List, entry)).collect();
        if pool.reuse != ReusePolicy::Never && pool.network.is_some() {
            let reusable = |entry: &&LedgerEntry| is_reusable(published, pool, entry, now);
            let mut reused: Vec<_> = ledger.entries().filter(reusable).collect();
            reused.sort_by_key(|entry| (entry.fip.address, entry.fip.id.clone()));
            others.extend(reused.into_iter().map(|entry| (Origin::Reuse, entry)));
        }
        others
    }
}

/// Whether the pool can give one that it created: idle, or released, rested and seen without a port since.
pub(in crate::allocation) fn is_ownable(
    ledger: &Ledger,
    published: &PublishedAddresses,
    pool: &PoolPolicy,
    entry: &LedgerEntry,
    now: Timestamp,
) -> bool {
    let is_created = entry.marks.created.as_ref().is_some_and(|mark| mark.pool == pool.id);
    let is_unclaimed = match entry.marks.ownership(&pool.id) {
        Ownership::Idle => true,
        Ownership::Released { at, .. } => now.duration_since(at) >= pool.grace && entry.is_confirmed(),
        _ => false,
    };
    is_created
        && is_unclaimed
        && is_free(entry)
        && !ledger.is_arriving(entry)
        && !pool.is_excluded(entry.fip.address)
        && pool.network.as_ref() == Some(&entry.fip.network)
        && !published.is_published(&entry.fip)
        && !ledger.is_copied(entry)
}

/// How many addresses the pool has beyond its limit, which was lowered.
pub(in crate::allocation) fn surplus(ledger: &Ledger, pool: &PoolPolicy) -> usize {
    pool.max_ips.map_or(0, |limit| ledger.counted(&pool.id).saturating_sub(limit))
}

/// How many of those that the pool owns may be given: all that are free, but for the surplus. Else a pool whose limit
/// was lowered would never come down to it, as long as somebody waits.
pub(super) fn givable(ledger: &Ledger, published: &PublishedAddresses, pool: &PoolPolicy, now: Timestamp) -> usize {
    let free = ledger.of_pool(&pool.id).filter(|entry| is_ownable(ledger, published, pool, entry, now)).count();
    free.saturating_sub(surplus(ledger, pool))
}

/// Whether a listed one can be given.
pub(in crate::allocation) fn is_listable(
    published: &PublishedAddresses,
    pool: &PoolPolicy,
    entry: &LedgerEntry,
) -> bool {
    pool.has_tags
        && is_free(entry)
        && entry.marks.is_empty()
        && !pool.is_excluded(entry.fip.address)
        && !published.is_published(&entry.fip)
}

/// Whether a free one of the project can be given.
pub(in crate::allocation) fn is_reusable(
    published: &PublishedAddresses,
    pool: &PoolPolicy,
    entry: &LedgerEntry,
    now: Timestamp,
) -> bool {
    is_free(entry)
        && entry.marks.is_empty()
        && pool.may_reuse(&entry.fip, now)
        && !pool.is_excluded(entry.fip.address)
        && pool.reserved_for(entry.fip.address).is_none()
        && !published.is_listed(entry.fip.address)
        && !published.is_published(&entry.fip)
}
