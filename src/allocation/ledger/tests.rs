//! What the ledger knows after each step, and what it forgets.

use super::*;
use crate::allocation::claim::Decision;
use crate::allocation::identity::Nonce;
use crate::allocation::refusal::Refusal;
use crate::allocation::testing::*;

fn nonce(last: u8) -> Nonce {
    idle_mark(last).nonce
}

fn list(ledger: &mut Ledger, began: Began, fips: Vec<Fip>) {
    ledger.record_listing(began, fips.into_iter().map(|fip| fip.0).collect(), began.at);
}

fn counted(world: &World) -> usize {
    world.ledger.count_towards_limit(&pool_id("p"))
}

#[test]
fn a_listing_does_not_undo_what_was_written_after_it_began() {
    let mut world = world().sees([fip(10).idle()]);
    let listing = world.ledger.begin(world.now);
    let writing = world.ledger.begin(world.now);
    world.ledger.record_write(fip(10).created_for("web").0, writing);
    list(&mut world.ledger, listing, vec![fip(10).idle()]);
    assert_eq!(world.ledger.of_claim(&pool_id("p"), &key("web")).count(), 1);
    assert!(!world.entry(10).is_confirmed());
    world.look([fip(10).created_for("web")]);
    assert!(world.entry(10).is_confirmed());
}

#[test]
fn a_listing_does_not_remove_what_was_created_after_it_began() {
    let mut world = world();
    let listing = world.ledger.begin(world.now);
    let writing = world.ledger.begin(world.now);
    world.ledger.record_write(fip(10).idle().0, writing);
    list(&mut world.ledger, listing, vec![]);
    assert!(world.ledger.get(&id(10)).is_some());
    world.look([]);
    assert!(world.ledger.get(&id(10)).is_none());
}

#[test]
fn a_reply_does_not_hide_what_a_later_listing_saw() {
    let mut world = world().sees([fip(10).idle()]);
    let writing = world.ledger.begin(world.now);
    world.look([fip(10).created_for("web").attached().tagged_by_another_pool()]);
    world.ledger.record_write(fip(10).created_for("web").0, writing);
    assert!(world.entry(10).fip.is_attached() && world.entry(10).marks.pools().len() == 2);
}

#[test]
fn what_was_deleted_does_not_come_back_with_an_older_listing_or_reply() {
    let mut world = world().sees([fip(10).idle()]);
    let listing = world.ledger.begin(world.now);
    let writing = world.ledger.begin(world.now);
    world.ledger.record_deletion(&id(10));
    list(&mut world.ledger, listing, vec![fip(10).idle()]);
    world.ledger.record_write(fip(10).idle().0, writing);
    assert!(world.ledger.get(&id(10)).is_none());
    assert_eq!(counted(&world), 0);
}

#[test]
fn each_address_counts_once() {
    let mut world = world().sees([fip(10).idle(), fip(11).tagged_for("web"), fip(12), fip(13)]);
    assert_eq!(counted(&world), 2);
    let world_with = |world: &mut World, last, hold| world.ledger.set_hold(&id(last), Some(hold));
    let hold = Hold::Claim { pool: pool_id("p"), claim: key("db") };
    world_with(&mut world, 12, hold.clone());
    assert_eq!(counted(&world), 3, "chosen");
    world.ledger.record_tag(&id(12), &crate::allocation::mark::claim_tag(&pool_id("p"), &key("db")), true);
    assert_eq!(counted(&world), 3, "chosen and marked");
    world.ledger.note_uncertain_write(&id(12), noon());
    assert_eq!(counted(&world), 3, "and in doubt");
    world_with(&mut world, 13, Hold::GivingBack);
    assert_eq!(counted(&world), 3, "not ours");
}

#[test]
fn a_creation_counts_until_it_is_known_and_not_twice() {
    let mut world = world();
    world.ledger.begin_creation(nonce(10), pool_id("p"), Some(key("web")));
    assert_eq!(counted(&world), 1);
    let began = world.ledger.begin(world.now);
    world.ledger.record_write(fip(10).created_for("web").0, began);
    assert_eq!(counted(&world), 1);
    world.ledger.end_creation(&nonce(10));
    assert_eq!(counted(&world), 1);
    world.ledger.begin_creation(nonce(11), pool_id("p"), None);
    world.ledger.end_creation(&nonce(11));
    assert_eq!(counted(&world), 1, "refused");
}

#[test]
fn a_creation_in_doubt_is_settled_by_its_mark_or_by_time_never_by_an_early_look() {
    let doubted = || {
        let mut world = world();
        world.ledger.begin_creation(nonce(10), pool_id("p"), Some(key("web")));
        world.ledger.note_uncertain_creation(&nonce(10), noon());
        world
    };
    let mut seen = doubted();
    seen.look([fip(10).created_for("web")]);
    assert_eq!((counted(&seen), seen.ledger.creations(&pool_id("p")).count()), (1, 0));
    let mut early = doubted();
    early.now = noon() + seconds(59);
    early.look([]);
    assert_eq!(counted(&early), 1);
    early.now = noon() + seconds(60);
    early.look([]);
    assert_eq!(counted(&early), 0);
}

#[test]
fn a_listing_that_began_too_early_settles_nothing() {
    let mut world = world();
    world.ledger.begin_creation(nonce(10), pool_id("p"), Some(key("web")));
    world.ledger.note_uncertain_creation(&nonce(10), noon());
    let began = world.ledger.begin(noon() + seconds(59));
    world.ledger.record_listing(began, vec![], noon() + seconds(90));
    assert_eq!(counted(&world), 1);
}

#[test]
fn a_doubt_outlives_the_hold_and_keeps_its_place() {
    let mut world = world().sees([fip(10)]).chosen(10, "web");
    world.ledger.note_uncertain_write(&id(10), noon());
    world.ledger.end_hold_unless_uncertain(&id(10));
    assert!(world.entry(10).hold.is_some(), "a later failure says nothing of the earlier write");
    world.ledger.set_hold(&id(10), None);
    world.look([fip(10)]);
    assert_eq!(counted(&world), 1);
    assert!(world.ledger.has_uncertain_writes(&pool_id("p")) && !world.ledger.has_uncertain_writes(&pool_id("other")));
    world.now = noon() + seconds(60);
    world.look([fip(10)]);
    assert_eq!(counted(&world), 0);
    assert!(!world.ledger.has_uncertain_writes(&pool_id("p")));
}

#[test]
fn a_hold_survives_listings_and_writes_until_it_is_given_back() {
    let hold = Hold::Claim { pool: pool_id("p"), claim: key("web") };
    let mut world = world().sees([fip(10)]).chosen(10, "web");
    world.look([fip(10)]);
    world.ledger.record_tag(&id(10), "tag", true);
    assert_eq!(world.entry(10).hold, Some(hold.clone()));
    assert_eq!(world.ledger.held().count(), 1);
    world.ledger.end_holds_of(&pool_id("p"), &key("web"));
    assert_eq!((world.entry(10).hold.clone(), world.ledger.held().count()), (None, 0));
    world = world.chosen(10, "web");
    world.ledger.end_hold_unless_uncertain(&id(10));
    assert_eq!(world.entry(10).hold, None);
}

#[test]
fn the_indexes_follow_the_marks() {
    let mut world = world().sees([fip(10).created_for("web")]);
    let began = world.ledger.begin(world.now);
    world.ledger.record_write(fip(10).created_for("db").0, began);
    let of = |world: &World, claim| world.ledger.of_claim(&pool_id("p"), &key(claim)).count();
    assert_eq!((of(&world, "web"), of(&world, "db")), (0, 1));
    world.look([fip(10)]);
    assert_eq!((of(&world, "db"), world.ledger.of_pool(&pool_id("p")).count()), (0, 0));
    assert_eq!(world.ledger.at(address(10)).count(), 1);
}

#[test]
fn the_fence_falls_when_a_listing_began_after_it() {
    let mut world = world().fenced();
    assert_eq!(world.ledger.fence(&world.pool), Some(noon() + seconds(60)));
    world.now = noon() + seconds(59);
    world.look([]);
    assert!(world.ledger.fence(&world.pool).is_some());
    world.now = noon() + seconds(60);
    world.look([]);
    assert_eq!(world.ledger.fence(&world.pool), None);
}

#[test]
fn a_withdrawal_that_may_still_land_leaves_the_address_to_nobody() {
    let mine = || Hold::Claim { pool: pool_id("p"), claim: key("web") };
    let mut world = world().sees([fip(10)]).chosen(10, "web");
    world.ledger.begin_withdrawal(&id(10), &pool_id("p"), &key("web"));
    world.ledger.end_withdrawal(&id(10), mine(), true);
    assert_eq!(world.entry(10).hold, Some(mine()), "certainly not done");
    world.ledger.begin_withdrawal(&id(10), &pool_id("p"), &key("web"));
    world.ledger.note_uncertain_write(&id(10), noon());
    world.ledger.end_withdrawal(&id(10), mine(), false);
    world.ledger.begin_withdrawal(&id(10), &pool_id("p"), &key("web"));
    world.ledger.end_withdrawal(&id(10), mine(), true);
    assert_eq!(world.entry(10).hold, None, "the first may yet take off what the claim puts on");
}

#[test]
fn what_may_not_be_given_is_asked_for_less_and_less_often() {
    let (mut world, pool) = (world(), pool_id("p"));
    let mut pauses = vec![];
    for _ in 0..8 {
        let began = world.now;
        world.ledger.note_unusable_offers(&pool, began);
        world.ledger.note_unusable_offers(&pool, began + seconds(1)); // by another claim of the same attempt
        assert_eq!(world.decide("web"), Decision::Refuse(Refusal::OnlyUnwanted));
        while !world.ledger.may_create(&pool, world.now) {
            world.now += seconds(30);
        }
        pauses.push(world.now.duration_since(began).as_secs());
    }
    assert_eq!(pauses, [30, 60, 120, 240, 480, 900, 900, 900]);
    assert!(world.ledger.is_probing(&pool, world.now), "one asks for all");
    world.ledger.unblock_creation(&pool);
    assert!(!world.ledger.offers_only_unusable(&pool), "one that may be given came");
}

#[test]
fn what_may_not_be_given_is_asked_for_at_once_when_the_spec_changes_or_an_address_is_freed() {
    let barren = || {
        let mut world = world().sees([fip(10), fip(11)]);
        world.ledger.decline_offer(&id(10));
        world.ledger.note_unusable_offers(&pool_id("p"), noon());
        world
    };
    let may_create = |world: &World| world.ledger.may_create(&pool_id("p"), noon());
    let mut world = barren();
    world.ledger.record_deletion(&id(10));
    assert!(!may_create(&world), "it was declined: it would be offered again");
    world.look([]);
    assert!(may_create(&world), "somebody else's is gone");
    let mut world = barren();
    world.ledger.reset_backoff(&pool_id("p"));
    assert!(may_create(&world));
}

#[test]
fn a_refusal_ends_what_was_known_of_the_offers() {
    let mut world = world();
    world.ledger.note_unusable_offers(&pool_id("p"), noon());
    world.ledger.block_creation(
        pool_id("p"),
        CreationBlock { refusal: Refusal::NetworkExhausted, until: noon() + seconds(10) },
    );
    assert_eq!(world.decide("web"), Decision::Refuse(Refusal::NetworkExhausted));
}

#[test]
fn only_what_the_pool_created_and_nothing_uses_may_be_deleted() {
    let may_delete = |fip: Fip| world().sees([fip]).ledger.may_delete(&id(10), &pool_id("p"));
    assert!(may_delete(fip(10).idle()) && may_delete(fip(10).created_for("web").released_by("web", ago(5))));
    assert!(!may_delete(fip(10).idle().attached()));
    assert!(!may_delete(fip(10).idle().tagged_by_another_pool()));
    assert!(!may_delete(fip(10).tagged_for("web")));
    assert!(!may_delete(fip(11).idle()), "it is gone");
}
