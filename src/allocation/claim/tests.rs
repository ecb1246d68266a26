//! Each rule of choice, with an example and a counterexample.

use super::*;
use crate::allocation::ledger::{CreationBlock, Ledger, Viewer};
use crate::allocation::mark::release_tag;
use crate::allocation::policy::ReuseRule;
use crate::allocation::testing::{self, *};
use crate::allocation::{CapoAddresses, Nonce};
use crate::floating_ip::SubnetId;

pub(super) fn hold_of(claim: &str) -> Hold {
    Hold::Claim { pool: pool_id("p"), claim: key(claim) }
}

pub(super) fn create(subnet: Option<SubnetId>) -> Decision {
    Decision::Create(CreationPlace { network: network(), subnet })
}

pub(super) fn tag() -> MarkWrite {
    MarkWrite::Tag(claim_tag(&pool_id("p"), &key("web")))
}

pub(super) fn describe(last: u8) -> MarkWrite {
    MarkWrite::Describe(CreationMark { claim: Some(key("web")), ..unclaimed_mark(last) })
}

#[test]
fn a_created_floating_ip_is_not_kept_if_another_claim_had_its_address_a_moment_ago() {
    let created = Fip(FloatingIp { address: address(10), ..fip(11).0 }).created_for("web");
    let may_keep = |former: Fip| {
        let fixture = fixture().fips([former, created.clone()]).active_claim("db");
        may_keep_created(&fixture.situation(), &request("web"), &created.0)
    };
    assert!(!may_keep(fip(10).created_for("db")) && !may_keep(fip(10).tagged_for("db")));
    assert!(may_keep(fip(10).created_for("db").released_by("db", ago(9))), "it is no longer that claim's");
    assert!(may_keep(fip(10).created_for("web")), "its own");
    assert!(may_keep(fip(10).created_for("gone")), "that claim does not exist");
    assert!(may_keep(fip(10).idle()) && may_keep(fip(10)), "no claim's");
    assert!(may_keep(fip(10).created_for("db").on_network("another")), "another address");
    assert!(may_keep(fip(12).created_for("db")));
}

#[test]
fn the_order_of_choice_is_reservation_list_owned_reuse_creation() {
    let all = || fixture().listed([12]).reserving("web", 11);
    let create = create(None);
    let take = |last, origin, write| Decision::Mark(id(last), origin, write);
    let fips = [fip(10), fip(11), fip(12), fip(13).idle()];
    assert_eq!(all().fips(fips.clone()).decide("web"), take(11, Origin::Reserved, tag()));
    let unreserved = fixture().listed([12]);
    assert_eq!(unreserved.fips(fips).decide("web"), take(12, Origin::List, tag()));
    let unlisted = fixture().fips([fip(10), fip(13).idle()]);
    assert_eq!(unlisted.decide("web"), take(13, Origin::Owned, describe(13)));
    assert_eq!(fixture().fips([fip(10)]).decide("web"), take(10, Origin::Reuse, tag()));
    assert_eq!(fixture().decide("web"), create);
}

#[test]
fn listed_addresses_are_given_in_list_order_and_reused_ones_by_address() {
    let listed = fixture().closed_list([12, 11]).fips([fip(11), fip(12)]);
    assert_eq!(marked(&listed.decide("web")), Some(&id(12)));
    assert_eq!(marked(&fixture().fips([fip(12), fip(11)]).decide("web")), Some(&id(11)));
}

#[test]
fn a_closed_list_gives_only_its_own_addresses() {
    let fixture = fixture().closed_list([10]).fips([fip(10).attached(), fip(11), fip(12).idle()]);
    assert_eq!(fixture.decide("web"), Decision::Refuse(Refusal::ListUsedUp));
}

#[test]
fn unavailable_addresses_are_not_given() {
    let refused = Decision::Refuse(Refusal::ListUsedUp);
    let list = || fixture().closed_list([10]);
    for fip in [
        fip(10).attached(),
        fip(10).forwarded(),
        fip(10).tagged_by_another_pool(),
        fip(10).tagged_for("db"),
        fip(10).tag("caip.of-a-newer-kind"),
        fip(10).tagged_for("db").released_by("db", ago(9)),
    ] {
        assert_eq!(list().fips([fip.clone()]).decide("web"), refused, "{:?}", fip.0);
    }
    assert_eq!(list().fips([fip(10)]).excluding("203.0.113.0/24").decide("web"), refused);
    assert_eq!(list().fips([fip(10)]).reserving("db", 10).decide("web"), refused);
    assert_eq!(list().fips([fip(10)]).published_by_others(10).decide("web"), refused);
    assert_eq!(list().fips([fip(10)]).published("db", 10).decide("web"), refused);
    assert_eq!(list().fips([fip(10)]).chosen_by(10, "db").decide("web"), refused);
    assert_eq!(list().fips([fip(10)]).held(10, Hold::Cleanup).decide("web"), refused);
}

#[test]
fn listed_and_reserved_addresses_are_not_reused() {
    let create = create(None);
    let mut fixture = fixture().fips([fip(10)]);
    fixture.published.set_listed(ObjectName::new("team", "another"), [address(10)].into());
    assert_eq!(fixture.decide("web"), create);
    assert_eq!(testing::fixture().fips([fip(10)]).reserving("db", 10).decide("web"), create);
}

#[test]
fn a_pool_without_a_network_or_that_never_reuses_takes_no_floating_ip_of_the_project() {
    let refused = Decision::Refuse(Refusal::ListUsedUp);
    assert_eq!(fixture().with_policy(|pool| pool.network = None).fips([fip(10)]).decide("web"), refused);
    let never = fixture().with_policy(|pool| pool.reuse = ReuseRule::Never).fips([fip(10)]);
    assert_eq!(never.decide("web"), create(None));
}

#[test]
fn an_address_that_a_cluster_may_name_is_not_reused() {
    let decide = |named: Option<(&str, u8)>| {
        let mut fixture = fixture().fips([fip(10)]);
        fixture.published.set_named_by_clusters(named.map(|(namespace, last)| {
            let mut named = CapoAddresses::default();
            named.add(namespace, [address(last)]);
            named
        }));
        marked(&fixture.decide("web")).cloned()
    };
    assert_eq!(decide(Some(("team", 10))), None);
    assert_eq!(decide(Some(("team", 11))), Some(id(10)));
    assert_eq!(decide(Some(("strangers", 10))), Some(id(10)), "no pool of the project is in that namespace");
    assert_eq!(decide(None), None, "what the clusters name is not known");
}

#[test]
fn a_released_address_is_given_after_its_grace_period_and_a_listing() {
    let released = || fip(10).created_for("db").released_by("db", ago(9));
    let cooling = fixture().with_policy(|pool| pool.grace = seconds(10)).fips([released()]);
    assert_eq!(cooling.decide("web"), create(None));
    let rested = fixture().with_policy(|pool| pool.grace = seconds(9)).fips([released()]);
    assert_eq!(rested.decide("web"), Decision::Mark(id(10), Origin::Owned, describe(10)));
    let mut unseen = fixture().fips([fip(10).created_for("db")]);
    unseen.ledger.record_tag(&id(10), &release_tag(&pool_id("p"), &key("db"), ago(9)), true);
    assert_eq!(unseen.decide("web"), create(None));
}

#[test]
fn at_the_limit_only_the_pools_own_addresses_are_given() {
    let full = || fixture().max_ips(1);
    let reached = Decision::Refuse(Refusal::LimitReached(1));
    assert_eq!(full().fips([fip(10).created_for("db"), fip(11)]).decide("web"), reached);
    assert_eq!(marked(&full().listed([11]).fips([fip(10).idle(), fip(11)]).decide("web")), Some(&id(10)));
    assert_eq!(
        full().fips([fip(11)]).reserving("web", 11).chosen_by(11, "db").fips([fip(11)]).decide("web"),
        Decision::Refuse(Refusal::ReservationTaken(address(11)))
    );
    let reserved = full().fips([fip(10).created_for("db"), fip(11)]).reserving("web", 11);
    assert_eq!(reserved.decide("web"), reached);
    let lowered = full().fips([fip(10).created_for("db"), fip(11).idle()]).reserving("web", 11);
    assert_eq!(lowered.decide("web"), reached, "one of the two has to go");
}

#[test]
fn an_address_that_lost_its_mark_counts_under_the_limit() {
    let leftover = |limit| fixture().max_ips(limit).fips([fip(11)]).published("db", 11);
    let lost = |limit| leftover(limit).bound_claim("db");
    let reached = Decision::Refuse(Refusal::LimitReached(1));
    assert_eq!(leftover(1).decide("web"), create(None), "no claim has it");
    assert_eq!(lost(1).decide("web"), reached, "db will have its mark again");
    assert_eq!(lost(1).chosen_as_published(11, "db").decide("web"), reached);
    assert_eq!(lost(2).chosen_as_published(11, "db").decide("web"), create(None), "it counts once");
    let with_free = |limit| lost(limit).fips([fip(10).idle(), fip(11)]);
    assert_eq!(marked(&with_free(2).decide("web")), Some(&id(10)), "it is within the limit");
    assert_eq!(with_free(1).decide("web"), reached, "one of the two has to go");
}

#[test]
fn a_claim_waits_for_its_reserved_address() {
    let reserved = || fixture().reserving("web", 10);
    let missing = Decision::Refuse(Refusal::ReservationMissing(address(10)));
    let taken = Decision::Refuse(Refusal::ReservationTaken(address(10)));
    assert_eq!(reserved().fips([fip(11)]).decide("web"), missing);
    let elsewhere = Decision::Refuse(Refusal::ReservationOnOtherNetwork(address(10)));
    assert_eq!(reserved().fips([fip(10).on_network("another")]).decide("web"), elsewhere);
    assert_eq!(reserved().fips([fip(10).attached()]).decide("web"), taken);
    assert_eq!(reserved().fips([fip(10).tagged_for("db")]).decide("web"), taken);
    assert_eq!(reserved().fips([fip(10)]).published("db", 10).decide("web"), taken);
    assert_eq!(reserved().fips([fip(10).tagged_for("db").released_by("db", ago(1))]).decide("web"), taken);
    assert_eq!(reserved().fips([fip(10).tagged_by_another_pool()]).decide("web"), taken);
    let full = Decision::Refuse(Refusal::ReservationFullOfTags(address(10)));
    assert_eq!(reserved().fips([fip(10).full_of_tags()]).decide("web"), full);
    assert_eq!(marked(&reserved().fips([fip(10).idle()]).decide("web")), Some(&id(10)));
    let limited = |fips| reserved().max_ips(1).fips(fips).decide("web");
    assert_eq!(marked(&limited([fip(10).idle(), fip(11)])), Some(&id(10)), "within the limit");
    let lowered = limited([fip(10).idle(), fip(11).created_for("db")]);
    assert_eq!(lowered, Decision::Refuse(Refusal::LimitReached(1)), "the limit was lowered below it");
}

/// Otherwise all claims would wait for it, while there are others.
#[test]
fn an_address_that_neutron_refused_to_mark_is_chosen_last_for_a_while() {
    let refused = |mut fixture: Fixture| {
        fixture.ledger.note_refused_mark(&id(10), &pool_id("p"), start());
        fixture
    };
    let decide = |fixture: Fixture| marked(&refused(fixture).decide("web")).cloned();
    let listed = || fixture().closed_list([10, 11]);
    assert_eq!(decide(listed().fips([fip(10), fip(11)])), Some(id(11)));
    assert_eq!(decide(listed().fips([fip(10)])), Some(id(10)), "there is no other");
    let mut later = refused(listed().fips([fip(10), fip(11)]));
    later.now = start() + seconds(300);
    assert_eq!(marked(&later.decide("web")), Some(&id(10)));
    let with_network = || refused(fixture().fips([fip(10).idle()]));
    assert!(matches!(with_network().decide("web"), Decision::Create(_)), "a new one is another");
    let of_another = |mut fixture: Fixture| {
        fixture.ledger.note_refused_mark(&id(10), &pool_id("other"), start());
        marked(&fixture.decide("web")).cloned()
    };
    assert_eq!(of_another(listed().fips([fip(10), fip(11)])), Some(id(10)), "another pool may have other credentials");
    assert_eq!(marked(&with_network().max_ips(1).decide("web")), Some(&id(10)), "there is no room for a new one");
    assert_eq!(marked(&with_network().blocked().decide("web")), Some(&id(10)), "Neutron refuses a new one");
}

#[test]
fn a_recreated_reserved_address_is_found_beside_a_stale_entry() {
    let recreated = Fip(FloatingIp { id: id(99), ..fip(10).0 });
    let fixture = fixture().reserving("web", 10).fips([fip(10).attached(), recreated]);
    assert_eq!(marked(&fixture.decide("web")), Some(&id(99)));
}

#[test]
fn a_reserved_address_that_another_pool_is_offered_and_deletes_is_missing_throughout() {
    let mut fixture = fixture().reserving("web", 10);
    let missing = Decision::Refuse(Refusal::ReservationMissing(address(10)));
    assert_eq!(fixture.decide("web"), missing);
    fixture.begin_creation_by_another_pool(10);
    assert_eq!(fixture.decide("web"), missing, "a listing shows it before the reply");
    fixture.offer_unwanted_to_another_pool(10);
    assert_eq!(fixture.decide("web"), missing, "held");
    fixture.ledger.set_hold(&id(10), Some(Hold::Cleanup));
    assert_eq!(fixture.decide("web"), missing, "being deleted");
    fixture.ledger.keep_unwanted(&pool_id("other"), &id(10));
    fixture.ledger.set_hold(&id(10), None);
    assert_eq!(fixture.decide("web"), Decision::Refuse(Refusal::ReservationTaken(address(10))), "a claim waits for it");
}

#[test]
fn a_reserved_address_that_another_owner_has_just_created_is_missing() {
    let decide = |fip: Fip| fixture().reserving("web", 10).fips([fip]).decide("web");
    let taken = Decision::Refuse(Refusal::ReservationTaken(address(10)));
    let by_other = |at| fip(10).created_by_another_pool().created_at(at);
    assert_eq!(decide(by_other(ago(29))), Decision::Refuse(Refusal::ReservationMissing(address(10))));
    assert_eq!(decide(by_other(ago(30))), taken);
    assert_eq!(decide(by_other(ago(1)).tagged_for("db")), taken, "this pool's too");
    assert_eq!(marked(&decide(fip(10).idle().created_at(ago(1)))), Some(&id(10)), "this pool's");
}

#[test]
fn subnets_are_tried_in_order_until_all_are_empty() {
    let (first, second) = (SubnetId::new("first"), SubnetId::new("second"));
    let mut fixture = fixture().with_policy(|pool| pool.subnets = vec![first.clone(), second.clone()]);
    assert_eq!(fixture.decide("web"), create(Some(first.clone())));
    let pool = fixture.pool.id.clone();
    fixture.ledger.note_empty_subnet(&pool, first.clone(), start() + seconds(20));
    assert_eq!(fixture.decide("web"), create(Some(second.clone())));
    fixture.ledger.note_empty_subnet(&pool, second, start() + seconds(20));
    assert_eq!(fixture.decide("web"), Decision::Refuse(Refusal::NetworkExhausted));
    fixture.now = start() + seconds(20);
    assert_eq!(fixture.decide("web"), create(Some(first)));
}

#[test]
fn a_subnet_that_offers_only_unwanted_addresses_is_passed_over_for_a_while() {
    let (first, second) = (SubnetId::new("first"), SubnetId::new("second"));
    let mut fixture = fixture()
        .with_policy(|pool| pool.subnets = vec![first.clone(), second.clone()])
        .fips([10, 11, 12, 13, 14, 15, 16, 17].map(|last| fip(last).created_for("web")));
    let pool = fixture.pool.clone();
    for last in 10..18 {
        assert_eq!(fixture.decide("db"), create(Some(first.clone())), "{last}");
        fixture.hold_unwanted(last, Some(&first));
    }
    assert_eq!(fixture.decide("db"), create(Some(second.clone())), "eight in a row");
    fixture.relist([]);
    assert!(!fixture.ledger.is_probing(&pool, start()), "any number of claims may ask the second");
    assert!(!fixture.ledger.offers_only_unwanted(&pool) && fixture.ledger.may_get_another_offer(&pool, start()));
    fixture.ledger.unblock_creation(&pool.id, Some(&second));
    assert_eq!(fixture.decide("db"), create(Some(second.clone())), "what the second offers says nothing of the first");

    fixture.ledger.note_empty_subnet(&pool.id, second.clone(), start() + seconds(10));
    assert_eq!(fixture.decide("db"), Decision::Refuse(Refusal::OnlyUnwanted));
    assert!(!fixture.ledger.may_get_another_offer(&pool, start()));
    fixture.ledger.retry_creation(&pool.id);
    assert_eq!(fixture.decide("db"), create(Some(second.clone())), "a release ends only that a subnet was full");

    fixture.now = start() + seconds(30);
    assert_eq!(fixture.decide("db"), create(Some(first.clone())));
    fixture.ledger.begin_request(&pool.id, Some(&first), fixture.now);
    assert_eq!(fixture.decide("web"), create(Some(second.clone())), "one request at a time is enough");
    let asked_after = |seconds_later| fixture.ledger.usable_subnet(&pool, fixture.now + seconds(seconds_later));
    assert_eq!([59, 60].map(asked_after), [Some(&second), Some(&first)], "its answer may never come");
    fixture.ledger.end_request(&pool.id, Some(&first));
    assert_eq!(fixture.decide("web"), create(Some(first.clone())), "it showed nothing");
    assert!(!fixture.ledger.unblock_creation(&pool.id, None), "that is another place");
    assert!(fixture.ledger.unblock_creation(&pool.id, Some(&first)));
    assert_eq!(fixture.decide("web"), create(Some(first)));
}

#[test]
fn one_unwanted_address_begins_the_next_pause_of_a_subnet_unless_there_is_no_other() {
    let (first, second) = (SubnetId::new("first"), SubnetId::new("second"));
    let (to_second, to_first) = (create(Some(second.clone())), create(Some(first.clone())));
    for (is_second_full, was_refused, after_one) in
        [(false, false, to_second), (true, false, to_first.clone()), (false, true, to_first)]
    {
        let mut fixture = fixture()
            .with_policy(|pool| pool.subnets = vec![first.clone(), second.clone()])
            .fips([10, 11, 12, 13, 14, 15, 16, 17].map(|last| fip(last).created_for("web")));
        let pool = fixture.pool.clone();
        fixture.ledger.note_only_unwanted(&pool.id, Some(&first), start());
        fixture.now = start() + seconds(30);
        if is_second_full {
            fixture.ledger.note_empty_subnet(&pool.id, second.clone(), start() + seconds(60));
        }
        if was_refused {
            let block = CreationBlock { refusal: Refusal::NetworkExhausted, until: fixture.now };
            fixture.ledger.block_creation(pool.id.clone(), block);
        }
        fixture.hold_unwanted(10, Some(&first));
        assert_eq!(fixture.decide("db"), after_one);
        (11..18).for_each(|last| fixture.hold_unwanted(last, Some(&first)));
        fixture.now = start() + seconds(89);
        assert_eq!(fixture.decide("db"), create(Some(second.clone())), "it pauses twice as long");
        fixture.now = start() + seconds(90);
        assert_eq!(fixture.decide("db"), create(Some(first.clone())));
    }
}

#[test]
fn unwanted_addresses_explain_why_their_place_has_no_others_while_they_are_held() {
    let subnet = SubnetId::new("first");
    let mut fixture = fixture().fips([fip(10).created_for("web")]);
    let pool = fixture.pool.id.clone();
    let holds = |fixture: &Fixture, subnet: Option<&SubnetId>| fixture.ledger.holds_unwanted(&pool, subnet);
    assert!(!holds(&fixture, Some(&subnet)));
    fixture.hold_unwanted(10, Some(&subnet));
    assert!(holds(&fixture, Some(&subnet)) && !holds(&fixture, None), "of this place");
    fixture.ledger.leave_unwanted(&[id(10)]);
    assert!(!holds(&fixture, Some(&subnet)), "none is held");
    fixture.hold_unwanted(10, Some(&subnet));
    fixture.ledger.note_only_unwanted(&pool, Some(&subnet), start());
    assert!(!holds(&fixture, Some(&subnet)), "the pause is for what they explain");
}

#[test]
fn what_was_offered_in_vain_is_known_until_every_place_of_the_pool_offers_something_usable() {
    let (first, second) = (SubnetId::new("first"), SubnetId::new("second"));
    let mut fixture = fixture()
        .with_policy(|pool| pool.subnets = vec![first.clone(), second.clone()])
        .fips([fip(10).created_for("web")]);
    let pool = fixture.pool.id.clone();
    fixture.hold_unwanted(10, Some(&first));
    assert!(fixture.ledger.unblock_creation(&pool, Some(&second)), "unwanted addresses filled the limit");
    fixture.ledger.leave_unwanted(&[id(10)]);
    assert!(!fixture.ledger.unblock_creation(&pool, Some(&second)));
    let is_paused_until_90_after_a_deletion = |fixture: &mut Fixture| {
        [start(), start() + seconds(30)]
            .into_iter()
            .for_each(|at| fixture.ledger.note_only_unwanted(&pool, Some(&first), at));
        fixture.relist([Fip(FloatingIp { id: FloatingIpId::new("theirs"), ..fip(10).0 })]);
        fixture.relist([]);
        fixture.ledger.usable_subnet(&fixture.pool, start() + seconds(89)) == Some(&second)
    };
    assert!(is_paused_until_90_after_a_deletion(&mut fixture), "it was offered in vain, too");
    assert!(fixture.ledger.unblock_creation(&pool, Some(&first)));
    assert!(!is_paused_until_90_after_a_deletion(&mut fixture), "it may be wanted by now");
}

#[test]
fn what_neutron_refuses_in_a_subnet_is_the_reason_although_another_offers_only_unwanted_addresses() {
    let (first, second) = (SubnetId::new("first"), SubnetId::new("second"));
    let mut fixture = fixture().with_policy(|pool| pool.subnets = vec![first.clone(), second.clone()]);
    let pool = fixture.pool.id.clone();
    fixture.ledger.note_only_unwanted(&pool, Some(&first), start());
    let until = start() + seconds(10);
    fixture.ledger.block_creation(pool.clone(), CreationBlock { refusal: Refusal::QuotaReached, until });
    fixture.ledger.note_only_unwanted(&pool, Some(&second), start());
    assert_eq!(fixture.decide("web"), Decision::Refuse(Refusal::QuotaReached));
    fixture.now = until;
    assert_eq!(fixture.decide("web"), Decision::Refuse(Refusal::QuotaReached), "both still pause");
    let mut offered = fixture.fips([fip(10).idle()]);
    offered.hold_unwanted(10, Some(&second));
    assert!(offered.ledger.creation_refusal(&pool).is_none(), "it refuses no longer");
}

#[test]
fn what_is_left_of_a_full_network_is_the_reason_until_that_is_gone_too() {
    let (first, second) = (SubnetId::new("first"), SubnetId::new("second"));
    for (subnets, max_ips) in [(vec![], 1), (vec![first.clone()], 1), (vec![first.clone(), second], 2)] {
        let place = (!subnets.is_empty()).then_some(&first);
        let mut fixture =
            fixture().max_ips(max_ips).with_policy(|pool| pool.subnets = subnets.clone()).fips([fip(10).idle()]);
        let pool = fixture.pool.id.clone();
        let [full, only_unwanted] = [Refusal::NetworkExhausted, Refusal::OnlyUnwanted].map(Decision::Refuse);
        let refuse = |fixture: &mut Fixture| {
            let until = start() + seconds(20);
            place.iter().for_each(|subnet| fixture.ledger.note_empty_subnet(&pool, (*subnet).clone(), until));
            let block = CreationBlock { refusal: Refusal::NetworkExhausted, until };
            fixture.ledger.block_creation(pool.clone(), block);
        };
        refuse(&mut fixture);
        fixture.hold_unwanted(10, place);
        assert_eq!(fixture.decide("db"), only_unwanted, "{subnets:?}: held");
        fixture.ledger.note_only_unwanted(&pool, place, start());
        fixture.ledger.set_hold(&id(10), Some(Hold::Cleanup));
        assert_eq!(fixture.decide("db"), only_unwanted, "{subnets:?}: being deleted");
        fixture.relist([]);
        assert_eq!(fixture.decide("db"), only_unwanted, "{subnets:?}: deleted");
        refuse(&mut fixture);
        assert_eq!(fixture.decide("db"), only_unwanted, "{subnets:?}: another pool may have it at this moment");
        refuse(&mut fixture);
        assert_eq!(fixture.decide("db"), full, "{subnets:?}: gone");
        fixture.ledger.note_only_unwanted(&pool, place, start() + seconds(30));
        assert_eq!(fixture.decide("db"), only_unwanted, "{subnets:?}: there again");
        let is_asked = |at| match place {
            Some(_) => fixture.ledger.usable_subnet(&fixture.pool, start() + seconds(at)) == place,
            None => fixture.ledger.may_create(&fixture.pool, start() + seconds(at)),
        };
        assert_eq!([89, 90].map(is_asked), [false, true], "{subnets:?}: the pause is longer than the first");
    }
}

#[test]
fn the_pause_of_a_subnet_becomes_short_when_an_address_is_freed_and_ends_with_the_spec() {
    let (first, second) = (SubnetId::new("first"), SubnetId::new("second"));
    let paused = || {
        let mut fixture = fixture().with_policy(|pool| pool.subnets = vec![first.clone(), second.clone()]);
        let pool = fixture.pool.id.clone();
        fixture.ledger.note_only_unwanted(&pool, Some(&first), start());
        fixture.ledger.note_only_unwanted(&pool, Some(&first), start() + seconds(30));
        fixture.ledger.note_only_unwanted(&pool, Some(&first), start() + seconds(31));
        fixture
    };
    let asked_after = |mut fixture: Fixture| {
        let is_asked = |seconds_later: &i64| {
            fixture.now = start() + seconds(*seconds_later);
            fixture.decide("web") == create(Some(first.clone()))
        };
        (30..100).find(is_asked)
    };
    assert_eq!(asked_after(paused()), Some(90), "twice as long as the first pause");
    let mut freed = paused();
    freed.relist([fip(50)]);
    freed.relist([]);
    assert_eq!(asked_after(freed), Some(60));
    let mut edited = paused();
    edited.ledger.reset_backoff(&edited.pool.id.clone());
    assert_eq!(asked_after(edited), Some(30));
}

#[test]
fn a_bounded_number_of_unwanted_addresses_is_held() {
    let mut fixture = fixture();
    let unwanted = |count: u8| (0..count).map(|last| fip(100 + last).created_for("web"));
    let list_unwanted = |fixture: &mut Fixture, count| {
        let began = fixture.ledger.begin(fixture.now);
        fixture.ledger.record_listing(began, unwanted(count).map(|fip| fip.0).collect(), start());
        (0..count).for_each(|last| fixture.hold_unwanted(100 + last, None));
        fixture.ledger.reset_backoff(&fixture.pool.id.clone());
    };
    list_unwanted(&mut fixture, 7);
    assert_eq!(fixture.decide("web"), create(None));
    list_unwanted(&mut fixture, 8);
    assert_eq!(fixture.decide("web"), Decision::Refuse(Refusal::OnlyUnwanted));
    list_unwanted(&mut fixture, 2);
    assert_eq!(fixture.max_ips(2).decide("web"), Decision::Refuse(Refusal::OnlyUnwanted), "they fill the limit");
}

#[test]
fn a_limit_that_is_reached_without_unwanted_addresses_is_the_reason() {
    let mut fixture = fixture().max_ips(2).fips([fip(10).created_for("web"), fip(11).created_for("db")]);
    let pool = fixture.pool.id.clone();
    fixture.ledger.note_only_unwanted(&pool, None, start());
    assert_eq!(fixture.decide("dns"), Decision::Refuse(Refusal::LimitReached(2)));
    fixture.relist([fip(10).created_for("web")]);
    fixture.ledger.note_only_unwanted(&pool, None, start());
    fixture.ledger.begin_creation(unclaimed_mark(11).nonce, pool, Some(key("db")));
    assert_eq!(fixture.decide("dns"), Decision::Refuse(Refusal::OnlyUnwanted), "one asks again, for all");
    fixture.relist([fip(10).created_for("web"), fip(11).idle()]);
    assert_eq!(fixture.decide("dns"), Decision::Refuse(Refusal::OnlyUnwanted), "a listing shows it before the reply");
}

#[test]
fn each_refusal_names_the_limit_that_was_reached() {
    let refused = |fixture: &Fixture| match fixture.decide("web") {
        Decision::Refuse(refusal) => refusal,
        other => panic!("{other:?}"),
    };
    let mut fixture = fixture();
    for refusal in [Refusal::QuotaReached, Refusal::NetworkExhausted] {
        let block = CreationBlock { refusal: refusal.clone(), until: start() + seconds(20) };
        fixture.ledger.block_creation(pool_id("p"), block);
        assert_eq!(refused(&fixture), refusal);
    }
    let no_tags = testing::fixture().closed_list([10]).with_policy(|pool| pool.has_tags = false);
    assert_eq!(refused(&no_tags.fips([fip(10)])), Refusal::NoTags);
}

#[test]
fn a_probing_creation_does_not_turn_the_refusal_into_limit_reached() {
    let mut fixture = fixture().max_ips(2).fips([fip(10).created_for("db")]);
    let nonce = Nonce::parse("nonce00001").expect("a nonce");
    fixture.ledger.begin_creation(nonce, pool_id("p"), Some(key("old")));
    let fixture = fixture.waiting_claim("old");
    let refused_and_exhausted = |fixture: &Fixture| {
        let count = crate::allocation::usage::count(&fixture.situation());
        (fixture.decide("web"), count.exhausted)
    };
    let full = Refusal::LimitReached(2);
    assert_eq!(refused_and_exhausted(&fixture), (Decision::Refuse(full.clone()), Some(full)));
    let mut refused = fixture;
    refused.ledger.block_creation(pool_id("p"), CreationBlock { refusal: Refusal::NetworkExhausted, until: start() });
    let still = Refusal::NetworkExhausted;
    assert_eq!(refused_and_exhausted(&refused), (Decision::Refuse(still.clone()), Some(still)));
    let limited = refused.max_ips(1);
    assert_eq!(limited.decide("web"), Decision::Refuse(Refusal::LimitReached(1)));
}

#[test]
fn after_a_refusal_only_the_oldest_claim_retries() {
    let mut fixture = fixture().waiting_claim("old");
    let block = CreationBlock { refusal: Refusal::QuotaReached, until: start() };
    assert_eq!(fixture.decide("web"), create(None));
    fixture.ledger.block_creation(pool_id("p"), block);
    assert_eq!(fixture.decide("web"), Decision::Refuse(Refusal::QuotaReached));
}

#[test]
fn an_uncertain_creation_is_settled_before_another_address_is_chosen() {
    let mut fixture = fixture().fips([fip(10)]);
    let nonce = unclaimed_mark(1).nonce;
    fixture.ledger.begin_creation(nonce.clone(), pool_id("p"), Some(key("web")));
    fixture.ledger.note_uncertain_creation(&nonce, Viewer::default(), start());
    assert_eq!(fixture.decide("web"), Decision::Settle);
    assert_eq!(marked(&fixture.decide("db")), Some(&id(10)));
}

#[test]
fn a_floating_ip_is_not_given_before_its_creation_was_answered() {
    let mut fixture = fixture().fips([fip(10).idle()]);
    fixture.ledger.begin_creation(unclaimed_mark(10).nonce, pool_id("p"), None);
    assert_eq!(fixture.decide("web"), create(None));
    fixture.ledger.end_creation(&unclaimed_mark(10).nonce);
    assert_eq!(marked(&fixture.decide("web")), Some(&id(10)));
}

#[test]
fn without_tags_only_created_addresses_are_given() {
    let fixture = fixture().with_policy(|pool| pool.has_tags = false).listed([10]).fips([fip(10), fip(11)]);
    assert_eq!(fixture.decide("web"), create(None));
    let released = CreationMark { claim: Some(key("web")), released: Some(ago(9)), ..unclaimed_mark(10) };
    let fixture = fixture.fips([fip(10).described(released.render(None))]);
    assert_eq!(fixture.decide("web"), Decision::Mark(id(10), Origin::Recovered, describe(10)));
}

#[test]
fn an_excluded_address_is_not_given_to_the_claim_that_it_is_reserved_for() {
    let fixture = fixture().closed_list([10]).fips([fip(10)]).reserving("web", 10).excluding("203.0.113.10/32");
    assert_eq!(fixture.decide("web"), Decision::Refuse(Refusal::ReservationExcluded(address(10))));
}

#[test]
fn claims_that_wait_for_a_reservation_do_not_block_others() {
    let fixture = fixture().closed_list([10, 11]).fips([fip(10)]).reserving("db", 11).waiting_claim("db");
    assert_eq!(marked(&fixture.decide("web")), Some(&id(10)));
}

#[test]
fn the_oldest_waiting_claim_is_served_first() {
    let fixture = fixture().closed_list([10]).fips([fip(10)]).waiting_claim("old");
    assert_eq!(fixture.decide("web"), Decision::Refuse(Refusal::ListUsedUp));
}

#[test]
fn an_older_claim_that_is_being_served_leaves_what_is_there_to_others() {
    let two = || fixture().closed_list([10, 11]).fips([fip(10), fip(11)]).waiting_claim("old");
    let hold = || request("old").hold(&pool_id("p"));
    assert_eq!(marked(&two().held(10, hold()).decide("web")), Some(&id(11)));
    assert_eq!(two().held(10, Hold::Cleanup).decide("web"), Decision::Refuse(Refusal::ListUsedUp));
    let creating = |mut fixture: Fixture| {
        fixture.ledger.begin_creation(unclaimed_mark(10).nonce, pool_id("p"), Some(key("old")));
        fixture
    };
    let room_for_two = || creating(fixture().max_ips(2).waiting_claim("old"));
    assert_eq!(room_for_two().decide("web"), create(None));
    let probing = || creating(fixture().waiting_claim("old").fips([fip(11).idle()]).blocked());
    let mut asked_again = probing();
    asked_again.ledger.retry_creation(&pool_id("p"));
    assert_eq!(asked_again.decide("web"), create(None), "what exists is for the older one, which may be refused");
    assert_eq!(probing().decide("web"), Decision::Refuse(Refusal::QuotaReached));
}

#[test]
fn what_exists_is_for_the_older_claims_and_a_younger_one_may_ask_for_more() {
    let existing = |room: usize| fixture().max_ips(room + 1).fips([fip(10).idle()]).waiting_claim("old");
    assert_eq!(existing(1).decide("web"), create(None));
    assert_eq!(existing(0).decide("web"), Decision::Refuse(Refusal::LimitReached(1)));
    let two = fixture().fips([fip(10).idle(), fip(11).idle()]).waiting_claim("old");
    assert!(marked(&two.decide("web")).is_some());
}

#[test]
fn addresses_beyond_a_lowered_limit_are_not_given() {
    let bound = || [fip(10).created_for("web"), fip(11).created_for("db")];
    let [web, db] = bound();
    let full = fixture().max_ips(2).fips([web, db, fip(12).idle()]);
    assert_eq!(full.decide("app"), Decision::Refuse(Refusal::LimitReached(2)));
    let [web, db] = bound();
    let lowered = fixture().max_ips(3).fips([web, db, fip(12).idle(), fip(13).idle()]);
    assert_eq!(marked(&lowered.decide("app")), Some(&id(12)), "one of the two is within the limit");
    assert_eq!(lowered.waiting_claim("old").decide("app"), Decision::Refuse(Refusal::LimitReached(3)));
}

#[test]
fn a_claim_that_waits_is_not_older_than_itself() {
    let one = fixture().closed_list([10]).fips([fip(10)]);
    assert_eq!(one.in_queue("web").decide("web"), Decision::Mark(id(10), Origin::List, tag()));
}

#[test]
fn within_the_limit_a_claim_behind_older_ones_is_told_the_limit() {
    let room_for_one = fixture().max_ips(2).fips([fip(10).created_for("app")]);
    assert_eq!(room_for_one.waiting_claim("old").decide("web"), Decision::Refuse(Refusal::LimitReached(2)));
}

#[test]
fn a_new_address_and_a_refusal_are_choices() {
    let reason = Refusal::ListUsedUp;
    for decision in [Decision::Mark(id(10), Origin::List, tag()), create(None), Decision::Refuse(reason)] {
        assert!(decision.is_choice(), "{decision:?}");
    }
    for decision in [Decision::Mark(id(10), Origin::Recovered, tag()), Decision::Keep(id(10)), Decision::Settle] {
        assert!(!decision.is_choice(), "{decision:?}");
    }
}

#[test]
fn while_fenced_no_address_changes_its_owner() {
    let list = || fixture().closed_list([10]).fenced();
    let fenced = Decision::Fenced(start() + seconds(60));
    assert_eq!(list().fips([fip(10)]).decide("web"), fenced);
    // A late write of the predecessor may remove the tag, or delete the released floating IP.
    assert_eq!(list().fips([fip(10).tagged_for("web")]).decide("web"), fenced);
    assert_eq!(fixture().fenced().fips([fip(10).created_for("web").released_by("web", ago(9))]).decide("web"), fenced);
    assert_eq!(fixture().fenced().max_ips(3).decide("web"), fenced);
    assert_eq!(fixture().fenced().fips([fip(10)]).reserving("web", 10).decide("web"), fenced);
    let owned = || fixture().fenced().fips([fip(10).idle()]);
    assert_eq!(owned().max_ips(3).decide("web"), fenced);
    assert_eq!(owned().with_policy(|pool| pool.min_free = 1).blocked().decide("web"), fenced);
}

#[test]
fn while_fenced_safe_decisions_are_still_made() {
    assert_eq!(fixture().fenced().decide("web"), create(None));
    assert_eq!(
        fixture().fenced().fips([fip(10).idle()]).decide("web"),
        create(None),
        "no previous process knows a new one"
    );
    let attached = fip(10).created_for("web").attached();
    let fixture = fixture().fenced().fips([attached, fip(11).tagged_for("db")]).published("db", 11);
    assert_eq!(fixture.decide("web"), Decision::Keep(id(10)));
    assert_eq!(fixture.decide_published("db", 11), Decision::Keep(id(11)));
}

#[test]
fn claims_are_served_after_a_listing_that_began_after_the_fence() {
    let mut fixture = fixture().fenced().fips([fip(10).idle()]);
    fixture.now = start() + seconds(60);
    assert_eq!(fixture.decide("web"), Decision::Settle);
    fixture.relist([fip(10).idle()]);
    assert_eq!(marked(&fixture.decide("web")), Some(&id(10)));
}

#[test]
fn an_address_with_an_uncertain_write_is_given_to_no_other_claim() {
    let uncertain = |hold| {
        let mut fixture = fixture().closed_list([10]).fips([fip(10).tagged_for("web")]).held(10, hold);
        fixture.ledger.note_uncertain_write(&id(10), start());
        fixture.ledger.set_hold(&id(10), None);
        fixture
    };
    assert_eq!(uncertain(hold_of("web")).decide("web"), Decision::Keep(id(10)));
    assert_eq!(uncertain(hold_of("db")).decide("web"), Decision::Refuse(Refusal::ListUsedUp));
    assert_eq!(uncertain(Hold::Cleanup).decide("web"), Decision::Refuse(Refusal::ListUsedUp));
    let mut settled = uncertain(Hold::Cleanup);
    settled.now = start() + seconds(60);
    settled.relist([fip(10)]);
    assert_eq!(marked(&settled.decide("web")), Some(&id(10)));
}

#[test]
fn nothing_is_decided_before_the_project_was_listed() {
    let fixture = Fixture { ledger: Ledger::default(), ..fixture() };
    assert_eq!(fixture.decide("web"), Decision::Settle);
}

#[test]
fn what_a_pool_names_that_may_turn_out_to_be_of_the_project_is_not_reused() {
    let mut fixture = fixture().fips([fip(10)]);
    fixture.published.set_listed(ObjectName::new("elsewhere", "pool"), [address(10)].into());
    assert!(matches!(fixture.decide("web"), Decision::Mark(..)));
    fixture.unresolved.insert("elsewhere".into());
    assert_eq!(fixture.decide("web"), create(None));
}
