//! The addresses of a pool for the allow-list of a firewall: those that only the pool and its machines use.
//!
//! **Guaranteed:** each is a floating IP of the pool's project. An address of a claim is in the list from its mark, and a
//! new one from Neutron's answer, until the floating IP is tagged for release and has no port. What stays the pool's
//! without a claim is in the list too, so that the list changes only where the pool gets or gives up an address.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::ledger::LedgerEntry;
use super::mark::Ownership;
use super::situation::Situation;
use super::usage::listed_failure;

/// None while the project has never been listed: the addresses are not known then.
pub fn addresses(situation: &Situation<'_>) -> Option<BTreeSet<IpAddr>> {
    let Situation { ledger, published, pool, claims, .. } = *situation;
    if ledger.is_unlisted(pool.viewer) {
        return None;
    }
    // Anyone may create an IPAddress. One counts if its claim exists, for a floating IP of the project.
    let bindings = published.bindings_of_pool(&pool.id).filter(|binding| claims.contains_key(&binding.claim));
    let bound = bindings.filter_map(|binding| ledger.get(&binding.fip));
    let marked = ledger.of_pool(&pool.id).filter(|entry| is_kept(situation, entry));
    let listed = pool.listed.iter().copied().filter(|address| is_available(situation, *address));
    let reserved = pool.reservations.values().copied();
    let reserved = reserved.filter(|address| is_in_reach(situation, *address) && is_available(situation, *address));
    Some(bound.chain(marked).map(|entry| entry.fip.address).chain(listed).chain(reserved).collect())
}

/// Whether the pool keeps an address with its mark, or a machine may still use it.
fn is_kept(situation: &Situation<'_>, entry: &LedgerEntry) -> bool {
    if situation.ledger.is_only_offered(entry) || situation.ledger.has_copied_mark(entry) {
        return false;
    }
    match situation.ownership(entry) {
        Ownership::Unclaimed | Ownership::Claimed(_) => true,
        Ownership::Released { .. } => entry.fip.is_attached() || stays_after_release(situation, entry),
        Ownership::Unmarked | Ownership::Foreign | Ownership::Contested => false,
    }
}

/// Whether the pool still has the address once its release is complete. One that it would delete may be anyone's then, and
/// leaves the list before that: `reuseGracePeriodSeconds` is the time that firewalls have.
fn stays_after_release(situation: &Situation<'_>, entry: &LedgerEntry) -> bool {
    let (pool, address) = (situation.pool, entry.fip.address);
    match situation.created_here(entry) {
        Some(_) => !pool.deletes,
        None => !pool.is_excluded(address) && (pool.listed.contains(&address) || pool.reserved_for(address).is_some()),
    }
}

/// Whether an address that the spec names, and that the pool has not marked, is there for its claims.
fn is_available(situation: &Situation<'_>, address: IpAddr) -> bool {
    let is_marked = situation.ledger.at(address).any(|entry| entry.marks.names(&situation.pool.id));
    !is_marked && listed_failure(situation, address).is_none()
}

/// Whether a floating IP with this address is on the pool's network, if it has one.
fn is_in_reach(situation: &Situation<'_>, address: IpAddr) -> bool {
    situation.pool.network.is_none() || situation.ledger.at(address).any(|entry| situation.is_on_network(entry))
}

#[cfg(test)]
mod tests {
    use super::super::ledger::{Hold, Ledger};
    use super::super::testing::*;
    use super::*;

    /// The last numbers of the addresses.
    fn listed(fixture: &Fixture) -> Vec<u8> {
        let last = |address: IpAddr| match address {
            IpAddr::V4(address) => address.octets()[3],
            IpAddr::V6(_) => panic!("the tests have IPv4 addresses"),
        };
        addresses(&fixture.situation()).expect("the project was listed").into_iter().map(last).collect()
    }

    #[test]
    fn an_address_with_the_pools_mark_is_listed_with_or_without_a_claim() {
        let fips =
            [fip(12).created_for("gone"), fip(10).created_for("web"), fip(11).idle(), fip(13), fip(14).attached()];
        assert_eq!(
            listed(&fixture().fips(fips).active_claim("web")),
            [10, 11, 12],
            "an orphan is the pool's until its release"
        );
    }

    #[test]
    fn a_released_address_that_will_be_deleted_is_listed_only_while_it_has_a_port() {
        let released = || fip(10).created_for("web").released_by("web", ago(5));
        let cooling = |fip| fixture().with_policy(|pool| pool.grace = seconds(60)).fips([fip]);
        assert_eq!(listed(&cooling(released())), [0; 0], "the grace period is the firewall's");
        assert_eq!(listed(&cooling(released().attached())), [10]);
        let retained = cooling(released()).with_policy(|pool| pool.deletes = false);
        assert_eq!(listed(&retained), [10], "it stays the pool's");
    }

    #[test]
    fn a_released_address_that_was_not_created_is_listed_if_the_spec_names_it() {
        let released = || fixture().fips([fip(10).tagged_for("web").released_by("web", ago(5))]);
        assert_eq!(listed(&released()), [0; 0], "a reused one is the project's again");
        assert_eq!(listed(&released().listed([10])), [10]);
        assert_eq!(listed(&released().reserving("web", 10)), [10]);
        assert_eq!(listed(&released().listed([10]).excluding("203.0.113.10/32")), [0; 0]);
    }

    #[test]
    fn a_created_address_that_will_be_deleted_is_not_listed_although_the_spec_names_it() {
        let released = fixture().listed([10]).fips([fip(10).created_for("web").released_by("web", ago(5))]);
        assert_eq!(listed(&released), [0; 0]);
    }

    #[test]
    fn what_the_spec_names_is_listed_if_it_is_there_for_the_pools_claims() {
        let named = fixture().listed([10, 11, 12, 13]).reserving("db", 14).reserving("web", 15);
        let fips =
            [fip(10), fip(11).attached(), fip(12).tagged_by_another_pool(), fip(14), fip(15).on_network("another")];
        let named = named.fips(fips);
        assert_eq!(listed(&named), [10, 14], "13 is not a floating IP of the project");
        let untagged = named.with_policy(|pool| pool.has_tags = false);
        assert_eq!(listed(&untagged), [0; 0], "they cannot be marked");
    }

    #[test]
    fn a_chosen_address_of_the_list_is_listed_before_its_mark() {
        let hold = Hold::Claim { pool: pool_id("p"), claim: key("web") };
        assert_eq!(listed(&fixture().closed_list([10]).fips([fip(10)]).held(10, hold)), [10]);
    }

    #[test]
    fn an_address_of_an_existing_claim_is_listed_whatever_its_marks_are() {
        let bound = |fip| fixture().fips([fip]).active_claim("web").published("web", 10);
        for fip in
            [fip(10), fip(10).tagged_for("web").tagged_by_another_pool(), fip(10).created_for("web").tag("caip2.p")]
        {
            assert_eq!(listed(&bound(fip)), [10]);
        }
        let copied = fip(11).idle().0.description;
        let fixture =
            fixture().fips([fip(10).described(copied.clone()), fip(11).described(copied)]).active_claim("web");
        assert_eq!(listed(&fixture), [0; 0], "which of the two it created is not known");
        assert_eq!(listed(&fixture.published("web", 11)), [11]);
    }

    /// A user who may create IPAddresses must not be able to put any address into the list.
    #[test]
    fn an_ip_address_that_anyone_made_lists_nothing() {
        let without_claim = fixture().fips([fip(10)]).published("web", 10);
        assert_eq!(listed(&without_claim), [0; 0]);
        let not_of_the_project = fixture().fips([fip(11)]).active_claim("web").published("web", 10);
        assert_eq!(listed(&not_of_the_project), [0; 0]);
    }

    #[test]
    fn an_offered_address_that_is_deleted_at_once_is_not_listed() {
        let mut offered = fixture().fips([fip(10).idle()]);
        offered.hold_unwanted(10, None);
        assert_eq!(listed(&offered), [0; 0]);
        assert_eq!(listed(&offered.held(10, Hold::Cleanup)), [0; 0], "while it is deleted");
    }

    #[test]
    fn an_address_is_listed_once_its_creation_is_answered() {
        let mut created = fixture();
        created.ledger.begin_creation(unclaimed_mark(10).nonce, pool_id("p"), Some(key("web")));
        created.relist([fip(10).created_for("web")]);
        assert_eq!(listed(&created), [0; 0], "it may be unwanted");
        created.ledger.end_creation(&unclaimed_mark(10).nonce);
        assert_eq!(listed(&created), [10]);
    }

    #[test]
    fn nothing_is_known_of_a_project_that_was_never_listed() {
        let fixture = fixture();
        let ledger = Ledger::default();
        assert_eq!(addresses(&Situation { ledger: &ledger, ..fixture.situation() }), None);
        assert_eq!(addresses(&fixture.situation()), Some(BTreeSet::new()));
    }
}
