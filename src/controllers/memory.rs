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
use crate::allocation::{ClaimKey, Ledger, PoolId, PublishedAddresses, Situation};
use crate::controllers::project::Project;
use crate::object_name::ObjectName;
use crate::openstack::session::LANDS_WITHIN;
use crate::time::after;
use jiff::Timestamp;

pub(super) use claims::{ADDRESS_APPEARS_WITHIN, ClaimRecords, WaitingClaim};
pub(super) use interruptions::Interruptions;
pub(super) use pools::{PoolRecords, PoolState, Problem, ResolutionInputs, ResolvedPool};
pub(super) use secrets::ProtectedSecrets;
pub(super) use upkeep::{Upkeep, UpkeepPart};

/// Locks are taken in this order: `left`, a project's ledger, `published`, the project's namespaces, a record. None is held
/// across an await, or while the last pool of a project with its credentials may be dropped: that takes the ledger.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) pools: PoolRecords,
    pub(super) claims: ClaimRecords,
    pub(super) published: RwLock<PublishedAddresses>,
    pub(super) secrets: Mutex<ProtectedSecrets>,
    pub(super) interruptions: Interruptions,
    left: Mutex<Vec<LeftLedger>>,
}

/// A ledger that a pool does not use any more, and since when: the pool is gone, or its session has ended. Calls of the pool
/// may still land when it uses another ledger, or another object of the namespace has its id.
struct LeftLedger {
    project: Arc<Project>,
    /// Another namespace may have a pool of a tenant who guessed the id.
    namespace: String,
    pool: PoolId,
    since: Timestamp,
    /// Whether a call of the pool was under way, or its outcome was not known.
    had_calls: bool,
}

impl LeftLedger {
    /// The pool's last call ends within [`SETTLING`]. If its outcome is not known then, it may land for as long again.
    fn may_land(&self, now: Timestamp) -> bool {
        now.duration_since(self.since) < SETTLING.saturating_mul(2)
    }

    fn is_of_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.project, &other.project) && (&self.namespace, &self.pool) == (&other.namespace, &other.pool)
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
        let unresolved = &self.pools.namespaces_to_resolve();
        let (published, namespaces) = (self.published.read(), pool.project.namespaces());
        self.claims.read(&pool.name, |claims, queue| {
            let (published, namespaces, pool) = (&published, &namespaces, &pool.policy);
            decide(&Situation { ledger, published, namespaces, unresolved, pool, claims, queue, now })
        })
    }

    /// The pool is gone, or its session has ended. Its calls may still be under way.
    pub(super) fn leave_ledger(&self, ended: &ResolvedPool, now: Timestamp) {
        self.end_use_of_ledger(ended, now);
        let pool = ended.policy.id.clone();
        let had_calls = ended.project.ledger().has_calls_of(&pool);
        let (project, namespace) = (ended.project.project().clone(), ended.name.namespace.clone());
        let new = LeftLedger { project, namespace, pool, since: now, had_calls };
        let mut left = self.left.lock();
        left.retain(|known| !known.is_of_same(&new));
        left.push(new);
    }

    /// Until when calls may land that this ledger does not know: the pool had another one before. As long as in one ledger,
    /// where a call that is not answered in time is expected for [`SETTLING`] more.
    pub(super) fn fence_of_left(&self, namespace: &str, pool: &PoolId, project: &Arc<Project>) -> Option<Timestamp> {
        let is_other = |left: &&LeftLedger| !Arc::ptr_eq(&left.project, project);
        let left = self.left.lock();
        let others = left.iter().filter(is_other).filter(|left| left.namespace == namespace && left.pool == *pool);
        let end = |left: &LeftLedger| {
            let answered = after(left.since, LANDS_WITHIN);
            if left.had_calls { after(answered, SETTLING) } else { answered }
        };
        others.map(end).max()
    }

    /// Forgets the ledgers that pools have left and of which no call can land any more.
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
