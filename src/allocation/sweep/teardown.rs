//! What is left to do in Neutron before a pool that is being deleted may go: what it created is deleted by its policy, and
//! our marks are removed from everything else.

use super::SweepAction;
use crate::allocation::ledger::LedgerEntry;
use crate::allocation::mark::Ownership;
use crate::allocation::situation::Situation;
use crate::floating_ip::FloatingIpId;

/// What is left to do once no claim has an address of the pool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolTeardown {
    /// To be done now, without any grace period.
    pub actions: Vec<SweepAction>,
    /// Addresses that lose our marks although something is still attached.
    pub attached: Vec<FloatingIpId>,
    /// The pool created them, and a newer version has marked them too: they stay as they are.
    pub newer: Vec<FloatingIpId>,
    /// A write is under way or uncertain, or must be listed.
    pub must_list: bool,
    /// Addresses that are marked for a claim. None of them is changed while a Cluster of the namespace is paused: the claims
    /// may be on their way here, or be where the pool was moved from.
    pub claimed: Vec<FloatingIpId>,
}

/// Plans the end of a pool. `is_paused` says whether a Cluster of its namespace is. While late writes of a previous process
/// may land, nothing is done: that process may be in the management cluster from which the pool was moved.
///
/// It is complete when there is neither an action nor anything to list: then no late write, of this process or a previous
/// one, can leave a mark that nothing would ever remove.
pub fn plan_teardown(situation: &Situation<'_>, is_paused: bool) -> PoolTeardown {
    let Situation { ledger, pool, .. } = *situation;
    let may_change =
        ledger.is_unlisted(pool.viewer) || situation.fence().is_some() || ledger.has_uncertain_writes(&pool.id);
    let mut teardown = PoolTeardown { must_list: may_change, ..PoolTeardown::default() };
    for entry in ledger.of_pool(&pool.id) {
        let id = entry.fip.id.clone();
        if entry.has_writes() || !entry.is_confirmed() {
            teardown.must_list = true;
            continue;
        }
        if entry.marks.is_newer && situation.created_here(entry).is_some() {
            teardown.newer.push(id);
            continue;
        }
        if is_paused && matches!(situation.ownership(entry), Ownership::Claimed(_)) {
            teardown.claimed.push(id);
            continue;
        }
        if is_deletable(situation, entry) {
            teardown.actions.push(SweepAction::Delete(id));
            continue;
        }
        if entry.fip.is_attached() {
            teardown.attached.push(id.clone());
        }
        let description = situation.created_here(entry).map(|_| String::new());
        teardown.actions.push(SweepAction::Rewrite { id, description, tags: entry.marks.tags_of(&pool.id) });
    }
    if situation.fence().is_some() {
        teardown.actions.clear();
        teardown.attached.clear();
    }
    teardown
}

/// Whether a floating IP whose deletion was planned is still to be deleted. A claim and its IPAddress may have been restored
/// since.
pub fn is_still_deletable(situation: &Situation<'_>, id: &FloatingIpId) -> bool {
    situation.ledger.get(id).is_none_or(|entry| is_deletable(situation, entry))
}

fn is_deletable(situation: &Situation<'_>, entry: &LedgerEntry) -> bool {
    let Some(mark) = situation.created_here(entry) else { return false };
    let is_only_ours =
        matches!(situation.ownership(entry), Ownership::Unclaimed | Ownership::Claimed(_) | Ownership::Released { .. });
    let is_unused = mark.claim.is_none() && !mark.is_retained;
    is_only_ours
        && (situation.pool.deletes || is_unused)
        && !entry.fip.is_attached()
        && !situation.ledger.has_copied_mark(entry)
        && !situation.relevant_addresses().is_published(&entry.fip)
}
