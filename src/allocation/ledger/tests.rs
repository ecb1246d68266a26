//! What the ledger records and forgets after each call.

use super::*;
use crate::allocation::claim::Decision;
use crate::allocation::identity::Nonce;
use crate::allocation::refusal::Refusal;
use crate::allocation::testing::*;

fn nonce(last: u8) -> Nonce {
    unclaimed_mark(last).nonce
}

fn list(ledger: &mut Ledger, began: CallStart, fips: Vec<Fip>) {
    ledger.record_listing(began, fips.into_iter().map(|fip| fip.0).collect(), began.at);
}

fn counted(fixture: &Fixture) -> usize {
    let counted = fixture.ledger.count_towards_limit(&pool_id("p"));
    assert_eq!(fixture.ledger.has_any(&pool_id("p")), counted > 0);
    counted
}

#[test]
fn a_listing_does_not_undo_what_was_written_after_it_began() {
    let mut fixture = fixture().fips([fip(10).idle()]);
    let listing = fixture.ledger.begin(fixture.now);
    let writing = fixture.ledger.begin(fixture.now);
    fixture.ledger.record_write(fip(10).created_for("web").0, writing);
    list(&mut fixture.ledger, listing, vec![fip(10).idle()]);
    assert_eq!(fixture.ledger.of_claim(&pool_id("p"), &key("web")).count(), 1);
    assert!(!fixture.entry(10).is_confirmed());
    fixture.relist([fip(10).created_for("web")]);
    assert!(fixture.entry(10).is_confirmed());
}

#[test]
fn a_listing_does_not_remove_what_was_created_after_it_began() {
    let mut fixture = fixture();
    let listing = fixture.ledger.begin(fixture.now);
    let writing = fixture.ledger.begin(fixture.now);
    fixture.ledger.record_write(fip(10).idle().0, writing);
    list(&mut fixture.ledger, listing, vec![]);
    assert!(fixture.ledger.get(&id(10)).is_some());
    fixture.relist([]);
    assert!(fixture.ledger.get(&id(10)).is_none());
}

fn list_as(ledger: &mut Ledger, viewer: Viewer, at: i64, fips: Vec<Fip>) -> usize {
    let began = ledger.begin_listing(viewer, start() + seconds(at));
    list(ledger, began, fips);
    ledger.entries().count()
}

/// The role of `less` sees nothing.
#[test]
fn a_listing_settles_what_its_credentials_show() {
    let mut viewers = Viewer::all();
    let [full, less] = [(); 2].map(|()| viewers.next().expect("there are many"));
    let mut ledger = Ledger::default();
    assert_eq!(list_as(&mut ledger, less, 0, vec![]), 0);
    assert!(ledger.is_unlisted(full) && !ledger.is_unlisted(less), "each lists for itself");
    assert_eq!(list_as(&mut ledger, full, 0, vec![fip(10).idle()]), 1);
    let pool = PoolPolicy { viewer: full, fenced_until: Some(start() + seconds(30)), ..fixture().pool };
    ledger.begin_creation(nonce(11), pool_id("p"), None);
    ledger.note_uncertain_creation(&nonce(11), full, start());
    ledger.note_uncertain_write(&id(10), start());
    assert_eq!(list_as(&mut ledger, less, 120, vec![]), 1);
    assert!(ledger.count_creations(&pool_id("p")) == 1 && ledger.uncertain().count() == 1);
    assert!(ledger.fence(&pool).is_some() && ledger.size_kept_beside(less, &[]) > 0);
    assert!(ledger.is_listed_since(full, start()), "it is not known that anything is gone");
    assert_eq!(list_as(&mut ledger, full, 130, vec![fip(10).idle()]), 1);
    assert!(!ledger.has_unknown_outcomes() && ledger.fence(&pool).is_none());
    assert_eq!(ledger.size_kept_beside(full, &[]), 0);
}

#[test]
fn what_two_see_is_forgotten_when_neither_does() {
    let mut viewers = Viewer::all();
    let [one, other] = [(); 2].map(|()| viewers.next().expect("there are many"));
    let both = || {
        let mut ledger = Ledger::default();
        for viewer in [one, other] {
            list_as(&mut ledger, viewer, 0, vec![fip(10), fip(11)]);
        }
        ledger
    };
    let mut ledger = both();
    assert_eq!(list_as(&mut ledger, one, 60, vec![fip(10)]), 2);
    assert_eq!(list_as(&mut ledger, other, 61, vec![fip(10)]), 1);
    let mut stopped = both();
    assert_eq!(list_as(&mut stopped, one, 299, vec![fip(10)]), 2);
    assert_eq!(list_as(&mut stopped, one, 300, vec![fip(10)]), 1, "the other one has expired");
    assert!(stopped.is_unlisted(other));
    let mut left = both();
    left.forget_viewer(other);
    assert_eq!(list_as(&mut left, one, 60, vec![fip(10)]), 1);
    let mut written = both();
    written.note_uncertain_write(&id(11), start());
    written.forget_viewer(one);
    written.forget_viewer(other);
    let third = viewers.next().expect("there are many");
    assert_eq!(list_as(&mut written, third, 30, vec![]), 1, "a call may still land");
    assert_eq!(list_as(&mut written, third, 60, vec![]), 1);
    assert_eq!(list_as(&mut written, third, 61, vec![]), 0, "it is settled");
    let mut marked = both();
    let owned = || vec![fip(10), fip(11).tagged_for("web")];
    for viewer in [one, other] {
        list_as(&mut marked, viewer, 30, owned());
    }
    marked.note_served(&pool_id("p"), one);
    assert_eq!(list_as(&mut marked, other, 60, vec![fip(10)]), 2);
    assert_eq!(list_as(&mut marked, one, 61, vec![fip(10)]), 1, "its pool's own credentials do not see it");
    let began = left.begin_as(other, start() + seconds(61));
    left.record_write(fip(12).0, began);
    assert_eq!(list_as(&mut left, one, 62, vec![fip(10)]), 1, "who does not list keeps nothing");
}

#[test]
fn what_a_pool_has_marked_is_gone_when_its_own_credentials_do_not_show_it() {
    let [one, other] = [Viewer::all().next().expect("there are many"), Viewer::LAST];
    let left_by = |viewer: Viewer| {
        let mut ledger = Ledger::default();
        for viewer in [one, other] {
            list_as(&mut ledger, viewer, 0, vec![fip(10).tagged_for("web")]);
        }
        ledger.note_served(&pool_id("p"), viewer);
        list_as(&mut ledger, viewer, 60, vec![])
    };
    assert_eq!(left_by(one), 0, "the other ones may have listed before its end");
    assert_eq!(left_by(Viewer::LAST), 1, "others that this stands for may show it");
}

#[test]
fn a_listing_is_outdated_when_other_credentials_no_longer_show_what_it_showed() {
    let mut viewers = Viewer::all();
    let [one, other] = [(); 2].map(|()| viewers.next().expect("there are many"));
    let mut ledger = Ledger::default();
    list_as(&mut ledger, other, 0, vec![fip(10)]);
    list_as(&mut ledger, one, 0, vec![fip(10)]);
    assert_eq!(list_as(&mut ledger, one, 60, vec![]), 1);
    assert!(!ledger.is_listed_since(other, start()), "it may be gone");
    assert!(ledger.is_listed_since(one, start()));
    assert_eq!(list_as(&mut ledger, other, 61, vec![]), 0);
    assert!(ledger.is_listed_since(one, start()) && ledger.is_listed_since(other, start()));
}

#[test]
fn what_is_unmarked_and_unattached_is_found_by_address() {
    let mut fixture = fixture().fips([fip(12), fip(11).attached(), fip(10), fip(13).forwarded(), fip(14).idle()]);
    let found = |fixture: &Fixture| {
        fixture.ledger.unmarked_and_unattached().map(|entry| entry.fip.id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(found(&fixture), [id(10), id(12)]);
    fixture.relist([fip(12).attached(), fip(11), fip(10).idle()]);
    assert_eq!(found(&fixture), [id(11)]);
    fixture.relist([]);
    assert_eq!(found(&fixture), []);
}

#[test]
fn a_reply_does_not_hide_what_a_later_listing_saw() {
    let mut fixture = fixture().fips([fip(10).idle()]);
    let writing = fixture.ledger.begin(fixture.now);
    fixture.relist([fip(10).created_for("web").attached().tagged_by_another_pool()]);
    fixture.ledger.record_write(fip(10).created_for("web").0, writing);
    assert!(fixture.entry(10).fip.is_attached() && fixture.entry(10).marks.pools().len() == 2);
}

#[test]
fn a_deleted_floating_ip_does_not_return_with_an_older_listing_or_reply() {
    let mut fixture = fixture().fips([fip(10).idle()]);
    let listing = fixture.ledger.begin(fixture.now);
    let writing = fixture.ledger.begin(fixture.now);
    fixture.ledger.record_deletion(&id(10));
    list(&mut fixture.ledger, listing, vec![fip(10).idle()]);
    fixture.ledger.record_write(fip(10).idle().0, writing);
    assert!(fixture.ledger.get(&id(10)).is_none());
    assert_eq!(counted(&fixture), 0);
}

#[test]
fn each_address_counts_once() {
    let mut fixture = fixture().fips([fip(10).idle(), fip(11).tagged_for("web"), fip(12), fip(13)]);
    assert_eq!(counted(&fixture), 2);
    fixture = fixture.chosen_by(12, "db");
    assert_eq!(counted(&fixture), 3, "chosen");
    fixture.ledger.record_tag(&id(12), &crate::allocation::mark::claim_tag(&pool_id("p"), &key("db")), true);
    assert_eq!(counted(&fixture), 3, "chosen and marked");
    fixture.ledger.note_uncertain_write(&id(12), start());
    assert_eq!(counted(&fixture), 3, "and uncertain");
    fixture = fixture.held(13, Hold::Cleanup);
    assert_eq!(counted(&fixture), 3, "not ours");
}

#[test]
fn a_creation_counts_once_before_and_after_its_reply() {
    let mut fixture = fixture();
    fixture.ledger.begin_creation(nonce(10), pool_id("p"), Some(key("web")));
    assert_eq!(counted(&fixture), 1);
    let began = fixture.ledger.begin(fixture.now);
    fixture.ledger.record_write(fip(10).created_for("web").0, began);
    assert_eq!(counted(&fixture), 1);
    fixture.ledger.end_creation(&nonce(10));
    assert_eq!(counted(&fixture), 1);
    fixture.ledger.begin_creation(nonce(11), pool_id("p"), None);
    fixture.ledger.end_creation(&nonce(11));
    assert_eq!(counted(&fixture), 1, "refused");
}

#[test]
fn an_uncertain_creation_is_settled_by_its_mark_or_by_a_late_listing() {
    let uncertain = || {
        let mut fixture = fixture();
        fixture.ledger.begin_creation(nonce(10), pool_id("p"), Some(key("web")));
        fixture.ledger.note_uncertain_creation(&nonce(10), Viewer::default(), start());
        fixture
    };
    let mut seen = uncertain();
    seen.relist([fip(10).created_for("web")]);
    assert_eq!((counted(&seen), seen.ledger.creations(&pool_id("p")).count()), (1, 0));
    let mut early = uncertain();
    early.now = start() + seconds(59);
    early.relist([]);
    assert_eq!(counted(&early), 1);
    early.now = start() + seconds(60);
    early.relist([]);
    assert_eq!(counted(&early), 0);
}

#[test]
fn a_listing_that_began_too_early_does_not_settle_a_creation() {
    let mut fixture = fixture();
    fixture.ledger.begin_creation(nonce(10), pool_id("p"), Some(key("web")));
    fixture.ledger.note_uncertain_creation(&nonce(10), Viewer::default(), start());
    let began = fixture.ledger.begin(start() + seconds(59));
    fixture.ledger.record_listing(began, vec![], start() + seconds(90));
    assert_eq!(counted(&fixture), 1);
}

#[test]
fn an_uncertain_write_outlives_its_hold_and_counts_towards_the_limit() {
    let mut fixture = fixture().fips([fip(10)]).chosen_by(10, "web");
    fixture.ledger.note_uncertain_write(&id(10), start());
    fixture.ledger.end_hold_unless_uncertain(&id(10));
    assert!(fixture.entry(10).hold.is_some(), "a later failure does not settle the earlier write");
    fixture.ledger.set_hold(&id(10), None);
    fixture.relist([fip(10)]);
    assert_eq!(counted(&fixture), 1);
    assert!(
        fixture.ledger.has_uncertain_writes(&pool_id("p")) && !fixture.ledger.has_uncertain_writes(&pool_id("other"))
    );
    fixture.now = start() + seconds(60);
    fixture.relist([fip(10)]);
    assert_eq!(counted(&fixture), 0);
    assert!(!fixture.ledger.has_uncertain_writes(&pool_id("p")));
}

#[test]
fn a_pool_has_calls_that_are_under_way_or_whose_outcome_is_not_known() {
    let listed = || fixture().fips([fip(10).created_for("web"), fip(11)]);
    let mut uncertain = listed().chosen_by(11, "db");
    uncertain.ledger.note_uncertain_write(&id(11), start());
    uncertain.ledger.set_hold(&id(11), None);
    let mut creating = listed();
    creating.ledger.begin_creation(nonce(12), pool_id("p"), None);
    for (what, fixture, has_calls) in [
        ("none", listed(), false),
        ("a clean-up of its floating IP", listed().held(10, Hold::Cleanup), true),
        ("a clean-up of another one", listed().held(11, Hold::Cleanup), false),
        ("a mark that may land", uncertain, true),
        ("a creation", creating, true),
    ] {
        assert_eq!(fixture.ledger.has_calls_of(&pool_id("p")), has_calls, "{what}");
        assert!(!fixture.ledger.has_calls_of(&pool_id("other")), "{what}");
    }
}

#[test]
fn what_may_still_land_is_known_without_a_listing() {
    let mut fixture = fixture().fips([fip(10), fip(11).tagged_for("web"), fip(12)]).held(12, Hold::Cleanup);
    fixture.ledger.begin_creation(nonce(13), pool_id("p"), Some(key("db")));
    fixture = fixture.chosen_by(10, "app");
    fixture.ledger.note_uncertain_write(&id(10), start());
    fixture.ledger.forget_listing();
    let kept: Vec<_> = fixture.ledger.entries().map(|entry| entry.fip.id.clone()).collect();
    assert_eq!(kept, [id(10), id(12)]);
    assert!(fixture.ledger.is_unlisted(Viewer::default()) && fixture.ledger.has_unknown_outcomes());
    assert!(fixture.ledger.is_creating_for(&pool_id("p"), &key("db")));
    assert_eq!(fixture.ledger.count_of_pool(&pool_id("p")), 0);
}

#[test]
fn a_claim_may_still_get_an_address_that_it_holds_or_creates_or_that_an_uncertain_write_may_give_it() {
    let may_get_address = |fixture: &Fixture| {
        let of = |pool, claim| fixture.ledger.may_still_get_address(&pool_id(pool), &key(claim));
        assert!(!of("p", "db") && !of("other", "web"), "another claim");
        of("p", "web")
    };
    let mut chosen = fixture().fips([fip(10)]).chosen_by(10, "web");
    assert!(may_get_address(&chosen));
    chosen.ledger.note_uncertain_write(&id(10), start());
    chosen.ledger.set_hold(&id(10), None);
    assert!(may_get_address(&chosen), "the write may land");
    chosen.now = start() + seconds(60);
    chosen.relist([fip(10)]);
    assert!(!may_get_address(&chosen));
    chosen.ledger.begin_creation(nonce(11), pool_id("p"), Some(key("web")));
    assert!(may_get_address(&chosen));
    chosen.ledger.end_creation(&nonce(11));
    assert!(!may_get_address(&chosen));
}

#[test]
fn the_grace_of_an_orphan_restarts_when_it_is_released() {
    let mut fixture = fixture().fips([fip(10).created_for("web")]);
    fixture.ledger.note_orphans(&pool_id("p"), &[id(10)], start());
    fixture.ledger.restart_grace_of_orphan(&pool_id("p"), &id(10), start() + seconds(9));
    fixture.ledger.note_orphans(&pool_id("p"), &[id(10)], start() + seconds(10));
    assert_eq!(fixture.entry(10).orphaned_since, [(pool_id("p"), start() + seconds(69))].into());
    fixture.ledger.note_orphans(&pool_id("p"), &[], start() + seconds(11));
    fixture.ledger.restart_grace_of_orphan(&pool_id("p"), &id(10), start() + seconds(12));
    assert!(fixture.entry(10).orphaned_since.is_empty(), "it is none");
}

#[test]
fn a_hold_survives_listings_and_writes_until_it_is_ended() {
    let hold = Hold::Claim { pool: pool_id("p"), claim: key("web") };
    let mut fixture = fixture().fips([fip(10)]).chosen_by(10, "web");
    fixture.relist([fip(10)]);
    fixture.ledger.record_tag(&id(10), "tag", true);
    assert_eq!(fixture.entry(10).hold, Some(hold.clone()));
    assert_eq!(fixture.ledger.held().count(), 1);
    fixture.ledger.forget_claim(&pool_id("p"), &key("web"));
    assert_eq!((fixture.entry(10).hold.clone(), fixture.ledger.held().count()), (None, 0));
    fixture = fixture.chosen_by(10, "web");
    fixture.ledger.end_hold_unless_uncertain(&id(10));
    assert_eq!(fixture.entry(10).hold, None);
}

#[test]
fn the_indexes_follow_the_marks() {
    let mut fixture = fixture().fips([fip(10).created_for("web")]);
    let began = fixture.ledger.begin(fixture.now);
    fixture.ledger.record_write(fip(10).created_for("db").0, began);
    let of = |fixture: &Fixture, claim| fixture.ledger.of_claim(&pool_id("p"), &key(claim)).count();
    assert_eq!((of(&fixture, "web"), of(&fixture, "db")), (0, 1));
    fixture.relist([fip(10)]);
    assert_eq!((of(&fixture, "db"), fixture.ledger.of_pool(&pool_id("p")).count()), (0, 0));
    assert_eq!(fixture.ledger.at(address(10)).count(), 1);
}

#[test]
fn the_fence_ends_when_a_listing_began_after_it() {
    let mut fixture = fixture().fenced();
    assert_eq!(fixture.ledger.fence(&fixture.pool), Some(start() + seconds(60)));
    fixture.now = start() + seconds(59);
    fixture.relist([]);
    assert!(fixture.ledger.fence(&fixture.pool).is_some());
    fixture.now = start() + seconds(60);
    fixture.relist([]);
    assert_eq!(fixture.ledger.fence(&fixture.pool), None);
}

#[test]
fn an_uncertain_withdrawal_ends_the_claims_hold() {
    let hold = || Hold::Claim { pool: pool_id("p"), claim: key("web") };
    let mut fixture = fixture().fips([fip(10)]).chosen_by(10, "web");
    fixture.ledger.begin_withdrawal(&id(10), &pool_id("p"), &key("web"));
    fixture.ledger.end_withdrawal(&id(10), hold(), true);
    assert_eq!(fixture.entry(10).hold, Some(hold()), "certainly not done");
    fixture.ledger.begin_withdrawal(&id(10), &pool_id("p"), &key("web"));
    fixture.ledger.note_uncertain_write(&id(10), start());
    fixture.ledger.end_withdrawal(&id(10), hold(), false);
    fixture.ledger.begin_withdrawal(&id(10), &pool_id("p"), &key("web"));
    fixture.ledger.end_withdrawal(&id(10), hold(), true);
    assert_eq!(fixture.entry(10).hold, None, "the first withdrawal may still remove a tag that the claim adds now");
}

#[test]
fn a_claim_gets_no_hold_back_after_its_pool_is_gone() {
    let hold = || Hold::Claim { pool: pool_id("p"), claim: key("web") };
    let mut fixture = fixture().fips([fip(10)]).chosen_by(10, "web");
    fixture.ledger.begin_withdrawal(&id(10), &pool_id("p"), &key("web"));
    fixture.lose_pool("p");
    fixture.ledger.end_withdrawal(&id(10), hold(), true);
    assert_eq!(fixture.entry(10).hold, None, "nothing would end it");
}

#[test]
fn the_pause_after_unwanted_offers_doubles_up_to_a_limit() {
    let (mut fixture, pool) = (fixture(), pool_id("p"));
    let mut pauses = vec![];
    for _ in 0..8 {
        let began = fixture.now;
        fixture.ledger.note_only_unwanted(&pool, None, began);
        fixture.ledger.note_only_unwanted(&pool, None, began + seconds(1)); // by a claim that asked at the same time
        assert_eq!(fixture.decide("web"), Decision::Refuse(Refusal::OnlyUnwanted));
        let may_create = |at: &Timestamp| fixture.ledger.may_create(&fixture.pool, *at);
        fixture.now = (0..100).map(|step| began + seconds(30 * step)).find(may_create).expect("the pause ends");
        pauses.push(fixture.now.duration_since(began).as_secs());
    }
    assert_eq!(pauses, [30, 60, 120, 240, 480, 900, 900, 900]);
    for (minutes, next) in [(14, 900), (15, 30)] {
        let (mut ledger, later) = (fixture.ledger.clone(), fixture.now + seconds(60 * minutes));
        ledger.note_only_unwanted(&pool, None, later);
        assert!(!ledger.may_create(&fixture.pool, later + seconds(next - 1)));
        assert!(ledger.may_create(&fixture.pool, later + seconds(next)), "{minutes} min after the last one");
    }
    assert!(fixture.ledger.is_probing(&fixture.pool, fixture.now), "one claim retries for all");
    fixture.ledger.unblock_creation(&pool, None);
    assert!(!fixture.ledger.offers_only_unwanted(&fixture.pool), "Neutron offered a usable address");
}

#[test]
fn the_pause_after_unwanted_offers_ends_with_a_spec_change_or_a_freed_address() {
    let unwanted = || {
        let mut fixture = fixture().fips([fip(10).idle(), fip(11)]);
        fixture.hold_unwanted(10, None);
        fixture.ledger.note_only_unwanted(&pool_id("p"), None, start());
        fixture
    };
    let may_create = |fixture: &Fixture| fixture.ledger.may_create(&fixture.pool, start());
    let mut fixture = unwanted();
    fixture.ledger.record_deletion(&id(10));
    assert!(!may_create(&fixture), "Neutron would offer the unwanted address again");
    fixture.relist([]);
    assert!(may_create(&fixture), "another floating IP was deleted");
    let mut fixture = unwanted();
    fixture.ledger.reset_backoff(&pool_id("p"));
    assert!(may_create(&fixture));
}

#[test]
fn an_unwanted_address_whose_deletion_failed_counts_as_any_other_afterwards() {
    let mut fixture = fixture().fips([fip(10).idle()]);
    fixture.hold_unwanted(10, None);
    fixture.ledger.set_hold(&id(10), Some(Hold::Cleanup));
    fixture.ledger.set_hold(&id(10), None);
    fixture.ledger.reset_backoff(&pool_id("p"));
    fixture.ledger.note_only_unwanted(&pool_id("p"), None, start());
    fixture.relist([]);
    assert!(fixture.ledger.may_create(&fixture.pool, start()), "it was deleted, so Neutron may offer its address");
}

#[test]
fn what_another_cluster_creates_and_deletes_in_vain_does_not_end_the_pause() {
    let mut fixture = fixture().fips([fip(10).idle()]);
    let theirs = |last| Fip(FloatingIp { id: FloatingIpId::new("theirs"), ..fip(last).0 });
    fixture.hold_unwanted(10, None);
    fixture.ledger.note_only_unwanted(&pool_id("p"), None, start());
    fixture.relist([theirs(10)]);
    fixture.relist([]);
    let may_create = |fixture: &Fixture| fixture.ledger.may_create(&fixture.pool, start());
    assert!(!may_create(&fixture), "the address was unwanted before");
    fixture.relist([theirs(11)]);
    fixture.relist([]);
    assert!(may_create(&fixture), "this one was never offered");
    fixture.ledger.note_only_unwanted(&pool_id("p"), None, start());
    fixture.ledger.reset_backoff(&pool_id("p"));
    fixture.ledger.note_only_unwanted(&pool_id("p"), None, start());
    fixture.relist([theirs(10)]);
    fixture.relist([]);
    assert!(may_create(&fixture), "the present spec may want it");
}

#[test]
fn the_pause_ends_once_another_claim_gets_what_was_unwanted() {
    let mut fixture = fixture().fips([fip(10).created_for("web")]);
    fixture.hold_unwanted(10, None);
    fixture.ledger.note_only_unwanted(&pool_id("p"), None, start());
    assert!(!fixture.ledger.may_create(&fixture.pool, start()));
    fixture.ledger.keep_unwanted(&pool_id("p"), &id(10));
    assert!(fixture.ledger.may_create(&fixture.pool, start()), "whether Neutron has any others is not known");
}

#[test]
fn refusals_replace_unwanted_offers_as_the_reason() {
    let reasons = |refusal: Refusal| {
        let mut fixture = fixture();
        fixture.ledger.note_only_unwanted(&pool_id("p"), None, start());
        [10, 20].map(|at| {
            let block = CreationBlock { refusal: refusal.clone(), until: start() + seconds(at) };
            fixture.ledger.block_creation(pool_id("p"), block);
            fixture.decide("web")
        })
    };
    let full = [Refusal::OnlyUnwanted, Refusal::NetworkExhausted].map(Decision::Refuse);
    assert_eq!(reasons(Refusal::NetworkExhausted), full, "at first another pool may try what is left");
    let quota = [Refusal::QuotaReached, Refusal::QuotaReached].map(Decision::Refuse);
    assert_eq!(reasons(Refusal::QuotaReached), quota);
}

#[test]
fn a_refusal_that_a_released_address_may_end_is_tested_early() {
    let decide = |refusal: Refusal| {
        let mut fixture = fixture();
        let block = CreationBlock { refusal, until: start() + seconds(10) };
        fixture.ledger.block_creation(pool_id("p"), block);
        fixture.ledger.retry_creation(&pool_id("p"));
        fixture.decide("web")
    };
    assert!(matches!(decide(Refusal::NetworkExhausted), Decision::Create(..)));
    assert_eq!(decide(Refusal::DescriptionDropped), Decision::Refuse(Refusal::DescriptionDropped));
}

#[test]
fn a_refusal_and_a_pause_both_have_to_end() {
    let may_create = |seconds_later: i64| {
        let mut fixture = fixture();
        let block = CreationBlock { refusal: Refusal::NetworkExhausted, until: start() + seconds(20) };
        fixture.ledger.note_only_unwanted(&pool_id("p"), None, start());
        fixture.ledger.block_creation(pool_id("p"), block);
        fixture.hold_unwanted(10, None);
        fixture.ledger.note_only_unwanted(&pool_id("p"), None, start());
        fixture.ledger.may_create(&fixture.pool, start() + seconds(seconds_later))
    };
    assert_eq!([10, 20, 30].map(may_create), [false, false, true]);
}

#[test]
fn a_usable_offer_ends_a_refusal_and_a_pause() {
    let unblock = |change: &dyn Fn(&mut Ledger)| {
        let mut fixture = fixture();
        change(&mut fixture.ledger);
        let unblocked = fixture.ledger.unblock_creation(&pool_id("p"), None);
        assert!(matches!(fixture.decide("web"), Decision::Create(..)));
        unblocked
    };
    let block = CreationBlock { refusal: Refusal::NetworkExhausted, until: start() + seconds(10) };
    assert!(unblock(&|ledger| ledger.block_creation(pool_id("p"), block.clone())));
    assert!(unblock(&|ledger| ledger.note_only_unwanted(&pool_id("p"), None, start())));
    assert!(!unblock(&|_| ()));
}

#[test]
fn only_what_the_pool_created_and_nothing_uses_may_be_deleted() {
    let may_delete = |fip: Fip| fixture().fips([fip]).held(10, Hold::Cleanup).ledger.may_delete(&id(10), &pool_id("p"));
    assert!(may_delete(fip(10).idle()) && may_delete(fip(10).created_for("web").released_by("web", ago(5))));
    assert!(!may_delete(fip(10).idle().attached()));
    assert!(!may_delete(fip(10).idle().tagged_by_another_pool()));
    assert!(!may_delete(fip(10).tagged_for("web")));
    assert!(!may_delete(fip(11).idle()), "it is gone");
    let mut planned = fixture().fips([fip(10).idle()]);
    assert!(!planned.ledger.may_delete(&id(10), &pool_id("p")), "nothing keeps others from it");
    planned = planned.held(10, Hold::Cleanup);
    planned.relist([fip(10).idle().tag("keep")]);
    assert!(planned.ledger.may_delete(&id(10), &pool_id("p")), "that is no mark");
    planned.relist([fip(10).created_for("web")]);
    assert!(!planned.ledger.may_delete(&id(10), &pool_id("p")), "another process of the controller gave it to a claim");
    let mut unwanted = fixture().fips([fip(10).created_for("web")]);
    unwanted.hold_unwanted(10, None);
    unwanted = unwanted.held(10, Hold::Cleanup);
    assert!(unwanted.ledger.may_delete(&id(10), &pool_id("p")));
    unwanted.hold_unwanted(10, None);
    unwanted.relist([fip(10).created_for("db")]);
    unwanted = unwanted.held(10, Hold::Cleanup);
    assert!(!unwanted.ledger.may_delete(&id(10), &pool_id("p")), "it was taken before it was to be deleted");
}

#[test]
fn a_reply_keeps_the_forwarding_that_a_later_listing_saw() {
    let forwarded = |is_forwarded| Fip(FloatingIp { is_forwarded, ..fip(10).idle().0 });
    for (listed, replied) in [(true, false), (false, true), (true, true)] {
        let mut fixture = fixture().fips([fip(10).idle()]);
        let writing = fixture.ledger.begin(fixture.now);
        fixture.relist([forwarded(listed)]);
        fixture.ledger.record_write(forwarded(replied).0, writing);
        assert!(fixture.entry(10).fip.is_forwarded);
    }
}

#[test]
fn a_bound_claim_holds_nothing_and_has_the_mark_that_was_disowned() {
    let mark = (pool_id("p"), key("web"));
    let mut fixture = fixture().fips([fip(10), fip(11)]);
    fixture.relist([fip(10).tagged_for("web"), fip(11).tagged_for("web")]);
    assert!([10, 11].iter().all(|last| fixture.entry(*last).disowned.contains_key(&mark)), "they landed late");
    fixture = fixture.chosen_by(10, "web");
    fixture.ledger.note_bound(&id(10), &mark.0, &mark.1);
    assert!(fixture.entry(10).hold.is_none() && fixture.entry(10).disowned.is_empty());
    assert!(fixture.entry(11).disowned.contains_key(&mark));
}

#[test]
fn a_description_that_replaces_another_landed_late_and_one_that_was_hidden_did_not() {
    let owner = (pool_id("p"), key("web"));
    let mut replaced = fixture().fips([fip(10).idle()]);
    replaced.relist([fip(10).created_for("web")]);
    assert_eq!(replaced.entry(10).disowned, [(owner.clone(), Disowned::Late { last_without: start() })].into());
    replaced.relist([fip(10).created_for("web").tag("of-a-user")]);
    assert_eq!(
        replaced.entry(10).disowned,
        [(owner, Disowned::Late { last_without: start() })].into(),
        "it is still there"
    );
    replaced.relist([fip(10).idle()]);
    assert!(replaced.entry(10).disowned.is_empty());

    let mut hidden = fixture().fips([fip(10).created_for("web")]);
    hidden.relist([fip(10)]);
    hidden.relist([fip(10).created_for("web")]);
    assert!(hidden.entry(10).disowned.is_empty());
}

#[test]
fn only_the_claims_of_the_pool_that_is_gone_leave_what_they_hold() {
    let mut fixture = fixture().fips([fip(10), fip(11)]).chosen_by(10, "web").chosen_by(11, "db");
    fixture.ledger.leave_holds(&pool_id("p"), |claim| *claim == key("web"), start());
    assert!(fixture.entry(10).hold.is_none() && !fixture.entry(10).is_free());
    assert!(fixture.entry(11).hold.is_some());
}

#[test]
fn a_choice_whose_mark_is_there_ends_with_its_claim_and_its_pool() {
    let chosen = || {
        let mut fixture = fixture().fips([fip(10), fip(11)]).chosen_by(10, "web").chosen_by(11, "web");
        fixture.ledger.note_uncertain_write(&id(11), start());
        fixture.relist([fip(10).tagged_for("web"), fip(11).tagged_for("web")]);
        fixture.ledger.end_holds(&pool_id("p"), &key("web"));
        fixture
    };
    let has_choice = |fixture: &Fixture| [10, 11].map(|last| !fixture.entry(last).choices.is_empty());
    assert_eq!(has_choice(&chosen()), [true, true]);
    let (mut without_claim, mut without_pool) = (chosen(), chosen());
    without_claim.ledger.forget_claim(&pool_id("p"), &key("web"));
    assert_eq!(has_choice(&without_claim), [false, true], "a write of it may still land");
    without_pool.lose_pool("p");
    assert_eq!(has_choice(&without_pool), [false, true], "a write of it may still land");
    without_pool.now += SETTLING;
    without_pool.relist([fip(10).tagged_for("web"), fip(11).tagged_for("web")]);
    assert_eq!(has_choice(&without_pool), [false, true], "it was chosen all the same");
}

#[test]
fn a_claim_has_chosen_what_it_marked_unless_another_may_write_to_it() {
    let web = (pool_id("p"), key("web"));
    let mut fixture = fixture().fips([fip(10), fip(11), fip(12)]).chosen_by(10, "web").chosen_by(11, "web");
    fixture.relist([fip(10).tagged_for("web"), fip(11), fip(12).tagged_for("web")]);
    assert_eq!(fixture.ledger.chosen_by(&web.0, &web.1), [id(10)]);
    let mut other = fixture.held(10, Hold::Claim { pool: pool_id("p"), claim: key("db") });
    other.ledger.note_uncertain_write(&id(10), start());
    assert_eq!(other.ledger.chosen_by(&web.0, &web.1), []);
}

#[test]
fn ending_holds_says_whether_there_were_any() {
    let mut fixture = fixture().fips([fip(10)]).chosen_by(10, "web");
    assert!(!fixture.ledger.forget_claim(&pool_id("p"), &key("db")));
    assert!(fixture.ledger.forget_claim(&pool_id("p"), &key("web")));
    assert!(!fixture.ledger.forget_claim(&pool_id("p"), &key("web")));
}

#[test]
fn the_holds_of_a_pools_claims_end_with_the_pool_and_the_writes_under_way_may_land() {
    let mut fixture = fixture().fips([fip(10)]).chosen_by(10, "web");
    fixture.lose_pool("other");
    assert!(fixture.entry(10).hold.is_some());
    fixture.lose_pool("p");
    assert!(fixture.entry(10).hold.is_none() && !fixture.entry(10).is_free());
    fixture.now = start() + SETTLING;
    fixture.relist([fip(10)]);
    assert!(fixture.entry(10).is_free());
}

#[test]
fn an_unwanted_address_is_counted_for_its_own_pool_and_what_a_claim_holds_is_not() {
    let mut fixture = fixture().fips([fip(10).idle(), fip(11).idle()]).chosen_by(11, "web");
    fixture.hold_unwanted(10, None);
    assert_eq!(["p", "other"].map(|pool| fixture.ledger.count_unwanted(&pool_id(pool))), [1, 0]);
}

#[test]
fn what_neutron_refused_a_pool_is_forgotten_with_the_pool() {
    let (policy, mut ledger) = (fixture().pool, Ledger::default());
    let pool = policy.id.clone();
    ledger.block_creation(pool.clone(), CreationBlock { refusal: Refusal::QuotaReached, until: Timestamp::MAX });
    ledger.note_only_unwanted(&pool, None, start());
    assert!(!ledger.may_create(&policy, start()));
    ledger.forget_pool(&pool);
    assert!(ledger.may_create(&policy, start()) && ledger.creation_refusal(&pool).is_none());
}

#[test]
fn a_listing_has_a_step_a_beginning_and_an_end() {
    let mut ledger = Ledger::default();
    assert!(ledger.is_unlisted(Viewer::default()));
    let viewer = Viewer::default();
    assert!(ledger.listing_began(viewer).is_none() && ledger.listing_ended(viewer).is_none());
    let began = ledger.begin(ago(10));
    ledger.record_listing(began, Vec::new(), ago(7));
    assert!(!ledger.is_unlisted(Viewer::default()));
    assert_eq!((ledger.listing_began(viewer), ledger.listing_ended(viewer)), (Some(began), Some(ago(7))));
    assert_eq!([ago(7), ago(6)].map(|since| ledger.is_listed_since(viewer, since)), [true, false]);
}

#[test]
fn an_outcome_is_unknown_from_the_lost_reply_until_it_is_settled() {
    let mut fixture = fixture().fips([fip(10)]).chosen_by(10, "web");
    assert!(!fixture.ledger.has_unknown_outcomes());
    fixture.ledger.note_uncertain_write(&id(10), fixture.now);
    assert!(fixture.ledger.has_unknown_outcomes());
    let mut fixture = self::fixture();
    let nonce = Nonce::parse("nonce12345").expect("a nonce");
    fixture.ledger.begin_creation(nonce.clone(), pool_id("p"), None);
    assert!(!fixture.ledger.has_unknown_outcomes(), "its reply is awaited");
    fixture.ledger.note_uncertain_creation(&nonce, Viewer::default(), fixture.now);
    assert!(fixture.ledger.has_unknown_outcomes());
}

#[test]
fn an_entry_is_older_only_than_what_began_later() {
    let mut fixture = fixture().fips([fip(10)]);
    assert!(!fixture.entry(10).is_older_than(fixture.entry(10).seen));
    let later = fixture.ledger.begin(fixture.now);
    assert!(fixture.entry(10).is_older_than(later));
}

#[test]
fn a_project_rests_three_times_as_long_as_its_listing_took_and_at_most_five_seconds() {
    for (took, since, rest) in [(0, 0, 0), (1, 0, 3), (1, 2, 1), (1, 9, 0), (4, 0, 5), (4, 3, 2)] {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.rest_before_listing(start()), seconds(0), "it was never listed");
        let began = ledger.begin(start());
        let ended = start() + seconds(took);
        ledger.record_listing(began, Vec::new(), ended);
        assert_eq!(ledger.rest_before_listing(ended + seconds(since)), seconds(rest), "{took} s, {since} s ago");
    }
}

#[test]
fn a_floating_ip_without_a_mark_is_held_for_its_deletion_only_if_the_request_created_it_and_no_pool_has_found_it() {
    let held = |before: bool, listed: Option<Fip>, hold: Option<Hold>| {
        let mut fixture = fixture();
        if before {
            fixture.relist([fip(10)]);
        }
        let began = fixture.ledger.begin(fixture.now);
        if let Some(listed) = listed {
            fixture.relist([listed]);
        }
        fixture.ledger.set_hold(&id(10), hold.clone());
        let is_held = fixture.ledger.hold_created(fip(10).0, began);
        let now = fixture.ledger.get(&id(10)).and_then(|entry| entry.hold.clone());
        assert_eq!(now, if is_held { Some(Hold::Cleanup) } else { hold });
        is_held
    };
    let claim = || Some(Hold::Claim { pool: pool_id("p"), claim: key("web") });
    assert!(held(false, None, None) && held(false, Some(fip(10)), None));
    assert!(!held(true, None, None) && !held(true, Some(fip(10)), None), "it existed before");
    assert!(!held(false, Some(fip(10).tagged_for("web")), None), "it is marked");
    assert!(!held(false, Some(fip(10)), claim()), "a claim has chosen it");
}

fn missing(ledger: &Ledger, pool: &str) -> Vec<IpAddr> {
    ledger.missing_of_pool(&pool_id(pool)).map(|missing| missing.address).collect()
}

#[test]
fn what_listings_no_longer_show_is_missing_until_it_is_listed_or_known_to_be_gone() {
    let fips = || [fip(10).idle(), fip(11).created_for("web"), fip(12).tagged_for("db"), fip(13)];
    let mut fixture = fixture().fips(fips());
    fixture.relist([fip(13)]);
    assert_eq!(missing(&fixture.ledger, "p"), [address(10), address(11), address(12)]);
    fixture.relist([fip(10).idle(), fip(13)]);
    assert_eq!(missing(&fixture.ledger, "p"), [address(11), address(12)]);
    fixture.ledger.note_gone(&id(12), &pool_id("p"));
    fixture.relist([fip(13)]);
    assert_eq!(missing(&fixture.ledger, "p"), [address(11), address(10)]);
    fixture.ledger.forget_pool(&pool_id("p"));
    fixture.relist(fips());
    fixture.relist([]);
    assert!(missing(&fixture.ledger, "p").is_empty(), "no longer kept");
    fixture.ledger.keep_missing(&pool_id("p"));
    fixture.relist(fips());
    fixture.relist([]);
    assert_eq!(missing(&fixture.ledger, "p").len(), 3);
}

#[test]
fn what_this_process_deleted_is_not_missing() {
    let mut fixture = fixture().fips([fip(10).idle()]);
    fixture.ledger.record_deletion(&id(10));
    fixture.relist([]);
    assert!(missing(&fixture.ledger, "p").is_empty());
}

#[test]
fn the_last_missing_ones_of_a_pool_are_kept() {
    let mut fixture = fixture();
    for last in 10..90 {
        fixture.relist([fip(last).idle()]);
    }
    fixture.relist([]);
    assert_eq!(missing(&fixture.ledger, "p"), (26..90).map(address).collect::<Vec<_>>());
}
