//! Addresses with marks of two owners, one of them this pool: the marks of claims that have no right to it are removed.

use std::collections::BTreeSet;

use super::{SweepAction, SweepPass};
use crate::allocation::identity::{ClaimKey, PoolId};
use crate::allocation::ledger::LedgerEntry;
use crate::allocation::mark::{CreationMark, claim_tag};

impl SweepPass<'_> {
    pub(super) fn visit_contested(&mut self, entry: &LedgerEntry) {
        let pool = self.situation.pool;
        let claims = entry.marks.claims_of(&pool.id);
        let unjustified: BTreeSet<&ClaimKey> =
            claims.iter().filter(|claim| !self.is_justified(entry, claim)).copied().collect();
        let is_held = self.situation.relevant_addresses().bindings_of(&entry.fip).next().is_some()
            || unjustified.len() < claims.len();
        if unjustified.is_empty() && is_held {
            return;
        }
        let owners: Vec<_> = unjustified.iter().map(|claim| (pool.id.clone(), (*claim).clone())).collect();
        let is_released = !owners.is_empty() && owners.iter().all(|owner| entry.marks.is_released_by(owner));
        // A claim that exists and has another address does not need this one: its mark landed late. The other owner waits. But
        // during a move, that IPAddress may be an old one.
        let has_other_address = |claim: &&ClaimKey| self.situation.has_other_address(claim, &entry.fip);
        let is_superfluous = !owners.is_empty() && !self.cluster.is_paused && unjustified.iter().all(has_other_address);
        // A mark that cannot be read may be of a newer version, for a claim that this version does not see.
        if !is_released && !is_superfluous && !self.report_orphan(entry) || entry.marks.is_unreadable {
            return;
        }
        let is_created_here = self.situation.created_here(entry).is_some();
        let may_remove = is_held || is_released || is_superfluous || pool.releases_orphans;
        // A port on an address that the pool did not create is the other owner's; on its own it may be its claim's.
        if may_remove && !(is_created_here && entry.fip.is_attached()) {
            self.remove_marks(entry, &owners);
        }
    }

    /// Whether the claim's mark is right: its IPAddress names the address or, without any IPAddress, it needs one. What
    /// another pool's claim needs, that pool knows.
    pub(super) fn is_justified(&self, entry: &LedgerEntry, claim: &ClaimKey) -> bool {
        if self.cluster.claims_of_duplicates.contains(claim) {
            return true;
        }
        let pool = &self.situation.pool.id;
        let mut bindings = self.situation.relevant_addresses().bindings_of(&entry.fip).peekable();
        if bindings.peek().is_some() {
            return bindings.any(|binding| binding.is_of(pool, claim));
        }
        // Released beside another owner, it is not taken back by a new claim of that name.
        self.situation.is_needed_by(claim, &entry.fip) && !entry.marks.is_released_by(&(pool.clone(), claim.clone()))
    }

    /// Removes the marks of these claims. What the pool created stays the pool's.
    fn remove_marks(&mut self, entry: &LedgerEntry, owners: &[(PoolId, ClaimKey)]) {
        let mark = self.situation.created_here(entry);
        let mark = mark.filter(|mark| owners.iter().any(|(_, claim)| mark.claim.as_ref() == Some(claim)));
        let description = mark.map(|mark| CreationMark { is_retained: true, ..mark.given_back() }.render(None));
        let claims = entry.marks.claims.iter().filter(|owner| owners.contains(owner));
        let claims = claims.map(|(owner, claim)| claim_tag(owner, claim));
        let releases = entry.marks.release_tags(|owner| owners.contains(owner));
        let tags: Vec<String> = claims.chain(releases).collect();
        if description.is_some() || !tags.is_empty() {
            self.plan.actions.push(SweepAction::Rewrite { id: entry.fip.id.clone(), description, tags });
        }
    }
}
