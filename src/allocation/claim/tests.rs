//! Each rule of recovery and choice, by its example and its counterexample.

use super::*;
use crate::allocation::Nonce;
use crate::allocation::ledger::{CreationBlock, Ledger};
use crate::allocation::mark::release_tag;
use crate::allocation::policy::{PoolPolicy, ReusePolicy};
use crate::allocation::testing::{self, *};
use crate::floating_ip::SubnetId;

fn hold_of(claim: &str) -> Hold {
    Hold::Claim { pool: pool_id("p"), claim: key(claim) }
}

fn create(subnet: Option<SubnetId>) -> Decision {
    Decision::Create(CreationPlace { network: network(), subnet })
}

fn tag() -> MarkWrite {
    MarkWrite::Tag(claim_tag(&pool_id("p"), &key("web")))
}

fn describe(last: u8) -> MarkWrite {
    MarkWrite::Describe(CreationMark { claim: Some(key("web")), ..idle_mark(last) })
}

#[test]
fn the_order_is_reservation_list_owned_reuse_creation() {
    let all = || world().lists([12]).reserves("web", 11);
    let create = create(None);
    let take = |last, origin, write| Decision::Mark(id(last), origin, write);
    let fips = [fip(10), fip(11), fip(12), fip(13).idle()];
    assert_eq!(all().sees(fips.clone()).decide("web"), take(11, Origin::Reserved, tag()));
    let unreserved = world().lists([12]);
    assert_eq!(unreserved.sees(fips).decide("web"), take(12, Origin::List, tag()));
    let unlisted = world().sees([fip(10), fip(13).idle()]);
    assert_eq!(unlisted.decide("web"), take(13, Origin::Owned, describe(13)));
    assert_eq!(world().sees([fip(10)]).decide("web"), take(10, Origin::Reuse, tag()));
    assert_eq!(world().decide("web"), create);
}

#[test]
fn the_list_is_used_in_its_order_and_the_project_in_that_of_addresses() {
    let listed = world().closed_list([12, 11]).sees([fip(11), fip(12)]);
    assert_eq!(marked(&listed.decide("web")), Some(&id(12)));
    assert_eq!(marked(&world().sees([fip(12), fip(11)]).decide("web")), Some(&id(11)));
}

#[test]
fn a_closed_list_gives_nothing_beyond_it() {
    let world = world().closed_list([10]).sees([fip(10).attached(), fip(11), fip(12).idle()]);
    assert_eq!(world.decide("web"), Decision::Refuse(Refusal::ListUsedUp));
}

#[test]
fn what_is_not_to_be_had_is_not_given() {
    let refused = Decision::Refuse(Refusal::ListUsedUp);
    let list = || world().closed_list([10]);
    for fip in [
        fip(10).attached(),
        fip(10).forwarded(),
        fip(10).tagged_by_another_pool(),
        fip(10).tagged_for("db"),
        fip(10).tag("caip.of-a-newer-kind"),
        fip(10).tagged_for("db").released_by("db", ago(9)),
    ] {
        assert_eq!(list().sees([fip.clone()]).decide("web"), refused, "{:?}", fip.0);
    }
    assert_eq!(list().sees([fip(10)]).excludes("203.0.113.0/24").decide("web"), refused);
    assert_eq!(list().sees([fip(10)]).reserves("db", 10).decide("web"), refused);
    assert_eq!(list().sees([fip(10)]).published_by_others(10).decide("web"), refused);
    assert_eq!(list().sees([fip(10)]).published("db", 10).decide("web"), refused);
    assert_eq!(list().sees([fip(10)]).chosen(10, "db").decide("web"), refused);
    assert_eq!(list().sees([fip(10)]).holds(10, Hold::GivingBack).decide("web"), refused);
}

#[test]
fn what_any_pool_lists_is_not_reused_nor_what_is_reserved() {
    let create = create(None);
    let mut world = world().sees([fip(10)]);
    world.published.set_listed(ObjectName::new("team", "another"), [address(10)].into());
    assert_eq!(world.decide("web"), create);
    assert_eq!(testing::world().sees([fip(10)]).reserves("db", 10).decide("web"), create);
}

#[test]
fn an_owned_one_is_given_when_it_has_rested_and_was_seen() {
    let released = || fip(10).created_for("db").released_by("db", ago(9));
    let resting = world().with(|pool| pool.grace = seconds(10)).sees([released()]);
    assert_eq!(resting.decide("web"), create(None));
    let rested = world().with(|pool| pool.grace = seconds(9)).sees([released()]);
    assert_eq!(rested.decide("web"), Decision::Mark(id(10), Origin::Owned, describe(10)));
    let mut unseen = world().sees([fip(10).created_for("db")]);
    unseen.ledger.record_tag(&id(10), &release_tag(&pool_id("p"), &key("db"), ago(9)), true);
    assert_eq!(unseen.decide("web"), create(None));
}

#[test]
fn the_limit_leaves_the_pools_own_and_nothing_else() {
    let full = || world().limit(1);
    let reached = Decision::Refuse(Refusal::LimitReached(1));
    assert_eq!(full().sees([fip(10).created_for("db"), fip(11)]).decide("web"), reached);
    assert_eq!(marked(&full().lists([11]).sees([fip(10).idle(), fip(11)]).decide("web")), Some(&id(10)));
    assert_eq!(
        full().sees([fip(11)]).reserves("web", 11).chosen(11, "db").sees([fip(11)]).decide("web"),
        Decision::Refuse(Refusal::ReservationInUse(address(11)))
    );
    let reserved = full().sees([fip(10).created_for("db"), fip(11)]).reserves("web", 11);
    assert_eq!(reserved.decide("web"), reached);
}

#[test]
fn a_reservation_is_waited_for() {
    let reserved = || world().reserves("web", 10);
    let missing = Decision::Refuse(Refusal::ReservationMissing(address(10)));
    let in_use = Decision::Refuse(Refusal::ReservationInUse(address(10)));
    assert_eq!(reserved().sees([fip(11)]).decide("web"), missing);
    assert_eq!(reserved().sees([fip(10).on("another")]).decide("web"), missing);
    assert_eq!(reserved().sees([fip(10).attached()]).decide("web"), in_use);
    assert_eq!(reserved().sees([fip(10).tagged_for("db")]).decide("web"), in_use);
    assert_eq!(reserved().sees([fip(10)]).published("db", 10).decide("web"), in_use);
    assert_eq!(marked(&reserved().sees([fip(10).idle()]).decide("web")), Some(&id(10)));
}

#[test]
fn a_reserved_address_that_was_deleted_and_made_anew_is_found_beside_its_ghost() {
    let mut anew = fip(10);
    anew.0.id = id(99);
    let world = world().reserves("web", 10).sees([fip(10).attached(), anew]);
    assert_eq!(marked(&world.decide("web")), Some(&id(99)));
}

#[test]
fn subnets_are_asked_in_their_order_until_all_are_empty() {
    let (first, second) = (SubnetId::new("first"), SubnetId::new("second"));
    let mut world = world().with(|pool| pool.subnets = vec![first.clone(), second.clone()]);
    assert_eq!(world.decide("web"), create(Some(first.clone())));
    world.ledger.note_empty_subnet(first.clone(), noon() + seconds(20));
    assert_eq!(world.decide("web"), create(Some(second.clone())));
    world.ledger.note_empty_subnet(second, noon() + seconds(20));
    assert_eq!(world.decide("web"), Decision::Refuse(Refusal::NetworkExhausted));
    world.now = noon() + seconds(20);
    assert_eq!(world.decide("web"), create(Some(first)));
}

#[test]
fn unwanted_addresses_are_asked_around_a_bounded_number_of_times() {
    let mut world = world();
    let unwanted = |count: u8| (0..count).map(|last| fip(100 + last).created_for("web"));
    let look = |world: &mut World, count| {
        let began = world.ledger.begin(world.now);
        world.ledger.record_listing(began, unwanted(count).map(|fip| fip.0).collect(), noon());
        (0..count).for_each(|last| world.ledger.set_hold(&id(100 + last), Some(Hold::Unwanted)));
    };
    look(&mut world, 7);
    assert_eq!(world.decide("web"), create(None));
    look(&mut world, 8);
    assert_eq!(world.decide("web"), Decision::Refuse(Refusal::OnlyUnwanted));
    look(&mut world, 2);
    assert_eq!(world.limit(2).decide("web"), Decision::Refuse(Refusal::OnlyUnwanted), "they fill the limit");
}

#[test]
fn each_refusal_names_the_limit_that_was_met() {
    let refused = |world: &World| match world.decide("web") {
        Decision::Refuse(refusal) => refusal,
        other => panic!("{other:?}"),
    };
    let mut world = world();
    for refusal in [Refusal::QuotaReached, Refusal::NetworkExhausted] {
        let block = CreationBlock { refusal: refusal.clone(), until: noon() + seconds(20) };
        world.ledger.block_creation(pool_id("p"), block);
        assert_eq!(refused(&world), refusal);
    }
    let no_tags = testing::world().closed_list([10]).with(|pool| pool.has_tags = false);
    assert_eq!(refused(&no_tags.sees([fip(10)])), Refusal::NoTags);
}

#[test]
fn what_is_asked_for_to_see_whether_neutron_still_refuses_is_not_told_as_the_limit() {
    let mut world = world().limit(2).sees([fip(10).created_for("db")]);
    let nonce = Nonce::parse("nonce00001").expect("of the nonce's form");
    world.ledger.begin_creation(nonce, pool_id("p"), Some(key("old")));
    let world = world.waits("old");
    let told = |world: &World| {
        let count = crate::allocation::usage::count(&world.situation());
        (world.decide("web"), count.exhausted)
    };
    let full = Refusal::LimitReached(2);
    assert_eq!(told(&world), (Decision::Refuse(full.clone()), Some(full)));
    let mut refused = world;
    refused.ledger.block_creation(pool_id("p"), CreationBlock { refusal: Refusal::NetworkExhausted, until: noon() });
    let still = Refusal::NetworkExhausted;
    assert_eq!(told(&refused), (Decision::Refuse(still.clone()), Some(still)));
    let limited = refused.limit(1);
    assert_eq!(limited.decide("web"), Decision::Refuse(Refusal::LimitReached(1)));
}

#[test]
fn after_a_refusal_one_claim_asks_for_all() {
    let mut world = world().waits("old");
    let block = CreationBlock { refusal: Refusal::QuotaReached, until: noon() };
    assert_eq!(world.decide("web"), create(None));
    world.ledger.block_creation(pool_id("p"), block);
    assert_eq!(world.decide("web"), Decision::Refuse(Refusal::QuotaReached));
}

#[test]
fn a_tag_is_confirmed_by_a_listing_that_began_after_it() {
    let mut world = world().closed_list([10]).sees([fip(10)]).chosen(10, "web");
    world.ledger.record_tag(&id(10), &claim_tag(&pool_id("p"), &key("web")), true);
    assert_eq!(world.decide("web"), Decision::Confirm(id(10)));
    world.look([fip(10).tagged_for("web")]);
    assert_eq!(world.decide("web"), Decision::Keep(id(10)));
}

#[test]
fn a_choice_that_met_another_owner_or_a_port_is_withdrawn() {
    let withdraw = Decision::Withdraw(id(10), claim_tag(&pool_id("p"), &key("web")));
    for fip in [fip(10).tagged_for("web").tagged_by_another_pool(), fip(10).tagged_for("web").attached()] {
        assert_eq!(world().closed_list([10]).sees([fip]).chosen(10, "web").decide("web"), withdraw);
    }
    assert_eq!(world().sees([fip(10).created_for("web").attached()]).chosen(10, "web").decide("web"), withdraw);
}

#[test]
fn a_choice_whose_write_is_not_known_is_written_again() {
    let list = world().closed_list([10]).sees([fip(10)]).chosen(10, "web");
    assert_eq!(list.decide("web"), Decision::Mark(id(10), Origin::List, tag()));
    let owned = world().sees([fip(10).idle()]).chosen(10, "web");
    assert_eq!(owned.decide("web"), Decision::Mark(id(10), Origin::Owned, describe(10)));
}

#[test]
fn a_post_in_doubt_is_settled_before_anything_is_chosen() {
    let mut world = world().sees([fip(10)]);
    let nonce = idle_mark(1).nonce;
    world.ledger.begin_creation(nonce.clone(), pool_id("p"), Some(key("web")));
    world.ledger.note_uncertain_creation(&nonce, noon());
    assert_eq!(world.decide("web"), Decision::Settle);
    assert_eq!(marked(&world.decide("db")), Some(&id(10)));
}

#[test]
fn what_a_listing_shows_before_its_post_was_answered_is_given_to_nobody() {
    let mut world = world().sees([fip(10).idle()]);
    world.ledger.begin_creation(idle_mark(10).nonce, pool_id("p"), None);
    assert_eq!(world.decide("web"), create(None));
    world.ledger.end_creation(&idle_mark(10).nonce);
    assert_eq!(marked(&world.decide("web")), Some(&id(10)));
}

#[test]
fn the_claims_own_address_comes_before_every_other() {
    let marked = [fip(10).created_for("web"), fip(10).tagged_for("web"), fip(10).created_for("web").attached()];
    for fip in marked {
        assert_eq!(world().lists([11]).sees([fip, testing::fip(11)]).decide("web"), Decision::Keep(id(10)));
    }
}

#[test]
fn a_released_address_with_a_port_is_not_taken_back() {
    let world = world().sees([fip(10).created_for("web").released_by("web", ago(9)).attached()]);
    assert_eq!(world.decide("web"), create(None));
}

#[test]
fn what_the_spec_no_longer_allows_stays_the_claims_while_it_is_in_use() {
    let world = world().excludes("203.0.113.10/32");
    let world = world.sees([fip(10).created_for("web")]);
    assert_eq!(world.decide("web"), create(None));
    let world = world.sees([fip(10).created_for("web").attached()]);
    assert_eq!(world.decide("web"), Decision::Keep(id(10)));
}

#[test]
fn a_published_address_is_the_claims_whatever_its_marks_say() {
    let published = |fip: Fip| world().sees([fip]).published("web", 10).decide_published("web", 10);
    assert_eq!(published(fip(10).created_for("web").attached()), Decision::Keep(id(10)));
    assert_eq!(published(fip(10)), Decision::Mark(id(10), Origin::Recovered, tag()));
    assert_eq!(published(fip(10).idle()), Decision::Mark(id(10), Origin::Recovered, describe(10)));
    assert_eq!(published(fip(10).created_for("db")), Decision::Mark(id(10), Origin::Recovered, describe(10)));
    let tags = vec![release_tag(&pool_id("p"), &key("web"), ago(9))];
    let released = fip(10).created_for("web").released_by("web", ago(9)).attached();
    assert_eq!(published(released), Decision::TakeBack(id(10), tags));
    assert_eq!(published(fip(10).tagged_by_another_pool()), Decision::Lost(LostAddress::Taken(address(10))));
    assert_eq!(published(fip(11)), Decision::Lost(LostAddress::Deleted(address(10))));
}

#[test]
fn an_address_that_another_claims_ip_address_names_is_not_recovered() {
    let world = world().sees([fip(10).created_for("web").attached()]).published("db", 10);
    assert_eq!(world.decide("web"), create(None));
}

#[test]
fn without_tags_only_what_is_created_is_given() {
    let world = world().with(|pool| pool.has_tags = false).lists([10]).sees([fip(10), fip(11)]);
    assert_eq!(world.decide("web"), create(None));
    let released = CreationMark { claim: Some(key("web")), released: Some(ago(9)), ..idle_mark(10) };
    let world = world.sees([fip(10).described(released.render(None))]);
    assert_eq!(world.decide("web"), Decision::Mark(id(10), Origin::Recovered, describe(10)));
}

#[test]
fn an_address_that_another_claim_is_taking_is_not_recovered() {
    let world = world().sees([fip(10).created_for("web")]).chosen(10, "other");
    assert_eq!(world.decide("web"), create(None));
}

#[test]
fn an_address_is_taken_back_while_its_claim_holds_it() {
    let world = world().sees([fip(10).created_for("web").released_by("web", ago(10))]);
    let take_back = Decision::TakeBack(id(10), vec![release_tag(&pool_id("p"), &key("web"), ago(10))]);
    assert_eq!(world.decide("web"), take_back);
    assert_eq!(world.chosen(10, "web").decide("web"), take_back);
}

#[test]
fn an_address_that_is_being_given_back_is_not_taken_back() {
    let world = world().sees([fip(10).created_for("web").released_by("web", ago(10))]).holds(10, Hold::GivingBack);
    assert_eq!(world.decide("web"), create(None));
}

#[test]
fn a_choice_that_the_spec_no_longer_allows_is_withdrawn() {
    let chosen = || world().closed_list([10]).sees([fip(10).tagged_for("web")]).chosen(10, "web");
    let withdraw = Decision::Withdraw(id(10), claim_tag(&pool_id("p"), &key("web")));
    assert_eq!(chosen().excludes("203.0.113.10/32").decide("web"), withdraw);
    assert_eq!(chosen().reserves("db", 10).decide("web"), withdraw);
}

#[test]
fn an_excluded_address_is_not_given_to_the_claim_that_it_is_reserved_for() {
    let world = world().closed_list([10]).sees([fip(10)]).reserves("web", 10).excludes("203.0.113.10/32");
    assert_eq!(world.decide("web"), Decision::Refuse(Refusal::ReservationExcluded(address(10))));
}

#[test]
fn those_that_wait_for_their_reservation_do_not_stand_in_the_way_of_others() {
    let world = world().closed_list([10, 11]).sees([fip(10)]).reserves("db", 11).waits("db");
    assert_eq!(marked(&world.decide("web")), Some(&id(10)));
}

#[test]
fn the_oldest_that_waits_is_served_first() {
    let world = world().closed_list([10]).sees([fip(10)]).waits("old");
    assert_eq!(world.decide("web"), Decision::Refuse(Refusal::ListUsedUp));
}

#[test]
fn what_is_beyond_a_lowered_limit_is_given_to_nobody() {
    let bound = || [fip(10).created_for("web"), fip(11).created_for("db")];
    let [web, db] = bound();
    let full = world().limit(2).sees([web, db, fip(12).idle()]);
    assert_eq!(full.decide("app"), Decision::Refuse(Refusal::LimitReached(2)));
    let [web, db] = bound();
    let lowered = world().limit(3).sees([web, db, fip(12).idle(), fip(13).idle()]);
    assert_eq!(marked(&lowered.decide("app")), Some(&id(12)), "one of the two is within it");
    assert_eq!(lowered.waits("old").decide("app"), Decision::Refuse(Refusal::LimitReached(3)));
}

#[test]
fn an_address_that_was_created_anew_is_taken_for_the_one_that_the_ip_address_names() {
    let anew = || fip(10).tag("anything");
    let mut world = world().sees([anew()]).published("web", 9);
    let published = BoundAddress { address: address(10), fip: id(9) };
    let request = ClaimRequest { bound: Some(published), ..request("web") };
    let decide = |world: &World| decide(&world.situation(), &request);
    assert_eq!(marked(&decide(&world)), Some(&id(10)));
    world.ledger.set_hold(&id(10), Some(hold_of("web")));
    world.ledger.record_tag(&id(10), &claim_tag(&pool_id("p"), &key("web")), true);
    assert_eq!(decide(&world), Decision::Confirm(id(10)));
    world.look([anew().tagged_for("web")]);
    assert_eq!(decide(&world), Decision::Keep(id(10)));
}

#[test]
fn a_copied_description_gives_nothing() {
    let copied = fip(10).created_for("web").0.description;
    let world = world().sees([fip(10).created_for("web"), fip(9).described(copied)]);
    assert_eq!(world.decide("web"), create(None));
    assert_eq!(world.decide_published("web", 10), Decision::Keep(id(10)));
    assert_eq!(world.chosen(10, "web").decide("web"), Decision::Keep(id(10)), "this one was chosen");
}

#[test]
fn a_created_address_that_another_ip_address_names_is_not_kept() {
    let world = world().sees([fip(10).created_for("web")]).published_by_others(10);
    assert_eq!(world.decide("web"), create(None));
    let world = World { ledger: Ledger::default(), ..world }.sees([fip(10).created_for("web").attached()]);
    assert_eq!(world.decide("web"), Decision::Keep(id(10)), "in use it stays the claim's");
}

#[test]
fn behind_the_fence_nothing_changes_hands() {
    let list = || world().closed_list([10]).fenced();
    let fenced = Decision::Fenced(noon() + seconds(60));
    assert_eq!(list().sees([fip(10)]).decide("web"), fenced);
    // The predecessor may have been about to take the tag off, or to delete the released one.
    assert_eq!(list().sees([fip(10).tagged_for("web")]).decide("web"), fenced);
    assert_eq!(world().fenced().sees([fip(10).created_for("web").released_by("web", ago(9))]).decide("web"), fenced);
    assert_eq!(world().fenced().sees([fip(10).idle()]).decide("web"), fenced);
    assert_eq!(world().fenced().limit(3).decide("web"), fenced);
}

#[test]
fn the_fence_does_not_stand_before_what_cannot_be_undone_late() {
    assert_eq!(world().fenced().decide("web"), create(None));
    let world = world().fenced().sees([fip(10).created_for("web"), fip(11).tagged_for("db")]).published("db", 11);
    assert_eq!(world.decide("web"), Decision::Keep(id(10)));
    assert_eq!(world.decide_published("db", 11), Decision::Keep(id(11)));
}

#[test]
fn the_fence_falls_with_the_first_listing_that_begins_after_it() {
    let mut world = world().fenced().sees([fip(10).idle()]);
    world.now = noon() + seconds(60);
    assert_eq!(world.decide("web"), Decision::Settle);
    world.look([fip(10).idle()]);
    assert_eq!(marked(&world.decide("web")), Some(&id(10)));
}

#[test]
fn an_address_in_doubt_is_given_to_nobody_else() {
    let in_doubt = |hold| {
        let mut world = world().closed_list([10]).sees([fip(10).tagged_for("web")]).holds(10, hold);
        world.ledger.note_uncertain_write(&id(10), noon());
        world.ledger.set_hold(&id(10), None);
        world
    };
    assert_eq!(in_doubt(hold_of("web")).decide("web"), Decision::Keep(id(10)));
    assert_eq!(in_doubt(hold_of("db")).decide("web"), Decision::Refuse(Refusal::ListUsedUp));
    assert_eq!(in_doubt(Hold::GivingBack).decide("web"), Decision::Refuse(Refusal::ListUsedUp));
    let mut settled = in_doubt(Hold::GivingBack);
    settled.now = noon() + seconds(60);
    settled.look([fip(10)]);
    assert_eq!(marked(&settled.decide("web")), Some(&id(10)));
}

#[test]
fn nothing_is_decided_before_the_project_was_listed() {
    let world = World { ledger: Ledger::default(), ..world() };
    assert_eq!(world.decide("web"), Decision::Settle);
}

#[test]
fn a_tag_that_was_left_beside_another_owners_is_withdrawn() {
    let withdraw = Decision::Withdraw(id(10), claim_tag(&pool_id("p"), &key("web")));
    let world = world().lists([10]).sees([fip(10).tagged_for("web").tagged_by_another_pool()]);
    assert_eq!(world.decide("web"), withdraw);
    assert_ne!(world.fenced().decide("web"), withdraw, "it may land again");
}

#[test]
fn a_tag_that_landed_late_beside_a_port_is_withdrawn() {
    let mut world = world().lists([10]).sees([fip(10)]);
    world.look([fip(10).tagged_for("web").attached()]);
    assert_eq!(world.decide("web"), Decision::Withdraw(id(10), claim_tag(&pool_id("p"), &key("web"))));
    let mut world = World { ledger: Default::default(), ..world };
    world.look([fip(10).tagged_for("web").attached()]);
    assert_eq!(world.decide("web"), Decision::Keep(id(10)), "to a new process it may be the claim's machine's");
}

#[test]
fn a_withdrawal_that_was_lost_is_not_forgotten() {
    let mut world = world().lists([10]).sees([fip(10)]).chosen(10, "web");
    let mine = Hold::Claim { pool: pool_id("p"), claim: key("web") };
    world.ledger.record_tag(&id(10), &claim_tag(&pool_id("p"), &key("web")), true);
    world.look([fip(10).tagged_for("web").attached()]);
    world.ledger.begin_withdrawal(&id(10), &pool_id("p"), &key("web"));
    world.ledger.note_uncertain_write(&id(10), world.now);
    world.ledger.end_withdrawal(&id(10), mine, false);
    world.now += seconds(60);
    world.look([fip(10).tagged_for("web").attached()]);
    assert_eq!(world.decide("web"), Decision::Withdraw(id(10), claim_tag(&pool_id("p"), &key("web"))));
}

#[test]
fn what_was_published_is_the_claims_however_its_tag_came() {
    let mut world = world().lists([10]).sees([fip(10)]);
    world.look([fip(10).tagged_for("web")]);
    world.ledger.end_holds_of(&pool_id("p"), &key("web"));
    world.look([fip(10).tagged_for("web").attached()]);
    assert_eq!(world.decide("web"), Decision::Keep(id(10)));
}

#[test]
fn what_the_read_back_of_a_reused_address_shows_decides() {
    let chosen = || fip(10).tagged_for("web");
    let decide = |fip: Fip| world().sees([fip]).chosen(10, "web").decide("web");
    assert_eq!(decide(chosen()), Decision::Keep(id(10)));
    assert_eq!(decide(chosen().described("mail")), Decision::Withdraw(id(10), claim_tag(&pool_id("p"), &key("web"))));
    let tags = |pool: &mut PoolPolicy| {
        pool.reuse = ReusePolicy::Tagged { tags: ["lent".to_owned()].into(), idle: seconds(300) };
    };
    let tagged = |fip: Fip| world().with(tags).sees([fip]).chosen(10, "web").decide("web");
    assert_eq!(tagged(chosen().tag("lent").described("mail")), Decision::Keep(id(10)));
    assert!(matches!(tagged(chosen()), Decision::Withdraw(..)), "its permission was taken back");
    let listed = world().lists([10]).sees([chosen().described("mail")]).chosen(10, "web").decide("web");
    assert_eq!(listed, Decision::Keep(id(10)), "a listed address may have a description");
}

#[test]
fn a_claim_that_is_created_again_keeps_its_address_whatever_was_written_on_it() {
    let released = fip(10).tagged_for("web").described("mail").released_by("web", ago(5));
    assert!(matches!(world().sees([released]).decide("web"), Decision::TakeBack(..)));
    let taken_back = world().sees([fip(10).tagged_for("web").described("mail")]).holds(10, hold_of("web"));
    assert_eq!(taken_back.decide("web"), Decision::Keep(id(10)));
}
