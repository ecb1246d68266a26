//! The end of a pool (design 3, step 8): what it created goes by its policy, all others lose our marks.

use super::{SweepAction, our_tags};
use crate::allocation::ledger::Ledger;
use crate::allocation::mark::Ownership;
use crate::allocation::policy::PoolPolicy;
use crate::allocation::published::PublishedAddresses;
use crate::floating_ip::FloatingIpId;

/// What is left to do before a pool that is being deleted may go, once no claim holds an address of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolTeardown {
    /// To be done now.
    pub chores: Vec<SweepAction>,
    /// Those that lose our marks although something is still attached: named in an event.
    pub attached: Vec<FloatingIpId>,
    /// Whether something is under way or must be seen again.
    pub look_again: bool,
}

/// Plans the end of a pool: what it created goes by its policy, all others lose our marks; without any grace.
///
/// It has ended when there are neither chores nor anything to look at again: no late write, of this process or of a
/// predecessor, can then leave a mark that nobody would ever take off.
pub fn wind_up(ledger: &Ledger, published: &PublishedAddresses, pool: &PoolPolicy) -> PoolTeardown {
    let may_come = ledger.listed().is_none() || ledger.fence(pool).is_some() || ledger.is_in_doubt(&pool.id);
    let mut end = PoolTeardown { look_again: may_come, ..PoolTeardown::default() };
    for entry in ledger.of_pool(&pool.id) {
        let id = entry.fip.id.clone();
        if entry.hold.is_some() || !entry.doubts.is_empty() || !entry.is_confirmed() {
            end.look_again = true;
            continue;
        }
        let mark = entry.marks.created.as_ref().filter(|mark| mark.pool == pool.id);
        let is_alone = matches!(
            entry.marks.ownership(&pool.id),
            Ownership::Idle | Ownership::Held(_) | Ownership::Released { .. }
        );
        let is_unused = mark.is_some_and(|mark| mark.claim.is_none() && !mark.is_retained);
        let is_ours_to_delete =
            mark.is_some() && is_alone && !ledger.is_copied(entry) && !published.is_published(&entry.fip);
        if is_ours_to_delete && !entry.fip.is_attached() && (pool.deletes || is_unused) {
            end.chores.push(SweepAction::Delete(id));
            continue;
        }
        if entry.fip.is_attached() {
            end.attached.push(id.clone());
        }
        let description = mark.map(|_| String::new());
        end.chores.push(SweepAction::Rewrite { id, description, tags: our_tags(pool, entry) });
    }
    end
}
