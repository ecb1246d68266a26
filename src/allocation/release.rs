//! What to do for a claim that goes: everything of its is tagged for release; the sweep does the rest.

use jiff::Timestamp;

use super::identity::ClaimKey;
use super::ledger::{Hold, Ledger, LedgerEntry};
use super::mark::{CreationMark, claim_tag, release_tag};
use super::policy::PoolPolicy;
use crate::floating_ip::FloatingIpId;

/// The next thing to do for a claim that goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReleaseStep {
    /// Add the release tag.
    Tag(FloatingIpId, String),
    /// MarkWrite the release into the description: this Neutron has no tags.
    Describe(FloatingIpId, CreationMark),
    /// It is somebody else's too: take our tag off, and nothing more.
    Withdraw(FloatingIpId, String),
    /// A POST of the claim's is in doubt: read, and ask again.
    Settle,
    /// Nothing in Neutron is the claim's any more.
    Done,
}

/// Decides the next thing to do for a claim that goes.
pub fn decide(ledger: &Ledger, pool: &PoolPolicy, claim: &ClaimKey, now: Timestamp) -> ReleaseStep {
    if ledger.listed().is_none()
        || ledger.creations(&pool.id).any(|(_, creation)| creation.claim.as_ref() == Some(claim))
    {
        return ReleaseStep::Settle;
    }
    let hold = Hold::Claim { pool: pool.id.clone(), claim: claim.clone() };
    let chosen = ledger.held().filter(|entry| entry.hold.as_ref() == Some(&hold));
    let marked = ledger.of_claim(&pool.id, claim);
    marked.chain(chosen).find_map(|entry| give_back(pool, claim, entry, &hold, now)).unwrap_or(ReleaseStep::Done)
}

fn give_back(
    pool: &PoolPolicy,
    claim: &ClaimKey,
    entry: &LedgerEntry,
    hold: &Hold,
    now: Timestamp,
) -> Option<ReleaseStep> {
    let id = entry.fip.id.clone();
    let mine = (pool.id.clone(), claim.clone());
    if entry.marks.releases.contains_key(&mine) {
        return None;
    }
    let is_shared = entry.marks.is_unreadable || entry.marks.pools().iter().any(|other| **other != pool.id);
    let described = entry.marks.created.as_ref().filter(|mark| mark.pool == pool.id);
    let is_tagged = entry.marks.claims.contains(&mine);
    let is_chosen = entry.hold.as_ref() == Some(hold);
    match described {
        _ if is_shared => (is_tagged || is_chosen).then(|| ReleaseStep::Withdraw(id, claim_tag(&pool.id, claim))),
        // A rewrite of this claim's that lands late finds the release already there.
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
    use super::super::ledger::Creation;
    use super::super::vocabulary::*;
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
        world.ledger.tagged(&id(10), &release_tag(&pool_id("p"), &key("web"), noon()), true);
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
        let creation = Creation { pool: pool_id("p"), claim: Some(key("web")), unknown_since: Some(noon()) };
        world.ledger.begin_creation(Nonce::parse("nonce12345").expect("of the nonce's form"), creation);
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
