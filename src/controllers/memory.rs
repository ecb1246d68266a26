//! What the controllers remember: a record for each pool and each claim, which lives as long as the object, and the
//! addresses that Kubernetes names. Addresses in Neutron are in the ledger.

mod claims;
mod interruptions;
mod pools;
mod secrets;
mod upkeep;
mod watched;

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::allocation::ledger::SETTLING;
use crate::allocation::{ClaimKey, Ledger, PublishedAddresses, Situation};
use crate::controllers::project::Project;
use crate::object_name::ObjectName;
use jiff::Timestamp;

pub(super) use claims::{ADDRESS_APPEARS_WITHIN, ClaimRecords, WaitingClaim};
pub(super) use interruptions::Interruptions;
pub(super) use pools::{PoolRecords, PoolState, Problem, ResolutionInputs, ResolvedPool};
pub(super) use secrets::ProtectedSecrets;
pub(super) use upkeep::{Upkeep, UpkeepPart};

/// Locks are taken in this order: a project's ledger, `published`, the project's namespaces, a record. None is held across an await.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) pools: PoolRecords,
    pub(super) claims: ClaimRecords,
    pub(super) published: RwLock<PublishedAddresses>,
    pub(super) secrets: Mutex<ProtectedSecrets>,
    pub(super) interruptions: Interruptions,
    left: Mutex<Vec<LeftLedger>>,
}

/// The ledger of a pool that is gone, and since when: another object may get the pool's id while a call may still land.
struct LeftLedger {
    project: Arc<Project>,
    since: Timestamp,
}

impl LeftLedger {
    /// The pool's last call ends within [`SETTLING`]. If its outcome is not known then, it may land for as long again.
    fn may_land(&self, now: Timestamp) -> bool {
        now.duration_since(self.since) < SETTLING.saturating_mul(2)
    }
}

impl Memory {
    /// Evaluates a decision about one pool at this moment.
    pub(super) fn with_situation<T>(
        &self,
        ledger: &Ledger,
        pool: &ResolvedPool,
        now: Timestamp,
        decide: impl FnOnce(&Situation<'_>) -> T,
    ) -> T {
        let (published, namespaces) = (self.published.read(), pool.project.namespaces());
        self.claims.read(&pool.name, |claims, queue| {
            let (published, namespaces, pool) = (&published, &namespaces, &pool.policy);
            decide(&Situation { ledger, published, namespaces, pool, claims, queue, now })
        })
    }

    /// The pool's session has ended, and its calls may still be under way.
    pub(super) fn leave_ledger(&self, ended: &ResolvedPool, now: Timestamp) {
        self.end_use_of_ledger(ended, now);
        if ended.project.ledger().has_unknown_outcomes() {
            self.pools.update(&ended.name, |state| state.left_calls_at = Some(now));
        }
    }

    /// The pool is gone.
    pub(super) fn leave_pool(&self, gone: &ResolvedPool, now: Timestamp) {
        self.end_use_of_ledger(gone, now);
        self.left.lock().push(LeftLedger { project: gone.project.project().clone(), since: now });
    }

    /// Forgets the ledgers of pools that are gone of which no call can land any more.
    pub(super) fn forget_left_ledgers(&self, now: Timestamp) {
        self.left.lock().retain(|left| left.may_land(now));
    }

    /// The pool is gone, or has lost its session: its claims hold nothing any more. What else the ledger has under its id may
    /// be that of a copy, another pool with the id in the same project.
    fn end_use_of_ledger(&self, gone: &ResolvedPool, now: Timestamp) {
        let (id, copies) = (&gone.policy.id, self.pools.copies_of(gone));
        let mut ledger = gone.project.ledger();
        let is_of =
            |copy: &ObjectName, claim: &ClaimKey| self.claims.read(copy, |claims, _| claims.contains_key(claim));
        ledger.leave_holds(id, |claim| !copies.iter().any(|copy| is_of(copy, claim)), now);
        if copies.is_empty() {
            ledger.forget_pool(id);
        }
    }

    /// Whether the outcome of a write is unknown: it may still take effect.
    pub(super) fn has_unknown_outcomes(&self, now: Timestamp) -> bool {
        let is_unknown = |left: &LeftLedger| left.may_land(now) && left.project.ledger().has_unknown_outcomes();
        self.pools.has_unknown_outcomes(now)
            || self.claims.has_unknown_outcomes()
            || self.left.lock().iter().any(is_unknown)
    }

    /// 0 when there are no pools and claims.
    pub(super) fn count_records(&self) -> usize {
        [self.pools.len(), self.claims.len(), self.secrets.lock().len(), self.left.lock().len()].iter().sum()
    }
}
