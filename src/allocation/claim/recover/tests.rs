//! Each rule of recovery, with an example and a counterexample.

use super::super::tests::{create, describe, hold_of, tag};
use super::super::*;
use crate::allocation::ledger::{Choice, Disowned, Ledger, OWNER_AWAITED_EVERY, Viewer};
use crate::allocation::mark::release_tag;
use crate::allocation::policy::{PoolPolicy, ReuseRule};
use crate::allocation::published::{Binding, PublishedAddress};
use crate::allocation::testing::{self, *};

#[test]
fn a_published_address_that_a_newer_version_has_marked_is_reported_as_that() {
    let lost = Decision::Lost(LostAddress::MarkedByNewerVersion(address(10)));
    let newer = [
        fip(10).created_for("web").tag("caip2.p"),
        fip(10).tagged_for("web").tag("caip2.p"),
        fip(10).described("caip-openstack v=2 pool=p"),
    ];
    for fip in newer {
        assert_eq!(fixture().fips([fip]).published("web", 10).decide_published("web", 10), lost);
    }
}

#[test]
fn a_tag_is_confirmed_by_a_listing_that_began_after_it() {
    let mut fixture = fixture().closed_list([10]).fips([fip(10)]).chosen_by(10, "web");
    fixture.ledger.record_tag(&id(10), &claim_tag(&pool_id("p"), &key("web")), true);
    assert_eq!(fixture.decide("web"), Decision::Confirm(id(10)));
    fixture.relist([fip(10).tagged_for("web")]);
    assert_eq!(fixture.decide("web"), Decision::Keep(id(10)));
}

#[test]
fn a_chosen_address_with_another_owner_or_a_port_is_withdrawn() {
    let withdraw = Decision::Withdraw(id(10), claim_tag(&pool_id("p"), &key("web")));
    for fip in [fip(10).tagged_for("web").tagged_by_another_pool(), fip(10).tagged_for("web").attached()] {
        assert_eq!(fixture().closed_list([10]).fips([fip]).chosen_by(10, "web").decide("web"), withdraw);
    }
    assert_eq!(fixture().fips([fip(10).created_for("web").attached()]).chosen_by(10, "web").decide("web"), withdraw);
}

#[test]
fn a_chosen_address_is_marked_again_after_an_uncertain_write() {
    let list = fixture().closed_list([10]).fips([fip(10)]).chosen_by(10, "web");
    assert_eq!(list.decide("web"), Decision::Mark(id(10), Origin::List, tag()));
    let owned = fixture().fips([fip(10).idle()]).chosen_from(Origin::Owned, 10, "web");
    assert_eq!(owned.decide("web"), Decision::Mark(id(10), Origin::Owned, describe(10)));
    let reused = fixture().fips([fip(10)]).chosen_from(Origin::Reuse, 10, "web");
    assert_eq!(reused.decide("web"), Decision::Mark(id(10), Origin::Reuse, tag()));
}

#[test]
fn a_claims_own_address_is_preferred_to_every_other() {
    let marked = [fip(10).created_for("web"), fip(10).tagged_for("web"), fip(10).created_for("web").attached()];
    for fip in marked {
        assert_eq!(fixture().listed([11]).fips([fip, testing::fip(11)]).decide("web"), Decision::Keep(id(10)));
    }
}

#[test]
fn a_released_address_with_a_port_is_not_taken_back() {
    for held in [fip(10).created_for("web"), fip(10).tagged_for("web")] {
        let fixture = fixture().fips([held.released_by("web", ago(9)).attached()]);
        assert_eq!(fixture.decide("web"), create(None));
    }
}

#[test]
fn of_two_marked_addresses_the_claim_has_the_one_whose_mark_did_not_land_late() {
    let mut fixture = fixture().fips([fip(10), fip(11).created_for("web")]);
    fixture.ledger.note_bound(&id(11), &pool_id("p"), &key("web"));
    fixture.relist([fip(10).tagged_for("web"), fip(11).created_for("web")]);
    assert_eq!(fixture.decide("web"), Decision::Keep(id(11)));
    fixture.ledger.note_bound(&id(11), &pool_id("p"), &key("web"));
    assert_eq!(fixture.decide("web"), Decision::Keep(id(11)), "also when it is published again");
    fixture.relist([fip(10).tagged_for("web")]);
    assert_eq!(fixture.decide("web"), Decision::Keep(id(10)), "it is better than none");
}

#[test]
fn an_address_that_the_claim_may_not_have_is_given_back_first_since_it_fills_the_limit() {
    let withdraw = Decision::Withdraw(id(10), claim_tag(&pool_id("p"), &key("web")));
    let limited = |fip: Fip| fixture().excluding("203.0.113.10/32").max_ips(1).fips([fip]);
    for fip in [fip(10).created_for("web"), fip(10).tagged_for("web")] {
        assert_eq!(limited(fip.clone()).decide("web"), withdraw);
        assert!(matches!(limited(fip.clone()).fenced().decide("web"), Decision::Fenced(_) | Decision::Refuse(_)));
        let mut being_written = limited(fip.clone());
        being_written.ledger.note_uncertain_write(&id(10), start());
        assert!(matches!(being_written.decide("web"), Decision::Refuse(_)));
    }
    let (own, mark) = (fip(10).created_for("web"), fip(10).created_for("web").0.description);
    let copied = fixture().excluding("203.0.113.10/32").fips([own, fip(11).described(mark)]);
    assert_ne!(copied.decide("web"), withdraw, "which of the two it created cannot be told");
}

#[test]
fn an_attached_address_is_kept_even_if_the_spec_no_longer_allows_it() {
    let fixture = fixture().excluding("203.0.113.10/32");
    let fixture = fixture.fips([fip(10).created_for("web")]);
    let withdraw = Decision::Withdraw(id(10), claim_tag(&pool_id("p"), &key("web")));
    assert_eq!(fixture.decide("web"), withdraw);
    let fixture = fixture.fips([fip(10).created_for("web").attached()]);
    assert_eq!(fixture.decide("web"), Decision::Keep(id(10)));
}

#[test]
fn a_published_address_is_kept_or_marked_again_unless_another_owner_marked_it() {
    let published = |fip: Fip| fixture().fips([fip]).published("web", 10).decide_published("web", 10);
    assert_eq!(published(fip(10).created_for("web").attached()), Decision::Keep(id(10)));
    assert_eq!(published(fip(10)), Decision::Mark(id(10), Origin::Reuse, tag()));
    assert_eq!(published(fip(10).idle()), Decision::Mark(id(10), Origin::Owned, describe(10)));
    assert_eq!(published(fip(10).tagged_by_another_pool()), Decision::Lost(LostAddress::Taken(address(10))));
    assert_eq!(published(fip(11)), Decision::Lost(LostAddress::Deleted(address(10))));
    let fenced = fixture().fenced().fips([fip(10).idle()]).published("web", 10);
    let bound = Some(BoundAddress { address: address(10), fip: id(10) });
    for was_bound in [false, true] {
        let decision = decide(&fenced.situation(), &ClaimRequest { was_bound, bound: bound.clone(), ..request("web") });
        assert_eq!(decision, Decision::Fenced(start() + seconds(60)), "a late write may replace the mark");
    }
}

#[test]
fn a_published_address_that_its_claim_has_released_is_taken_back_unless_the_port_may_be_anothers() {
    let tag = || release_tag(&pool_id("p"), &key("web"), ago(300));
    let released = || fip(10).created_for("web").released_by("web", ago(300));
    let with = |fip: Fip, since| fixture().fips([fip]).active_claim("web").published_since("web", 10, since);
    let take_back = Decision::TakeBack(id(10), vec![tag()]);
    assert_eq!(with(released(), ago(900)).decide_published("web", 10), take_back);
    let in_use = with(released().attached(), ago(240));
    let lost = Decision::Lost(LostAddress::MarkedForAnother(address(10)));
    assert_eq!(in_use.decide_published("web", 10), lost, "the former claim's IPAddress");
    let bound = Some(BoundAddress { address: address(10), fip: id(10) });
    let had_it = ClaimRequest { was_bound: true, bound, ..request("web") };
    assert_eq!(decide(&in_use.situation(), &had_it), take_back, "the port is its machine's");
    let restored = with(released().attached(), ago(239));
    assert_eq!(restored.decide_published("web", 10), take_back, "restored with its machine");

    let fenced = with(released(), ago(900)).fenced();
    assert_eq!(fenced.decide_published("web", 10), Decision::Fenced(start() + seconds(60)), "it may be being deleted");

    let choice = Choice { origin: Origin::Recovered, was_published: true };
    let mut taken = with(released(), ago(900)).chosen(choice, 10, "web");
    taken.ledger.record_tag(&id(10), &tag(), false);
    assert_eq!(taken.decide_published("web", 10), Decision::Confirm(id(10)), "the reply does not show a port");
    taken.relist([fip(10).created_for("web").attached()]);
    assert!(matches!(taken.decide_published("web", 10), Decision::Withdraw(..)));
}

#[test]
fn each_loss_has_a_reason_of_its_own() {
    use LostAddress::*;
    let of_address = [Deleted, Taken, MarkedForAnother, MarkedByNewerVersion, AboveLimit];
    let not_free = NotFree { address: address(10), tag: "tag".into() };
    let losses = of_address.into_iter().map(|lost| lost(address(10))).chain([not_free]);
    let reasons: Vec<_> = losses.map(|lost| lost.reason()).collect();
    assert_eq!(reasons, ["Deleted", "Taken", "MarkedForAnother", "MarkedByNewerVersion", "AboveLimit", "NotFree"]);
    assert_eq!(reasons, LostAddress::REASONS);
}

fn not_free() -> Decision {
    Decision::Lost(LostAddress::NotFree { address: address(10), tag: claim_tag(&pool_id("p"), &key("web")) })
}

/// The claim `web` was restored, without its status, with an IPAddress that names this floating IP.
fn restored(fip: Fip) -> Fixture {
    fixture().listed([10]).fips([fip]).active_claim("web").published("web", 10)
}

#[test]
fn a_restored_ip_address_takes_no_address_that_is_in_use() {
    let in_use = restored(fip(10).attached());
    assert_eq!(in_use.decide_published("web", 10), not_free());
    let bound = Some(BoundAddress { address: address(10), fip: id(10) });
    let had_it = ClaimRequest { was_bound: true, bound, ..request("web") };
    let restored_mark = Decision::Mark(id(10), Origin::Recovered, tag());
    assert_eq!(decide(&in_use.situation(), &had_it), restored_mark, "the port is its machine's");
    assert_eq!(restored(fip(10)).decide_published("web", 10), Decision::Mark(id(10), Origin::List, tag()));
    let fenced = restored(fip(10)).fenced().decide_published("web", 10);
    assert_eq!(fenced, Decision::Fenced(start() + seconds(60)), "a late mark of another claim may fill the limit");
}

#[test]
fn what_a_restored_claim_has_marked_is_read_back() {
    let claims_mark = claim_tag(&pool_id("p"), &key("web"));
    let mut chosen = restored(fip(10)).chosen_as_published(10, "web");
    chosen.ledger.record_tag(&id(10), &claims_mark, true);
    assert_eq!(chosen.decide_published("web", 10), Decision::Confirm(id(10)), "a port may have come meanwhile");
    chosen.relist([fip(10).tagged_for("web").attached()]);
    assert_eq!(chosen.decide_published("web", 10), Decision::Withdraw(id(10), claims_mark));
    chosen.relist([fip(10).tagged_for("web")]);
    assert_eq!(chosen.decide_published("web", 10), Decision::Keep(id(10)));
    let mut reused =
        restored(fip(10)).listed([]).chosen(Choice { origin: Origin::Reuse, was_published: true }, 10, "web");
    reused.relist([fip(10).tagged_for("web").described("mail")]);
    assert!(matches!(reused.decide_published("web", 10), Decision::Withdraw(..)), "no claim may reuse it any more");
}

#[test]
fn a_restored_ip_address_takes_no_address_that_the_pool_gives_to_no_claim() {
    let decide = |fixture: Fixture| fixture.decide_published("web", 10);
    assert_eq!(decide(restored(fip(10)).excluding("203.0.113.10/32")), not_free());
    assert_eq!(decide(restored(fip(10)).reserving("db", 10)), not_free());
    assert!(matches!(decide(restored(fip(10)).reserving("web", 10)), Decision::Mark(..)));
    assert_eq!(decide(restored(fip(10)).published_by_others(10)), not_free());
    assert!(matches!(decide(restored(fip(10)).listed([])), Decision::Mark(..)), "it may be reused");
    assert_eq!(decide(restored(fip(10).described("mail")).listed([])), not_free());
    let released = |fip: Fip| fip.released_by("db", ago(9));
    let created = |fip| (fip, Origin::Owned);
    let free = [fip(10).idle(), released(fip(10).created_for("db"))].map(created);
    for (free, origin) in free.into_iter().chain([(released(fip(10).tagged_for("db")), Origin::List)]) {
        let decision = decide(restored(free.clone()));
        assert!(matches!(&decision, Decision::Mark(_, of, _) if *of == origin), "{decision:?}");
        assert_eq!(decide(restored(free).excluding("203.0.113.10/32")), not_free());
    }
}

#[test]
fn a_choice_of_a_restored_claim_that_was_not_answered_is_given_up_if_the_address_is_in_use() {
    let begun = |fip: Fip| restored(fip).max_ips(1).chosen_as_published(10, "web");
    assert!(matches!(begun(fip(10)).decide_published("web", 10), Decision::Mark(..)), "it counts once");
    assert_eq!(begun(fip(10).attached()).decide_published("web", 10), not_free());
}

#[test]
fn a_claim_whose_ip_address_was_created_a_moment_ago_is_not_judged_again() {
    let wiped = restored(fip(10).described("mail")).listed([]);
    assert_eq!(wiped.decide_published("web", 10), not_free());
    let published = wiped.chosen_from(Origin::Owned, 10, "web");
    assert!(matches!(published.decide_published("web", 10), Decision::Mark(..)));
}

#[test]
fn a_restored_claim_backs_off_from_an_address_that_another_owner_has_marked_too() {
    let contested = || restored(fip(10).tagged_for("web").tagged_by_another_pool());
    let withdraw = Decision::Withdraw(id(10), claim_tag(&pool_id("p"), &key("web")));
    assert_eq!(contested().chosen_as_published(10, "web").decide_published("web", 10), withdraw);
    let taken = Decision::Lost(LostAddress::Taken(address(10)));
    assert_eq!(contested().decide_published("web", 10), taken, "it has it");
    let unreadable = restored(fip(10).tagged_for("web").tag("caip.new")).chosen_as_published(10, "web");
    assert_eq!(unreadable.decide_published("web", 10), taken);
    let mut uncertain = contested().chosen_as_published(10, "web");
    uncertain.ledger.set_hold(&id(10), Some(Hold::Cleanup));
    uncertain.ledger.note_uncertain_write(&id(10), start());
    assert_eq!(uncertain.decide_published("web", 10), taken, "another write may land");
    let mut yielding = restored(fip(10).tagged_for("web").tag(claim_tag(&pool_id("a"), &key("theirs"))));
    yielding.ledger.yield_to_earlier_pool(&id(10), &pool_id("p"), start());
    yielding.relist([fip(10)]);
    assert_eq!(yielding.decide_published("web", 10), Decision::AwaitMark(id(10)), "the other pool may have it");
}

/// Its tag may still be removed by the request whose reply was lost.
#[test]
fn what_a_claim_was_taking_back_is_withdrawn_once() {
    let released = |fip: Fip| fip.released_by("web", ago(1)).attached();
    let mut fixture = fixture().fips([released(fip(10).created_for("web"))]).chosen_by(10, "web");
    let (pool, claim) = (pool_id("p"), key("web"));
    let hold = Hold::Claim { pool: pool.clone(), claim: claim.clone() };
    fixture.ledger.set_hold(&id(10), Some(hold.clone()));
    fixture.ledger.note_uncertain_write(&id(10), start());
    let withdraw = Decision::Withdraw(id(10), claim_tag(&pool, &claim));
    assert_eq!(fixture.decide("web"), withdraw);
    fixture.ledger.begin_withdrawal(&id(10), &pool, &claim);
    fixture.ledger.end_withdrawal(&id(10), hold, false);
    assert_eq!(fixture.decide("web"), withdraw, "its description still names the claim");
    fixture.relist([released(fip(10).idle())]);
    assert_ne!(fixture.decide("web"), withdraw);
}

#[test]
fn a_bound_claim_chooses_what_another_claim_has_released_once_no_late_call_can_land() {
    let bound = Some(BoundAddress { address: address(10), fip: id(10) });
    let had_it = ClaimRequest { was_bound: true, bound, ..request("web") };
    let fixture = || restored(fip(10).created_for("db").released_by("db", ago(9)));
    let decide = |fixture: Fixture| decide(&fixture.situation(), &had_it);
    assert_eq!(decide(fixture()), Decision::Mark(id(10), Origin::Owned, describe(10)));
    assert_eq!(decide(fixture().fenced()), Decision::Fenced(start() + seconds(60)));
}

#[test]
fn without_tags_a_restored_claim_chooses_only_what_the_pool_created() {
    let untagged = |fip| restored(fip).with_policy(|pool| pool.has_tags = false).decide_published("web", 10);
    assert_eq!(untagged(fip(10).idle()), Decision::Mark(id(10), Origin::Owned, describe(10)));
    assert_eq!(untagged(fip(10)), Decision::Mark(id(10), Origin::Recovered, tag()), "Neutron says why it cannot");
}

#[test]
fn a_bound_claim_keeps_its_address_when_neutron_has_no_tags_any_more() {
    let bound = Some(BoundAddress { address: address(10), fip: id(10) });
    let had_it = ClaimRequest { was_bound: true, bound, ..request("web") };
    let untagged = |fip| restored(fip).with_policy(|pool| pool.has_tags = false);
    assert_eq!(decide(&untagged(fip(10)).situation(), &had_it), Decision::Keep(id(10)));
    assert_eq!(
        decide(&untagged(fip(10).idle()).situation(), &had_it),
        Decision::Mark(id(10), Origin::Recovered, describe(10))
    );
}

#[test]
fn a_mark_that_was_not_there_when_the_fence_ended_is_not_late() {
    let late = |last_without| Disowned::Late { last_without };
    assert!(late(start()).is_certain(Some(start() + seconds(1))));
    assert!(!late(start()).is_certain(Some(start())) && !late(start()).is_certain(None));
    assert!(Disowned::GivenUp.is_certain(None));
}

#[test]
fn a_restored_claim_waits_for_a_clean_up_of_its_address() {
    for free in [fip(10), fip(10).idle(), fip(10).created_for("db").released_by("db", ago(9))] {
        let cleaned_up = restored(free).held(10, Hold::Cleanup);
        assert_eq!(cleaned_up.decide_published("web", 10), Decision::AwaitMark(id(10)));
    }
    let copied = fip(11).described(fip(10).idle().0.description);
    let copy = restored(fip(10)).fips([fip(10).idle(), copied]);
    assert_eq!(copy.decide_published("web", 10), Decision::AwaitMark(id(10)), "which of the two it is cannot be told");
}

#[test]
fn a_mark_that_a_user_adds_makes_a_restored_claims_address_its_own() {
    let tagged = fip(10).attached().tagged_for("web");
    let mut told = restored(fip(10).attached());
    told.relist([tagged.clone()]);
    assert_eq!(told.decide_published("web", 10), Decision::Keep(id(10)), "as its condition says");
    let mut late = restored(fip(10).attached()).fenced();
    late.relist([tagged.clone()]);
    assert!(matches!(late.decide_published("web", 10), Decision::Withdraw(..)), "a previous process wrote it");
    late.now = start() + seconds(61);
    late.relist([fip(10).attached()]);
    late.relist([tagged.clone()]);
    assert_eq!(late.decide_published("web", 10), Decision::Keep(id(10)), "none can write it any more");
    let mut unseen = restored(fip(10)).fenced();
    unseen.now = start() + seconds(61);
    unseen.relist([tagged.clone()]);
    assert!(matches!(unseen.decide_published("web", 10), Decision::Withdraw(..)), "it may have landed before");
    let mut withdrawn = restored(tagged.clone());
    withdrawn.ledger.begin_withdrawal(&id(10), &pool_id("p"), &key("web"));
    withdrawn.ledger.set_hold(&id(10), None);
    withdrawn.relist([tagged]);
    assert!(matches!(withdrawn.decide_published("web", 10), Decision::Withdraw(..)), "the withdrawal was lost");
}

#[test]
fn restored_ip_addresses_have_their_marks_again_as_far_as_the_limit_allows() {
    let full = |limit| {
        let fixture = fixture().max_ips(limit).fips([fip(10), fip(11), fip(12).created_for("api")]);
        fixture.active_claim("db").published("db", 10).active_claim("web").published("web", 11)
    };
    let above = |last| Decision::Lost(LostAddress::AboveLimit(address(last)));
    assert_eq!([full(1).decide_published("db", 10), full(1).decide_published("web", 11)], [above(10), above(11)]);
    assert_eq!(marked(&full(2).decide_published("db", 10)), Some(&id(10)));
    assert_eq!(full(2).chosen_as_published(10, "db").decide_published("web", 11), above(11));
    assert_eq!(marked(&full(3).chosen_as_published(10, "db").decide_published("web", 11)), Some(&id(11)));
    assert_eq!(full(2).bound_claim("db").decide_published("web", 11), above(11), "db will have its mark again");
    assert!(matches!(full(2).decide("api-1"), Decision::Create(_)), "they count once they have it");
    let begun = full(1).chosen_as_published(10, "db");
    assert_eq!(marked(&begun.decide_published("db", 10)), Some(&id(10)));
}

#[test]
fn of_two_claims_whose_ip_addresses_name_an_address_without_a_mark_the_older_one_marks_it() {
    for fip in [fip(10), fip(10).idle()] {
        let fixture = || fixture().fips([fip.clone()]).active_claim("db").published("db", 10);
        let both = || fixture().published_since("web", 10, start() + seconds(1));
        let for_another = Decision::Lost(LostAddress::MarkedForAnother(address(10)));
        assert_eq!(both().decide_published("web", 10), for_another);
        let own = both().decide_published("db", 10);
        assert!(matches!(own, Decision::Mark(..) | Decision::TakeBack(..)), "{own:?}");
        let older = fixture().published_since("web", 10, ago(1));
        assert!(matches!(older.decide_published("web", 10), Decision::Mark(..)));
    }
}

#[test]
fn a_released_address_that_two_ip_addresses_name_goes_back_to_the_claim_that_released_it() {
    for fip in [fip(10).created_for("db"), fip(10).tagged_for("db")] {
        let fip = fip.released_by("db", start() + seconds(900));
        for since in [ago(1), start() + seconds(1)] {
            let fixture = || fixture().fips([fip.clone()]).published("db", 10).published_since("web", 10, since);
            let for_another = Decision::Lost(LostAddress::MarkedForAnother(address(10)));
            assert_eq!(fixture().active_claim("db").decide_published("web", 10), for_another);
            let own = fixture().active_claim("db").decide_published("db", 10);
            assert!(matches!(own, Decision::TakeBack(..)), "{own:?}");
            let of_deleted = fixture().decide_published("web", 10);
            assert!(matches!(of_deleted, Decision::Mark(..)), "{of_deleted:?}");
        }
    }
}

#[test]
fn the_ip_address_of_another_pools_claim_is_not_an_older_one() {
    let binding = |pool| Binding { pool, claim: key("db"), fip: id(10), network: Some(network()), since: ago(1) };
    let decide = |pool: &str| {
        let mut fixture = fixture().fips([fip(10)]).active_claim("db").published("web", 10);
        let theirs = PublishedAddress { address: address(10), binding: Some(binding(pool_id(pool))) };
        fixture.published.insert(ObjectName::new("team", "db"), theirs);
        fixture.decide_published("web", 10)
    };
    assert_eq!(decide("p"), Decision::Lost(LostAddress::MarkedForAnother(address(10))));
    assert_eq!(decide("other"), Decision::Mark(id(10), Origin::Reuse, tag()));
}

#[test]
fn the_address_of_an_ip_address_counts_and_not_an_id_that_a_user_changed() {
    let fixture = |own: Fip| fixture().fips([own, fip(11)]).published_as("web", 10, id(11));
    let decide = |fixture: Fixture| fixture.decide_bound("web", BoundAddress { address: address(10), fip: id(11) });
    assert_eq!(decide(fixture(fip(10).created_for("web"))), Decision::Keep(id(10)));
    assert_eq!(decide(fixture(fip(10).tagged_for("web").attached())), Decision::Keep(id(10)));
    assert_eq!(decide(fixture(fip(12))), Decision::Lost(LostAddress::Deleted(address(10))));
}

#[test]
fn the_mark_decides_which_claim_of_two_has_an_address_that_two_ip_addresses_name() {
    let twice = || fixture().fips([fip(10).created_for("db")]).active_claim("db").published("web", 10);
    let for_another = Decision::Lost(LostAddress::MarkedForAnother(address(10)));
    for fixture in [twice().published("db", 10), twice()] {
        assert_eq!(fixture.decide_published("web", 10), for_another);
        assert_eq!(fixture.decide_published("db", 10), Decision::Keep(id(10)));
    }
    for fip in [fip(10).created_for("db"), fip(10).created_for("db").attached(), fip(10).tagged_for("db")] {
        let restored = fixture().fips([fip]).published("web", 10);
        assert_eq!(restored.decide_published("web", 10), for_another, "the other claim was not in the backup");
    }
    assert_eq!(twice().decide("db"), Decision::Keep(id(10)), "its IPAddress was deleted, and is published again");
    let decoy = Binding { pool: pool_id("p"), claim: key("db"), fip: id(12), network: None, since: start() };
    let mut with_decoy = twice().published("db", 10);
    let published = PublishedAddress { address: address(12), binding: Some(decoy) };
    with_decoy.published.insert(ObjectName::new("team", "decoy"), published);
    assert_eq!(with_decoy.decide_published("web", 10), for_another, "an IPAddress more takes nothing from a claim");
    let has_another = twice().published("db", 11);
    assert_eq!(has_another.decide_published("web", 10), Decision::Mark(id(10), Origin::Recovered, describe(10)));
}

#[test]
fn a_published_address_that_another_claim_has_released_is_marked_again_once_it_is_detached() {
    let released = fip(10).created_for("db").released_by("db", ago(9));
    let decide = |fip| fixture().fips([fip]).published("web", 10).decide_published("web", 10);
    assert_eq!(decide(released.clone()), Decision::Mark(id(10), Origin::Owned, describe(10)));
    assert_eq!(decide(released.clone().attached()), Decision::Lost(LostAddress::MarkedForAnother(address(10))));
    let fenced = fixture().fips([released]).published("web", 10).fenced();
    assert!(matches!(fenced.decide_published("web", 10), Decision::Fenced(_)));
}

/// Such as a user's tags: the mark alone, written again and again, would change nothing.
#[test]
fn a_published_address_that_the_claim_and_later_another_one_have_released_is_taken_back() {
    let take_back = Decision::TakeBack(id(10), vec![release_tag(&pool_id("p"), &key("web"), ago(9))]);
    for marked in [fip(10).created_for("web"), fip(10).tagged_for("web")] {
        let marked = marked.released_by("web", ago(9)).tagged_for("db").released_by("db", ago(5));
        let mut fixture = fixture().fips([marked.clone()]);
        assert_eq!(fixture.decide_published("web", 10), take_back);
        fixture.relist([marked.attached()]);
        let lost = Decision::Lost(LostAddress::MarkedForAnother(address(10)));
        assert_eq!(fixture.decide_published("web", 10), lost);
    }
}

#[test]
fn a_published_address_that_another_claim_has_released_is_not_kept_if_it_has_a_port_after_all() {
    let withdraw = || Decision::Withdraw(id(10), claim_tag(&pool_id("p"), &key("web")));
    let with = |fip: Fip| fixture().fips([fip]).published("web", 10);
    let chosen = |fip: Fip| with(fip).chosen_as_published(10, "web").decide_published("web", 10);
    let described = fip(10).created_for("web").released_by("db", ago(9));
    assert_eq!(chosen(described.clone()), Decision::Keep(id(10)));
    assert_eq!(chosen(described.clone().attached()), withdraw());
    let before = with(described.clone().attached()).chosen_by(10, "web");
    assert_eq!(before.decide_published("web", 10), Decision::Keep(id(10)), "it was read back before it was published");
    // The reply to a tag does not show the port.
    let mut tagged = with(fip(10).released_by("db", ago(9))).chosen_as_published(10, "web");
    tagged.ledger.record_tag(&id(10), &claim_tag(&pool_id("p"), &key("web")), true);
    assert_eq!(tagged.decide_published("web", 10), Decision::Confirm(id(10)));
    let owned = fip(10).created_for("web").attached();
    assert_eq!(with(owned).decide_published("web", 10), Decision::Keep(id(10)));

    for is_chosen in [true, false] {
        let mut lost = with(described.clone().attached());
        if is_chosen {
            lost = lost.chosen_as_published(10, "web");
        }
        lost.ledger.begin_withdrawal(&id(10), &pool_id("p"), &key("web"));
        lost.ledger.note_uncertain_write(&id(10), start());
        lost.ledger.end_withdrawal(&id(10), hold_of("web"), false);
        assert_eq!(lost.decide_published("web", 10), Decision::AwaitMark(id(10)), "the withdrawal may still land");
        lost.now += seconds(60);
        lost.relist([described.clone().attached()]);
        assert_eq!(lost.decide_published("web", 10), withdraw(), "it did not land");
        let bound = BoundAddress { address: address(10), fip: id(10) };
        let used = ClaimRequest { was_bound: true, bound: Some(bound), ..request("web") };
        let is_kept = decide(&lost.situation(), &used) == Decision::Keep(id(10));
        assert_eq!(is_kept, !is_chosen, "unless it chose it, the port may be that of its machine");
        lost.relist([described.clone()]);
        assert_eq!(lost.decide_published("web", 10), Decision::Keep(id(10)), "the port is gone");
    }
}

#[test]
fn a_published_address_that_another_claim_is_taking_is_left_to_that_claim_until_it_withdraws() {
    let decide = |fixture: Fixture| fixture.published("web", 10).decide_published("web", 10);
    let wait = Decision::AwaitMark(id(10));
    let released = || fixture().fips([fip(10).created_for("web").released_by("web", ago(9))]);
    assert!(matches!(decide(released()), Decision::TakeBack(..)));
    assert_eq!(decide(released().chosen_by(10, "db")), wait);
    let mut uncertain = released().chosen_by(10, "db");
    uncertain.ledger.note_uncertain_write(&id(10), start());
    uncertain.ledger.set_hold(&id(10), None);
    assert_eq!(decide(uncertain), wait);
    assert_eq!(decide(fixture().fips([fip(10)]).chosen_by(10, "db")), wait);
    let owned = fixture().fips([fip(10).created_for("web")]).chosen_by(10, "db");
    assert_eq!(decide(owned), Decision::Keep(id(10)));
}

#[test]
fn an_address_that_the_claim_holds_is_preferred_to_one_that_it_released() {
    let fixture = fixture().fips([fip(10).created_for("web").released_by("web", ago(9)), fip(11).created_for("web")]);
    assert_eq!(fixture.decide("web"), Decision::Keep(id(11)));
}

#[test]
fn an_address_that_was_created_late_is_not_taken_for_the_one_that_the_claim_had() {
    let mut fixture = fixture().fips([fip(11).created_for("web")]);
    fixture.relist([fip(10).created_for("web"), fip(11).created_for("web")]);
    assert_eq!(fixture.decide("web"), Decision::Keep(id(11)));
    // A process that began later sees both at once.
    let both = [fip(10).created_for("web").created_at(ago(8)), fip(11).created_for("web").created_at(ago(9))];
    assert_eq!(testing::fixture().fips(both).decide("web"), Decision::Keep(id(11)));
}

#[test]
fn the_successor_of_a_deleted_floating_ip_is_not_taken_from_its_user() {
    let successor = |fip: Fip| fixture().fips([Fip(FloatingIp { address: address(10), ..fip.0 })]);
    let decide = |fip: Fip| successor(fip).published("web", 10).decide_published("web", 10);
    let lost = Decision::Lost(LostAddress::Deleted(address(10)));
    assert_eq!(decide(fip(11).attached()), not_free(), "the claim's machine may use it");
    assert_eq!(decide(fip(11).attached().on_network("another")), lost);
    assert_eq!(decide(fip(11).attached().tagged_by_another_pool()), lost);
    let without_tags = successor(fip(11)).with_policy(|pool| pool.has_tags = false);
    assert_eq!(without_tags.published("web", 10).decide_published("web", 10), lost);
}

#[test]
fn an_address_published_for_another_claim_is_not_taken_back() {
    let released = || fip(10).created_for("web").released_by("web", ago(9));
    assert_eq!(fixture().fips([released()]).published("db", 10).decide("web"), create(None));
    let chosen = fixture().fips([fip(10).created_for("web")]).published("db", 10).held(10, hold_of("web"));
    assert!(matches!(chosen.decide("web"), Decision::Withdraw(..)), "a choice that is not complete");
}

#[test]
fn an_address_held_for_another_claim_is_not_recovered() {
    let fixture = fixture().fips([fip(10).created_for("web")]).chosen_by(10, "other");
    assert_eq!(fixture.decide("web"), create(None));
}

#[test]
fn a_released_address_is_taken_back_by_its_claim() {
    let fixture = fixture().fips([fip(10).created_for("web").released_by("web", ago(10))]);
    let take_back = Decision::TakeBack(id(10), vec![release_tag(&pool_id("p"), &key("web"), ago(10))]);
    assert_eq!(fixture.decide("web"), take_back);
    assert_eq!(fixture.chosen_by(10, "web").decide("web"), take_back);
}

#[test]
fn a_release_in_the_description_of_a_tagged_address_is_taken_back_by_a_new_description() {
    let released = CreationMark { released: Some(ago(9)), ..unclaimed_mark(10).given_to(&key("web")) };
    let fixture = fixture().fips([fip(10).described(released.render(None)).tagged_for("web").full_of_tags()]);
    assert_eq!(fixture.decide("web"), Decision::Mark(id(10), Origin::Recovered, describe(10)));
}

#[test]
fn an_address_that_was_taken_back_is_read_again_before_it_is_published() {
    let released = fip(10).created_for("web").released_by("web", ago(10));
    let mut fixture = fixture().fips([released]).chosen_from(Origin::Recovered, 10, "web");
    fixture.ledger.record_tag(&id(10), &release_tag(&pool_id("p"), &key("web"), ago(10)), false);
    assert_eq!(fixture.decide("web"), Decision::Confirm(id(10)), "a user may have attached it since it was listed");
    let read = |fip: Fip| testing::fixture().fips([fip]).chosen_from(Origin::Recovered, 10, "web").decide("web");
    assert_eq!(read(fip(10).created_for("web")), Decision::Keep(id(10)));
    let withdraw = Decision::Withdraw(id(10), claim_tag(&pool_id("p"), &key("web")));
    assert_eq!(read(fip(10).created_for("web").attached()), withdraw);
}

#[test]
fn a_released_address_is_not_taken_back_during_a_sweep() {
    let fixture = fixture().fips([fip(10).created_for("web").released_by("web", ago(10))]).held(10, Hold::Cleanup);
    assert_eq!(fixture.decide("web"), create(None));
}

#[test]
fn a_chosen_address_that_the_spec_no_longer_allows_is_withdrawn() {
    let chosen = || fixture().closed_list([10]).fips([fip(10).tagged_for("web")]).chosen_by(10, "web");
    let withdraw = Decision::Withdraw(id(10), claim_tag(&pool_id("p"), &key("web")));
    assert_eq!(chosen().excluding("203.0.113.10/32").decide("web"), withdraw);
    assert_eq!(chosen().reserving("db", 10).decide("web"), withdraw);
}

#[test]
fn a_recreated_floating_ip_replaces_the_deleted_one_of_an_ip_address() {
    let recreated = || fip(10).tag("anything");
    let fixture = fixture().fips([recreated()]).published_as("web", 10, id(9));
    let published = BoundAddress { address: address(10), fip: id(9) };
    let restored = ClaimRequest { bound: Some(published), ..request("web") };
    let deleted = Decision::Lost(LostAddress::Deleted(address(10)));
    assert_eq!(decide(&fixture.situation(), &restored), deleted, "no new claim may reuse it");
    let request = ClaimRequest { was_bound: true, ..restored };
    let decide = |fixture: &Fixture| decide(&fixture.situation(), &request);
    let found = Decision::Mark(id(10), Origin::Reuse, tag());
    assert_eq!(decide(&fixture), found);
    let mut fixture = fixture.chosen(Choice { origin: Origin::Reuse, was_published: true }, 10, "web");
    assert_eq!(decide(&fixture), found, "the reply to its mark was lost");
    fixture.ledger.record_tag(&id(10), &claim_tag(&pool_id("p"), &key("web")), true);
    assert_eq!(decide(&fixture), Decision::Confirm(id(10)));
    fixture.relist([recreated().tagged_for("web")]);
    assert_eq!(decide(&fixture), Decision::Keep(id(10)));
    fixture.relist([recreated().tagged_for("web").attached()]);
    let withdraw = Decision::Withdraw(id(10), claim_tag(&pool_id("p"), &key("web")));
    assert_eq!(decide(&fixture), withdraw, "the port is of the user who created it");
    fixture.relist([recreated().tagged_for("web").tagged_by_another_pool()]);
    assert_eq!(decide(&fixture), withdraw, "another owner has it too");
    let contested = testing::fixture().fips([recreated().tagged_for("web").tagged_by_another_pool()]);
    assert_eq!(decide(&contested.published_as("web", 10, id(9))), deleted, "it did not choose this one");
    fixture.ledger.set_hold(&id(10), None);
    fixture.relist([recreated().tagged_for("web").tag(claim_tag(&pool_id("a"), &key("theirs")))]);
    fixture.ledger.yield_to_earlier_pool(&id(10), &pool_id("p"), start());
    fixture.relist([recreated()]);
    assert_eq!(decide(&fixture), Decision::AwaitMark(id(10)), "it is left to that owner for a while");
}

#[test]
fn a_reused_address_that_a_pool_turns_out_to_list_is_given_back() {
    let chosen = || fixture().fips([fip(10).tagged_for("web")]).chosen_from(Origin::Reuse, 10, "web");
    assert_eq!(chosen().decide("web"), Decision::Keep(id(10)));
    let mut listed = chosen();
    listed.published.set_listed(ObjectName::new("team", "other"), [address(10)].into());
    let withdraw = Decision::Withdraw(id(10), claim_tag(&pool_id("p"), &key("web")));
    assert_eq!(listed.decide("web"), withdraw);
    assert_eq!(chosen().listed([10]).decide("web"), Decision::Keep(id(10)), "its own list permits it");
}

#[test]
fn the_same_address_on_another_network_does_not_replace_a_floating_ip() {
    let at_10 = |last: u8| Fip(FloatingIp { address: address(10), ..fip(last).0 });
    let bound = || BoundAddress { address: address(10), fip: id(20) };
    let published = |fixture: Fixture| fixture.published_as("web", 10, id(20));
    let lost = Decision::Lost(LostAddress::Deleted(address(10)));
    for elsewhere in [at_10(9).on_network("another"), at_10(9).idle().on_network("another")] {
        assert_eq!(published(fixture().fips([elsewhere])).decide_bound("web", bound()), lost);
    }
    let elsewhere = || at_10(9).on_network("another");
    let here = published(fixture().fips([elsewhere(), at_10(11)]));
    assert_eq!(marked(&here.decide_bound("web", bound())), Some(&id(11)));
    let own = published(fixture().fips([at_10(9), at_10(11).tagged_for("web")]));
    assert_eq!(own.decide_bound("web", bound()), Decision::Keep(id(11)), "before any other");
    let of_older = published(fixture().fips([at_10(11)]).active_claim("db").published_since("db", 10, ago(9)));
    assert_eq!(of_older.decide_bound("web", bound()), lost, "its mark was removed");
}

#[test]
fn a_published_address_is_marked_again_once_no_clean_up_can_delete_it_or_remove_its_tag() {
    let created = || fip(10).created_for("web").released_by("web", ago(9));
    let of_another = || fip(10).created_for("db").released_by("db", ago(9));
    for fip in [fip(10), fip(10).tagged_for("web").released_by("web", ago(9)), created(), of_another(), fip(10).idle()]
    {
        let mut fixture = fixture().fips([fip]).held(10, Hold::Cleanup).published("web", 10);
        let bound = BoundAddress { address: address(10), fip: id(10) };
        let decide = |fixture: &Fixture| {
            [false, true].map(|was_bound| {
                let request = ClaimRequest { was_bound, bound: Some(bound.clone()), ..request("web") };
                decide(&fixture.situation(), &request)
            })
        };
        let wait = [Decision::AwaitMark(id(10)), Decision::AwaitMark(id(10))];
        assert_eq!(decide(&fixture), wait, "it is under way");
        fixture.ledger.note_uncertain_write(&id(10), start());
        fixture.ledger.set_hold(&id(10), None);
        assert_eq!(decide(&fixture), wait, "there was no answer");
    }
}

#[test]
fn a_copied_description_gives_no_claim_an_address() {
    let copied = fip(10).created_for("web").0.description;
    let fixture = fixture().fips([fip(10).created_for("web"), fip(9).described(copied)]);
    assert_eq!(fixture.decide("web"), create(None));
    assert_eq!(fixture.decide_published("web", 10), Decision::Keep(id(10)));
    assert_eq!(fixture.chosen_by(10, "web").decide("web"), Decision::Keep(id(10)), "it was chosen and is held");
}

#[test]
fn a_created_address_that_another_ip_address_names_is_not_kept() {
    let fixture = fixture().fips([fip(10).created_for("web")]).published_by_others(10);
    let withdraw = Decision::Withdraw(id(10), claim_tag(&pool_id("p"), &key("web")));
    assert_eq!(fixture.decide("web"), withdraw);
    let fixture = Fixture { ledger: Ledger::default(), ..fixture }.fips([fip(10).created_for("web").attached()]);
    assert_eq!(fixture.decide("web"), Decision::Keep(id(10)), "an attached address stays the claim's");
}

#[test]
fn a_tag_that_was_left_beside_another_owners_mark_is_withdrawn() {
    let withdraw = Decision::Withdraw(id(10), claim_tag(&pool_id("p"), &key("web")));
    let fixture = fixture().listed([10]).fips([fip(10).tagged_for("web").tagged_by_another_pool()]);
    assert_eq!(fixture.decide("web"), withdraw);
    assert_ne!(fixture.fenced().decide("web"), withdraw, "a late write may add it again");
}

#[test]
fn a_tag_that_landed_late_beside_a_port_is_withdrawn() {
    let mut fixture = fixture().listed([10]).fips([fip(10)]);
    fixture.relist([fip(10).tagged_for("web").attached()]);
    assert_eq!(fixture.decide("web"), Decision::Withdraw(id(10), claim_tag(&pool_id("p"), &key("web"))));
    let mut fixture = Fixture { ledger: Default::default(), ..fixture };
    fixture.relist([fip(10).tagged_for("web").attached()]);
    assert_eq!(
        fixture.decide("web"),
        Decision::Keep(id(10)),
        "a new process cannot know that the port is not the claim's"
    );
}

#[test]
fn a_lost_withdrawal_is_repeated() {
    let mut fixture = fixture().listed([10]).fips([fip(10)]).chosen_by(10, "web");
    fixture.ledger.record_tag(&id(10), &claim_tag(&pool_id("p"), &key("web")), true);
    fixture.relist([fip(10).tagged_for("web").attached()]);
    fixture.ledger.begin_withdrawal(&id(10), &pool_id("p"), &key("web"));
    fixture.ledger.note_uncertain_write(&id(10), fixture.now);
    fixture.ledger.end_withdrawal(&id(10), hold_of("web"), false);
    fixture.now += seconds(60);
    fixture.relist([fip(10).tagged_for("web").attached()]);
    assert_eq!(fixture.decide("web"), Decision::Withdraw(id(10), claim_tag(&pool_id("p"), &key("web"))));
}

#[test]
fn a_published_address_is_kept_even_if_its_tag_landed_late() {
    let mut fixture = fixture().listed([10]).fips([fip(10)]);
    fixture.relist([fip(10).tagged_for("web")]);
    fixture.ledger.forget_claim(&pool_id("p"), &key("web"));
    fixture.relist([fip(10).tagged_for("web").attached()]);
    assert_eq!(fixture.decide("web"), Decision::Keep(id(10)));
}

#[test]
fn a_reused_address_is_kept_only_if_it_is_still_reusable_when_read_back() {
    let chosen = || fip(10).tagged_for("web");
    let decide = |fip: Fip| fixture().fips([fip]).chosen_by(10, "web").decide("web");
    assert_eq!(decide(chosen()), Decision::Keep(id(10)));
    assert_eq!(decide(chosen().described("mail")), Decision::Withdraw(id(10), claim_tag(&pool_id("p"), &key("web"))));
    let tags = |pool: &mut PoolPolicy| {
        pool.reuse = ReuseRule::Tagged { tags: ["lent".to_owned()].into(), idle: seconds(300) };
    };
    let tagged = |fip: Fip| fixture().with_policy(tags).fips([fip]).chosen_by(10, "web").decide("web");
    assert_eq!(tagged(chosen().tag("lent").described("mail")), Decision::Keep(id(10)));
    assert!(matches!(tagged(chosen()), Decision::Withdraw(..)), "its tag was removed");
    let listed = fixture().listed([10]).fips([chosen().described("mail")]).chosen_by(10, "web").decide("web");
    assert_eq!(listed, Decision::Keep(id(10)), "a listed address may have a description");
}

#[test]
fn a_claim_that_is_created_again_keeps_its_address_whatever_was_written_on_it() {
    let released = fip(10).tagged_for("web").described("mail").released_by("web", ago(5));
    assert!(matches!(fixture().fips([released]).decide("web"), Decision::TakeBack(..)));
    let taken_back = fixture().fips([fip(10).tagged_for("web").described("mail")]).held(10, hold_of("web"));
    assert_eq!(taken_back.decide("web"), Decision::Keep(id(10)));
}

/// A claim that had the address, whose IPAddress is gone.
fn claim_without_ip_address(fixture: &Fixture) -> Decision {
    decide(&fixture.situation(), &ClaimRequest { was_bound: true, ..request("web") })
}

#[test]
fn a_claim_that_had_an_address_waits_until_another_pool_backs_off_from_it() {
    for mine in [fip(10).created_for("web"), fip(10).tagged_for("web")] {
        let mut fixture = fixture().listed([11]).fips([mine.clone(), fip(11)]);
        fixture.relist([mine.clone().tagged_by_another_pool(), fip(11)]);
        assert_eq!(claim_without_ip_address(&fixture), Decision::AwaitOwner(id(10)));
        fixture.relist([mine, fip(11)]);
        assert_eq!(claim_without_ip_address(&fixture), Decision::Keep(id(10)));
    }
}

#[test]
fn a_claim_that_never_had_an_address_backs_off_at_once() {
    let fixture = fixture().listed([11]).fips([fip(10).tagged_for("web").tagged_by_another_pool(), fip(11)]);
    assert!(matches!(fixture.decide("web"), Decision::Withdraw(..)));
}

#[test]
fn a_claim_that_had_an_address_does_not_wait_for_one_that_it_released_or_began_to_withdraw_from() {
    let shared = fip(10).tagged_for("web").tagged_by_another_pool();
    let mut fixture = fixture().fips([shared.clone()]);
    fixture.ledger.begin_withdrawal(&id(10), &pool_id("p"), &key("web"));
    fixture.ledger.end_withdrawal(&id(10), Hold::Cleanup, false);
    assert!(matches!(claim_without_ip_address(&fixture), Decision::Withdraw(..)));
    let released = testing::fixture().fips([shared.released_by("web", ago(9))]);
    assert!(matches!(claim_without_ip_address(&released), Decision::Withdraw(..)));
}

/// The claim waits for the other owner of the address until it would give up.
fn await_owner(fixture: &mut Fixture, last: u8) {
    for _ in 0..13 {
        assert_eq!(claim_without_ip_address(fixture), Decision::AwaitOwner(id(last)));
        fixture.ledger.note_owner_awaited(&id(last), fixture.now);
        fixture.now += OWNER_AWAITED_EVERY;
    }
    assert!(fixture.now.duration_since(start()) >= seconds(60), "as long as another pool needs to back off");
}

#[test]
fn after_a_minute_of_answers_a_claim_gives_up_an_address_that_another_pool_has_marked_unless_it_is_attached() {
    let shared = fip(10).tagged_for("web").tagged_by_another_pool();
    let mut fixture = fixture().fips([shared.clone()]);
    await_owner(&mut fixture, 10);
    assert!(matches!(claim_without_ip_address(&fixture), Decision::Withdraw(..)));
    fixture.relist([shared.attached()]);
    assert_eq!(claim_without_ip_address(&fixture), Decision::Lost(LostAddress::Taken(address(10))));
    fixture.relist([fip(10).tagged_for("web").tag("caip2.p").attached()]);
    assert_eq!(claim_without_ip_address(&fixture), Decision::Lost(LostAddress::MarkedByNewerVersion(address(10))));
    fixture.relist([fip(10).tagged_for("web")]);
    fixture.relist([fip(10).tagged_for("web").tagged_by_another_pool()]);
    assert_eq!(claim_without_ip_address(&fixture), Decision::AwaitOwner(id(10)), "another one, later");
}

#[test]
fn the_time_without_an_answer_does_not_count_as_waiting_for_the_other_owner() {
    let mut fixture = fixture().fips([fip(10).tagged_for("web").tagged_by_another_pool()]);
    fixture.now += seconds(3600);
    assert_eq!(claim_without_ip_address(&fixture), Decision::AwaitOwner(id(10)));
    for _ in 0..100 {
        fixture.ledger.note_owner_awaited(&id(10), fixture.now);
    }
    assert_eq!(claim_without_ip_address(&fixture), Decision::AwaitOwner(id(10)), "many listings within a moment");
}

#[test]
fn a_claim_waits_for_the_other_owners_of_all_its_addresses() {
    let shared = |last| fip(last).tagged_for("web").tagged_by_another_pool();
    let mut fixture = fixture().fips([shared(10), shared(11).attached()]);
    await_owner(&mut fixture, 10);
    assert_eq!(claim_without_ip_address(&fixture), Decision::AwaitOwner(id(11)));
}

#[test]
fn a_claim_waits_for_another_owner_while_it_restores_its_mark() {
    let shared = || fip(10).tagged_for("web").tagged_by_another_pool();
    let restoring = fixture().fips([shared()]).held(10, hold_of("web"));
    assert_eq!(claim_without_ip_address(&restoring), Decision::AwaitOwner(id(10)));
    let choosing = fixture().listed([10]).fips([shared()]).chosen_by(10, "web");
    assert!(matches!(claim_without_ip_address(&choosing), Decision::Withdraw(..)), "it never had this one");
}

#[test]
fn a_claim_restores_its_mark_whoever_has_another_address_with_its_tag() {
    let other = fip(11).tagged_for("web").tagged_by_another_pool().attached();
    let restoring = fixture().fips([fip(10), other]).held(10, hold_of("web"));
    assert_eq!(claim_without_ip_address(&restoring), Decision::Mark(id(10), Origin::Recovered, tag()));
}

#[test]
fn a_port_does_not_keep_a_claim_from_the_address_whose_mark_it_restores() {
    let mut fixture = fixture().fips([fip(10).attached()]).held(10, hold_of("web"));
    assert_eq!(claim_without_ip_address(&fixture), Decision::Mark(id(10), Origin::Recovered, tag()));
    assert!(matches!(fixture.decide("web"), Decision::Withdraw(..)), "it never had an address");
    fixture.relist([fip(10).tagged_for("web").attached()]);
    assert_eq!(claim_without_ip_address(&fixture), Decision::Keep(id(10)));
}

#[test]
fn a_late_tag_on_an_attached_address_does_not_count_if_the_claims_own_one_is_attached() {
    let mut fixture = fixture().fips([fip(10).tagged_for("web").attached(), fip(11).created_for("web").attached()]);
    fixture.ledger.note_bound(&id(11), &pool_id("p"), &key("web"));
    assert_eq!(claim_without_ip_address(&fixture), Decision::Keep(id(11)));
}

#[test]
fn a_claim_forgets_the_address_that_it_had_before_it_chooses_another() {
    let forgets = |fixture: Fixture| claim_without_ip_address(&fixture) == Decision::ForgetAddress;
    assert!(forgets(fixture().listed([10]).fips([fip(10)])), "there is one to mark");
    assert!(forgets(fixture()), "one can be created");
    assert!(forgets(fixture().closed_list([10]).fips([fip(10).attached()])), "it waits like one that had none");
    let fenced = fixture().listed([10]).fips([fip(10)]).fenced();
    assert!(matches!(claim_without_ip_address(&fenced), Decision::Fenced(_)), "a predecessor's mark may still land");
}

#[test]
fn a_claim_waits_while_a_clean_up_of_the_address_that_it_had_may_take_effect() {
    let taken_over = || fixture().fips([fip(10).created_for("web").released_by("db", ago(9)).attached()]);
    let mut uncertain = taken_over().held(10, Hold::Cleanup);
    assert_eq!(claim_without_ip_address(&uncertain), Decision::AwaitMark(id(10)), "a tag is being removed");
    uncertain.ledger.note_uncertain_write(&id(10), start());
    uncertain.ledger.set_hold(&id(10), None);
    assert_eq!(claim_without_ip_address(&uncertain), Decision::AwaitMark(id(10)), "or may be");
    assert_eq!(claim_without_ip_address(&taken_over()), Decision::Keep(id(10)));
    let excluded = fixture().excluding("203.0.113.10/32").fips([fip(10).created_for("web")]).held(10, Hold::Cleanup);
    assert_eq!(claim_without_ip_address(&excluded), Decision::ForgetAddress, "it may not have that one");
    let others = fixture().fips([fip(10).created_for("db").attached()]).held(10, Hold::Cleanup);
    assert_eq!(claim_without_ip_address(&others), Decision::ForgetAddress);
}

#[test]
fn a_claim_whose_machine_uses_an_address_with_a_copied_mark_gets_no_other() {
    let copy = || fip(11).described(fip(10).created_for("web").0.description);
    let attached = fixture().fips([fip(10).created_for("web").attached(), copy()]);
    assert_eq!(claim_without_ip_address(&attached), Decision::AwaitMark(id(10)));
    let free = fixture().fips([fip(10).created_for("web"), copy()]);
    assert_eq!(claim_without_ip_address(&free), Decision::ForgetAddress);
}

#[test]
fn marks_from_before_the_process_served_the_pool_did_not_land_late() {
    let mut fixture = fixture().fips([fip(10), fip(11)]);
    let other = claim_tag(&pool_id("other"), &key("web"));
    fixture.ledger.note_served(&pool_id("other"), Viewer::default());
    fixture.lose_pool("p");
    fixture.relist([fip(10).tagged_for("web").attached(), fip(11)]);
    fixture.ledger.note_served(&pool_id("p"), Viewer::default());
    assert_eq!(fixture.decide("web"), Decision::Keep(id(10)));
    assert!(fixture.entry(10).disowned.is_empty());
    fixture.relist([fip(10).tagged_for("web").attached(), fip(11).tagged_for("db").tag(&other)]);
    assert_eq!(fixture.decide("web"), Decision::Keep(id(10)));
    let late = [(pool_id("other"), key("web")), (pool_id("p"), key("db"))]
        .map(|owner| (owner, Disowned::Late { last_without: start() }));
    assert_eq!(fixture.entry(11).disowned, late.into());
}

#[test]
fn the_first_listing_after_the_pool_is_served_shows_late_marks() {
    let mut ledger = Ledger::default();
    let listed = |ledger: &mut Ledger, fip: Fip| {
        let began = ledger.begin(start());
        ledger.record_listing(began, vec![fip.0], start());
    };
    ledger.note_served(&pool_id("p"), Viewer::default());
    assert!(!ledger.is_served(&pool_id("p")), "nothing is known yet");
    listed(&mut ledger, fip(10));
    ledger.note_served(&pool_id("p"), Viewer::default());
    assert!(ledger.is_served(&pool_id("p")));
    listed(&mut ledger, fip(10).tagged_for("web"));
    let is_late = ledger.get(&id(10)).map(|entry| entry.disowned.contains_key(&(pool_id("p"), key("web"))));
    assert_eq!(is_late, Some(true), "its predecessor wrote it");
}

#[test]
fn a_choice_whose_hold_ended_with_its_pool_is_read_back_all_the_same() {
    let mut fixture = fixture().listed([10]).fips([fip(10)]).chosen_by(10, "web");
    fixture.lose_pool("p");
    fixture.ledger.record_tag(&id(10), &claim_tag(&pool_id("p"), &key("web")), true);
    assert_eq!(fixture.decide("web"), Decision::Confirm(id(10)));
    fixture.relist([fip(10).tagged_for("web")]);
    assert_eq!(fixture.decide("web"), Decision::Keep(id(10)));
    fixture.relist([fip(10).tagged_for("web").attached()]);
    assert_ne!(fixture.decide("web"), Decision::Keep(id(10)), "the port was there before");
    let mut removed = fixture.with_policy(|pool| (pool.listed, pool.reuse) = (vec![], ReuseRule::Never));
    removed.relist([fip(10).tagged_for("web")]);
    assert_ne!(removed.decide("web"), Decision::Keep(id(10)), "the list no longer has it");

    let described = fip(10).created_for("web").released_by("db", ago(9)).attached();
    let mut published = self::fixture().fips([described]).published("web", 10).chosen_as_published(10, "web");
    published.lose_pool("p");
    let withdraw = Decision::Withdraw(id(10), claim_tag(&pool_id("p"), &key("web")));
    assert_eq!(published.decide_published("web", 10), withdraw);
    published.ledger.note_bound(&id(10), &pool_id("p"), &key("web"));
    assert_eq!(published.decide_published("web", 10), Decision::Keep(id(10)), "it is bound");
}

#[test]
fn a_choice_that_is_published_anew_after_it_was_read_back_has_the_port_of_its_machine() {
    let described = || fip(10).created_for("web").released_by("db", ago(9));
    let mut fixture = fixture().fips([described()]).published("web", 10).chosen_as_published(10, "web");
    fixture.ledger.note_read_back(&id(10), &pool_id("p"), &key("web"), false);
    fixture.relist([described().attached()]);
    assert_eq!(fixture.decide_published("web", 10), Decision::Keep(id(10)));
    assert!(matches!(fixture.decide("web"), Decision::Withdraw(..)), "its IPAddress is not there yet");
}

#[test]
fn a_published_address_that_was_free_when_it_was_attached_is_not_taken() {
    let free = || fip(10).idle();
    let with = |fip: Fip| fixture().fips([fip]).published("web", 10);
    let lost = Decision::Lost(LostAddress::MarkedForAnother(address(10)));
    assert_eq!(with(free().attached()).decide_published("web", 10), lost);
    assert_eq!(marked(&with(free()).decide_published("web", 10)), Some(&id(10)));
    let bound = BoundAddress { address: address(10), fip: id(10) };
    let used = ClaimRequest { was_bound: true, bound: Some(bound), ..request("web") };
    let decision = decide(&with(free().attached()).situation(), &used);
    assert_eq!(marked(&decision), Some(&id(10)), "its mark was removed");
}

#[test]
fn what_was_withdrawn_is_not_chosen_again_while_an_earlier_write_may_land() {
    let mut fixture = fixture().fips([fip(10).idle(), fip(11).idle()]).chosen_from(Origin::Owned, 10, "web");
    fixture.ledger.note_uncertain_write(&id(10), start());
    fixture.relist([fip(10).created_for("web").attached(), fip(11).idle()]);
    assert!(matches!(fixture.decide("web"), Decision::Withdraw(of, _) if of == id(10)));
    fixture.ledger.begin_withdrawal(&id(10), &pool_id("p"), &key("web"));
    let began = fixture.ledger.begin(fixture.now);
    fixture.ledger.record_write(fip(10).idle().attached().0, began);
    fixture.ledger.end_withdrawal(&id(10), hold_of("web"), false);
    assert_eq!(marked(&fixture.decide("web")), Some(&id(11)));
    fixture.relist([fip(10).created_for("web").attached(), fip(11).idle()]);
    assert!(matches!(fixture.decide("web"), Decision::Withdraw(of, _) if of == id(10)), "it landed");
}

#[test]
fn a_choice_without_a_hold_goes_on() {
    let mut fixture = fixture().fips([fip(10).idle(), fip(11).idle()]).chosen_from(Origin::Owned, 11, "web");
    fixture.ledger.note_uncertain_write(&id(11), start());
    fixture.ledger.end_holds(&pool_id("p"), &key("web"));
    assert_eq!(marked(&fixture.decide("web")), Some(&id(11)), "the write may land");
    fixture.relist([fip(10).idle(), fip(11).created_for("web").tagged_by_another_pool()]);
    assert!(matches!(fixture.decide("web"), Decision::Withdraw(of, _) if of == id(11)), "another owner has it");
}

#[test]
fn a_choice_lasts_as_long_as_its_mark() {
    for claimed in [fip(10).created_for("web"), fip(10).tagged_for("web")] {
        let unclaimed = if claimed.0.tags.is_empty() { fip(10).idle() } else { fip(10) };
        let mut fixture = fixture().fips([unclaimed.clone()]).chosen_by(10, "web");
        fixture.ledger.note_uncertain_write(&id(10), start());
        fixture.ledger.end_holds(&pool_id("p"), &key("web"));
        fixture.now += seconds(60);
        fixture.relist([claimed.clone()]);
        assert!(fixture.entry(10).choice_of(&pool_id("p"), &key("web")).is_some());
        fixture.relist([claimed.attached()]);
        assert!(matches!(fixture.decide("web"), Decision::Withdraw(..)), "the port was there before");
        fixture.relist([unclaimed]);
        assert_eq!(fixture.entry(10).choice_of(&pool_id("p"), &key("web")), None);
    }
}

#[test]
fn a_described_address_with_a_strangers_port_is_withdrawn_again() {
    let described = || fip(10).created_for("web").attached();
    let mut fixture = fixture().fips([described()]);
    fixture.ledger.begin_withdrawal(&id(10), &pool_id("p"), &key("web"));
    fixture.ledger.note_uncertain_write(&id(10), start());
    fixture.ledger.end_withdrawal(&id(10), hold_of("web"), false);
    fixture.relist([described().tag("of-a-user")]);
    assert!(!matches!(fixture.decide("web"), Decision::Withdraw(..)), "the withdrawal may still land");
    fixture.now += seconds(60);
    fixture.relist([described()]);
    assert!(matches!(fixture.decide("web"), Decision::Withdraw(..)));
    let used = ClaimRequest { was_bound: true, ..request("web") };
    assert_ne!(decide(&fixture.situation(), &used), fixture.decide("web"), "it may be that of its machine");
}

#[test]
fn a_mark_that_is_restored_is_no_choice() {
    let mut fixture = fixture().listed([10]).fips([fip(10).tagged_for("web").attached()]).held(10, hold_of("web"));
    fixture.ledger.note_uncertain_write(&id(10), start());
    fixture.ledger.end_holds(&pool_id("p"), &key("web"));
    fixture.lose_pool("p");
    assert_eq!(fixture.decide("web"), Decision::Keep(id(10)));
}

#[test]
fn a_published_choice_that_was_read_back_is_kept_whatever_is_attached_later() {
    let described = || fip(10).created_for("web").released_by("db", ago(9)).attached();
    for is_held in [true, false] {
        let mut fixture = fixture().fips([described()]).published("web", 10).chosen_as_published(10, "web");
        fixture.ledger.note_uncertain_write(&id(10), start());
        if !is_held {
            fixture.ledger.set_hold(&id(10), None);
            fixture.now += seconds(60);
            fixture.relist([described()]);
        }
        assert!(matches!(fixture.decide_published("web", 10), Decision::Withdraw(..)));
        fixture.ledger.note_read_back(&id(10), &pool_id("p"), &key("db"), true);
        assert!(matches!(fixture.decide_published("web", 10), Decision::Withdraw(..)), "by another claim");
        fixture.ledger.note_read_back(&id(10), &pool_id("p"), &key("web"), true);
        assert_eq!(fixture.decide_published("web", 10), Decision::Keep(id(10)));
    }
}

#[test]
fn a_claim_that_takes_nothing_holds_nothing() {
    let mut fixture = fixture().listed([10]).fips([fip(10)]).chosen_by(10, "db");
    fixture.ledger.note_uncertain_write(&id(10), start());
    fixture.ledger.end_holds(&pool_id("p"), &key("web"));
    assert!(fixture.entry(10).hold.is_some(), "it is not that claim's");
    fixture.ledger.end_holds(&pool_id("p"), &key("db"));
    assert_eq!(fixture.entry(10).hold, None);
    assert_ne!(marked(&fixture.decide("web")), Some(&id(10)), "the mark may still land");
    fixture.now += seconds(60);
    fixture.relist([fip(10)]);
    assert_eq!(marked(&fixture.decide("web")), Some(&id(10)));
}

#[test]
fn a_mark_that_an_uncertain_call_may_remove_is_not_taken_again_by_a_recreated_pool() {
    let owner = (pool_id("p"), key("web"));
    let mut fixture = fixture().fips([fip(10).tagged_for("web"), fip(11).tagged_for("web")]);
    for last in [10, 11] {
        fixture.ledger.begin_withdrawal(&id(last), &owner.0, &owner.1);
    }
    fixture.ledger.note_uncertain_write(&id(10), start());
    for last in [10, 11] {
        fixture.ledger.set_hold(&id(last), None);
    }
    fixture.lose_pool("p");
    fixture.ledger.note_served(&pool_id("p"), Viewer::default());
    assert_eq!(fixture.entry(10).disowned, [(owner, Disowned::GivenUp)].into());
    assert!(fixture.entry(11).disowned.is_empty(), "another process may have bound the claim to it meanwhile");
}

#[test]
fn a_floating_ip_without_marks_is_no_successor_beyond_the_limit() {
    let bound = || BoundAddress { address: address(10), fip: id(99) };
    let fixture = || fixture().fips([fip(10), fip(11).created_for("db")]).published_as("web", 10, id(99));
    let marked = Decision::Mark(id(10), Origin::Reuse, tag());
    assert_eq!(fixture().listed([10]).decide_bound("web", bound()), Decision::Mark(id(10), Origin::List, tag()));
    assert!(matches!(fixture().fenced().decide_bound("web", bound()), Decision::Fenced(_)));
    assert_eq!(fixture().max_ips(2).decide_bound("web", bound()), marked);
    let full = fixture().max_ips(1);
    assert_eq!(full.decide_bound("web", bound()), Decision::Lost(LostAddress::AboveLimit(address(10))));
    let mut held = full.held(10, hold_of("web"));
    held.ledger.note_uncertain_write(&id(10), start());
    assert_eq!(held.decide_bound("web", bound()), marked, "it counts already");
    held.ledger.set_hold(&id(10), Some(hold_of("db")));
    assert_eq!(held.decide_bound("web", bound()), Decision::Lost(LostAddress::Deleted(address(10))));
    held.ledger.note_uncertain_write(&id(10), start());
    held.ledger.set_hold(&id(10), Some(hold_of("web")));
    assert_eq!(held.decide_bound("web", bound()), Decision::Lost(LostAddress::Deleted(address(10))), "db's may land");
}

#[test]
fn of_two_marked_addresses_a_claim_that_had_one_has_the_attached_one() {
    for other in [fip(10).tagged_for("web"), fip(10).created_for("web")] {
        let mut fixture = fixture().fips([other.clone(), fip(11).tagged_for("web").attached()]);
        assert_eq!(claim_without_ip_address(&fixture), Decision::Keep(id(11)));
        // Its machine has the other one.
        fixture.ledger.note_bound(&id(10), &pool_id("p"), &key("web"));
        assert!(fixture.entry(11).disowned.is_empty());
    }
}

#[test]
fn a_claim_that_never_had_an_address_does_not_prefer_one_with_a_port() {
    let fixture = fixture().fips([fip(10).tagged_for("web"), fip(11).tagged_for("web").attached()]);
    assert_eq!(fixture.decide("web"), Decision::Keep(id(10)));
}

#[test]
fn a_published_address_that_is_the_pools_own_again_is_marked_for_the_claim_again() {
    let bound = || BoundAddress { address: address(10), fip: id(99) };
    let idle = fixture().fips([fip(10).idle()]).published_as("web", 10, id(99));
    assert_eq!(idle.decide_bound("web", bound()), Decision::Mark(id(10), Origin::Owned, describe(10)));
    let lost = Decision::Lost(LostAddress::Deleted(address(10)));
    let mut created = fixture().published_as("web", 10, id(99));
    created.ledger.begin_creation(unclaimed_mark(10).nonce, pool_id("p"), None);
    created.relist([fip(10).idle()]);
    assert_eq!(created.decide_bound("web", bound()), lost, "its creation is not answered");
    let copy = fixture().fips([fip(10).idle()]).published_since("db", 10, ago(5)).active_claim("db");
    let copy = copy.published_as("web", 10, id(99));
    assert_eq!(copy.decide_bound("web", bound()), lost, "an older claim has it");
    let attached = fixture().fips([fip(10).idle().attached()]).published_as("web", 10, id(99));
    assert_eq!(attached.decide_bound("web", bound()), not_free());
    let copy = fip(11).described(fip(10).idle().0.description);
    let copied = fixture().fips([fip(10).idle(), copy]).published_as("web", 10, id(99));
    assert_eq!(copied.decide_bound("web", bound()), lost, "which of the two it created cannot be told");
}

#[test]
fn a_new_address_whose_reply_was_lost_is_not_kept_if_a_deleted_floating_ip_with_it_is_still_published() {
    let fixture = fixture().fips([fip(10).created_for("web").created_at(start())]);
    let fixture = fixture.published_as("db", 10, id(99)).active_claim("db");
    assert!(matches!(fixture.decide("web"), Decision::Withdraw(..)));
    assert_eq!(claim_without_ip_address(&fixture), Decision::Keep(id(10)), "it may have had this one before");
    assert!(matches!(fixture.fenced().decide("web"), Decision::Fenced(_)), "a predecessor's calls may take effect");
    let forged = testing::fixture().fips([fip(10).created_for("web")]).published("db", 10);
    assert_eq!(forged.decide("web"), Decision::Keep(id(10)), "the mark decides about one floating IP");
}

#[test]
fn an_address_that_was_created_for_the_claim_may_be_being_deleted_until_the_fence_ends() {
    let created = || fixture().fips([fip(10).created_for("web")]);
    assert_eq!(created().decide("web"), Decision::Keep(id(10)));
    assert!(matches!(created().fenced().decide("web"), Decision::Fenced(_)), "it may have been unwanted");
    assert_eq!(created().fenced().published("web", 10).decide_published("web", 10), Decision::Keep(id(10)));
    assert_eq!(claim_without_ip_address(&created().fenced()), Decision::Keep(id(10)), "its status names an IPAddress");
    let attached = fixture().fips([fip(10).created_for("web").attached()]);
    assert_eq!(attached.fenced().decide("web"), Decision::Keep(id(10)));
    let mut written = created().fenced();
    let began = written.ledger.begin(start());
    written.ledger.record_write(fip(10).created_for("web").0, began);
    assert_eq!(written.decide("web"), Decision::Keep(id(10)), "this process created it");
}

#[test]
fn a_new_address_whose_reply_was_lost_is_withdrawn_although_somebody_uses_it_if_it_is_still_published() {
    let created = || fip(10).created_for("web").created_at(start()).attached();
    let fixture = || fixture().fips([created()]).published_as("db", 10, id(99)).active_claim("db");
    assert!(matches!(fixture().decide("web"), Decision::Withdraw(..)));
    assert!(matches!(fixture().fenced().decide("web"), Decision::Fenced(_)), "no other one is chosen before");
    let mut old = fixture();
    old.now += seconds(599);
    assert!(matches!(old.decide("web"), Decision::Withdraw(..)));
    old.now += seconds(1);
    assert_eq!(old.decide("web"), Decision::Keep(id(10)), "the claim's status was lost in a restore");
    let unknown = Fip(FloatingIp { created_at: None, ..created().0 });
    let unknown = testing::fixture().fips([unknown]).published_as("db", 10, id(99)).active_claim("db");
    assert_eq!(unknown.decide("web"), Decision::Keep(id(10)), "Neutron does not say how old it is");
    assert_eq!(claim_without_ip_address(&fixture()), Decision::Keep(id(10)), "its machine may use it");
    let held = fixture().held(10, Hold::Cleanup);
    assert!(!matches!(held.decide("web"), Decision::Withdraw(..)), "another write is under way");
    let elsewhere = testing::fixture().fips([created()]);
    assert_eq!(elsewhere.decide("web"), Decision::Keep(id(10)), "no IPAddress names it");
}

#[test]
fn an_ip_address_that_is_younger_than_the_floating_ip_names_no_deleted_one() {
    let created = |at| fixture().fips([fip(10).created_for("web").created_at(at)]).published_as("db", 10, id(99));
    assert!(matches!(created(start()).decide("web"), Decision::Withdraw(..)), "its claim may be restored");
    let decide = |at| created(at).active_claim("db").decide("web");
    assert!(matches!(decide(ago(60)), Decision::Withdraw(..)), "the clocks may be apart");
    assert_eq!(decide(ago(61)), Decision::Keep(id(10)), "it was restored, or a user made it");
}

#[test]
fn an_ip_address_of_another_pool_counts_if_it_says_its_network() {
    let published = |network| {
        let mut fixture = fixture().fips([fip(10).created_for("web").created_at(start())]);
        let binding = Binding { pool: pool_id("other"), claim: key("theirs"), fip: id(99), network, since: ago(5) };
        let published = PublishedAddress { address: address(10), binding: Some(binding) };
        fixture.published.insert(ObjectName::new("team", "theirs"), published);
        fixture.decide("web")
    };
    assert!(matches!(published(Some(network())), Decision::Withdraw(..)));
    assert_eq!(published(None), Decision::Keep(id(10)));
}

#[test]
fn an_ip_address_of_the_pool_counts_although_a_user_removed_its_network() {
    let mut fixture = fixture().fips([fip(10).created_for("web").created_at(start())]).active_claim("db");
    let binding = Binding { pool: pool_id("p"), claim: key("db"), fip: id(99), network: None, since: ago(5) };
    let published = PublishedAddress { address: address(10), binding: Some(binding) };
    fixture.published.insert(ObjectName::new("team", "db"), published);
    assert!(matches!(fixture.decide("web"), Decision::Withdraw(..)));
}

#[test]
fn a_claim_that_lost_its_ip_address_does_not_have_one_that_another_ip_address_names() {
    for spare in [fip(10).created_for("web"), fip(10).created_for("web").attached()] {
        let known_first = spare.created_at(ago(2));
        let mut fixture = fixture().fips([known_first.clone()]).published_as("db", 10, id(99)).active_claim("db");
        let had = fip(11).created_for("web").created_at(ago(1));
        fixture.relist([known_first, had.clone()]);
        assert_eq!(claim_without_ip_address(&fixture), Decision::Keep(id(11)));
    }
}

#[test]
fn a_tag_that_landed_late_on_another_address_does_not_count_once_the_claim_is_bound() {
    for had in [fip(11).created_for("web"), fip(11).tagged_for("web")] {
        let mut fixture = fixture().fips([fip(10).tagged_for("web"), had]);
        assert_eq!(fixture.decide("web"), Decision::Keep(id(10)), "it is not known which one it had");
        fixture.ledger.note_bound(&id(11), &pool_id("p"), &key("web"));
        assert_eq!(fixture.decide("web"), Decision::Keep(id(11)));
    }
}
