//! The inputs of a decision, and the checks of a floating IP that several decisions share.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};

use super::identity::ClaimKey;
use super::ledger::{Ledger, LedgerEntry};
use super::mark::{CreationMark, Ownership};
use super::policy::PoolPolicy;
use super::published::{PublishedAddresses, RelevantAddresses};
use crate::floating_ip::FloatingIp;
use crate::object_name::ObjectName;
use crate::time::CLOCK_SKEW;

/// From this age on, a floating IP is one that its owner keeps, and not an offer that it deletes at once.
const KEPT_AGE: SignedDuration = SignedDuration::from_secs(30);

/// What is known at the moment of a decision about one pool.
#[derive(Clone, Copy)]
pub struct Situation<'a> {
    /// The floating IPs of the pool's project, and the writes under way.
    pub ledger: &'a Ledger,
    /// The addresses that Kubernetes names.
    pub published: &'a PublishedAddresses,
    /// The namespaces with a pool of the same project, the pool's own included.
    pub namespaces: &'a BTreeSet<String>,
    /// Those with a pool of which it is not known yet whose project it is of.
    pub unresolved: &'a BTreeSet<String>,
    pub pool: &'a PoolPolicy,
    /// Every claim that points at the pool.
    pub claims: &'a BTreeMap<ClaimKey, ClaimState>,
    /// Those that were refused an address.
    pub queue: &'a BTreeSet<QueuePosition>,
    pub now: Timestamp,
}

impl<'a> Situation<'a> {
    /// What Kubernetes names, as far as it counts for the pool.
    pub(super) fn relevant_addresses(&self) -> RelevantAddresses<'a> {
        RelevantAddresses::new(self.published, self.namespaces)
    }

    pub(super) fn ownership(&self, entry: &LedgerEntry) -> Ownership {
        entry.marks.ownership(&self.pool.id)
    }

    /// The creation mark, where this pool created the floating IP.
    pub(super) fn created_here<'e>(&self, entry: &'e LedgerEntry) -> Option<&'e CreationMark> {
        entry.marks.created.as_ref().filter(|mark| mark.pool == self.pool.id)
    }

    /// The floating IPs at an address, without those that their owners may delete at once because they cannot give them:
    /// statuses would change with each attempt.
    pub(super) fn kept_at(self, address: IpAddr) -> impl Iterator<Item = &'a LedgerEntry> {
        self.ledger
            .at(address)
            .filter(move |entry| !self.ledger.is_only_offered(entry) && !self.is_new_elsewhere(entry))
    }

    /// Whether another owner, perhaps in another management cluster, had just created it when it was last seen, and no
    /// IPAddress here names it. The clocks of Neutron and of the controller may differ.
    fn is_new_elsewhere(self, entry: &LedgerEntry) -> bool {
        let age = |created_at| entry.seen.at.duration_since(created_at);
        entry.fip.created_at.is_some_and(|at| (-CLOCK_SKEW..KEPT_AGE).contains(&age(at)))
            && entry.marks.created.is_some()
            && !entry.marks.names(&self.pool.id)
            && self.relevant_addresses().bindings_of(&entry.fip).next().is_none()
    }

    /// Whether another claim of the pool has a floating IP with this one's address, which must be gone.
    pub(super) fn was_anothers(&self, fip: &FloatingIp, claim: Option<&ClaimKey>) -> bool {
        let mut others = self.ledger.at(fip.address);
        others.any(|other| {
            let is_predecessor = other.fip.id != fip.id && other.fip.network == fip.network;
            is_predecessor
                && matches!(self.ownership(other), Ownership::Claimed(holder)
                    if Some(&holder) != claim && self.is_active(&holder) && !self.has_other_address(&holder, fip))
        })
    }

    pub(super) fn is_on_network(&self, entry: &LedgerEntry) -> bool {
        self.pool.network.as_ref() == Some(&entry.fip.network)
    }

    /// Whether the claim exists and has no other address: then it has this one, or decides about it next.
    pub(super) fn is_needed_by(&self, claim: &ClaimKey, fip: &FloatingIp) -> bool {
        self.claims.get(claim).is_some_and(|states| match states {
            ClaimState::Waiting | ClaimState::Bound => !self.has_other_address(claim, fip),
            ClaimState::Deleting => true,
        })
    }

    /// Whether a claim's mark on an address counts no longer: the claim exists and has another one.
    pub(super) fn is_stale_mark(&self, claim: &ClaimKey, fip: &FloatingIp) -> bool {
        self.is_active(claim) && self.has_other_address(claim, fip)
    }

    /// Whether the claim exists and is not being deleted.
    pub(super) fn is_active(&self, claim: &ClaimKey) -> bool {
        matches!(self.claims.get(claim), Some(ClaimState::Waiting | ClaimState::Bound))
    }

    /// Whether an IPAddress of the claim is published, and none with this floating IP's address.
    pub(super) fn has_other_address(&self, claim: &ClaimKey, fip: &FloatingIp) -> bool {
        let mut published = self.relevant_addresses().of_claim(&self.pool.id, claim).peekable();
        published.peek().is_some() && published.all(|published| !published.names(fip))
    }

    /// Whether the address is kept for one claim, which may not exist yet.
    pub(super) fn is_reserved(&self, fip: &FloatingIp) -> bool {
        self.pool.reserved_for(fip.address).is_some() && !self.pool.is_excluded(fip.address)
    }

    /// Whether the claim that the address is reserved for exists and has no other address.
    pub(super) fn is_awaited(&self, fip: &FloatingIp) -> bool {
        let Some(name) = self.pool.reserved_for(fip.address).filter(|_| !self.pool.is_excluded(fip.address)) else {
            return false;
        };
        let claim = ClaimKey::of(&self.pool.namespace, name);
        self.is_active(&claim) && !self.has_other_address(&claim, fip)
    }

    /// How many addresses count under the pool's `maxIPs`: besides those that the
    /// [ledger counts](Ledger::count_towards_limit), those of its bound claims that lost their mark, and will have it again.
    pub(super) fn count_towards_limit(&self) -> usize {
        let Situation { ledger, pool, claims, .. } = *self;
        let is_held = |entry: &LedgerEntry| entry.writers().any(|hold| hold.is_for_pool(&pool.id));
        let has_it = |claim: &ClaimKey| matches!(claims.get(claim), Some(ClaimState::Bound | ClaimState::Deleting));
        let lost = ledger.unmarked().filter(|entry| {
            let mut bindings = self.relevant_addresses().bindings_of(&entry.fip);
            !is_held(entry) && bindings.any(|it| it.pool == pool.id && has_it(&it.claim))
        });
        ledger.count_towards_limit(&pool.id).saturating_add(lost.count())
    }

    /// Until when late writes of a previous process may land; a past time until a listing has begun after it.
    pub(super) fn fence(&self) -> Option<Timestamp> {
        self.ledger.fence(self.pool)
    }

    /// The claims that wait for any address, oldest first. A claim with a reservation waits for that address alone.
    pub(super) fn queue_for_any(&self) -> impl Iterator<Item = &'a QueuePosition> {
        let reservations = &self.pool.reservations;
        self.queue.iter().filter(|position| !reservations.contains_key(&position.object.name))
    }
}

/// What an existing claim needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClaimState {
    /// It needs an address; or its IPAddress names one, and its status does not say so yet.
    Waiting,
    /// It has, or had, an address: its status says so.
    Bound,
    /// It is being deleted: its own release is under way, or waits for other finalizers.
    Deleting,
}

/// A claim's position among those that wait for an address: the oldest claim first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct QueuePosition {
    /// When the claim was created.
    pub since: Timestamp,
    /// Tells claims of the same second apart.
    pub object: ObjectName,
    /// The same claim, as marks name it.
    pub key: ClaimKey,
}
