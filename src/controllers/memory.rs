//! What the controllers remember: a record for each pool and each claim, which lives as long as the object, and the
//! addresses that Kubernetes names. Addresses in Neutron are in the ledger.

mod claims;
mod interruptions;
mod pools;
mod secrets;
mod upkeep;
mod watched;

use parking_lot::{Mutex, RwLock};

use crate::allocation::{ClaimKey, Ledger, PublishedAddresses, Situation};
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

    /// The pool is gone, or has lost its session: its claims hold nothing any more. What else the ledger has under its id may
    /// be that of a copy, another pool with the id in the same project.
    pub(super) fn end_use_of_ledger(&self, gone: &ResolvedPool, now: Timestamp) {
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
        self.pools.has_unknown_outcomes(now) || self.claims.has_unknown_outcomes()
    }

    /// 0 when there are no pools and claims.
    pub(super) fn count_records(&self) -> usize {
        [self.pools.len(), self.claims.len(), self.secrets.lock().len()].iter().sum()
    }
}
