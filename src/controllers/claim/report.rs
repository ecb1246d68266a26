//! The claim's condition, its address reference and its events; written only when they change.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::Resource;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::EventType;
use serde_json::{Value, json};

use super::observe::Observed;
use super::{ClaimController, Error, NextStep, SkipReason};
use crate::allocation::origin::Origin;
use crate::api::conditions::claim_reasons::{ADDRESS_ALLOCATED, ALLOCATION_FAILED, POOL_EXHAUSTED, RELEASE_FAILED};
use crate::api::conditions::event_reasons::{PAUSED, WRONG_POOL_REF};
use crate::api::conditions::{ClaimReport, DesiredCondition, READY, claim_patch, claim_unready_since};
use crate::api::names::{ABANDON_ANNOTATION, GROUP, POOL_KIND};
use crate::controllers::kubernetes::find;
use crate::controllers::memory::{ResolvedPool, WaitingClaim};
use crate::controllers::patch;
use crate::floating_ip::FloatingIp;
use crate::object_name::ObjectName;

/// How often a status is written that other writers change at the same moment, before its claim is reconciled again.
const STATUS_TRIES: usize = 4;

/// The result of writing a status.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StatusWrite {
    Written,
    Unchanged,
    /// Also if another claim has its name now.
    ClaimGone,
}

/// What becomes of the address reference in a claim's status.
#[derive(Clone, Copy)]
enum Reference<'a> {
    Unchanged,
    To(&'a str),
    Removed,
}

impl ClaimController {
    /// The claim has its address. False when the claim was deleted meanwhile, or replaced by another one of its name.
    pub(super) async fn report_bound(
        &self,
        observed: &Observed,
        pool: &ResolvedPool,
        fip: &FloatingIp,
        origin: Origin,
    ) -> Result<bool, Error> {
        let message = format!("floating IP {} of pool {}", fip.address, observed.pool_name.name);
        let condition = DesiredCondition::new(READY, "True", ADDRESS_ALLOCATED, message);
        let write = self.write_status(observed, &condition, Reference::To(&observed.name.name)).await?;
        let waited = self.memory.claims.end_waiting(&observed.claim);
        if write == StatusWrite::Written {
            let since = waited.map_or_else(|| observed.claim.created_at(), |waiting| waiting.since);
            let duration = Duration::try_from(self.clock.now().duration_since(since)).unwrap_or_default();
            self.metrics.allocated(&pool.inputs.cloud, origin, duration);
            let note = format!("floating IP {} ({}) of pool {}", fip.address, origin.as_str(), observed.pool_name.name);
            self.announce(observed, EventType::Normal, ADDRESS_ALLOCATED, "Allocate", note);
            self.wake.report_soon(&observed.pool_name);
        }
        Ok(write != StatusWrite::ClaimGone)
    }

    pub(super) async fn report_exhausted(&self, observed: &Observed, message: String) -> Result<(), Error> {
        self.report_waiting(observed, POOL_EXHAUSTED, message).await
    }

    pub(super) async fn report_failed(&self, observed: &Observed, message: String) -> Result<(), Error> {
        self.report_waiting(observed, ALLOCATION_FAILED, message).await
    }

    /// The claim is being deleted, and its address cannot be released yet.
    pub(super) async fn report_release_failed(&self, observed: &Observed, why: &str) -> Result<(), Error> {
        let message = format!(
            "its address cannot be released yet: {why}; if OpenStack is gone for good, the annotation \
             {ABANDON_ANNOTATION}=true releases the claim and leaves the address in OpenStack"
        );
        if self.report_unreleased(observed, &message).await? == StatusWrite::Written {
            self.announce(observed, EventType::Warning, RELEASE_FAILED, "Release", message);
        }
        Ok(())
    }

    /// The claim is being deleted, and its release waits for a minute at most.
    pub(super) async fn report_release_waits(&self, observed: &Observed) -> Result<(), Error> {
        let message = "its address cannot be released yet: a call whose outcome is not known may still give the claim an address; within a minute that is over";
        self.report_unreleased(observed, message).await.map(drop)
    }

    /// The claim is being deleted, and its mark may not be removed while its IPAddress exists.
    pub(super) async fn report_release_kept(&self, observed: &Observed, finalizer: &str) -> Result<(), Error> {
        let message = format!(
            "its address cannot be released yet: its IPAddress, which must be gone first, has the finalizer {finalizer}"
        );
        self.report_unreleased(observed, &message).await.map(drop)
    }

    async fn report_unreleased(&self, observed: &Observed, message: &str) -> Result<StatusWrite, Error> {
        let condition = DesiredCondition::new(READY, "False", RELEASE_FAILED, message);
        self.write_status(observed, &condition, Reference::Unchanged).await
    }

    /// The claim has no address yet.
    pub(super) async fn report_waiting(
        &self,
        observed: &Observed,
        reason: &'static str,
        message: String,
    ) -> Result<(), Error> {
        self.report_without(observed, reason, None, Reference::Unchanged, message).await
    }

    /// The floating IP of a claim that had its address is gone, or belongs to another owner or claim.
    pub(super) async fn report_lost(
        &self,
        observed: &Observed,
        how: &'static str,
        message: String,
    ) -> Result<(), Error> {
        self.report_without(observed, ALLOCATION_FAILED, Some(how), Reference::Unchanged, message).await
    }

    /// The address of the claim is gone, IPAddress and floating IP.
    pub(super) async fn report_address_gone(&self, observed: &Observed) -> Result<(), Error> {
        let message = "its IPAddress was deleted and no floating IP has its mark any more; choosing another address";
        self.report_without(observed, ALLOCATION_FAILED, None, Reference::Removed, message.into()).await
    }

    /// The claim has no address, or not any more.
    async fn report_without(
        &self,
        observed: &Observed,
        reason: &'static str,
        lost: Option<&'static str>,
        reference: Reference<'_>,
        message: String,
    ) -> Result<(), Error> {
        if !self.exists(observed) {
            return Ok(());
        }
        // The time that a previous process wrote counts: otherwise each restart would reset it.
        let since = claim_unready_since(observed.claim.status.as_ref()).unwrap_or_else(|| self.clock.now());
        let is_new = self.memory.claims.set_waiting(&observed.claim, WaitingClaim { reason, lost, since });
        // The pool counts waiting claims. It wakes them after each report, so not each change of a reason is reported soon:
        // a claim that fails in another way each time would be tried again at once.
        if is_new {
            self.wake.report_soon(&observed.pool_name);
        }
        let condition = DesiredCondition::new(READY, "False", reason, message);
        if self.write_status(observed, &condition, reference).await? == StatusWrite::Written {
            self.announce(observed, EventType::Warning, reason, "Allocate", condition.message);
            if matches!(reference, Reference::Removed) {
                self.wake.report_soon(&observed.pool_name);
            }
        }
        Ok(())
    }

    /// An event says once that nothing is done for a claim that is paused: its condition is not written then.
    pub(super) fn announce_pause(&self, observed: &Observed, next_step: &NextStep) {
        let has_what_it_needs = observed.is_bound() && !observed.is_being_deleted();
        let paused =
            match next_step {
                NextStep::Skip(
                    paused @ (SkipReason::PausedCluster | SkipReason::PausedClaim | SkipReason::PausedPool),
                ) if !has_what_it_needs => Some(paused),
                _ => None,
            };
        let is_new = self.memory.claims.set_paused(&observed.claim, paused.is_some());
        if let Some(paused) = paused.filter(|_| is_new) {
            let note = format!("nothing is done for the claim: {paused}");
            self.announce(observed, EventType::Normal, PAUSED, "Reconcile", note);
        }
    }

    /// An event says that no controller serves the claim, if its reference seems to mean one of our pools.
    pub(super) async fn announce_wrong_reference(&self, observed: &Observed) {
        let pool_ref = &observed.claim.spec.pool_ref;
        if observed.is_bound() || observed.is_being_deleted() {
            return;
        }
        if pool_ref.is_misspelt() || observed.pool_state.is_ready() && self.is_pool_missing_at_capo(observed).await {
            let group = pool_ref.api_group.as_deref().unwrap_or_default();
            let note = format!(
                "its poolRef names the kind {} of the group {group}: the pools of caip-openstack are of the kind {POOL_KIND} of {GROUP}",
                pool_ref.kind
            );
            self.announce(observed, EventType::Warning, WRONG_POOL_REF, "Reconcile", note);
        }
    }

    /// Whether the claim names CAPO's kind, and CAPO has no such pool.
    async fn is_pool_missing_at_capo(&self, observed: &Observed) -> bool {
        let names_it = |names: &BTreeSet<ObjectName>| names.contains(&observed.pool_name);
        let pools = match observed.claim.spec.pool_ref.is_capos() {
            true => self.capo.pool_names(true).await.ok(),
            false => None,
        };
        pools.is_some_and(|names| !names.as_deref().is_some_and(names_it))
    }

    /// Whether the claim still exists, as far as the watch has delivered it.
    fn exists(&self, observed: &Observed) -> bool {
        let claim = self.stores.claim(&observed.name);
        claim.is_some_and(|claim| claim.metadata.uid == observed.claim.metadata.uid)
    }

    fn announce(&self, observed: &Observed, type_: EventType, reason: &str, action: &str, note: String) {
        self.events.announce(observed.claim.object_ref(&self.kube.version), type_, reason, action, note);
    }

    /// Writes the status if it differs.
    #[expect(clippy::indexing_slicing, reason = "the patch of a status is an object")]
    async fn write_status(
        &self,
        observed: &Observed,
        condition: &DesiredCondition,
        reference: Reference<'_>,
    ) -> Result<StatusWrite, Error> {
        self.memory.claims.note_report(&observed.claim, condition);
        let status = observed.claim.status.as_ref();
        let current = observed.claim.address_name();
        let is_unchanged = ClaimReport::read(status, self.kube.version) == Some(ClaimReport::of(condition));
        let has_reference = match reference {
            Reference::Unchanged => true,
            Reference::To(name) => current == Some(name),
            Reference::Removed => current.is_none(),
        };
        if is_unchanged && has_reference {
            return Ok(StatusWrite::Unchanged);
        }
        let mut status = claim_patch(status, self.kube.version, condition, self.clock.now());
        match reference {
            Reference::Unchanged => {}
            Reference::To(name) => status["addressRef"] = json!({"name": name}),
            Reference::Removed => status["addressRef"] = Value::Null,
        }
        self.patch_status(observed, &status).await
    }

    /// Patches the status of this claim, and not of another one that was created under its name since. The API server
    /// ignores a UID in a patch of the status, so the patch names the version.
    async fn patch_status(&self, observed: &Observed, status: &Value) -> Result<StatusWrite, Error> {
        let (api, name) = (self.kube.claims(&observed.name.namespace), &observed.name.name);
        let mut version = self.memory.claims.newest_version(&observed.claim);
        let mut tries = 1..STATUS_TRIES;
        loop {
            let change = Patch::Merge(json!({"metadata": {"resourceVersion": version}, "status": status}));
            match api.patch_status(name, &PatchParams::default(), &change).await {
                Ok(claim) => {
                    self.memory.claims.note_written(&claim);
                    return Ok(StatusWrite::Written);
                }
                Err(error) if patch::is_gone(&error) => return Ok(StatusWrite::ClaimGone),
                Err(error) if patch::is_conflict(&error) && tries.next().is_some() => {}
                Err(error) => return Err(Error::Kubernetes("write the claim's status", error)),
            }
            // Another writer changed it, or another claim has its name.
            let found = find(&api, name).await.map_err(|error| Error::Kubernetes("read the claim", error))?;
            match found.filter(|found| found.metadata.uid == observed.claim.metadata.uid) {
                Some(found) => version = found.metadata.resource_version,
                None => return Ok(StatusWrite::ClaimGone),
            }
        }
    }
}
