//! What to do for a claim that is being deleted: everything that it has is marked as released. The sweep does the rest.

use super::identity::ClaimKey;
use super::ledger::LedgerEntry;
use super::mark::{CreationMark, claim_tag, release_tag};
use super::situation::Situation;
use crate::floating_ip::FloatingIpId;

/// The next thing to do for a claim that is being deleted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReleaseStep {
    /// Add the release tag.
    Tag(FloatingIpId, String),
    /// Write the release into the description: this Neutron has no tags.
    Describe(FloatingIpId, CreationMark),
    /// Another owner has marked it too: remove our tag, and nothing more.
    Withdraw(FloatingIpId, String),
    /// Whether a POST for the claim created anything is not known: list, and ask again.
    Settle,
    /// Nothing in Neutron is the claim's any more.
    Done,
}

/// Decides the next thing to do for a claim that is being deleted.
pub fn decide(situation: &Situation<'_>, claim: &ClaimKey) -> ReleaseStep {
    let Situation { ledger, pool, .. } = situation;
    if ledger.listed().is_none() || ledger.is_creating_for(&pool.id, claim) {
        return ReleaseStep::Settle;
    }
    let chosen = ledger.held().filter(|entry| is_chosen(situation, claim, entry));
    let marked = ledger.of_claim(&pool.id, claim);
    marked.chain(chosen).find_map(|entry| release(situation, claim, entry)).unwrap_or(ReleaseStep::Done)
}

fn is_chosen(situation: &Situation<'_>, claim: &ClaimKey, entry: &LedgerEntry) -> bool {
    entry.hold.as_ref().is_some_and(|hold| hold.is_for(&situation.pool.id, claim))
}

fn release(situation: &Situation<'_>, claim: &ClaimKey, entry: &LedgerEntry) -> Option<ReleaseStep> {
    let Situation { pool, now, .. } = *situation;
    let id = entry.fip.id.clone();
    let owner = (pool.id.clone(), claim.clone());
    if entry.marks.releases.contains_key(&owner) {
        return None;
    }
    let is_tagged = entry.marks.claims.contains(&owner);
    let is_chosen = is_chosen(situation, claim, entry);
    match situation.created_here(entry) {
        _ if situation.is_shared(entry) => {
            (is_tagged || is_chosen).then(|| ReleaseStep::Withdraw(id, claim_tag(&pool.id, claim)))
        }
        // If a rewrite for this claim lands later, it finds the release there.
        Some(mark) if mark.claim.as_ref() == Some(claim) || is_chosen => Some(if pool.has_tags {
            ReleaseStep::Tag(id, release_tag(&pool.id, claim, now))
        } else {
            ReleaseStep::Describe(id, CreationMark { claim: Some(claim.clone()), released: Some(now), ..mark.clone() })
        }),
        _ if is_tagged => Some(ReleaseStep::Tag(id, release_tag(&pool.id, claim, now))),
        _ if is_chosen => Some(ReleaseStep::Withdraw(id, claim_tag(&pool.id, claim))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::identity::Nonce;
    use super::super::ledger::Ledger;
    use super::super::testing::*;
    use super::*;

    fn tag() -> ReleaseStep {
        ReleaseStep::Tag(id(10), release_tag(&pool_id("p"), &key("web"), noon()))
    }

    fn withdraw() -> ReleaseStep {
        ReleaseStep::Withdraw(id(10), claim_tag(&pool_id("p"), &key("web")))
    }

    #[test]
    fn what_the_claim_has_is_tagged_for_release() {
        for fip in [fip(10).created_for("web"), fip(10).tagged_for("web"), fip(10).created_for("web").attached()] {
            assert_eq!(world().sees([fip]).release("web"), tag());
        }
    }

    #[test]
    fn what_is_released_needs_nothing_more() {
        assert_eq!(
            world().sees([fip(10).created_for("web").released_by("web", ago(9))]).release("web"),
            ReleaseStep::Done
        );
        assert_eq!(world().sees([fip(10).created_for("db"), fip(11)]).release("web"), ReleaseStep::Done);
    }

    #[test]
    fn all_that_the_claim_has_is_released_one_after_the_other() {
        let mut world = world().sees([fip(10).created_for("web"), fip(11).tagged_for("web")]);
        world.ledger.record_tag(&id(10), &release_tag(&pool_id("p"), &key("web"), noon()), true);
        assert!(matches!(world.release("web"), ReleaseStep::Tag(of, _) if of == id(11)));
    }

    #[test]
    fn without_tags_the_release_is_written_into_the_description() {
        let world = world().with(|pool| pool.has_tags = false).sees([fip(10).created_for("web")]);
        let mark = CreationMark { claim: Some(key("web")), released: Some(noon()), ..idle_mark(10) };
        assert_eq!(world.release("web"), ReleaseStep::Describe(id(10), mark));
    }

    #[test]
    fn beside_another_owner_only_the_claims_tag_comes_off() {
        assert_eq!(world().sees([fip(10).tagged_for("web").tagged_by_another_pool()]).release("web"), withdraw());
        assert_eq!(world().sees([fip(10).tagged_by_another_pool()]).chosen(10, "web").release("web"), withdraw());
    }

    #[test]
    fn a_choice_that_was_not_written_yet_is_given_back_too() {
        assert_eq!(world().sees([fip(10)]).chosen(10, "web").release("web"), withdraw());
        assert_eq!(world().sees([fip(10).idle()]).chosen(10, "web").release("web"), tag(), "its rewrite may land late");
    }

    #[test]
    fn a_post_in_doubt_is_settled_first() {
        let mut world = world();
        let nonce = Nonce::parse("nonce12345").expect("of the nonce's form");
        world.ledger.begin_creation(nonce.clone(), pool_id("p"), Some(key("web")));
        world.ledger.note_uncertain_creation(&nonce, noon());
        assert_eq!(world.release("web"), ReleaseStep::Settle);
        assert_eq!(world.release("db"), ReleaseStep::Done);
        world.now = noon() + seconds(60);
        world.look([]);
        assert_eq!(world.release("web"), ReleaseStep::Done);
    }

    #[test]
    fn nothing_is_done_before_the_project_was_listed() {
        let world = World { ledger: Ledger::default(), ..world() };
        assert_eq!(world.release("web"), ReleaseStep::Settle);
    }
}
