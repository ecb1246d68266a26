//! An address for a claim that has none, or the limit that was met: under `maxIPs`, in the order of age.

use std::net::IpAddr;

use jiff::Timestamp;

use super::candidates::{Candidates, givable};
use super::{ClaimRequest, Decision, MarkWrite, Origin, UNWANTED_LIMIT, fenced, is_free};
use crate::allocation::ledger::{Ledger, LedgerEntry};
use crate::allocation::mark::{Ownership, claim_tag};
use crate::allocation::policy::PoolPolicy;
use crate::allocation::published::PublishedAddresses;
use crate::allocation::refusal::Refusal;

/// Chooses an address for a claim that has none.
pub(super) fn choose(
    ledger: &Ledger,
    published: &PublishedAddresses,
    pool: &PoolPolicy,
    claim: &ClaimRequest,
    now: Timestamp,
) -> Decision {
    if let Some(address) = pool.reservations.get(&claim.object.name) {
        return take_reserved(ledger, published, pool, claim, *address, now);
    }
    let place = claim.place();
    let older = pool.without_reservation(ledger.waiting(&pool.id)).take_while(|other| **other < place).count();
    let room = pool.max_ips.map_or(usize::MAX, |limit| limit.saturating_sub(ledger.counted(&pool.id)));

    // Those that the pool owns count under its limit already; all others need room.
    let owned = Candidates::owned(ledger, published, pool, claim, now);
    let givable = owned.len().min(givable(ledger, published, pool, now));
    let others = Candidates::others(ledger, published, pool, claim, now);
    let may_create = pool.network.is_some() && ledger.may_create(&pool.id, now);
    let creatable = match (may_create, ledger.is_probing(&pool.id, now)) {
        (false, _) => 0,
        (true, true) => 1,
        (true, false) => usize::MAX,
    };
    let unbounded = others.len().saturating_add(creatable);
    if older >= givable.saturating_add(unbounded.min(room)) {
        return refuse(ledger, pool);
    }
    let listed = others.first().filter(|(origin, _)| *origin == Origin::List && room > 0);
    if let Some((origin, entry)) = listed {
        return mark(ledger, pool, claim, *origin, entry, now);
    }
    if let Some(entry) = owned.first() {
        return mark(ledger, pool, claim, Origin::Owned, entry, now);
    }
    match others.first() {
        Some((origin, entry)) => mark(ledger, pool, claim, *origin, entry, now),
        None => create(ledger, pool, now),
    }
}

fn create(ledger: &Ledger, pool: &PoolPolicy, now: Timestamp) -> Decision {
    let Some(network) = pool.network.clone() else { return refuse(ledger, pool) };
    // With a limit, a POST of a predecessor that lands late would be one too many.
    if pool.max_ips.is_some() && ledger.fence(pool).is_some() {
        return fenced(ledger, pool, now);
    }
    if ledger.unwanted(&pool.id) >= UNWANTED_LIMIT {
        return Decision::Refuse(Refusal::OnlyUnwanted);
    }
    if pool.subnets.is_empty() {
        return Decision::Create(network, None);
    }
    match pool.subnets.iter().find(|subnet| ledger.may_ask(subnet, now)) {
        Some(subnet) => Decision::Create(network, Some(subnet.clone())),
        None if ledger.is_barren(&pool.id) => Decision::Refuse(Refusal::OnlyUnwanted),
        None => Decision::Refuse(Refusal::NetworkExhausted),
    }
}

fn refuse(ledger: &Ledger, pool: &PoolPolicy) -> Decision {
    Decision::Refuse(match (pool.max_ips, ledger.refused(&pool.id)) {
        // They fill the limit, or are all that is left: a higher limit is not what is missing.
        _ if pool.network.is_some() && ledger.is_barren(&pool.id) => Refusal::OnlyUnwanted,
        (Some(limit), _) if ledger.is_full(&pool.id, limit) => Refusal::LimitReached(limit),
        (_, Some(refusal)) if pool.network.is_some() => refusal.clone(),
        _ if pool.network.is_none() && !pool.has_tags => Refusal::NoTags,
        (Some(limit), None) if pool.network.is_some() => Refusal::LimitReached(limit),
        _ => Refusal::ListUsedUp,
    })
}

fn take_reserved(
    ledger: &Ledger,
    published: &PublishedAddresses,
    pool: &PoolPolicy,
    claim: &ClaimRequest,
    address: IpAddr,
    now: Timestamp,
) -> Decision {
    if pool.is_excluded(address) {
        return Decision::Refuse(Refusal::ReservationExcluded(address));
    }
    let in_reach = |entry: &&LedgerEntry| pool.network.as_ref().is_none_or(|network| *network == entry.fip.network);
    let is_the_pools = |entry: &LedgerEntry| entry.marks.ownership(&pool.id) == Ownership::Idle;
    let is_to_be_had = |entry: &&LedgerEntry| {
        is_free(entry)
            && !ledger.is_arriving(entry)
            && !published.is_published(&entry.fip)
            && (is_the_pools(entry) || entry.marks.is_empty())
            && !ledger.is_copied(entry)
    };
    // A listing by pages may show an address twice: the one that was deleted meanwhile, and the one that took its place.
    let Some(entry) = ledger.at(address).filter(in_reach).find(is_to_be_had) else {
        return Decision::Refuse(match ledger.at(address).any(|entry| in_reach(&entry)) {
            true => Refusal::ReservationInUse(address),
            false => Refusal::ReservationMissing(address),
        });
    };
    let is_the_pools = is_the_pools(entry);
    if !is_the_pools && !pool.has_tags {
        return Decision::Refuse(Refusal::NoTags);
    }
    match pool.max_ips {
        Some(limit) if !is_the_pools && ledger.counted(&pool.id) >= limit => {
            Decision::Refuse(Refusal::LimitReached(limit))
        }
        Some(limit) if is_the_pools && givable(ledger, published, pool, now) == 0 => {
            Decision::Refuse(Refusal::LimitReached(limit))
        }
        _ => mark(ledger, pool, claim, Origin::Reserved, entry, now),
    }
}

fn mark(
    ledger: &Ledger,
    pool: &PoolPolicy,
    claim: &ClaimRequest,
    origin: Origin,
    entry: &LedgerEntry,
    now: Timestamp,
) -> Decision {
    let id = entry.fip.id.clone();
    // A late write of a predecessor would land on top, take the tag off again, or be one more than the limit.
    if ledger.fence(pool).is_some() {
        return fenced(ledger, pool, now);
    }
    match &entry.marks.created {
        Some(mark) => Decision::Mark(id, origin, MarkWrite::Describe(mark.given_to(&claim.key))),
        None => Decision::Mark(id, origin, MarkWrite::Tag(claim_tag(&pool.id, &claim.key))),
    }
}
