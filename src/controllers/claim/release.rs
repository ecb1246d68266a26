//! Releases a claim's address: mark it as released, remove the IPAddress, remove the claim's finalizer. The sweep does the
//! rest.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::EventType;
use kube::{Resource, ResourceExt};

use super::attempt::AFTER_FENCE;
use super::observe::Observed;
use super::publish::remove_address;
use super::{CHANGED_RETRY, ClaimController, Error, RETRY};
use crate::allocation::ClaimKey;
use crate::allocation::ledger::Hold;
use crate::allocation::mark::claim_tag;
use crate::allocation::release::{ReleaseStep, decide, given_up};
use crate::api::IpAddress;
use crate::api::conditions::event_reasons::FLOATING_IP_LEFT_BEHIND;
use crate::api::names::{ADDRESS_FINALIZER, CLAIM_FINALIZER};
use crate::clock::Clock;
use crate::controllers::memory::{Memory, ResolvedPool};
use crate::controllers::neutron_writer::{NeutronWriter, render};
use crate::controllers::objects::is_abandoned;
use crate::controllers::patch;
use crate::controllers::queue::Action;
use crate::metrics::OperationResult;
use crate::object_name::ObjectName;
use crate::openstack;

/// More steps than a release needs, even of many addresses that Neutron offered in vain.
const STEPS: usize = 64;

impl ClaimController {
    pub(super) async fn release(&self, observed: &Observed) -> Result<Action, Error> {
        if self.is_address_unseen(observed).await? {
            return Ok(Action::requeue(CHANGED_RETRY));
        }
        let is_its_own = |address: &&IpAddress| {
            address.spec.claim_ref.name == observed.name.name && address.spec.pool_ref == observed.claim.spec.pool_ref
        };
        self.release_with(observed, observed.address.as_deref().filter(is_its_own)).await
    }

    /// Releases the claim, and removes this IPAddress.
    pub(super) async fn release_with(&self, observed: &Observed, address: Option<&IpAddress>) -> Result<Action, Error> {
        // Otherwise its IPAddress could appear when another claim has the address.
        if let Some(left) = self.memory.claims.address_uncertain_for(&observed.pool_name, &observed.name) {
            return self.await_outcome(observed, left).await;
        }
        let released = match self.release_in_neutron(observed, address).await {
            // What was not sent since the session ended looks like a conflict. The next session releases it.
            Err(Error::OpenStack(_)) if observed.has_session_ended() => return Ok(Action::requeue(CHANGED_RETRY)),
            released => released?,
        };
        if let MarkRelease::Fenced(until) = released {
            let left = Duration::try_from(until.duration_since(self.clock.now())).unwrap_or_default();
            return self.await_outcome(observed, left).await;
        }
        if let Some(address) = address {
            remove_address(&self.kube, address).await?;
        }
        if released == MarkRelease::Published {
            if let Some(finalizer) = address.and_then(kept_by) {
                self.report_release_kept(observed, finalizer).await?;
            }
            // The watch wakes it once the IPAddress is gone.
            return Ok(Action::requeue(RETRY));
        }
        self.remove_finalizer(observed).await?;
        self.wake.report_soon(&observed.pool_name);
        Ok(Action::await_change())
    }

    async fn await_outcome(&self, observed: &Observed, left: Duration) -> Result<Action, Error> {
        tracing::info!(claim.name = %observed.name, "the release waits for calls whose outcome is not known");
        // One that is not being deleted says why it waits for an address.
        if observed.is_being_deleted() {
            self.report_release_waits(observed).await?;
        }
        Ok(Action::requeue(left.saturating_add(AFTER_FENCE)))
    }

    /// Whether the claim has an IPAddress that the watch has not delivered. Without this check, the claim would leave it
    /// behind: the garbage collector keeps what the pool still owns.
    async fn is_address_unseen(&self, observed: &Observed) -> Result<bool, Error> {
        if observed.address.is_some() {
            return Ok(false);
        }
        Ok(self.read_address(observed).await?.is_some())
    }

    async fn release_in_neutron(&self, observed: &Observed, address: Option<&IpAddress>) -> Result<MarkRelease, Error> {
        let is_abandoned = is_abandoned(observed.claim.as_ref())
            || observed.pool.as_ref().is_some_and(|pool| is_abandoned(pool.as_ref()));
        match &observed.pool_state.resolved {
            Some(pool) if !is_abandoned => {
                let released = release_marks(pool, &self.memory, &self.clock, &observed.name, address.is_some())
                    .await
                    .inspect_err(|_| self.metrics.released(OperationResult::Failure))
                    .map_err(Error::OpenStack)?;
                let is_recorded = released == MarkRelease::Published
                    && address.is_some_and(|address| address.metadata.deletion_timestamp.is_some());
                if observed.is_being_deleted()
                    && !is_recorded
                    && let Some(address) = address.and_then(|address| marked_by_newer_version(address, pool))
                {
                    self.record_left(observed, &address, "a newer version of caip-openstack has marked it").await;
                }
                self.wake.sweeper(&pool.name);
                Ok(released)
            }
            _ if is_abandoned || observed.pool.is_none() || observed.pool_state.has_no_marks => {
                self.leave_behind(observed, address).await;
                Ok(MarkRelease::Done)
            }
            _ => {
                let problem = observed.pool_state.problem.as_ref();
                let problem = problem.map_or("it has not been reconciled yet", |problem| &problem.message);
                Err(Error::PoolNotReady(problem.to_owned()))
            }
        }
    }

    /// A claim that takes nothing for now does not keep others from what it was about to choose, unless its IPAddress may
    /// still appear.
    pub(super) fn end_idle_holds(&self, claim: &ObjectName) {
        let key = ClaimKey::of(&claim.namespace, &claim.name);
        for (name, pool) in self.pools_beside(claim) {
            let mut ledger = pool.project.ledger();
            if self.memory.claims.address_uncertain_for(&name, claim).is_some() {
                ledger.leave_holds(&pool.policy.id, |holder| *holder == key, self.clock.now());
            } else {
                ledger.end_holds(&pool.policy.id, &key);
            }
        }
    }

    /// The claim has an IPAddress that is not its own: it gives up what nothing uses, once its own can no longer appear.
    pub(super) async fn give_up_choices(&self, observed: &Observed, pool: &ResolvedPool) -> Result<(), Error> {
        self.end_idle_holds(&observed.name);
        if self.memory.claims.address_uncertain_for(&pool.name, &observed.name).is_some() {
            return Ok(());
        }
        let (id, claim) = (&pool.policy.id, &observed.key);
        let given_up = self.memory.with_situation(&pool.project.ledger(), pool, self.clock.now(), |situation| {
            given_up(situation, claim, observed.is_bound())
        });
        let (writer, mut result) = (NeutronWriter::new(pool, &self.clock), Ok(()));
        for fip in given_up {
            let hold = Hold::Claim { pool: id.clone(), claim: claim.clone() };
            match writer.withdraw(&fip, &claim_tag(id, claim), hold).await {
                // The claim waits, too: it would be woken for what it could not give up.
                Ok(()) if pool.project.ledger().of_claim(id, claim).any(|entry| entry.fip.id == fip) => {}
                Ok(()) => self.wake.waiting_claims_of(&pool.name),
                Err(error) => result = Err(Error::OpenStack(error)),
            }
        }
        result
    }

    /// The pools of the claim's namespace that are known: it may hold something in each.
    fn pools_beside(&self, claim: &ObjectName) -> impl Iterator<Item = (ObjectName, Arc<ResolvedPool>)> {
        let pools = self.memory.pools.names().into_iter().filter(|pool| pool.namespace == claim.namespace);
        pools.filter_map(|name| Some((name.clone(), self.memory.pools.get(&name).resolved?)))
    }

    /// Ends the holds of a claim that is gone, however it went: abandoned, or by force.
    pub(in crate::controllers) fn end_holds(&self, claim: &ObjectName, is_ended_in: impl Fn(&ObjectName) -> bool) {
        let key = ClaimKey::of(&claim.namespace, &claim.name);
        for (name, pool) in self.pools_beside(claim).filter(|(name, _)| is_ended_in(name)) {
            end_unwanted_holds(&pool, &key);
            if pool.project.ledger().forget_claim(&pool.policy.id, &key) {
                self.wake.sweeper(&name);
                self.wake.waiting_claims_of(&name);
            }
        }
    }

    async fn remove_finalizer(&self, observed: &Observed) -> Result<(), Error> {
        if !observed.is_protected() {
            return Ok(());
        }
        // Until the watch delivers this, the claim must not be released again. A claim that is not deleted waits for
        // another pool.
        self.memory.claims.set_released(&observed.claim, observed.is_being_deleted());
        let api = self.kube.claims(&observed.name.namespace);
        match patch::remove_finalizer(&api, observed.claim.as_ref(), CLAIM_FINALIZER).await {
            // Counted here, since everything before is repeated after a conflict.
            Ok(Some(claim)) => {
                self.memory.claims.note_written(&claim);
                self.metrics.released(OperationResult::Success);
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(error) if patch::is_gone(&error) => Ok(()),
            Err(error) => {
                self.memory.claims.set_released(&observed.claim, false);
                Err(Error::Kubernetes("remove the finalizer from the claim", error))
            }
        }
    }

    /// Records the floating IP that stays in OpenStack because its pool is gone or was abandoned.
    async fn leave_behind(&self, observed: &Observed, address: Option<&IpAddress>) {
        let published = address.map(|address| address.spec.address.clone());
        let Some(address) = published.or_else(|| marked_address(observed)) else { return };
        let why = match &observed.pool {
            None => "its pool is gone",
            Some(_) if observed.pool_state.has_no_marks => "its pool has no ID, or the ID of another pool",
            Some(_) => "the abandon annotation says so",
        };
        self.record_left(observed, &address, why).await;
    }

    async fn record_left(&self, observed: &Observed, address: &str, why: &str) {
        tracing::warn!(claim.name = %observed.name, fip.address = %address, "floating IP left behind in OpenStack: {why}");
        let on: ObjectReference = observed.claim.object_ref(&self.kube.version);
        let note = format!(
            "floating IP {address} was left as it is in OpenStack, since {why}; delete it there if nothing uses it"
        );
        self.events.record(on, EventType::Warning, FLOATING_IP_LEFT_BEHIND, "Release", note).await;
    }
}

/// The published address, if a newer version has marked it: then it is not released.
fn marked_by_newer_version(address: &IpAddress, pool: &ResolvedPool) -> Option<String> {
    let ip: IpAddr = address.spec.address.parse().ok()?;
    let ledger = pool.project.ledger();
    ledger.at(ip).any(|entry| entry.marks.is_newer).then(|| ip.to_string())
}

/// An address that carries the claim's mark and is not published, as far as that is known.
fn marked_address(observed: &Observed) -> Option<String> {
    let resolved = observed.pool_state.resolved.as_ref()?;
    let (ledger, id) = (resolved.project.ledger(), &resolved.policy.id);
    let owner = (id.clone(), observed.key.clone());
    let held = ledger.of_claim(id, &observed.key).filter(|entry| !entry.marks.is_released_by(&owner));
    // One that another owner waits for is the least to worry about.
    let held = held.min_by_key(|entry| entry.marks.are_shared())?;
    Some(held.fip.address.to_string())
}

/// The finalizer of another owner that keeps a deleted IPAddress.
fn kept_by(address: &IpAddress) -> Option<&str> {
    address.metadata.deletion_timestamp.as_ref()?;
    address.finalizers().iter().map(String::as_str).find(|finalizer| *finalizer != ADDRESS_FINALIZER)
}

/// What came of releasing the marks of a claim.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::controllers) enum MarkRelease {
    Done,
    /// A mark has to be removed, but not while the claim's IPAddress exists.
    Published,
    /// What was found is released, but until then a call whose outcome is not known may still give the claim an address.
    Fenced(Timestamp),
}

/// Marks everything that a claim has as released. While an IPAddress of the claim `is_published`, no mark is removed.
pub(in crate::controllers) async fn release_marks(
    pool: &ResolvedPool,
    memory: &Memory,
    clock: &Clock,
    claim: &ObjectName,
    is_published: bool,
) -> Result<MarkRelease, openstack::Error> {
    let key = ClaimKey::of(&claim.namespace, &claim.name);
    let id = &pool.policy.id;
    if pool.project.ledger().is_unlisted(pool.policy.viewer) {
        pool.list_now(clock).await?;
    }
    end_unwanted_holds(pool, &key);
    let writer = NeutronWriter::new(pool, clock);
    for _ in 0..STEPS {
        let step =
            memory.with_situation(&pool.project.ledger(), pool, clock.now(), |situation| decide(situation, &key));
        tracing::debug!(claim.name = %claim, decision = ?step, "decided");
        match step {
            ReleaseStep::Done => {
                pool.project.ledger().forget_claim(id, &key);
                return Ok(MarkRelease::Done);
            }
            ReleaseStep::Tag(fip, tag) => writer.add_tag(&fip, &tag).await?,
            ReleaseStep::Describe(fip, mark) => writer.describe(&fip, &render(&mark, Some(claim))).await?,
            ReleaseStep::Withdraw(..) if is_published => return Ok(MarkRelease::Published),
            ReleaseStep::Withdraw(fip, tag) => {
                let hold = Hold::Claim { pool: id.clone(), claim: key.clone() };
                writer.withdraw(&fip, &tag, hold).await?;
            }
            ReleaseStep::Fenced(until) => return Ok(MarkRelease::Fenced(until)),
            ReleaseStep::Settle => {
                pool.list_now(clock).await?;
                if pool.project.ledger().is_creating_for(id, &key) {
                    let message = "OpenStack did not say whether it created an address; looking for it before the claim is released";
                    let kind = openstack::ErrorKind::NoAnswer;
                    return Err(openstack::Error::new(kind, "create floating IP", message));
                }
            }
        }
    }
    let message = "OpenStack accepted changes of the claim's marks and does not show them; trying again";
    Err(openstack::Error::new(openstack::ErrorKind::Malformed, "release floating IP", message))
}

/// Unwanted addresses that Neutron offered for the claim, and that are not deleted yet, are released like the rest.
fn end_unwanted_holds(pool: &ResolvedPool, claim: &ClaimKey) {
    let mut ledger = pool.project.ledger();
    let unwanted = ledger.of_claim(&pool.policy.id, claim).filter(|entry| entry.hold == Some(Hold::Unwanted));
    let unwanted: Vec<_> = unwanted.map(|entry| entry.fip.id.clone()).collect();
    unwanted.iter().for_each(|id| ledger.set_hold(id, None));
}
