//! Each rule of the sweep and of the end of a pool, by its example and its counterexample.

use super::*;
use crate::allocation::identity::Nonce;
use crate::allocation::ledger::Hold;
use crate::allocation::mark::claim_tag;
use crate::allocation::testing::*;

fn deletes(last: u8) -> Vec<SweepAction> {
    vec![SweepAction::Delete(id(last))]
}

fn unmarks(last: u8, tags: &[String]) -> Vec<SweepAction> {
    vec![SweepAction::Rewrite { id: id(last), description: None, tags: tags.to_vec() }]
}

fn becomes_idle(last: u8, is_retained: bool, tags: &[String]) -> Vec<SweepAction> {
    let description = Some(CreationMark { is_retained, ..idle_mark(last) }.render(None));
    vec![SweepAction::Rewrite { id: id(last), description, tags: tags.to_vec() }]
}

fn out(claim: &str) -> String {
    release_tag(&pool_id("p"), &key(claim), ago(9))
}

fn released() -> Fip {
    fip(10).created_for("web").released_by("web", ago(9))
}

#[test]
fn what_we_created_is_deleted_once_released() {
    assert_eq!(world().sees([released()]).plan().actions, deletes(10));
}

#[test]
fn what_we_created_becomes_the_pools_where_it_retains() {
    let retains = world().with(|pool| pool.deletes = false).sees([released()]);
    assert_eq!(retains.plan().actions, becomes_idle(10, true, &[out("web")]));
}

#[test]
fn what_we_did_not_create_loses_our_marks_claims_first() {
    let world = world().sees([fip(10).tagged_for("web").released_by("web", ago(9)).tag("prod")]);
    let tags = [claim_tag(&pool_id("p"), &key("web")), out("web")];
    assert_eq!(world.plan().actions, unmarks(10, &tags));
}

#[test]
fn a_port_keeps_a_released_address() {
    for fip in [released().attached(), released().forwarded()] {
        let plan = world().sees([fip]).plan();
        assert!(plan.actions.is_empty() && plan.has_ports);
    }
}

#[test]
fn a_released_address_is_seen_again_before_it_goes() {
    let mut world = world().sees([fip(10).created_for("web")]);
    world.ledger.record_tag(&id(10), &out("web"), true);
    let plan = world.plan();
    assert!(plan.actions.is_empty() && plan.must_list);
    world.look([released()]);
    assert_eq!(world.plan().actions, deletes(10));
}

#[test]
fn a_released_address_rests() {
    let mut world = world().with(|pool| pool.grace = seconds(30)).sees([released()]);
    assert_eq!((world.plan().actions, world.plan().wake_at), (vec![], Some(noon() + seconds(21))));
    world.now = noon() + seconds(21);
    assert_eq!(world.plan().actions, deletes(10));
}

#[test]
fn a_released_address_is_left_to_a_claim_that_waits_for_any() {
    let plan = world().sees([released()]).waits("db").plan();
    assert_eq!((plan.actions, plan.offered), (vec![], 1));
    let plan = world().sees([released()]).reserves("db", 99).waits("db").plan();
    assert_eq!((plan.actions, plan.offered), (deletes(10), 0), "it waits for its own");
    let plan = world().sees([released()]).excludes("203.0.113.10/32").waits("db").plan();
    assert_eq!((plan.actions, plan.offered), (deletes(10), 0), "nobody may have it");
}

#[test]
fn a_released_address_that_a_waiting_claim_reserves_becomes_the_pools() {
    let plan = world().sees([released()]).reserves("db", 10).living("db").plan();
    assert_eq!(plan.actions, becomes_idle(10, false, &[out("web")]));
}

#[test]
fn a_released_address_whose_claim_is_back_is_the_claims_to_take() {
    assert!(world().sees([released()]).living("web").plan().actions.is_empty());
    assert!(world().sees([released()]).published("web", 10).plan().actions.is_empty());
}

#[test]
fn a_released_address_whose_claim_is_back_with_another_goes() {
    let world = world().sees([released(), fip(11).created_for("web")]).living("web").published("web", 11);
    assert_eq!(world.plan().actions, deletes(10));
}

#[test]
fn a_released_address_fills_up_the_spares() {
    let spares = |count| world().with(|pool| pool.preallocate = count).sees([released(), fip(11).idle()]).plan();
    assert_eq!(spares(1).actions, deletes(10));
    assert_eq!(spares(2).actions, becomes_idle(10, false, &[out("web")]));
}

#[test]
fn what_somebody_is_at_work_on_is_left_alone() {
    assert!(world().sees([released()]).chosen(10, "db").plan().actions.is_empty());
    let mut world = world().sees([released()]);
    world.ledger.note_uncertain_write(&id(10), noon());
    let plan = world.plan();
    assert!(plan.actions.is_empty() && plan.must_list);
}

#[test]
fn behind_the_fence_nothing_is_swept() {
    let plan = world().fenced().with(|pool| pool.preallocate = 1).sees([released()]).plan();
    assert_eq!((plan.actions, plan.preallocate, plan.wake_at), (vec![], 0, Some(noon() + seconds(60))));
}

#[test]
fn spares_are_made_and_surplus_goes() {
    let spares = |count| world().with(|pool| pool.preallocate = count).sees([fip(10).idle(), fip(11).idle()]);
    assert_eq!(spares(3).plan().preallocate, 1);
    assert!(spares(2).plan().actions.is_empty());
    assert_eq!(spares(1).plan().actions, deletes(10));
    assert!(spares(1).waits("db").plan().actions.is_empty(), "a waiting claim takes it");
    assert_eq!(spares(4).limit(3).plan().preallocate, 1, "never more than maxIPs");
    assert_eq!(spares(3).waits("db").plan().preallocate, 0, "whoever waits asks Neutron itself");
    assert!(spares(0).with(|pool| pool.deletes = false).plan().actions.is_empty(), "retained ones stay");
}

#[test]
fn spares_under_way_are_not_made_twice() {
    let mut world = world().with(|pool| pool.preallocate = 2);
    let nonce = Nonce::parse("nonce12345").expect("of the nonce's form");
    world.ledger.begin_creation(nonce, pool_id("p"), None);
    assert_eq!(world.plan().preallocate, 1);
    world.ledger.note_unusable_offers(&pool_id("p"), noon());
    assert_eq!(world.plan().preallocate, 0, "Neutron offers only what nobody may have");
}

#[test]
fn a_spare_that_nobody_may_have_goes() {
    let spare = || world().with(|pool| pool.preallocate = 1).sees([fip(10).idle()]);
    assert_eq!(spare().excludes("203.0.113.0/28").plan().actions, deletes(10));
    assert_eq!(spare().reserves("db", 10).plan().actions, deletes(10));
    assert!(spare().reserves("db", 10).living("db").plan().actions.is_empty());
    assert!(spare().with(|pool| pool.network = None).plan().actions == deletes(10));
}

#[test]
fn a_spare_that_is_in_use_or_named_stays() {
    assert!(world().sees([fip(10).idle().attached()]).plan().actions.is_empty());
    assert!(world().sees([fip(10).idle()]).published_by_others(10).plan().actions.is_empty());
}

#[test]
fn an_orphan_is_reported_at_the_first_sight_and_released_at_the_second() {
    let mut world = world().sees([fip(10).created_for("web")]);
    let plan = world.plan();
    assert_eq!((plan.orphans, plan.actions), (vec![id(10)], vec![]));
    world.ledger.note_orphans(&pool_id("p"), &[id(10)], noon());
    world.now = noon() + seconds(3599);
    assert!(world.plan().actions.is_empty());
    world.now = noon() + seconds(3600);
    let plan = world.plan();
    assert_eq!((plan.must_list, plan.actions), (true, vec![]), "the second sight is a look of its own");
    world.look([fip(10).created_for("web")]);
    let tag = release_tag(&pool_id("p"), &key("web"), world.now);
    assert_eq!(world.plan().actions, vec![SweepAction::Release(id(10), tag)]);
}

#[test]
fn what_is_an_orphan_of_one_pool_is_none_of_another_that_marked_it_too() {
    let (ours, theirs) = (pool_id("p"), pool_id("other"));
    let both = || fip(10).tagged_for("web").tagged_by_another_pool();
    let mut world = world().sees([both()]);
    world.ledger.note_orphans(&ours, &[id(10)], noon());
    world.ledger.note_orphans(&theirs, &[], noon());
    world.now = noon() + seconds(3600);
    world.look([both()]);
    assert_eq!(world.plan().actions.len(), 1, "the sweep of the other pool, whose it is, does not make it young again");
    world.ledger.note_orphans(&ours, &[], world.now);
    world.ledger.note_orphans(&theirs, &[id(10)], noon());
    assert_eq!(world.plan().actions, vec![], "at our first sight, however long the other has seen it");
}

#[test]
fn an_orphan_stays_where_that_is_said() {
    let ripe = |change: fn(&mut World)| {
        let mut world = world().sees([fip(10).tagged_for("web")]);
        world.ledger.note_orphans(&pool_id("p"), &[id(10)], ago(3600));
        change(&mut world);
        world.plan()
    };
    assert_eq!(ripe(|_| ()).actions.len(), 1);
    assert!(ripe(|world| world.pool.releases_orphans = false).actions.is_empty());
    assert!(ripe(|world| world.cluster.is_paused = true).actions.is_empty());
    assert!(ripe(|world| world.look([fip(10).tagged_for("web").attached()])).actions.is_empty());
    assert_eq!(ripe(|world| world.cluster.is_paused = true).orphans, vec![id(10)]);
    assert!(ripe(|world| world.cluster.claims.extend([(key("web"), ClaimLiveness::Active)])).orphans.is_empty());
}

#[test]
fn no_grace_makes_a_first_sight_the_last() {
    let mut world = world().with(|pool| pool.orphan_grace = seconds(0)).sees([fip(10).tagged_for("web")]);
    assert!(world.plan().actions.is_empty());
    world.ledger.note_orphans(&pool_id("p"), &[id(10)], noon());
    assert_eq!(world.plan().actions.len(), 1);
}

#[test]
fn a_second_address_of_a_living_claim_is_an_orphan() {
    let world = world().sees([fip(10).created_for("web"), fip(11).created_for("web")]).living("web");
    assert!(world.plan().orphans.is_empty(), "which of them is its, is not said yet");
    assert_eq!(world.published("web", 11).plan().orphans, vec![id(10)]);
}

#[test]
fn a_release_that_a_takeover_left_behind_comes_off() {
    let world = world().sees([fip(10).created_for("db").released_by("web", ago(9))]).living("db");
    assert_eq!(world.plan().actions, unmarks(10, &[out("web")]));
}

#[test]
fn a_copied_mark_is_reported_and_neither_goes() {
    let copy = released().0.description;
    let world = world().sees([released(), fip(11).described(copy).released_by("web", ago(9))]);
    let plan = world.plan();
    assert_eq!((plan.actions, plan.copied), (vec![], vec![id(10), id(11)]));
}

#[test]
fn beside_another_owner_only_our_own_tags_come_off() {
    let contested = || fip(10).tagged_for("web").tagged_by_another_pool();
    let mut world = world().sees([contested()]);
    assert!(world.plan().actions.is_empty());
    world.ledger.note_orphans(&pool_id("p"), &[id(10)], ago(3600));
    let tag = claim_tag(&pool_id("p"), &key("web"));
    assert_eq!(world.plan().actions, unmarks(10, std::slice::from_ref(&tag)));
    world.look([contested().attached()]);
    assert_eq!(world.plan().actions, unmarks(10, std::slice::from_ref(&tag)), "the port is the other's");
    let world = world.living("web");
    assert!(world.plan().actions.is_empty(), "its claim settles that itself");
    assert_eq!(world.published("web", 12).plan().actions, unmarks(10, &[tag]));
}

#[test]
fn what_we_gave_back_beside_another_owner_comes_off_at_once() {
    let world =
        world().sees([fip(10).tagged_for("web").released_by("web", ago(9)).tagged_by_another_pool().attached()]);
    let tags = [claim_tag(&pool_id("p"), &key("web")), out("web")];
    assert_eq!(world.plan().actions, unmarks(10, &tags));
}

#[test]
fn what_cannot_be_read_is_never_written() {
    let mut world = world().sees([fip(10).tagged_for("web").tag("caip.of-a-newer-kind")]);
    world.ledger.note_orphans(&pool_id("p"), &[id(10)], ago(9000));
    assert!(world.plan().actions.is_empty());
}

#[test]
fn without_tags_a_release_is_in_the_description() {
    let no_tags = || world().with(|pool| pool.has_tags = false);
    let mark = CreationMark { claim: Some(key("web")), released: Some(ago(9)), ..idle_mark(10) };
    assert_eq!(no_tags().sees([fip(10).described(mark.render(None))]).plan().actions, deletes(10));
    let mut world = no_tags().sees([fip(10).created_for("web")]);
    world.ledger.note_orphans(&pool_id("p"), &[id(10)], ago(3600));
    let mark = CreationMark { released: Some(noon()), ..mark };
    assert_eq!(world.plan().actions, vec![SweepAction::Describe(id(10), mark)]);
}

#[test]
fn a_pool_that_goes_deletes_what_it_created_and_unmarks_the_rest() {
    let world = world().sees([released(), fip(11).idle(), fip(12).tagged_for("db")]);
    let end = world.teardown();
    let tag = claim_tag(&pool_id("p"), &key("db"));
    assert_eq!(end.actions, [deletes(10), deletes(11), unmarks(12, &[tag])].concat());
    assert!(end.attached.is_empty() && !end.must_list);
}

#[test]
fn a_pool_that_retains_and_goes_deletes_only_what_no_claim_ever_had() {
    let kept = fip(10).described(CreationMark { is_retained: true, ..idle_mark(10) }.render(None));
    let world = world().with(|pool| pool.deletes = false).sees([kept, fip(11).idle()]);
    let unmarked = SweepAction::Rewrite { id: id(10), description: Some(String::new()), tags: vec![] };
    assert_eq!(world.teardown().actions, [vec![unmarked], deletes(11)].concat());
}

#[test]
fn a_pool_that_goes_leaves_what_is_in_use_and_says_so() {
    let end = world().sees([fip(10).created_for("web").attached()]).teardown();
    let unmarked = SweepAction::Rewrite { id: id(10), description: Some(String::new()), tags: vec![] };
    assert_eq!((end.actions, end.attached), (vec![unmarked], vec![id(10)]));
}

#[test]
fn a_pool_stays_until_nothing_of_its_can_come_any_more() {
    let held = world().sees([fip(10).idle()]).holds(10, Hold::GivingBack).teardown();
    assert!(held.actions.is_empty() && held.must_list);
    assert!(world().fenced().teardown().must_list, "a POST of a predecessor's");
    let mut creating = world();
    let nonce = Nonce::parse("nonce12345").expect("of the nonce's form");
    creating.ledger.begin_creation(nonce, pool_id("p"), Some(key("web")));
    assert!(creating.teardown().must_list);
    let mut doubted = world().sees([fip(10)]).chosen(10, "web");
    doubted.ledger.note_uncertain_write(&id(10), noon());
    doubted.ledger.set_hold(&id(10), None);
    assert!(doubted.teardown().must_list, "a tag that may still land");
    assert!(!world().teardown().must_list);
}

#[test]
fn what_was_given_back_beside_another_owner_is_not_the_next_claims_of_that_name() {
    let released = fip(10).released_by("web", ago(1)).tagged_by_another_pool();
    let plan = world().living("web").sees([released]).plan();
    let tags = vec![release_tag(&pool_id("p"), &key("web"), ago(1))];
    assert_eq!(plan.actions, [SweepAction::Rewrite { id: id(10), description: None, tags }]);
}

#[test]
fn a_release_time_that_no_clock_shows_stops_nothing() {
    let tag = format!("caip-out.p.{}.3afff2d3e0", key("web"));
    let world = world().with(|pool| pool.grace = seconds(120)).sees([fip(10).created_for("web").tag(tag)]);
    assert_eq!(world.plan().actions, vec![]);
}
