//! The tags of `spec.tags` that are missing on what the pool created. They are no marks: nothing is decided by them, so that
//! one which is missing, late, or removed by a user does no harm.

use std::collections::BTreeSet;

use super::SweepAction;
use crate::allocation::ledger::LedgerEntry;
use crate::allocation::mark::{Ownership, TAG_LIMIT};
use crate::allocation::situation::Situation;
use crate::floating_ip::FloatingIpId;

/// How many tags are left to marks: a claim's and its release, and one that may land late.
const ROOM_FOR_MARKS: usize = 3;

/// Which tags to add to which floating IPs, once `actions` are done. Not while a claim is being given the address: the tags
/// must not delay it.
pub(super) fn missing_tags(situation: &Situation<'_>, actions: &[SweepAction]) -> Vec<(FloatingIpId, String)> {
    let pool = situation.pool;
    if pool.tags.is_empty() || !pool.has_tags {
        return Vec::new();
    }
    let changing: BTreeSet<&FloatingIpId> = actions.iter().map(SweepAction::id).collect();
    let entries = situation.ledger.of_pool(&pool.id);
    let entries = entries.filter(|entry| may_label(situation, entry) && !changing.contains(&entry.fip.id));
    entries.flat_map(|entry| missing_on(entry, &pool.tags)).collect()
}

/// A claim's only once it has the address: what Neutron offered, and the claim may not have, must stay as it was created.
fn may_label(situation: &Situation<'_>, entry: &LedgerEntry) -> bool {
    let is_settled = match situation.ownership(entry) {
        Ownership::Claimed(claim) => {
            let mut published = situation.relevant_addresses().of_claim(&situation.pool.id, &claim);
            published.any(|published| published.names(&entry.fip))
        }
        Ownership::Unclaimed => true,
        _ => false,
    };
    situation.created_here(entry).is_some()
        && !entry.has_writes()
        && is_settled
        && !situation.ledger.has_copied_mark(entry)
}

/// All that are missing, or none where they would leave no room for marks. Some databases ignore case: there, a tag that is
/// there in another case is not added, and Neutron does not say so.
fn missing_on<'a>(entry: &'a LedgerEntry, tags: &'a BTreeSet<String>) -> impl Iterator<Item = (FloatingIpId, String)> {
    let is_there = |tag: &&String| entry.fip.tags.iter().any(|there| there.eq_ignore_ascii_case(tag));
    let missing: Vec<&String> = tags.iter().filter(|tag| !is_there(tag)).collect();
    let all = entry.fip.tags.len().saturating_add(missing.len());
    let has_room = all.saturating_add(ROOM_FOR_MARKS) <= TAG_LIMIT;
    missing.into_iter().filter(move |_| has_room).map(|tag| (entry.fip.id.clone(), tag.clone()))
}

/// Whether the floating IP still needs the tag: others may have changed it since the plan was made.
pub fn needs_tag(situation: &Situation<'_>, id: &FloatingIpId, tag: &str) -> bool {
    let entry = situation.ledger.get(id).filter(|entry| may_label(situation, entry));
    entry.is_some_and(|entry| missing_on(entry, &situation.pool.tags).any(|(_, missing)| missing == tag))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocation::ledger::Hold;
    use crate::allocation::testing::*;

    fn labels(fixture: Fixture) -> Vec<(u8, String)> {
        let fixture = fixture.with_policy(|pool| pool.tags = ["cost".into(), "prod".into()].into());
        let numbers = |last: &u8| (id(*last), *last);
        let known: std::collections::BTreeMap<_, _> = [10, 11].iter().map(numbers).collect();
        fixture.plan().labels.into_iter().map(|(id, tag)| (known[&id], tag)).collect()
    }

    #[test]
    fn what_the_pool_created_gets_the_tags_that_it_lacks() {
        let held = || fip(10).created_for("web");
        let both = vec![(10, "cost".to_owned()), (10, "prod".to_owned())];
        assert_eq!(labels(fixture().fips([held()]).published("web", 10)), both);
        assert_eq!(labels(fixture().fips([held().attached()]).published("web", 10)), both);
        assert_eq!(labels(fixture().with_policy(|pool| pool.min_free = 1).fips([fip(10).idle()])), both);
        let one = fixture().fips([held().tag("prod").tag("of-a-user")]).published("web", 10);
        assert_eq!(labels(one), vec![(10, "cost".to_owned())]);
        assert!(labels(fixture().fips([held().tag("prod").tag("cost")]).published("web", 10)).is_empty());
    }

    #[test]
    fn a_tag_is_needed_until_it_is_there() {
        let fixture = fixture().with_policy(|pool| pool.tags = ["cost".into(), "prod".into()].into());
        let fixture = fixture.fips([fip(10).created_for("web").tag("prod")]).published("web", 10);
        let needed = |tag| needs_tag(&fixture.situation(), &id(10), tag);
        assert_eq!(["cost", "prod", "other"].map(needed), [true, false, false]);
    }

    #[test]
    fn nothing_else_is_tagged() {
        let claimed = || fip(10).created_for("web");
        let held = Hold::Claim { pool: pool_id("p"), claim: key("web") };
        let table = [
            ("listed", fixture().listed([10]).fips([fip(10).tagged_for("web")]).published("web", 10)),
            ("reusable", fixture().fips([fip(10)])),
            ("being given to its claim", fixture().fips([claimed()]).published("web", 10).held(10, held)),
            (
                "unwanted",
                fixture().excluding("203.0.113.10/32").fips([claimed()]).active_claim("web").published("web", 11),
            ),
            ("about to be deleted", fixture().fips([fip(10).idle()])),
            ("released", fixture().fips([claimed().released_by("web", ago(9)).attached()])),
            ("contested", fixture().fips([claimed().tagged_by_another_pool()])),
            ("of a newer version", fixture().fips([claimed().tag("caip2.p")])),
            ("full of tags", fixture().fips([claimed().full_of_tags()]).published("web", 10)),
            (
                "without tags",
                fixture().with_policy(|pool| pool.has_tags = false).fips([claimed()]).published("web", 10),
            ),
            ("fenced", fixture().fenced().fips([claimed()]).published("web", 10)),
        ];
        for (what, fixture) in table {
            assert!(labels(fixture).is_empty(), "{what}");
        }
        let copied = fip(10).idle().0.description;
        assert!(labels(fixture().fips([fip(10).idle(), fip(11).described(copied)])).is_empty(), "copied");
    }

    #[test]
    fn room_is_left_for_marks() {
        let with =
            |count: usize| (0..count).fold(fip(10).created_for("web"), |fip, n| fip.tag(format!("of-a-user-{n}")));
        let published = |count| labels(fixture().fips([with(count)]).published("web", 10)).len();
        assert_eq!((published(45), published(46)), (2, 0));
    }
}
