//! What to do for a claim that is being deleted: mark its addresses as released. The sweep does the rest.

use jiff::Timestamp;

use super::identity::ClaimKey;
use super::ledger::{LedgerEntry, SETTLING};
use super::mark::{CreationMark, Ownership, claim_tag, release_tag};
use super::published::Binding;
use super::situation::Situation;
use crate::floating_ip::FloatingIpId;
use crate::time::after;

/// The next thing to do for a claim that is being deleted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReleaseStep {
    /// Add the release tag.
    Tag(FloatingIpId, String),
    /// Write the release into the description: this Neutron has no tags, or the floating IP has too many.
    Describe(FloatingIpId, CreationMark),
    /// Another owner has marked it too, or it has too many tags for a release: remove our tag, and nothing more. Another
    /// owner may publish it then, so the claim's IPAddress must be gone before.
    Withdraw(FloatingIpId, String),
    /// Whether a POST for the claim created anything is not known: list, and ask again.
    Settle,
    /// What is found is released, but until then a call whose outcome is not known, or one of a previous process, may still
    /// give the claim an address.
    Fenced(Timestamp),
    /// No unreleased floating IP is the claim's.
    Done,
}

/// Decides the next thing to do for a claim that is being deleted.
pub fn decide(situation: &Situation<'_>, claim: &ClaimKey) -> ReleaseStep {
    let Situation { ledger, pool, now, .. } = situation;
    if ledger.is_unlisted(pool.viewer) || ledger.is_creating_for(&pool.id, claim) {
        return ReleaseStep::Settle;
    }
    let held = ledger.held().filter(|entry| entry.is_held_for(&pool.id, claim));
    let found = ledger.of_claim(&pool.id, claim).chain(held);
    // Withdrawals come last, since they wait for the IPAddress: it says what is left to release.
    let steps = found.filter_map(|entry| release(situation, claim, entry));
    if let Some(step) = steps.min_by_key(|step| matches!(step, ReleaseStep::Withdraw(..))) {
        return step;
    }
    // A mark that the claim was given may still land.
    if let Some(since) = ledger.uncertain_since(&pool.id, claim) {
        let until = after(since, SETTLING);
        return if *now < until { ReleaseStep::Fenced(until) } else { ReleaseStep::Settle };
    }
    // A previous process may have asked for an address before another one gave the claim what it has.
    match situation.fence() {
        Some(until) if *now < until => ReleaseStep::Fenced(until),
        Some(_) => ReleaseStep::Settle,
        None => ReleaseStep::Done,
    }
}

/// What a claim gives up that has another writer's IPAddress: what it has begun to choose and, unless it `was_bound`, what is
/// marked for it. An address in use, or one that an IPAddress names, is not given up: it may be the claim's after all.
pub fn given_up(situation: &Situation<'_>, claim: &ClaimKey, was_bound: bool) -> Vec<FloatingIpId> {
    let Situation { ledger, pool, .. } = situation;
    let chosen = ledger.chosen_by(&pool.id, claim);
    let is_settled = !was_bound && !ledger.is_unlisted(pool.viewer) && situation.fence().is_none();
    let is_unused = |entry: &LedgerEntry| {
        is_settled
            && situation.ownership(entry) == Ownership::Claimed(claim.clone())
            && entry.is_free()
            && !ledger.is_being_created(entry)
            && !ledger.has_copied_mark(entry)
            && !situation.relevant_addresses().is_published_itself(&entry.fip, &pool.id)
    };
    let owner = (pool.id.clone(), claim.clone());
    // What it has withdrawn may still have the tag of an earlier release.
    let is_withdrawn = |entry: &LedgerEntry| entry.disowned.contains_key(&owner) && !entry.marks.has_mark_of(&owner);
    let is_chosen = |entry: &LedgerEntry| {
        let may_be_its_own = |binding: &Binding| binding.is_of(&pool.id, claim);
        chosen.contains(&entry.fip.id)
            && !is_withdrawn(entry)
            && !situation.relevant_addresses().is_published_where(&entry.fip, may_be_its_own)
    };
    let marked = ledger.of_claim(&pool.id, claim);
    let is_given_up = |entry: &&LedgerEntry| is_chosen(entry) || is_unused(entry);
    marked.filter(is_given_up).map(|entry| entry.fip.id.clone()).collect()
}

fn release(situation: &Situation<'_>, claim: &ClaimKey, entry: &LedgerEntry) -> Option<ReleaseStep> {
    let Situation { pool, now, .. } = *situation;
    let id = entry.fip.id.clone();
    let owner = (pool.id.clone(), claim.clone());
    if entry.marks.is_released_by(&owner) {
        return None;
    }
    let is_tagged = entry.marks.claims.contains(&owner);
    let is_held = entry.is_held_for(&pool.id, claim);
    let may_tag = pool.has_tags && entry.has_room_for_tag();
    match situation.created_here(entry) {
        Some(_) if entry.marks.is_newer => None,
        _ if entry.marks.are_shared() => {
            (is_tagged || is_held).then(|| ReleaseStep::Withdraw(id, claim_tag(&pool.id, claim)))
        }
        // If a rewrite for this claim lands later, it finds the release there.
        Some(mark) if mark.claim.as_ref() == Some(claim) || is_held => Some(if may_tag {
            ReleaseStep::Tag(id, release_tag(&pool.id, claim, now))
        } else {
            ReleaseStep::Describe(id, CreationMark { claim: Some(claim.clone()), released: Some(now), ..mark.clone() })
        }),
        // Without room for the release, the address is free at once.
        _ if is_tagged && !may_tag => Some(ReleaseStep::Withdraw(id, claim_tag(&pool.id, claim))),
        _ if is_tagged => Some(ReleaseStep::Tag(id, release_tag(&pool.id, claim, now))),
        // Held, and not marked yet.
        _ => Some(ReleaseStep::Withdraw(id, claim_tag(&pool.id, claim))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::identity::Nonce;
    use super::super::ledger::{Hold, Ledger, Viewer};
    use super::super::testing::*;
    use super::*;

    fn tag() -> ReleaseStep {
        ReleaseStep::Tag(id(10), release_tag(&pool_id("p"), &key("web"), start()))
    }

    fn withdraw() -> ReleaseStep {
        ReleaseStep::Withdraw(id(10), claim_tag(&pool_id("p"), &key("web")))
    }

    #[test]
    fn a_claims_address_is_tagged_for_release() {
        for fip in [fip(10).created_for("web"), fip(10).tagged_for("web"), fip(10).created_for("web").attached()] {
            assert_eq!(fixture().fips([fip]).release("web"), tag());
        }
    }

    #[test]
    fn what_a_newer_version_has_marked_is_not_released() {
        let newer = |fip: Fip| fixture().fips([fip.tag("caip2.p")]).release("web");
        assert_eq!(newer(fip(10).created_for("web")), ReleaseStep::Done);
        assert_eq!(newer(fip(10).created_for("web").attached()), ReleaseStep::Done);
        assert_eq!(newer(fip(10).created_for("web").tagged_for("web")), ReleaseStep::Done);
        assert_eq!(newer(fip(10).tagged_for("web")), withdraw(), "no release, only our own tag");
    }

    #[test]
    fn released_addresses_need_nothing_more() {
        assert_eq!(
            fixture().fips([fip(10).created_for("web").released_by("web", ago(9))]).release("web"),
            ReleaseStep::Done
        );
        assert_eq!(fixture().fips([fip(10).created_for("db"), fip(11)]).release("web"), ReleaseStep::Done);
    }

    #[test]
    fn all_addresses_of_a_claim_are_released_one_by_one() {
        let mut fixture = fixture().fips([fip(10).created_for("web"), fip(11).tagged_for("web")]);
        fixture.ledger.record_tag(&id(10), &release_tag(&pool_id("p"), &key("web"), start()), true);
        assert!(matches!(fixture.release("web"), ReleaseStep::Tag(of, _) if of == id(11)));
    }

    #[test]
    fn what_is_released_comes_before_what_is_withdrawn() {
        let contested = fip(9).tagged_for("web").tagged_by_another_pool();
        assert_eq!(fixture().fips([contested, fip(10).tagged_for("web")]).release("web"), tag());
    }

    #[test]
    fn without_tags_the_release_is_written_into_the_description() {
        let fixture = fixture().with_policy(|pool| pool.has_tags = false).fips([fip(10).created_for("web")]);
        let mark = CreationMark { claim: Some(key("web")), released: Some(start()), ..unclaimed_mark(10) };
        assert_eq!(fixture.release("web"), ReleaseStep::Describe(id(10), mark));
    }

    #[test]
    fn an_address_with_as_many_tags_as_neutron_allows_is_released_without_another_one() {
        let mark = CreationMark { claim: Some(key("web")), released: Some(start()), ..unclaimed_mark(10) };
        let created = fixture().fips([fip(10).created_for("web").full_of_tags()]);
        assert_eq!(created.release("web"), ReleaseStep::Describe(id(10), mark));
        for tagged in [fip(10).tagged_for("web"), fip(10).idle().tagged_for("web")] {
            assert_eq!(fixture().fips([tagged.full_of_tags()]).release("web"), withdraw());
        }
    }

    #[test]
    fn releasing_a_contested_address_removes_only_the_claims_tag() {
        assert_eq!(fixture().fips([fip(10).tagged_for("web").tagged_by_another_pool()]).release("web"), withdraw());
        assert_eq!(fixture().fips([fip(10).tagged_by_another_pool()]).chosen_by(10, "web").release("web"), withdraw());
    }

    #[test]
    fn a_chosen_address_without_a_mark_is_released_too() {
        assert_eq!(fixture().fips([fip(10)]).chosen_by(10, "web").release("web"), withdraw());
        assert_eq!(
            fixture().fips([fip(10).idle()]).chosen_by(10, "web").release("web"),
            tag(),
            "a late rewrite may mark it"
        );
    }

    #[test]
    fn what_another_claim_has_chosen_is_left_alone() {
        let others = [fixture().fips([fip(10)]), fixture().fips([fip(10).idle()])];
        for fixture in others {
            assert_eq!(fixture.chosen_by(10, "db").release("web"), ReleaseStep::Done);
        }
    }

    #[test]
    fn without_tags_a_chosen_address_is_described_as_released_by_the_claim() {
        let fixture = fixture().with_policy(|pool| pool.has_tags = false).fips([fip(10).idle()]);
        let mark = CreationMark { claim: Some(key("web")), released: Some(start()), ..unclaimed_mark(10) };
        assert_eq!(fixture.chosen_by(10, "web").release("web"), ReleaseStep::Describe(id(10), mark));
    }

    #[test]
    fn an_uncertain_creation_is_settled_before_release() {
        let mut fixture = fixture();
        let nonce = Nonce::parse("nonce12345").expect("a nonce");
        fixture.ledger.begin_creation(nonce.clone(), pool_id("p"), Some(key("web")));
        fixture.ledger.note_uncertain_creation(&nonce, Viewer::default(), start());
        assert_eq!(fixture.release("web"), ReleaseStep::Settle);
        assert_eq!(fixture.release("db"), ReleaseStep::Done);
        fixture.now = start() + seconds(60);
        fixture.relist([]);
        assert_eq!(fixture.release("web"), ReleaseStep::Done);
    }

    #[test]
    fn a_release_ends_only_when_no_call_of_a_previous_process_can_land() {
        let mut fenced = fixture().fenced();
        let until = start() + seconds(60);
        assert_eq!(fenced.release("web"), ReleaseStep::Fenced(until));
        assert_eq!(fixture().fenced().fips([fip(10).created_for("web")]).release("web"), tag());
        let mut released = fixture().fenced().fips([fip(10).created_for("web").released_by("web", ago(9))]);
        assert_eq!(released.release("web"), ReleaseStep::Fenced(until), "an earlier claim released it");
        released.ledger.record_tag(&id(10), &release_tag(&pool_id("p"), &key("web"), start()), true);
        assert_eq!(released.release("web"), ReleaseStep::Fenced(until), "there may be another one");
        fenced.now = until;
        assert_eq!(fenced.release("web"), ReleaseStep::Settle);
        fenced.relist([]);
        assert_eq!(fenced.release("web"), ReleaseStep::Done);
    }

    #[test]
    fn a_mark_that_may_still_land_is_awaited() {
        let mut fixture = fixture().listed([10]).fips([fip(10)]).chosen_by(10, "web");
        fixture.ledger.note_uncertain_write(&id(10), start());
        assert_eq!(fixture.release("web"), withdraw());
        fixture.ledger.set_hold(&id(10), None);
        assert_eq!(fixture.release("db"), ReleaseStep::Done);
        assert_eq!(fixture.release("web"), ReleaseStep::Fenced(start() + seconds(60)));
        fixture.now = start() + seconds(60);
        assert_eq!(fixture.release("web"), ReleaseStep::Settle);
        fixture.relist([fip(10).tagged_for("web")]);
        assert_eq!(
            fixture.release("web"),
            ReleaseStep::Tag(id(10), release_tag(&pool_id("p"), &key("web"), fixture.now))
        );
    }

    #[test]
    fn beside_another_writers_ip_address_a_claim_gives_up_what_nothing_uses() {
        let given_up = |fixture: Fixture, was_bound| given_up(&fixture.situation(), &key("web"), was_bound);
        let own = [fip(10).created_for("web"), fip(10).tagged_for("web")];
        for fip in own.clone() {
            assert_eq!(given_up(fixture().fips([fip.clone()]), false), [id(10)]);
            assert_eq!(given_up(fixture().fips([fip.clone()]), true), [], "it may be the claim's after all");
            assert_eq!(given_up(fixture().fips([fip.clone().attached()]), false), []);
            assert_eq!(given_up(fixture().fips([fip.clone()]).published_by_others(10), false), []);
            assert_eq!(given_up(fixture().fips([fip.clone()]).published("db", 10), false), []);
            let of_predecessor = fixture().fips([fip.clone().created_at(start())]).published_as("db", 10, id(99));
            assert_eq!(given_up(of_predecessor, false), [id(10)], "that names a floating IP that is gone");
            assert_eq!(given_up(fixture().fips([fip.clone()]).fenced(), false), []);
            let chosen = || fixture().fips([fip.clone()]).chosen_by(10, "web");
            assert_eq!(given_up(chosen(), true), [id(10)]);
            assert_eq!(given_up(chosen().published("db", 10), true), [id(10)], "it is that of another claim");
            assert_eq!(
                given_up(chosen().published_by_others(10), true),
                [],
                "that may be its own, which lost its marks"
            );
            assert_eq!(given_up(fixture().fips([fip.released_by("web", ago(9))]), false), []);
        }
        let taken_back = || fixture().fips([fip(10).released_by("web", ago(9))]).chosen_by(10, "web");
        assert_eq!(given_up(taken_back(), true), [id(10)]);
        let mut withdrawn = taken_back();
        withdrawn.ledger.note_uncertain_write(&id(10), start());
        withdrawn.ledger.begin_withdrawal(&id(10), &pool_id("p"), &key("web"));
        withdrawn.ledger.end_withdrawal(&id(10), Hold::Claim { pool: pool_id("p"), claim: key("web") }, false);
        assert_eq!(given_up(withdrawn, true), [], "once");
        let copy = own[0].0.description.clone();
        assert_eq!(given_up(fixture().fips([own[0].clone(), fip(11).described(copy)]), false), []);
        assert_eq!(given_up(fixture().fips([fip(10).created_for("db"), fip(11)]), false), []);
        let mut creating = fixture().fips([fip(10).created_for("web")]);
        creating.ledger.begin_creation(unclaimed_mark(10).nonce, pool_id("p"), Some(key("web")));
        assert_eq!(given_up(creating, false), [], "the reply may still come");
    }

    #[test]
    fn nothing_is_done_before_the_project_was_listed() {
        let fixture = Fixture { ledger: Ledger::default(), ..fixture() };
        assert_eq!(fixture.release("web"), ReleaseStep::Settle);
    }
}
