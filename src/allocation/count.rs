//! What a pool has: the figures of its status and metrics, and the addresses that cannot be given.

use std::collections::BTreeSet;
use std::net::IpAddr;

use jiff::Timestamp;

use super::claim::{is_listable, is_ownable, is_reusable, surplus};
use super::ledger::{Ledger, LedgerEntry};
use super::mark::Ownership;
use super::policy::PoolPolicy;
use super::published::PublishedAddresses;
use super::refusal::Refusal;

/// How many failed addresses a status names.
pub const FAILED_LIMIT: usize = 16;

/// What a pool has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolUsage {
    /// Listed, and carrying the pool's mark; each once.
    pub total: usize,
    /// Held by claims.
    pub allocated: usize,
    /// Can be given without a POST.
    pub free: usize,
    /// Released, and not yet free or gone.
    pub cooling: usize,
    /// Cannot be given.
    pub failed: usize,
    /// Held by claims, although the pool as it is now would not give them: excluded, or neither listed nor of its network.
    pub out_of_range: usize,
    /// The most that can be in use at once, without those that cannot be given; none where only the project's quota and the
    /// network are the limit.
    pub capacity: Option<usize>,
    /// The first of those that cannot be given.
    pub failures: Vec<(IpAddr, AddressFailure)>,
    /// Why a claim that came now would be refused; none when there is something to give.
    pub exhausted: Option<Refusal>,
}

/// Why an address cannot be given.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
pub enum AddressFailure {
    /// Listed, and not there.
    #[error("is not a floating IP of the project: create it, or take it off spec.preAllocatedFloatingIPs")]
    Missing,
    /// Listed, and something is on it.
    #[error("is attached to a port or has port forwardings: detach it, or take it off spec.preAllocatedFloatingIPs")]
    Attached,
    /// Somebody else's mark.
    #[error("carries another owner's mark: remove that mark, or take the address off the pool")]
    Foreign,
    /// Named by an IPAddress of somebody else's.
    #[error(
        "is named by another IPAddress: delete that IPAddress, or take the address off spec.preAllocatedFloatingIPs"
    )]
    Named,
    /// Listed, and excluded.
    #[error("is both in spec.preAllocatedFloatingIPs and in spec.excludedAddresses: take it out of one of them")]
    Excluded,
    /// Two floating IPs have one creation mark.
    #[error("has a description that was copied from another floating IP: clear the copied description")]
    Copied,
}

/// Counts what a pool has.
pub fn count(ledger: &Ledger, published: &PublishedAddresses, pool: &PoolPolicy, now: Timestamp) -> PoolUsage {
    let mut count = PoolUsage::default();
    let mut failures: BTreeSet<(IpAddr, AddressFailure)> = BTreeSet::new();
    let mut owned_free = 0;
    let listed: BTreeSet<IpAddr> = pool.listed.iter().copied().collect();
    for entry in ledger.of_pool(&pool.id) {
        count.total += 1;
        match entry.marks.ownership(&pool.id) {
            _ if ledger.is_copied(entry) => drop(failures.insert((entry.fip.address, AddressFailure::Copied))),
            Ownership::Held(_) => {
                count.allocated += 1;
                count.out_of_range += usize::from(is_out_of_range(pool, &listed, entry));
            }
            Ownership::Released { .. } => count.cooling += 1,
            Ownership::Idle if entry.fip.is_attached() => {
                drop(failures.insert((entry.fip.address, AddressFailure::Attached)))
            }
            Ownership::Idle => owned_free += usize::from(is_ownable(ledger, published, pool, entry, now)),
            Ownership::Contested | Ownership::Foreign => {
                drop(failures.insert((entry.fip.address, AddressFailure::Foreign)))
            }
            Ownership::Unmarked => {}
        }
    }
    let marked_failed = failures.len();
    let mut others_free = 0;
    for address in &pool.listed {
        let entries: Vec<&LedgerEntry> = ledger.at(*address).collect();
        if entries.iter().any(|entry| entry.marks.pools().contains(&pool.id)) {
            continue;
        }
        count.total += 1;
        if entries.iter().any(|entry| is_listable(published, pool, entry)) {
            others_free += 1;
        } else if let Some(failure) = why_not(published, pool, *address, &entries) {
            failures.insert((*address, failure));
        }
    }
    if pool.network.is_some() {
        let reusable =
            |entry: &&LedgerEntry| !listed.contains(&entry.fip.address) && is_reusable(published, pool, entry, now);
        others_free += ledger.entries().filter(reusable).count();
    }
    let room = pool.max_ips.map_or(usize::MAX, |limit| limit.saturating_sub(ledger.counted(&pool.id)));
    count.free = owned_free.saturating_sub(surplus(ledger, pool)) + others_free.min(room);
    count.failed = failures.len();
    count.capacity = capacity(pool, count.total.saturating_sub(count.failed), marked_failed);
    count.failures = failures.into_iter().take(FAILED_LIMIT).collect();
    count.exhausted = exhausted(ledger, pool, count.free);
    count
}

fn is_out_of_range(pool: &PoolPolicy, listed: &BTreeSet<IpAddr>, entry: &LedgerEntry) -> bool {
    let is_on_network = pool.network.as_ref() == Some(&entry.fip.network);
    pool.is_excluded(entry.fip.address) || !(is_on_network || listed.contains(&entry.fip.address))
}

/// `usable` of a closed list, and what `maxIPs` leaves beside the marked ones that cannot be given.
fn capacity(pool: &PoolPolicy, usable: usize, marked_failed: usize) -> Option<usize> {
    let by_list = pool.network.is_none().then_some(usable);
    let by_limit = pool.max_ips.map(|limit| limit.saturating_sub(marked_failed));
    by_list.into_iter().chain(by_limit).min()
}

fn exhausted(ledger: &Ledger, pool: &PoolPolicy, free: usize) -> Option<Refusal> {
    let block = ledger.refused(&pool.id).cloned();
    match pool.max_ips {
        _ if free > 0 => None,
        // As a claim is told: a higher limit is not what is missing.
        _ if pool.network.is_some() && ledger.is_barren(&pool.id) => Some(Refusal::OnlyUnwanted),
        Some(limit) if ledger.is_full(&pool.id, limit) => Some(Refusal::LimitReached(limit)),
        _ if pool.network.is_some() => block,
        _ if !pool.has_tags => Some(Refusal::NoTags),
        _ => Some(Refusal::ListUsedUp),
    }
}

fn why_not(
    published: &PublishedAddresses,
    pool: &PoolPolicy,
    address: IpAddr,
    entries: &[&LedgerEntry],
) -> Option<AddressFailure> {
    let entry = match entries {
        _ if pool.is_excluded(address) => return Some(AddressFailure::Excluded),
        [] => return Some(AddressFailure::Missing),
        [entry, ..] => entry,
    };
    match () {
        () if !entry.marks.is_empty() => Some(AddressFailure::Foreign),
        () if entry.fip.is_attached() => Some(AddressFailure::Attached),
        () if published.is_published(&entry.fip) => Some(AddressFailure::Named),
        // Chosen this moment: neither free nor failed.
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::ledger::{CreationBlock, Hold};
    use super::super::vocabulary::*;
    use super::*;

    fn count_of(world: &World) -> PoolUsage {
        count(&world.ledger, &world.published, &world.pool, world.now)
    }

    /// total, allocated, free, cooling, failed
    fn figures(world: &World) -> [usize; 5] {
        let count = count_of(world);
        [count.total, count.allocated, count.free, count.cooling, count.failed]
    }

    #[test]
    fn a_listed_address_counts_once_marked_or_not() {
        let world = world().closed_list([10, 11, 12]).sees([fip(10).tagged_for("web"), fip(11), fip(12).attached()]);
        assert_eq!(figures(&world), [3, 1, 1, 0, 1]);
        assert_eq!(count_of(&world).failures, vec![(address(12), AddressFailure::Attached)]);
    }

    #[test]
    fn what_we_created_is_allocated_free_or_cooling() {
        let fips = [
            fip(10).created_for("web"),
            fip(11).idle(),
            fip(12).created_for("db").released_by("db", ago(5)),
            fip(13).tag("prod"),
        ];
        assert_eq!(figures(&world().sees(fips.clone())), [3, 1, 1, 1, 0]);
        let resting = world().with(|pool| pool.grace = seconds(60)).sees(fips);
        assert_eq!(figures(&resting), [3, 1, 1, 1, 0]);
    }

    #[test]
    fn what_may_be_reused_is_free_and_not_the_pools() {
        assert_eq!(figures(&world().sees([fip(10), fip(11).tag("prod")])), [0, 0, 1, 0, 0]);
        assert_eq!(figures(&world().lists([10]).sees([fip(10), fip(11)])), [1, 0, 2, 0, 0]);
    }

    #[test]
    fn free_is_never_more_than_the_limit_leaves() {
        let world = world().closed_list([10, 11, 12]).limit(2).sees([fip(10).tagged_for("web"), fip(11), fip(12)]);
        assert_eq!(figures(&world), [3, 1, 1, 0, 0]);
        assert_eq!(count_of(&world).exhausted, None);
        let full = world.limit(1);
        assert_eq!(count_of(&full).free, 0);
        assert_eq!(count_of(&full).exhausted, Some(Refusal::LimitReached(1)));
    }

    #[test]
    fn an_idle_one_is_free_although_the_limit_is_reached() {
        let world = world().limit(1).sees([fip(10).idle()]);
        assert_eq!((count_of(&world).free, count_of(&world).exhausted), (1, None));
    }

    #[test]
    fn what_cannot_be_given_says_why() {
        let listed = || world().closed_list([10]);
        let why = |world: World| count_of(&world).failures.first().map(|(_, failure)| failure.clone());
        assert_eq!(why(listed()), Some(AddressFailure::Missing));
        assert_eq!(why(listed().sees([fip(10).attached()])), Some(AddressFailure::Attached));
        assert_eq!(why(listed().sees([fip(10).forwarded()])), Some(AddressFailure::Attached));
        assert_eq!(why(listed().sees([fip(10).tagged_by_another_pool()])), Some(AddressFailure::Foreign));
        assert_eq!(why(listed().sees([fip(10)]).named_by_others(10)), Some(AddressFailure::Named));
        assert_eq!(why(listed().sees([fip(10)]).excludes("203.0.113.10/32")), Some(AddressFailure::Excluded));
        assert_eq!(why(listed().sees([fip(10)]).holds(10, Hold::GivingBack)), None, "neither free nor failed");
        assert_eq!(why(listed().sees([fip(10)])), None);
        let copied = fip(10).idle().0.description;
        assert_eq!(why(world().sees([fip(10).idle(), fip(11).described(copied)])), Some(AddressFailure::Copied));
    }

    #[test]
    fn capacity_is_what_list_and_limit_leave() {
        let capacity = |world: World| count_of(&world).capacity;
        let list = || world().closed_list([10, 11, 12]).sees([fip(10).tagged_for("web"), fip(11), fip(12).attached()]);
        assert_eq!(capacity(list()), Some(2), "one of three cannot be given");
        assert_eq!(capacity(list().limit(1)), Some(1));
        assert_eq!(capacity(list().limit(9)), Some(2), "a limit adds no addresses");
        assert_eq!(capacity(world()), None, "nothing of the pool's own limits it");
        assert_eq!(capacity(world().limit(4)), Some(4));
        let copied = fip(10).idle().0.description;
        assert_eq!(capacity(world().limit(4).sees([fip(10).idle(), fip(11).described(copied)])), Some(2));
    }

    #[test]
    fn what_is_held_and_would_not_be_given_is_out_of_range() {
        let out = |world: World| count_of(&world).out_of_range;
        let held = || fip(10).tagged_for("web");
        assert_eq!(out(world().closed_list([10]).sees([held()])), 0);
        assert_eq!(out(world().closed_list([11]).sees([held(), fip(11)])), 1, "it was taken off the list");
        assert_eq!(out(world().sees([held()])), 0, "it is of the network");
        assert_eq!(out(world().sees([held()]).excludes("203.0.113.10/32")), 1);
        assert_eq!(out(world().closed_list([11]).sees([fip(10).idle()])), 0, "nobody holds it");
    }

    #[test]
    fn a_status_names_only_so_many_failures() {
        let world = world().with(|pool| {
            pool.listed = (0..40).map(address).collect();
            pool.network = None;
        });
        assert_eq!((count_of(&world).failed, count_of(&world).failures.len()), (40, FAILED_LIMIT));
    }

    #[test]
    fn exhausted_says_which_limit_was_met() {
        let exhausted = |world: &World| count_of(world).exhausted;
        assert_eq!(exhausted(&world().closed_list([10])), Some(Refusal::ListUsedUp));
        let no_tags = world().closed_list([10]).with(|pool| pool.has_tags = false).sees([fip(10)]);
        assert_eq!(exhausted(&no_tags), Some(Refusal::NoTags));
        let mut refused = world();
        assert_eq!(exhausted(&refused), None, "a network is there to create on");
        let block = CreationBlock { refusal: Refusal::QuotaReached, until: noon() + seconds(20) };
        refused.ledger.block(pool_id("p"), block);
        assert_eq!(exhausted(&refused), Some(Refusal::QuotaReached));
        let mut barren = world();
        barren.ledger.found_barren(&pool_id("p"), noon());
        assert_eq!(exhausted(&barren), Some(Refusal::OnlyUnwanted));
    }
}
