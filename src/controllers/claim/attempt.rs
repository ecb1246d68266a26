//! One attempt to give a claim its address: decides and acts until the address is certainly the claim's or there is a
//! reason to wait.

use std::time::Duration;

use tracing::info;

use super::{ClaimController, MANUAL_RETRY, publish};
use crate::allocation::claim::{ClaimRequest, Decision, LostAddress, decide, may_keep_created};
use crate::allocation::ledger::{Choice, Hold, OWNER_AWAITED_EVERY};
use crate::allocation::mark::CreationMark;
use crate::allocation::origin::Origin;
use crate::allocation::supply::CreationPlace;
use crate::allocation::{Ledger, Refusal};
use crate::api::OpenStackFloatingIPPool;
use crate::api::hands_off::HandsOff;
use crate::controllers::memory::ResolvedPool;
use crate::controllers::neutron_writer::NeutronWriter;
use crate::floating_ip::{FloatingIp, FloatingIpId, SubnetId};
use crate::openstack::{self, ErrorKind};

/// More steps than a claim needs to mark, confirm and withdraw a few candidates. After them the claim is tried later.
const STEPS: usize = 24;
/// How soon an attempt that cannot go on now is repeated: the outcome of a write is not known, or others were faster.
const RETRY: Duration = Duration::from_secs(5);
/// How long after the fence a claim is tried again.
pub(super) const AFTER_FENCE: Duration = Duration::from_millis(100);

/// What a claim may be given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AllocationScope {
    AnyAddress,
    /// The address that it had before.
    OwnAddress,
}

pub(super) enum AttemptOutcome {
    Bound(FloatingIp, Origin),
    Refused(Refusal),
    /// Try again after this time; the message says why.
    Wait(Duration, String),
    /// Calls of a previous process may still land. Try again after this time.
    Fenced(Duration),
    /// The pool was paused or deleted during the attempt, or the claim has an IPAddress that was not seen.
    Changed,
    /// The address that the claim had cannot be found, and its pool may give it no other now.
    NothingLeft,
    /// The published address needs manual action.
    Lost(LostAddress),
    /// Neither the IPAddress that the claim's status references nor its floating IP exists any more.
    AddressGone,
    Failed(openstack::Error),
}

impl AttemptOutcome {
    /// A write that was not sent since the session ended looks like a conflict. The next session decides.
    pub(super) fn after_failure(pool: &ResolvedPool, error: openstack::Error) -> Self {
        if pool.session.has_ended() { Self::Changed } else { Self::Failed(error) }
    }
}

/// Why an attempt decides nothing.
enum Undecided {
    SessionEnded,
    /// The claim may have only the address that it had, and another would be chosen.
    NothingLeft,
}

pub(super) struct Attempt<'a> {
    controller: &'a ClaimController,
    pool: &'a ResolvedPool,
    pub(super) request: ClaimRequest,
    scope: AllocationScope,
    /// What was chosen in this attempt: no IPAddress that was not seen names it.
    chosen: Vec<FloatingIpId>,
    /// What has got the claim's mark in this attempt.
    marked: Vec<FloatingIpId>,
    /// What the claim's mark was removed from.
    withdrawn: Vec<FloatingIpId>,
    /// Unwanted addresses: held, so that Neutron offers another.
    unwanted: Vec<FloatingIpId>,
    /// Whether Neutron offered any.
    has_unwanted_offers: bool,
    origin: Origin,
    /// Whether this attempt has listed the project to look for the address that the claim had.
    has_listed: bool,
    /// Whether the claim is known to have lost its address.
    is_lost: bool,
    /// Whether the last step tried to get a new address and is known to have failed, and no other write may still give the claim
    /// one.
    pub(super) has_failed_empty_handed: bool,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(
        controller: &'a ClaimController,
        pool: &'a ResolvedPool,
        request: ClaimRequest,
        scope: AllocationScope,
        is_lost: bool,
    ) -> Self {
        Self {
            controller,
            pool,
            request,
            scope,
            chosen: Vec::new(),
            marked: Vec::new(),
            withdrawn: Vec::new(),
            unwanted: Vec::new(),
            has_unwanted_offers: false,
            origin: Origin::Recovered,
            has_listed: false,
            is_lost,
            has_failed_empty_handed: false,
        }
    }

    pub(super) async fn allocate(&mut self) -> AttemptOutcome {
        let outcome = self.step_until_done().await;
        self.leave_ended_session();
        self.discard_unwanted().await;
        // They filled the limit for others.
        if self.has_unwanted_offers && self.may_get_another_offer() {
            self.controller.wake.waiting_claims_of(&self.pool.name);
        }
        outcome
    }

    async fn step_until_done(&mut self) -> AttemptOutcome {
        for _ in 0..STEPS {
            match self.step().await {
                Ok(Some(outcome)) => return outcome,
                Ok(None) => {}
                Err(error) => return AttemptOutcome::after_failure(self.pool, error),
            }
        }
        // The next attempt goes on asking.
        if self.has_unwanted_offers {
            return AttemptOutcome::Refused(Refusal::OnlyUnwanted);
        }
        AttemptOutcome::Wait(RETRY, "several addresses in a row were taken by other owners; trying again".into())
    }

    /// Makes one decision and acts on it. `None` when there is more to decide.
    async fn step(&mut self) -> Result<Option<AttemptOutcome>, openstack::Error> {
        self.has_failed_empty_handed = false;
        if self.pool.project.ledger().is_unlisted(self.pool.policy.viewer) {
            self.pool.list_now(&self.controller.clock).await?;
        }
        if self.request.bound.is_none() && !self.may_begin() {
            return Ok(Some(AttemptOutcome::Changed));
        }
        let (decision, creation) = match self.decide() {
            Ok(decided) => decided,
            Err(Undecided::SessionEnded) => return Ok(Some(AttemptOutcome::Changed)),
            Err(Undecided::NothingLeft) => return Ok(Some(AttemptOutcome::NothingLeft)),
        };
        tracing::debug!(claim.name = %self.request.object, ?decision, "decided");
        if let Some(left) = self.uncertain_for(&decision) {
            let message = "the API server did not say whether it created the IPAddress; waiting until that is certain";
            return Ok(Some(AttemptOutcome::Wait(left.saturating_add(AFTER_FENCE), message.into())));
        }
        match decision {
            Decision::Create(place) => self.create(place, creation).await?,
            // Its machine may use it since the last listing.
            Decision::Withdraw(id, _) if self.may_be_published(&id) && !self.has_listed => {
                self.pool.list_now(&self.controller.clock).await?;
                self.has_listed = true;
            }
            Decision::Mark(..) | Decision::TakeBack(..) | Decision::Withdraw(..) => return self.write(decision).await,
            Decision::Confirm(id) => return self.confirm(&id).await,
            // Unwanted addresses fill the limit. Neutron chooses at random, so it may offer another one next.
            Decision::Refuse(Refusal::OnlyUnwanted) if !self.unwanted.is_empty() && self.may_get_another_offer() => {
                self.discard_unwanted().await;
            }
            Decision::Settle => return self.settle().await,
            Decision::AwaitOwner(id) => return self.await_owner(&id).await,
            Decision::AwaitMark(id) => return self.await_mark(&id).await,
            // The reference stays if the IPAddress exists after all, or a mark of the claim.
            Decision::ForgetAddress if self.has_listed => return Ok(Some(AttemptOutcome::AddressGone)),
            Decision::ForgetAddress if publish::may_have_address(&self.controller.kube, &self.request.object).await => {
                return Ok(Some(AttemptOutcome::Changed));
            }
            Decision::ForgetAddress => {
                self.pool.list_now(&self.controller.clock).await?;
                self.has_listed = true;
            }
            Decision::Keep(id) => {
                let fip = self.pool.project.ledger().get(&id).map(|entry| entry.fip.clone());
                return Ok(fip.map(|fip| AttemptOutcome::Bound(fip, self.origin)));
            }
            Decision::Refuse(refusal) => return Ok(Some(AttemptOutcome::Refused(refusal))),
            // The last listing may have begun before the claim got its address, through another session.
            Decision::Lost(_) if !self.is_lost && !self.has_listed => {
                self.pool.list_now(&self.controller.clock).await?;
                self.has_listed = true;
            }
            Decision::Lost(lost) => return Ok(Some(AttemptOutcome::Lost(lost))),
            Decision::Fenced(until) => {
                let left = Duration::try_from(until.duration_since(self.controller.clock.now())).unwrap_or_default();
                return Ok(Some(AttemptOutcome::Fenced(left.saturating_add(AFTER_FENCE))));
            }
        }
        Ok(None)
    }

    /// Whether an IPAddress that was not seen may name what is to be withdrawn. Where it was seen, the decision knew it.
    fn may_be_published(&self, id: &FloatingIpId) -> bool {
        self.request.bound.is_none() && !self.chosen.contains(id)
    }

    /// How long an IPAddress may still appear that names what the decision takes from the claim.
    fn uncertain_for(&self, decision: &Decision) -> Option<Duration> {
        let is_concerned = match decision {
            Decision::Withdraw(id, _) => self.may_be_published(id),
            Decision::ForgetAddress => true,
            _ => false,
        };
        let claims = &self.controller.memory.claims;
        is_concerned.then(|| claims.address_uncertain_for(&self.pool.name, &self.request.object)).flatten()
    }

    /// Whether an IPAddress may be created. A pool that is being deleted waits for what was begun, so nothing more may be
    /// begun but the recovery of what claims had.
    fn may_begin(&self) -> bool {
        let stores = &self.controller.stores;
        let is_being_deleted = |pool: &OpenStackFloatingIPPool| {
            pool.metadata.deletion_timestamp.is_some() && HandsOff::of(&pool.metadata).is_none()
        };
        stores.is_serving(&self.pool.name)
            || self.scope == AllocationScope::OwnAddress
                && stores.pool(&self.pool.name).is_some_and(|pool| is_being_deleted(&pool))
    }

    /// Decides and takes the hold under one lock of the ledger, so that nothing else can choose the address in between.
    fn decide(&mut self) -> Result<(Decision, Option<CreationMark>), Undecided> {
        let ClaimController { memory, clock, .. } = self.controller;
        let mut ledger = self.pool.project.ledger();
        if self.pool.session.has_ended() {
            return Err(Undecided::SessionEnded);
        }
        let decision =
            memory.with_situation(&ledger, self.pool, clock.now(), |situation| decide(situation, &self.request));
        if self.scope == AllocationScope::OwnAddress && decision.is_choice() {
            return Err(Undecided::NothingLeft);
        }
        let mut creation = None;
        match &decision {
            Decision::Mark(id, origin, _) => self.begin_choice(&mut ledger, id, *origin),
            Decision::TakeBack(id, _) => self.begin_choice(&mut ledger, id, Origin::Recovered),
            Decision::Keep(id) => {
                ledger.note_read_back(id, &self.pool.policy.id, &self.request.key, self.request.bound.is_some());
            }
            Decision::Create(place) => {
                creation = Some(self.writer().begin_creation(&mut ledger, place, Some(&self.request.key)));
            }
            _ => {}
        }
        Ok((decision, creation))
    }

    /// Takes the hold. What the claim had before, as far as Kubernetes knows, is not chosen: a port is that of its machine.
    fn begin_choice(&mut self, ledger: &mut Ledger, id: &FloatingIpId, origin: Origin) {
        let (pool, claim) = (&self.pool.policy.id, &self.request.key);
        let Some(entry) = ledger.get(id) else { return };
        let begun = entry.choice_of(pool, claim);
        // Anyone may have attached a floating IP that the claim has released.
        let is_released = entry.marks.is_released_by(&(pool.clone(), claim.clone())) && !entry.fip.is_attached();
        let is_published = self.request.bound.is_some() && !is_released;
        let had_it = origin == Origin::Recovered && (is_published || self.request.was_bound);
        if entry.hold.is_some() || had_it {
            return ledger.set_hold(id, Some(self.hold()));
        }
        if begun.is_none() && origin != Origin::Recovered {
            self.chosen.push(id.clone());
        }
        let origin = begun.map_or(origin, |choice| choice.origin);
        let was_published = self.request.bound.is_some() || begun.is_some_and(|choice| choice.was_published);
        ledger.set_chosen(id, Choice { origin, was_published }, pool, claim);
    }

    /// What it began ends with its session. A write may be under way.
    fn leave_ended_session(&self) {
        if self.pool.session.has_ended() {
            let now = self.controller.clock.now();
            self.pool.project.ledger().leave_holds(&self.pool.policy.id, |claim| *claim == self.request.key, now);
        }
    }

    async fn write(&mut self, decision: Decision) -> Result<Option<AttemptOutcome>, openstack::Error> {
        match decision {
            Decision::Mark(id, ..) if self.marked.contains(&id) => {
                let message = "OpenStack accepted the claim's mark on a floating IP and does not show it; trying again";
                return Ok(Some(AttemptOutcome::Wait(RETRY, message.into())));
            }
            Decision::Mark(id, origin, write) => {
                if origin != Origin::Recovered {
                    self.origin = origin;
                }
                let marked = self.writer().mark(&id, &write, &self.request.object).await;
                marked.inspect_err(|error| self.note_failure(origin, error))?;
                self.marked.push(id);
            }
            Decision::Withdraw(id, _) if self.withdrawn.contains(&id) && self.is_marked_by_newer_version(&id) => {
                let message = "a newer version of caip-openstack has marked the floating IP that the claim was taking: upgrade the controller, or remove that mark";
                return Ok(Some(AttemptOutcome::Wait(MANUAL_RETRY, message.into())));
            }
            Decision::Withdraw(id, _) if self.withdrawn.iter().filter(|withdrawn| **withdrawn == id).count() > 1 => {
                let message = "OpenStack accepted the removal of the claim's mark from a floating IP and still shows it; trying again";
                return Ok(Some(AttemptOutcome::Wait(RETRY, message.into())));
            }
            Decision::TakeBack(id, tags) => self.writer().remove_tags(&id, &tags).await?,
            Decision::Withdraw(id, tag) => {
                if self.may_be_published(&id)
                    && publish::may_have_address(&self.controller.kube, &self.request.object).await
                {
                    return Ok(Some(AttemptOutcome::Changed));
                }
                self.writer().withdraw(&id, &tag, self.hold()).await?;
                self.withdrawn.push(id);
            }
            _ => {}
        }
        Ok(None)
    }

    /// Lists the project, and CAPO's pools and clusters where one may name the floating IP: what was chosen is read back.
    async fn confirm(&self, id: &FloatingIpId) -> Result<Option<AttemptOutcome>, openstack::Error> {
        let (pool, claim) = (&self.pool.policy.id, &self.request.key);
        let choice = self.pool.project.ledger().get(id).and_then(|entry| entry.choice_of(pool, claim));
        // A claim that had an address keeps what it finds at that address.
        if choice.is_some_and(|choice| choice.origin == Origin::Reuse && !self.request.was_bound)
            && let Err(error) = self.controller.capo.refresh().await
        {
            tracing::warn!(claim.name = %self.request.object, "failed to list CAPO's pools and clusters: {error}");
            let message =
                "CAPO's pools and clusters cannot be listed, and one of them may name the floating IP; trying again";
            return Ok(Some(AttemptOutcome::Wait(RETRY, message.into())));
        }
        self.pool.list_now(&self.controller.clock).await?;
        Ok(None)
    }

    async fn await_owner(&self, id: &FloatingIpId) -> Result<Option<AttemptOutcome>, openstack::Error> {
        self.pool.list_now(&self.controller.clock).await?;
        let mut ledger = self.pool.project.ledger();
        ledger.note_owner_awaited(id, self.controller.clock.now());
        let address = ledger.get(id).map(|entry| entry.fip.address);
        let message =
            |address| format!("another owner has marked floating IP {address} too; waiting until it removes its mark");
        Ok(address.map(|address| AttemptOutcome::Wait(OWNER_AWAITED_EVERY.unsigned_abs(), message(address))))
    }

    async fn await_mark(&self, id: &FloatingIpId) -> Result<Option<AttemptOutcome>, openstack::Error> {
        let copied = {
            let ledger = self.pool.project.ledger();
            ledger.get(id).filter(|entry| ledger.has_copied_mark(entry)).map(|entry| entry.fip.address)
        };
        if let Some(address) = copied {
            let message = format!(
                "the description of floating IP {address} has been copied to another floating IP, so whose that is cannot be told: clear the copy"
            );
            return Ok(Some(AttemptOutcome::Wait(MANUAL_RETRY, message)));
        }
        self.pool.list_now(&self.controller.clock).await?;
        let address = self.pool.project.ledger().get(id).map(|entry| entry.fip.address);
        let message = |address| format!("waiting until an earlier call can no longer change floating IP {address}");
        Ok(address.map(|address| AttemptOutcome::Wait(RETRY, message(address))))
    }

    async fn settle(&self) -> Result<Option<AttemptOutcome>, openstack::Error> {
        self.pool.list_now(&self.controller.clock).await?;
        let is_creating = self.pool.project.ledger().is_creating_for(&self.pool.policy.id, &self.request.key);
        let message = "OpenStack did not say whether it created an address; looking for it".to_owned();
        Ok(is_creating.then_some(AttemptOutcome::Wait(RETRY, message)))
    }

    async fn create(&mut self, place: CreationPlace, mark: Option<CreationMark>) -> Result<(), openstack::Error> {
        let Some(mark) = mark else { return Ok(()) };
        self.origin = Origin::Created;
        let created = self.writer().create(&place, &mark, Some(&self.request.object)).await;
        match created.inspect_err(|error| self.note_failure(Origin::Created, error)) {
            Ok(fip) => {
                self.keep_or_hold_unwanted(fip, place.subnet.as_ref());
                Ok(())
            }
            // If it was created, the listing shows it with the claim's mark.
            Err(error) if error.is_unknown() => self.pool.list_now(&self.controller.clock).await,
            // What the quota leaves may be held as unwanted.
            Err(error) if error.kind == ErrorKind::OverQuota && !self.unwanted.is_empty() => {
                self.discard_unwanted().await;
                Ok(())
            }
            Err(error) => self.writer().record_refusal(place.subnet, error),
        }
    }

    /// Keeps the floating IP that Neutron created, or holds it as unwanted.
    fn keep_or_hold_unwanted(&mut self, fip: FloatingIp, subnet: Option<&SubnetId>) {
        let ClaimController { memory, clock, wake, .. } = self.controller;
        let mut ledger = self.pool.project.ledger();
        let is_wanted = memory.with_situation(&ledger, self.pool, clock.now(), |situation| {
            may_keep_created(situation, &self.request, &fip)
        });
        if !is_wanted {
            ledger.hold_unwanted(&self.pool.policy, &fip.id, subnet, clock.now());
            self.unwanted.push(fip.id);
            self.has_unwanted_offers = true;
        } else if ledger.unblock_creation(&self.pool.policy.id, subnet) {
            drop(ledger);
            // Neutron allocates addresses again.
            wake.waiting_claims_of(&self.pool.name);
        }
    }

    /// Whether a POST for the claim has an unknown outcome, and was probably refused as those before it: what the pool has
    /// is still for this claim first.
    pub(super) fn expects_refusal(&self) -> bool {
        let (ledger, pool, claim) = (self.pool.project.ledger(), &self.pool.policy.id, &self.request.key);
        ledger.is_creating_for(pool, claim) && !ledger.is_getting_address(pool, claim)
    }

    /// Then the description of what the pool created stays as it is.
    fn is_marked_by_newer_version(&self, id: &FloatingIpId) -> bool {
        self.pool.project.ledger().get(id).is_some_and(|entry| entry.marks.is_newer)
    }

    fn may_get_another_offer(&self) -> bool {
        self.pool.project.ledger().may_get_another_offer(&self.pool.policy, self.controller.clock.now())
    }

    async fn discard_unwanted(&mut self) {
        let ClaimController { memory, wake, .. } = self.controller;
        if self.pool.session.has_ended() {
            // The next session finds them. They may be given by then, so that nothing is deleted with this one.
            return self.pool.project.ledger().leave_unwanted(&std::mem::take(&mut self.unwanted));
        }
        match self.writer().discard(std::mem::take(&mut self.unwanted), memory).await {
            Ok(false) => {}
            Ok(true) => wake.waiting_claims_of(&self.pool.name),
            Err(error) => {
                info!(pool.name = %self.pool.name, "unwanted addresses are not deleted yet, the sweep deletes them: {error}");
            }
        }
    }

    fn note_failure(&mut self, origin: Origin, error: &openstack::Error) {
        let may_get_address = self.pool.project.ledger().may_still_get_address(&self.pool.policy.id, &self.request.key);
        self.has_failed_empty_handed = origin != Origin::Recovered && !error.is_unknown() && !may_get_address;
        self.controller.metrics.allocation_failed(&self.pool.inputs.cloud, origin);
    }

    fn hold(&self) -> Hold {
        self.request.hold(&self.pool.policy.id)
    }

    fn writer(&self) -> NeutronWriter<'a> {
        NeutronWriter::new(self.pool, &self.controller.clock)
    }
}
