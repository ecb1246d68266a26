//! Counts a pool's addresses for its status and metrics, and finds those that cannot be given.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::ledger::LedgerEntry;
use super::mark::Ownership;
use super::refusal::Refusal;
use super::situation::Situation;
use super::supply::{Supply, is_listable};

/// How many failed addresses a status names.
pub const FAILED_LIMIT: usize = 16;

/// How many addresses a pool has, and in which state.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolUsage {
    /// Listed, or carrying the pool's mark; each once.
    pub total: usize,
    /// Marked for a claim, orphans aside.
    pub allocated: usize,
    /// Can be given without creating one, reserved ones included.
    pub free: usize,
    /// Released, and neither free nor deleted yet.
    pub cooling: usize,
    pub failed: usize,
    /// Allocated, although the pool's present spec would not give them: excluded, or neither listed nor on its network.
    pub outside_spec: usize,
    /// How many can be in use at once, without those that cannot be given; none where only the project's quota and the
    /// network are the limit.
    pub capacity: Option<usize>,
    /// The first [`FAILED_LIMIT`] of those that cannot be given.
    pub failures: Vec<(IpAddr, AddressFailure)>,
    /// Why a claim that came now would be refused; none while there is something to give.
    pub exhausted: Option<Refusal>,
}

/// Why an address cannot be given.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
pub enum AddressFailure {
    #[error("is not a floating IP of the project: create it, or remove it from spec.preAllocatedFloatingIPs")]
    Missing,
    #[error("is attached to a port or has port forwardings: detach it, or remove it from spec.preAllocatedFloatingIPs")]
    Attached,
    /// One that the pool created.
    #[error("is attached to a port or has port forwardings, although no claim has it: detach it")]
    AttachedSpare,
    #[error("carries another owner's mark: remove that mark, or remove the address from the pool")]
    Foreign,
    #[error(
        "carries a mark of a newer version of caip-openstack: upgrade the controller, or remove the address from the pool"
    )]
    NewerVersion,
    #[error(
        "is named by another IPAddress: delete that IPAddress, or remove the address from spec.preAllocatedFloatingIPs"
    )]
    Published,
    #[error("is both in spec.preAllocatedFloatingIPs and in spec.excludedAddresses: remove it from one of them")]
    Excluded,
    #[error("has as many tags as Neutron allows, and the pool's tag would be one more: remove one")]
    TooManyTags,
    /// Neutron has no tags, and the pool did not create it.
    #[error(
        "cannot be marked, since this Neutron has no tags on floating IPs: remove it from spec.preAllocatedFloatingIPs"
    )]
    NoTags,
    #[error("has a description that was copied from another floating IP: clear the copied description")]
    Copied,
}

impl AddressFailure {
    /// The reason in `status.failed`. Each is in docs/troubleshooting.md.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Missing => "NotFound",
            Self::Attached | Self::AttachedSpare => "Attached",
            Self::Foreign => "MarkedByOther",
            Self::NewerVersion => "MarkedByNewerVersion",
            Self::Published => "NamedByIPAddress",
            Self::Excluded => "Excluded",
            Self::TooManyTags => "TooManyTags",
            Self::NoTags => "TagsUnsupported",
            Self::Copied => "MarkCopied",
        }
    }
}

pub fn count(situation: &Situation<'_>) -> PoolUsage {
    let mut usage = PoolUsage::default();
    let mut failures = count_marked(situation, &mut usage);
    let marked_failed = failures.len();
    failures.extend(count_unmarked_listed(situation, &mut usage));
    let supply = Supply::new(*situation);
    usage.free = supply.free();
    usage.exhausted = supply.exhausted();
    usage.failed = failures.len();
    usage.capacity = capacity(situation, usage.total.saturating_sub(usage.failed), marked_failed);
    usage.failures = failures.into_iter().take(FAILED_LIMIT).collect();
    usage
}

type Failures = BTreeSet<(IpAddr, AddressFailure)>;

/// Counts the addresses that carry the pool's mark, but for those that are
/// [only offered](super::ledger::Ledger::is_only_offered).
#[expect(clippy::arithmetic_side_effects, reason = "it counts what is in memory")]
fn count_marked(situation: &Situation<'_>, usage: &mut PoolUsage) -> Failures {
    let mut failures = Failures::new();
    let ledger = situation.ledger;
    for entry in ledger.of_pool(&situation.pool.id).filter(|entry| !ledger.is_only_offered(entry)) {
        usage.total += 1;
        let failure = match situation.ownership(entry) {
            _ if ledger.has_copied_mark(entry) => AddressFailure::Copied,
            Ownership::Unclaimed if entry.fip.is_attached() => AddressFailure::AttachedSpare,
            Ownership::Contested | Ownership::Foreign => other_owner(entry),
            ownership => {
                let is_orphan = entry.orphaned_since.contains_key(&situation.pool.id);
                usage.allocated += usize::from(matches!(ownership, Ownership::Claimed(_)) && !is_orphan);
                usage.cooling += usize::from(matches!(ownership, Ownership::Released { .. }));
                let is_outside_spec = matches!(ownership, Ownership::Claimed(_)) && is_outside_spec(situation, entry);
                usage.outside_spec += usize::from(is_outside_spec);
                continue;
            }
        };
        failures.insert((entry.fip.address, failure));
    }
    failures
}

/// Counts the listed addresses without the pool's mark.
#[expect(clippy::arithmetic_side_effects, reason = "it counts what is in memory")]
fn count_unmarked_listed(situation: &Situation<'_>, usage: &mut PoolUsage) -> Failures {
    let Situation { ledger, pool, .. } = situation;
    let mut failures = Failures::new();
    for address in &pool.listed {
        if ledger.at(*address).any(|entry| entry.marks.names(&pool.id) && !ledger.is_only_offered(entry)) {
            continue;
        }
        usage.total += 1;
        failures.extend(listed_failure(situation, *address).map(|failure| (*address, failure)));
    }
    failures
}

/// Why an address without the pool's mark cannot be given, although the spec names it.
pub(super) fn listed_failure(situation: &Situation<'_>, address: IpAddr) -> Option<AddressFailure> {
    let is_listable = situation.ledger.at(address).any(|entry| is_listable(situation, entry));
    if is_listable { None } else { why_not_listable(situation, address) }
}

fn why_not_listable(situation: &Situation<'_>, address: IpAddr) -> Option<AddressFailure> {
    let pool = situation.pool;
    if pool.is_excluded(address) {
        return Some(AddressFailure::Excluded);
    }
    let Some(entry) = situation.kept_at(address).next() else {
        return Some(AddressFailure::Missing);
    };
    if !entry.marks.is_empty() {
        Some(other_owner(entry))
    } else if entry.fip.is_attached() {
        Some(AddressFailure::Attached)
    } else if situation.relevant_addresses().is_published(&entry.fip) {
        Some(AddressFailure::Published)
    } else if !pool.has_tags {
        Some(AddressFailure::NoTags)
    } else if !entry.has_room_for_tag() {
        Some(AddressFailure::TooManyTags)
    } else {
        // Chosen for a claim at this moment: neither free nor failed.
        None
    }
}

fn other_owner(entry: &LedgerEntry) -> AddressFailure {
    if entry.marks.is_newer { AddressFailure::NewerVersion } else { AddressFailure::Foreign }
}

fn is_outside_spec(situation: &Situation<'_>, entry: &LedgerEntry) -> bool {
    let address = entry.fip.address;
    let is_in_reach = situation.is_on_network(entry) || situation.pool.listed.contains(&address);
    // The network of a pool that only releases may not be known.
    situation.pool.is_excluded(address) || !is_in_reach && !situation.pool.only_releases
}

/// The usable addresses of a closed list, and what `maxIPs` leaves beside the marked ones that cannot be given.
fn capacity(situation: &Situation<'_>, usable: usize, marked_failed: usize) -> Option<usize> {
    let pool = situation.pool;
    let by_list = (pool.network.is_none() && !pool.only_releases).then_some(usable);
    let by_limit = pool.max_ips.map(|limit| limit.saturating_sub(marked_failed));
    by_list.into_iter().chain(by_limit).min()
}

#[cfg(test)]
mod tests {
    use super::super::claim::Decision;
    use super::super::ledger::{CreationBlock, Hold};
    use super::super::testing::{self, *};
    use super::*;
    use crate::floating_ip::SubnetId;
    use crate::time::after;

    fn count_of(fixture: &Fixture) -> PoolUsage {
        count(&fixture.situation())
    }

    /// total, allocated, free, cooling, failed
    fn counts(fixture: &Fixture) -> [usize; 5] {
        let count = count_of(fixture);
        [count.total, count.allocated, count.free, count.cooling, count.failed]
    }

    #[test]
    fn a_listed_address_counts_once_with_or_without_a_mark() {
        let fixture =
            fixture().closed_list([10, 11, 12]).fips([fip(10).tagged_for("web"), fip(11), fip(12).attached()]);
        assert_eq!(counts(&fixture), [3, 1, 1, 0, 1]);
        assert_eq!(count_of(&fixture).failures, vec![(address(12), AddressFailure::Attached)]);
    }

    #[test]
    fn created_addresses_are_allocated_free_or_cooling() {
        let fips = [
            fip(10).created_for("web"),
            fip(11).idle(),
            fip(12).created_for("db").released_by("db", ago(5)),
            fip(13).tag("prod"),
        ];
        assert_eq!(counts(&fixture().fips(fips.clone())), [3, 1, 1, 1, 0]);
        let cooling = fixture().with_policy(|pool| pool.grace = seconds(60)).fips(fips);
        assert_eq!(counts(&cooling), [3, 1, 1, 1, 0]);
    }

    #[test]
    fn an_unwanted_address_does_not_count() {
        let fixture = fixture().fips([fip(10).idle(), fip(11).idle(), fip(12).created_for("web")]);
        assert_eq!(counts(&fixture), [3, 1, 2, 0, 0]);
        let mut offered = fixture;
        [11, 12].iter().for_each(|last| offered.hold_unwanted(*last, None));
        assert_eq!(counts(&offered), [1, 0, 1, 0, 0]);
        let mut deleted = offered.held(11, Hold::Cleanup).held(12, Hold::Cleanup);
        assert_eq!(counts(&deleted), [1, 0, 1, 0, 0], "while it is deleted");
        deleted.ledger.keep_unwanted(&pool_id("p"), &id(12));
        assert_eq!(counts(&deleted), [2, 1, 1, 0, 0], "a claim waits for it");
        assert_eq!(counts(&testing::fixture().fips([fip(10).idle()]).held(10, Hold::Cleanup)), [1, 0, 0, 0, 0]);
    }

    #[test]
    fn a_listed_address_that_another_pool_is_offered_and_deletes_is_missing_throughout() {
        let mut fixture = fixture().listed([10]);
        let failures = |fixture: &Fixture| count_of(fixture).failures;
        let missing = vec![(address(10), AddressFailure::Missing)];
        assert_eq!(failures(&fixture), missing);
        fixture.begin_creation_by_another_pool(10);
        assert_eq!(failures(&fixture), missing, "a listing shows it before the reply");
        fixture.offer_unwanted_to_another_pool(10);
        assert_eq!(failures(&fixture), missing, "held");
        fixture.ledger.set_hold(&id(10), Some(Hold::Cleanup));
        assert_eq!(failures(&fixture), missing, "being deleted");
        fixture.ledger.keep_unwanted(&pool_id("other"), &id(10));
        assert_eq!(failures(&fixture), [(address(10), AddressFailure::Foreign)], "a claim waits for it");
    }

    #[test]
    fn a_listed_address_that_another_owner_has_just_created_is_missing() {
        let failures = |fixture: &Fixture| count_of(fixture).failures;
        let seen = |fip: Fip| fixture().closed_list([10]).fips([fip]);
        let by_other = |at| fip(10).created_by_another_pool().created_at(at);
        let missing = vec![(address(10), AddressFailure::Missing)];
        let foreign = vec![(address(10), AddressFailure::Foreign)];
        assert_eq!(failures(&seen(by_other(ago(29)))), missing, "it may be gone in a moment");
        assert_eq!(failures(&seen(by_other(ago(30)))), foreign);
        assert_eq!(failures(&seen(by_other(after(start(), seconds(60))))), missing, "Neutron's clock is ahead");
        assert_eq!(failures(&seen(by_other(after(start(), seconds(61))))), foreign);
        let later = Fixture { now: after(start(), seconds(3600)), ..seen(by_other(ago(1))) };
        assert_eq!(failures(&later), missing, "it was new when it was last seen");
        let named = seen(by_other(ago(1))).published("db", 10);
        assert_eq!(failures(&named), foreign, "an IPAddress names it");
        assert_eq!(failures(&seen(fip(10).tagged_by_another_pool().created_at(ago(1)))), foreign, "not created by it");
        let mut without_time = by_other(start());
        without_time.0.created_at = None;
        assert_eq!(failures(&seen(without_time)), foreign);
    }

    #[test]
    fn a_listed_address_that_the_pool_may_not_give_counts_the_same_while_it_is_offered() {
        let mut fixture = fixture().listed([10]).excluding("203.0.113.10/32");
        let excluded = PoolUsage {
            total: 1,
            failed: 1,
            failures: vec![(address(10), AddressFailure::Excluded)],
            ..count_of(&self::fixture())
        };
        assert_eq!(count_of(&fixture), excluded);
        fixture.relist([fip(10).created_for("web")]);
        fixture.hold_unwanted(10, None);
        fixture.ledger.note_only_unwanted(&pool_id("p"), None, start());
        let offered = count_of(&fixture);
        assert_eq!(offered, PoolUsage { exhausted: Some(Refusal::OnlyUnwanted), ..excluded });
    }

    #[test]
    fn an_address_that_is_deleted_since_its_description_was_dropped_is_missing_throughout() {
        let mut fixture = fixture().listed([10]);
        let began = fixture.ledger.begin(start());
        assert!(fixture.ledger.hold_created(fip(10).0, began));
        assert_eq!(count_of(&fixture).failures, [(address(10), AddressFailure::Missing)]);
    }

    #[test]
    fn an_address_whose_creation_is_not_answered_does_not_count() {
        let mut fixture = fixture();
        fixture.ledger.begin_creation(unclaimed_mark(10).nonce, pool_id("p"), None);
        fixture.relist([fip(10).idle(), fip(11).idle()]);
        assert_eq!(counts(&fixture), [1, 0, 1, 0, 0]);
        fixture.ledger.end_creation(&unclaimed_mark(10).nonce);
        assert_eq!(counts(&fixture), [2, 0, 2, 0, 0]);
    }

    #[test]
    fn reusable_addresses_are_free_but_not_part_of_the_total() {
        assert_eq!(counts(&fixture().fips([fip(10), fip(11).tag("prod")])), [0, 0, 1, 0, 0]);
        assert_eq!(counts(&fixture().listed([10]).fips([fip(10), fip(11)])), [1, 0, 2, 0, 0]);
    }

    #[test]
    fn free_never_exceeds_the_room_under_the_limit() {
        let fixture =
            fixture().closed_list([10, 11, 12]).max_ips(2).fips([fip(10).tagged_for("web"), fip(11), fip(12)]);
        assert_eq!(counts(&fixture), [3, 1, 1, 0, 0]);
        assert_eq!(count_of(&fixture).exhausted, None);
        let full = fixture.max_ips(1);
        assert_eq!(count_of(&full).free, 0);
        assert_eq!(count_of(&full).exhausted, Some(Refusal::LimitReached(1)));
    }

    #[test]
    fn what_is_being_tried_takes_no_room_from_what_is_free() {
        let fixture = || fixture().listed([11]).max_ips(2).fips([fip(10).tagged_for("web"), fip(11)]);
        let nonce = unclaimed_mark(12).nonce;
        let mut spare = fixture();
        spare.ledger.begin_creation(nonce.clone(), pool_id("p"), None);
        assert_eq!(count_of(&spare).free, 1, "a spare one is free once it is there");
        spare.relist([fip(10).tagged_for("web"), fip(11), fip(12).idle()]);
        assert_eq!(count_of(&spare).free, 1, "and already listed");

        let mut creating = fixture();
        creating.ledger.begin_creation(nonce, pool_id("p"), Some(key("db")));
        assert_eq!(count_of(&creating).free, 0, "it may succeed");
        let block = CreationBlock { refusal: Refusal::NetworkExhausted, until: start() };
        creating.ledger.block_creation(pool_id("p"), block);
        assert_eq!(count_of(&creating).free, 1, "Neutron is expected to refuse again");

        let mut asking = fixture();
        asking.ledger.note_only_unwanted(&pool_id("p"), None, start());
        asking.ledger.begin_creation(unclaimed_mark(12).nonce, pool_id("p"), Some(key("db")));
        assert_eq!(count_of(&asking).free, 1, "it is expected to be unwanted again");

        let mut offered = fixture();
        offered.relist([fip(10).tagged_for("web"), fip(11), fip(12).idle()]);
        assert_eq!(count_of(&offered).free, 1, "the pool's own one, in the last room");
        let mut offered = offered.chosen_by(12, "db");
        assert_eq!(count_of(&offered).free, 0, "a claim is taking it");
        offered.hold_unwanted(12, None);
        assert_eq!(count_of(&offered).free, 1, "what is unwanted is deleted at once");
    }

    #[test]
    fn a_spare_address_that_is_being_created_does_not_exhaust_the_pool() {
        let mut fixture = fixture().max_ips(2).fips([fip(10).tagged_for("web")]);
        fixture.ledger.begin_creation(unclaimed_mark(12).nonce, pool_id("p"), None);
        assert_eq!(count_of(&fixture).exhausted, None);
        fixture.ledger.end_creation(&unclaimed_mark(12).nonce);
        fixture.ledger.begin_creation(unclaimed_mark(12).nonce, pool_id("p"), Some(key("db")));
        assert_eq!(count_of(&fixture).exhausted, Some(Refusal::LimitReached(2)));
    }

    #[test]
    fn an_idle_address_is_free_although_the_limit_is_reached() {
        let fixture = fixture().max_ips(1).fips([fip(10).idle()]);
        assert_eq!((count_of(&fixture).free, count_of(&fixture).exhausted), (1, None));
    }

    #[test]
    fn a_pool_above_its_lowered_limit_is_not_exhausted_while_an_address_within_it_is_unreserved() {
        let fixture = fixture().max_ips(2).with_policy(|pool| pool.deletes = false);
        let fixture = fixture.fips([fip(10).idle(), fip(11).idle(), fip(12).idle()]);
        let fixture = fixture.reserving("a", 10).reserving("b", 11);
        assert!(matches!(fixture.decide("web"), Decision::Mark(..)), "a claim gets one");
        assert_eq!(count_of(&fixture).exhausted, None);
        assert_eq!(count_of(&fixture.max_ips(0)).exhausted, Some(Refusal::LimitReached(0)));
    }

    #[test]
    fn each_failed_address_has_its_reason() {
        let listed = || fixture().closed_list([10]);
        let why = |fixture: Fixture| count_of(&fixture).failures.first().map(|(_, failure)| failure.clone());
        assert_eq!(why(listed()), Some(AddressFailure::Missing));
        assert_eq!(why(listed().fips([fip(10).attached()])), Some(AddressFailure::Attached));
        assert_eq!(why(listed().fips([fip(10).forwarded()])), Some(AddressFailure::Attached));
        assert_eq!(why(listed().fips([fip(10).tagged_by_another_pool()])), Some(AddressFailure::Foreign));
        assert_eq!(why(listed().fips([fip(10).tag("caip2.p")])), Some(AddressFailure::NewerVersion));
        let both = fip(10).tagged_for("web").tag("caip2.p");
        assert_eq!(why(listed().fips([both])), Some(AddressFailure::NewerVersion));
        assert_eq!(why(listed().fips([fip(10)]).published_by_others(10)), Some(AddressFailure::Published));
        assert_eq!(why(listed().fips([fip(10)]).excluding("203.0.113.10/32")), Some(AddressFailure::Excluded));
        assert_eq!(why(listed().fips([fip(10).full_of_tags()])), Some(AddressFailure::TooManyTags));
        let untagged = || listed().with_policy(|pool| pool.has_tags = false);
        assert_eq!(why(untagged().fips([fip(10)])), Some(AddressFailure::NoTags));
        assert_eq!(why(untagged().fips([fip(10).idle()])), None, "the pool created it");
        assert_eq!(why(listed().fips([fip(10)]).held(10, Hold::Cleanup)), None, "neither free nor failed");
        assert_eq!(why(listed().fips([fip(10)])), None);
        let copied = fip(10).idle().0.description;
        assert_eq!(why(fixture().fips([fip(10).idle(), fip(11).described(copied)])), Some(AddressFailure::Copied));
    }

    #[test]
    fn each_failure_has_a_reason_in_one_word() {
        let all = [
            (AddressFailure::Missing, "NotFound"),
            (AddressFailure::Attached, "Attached"),
            (AddressFailure::AttachedSpare, "Attached"),
            (AddressFailure::Foreign, "MarkedByOther"),
            (AddressFailure::NewerVersion, "MarkedByNewerVersion"),
            (AddressFailure::Published, "NamedByIPAddress"),
            (AddressFailure::Excluded, "Excluded"),
            (AddressFailure::TooManyTags, "TooManyTags"),
            (AddressFailure::NoTags, "TagsUnsupported"),
            (AddressFailure::Copied, "MarkCopied"),
        ];
        for (failure, reason) in all {
            assert_eq!(failure.reason(), reason, "users' programs compare it");
        }
    }

    #[test]
    fn capacity_is_the_smaller_of_list_and_limit() {
        let capacity = |fixture: Fixture| count_of(&fixture).capacity;
        let list =
            || fixture().closed_list([10, 11, 12]).fips([fip(10).tagged_for("web"), fip(11), fip(12).attached()]);
        assert_eq!(capacity(list()), Some(2), "one of three cannot be given");
        assert_eq!(capacity(list().max_ips(1)), Some(1));
        assert_eq!(capacity(list().max_ips(9)), Some(2), "a limit adds no addresses");
        assert_eq!(capacity(fixture()), None, "neither a list nor maxIPs limits it");
        assert_eq!(capacity(fixture().max_ips(4)), Some(4));
        let releases = fixture().fips([fip(10).created_for("web")]).with_policy(|pool| {
            pool.network = None;
            pool.only_releases = true;
        });
        assert_eq!((count_of(&releases).outside_spec, capacity(releases)), (0, None), "its network is not known");
        let copied = fip(10).idle().0.description;
        assert_eq!(capacity(fixture().max_ips(4).fips([fip(10).idle(), fip(11).described(copied)])), Some(2));
    }

    #[test]
    fn a_claimed_address_that_the_spec_no_longer_covers_is_out_of_range() {
        let out = |fixture: Fixture| count_of(&fixture).outside_spec;
        let held = || fip(10).tagged_for("web");
        assert_eq!(out(fixture().closed_list([10]).fips([held()])), 0);
        assert_eq!(out(fixture().closed_list([11]).fips([held(), fip(11)])), 1, "it was removed from the list");
        assert_eq!(out(fixture().fips([held()])), 0, "it is on the network");
        assert_eq!(out(fixture().fips([held()]).excluding("203.0.113.10/32")), 1);
        assert_eq!(out(fixture().closed_list([11]).fips([fip(10).idle()])), 0, "no claim has it");
    }

    #[test]
    fn marked_addresses_that_cannot_be_given_have_their_reason() {
        let fips = [fip(10).idle().attached(), fip(11).created_for("web").tagged_by_another_pool()];
        let fixture = fixture().fips(fips);
        let failures = [(address(10), AddressFailure::AttachedSpare), (address(11), AddressFailure::Foreign)];
        assert_eq!(count_of(&fixture).failures, failures);
        assert_eq!(counts(&fixture), [2, 0, 0, 0, 2]);
    }

    #[test]
    fn an_orphan_is_not_allocated() {
        let mut fixture = fixture().fips([fip(10).created_for("web")]);
        assert_eq!(counts(&fixture), [1, 1, 0, 0, 0]);
        fixture.ledger.note_orphans(&pool_id("p"), &[id(10)], start());
        assert_eq!(counts(&fixture), [1, 0, 0, 0, 0]);
    }

    #[test]
    fn a_status_names_a_bounded_number_of_failures() {
        let fixture = fixture().with_policy(|pool| {
            pool.listed = (0..40).map(address).collect();
            pool.network = None;
        });
        assert_eq!((count_of(&fixture).failed, count_of(&fixture).failures.len()), (40, FAILED_LIMIT));
    }

    #[test]
    fn exhausted_names_the_limit_that_was_reached() {
        let exhausted = |fixture: &Fixture| count_of(fixture).exhausted;
        assert_eq!(exhausted(&fixture().closed_list([10])), Some(Refusal::ListUsedUp));
        let no_tags = fixture().closed_list([10]).with_policy(|pool| pool.has_tags = false).fips([fip(10)]);
        assert_eq!(exhausted(&no_tags), Some(Refusal::NoTags));
        let reserved = fixture().closed_list([10]).fips([fip(10)]).reserving("db", 10);
        assert_eq!((count_of(&reserved).free, exhausted(&reserved)), (1, Some(Refusal::ListUsedUp)));
        let mut refused = fixture();
        assert_eq!(exhausted(&refused), None, "it can create on its network");
        let block = CreationBlock { refusal: Refusal::QuotaReached, until: start() + seconds(20) };
        refused.ledger.block_creation(pool_id("p"), block);
        assert_eq!(exhausted(&refused), Some(Refusal::QuotaReached));
        assert_eq!(exhausted(&fixture().closed_list([10]).blocked()), Some(Refusal::ListUsedUp), "it creates nothing");
        let closed = fixture().closed_list([10]).max_ips(3).fips([fip(10).tagged_for("web")]);
        assert_eq!(exhausted(&closed), Some(Refusal::ListUsedUp), "the limit is not reached");
        let mut unwanted = fixture();
        unwanted.ledger.note_only_unwanted(&pool_id("p"), None, start());
        assert_eq!(exhausted(&unwanted), Some(Refusal::OnlyUnwanted));
    }

    #[test]
    fn a_subnet_that_others_find_full_does_not_exhaust_a_pool() {
        let (first, second) = (SubnetId::new("first"), SubnetId::new("second"));
        let mut fixture = fixture().with_policy(|pool| pool.subnets = vec![first.clone(), second.clone()]);
        fixture.ledger.note_only_unwanted(&pool_id("p"), Some(&first), start());
        assert_eq!(count_of(&fixture).exhausted, None);
        fixture.ledger.note_empty_subnet(&pool_id("other"), second.clone(), start() + seconds(10));
        assert_eq!(count_of(&fixture).exhausted, None, "it comes and goes");
        let mut fixture = fixture.waiting_claim("web");
        let refused = |fixture: &Fixture| (fixture.decide("web"), count_of(fixture).exhausted);
        let only_unwanted = Refusal::OnlyUnwanted;
        assert_eq!(refused(&fixture), (Decision::Refuse(only_unwanted.clone()), Some(only_unwanted)));
        fixture.now = start() + seconds(10);
        assert!(count_of(&fixture).exhausted.is_some(), "until Neutron is asked again");
        fixture.ledger.unblock_creation(&pool_id("p"), Some(&second));
        assert_eq!(count_of(&fixture).exhausted, None);
    }

    #[test]
    fn a_refusal_of_neutron_exhausts_a_pool_until_something_changes_or_a_claim_is_refused_again() {
        let mut fixture = fixture().blocked();
        assert_eq!(count_of(&fixture).exhausted, Some(Refusal::QuotaReached));
        let mut raised = self::fixture().blocked();
        raised.ledger.note_room_in_quota();
        assert_eq!(count_of(&raised).exhausted, None);
        let mut freed = self::fixture().fips([fip(10)]).blocked();
        freed.ledger.record_deletion(&id(10));
        assert_eq!(count_of(&freed).exhausted, None);
        let mut offered = self::fixture().blocked();
        offered.hold_unwanted(10, None);
        let mut offered = offered.blocked();
        offered.ledger.record_deletion(&id(10));
        assert_eq!(count_of(&offered).exhausted, Some(Refusal::QuotaReached), "it was created for nothing");
        let mut released = self::fixture().blocked();
        released.ledger.retry_creation(&pool_id("p"));
        assert_eq!(count_of(&released).exhausted, None);
        fixture.ledger.reset_backoff(&pool_id("p"));
        assert_eq!(count_of(&fixture).exhausted, None);
        let fixture = fixture.reserving("db", 10).waiting_claim("db");
        assert_eq!(count_of(&fixture).exhausted, None, "that claim asks for nothing new");
        let waiting = fixture.waiting_claim("web");
        assert_eq!(count_of(&waiting).exhausted, Some(Refusal::QuotaReached), "the claim asks again soon");
        let again = Fixture { queue: BTreeSet::new(), ..waiting }.blocked();
        assert_eq!(count_of(&again).exhausted, Some(Refusal::QuotaReached));
    }
}
