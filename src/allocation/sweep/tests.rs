//! Each rule of the sweep and of a pool's teardown, with an example and a counterexample.

use super::*;
use crate::allocation::identity::Nonce;
use crate::allocation::ledger::Hold;
use crate::allocation::mark::claim_tag;
use crate::allocation::policy::PoolPolicy;
use crate::allocation::published::PublishedAddress;
use crate::allocation::testing::*;
use crate::floating_ip::SubnetId;
use crate::object_name::ObjectName;

fn delete(last: u8) -> Vec<SweepAction> {
    vec![SweepAction::Delete(id(last))]
}

fn remove_tags(last: u8, tags: &[String]) -> Vec<SweepAction> {
    vec![SweepAction::Rewrite { id: id(last), description: None, tags: tags.to_vec() }]
}

fn make_idle(last: u8, is_retained: bool, tags: &[String]) -> Vec<SweepAction> {
    let description = Some(CreationMark { is_retained, ..unclaimed_mark(last) }.render(None));
    vec![SweepAction::Rewrite { id: id(last), description, tags: tags.to_vec() }]
}

fn old_release_tag(claim: &str) -> String {
    release_tag(&pool_id("p"), &key(claim), ago(9))
}

fn released() -> Fip {
    fip(10).created_for("web").released_by("web", ago(9))
}

#[test]
fn a_released_created_address_is_deleted() {
    assert_eq!(fixture().fips([released()]).plan().actions, delete(10));
}

#[test]
fn a_released_created_address_becomes_idle_in_a_pool_that_retains() {
    let retains = fixture().with_policy(|pool| pool.deletes = false).fips([released()]);
    assert_eq!(retains.plan().actions, make_idle(10, true, &[old_release_tag("web")]));
}

#[test]
fn a_released_listed_address_loses_its_claim_tags_first() {
    let fixture = fixture().fips([fip(10).tagged_for("web").released_by("web", ago(9)).tag("prod")]);
    let tags = [claim_tag(&pool_id("p"), &key("web")), old_release_tag("web")];
    assert_eq!(fixture.plan().actions, remove_tags(10, &tags));
}

#[test]
fn a_released_address_with_a_port_is_kept() {
    for fip in [released().attached(), released().forwarded()] {
        let plan = fixture().fips([fip]).plan();
        assert_eq!((plan.actions, plan.must_list, plan.wake_at), (vec![], false, Some(start() + seconds(9))));
    }
}

#[test]
fn a_port_that_was_seen_before_the_release_is_looked_for_at_once() {
    let mut fixture = fixture().fips([fip(10).created_for("web").attached()]);
    fixture.now = start() + seconds(2);
    fixture.ledger.record_tag(&id(10), &release_tag(&pool_id("p"), &key("web"), start() + seconds(1)), true);
    assert!(fixture.plan().must_list);
}

#[test]
fn a_port_that_stays_is_looked_for_less_and_less_often() {
    let pauses = [(0, 1), (1, 1), (2, 2), (9, 9), (599, 15), (-599, 15), (600, 75), (-600, 75)];
    for (age, pause) in pauses {
        let fip = fip(10).created_for("web").released_by("web", ago(age)).attached();
        let mut fixture = fixture().fips([fip]);
        let plan = fixture.plan();
        assert_eq!((plan.must_list, plan.wake_at), (false, Some(start() + seconds(pause))), "{age} s");
        fixture.now = start() + seconds(pause);
        let due = fixture.plan();
        assert_eq!((due.must_list, due.wake_at), (true, None), "{age} s: not at once again if no listing shows it");
    }
}

#[test]
fn a_released_address_is_listed_again_before_it_is_deleted() {
    let mut fixture = fixture().fips([fip(10).created_for("web")]);
    fixture.ledger.record_tag(&id(10), &old_release_tag("web"), true);
    let plan = fixture.plan();
    assert!(plan.actions.is_empty() && plan.must_list);
    fixture.relist([released()]);
    assert_eq!(fixture.plan().actions, delete(10));
}

#[test]
fn one_listing_is_cheaper_than_many_reads_if_it_is_quick() {
    let released = |last: u8| fip(last).created_for("web").released_by("web", ago(9));
    let mut nine = fixture().fips([10, 11, 12, 13, 14, 15, 16, 17, 18].map(released));
    let mut eight = fixture().fips([10, 11, 12, 13, 14, 15, 16, 17].map(released));
    let outdated = |fixture: &mut Fixture, passed: i64| {
        fixture.now = start() + seconds(passed);
        let plan = fixture.plan();
        count_outdated(&fixture.ledger, &plan.actions, fixture.now)
    };
    assert_eq!([&mut eight, &mut nine].map(|fixture| outdated(fixture, 5)), [0, 0]);
    assert_eq!([&mut eight, &mut nine].map(|fixture| outdated(fixture, 6)), [8, 9]);
    let is_cheaper = |fixture: &Fixture| [8, 9].map(|deletions| prefers_listing(&fixture.ledger, deletions, 0));
    assert_eq!(is_cheaper(&nine), [false, true]);
    assert!(!prefers_listing(&nine.ledger, 9, 1), "sweeps are refused");
    let began = nine.ledger.begin(nine.now);
    nine.ledger.record_listing(began, Vec::new(), nine.now + seconds(1));
    assert_eq!(is_cheaper(&nine), [false, true]);
    nine.ledger.note_failed_listing();
    assert_eq!(is_cheaper(&nine), [false, false], "the next one may fail, too");
    nine.ledger.record_listing(began, Vec::new(), nine.now + seconds(2));
    assert_eq!(is_cheaper(&nine), [false, false], "the next one would be outdated when it ends, too");
    nine.ledger.record_listing(began, Vec::new(), nine.now);
    assert_eq!(is_cheaper(&nine), [false, true]);
}

#[test]
fn an_address_that_neutron_has_although_it_was_deleted_is_left_alone_for_a_while() {
    let mut fixture = fixture().fips([released()]);
    fixture.ledger.record_deletion(&id(10));
    fixture.relist([released()]);
    let plan = fixture.plan();
    assert_eq!((plan.actions, plan.wake_at), (vec![], Some(start() + seconds(30))));
    fixture.now = start() + seconds(30);
    assert_eq!(fixture.plan().actions, delete(10));
}

#[test]
fn nothing_is_deleted_instead_of_an_address_that_neutron_has_although_it_was_deleted() {
    let spares = || [fip(10).idle(), fip(11).idle()];
    let with_surplus = || fixture().with_policy(|pool| (pool.max_ips, pool.min_free) = (Some(1), 2)).fips(spares());
    assert_eq!(with_surplus().plan().actions, delete(10));
    let mut fixture = with_surplus();
    fixture.ledger.record_deletion(&id(10));
    fixture.relist(spares());
    assert_eq!(fixture.plan().actions, vec![]);
}

#[test]
fn a_released_address_is_kept_for_the_grace_period() {
    let mut fixture = fixture().with_policy(|pool| pool.grace = seconds(30)).fips([released()]);
    assert_eq!((fixture.plan().actions, fixture.plan().wake_at), (vec![], Some(start() + seconds(21))));
    fixture.now = start() + seconds(21);
    assert_eq!(fixture.plan().actions, delete(10));
}

#[test]
fn a_release_with_a_time_that_is_yet_to_come_counts_from_now_on() {
    let fixture = || fixture().with_policy(|pool| pool.grace = seconds(30));
    let release = |at| release_tag(&pool_id("p"), &key("web"), at);
    for fip in [fip(10).created_for("web"), fip(10).tagged_for("web"), fip(10)] {
        let mut fixture = fixture().fips([fip.clone().released_by("web", start() + seconds(3600))]);
        assert_eq!(fixture.plan().actions, [SweepAction::Release(id(10), release(start()))]);
        fixture.ledger.record_tag(&id(10), &release(start()), true);
        fixture.relist([fip.clone().released_by("web", start() + seconds(3600)).released_by("web", start())]);
        assert_eq!((fixture.plan().actions, fixture.plan().wake_at), (vec![], Some(start() + seconds(30))));
        fixture.now = start() + seconds(30);
        assert_eq!(fixture.plan().actions.len(), 1);
        let of_a_clock_nearby = self::fixture().fips([fip.released_by("web", start() + seconds(60))]).plan();
        assert_eq!((of_a_clock_nearby.actions, of_a_clock_nearby.wake_at), (vec![], Some(start() + seconds(60))));
    }
    let described = CreationMark { claim: Some(key("web")), released: Some(Timestamp::MAX), ..unclaimed_mark(10) };
    let untagged =
        fixture().with_policy(|pool| pool.has_tags = false).fips([fip(10).described(described.render(None))]);
    let now = CreationMark { released: Some(start()), ..described };
    let describe = [SweepAction::Describe(id(10), now.clone())];
    assert_eq!(untagged.plan().actions, describe);
    let full = |fip: Fip| fixture().fips([fip.released_by("web", start() + seconds(3600)).full_of_tags()]).plan();
    assert_eq!(full(fip(10).created_for("web")).actions, describe);
    let corrected = full(fip(10).described(now.render(None)));
    assert_eq!((corrected.actions, corrected.wake_at), (vec![], Some(start() + seconds(30))));
}

#[test]
fn a_release_that_looks_early_to_a_slow_clock_alone_keeps_its_time() {
    let changed = |at| fip(10).created_for("web").released_by("web", start() + seconds(3600)).changed_at(at);
    let plan = |fip: Fip| fixture().fips([fip]).plan();
    assert_eq!(plan(changed(start() + seconds(3600))).actions, []);
    assert_eq!(plan(changed(start())).actions.len(), 1);
}

#[test]
fn a_released_address_is_offered_to_a_waiting_claim() {
    let plan = fixture().fips([released()]).waiting_claim("db").plan();
    assert_eq!((plan.actions, plan.offered), (vec![], 1));
    let plan = fixture().fips([released()]).reserving("db", 99).waiting_claim("db").plan();
    assert_eq!((plan.actions, plan.offered), (delete(10), 0), "db waits for its own reservation");
    let plan = fixture().fips([released()]).excluding("203.0.113.10/32").waiting_claim("db").plan();
    assert_eq!((plan.actions, plan.offered), (delete(10), 0), "no claim may have it");
    let two = || fixture().fips([released(), fip(11).created_for("api").released_by("api", ago(9))]);
    let plan = two().waiting_claim("db").plan();
    assert_eq!((plan.actions, plan.offered), (delete(11), 1), "one claim takes one address");
    let plan = two().waiting_claim("db").waiting_claim("queue").plan();
    assert_eq!((plan.actions, plan.offered), (vec![], 2));
}

#[test]
fn an_unwanted_address_is_deleted_unless_it_is_reserved_for_a_claim_that_waits() {
    let offered = || fixture().fips([fip(10).created_for("web")]).active_claim("web");
    let action = |fixture: Fixture| plan_discard(&fixture.situation(), &id(10));
    assert_eq!(action(offered()), delete(10).remove(0));
    assert_eq!(action(offered().reserving("db", 10)), delete(10).remove(0), "there is no such claim");
    assert_eq!(action(offered().reserving("db", 10).active_claim("db")), make_idle(10, false, &[]).remove(0));
    assert_eq!(action(offered().reserving("db", 10).active_claim("db").published("db", 11)), delete(10).remove(0));
    let excluded = offered().reserving("db", 10).active_claim("db").excluding("203.0.113.10/32");
    assert_eq!(action(excluded), delete(10).remove(0));
}

#[test]
fn a_released_address_becomes_idle_for_the_claim_that_reserves_it() {
    let reserved = || fixture().fips([released()]).reserving("db", 10);
    let idle = make_idle(10, true, &[old_release_tag("web")]);
    assert_eq!(reserved().active_claim("db").plan().actions, idle);
    assert_eq!(reserved().active_claim("db").published("db", 11).plan().actions, idle, "the next db may have it");
    assert_eq!(reserved().plan().actions, idle, "that claim may be created");
    assert_eq!(reserved().excluding("203.0.113.10/32").plan().actions, delete(10));
}

#[test]
fn a_released_address_is_left_to_its_claim_when_that_exists_again() {
    assert!(fixture().fips([released()]).active_claim("web").plan().actions.is_empty());
    assert!(fixture().fips([released()]).published("web", 10).plan().actions.is_empty());
}

#[test]
fn a_released_address_that_its_claim_may_not_have_again_is_not_left_to_it() {
    let again = || fixture().fips([released()]).active_claim("web");
    assert_eq!(again().excluding("203.0.113.10/32").plan().actions, delete(10));
    assert!(again().reserving("web", 10).plan().actions.is_empty());
    assert_eq!(again().reserving("db", 10).plan().actions, make_idle(10, true, &[old_release_tag("web")]));
}

#[test]
fn a_released_address_is_deleted_when_its_claim_has_another_address() {
    let fixture = fixture().fips([released(), fip(11).created_for("web")]).active_claim("web").published("web", 11);
    assert_eq!(fixture.plan().actions, delete(10));
}

#[test]
fn a_released_address_becomes_a_missing_spare() {
    let spares = |count| fixture().with_policy(|pool| pool.min_free = count).fips([released(), fip(11).idle()]).plan();
    assert_eq!(spares(1).actions, delete(10));
    assert_eq!(spares(2).actions, make_idle(10, true, &[old_release_tag("web")]));
    let two = fixture().fips([released(), fip(11).created_for("api").released_by("api", ago(9))]);
    let plan = two.with_policy(|pool| pool.min_free = 1).plan();
    assert_eq!(plan.actions, [make_idle(10, true, &[old_release_tag("web")]), delete(11)].concat(), "one is missing");
    assert_eq!(plan.new_spares, 0);
}

#[test]
fn held_and_uncertain_addresses_are_not_swept() {
    assert!(fixture().fips([released()]).chosen_by(10, "db").plan().actions.is_empty());
    let mut fixture = fixture().fips([released()]);
    fixture.ledger.note_uncertain_write(&id(10), start());
    let plan = fixture.plan();
    assert!(plan.actions.is_empty() && plan.must_list);
}

#[test]
fn while_fenced_nothing_is_swept() {
    let plan = fixture().fenced().with_policy(|pool| pool.min_free = 1).fips([released()]).plan();
    assert_eq!((plan.actions, plan.new_spares, plan.wake_at), (vec![], 0, Some(start() + seconds(60))));
    assert!(!plan.must_list);
    let mut fenced = fixture().fenced().fips([fip(10).created_for("web")]);
    fenced.ledger.record_tag(&id(10), &old_release_tag("web"), true);
    assert!(fenced.plan().must_list, "the release has to be listed");
    let mut ended = fixture().fenced().fips([released()]);
    ended.now = start() + seconds(60);
    assert_eq!((ended.plan().actions, ended.plan().must_list), (vec![], true), "a listing ends it");
    ended.relist([released()]);
    assert_eq!((ended.plan().actions, ended.plan().must_list), (delete(10), false));
}

#[test]
fn missing_spares_are_created_and_surplus_ones_deleted() {
    let spares = |count| fixture().with_policy(|pool| pool.min_free = count).fips([fip(10).idle(), fip(11).idle()]);
    assert_eq!(spares(3).plan().new_spares, 1);
    assert!(spares(2).plan().actions.is_empty());
    assert_eq!(spares(1).plan().actions, delete(10));
    assert!(spares(1).waiting_claim("db").plan().actions.is_empty(), "a waiting claim takes it");
    assert_eq!(spares(4).max_ips(3).plan().new_spares, 1, "never more than maxIPs");
    assert_eq!(spares(2).max_ips(1).plan().actions, delete(10), "maxIPs was lowered");
    assert_eq!(spares(3).waiting_claim("db").plan().new_spares, 0, "a waiting claim asks Neutron itself");
    assert!(spares(0).with_policy(|pool| pool.deletes = false).plan().actions.is_empty(), "retained ones stay");
}

#[test]
fn min_free_counts_only_free_addresses_that_the_pool_created() {
    let retained = CreationMark { is_retained: true, ..unclaimed_mark(10) };
    let table = [
        ("created in advance", fip(10).idle(), 0),
        ("retained", fip(10).described(retained.render(None)), 0),
        ("created by the pool, and listed since", fip(20).idle(), 0),
        ("listed", fip(20), 1),
        ("reusable", fip(10), 1),
        ("allocated", fip(10).created_for("web"), 1),
        ("in its grace period", released(), 1),
        ("listed and in its grace period", fip(20).tagged_for("web").released_by("web", ago(9)), 1),
        ("attached", fip(10).idle().attached(), 1),
        ("excluded", fip(30).idle(), 1),
        ("reserved", fip(31).idle(), 1),
        ("on another network", fip(10).idle().on_network("another"), 1),
    ];
    for (what, fip, missing) in table {
        let policy = |pool: &mut PoolPolicy| (pool.min_free, pool.grace) = (1, seconds(60));
        let fixture = fixture().listed([20]).excluding("203.0.113.30/32").reserving("db", 31).with_policy(policy);
        assert_eq!(fixture.fips([fip]).plan().new_spares, missing, "{what}");
    }
}

#[test]
fn a_retained_address_counts_as_a_spare_and_no_other_is_created() {
    let retains = |pool: &mut PoolPolicy| (pool.min_free, pool.deletes) = (1, false);
    let plan = fixture().with_policy(retains).fips([released()]).plan();
    assert_eq!((plan.actions, plan.new_spares), (make_idle(10, true, &[old_release_tag("web")]), 0));
    let two = fixture().with_policy(retains).fips([released(), fip(11).idle()]).plan();
    assert_eq!((two.actions.len(), two.new_spares), (1, 0), "more than minFree are kept");
}

#[test]
fn a_spare_that_was_created_during_a_grace_period_is_surplus_after_it() {
    let fips = || [released(), fip(11).idle()];
    let mut fixture = fixture().with_policy(|pool| (pool.min_free, pool.grace) = (1, seconds(30))).fips(fips());
    assert_eq!((fixture.plan().actions, fixture.plan().new_spares), (vec![], 0));
    fixture.now = start() + seconds(21);
    assert_eq!((fixture.plan().actions, fixture.plan().new_spares), (delete(10), 0), "one is kept");
}

#[test]
fn spares_that_are_being_created_are_not_created_twice() {
    let mut fixture = fixture().with_policy(|pool| pool.min_free = 2);
    let nonce = Nonce::parse("nonce12345").expect("a nonce");
    fixture.ledger.begin_creation(nonce, pool_id("p"), None);
    assert_eq!(fixture.plan().new_spares, 1);
    fixture.ledger.note_only_unwanted(&pool_id("p"), None, start());
    assert_eq!(fixture.plan().new_spares, 0, "Neutron offers only unwanted addresses");
}

#[test]
fn a_spare_that_no_claim_may_have_is_deleted() {
    let spare = || fixture().with_policy(|pool| pool.min_free = 1).fips([fip(10).idle()]);
    assert_eq!(spare().excluding("203.0.113.0/28").plan().actions, delete(10));
    assert!(spare().reserving("db", 10).plan().actions.is_empty(), "db may be created");
    assert!(spare().reserving("db", 10).active_claim("db").plan().actions.is_empty());
    assert!(spare().with_policy(|pool| pool.network = None).plan().actions == delete(10));
}

#[test]
fn an_attached_or_published_spare_is_kept() {
    let attached = || fixture().fips([fip(10).idle().attached()]);
    let published = || fixture().fips([fip(10).idle()]).published_by_others(10);
    let unwanted = |fixture: Fixture| fixture.excluding("203.0.113.10/32");
    for kept in [attached(), published(), unwanted(attached()), unwanted(published())] {
        let plan = kept.plan();
        assert_eq!((plan.actions, plan.must_list), (vec![], false));
    }
}

#[test]
fn an_orphan_is_reported_first_and_released_after_the_grace_and_a_new_listing() {
    let mut fixture = fixture().fips([fip(10).created_for("web")]);
    let plan = fixture.plan();
    assert_eq!((plan.orphans, plan.actions), (vec![id(10)], vec![]));
    assert_eq!((plan.wake_at, plan.must_list), (Some(start() + seconds(3600)), false));
    fixture.ledger.note_orphans(&pool_id("p"), &[id(10)], start());
    fixture.now = start() + seconds(3599);
    assert!(fixture.plan().actions.is_empty());
    fixture.now = start() + seconds(3600);
    let plan = fixture.plan();
    assert_eq!((plan.must_list, plan.actions), (true, vec![]), "a new listing has to show it again");
    fixture.relist([fip(10).created_for("web")]);
    let tag = release_tag(&pool_id("p"), &key("web"), fixture.now);
    assert_eq!(fixture.plan().actions, vec![SweepAction::Release(id(10), tag)]);
}

#[test]
fn each_pool_times_its_orphans_separately() {
    let (ours, theirs) = (pool_id("p"), pool_id("other"));
    let both = || fip(10).tagged_for("web").tagged_by_another_pool();
    let mut fixture = fixture().fips([both()]);
    fixture.ledger.note_orphans(&ours, &[id(10)], start());
    fixture.ledger.note_orphans(&theirs, &[], start());
    fixture.now = start() + seconds(3600);
    fixture.relist([both()]);
    assert_eq!(fixture.plan().actions.len(), 1, "the sweep of the other pool does not reset the time");
    fixture.ledger.note_orphans(&ours, &[], fixture.now);
    fixture.ledger.note_orphans(&theirs, &[id(10)], start());
    assert_eq!(fixture.plan().actions, vec![], "our pool has seen it as an orphan for the first time");
}

#[test]
fn an_orphan_is_kept_where_the_pool_or_its_use_requires_it() {
    let plan_when_due = |change: fn(&mut Fixture)| {
        let mut fixture = fixture().fips([fip(10).tagged_for("web")]);
        fixture.ledger.note_orphans(&pool_id("p"), &[id(10)], ago(3600));
        change(&mut fixture);
        fixture.plan()
    };
    assert_eq!(plan_when_due(|_| ()).actions.len(), 1);
    assert!(plan_when_due(|fixture| fixture.pool.releases_orphans = false).actions.is_empty());
    assert!(plan_when_due(|fixture| fixture.cluster.is_paused = true).actions.is_empty());
    assert!(plan_when_due(|fixture| fixture.relist([fip(10).tagged_for("web").attached()])).actions.is_empty());
    assert_eq!(plan_when_due(|fixture| fixture.cluster.is_paused = true).orphans, vec![id(10)]);
    assert!(plan_when_due(|fixture| fixture.claims.extend([(key("web"), ClaimState::Waiting)])).orphans.is_empty());
    let of_another_pool = plan_when_due(|fixture| fixture.cluster.claims_of_duplicates.extend([key("web")]));
    assert_eq!((of_another_pool.orphans, of_another_pool.actions), (vec![], vec![]), "that pool has the same id");
}

#[test]
fn an_address_whose_claim_is_gone_is_an_orphan_although_its_ip_address_is_still_there() {
    let published = || fixture().fips([fip(10).created_for("web")]).published("web", 10);
    assert_eq!(published().lost_claim("web").plan().orphans, vec![id(10)]);
    assert!(published().plan().orphans.is_empty(), "its claim may point at another pool with this id");
    assert!(
        published().lost_claim("web").published_by_others(10).plan().orphans.is_empty(),
        "another provider's claim may have it"
    );
}

#[test]
fn an_orphan_with_as_many_tags_as_neutron_allows_is_released_without_another_one() {
    let planned = |fip: Fip| {
        let mut fixture = fixture().fips([fip.full_of_tags()]);
        fixture.ledger.note_orphans(&pool_id("p"), &[id(10)], ago(3600));
        fixture.plan().actions
    };
    assert!(matches!(planned(fip(10).created_for("web"))[..], [SweepAction::Describe(..)]));
    assert_eq!(planned(fip(10).tagged_for("web")), remove_tags(10, &[claim_tag(&pool_id("p"), &key("web"))]));
    let mark = CreationMark { claim: Some(key("web")), released: Some(start()), ..unclaimed_mark(10) };
    assert_eq!(planned(fip(10).idle().tagged_for("web")), vec![SweepAction::Describe(id(10), mark)]);
}

/// The IPAddress of `db` names a floating IP that is gone, and this one has its address.
fn replacing(fip: Fip) -> Fixture {
    fixture().fips([fip.created_at(start())]).published_as("db", 10, id(99)).active_claim("db")
}

#[test]
fn what_replaces_a_deleted_floating_ip_is_an_orphan_where_its_mark_names_a_claim_with_another_address() {
    let held = || replacing(fip(10).created_for("web"));
    assert_eq!(held().plan().orphans, [id(10)], "that claim does not exist");
    assert!(held().active_claim("web").plan().orphans.is_empty(), "the claim withdraws its mark itself");
    assert_eq!(held().published("web", 11).active_claim("web").plan().orphans, [id(10)]);
    let named = || fixture().fips([fip(10).created_for("web").created_at(start())]);
    assert!(named().published("db", 10).plan().orphans.is_empty(), "an IPAddress names itself");
    let restored = fixture().fips([fip(10).created_for("web").created_at(ago(61))]).published_as("db", 10, id(99));
    assert!(restored.plan().orphans.is_empty(), "the IPAddress is younger");
    assert!(
        named().published_as("web", 10, id(99)).plan().orphans.is_empty(),
        "its own, with an id that a user changed"
    );
    let of_another_claim =
        fixture().fips([fip(10).created_for("db").created_at(start())]).published_as("web", 10, id(99));
    assert_eq!(of_another_claim.plan().orphans, [id(10)]);
}

#[test]
fn what_replaces_a_deleted_floating_ip_is_left_to_its_claim_once_it_is_released() {
    let plan_idle = || make_idle(10, true, &[old_release_tag("web")]);
    let plan = replacing(released()).waiting_claim("queue").plan();
    assert_eq!((plan.actions, plan.offered), (plan_idle(), 0));
    assert_eq!(replacing(released()).active_claim("web").plan().actions, plan_idle(), "it may not have it again");
    assert!(replacing(released()).active_claim("web").published("web", 10).plan().actions.is_empty());
    let without_claim = || fixture().fips([released().created_at(start())]).published_as("db", 10, id(99));
    assert_eq!(without_claim().plan().actions, delete(10), "that claim does not exist");
    let cluster = ClusterView { claims_of_duplicates: [key("db")].into(), ..ClusterView::default() };
    let of_a_copy = plan_sweep(&without_claim().situation(), &cluster, SweepScope::All);
    assert_eq!(of_a_copy.actions, plan_idle(), "the claim is that of a pool with the same id");
    let tagged = replacing(fip(10).tagged_for("web").released_by("web", ago(9)));
    assert_eq!(
        tagged.plan().actions,
        remove_tags(10, &[claim_tag(&pool_id("p"), &key("web")), old_release_tag("web")])
    );
}

#[test]
fn what_replaces_a_deleted_floating_ip_is_deleted_unless_a_claim_of_the_pool_takes_it() {
    assert!(replacing(fip(10).idle()).plan().actions.is_empty());
    let of_another_pool = |network| {
        let mut fixture = fixture().fips([fip(10).idle().created_at(start())]).waiting_claim("queue");
        let binding = Binding { pool: pool_id("other"), claim: key("db"), fip: id(99), network, since: ago(5) };
        let published = PublishedAddress { address: address(10), binding: Some(binding) };
        fixture.published.insert(ObjectName::new("team", "db"), published);
        fixture.plan().actions
    };
    assert_eq!(of_another_pool(Some(network())), delete(10));
    assert!(of_another_pool(None).is_empty(), "its network is not known");
    assert!(fixture().fips([fip(10).idle().created_at(start())]).published_by_others(10).plan().actions.is_empty());
}

#[test]
fn what_is_needed_by_now_is_not_deleted_as_planned() {
    let is_unneeded = |fixture: Fixture| is_still_unneeded(&fixture.situation(), &id(10));
    let planned = || fixture().fips([released()]);
    assert!(is_unneeded(planned()));
    assert!(!is_unneeded(planned().published("web", 10)), "its claim is restored");
    assert!(is_unneeded(planned().published_as("db", 10, id(99))), "that names a floating IP that is gone");
    assert!(is_unneeded(planned().reserving("db", 10)), "that claim does not exist");
    assert!(!is_unneeded(planned().reserving("db", 10).active_claim("db")));
    assert!(is_unneeded(fixture().fips([])), "it is gone");
}

/// `web` has another address than this one, which was created for it.
fn offered(change: impl FnOnce(Fip) -> Fip) -> Fixture {
    let offer = change(fip(30).created_for("web").created_at(ago(100_002)));
    let fixture = fixture().excluding("203.0.113.30/32").fips([offer, fip(10).created_for("web")]);
    fixture.bound_claim("web").published("web", 10)
}

#[test]
fn what_neutron_offered_and_its_claim_may_not_have_is_deleted_once_that_has_another() {
    let swept = |fixture: Fixture| (fixture.plan().actions, fixture.plan().orphans);
    assert_eq!(swept(offered(|fip| fip)), (delete(30), vec![]));
    assert_eq!(swept(offered(|fip| fip).with_policy(|pool| pool.deletes = false)), (delete(30), vec![]));
    for (what, fixture) in [
        ("the claim may have it", offered(|fip| fip).with_policy(|pool| pool.excluded.clear())),
        ("it is attached", offered(Fip::attached)),
        ("it has changed", offered(|fip| fip.created_at(ago(100_003)))),
        ("the network is not known", offered(|fip| fip).with_policy(|pool| pool.only_releases = true)),
        ("the pool did not create it", offered(|_| fip(30).tagged_for("web").created_at(ago(100_000)))),
    ] {
        assert_eq!(swept(fixture), (vec![], vec![id(30)]), "{what}");
    }
    let mut gone = offered(|fip| fip);
    gone.claims.clear();
    assert_eq!(swept(gone).0, vec![], "the claim is gone");
    let mut paused = offered(|fip| fip);
    paused.cluster.is_paused = true;
    assert_eq!(swept(paused), (vec![], vec![id(30)]), "that may be an old IPAddress");
    let needed = fixture().excluding("203.0.113.30/32").fips([fip(30).created_for("web").created_at(ago(100_000))]);
    assert_eq!(swept(needed.active_claim("web")), (vec![], vec![]), "the claim decides");
}

#[test]
fn what_neutron_offered_is_given_to_the_claim_that_reserves_it() {
    let reserved = || offered(|fip| fip).with_policy(|pool| pool.excluded.clear()).reserving("db", 30);
    assert_eq!(reserved().plan().actions, delete(30), "that claim does not exist");
    assert_eq!(reserved().active_claim("db").plan().actions, make_idle(30, false, &[]));
}

#[test]
fn what_neutron_offered_is_listed_again_before_it_is_deleted() {
    let mut fixture = offered(|fip| fip);
    fixture.ledger.record_tag(&id(30), "team", true);
    assert_eq!((fixture.plan().actions, fixture.plan().must_list), (vec![], true));
}

#[test]
fn a_pool_that_retains_deletes_what_no_machine_had_and_no_claim_may_get() {
    let retained = CreationMark { is_retained: true, ..unclaimed_mark(30) };
    let actions = |fip| {
        let fixture = fixture().excluding("203.0.113.30/32").reserving("db", 31);
        fixture.with_policy(|pool| pool.deletes = false).fips([fip]).plan().actions
    };
    assert_eq!(actions(fip(30).idle()), delete(30));
    for kept in [fip(30).described(retained.render(None)), fip(31).idle(), fip(10).idle(), fip(30).idle().attached()] {
        assert_eq!(actions(kept), vec![]);
    }
}

#[test]
fn a_pool_that_only_releases_deletes_no_spare() {
    let fixture = fixture().fips([fip(11).idle(), released()]);
    assert_eq!(fixture.plan().actions.len(), 2);
    assert_eq!(fixture.with_policy(|pool| pool.only_releases = true).plan().actions.len(), 1);
}

#[test]
fn a_pool_that_only_releases_creates_no_spare() {
    let missing = |only_releases| {
        let policy = |pool: &mut PoolPolicy| (pool.min_free, pool.only_releases) = (1, only_releases);
        fixture().with_policy(policy).fips([]).plan().new_spares
    };
    assert_eq!((missing(false), missing(true)), (1, 0));
}

/// Nothing else wakes it when Neutron may be asked again.
#[test]
fn a_pool_that_lacks_spares_tries_again_after_a_refusal() {
    let planned = |fixture: Fixture| {
        let plan = fixture.with_policy(|pool| pool.min_free = 1).plan();
        (plan.new_spares, plan.wake_at)
    };
    assert_eq!(planned(fixture().blocked()), (0, Some(start() + seconds(20))));
    assert_eq!(planned(fixture()), (1, None));
    assert_eq!(planned(fixture().blocked().fips([fip(10).idle()])), (0, None), "it has its spare");
    assert_eq!(planned(fixture().blocked().max_ips(0)), (0, None), "it has no room for one");
    let subnet = SubnetId::new("s");
    let mut empty = fixture().with_policy(|pool| pool.subnets = vec![subnet.clone()]);
    empty.ledger.note_empty_subnet(&pool_id("p"), subnet, start() + seconds(60));
    assert_eq!(planned(empty), (0, Some(start() + seconds(20))), "none of its subnets can be used");
}

/// Whatever else is on it, and whatever the pool's rules say.
#[test]
fn what_a_newer_version_has_marked_is_never_released_rewritten_or_deleted() {
    let beside = [
        fip(10).idle(),
        fip(10).created_for("web"),
        fip(10).tagged_for("web"),
        released(),
        fip(10).tagged_for("web").released_by("web", ago(9)),
        fip(10),
    ];
    let newer = beside.iter().map(|fip| fip.clone().tag("caip2.p")).chain([
        fip(10).described("caip-openstack v=2 pool=p"),
        fip(10).tagged_for("web").described("caip-openstack v=2 pool=p"),
    ]);
    for fip in newer {
        let what = format!("{:?}", fip.0);
        let policy = |pool: &mut PoolPolicy| (pool.min_free, pool.orphan_grace) = (1, seconds(0));
        let mut fixture = fixture().with_policy(policy).listed([10]).fips([fip]);
        fixture.ledger.note_orphans(&pool_id("p"), &[id(10)], ago(9));
        assert!(fixture.plan().actions.is_empty(), "{what}");
        let teardown = fixture.teardown();
        let own_tags = |action: &SweepAction| matches!(action, SweepAction::Rewrite { description: None, .. });
        assert!(teardown.actions.iter().all(own_tags) && !teardown.must_list, "{what}");
        assert!(!fixture.ledger.may_delete(&id(10), &pool_id("p")), "{what}");
        assert_eq!(marked(&fixture.decide("db")), None, "{what}");
        assert_eq!(fixture.plan().new_spares, 1, "it is no spare: {what}");
    }
    let created = fixture().fips([fip(10).created_for("web").tag("caip2.p").attached()]).teardown();
    assert_eq!((created.newer, created.actions), (vec![id(10)], vec![]), "it is reported");
    let tagged = fixture().fips([fip(10).tagged_for("web").tag("caip2.p")]).teardown();
    assert_eq!(
        tagged.actions,
        remove_tags(10, &[claim_tag(&pool_id("p"), &key("web"))]),
        "our own tag is no mark of theirs"
    );
}

#[test]
fn an_orphan_is_never_released_when_first_seen() {
    let mut fixture = fixture().with_policy(|pool| pool.orphan_grace = seconds(0)).fips([fip(10).tagged_for("web")]);
    assert!(fixture.plan().actions.is_empty());
    fixture.ledger.note_orphans(&pool_id("p"), &[id(10)], start());
    assert_eq!(fixture.plan().actions.len(), 1);
}

#[test]
fn a_second_address_of_an_active_claim_is_an_orphan() {
    let fixture = fixture().fips([fip(10).created_for("web"), fip(11).created_for("web")]).active_claim("web");
    assert!(fixture.plan().orphans.is_empty(), "neither is published yet");
    assert_eq!(fixture.published("web", 11).plan().orphans, vec![id(10)]);
}

#[test]
fn a_sweep_of_unsettled_addresses_finds_all_but_orphans_and_missing_tags() {
    let held = |last, claim| fip(last).created_for(claim);
    let rows = [held(10, "web"), held(11, "gone"), fip(12).created_for("db").released_by("db", ago(9)), fip(13).idle()];
    let mut fixture = fixture().fips(rows).active_claim("web").published("web", 10);
    fixture.pool.tags = ["cost".into()].into();
    fixture.ledger.note_orphans(&pool_id("p"), &[id(11)], ago(9000));
    let [all, unsettled] = [SweepScope::All, SweepScope::Unsettled].map(|scope| fixture.plan_of(scope));
    let deleted = [delete(12), delete(13)].concat();
    assert_eq!((all.scope, all.actions.len(), all.orphans, all.labels.len()), (SweepScope::All, 3, vec![id(11)], 1));
    let found = (unsettled.scope, unsettled.actions, unsettled.orphans, unsettled.labels.len());
    assert_eq!(found, (SweepScope::Unsettled, deleted, vec![], 0));
}

#[test]
fn a_sweep_of_unsettled_addresses_waits_for_a_listing_of_what_may_have_changed() {
    let mut fixture = fixture().fips([fip(10).created_for("web"), fip(11)]).active_claim("web");
    let must_list = |fixture: &Fixture| fixture.plan_of(SweepScope::Unsettled).must_list;
    fixture.ledger.note_uncertain_write(&id(11), fixture.now);
    assert!(!must_list(&fixture), "it is not the pool's");
    fixture.ledger.set_hold(&id(10), Some(Hold::Cleanup));
    fixture.ledger.note_uncertain_write(&id(10), fixture.now);
    assert!(!must_list(&fixture), "it is being written");
    fixture.ledger.set_hold(&id(10), None);
    assert!(must_list(&fixture));
}

#[test]
fn a_stale_release_tag_on_a_held_address_is_removed() {
    let mut fixture = fixture().fips([fip(10).created_for("db").released_by("web", ago(9))]).active_claim("db");
    assert_eq!(fixture.plan().actions, remove_tags(10, &[old_release_tag("web")]));
    assert_eq!(fixture.plan_of(SweepScope::Unsettled).actions, fixture.plan().actions);
    fixture.ledger.begin_withdrawal(&id(10), &pool_id("p"), &key("db"));
    fixture.ledger.end_withdrawal(&id(10), Hold::Cleanup, false);
    assert!(fixture.plan().actions.is_empty(), "the claim removes its own mark again");
}

#[test]
fn floating_ips_with_a_copied_mark_are_reported_and_not_deleted() {
    let copy = released().0.description;
    let fixture = fixture().fips([released(), fip(11).described(copy).released_by("web", ago(9))]);
    let plan = fixture.plan();
    assert_eq!((plan.actions, plan.copied), (vec![], vec![id(10), id(11)]));
}

#[test]
fn only_our_own_tags_are_removed_from_a_contested_address() {
    let contested = || fip(10).tagged_for("web").tagged_by_another_pool();
    let mut fixture = fixture().fips([contested()]);
    assert!(fixture.plan().actions.is_empty());
    fixture.ledger.note_orphans(&pool_id("p"), &[id(10)], ago(3600));
    let tag = claim_tag(&pool_id("p"), &key("web"));
    assert_eq!(fixture.plan().actions, remove_tags(10, std::slice::from_ref(&tag)));
    fixture.relist([contested().attached()]);
    assert_eq!(fixture.plan().actions, remove_tags(10, std::slice::from_ref(&tag)), "the port is the other owner's");
    fixture.cluster.claims_of_duplicates = [key("web")].into();
    assert!(fixture.plan().actions.is_empty(), "its claim points at another pool with this id");
    fixture.cluster.claims_of_duplicates.clear();
    let fixture = fixture.active_claim("web");
    assert!(fixture.plan().actions.is_empty(), "its claim withdraws the tag itself");
    assert_eq!(fixture.published("web", 12).plan().actions, remove_tags(10, &[tag]));
}

#[test]
fn of_two_ip_addresses_that_name_a_contested_address_each_justifies_its_own_claims_mark() {
    let contested = fip(10).created_for("web").tagged_for("web").tagged_for("gone");
    let mut fixture = fixture().fips([contested]).active_claim("web").active_claim("copy");
    fixture = fixture.published("copy", 10).published("web", 10);
    fixture.ledger.note_orphans(&pool_id("p"), &[id(10)], ago(3600));
    assert_eq!(fixture.plan().actions, remove_tags(10, &[claim_tag(&pool_id("p"), &key("gone"))]));
}

#[test]
fn a_late_mark_is_removed_from_a_contested_address_at_once_if_its_claim_has_another() {
    let contested = fixture().fips([fip(10).tagged_for("web").tagged_by_another_pool()]);
    let mut contested = contested.active_claim("web").published("web", 12);
    let plan = contested.plan();
    assert_eq!((plan.orphans, plan.actions), (vec![], remove_tags(10, &[claim_tag(&pool_id("p"), &key("web"))])));
    contested.cluster.is_paused = true;
    assert!(contested.plan().actions.is_empty(), "a move may be under way");
    let plan = fixture().fips([fip(10).idle().tagged_by_another_pool()]).plan();
    assert_eq!((plan.orphans, plan.actions), (vec![id(10)], vec![]), "there is no such claim");
}

#[test]
fn what_two_owners_had_marked_is_something_that_a_claim_had() {
    for deletes in [true, false] {
        let contested = fixture().fips([fip(10).created_for("web").tagged_by_another_pool()]);
        let contested = contested.active_claim("web").published("web", 12);
        assert_eq!(contested.with_policy(|pool| pool.deletes = deletes).plan().actions, make_idle(10, true, &[]));
    }
}

#[test]
fn a_contested_address_keeps_its_tags_where_the_pool_releases_no_orphans() {
    let contested = || fip(10).tagged_for("web").tagged_by_another_pool();
    let due = |fixture: Fixture| {
        let mut fixture = fixture.with_policy(|pool| pool.releases_orphans = false);
        fixture.ledger.note_orphans(&pool_id("p"), &[id(10)], ago(3600));
        fixture.plan()
    };
    let kept = due(fixture().fips([contested()]));
    assert_eq!((kept.orphans, kept.actions), (vec![id(10)], vec![]));
    // Another claim of the pool has the address, or the tag's claim has another one: this tag has no use.
    let tags = [claim_tag(&pool_id("p"), &key("web"))];
    for other in [
        due(fixture().fips([contested().tagged_for("db")]).published("db", 10)),
        due(fixture().fips([contested().tagged_for("db")]).active_claim("db")),
        due(fixture().fips([contested()]).active_claim("web").published("web", 12)),
    ] {
        assert_eq!(other.actions, remove_tags(10, &tags));
    }
}

#[test]
fn a_contested_address_whose_claim_has_it_is_left_alone() {
    let contested = || fixture().fips([fip(10).tagged_for("web").tagged_by_another_pool()]);
    for fixture in [contested().published("web", 10), contested().active_claim("web")] {
        let plan = fixture.plan();
        assert_eq!((plan.orphans, plan.actions, plan.wake_at), (vec![], vec![], None));
    }
    let created = fixture().fips([fip(10).idle().tagged_by_another_pool()]);
    assert_eq!(created.plan().orphans, vec![id(10)], "no claim has it, and only people can remove the other mark");
}

#[test]
fn a_contested_address_that_the_pool_created_is_its_own_again_without_the_orphaned_claim() {
    let mut fixture = fixture().fips([fip(10).created_for("web").tagged_by_another_pool()]);
    fixture.ledger.note_orphans(&pool_id("p"), &[id(10)], ago(3600));
    assert_eq!(fixture.plan().actions, make_idle(10, true, &[]));
    fixture.relist([fip(10).created_for("web").tagged_by_another_pool().attached()]);
    assert_eq!(fixture.plan().actions, vec![], "the port may be the claim's");
    fixture.relist([fip(10).created_for("web").tagged_for("db").tagged_by_another_pool()]);
    let fixture = fixture.active_claim("web");
    let tags = [claim_tag(&pool_id("p"), &key("db"))];
    assert_eq!(fixture.plan().actions, remove_tags(10, &tags), "what is written for its claim stays");
}

#[test]
fn released_tags_on_a_contested_address_are_removed_at_once() {
    let fixture =
        fixture().fips([fip(10).tagged_for("web").released_by("web", ago(9)).tagged_by_another_pool().attached()]);
    let tags = [claim_tag(&pool_id("p"), &key("web")), old_release_tag("web")];
    assert_eq!(fixture.plan().actions, remove_tags(10, &tags));
}

#[test]
fn an_unreadable_mark_is_never_changed() {
    let mut fixture = fixture().fips([fip(10).tagged_for("web").tag("caip.of-a-newer-kind")]);
    fixture.ledger.note_orphans(&pool_id("p"), &[id(10)], ago(9000));
    assert!(fixture.plan().actions.is_empty());
}

#[test]
fn without_tags_a_release_is_read_from_and_written_to_the_description() {
    let no_tags = || fixture().with_policy(|pool| pool.has_tags = false);
    let mark = CreationMark { claim: Some(key("web")), released: Some(ago(9)), ..unclaimed_mark(10) };
    assert_eq!(no_tags().fips([fip(10).described(mark.render(None))]).plan().actions, delete(10));
    let mut fixture = no_tags().fips([fip(10).created_for("web")]);
    fixture.ledger.note_orphans(&pool_id("p"), &[id(10)], ago(3600));
    let mark = CreationMark { released: Some(start()), ..mark };
    assert_eq!(fixture.plan().actions, vec![SweepAction::Describe(id(10), mark)]);
}

#[test]
fn a_deleted_pool_deletes_the_floating_ips_it_created_and_unmarks_the_rest() {
    let fixture = fixture().fips([released(), fip(11).idle(), fip(12).tagged_for("db")]);
    let teardown = fixture.teardown();
    let tag = claim_tag(&pool_id("p"), &key("db"));
    assert_eq!(teardown.actions, [delete(10), delete(11), remove_tags(12, &[tag])].concat());
    assert!(teardown.attached.is_empty() && !teardown.must_list);
}

#[test]
fn a_deleted_pool_that_retains_deletes_only_unused_spares() {
    let kept = fip(10).described(CreationMark { is_retained: true, ..unclaimed_mark(10) }.render(None));
    let fixture = fixture().with_policy(|pool| pool.deletes = false).fips([kept, fip(11).idle()]);
    let unmarked = SweepAction::Rewrite { id: id(10), description: Some(String::new()), tags: vec![] };
    assert_eq!(fixture.teardown().actions, [vec![unmarked], delete(11)].concat());
}

#[test]
fn a_deleted_pool_unmarks_and_reports_attached_floating_ips() {
    let teardown = fixture().fips([fip(10).created_for("web").attached()]).teardown();
    let unmarked = SweepAction::Rewrite { id: id(10), description: Some(String::new()), tags: vec![] };
    assert_eq!((teardown.actions, teardown.attached), (vec![unmarked], vec![id(10)]));
}

/// Its claims may be on their way, or be where the pool was moved from.
#[test]
fn a_deleted_pool_changes_nothing_that_is_marked_for_a_claim_while_a_cluster_is_paused() {
    let attached = fip(11).created_for("db").attached();
    let mut fixture = fixture().fips([fip(10).created_for("web"), attached, fip(12).tagged_for("old"), fip(13).idle()]);
    fixture.cluster.is_paused = true;
    let teardown = fixture.teardown();
    assert_eq!((teardown.actions, teardown.claimed), (delete(13), vec![id(10), id(11), id(12)]));
    assert!(teardown.attached.is_empty() && !teardown.must_list);
}

#[test]
fn an_orphan_is_released_only_if_it_still_is_one_when_its_turn_comes() {
    let planned = |fip: Fip| fixture().fips([fip]);
    let is_orphaned = |fixture: Fixture, is_paused| is_still_orphaned(&fixture.situation(), &id(10), is_paused);
    let orphan = || fip(10).created_for("web");
    assert!(is_orphaned(planned(orphan()), false));
    assert!(!is_orphaned(planned(orphan()), true));
    assert!(!is_orphaned(planned(orphan().attached()), false));
    assert!(!is_orphaned(planned(orphan()).active_claim("web"), false), "its claim was restored");
    assert!(is_orphaned(planned(orphan()).active_claim("web").published("web", 11), false), "it has another address");
    assert!(is_orphaned(planned(released()), true), "its grace period begins now");
}

#[test]
fn a_deleted_pool_waits_for_holds_and_uncertain_writes() {
    let fenced = fixture().fenced().fips([fip(10).idle(), fip(11).created_for("web").attached()]).teardown();
    assert_eq!((fenced.actions, fenced.attached, fenced.must_list), (vec![], vec![], true));
    let held = fixture().fips([fip(10).idle()]).held(10, Hold::Cleanup).teardown();
    assert!(held.actions.is_empty() && held.must_list);
    assert!(fixture().fenced().teardown().must_list, "a POST of a predecessor may still land");
    let mut creating = fixture();
    let nonce = Nonce::parse("nonce12345").expect("a nonce");
    creating.ledger.begin_creation(nonce, pool_id("p"), Some(key("web")));
    assert!(creating.teardown().must_list);
    let mut uncertain = fixture().fips([fip(10)]).chosen_by(10, "web");
    uncertain.ledger.note_uncertain_write(&id(10), start());
    uncertain.ledger.set_hold(&id(10), None);
    assert!(uncertain.teardown().must_list, "a tag that may still land");
    let mut written = fixture().fips([fip(10).idle()]);
    written.ledger.record_tag(&id(10), "prod", true);
    let teardown = written.teardown();
    assert!(teardown.actions.is_empty() && teardown.must_list, "what was just written is listed first");
    let mut withdrawn = fixture().fips([fip(10).tagged_for("web")]);
    withdrawn.ledger.note_uncertain_write(&id(10), start());
    assert!(withdrawn.teardown().actions.is_empty(), "a write without a hold may still land");
    assert!(!fixture().teardown().must_list);
}

#[test]
fn a_contested_released_address_is_not_returned_to_a_new_claim_of_that_name() {
    let released = fip(10).released_by("web", ago(1)).tagged_by_another_pool();
    let plan = fixture().active_claim("web").fips([released]).plan();
    let tags = vec![release_tag(&pool_id("p"), &key("web"), ago(1))];
    assert_eq!(plan.actions, [SweepAction::Rewrite { id: id(10), description: None, tags }]);
}

#[test]
fn an_address_that_was_taken_over_loses_all_tags_of_the_earlier_claim() {
    let taken_over = fip(10).tagged_for("db").released_by("db", ago(9)).tagged_for("web");
    let tags = [claim_tag(&pool_id("p"), &key("db")), old_release_tag("db")];
    assert_eq!(fixture().active_claim("web").fips([taken_over]).plan().actions, remove_tags(10, &tags));
    let forged = fip(10).tagged_for("db").released_by("db", ago(9)).tagged_for("gone");
    let forged = fixture().active_claim("db").published("db", 10).fips([forged]);
    assert_eq!(forged.plan().actions, remove_tags(10, &[old_release_tag("db")]), "db has the IPAddress");
}

#[test]
fn an_extreme_release_time_does_not_panic() {
    let tag = format!("caip-out.p.{}.3afff2d3e0", key("web"));
    let fixture = fixture().with_policy(|pool| pool.grace = seconds(120)).fips([fip(10).created_for("web").tag(tag)]);
    let from_now_on = release_tag(&pool_id("p"), &key("web"), start());
    assert_eq!(fixture.plan().actions, [SweepAction::Release(id(10), from_now_on)]);
}
