//! The writes to Neutron, one call each. Each records the reply in the ledger.
//!
//! Adding a tag is repeated when no reply comes. A POST, a description and the removal of a tag are sent once, since a late
//! repetition would undo what happened meanwhile; a DELETE is repeated once, after another read. After a call whose outcome
//! is not known, the address stays held, so that nothing else relies on it.

use std::time::Duration;

use jiff::Timestamp;
use tracing::info;

use super::memory::{Memory, ResolvedPool};
use crate::allocation::claim::MarkWrite;
use crate::allocation::ledger::{CallStart, CreationBlock, Hold};
use crate::allocation::mark::{CreationMark, Marks};
use crate::allocation::supply::CreationPlace;
use crate::allocation::sweep::{SweepAction, is_fresh, is_still_unneeded, plan_discard};
use crate::allocation::{ClaimKey, Ledger, Nonce, Refusal, Situation};
use crate::clock::Clock;
use crate::floating_ip::{FloatingIp, FloatingIpId, SubnetId};
use crate::object_name::ObjectName;
use crate::openstack::{DeletionStep, Error, ErrorKind, MaySend, NewFloatingIp};
use crate::time::after;

/// How long a pool creates nothing after a refusal: one request for all its waiting claims. With the time until the pool
/// is reconciled again, claims are served within 30 s after the cause is removed.
const BLOCKED_FOR: Duration = Duration::from_secs(10);

/// How long a pool creates nothing after a floating IP came without its mark. Each costs a POST and a DELETE.
const BLOCKED_UNMARKED_FOR: Duration = Duration::from_secs(300);

const NOT_STORED: &str = "Neutron did not store the description: allow the project to set descriptions";

/// How many actions of one sweep run in parallel. More would only wait for the cloud's rate limiter, while what was read
/// becomes outdated.
pub(super) const PARALLEL_ACTIONS: usize = 16;

/// Writes to the floating IPs of one pool.
pub(super) struct NeutronWriter<'a> {
    pool: &'a ResolvedPool,
    clock: &'a Clock,
    may_go_on: Option<&'a MaySend<'a>>,
}

impl<'a> NeutronWriter<'a> {
    pub(super) fn new(pool: &'a ResolvedPool, clock: &'a Clock) -> Self {
        Self { pool, clock, may_go_on: None }
    }

    /// A writer that sends nothing once this is false. Each write is checked when it has its turn.
    pub(super) fn only_while(self, may_go_on: &'a MaySend<'a>) -> Self {
        Self { may_go_on: Some(may_go_on), ..self }
    }

    /// No write is sent once the pool's session has ended: the next one expects none.
    fn may_send(&self) -> bool {
        !self.pool.session.has_ended() && self.may_go_on.is_none_or(|may_go_on| may_go_on())
    }

    /// Writes a claim's mark on an address that is held for it.
    pub(super) async fn mark(&self, id: &FloatingIpId, write: &MarkWrite, claim: &ObjectName) -> Result<(), Error> {
        let result = match write {
            MarkWrite::Describe(mark) => self.describe(id, &render(mark, Some(claim))).await,
            MarkWrite::Tag(tag) => self.add_tag(id, tag).await,
        };
        if result.as_ref().is_err_and(|error| matches!(error.kind, ErrorKind::Rejected | ErrorKind::Forbidden)) {
            self.pool.project.ledger().note_refused_mark(id, &self.pool.policy.id, self.clock.now());
        }
        result
    }

    pub(super) async fn describe(&self, id: &FloatingIpId, description: &str) -> Result<(), Error> {
        let began = self.pool.project.begin_call(self.clock.now());
        match self.pool.neutron.describe_floating_ip(id, description, &|| self.may_send()).await {
            Ok(fip) if fip.description != description => {
                let mut ledger = self.pool.project.ledger();
                // If nothing was written, what was confirmed before still is.
                match ledger.get(id).is_some_and(|entry| entry.fip.description == fip.description) {
                    true => ledger.record_read(fip, began),
                    false => ledger.record_write(fip, began),
                }
                ledger.end_hold_unless_uncertain(id);
                Err(Error::new(ErrorKind::DescriptionDropped, "describe floating IP", NOT_STORED))
            }
            Ok(fip) => {
                info!(pool.name = %self.pool.name, fip.id = %id, fip.address = %fip.address, fip.description = description, "described");
                self.pool.project.ledger().record_write(fip, began);
                Ok(())
            }
            Err(error) => self.record_failure(id, error),
        }
    }

    pub(super) async fn add_tag(&self, id: &FloatingIpId, tag: &str) -> Result<(), Error> {
        let result = {
            let _tagging = self.pool.project.begin_tagging();
            self.pool.neutron.add_tag(id, tag, &|| self.may_send()).await
        };
        match result {
            Ok(()) => {
                self.note_tagged(id, tag);
                Ok(())
            }
            Err(error) => self.record_failure(id, error),
        }
    }

    /// Adds a tag of `spec.tags`. It is no mark, so an unknown outcome is harmless: the next listing shows what is missing.
    pub(super) async fn label(&self, id: &FloatingIpId, tag: &str) -> Result<(), Error> {
        match self.pool.neutron.add_tag(id, tag, &|| self.may_send()).await {
            Ok(()) => {
                self.note_tagged(id, tag);
                Ok(())
            }
            Err(error) if error.kind == ErrorKind::NotFound => self.record_failure(id, error),
            Err(error) => Err(error),
        }
    }

    fn note_tagged(&self, id: &FloatingIpId, tag: &str) {
        info!(pool.name = %self.pool.name, fip.id = %id, fip.tag = tag, "tagged");
        self.pool.project.ledger().record_tag(id, tag, true);
    }

    /// Removes tags, in their order.
    pub(super) async fn remove_tags(&self, id: &FloatingIpId, tags: &[String]) -> Result<(), Error> {
        for tag in tags {
            match self.pool.neutron.remove_tag(id, tag, &|| self.may_send()).await {
                Ok(()) => {
                    info!(pool.name = %self.pool.name, fip.id = %id, fip.tag = tag, "untagged");
                    self.pool.project.ledger().record_tag(id, tag, false);
                }
                Err(error) => return self.record_failure(id, error),
            }
        }
        Ok(())
    }

    /// Removes a claim's mark from an address that it may not have. With `Retain`, one that a machine may have had is kept.
    pub(super) async fn withdraw(&self, id: &FloatingIpId, tag: &str, by: Hold) -> Result<(), Error> {
        let (description, tags) = {
            let mut ledger = self.pool.project.ledger();
            if let Hold::Claim { pool, claim } = &by {
                ledger.yield_to_earlier_pool(id, pool, self.clock.now());
                ledger.begin_withdrawal(id, pool, claim);
            }
            let entry = ledger.get(id);
            // The description of what a newer version has marked stays as it is.
            let created = entry.filter(|entry| !entry.marks.is_newer).and_then(|entry| entry.marks.created.as_ref());
            let described = created.filter(|mark| mark.pool == self.pool.policy.id);
            let is_retained = entry.is_some_and(|entry| !entry.fip.is_as_created());
            let description = described.map(|mark| CreationMark { is_retained, ..mark.given_back() }.render(None));
            // It has both if its description could not be seen for a while.
            let is_tagged = description.is_none() || entry.is_some_and(|entry| entry.fip.tags.contains(tag));
            (description, is_tagged.then(|| tag.to_owned()))
        };
        let result = self.rewrite(id, description.as_deref(), tags.as_slice()).await;
        let has_failed = result.as_ref().is_err_and(|error| !error.is_unknown());
        self.pool.project.ledger().end_withdrawal(id, by, has_failed);
        result
    }

    /// Counts a creation in the ledger, and makes the mark of the floating IP: a claim's, or a spare's.
    pub(super) fn begin_creation(
        &self,
        ledger: &mut Ledger,
        place: &CreationPlace,
        claim: Option<&ClaimKey>,
    ) -> CreationMark {
        ledger.begin_request(&self.pool.policy.id, place.subnet.as_ref(), self.clock.now());
        let nonce = self.clock.random_name(Nonce::LENGTH);
        #[expect(clippy::expect_used, reason = "the clock's names have these characters only")]
        let nonce = Nonce::parse(&nonce).expect("random names have the characters of a nonce");
        let pool = self.pool.policy.id.clone();
        ledger.begin_creation(nonce.clone(), pool.clone(), claim.cloned());
        CreationMark::new(pool, claim.cloned(), nonce)
    }

    /// Creates a floating IP whose creation the ledger already counts.
    pub(super) async fn create(
        &self,
        place: &CreationPlace,
        mark: &CreationMark,
        claim: Option<&ObjectName>,
    ) -> Result<FloatingIp, Error> {
        let began = self.pool.project.begin_call(self.clock.now());
        let CreationPlace { network, subnet } = place.clone();
        let new = NewFloatingIp { network, subnet: subnet.clone(), description: render(mark, claim) };
        let mut result = self.pool.neutron.create_floating_ip(&new, &|| self.may_send()).await;
        if let Ok(fip) = &result
            && fip.description != new.description
        {
            result = Err(self.discard_unmarked(fip, began).await);
        }
        let mut ledger = self.pool.project.ledger();
        ledger.end_request(&self.pool.policy.id, subnet.as_ref());
        match &result {
            Ok(fip) => {
                info!(pool.name = %self.pool.name, fip.id = %fip.id, fip.address = %fip.address, claim.name = claim.map(tracing::field::display), "created");
                ledger.record_write(fip.clone(), began);
                ledger.end_creation(&mark.nonce);
            }
            Err(error) if error.is_unknown() => {
                ledger.note_uncertain_creation(&mark.nonce, self.pool.policy.viewer, self.clock.now());
            }
            Err(_) => ledger.end_creation(&mark.nonce),
        }
        result
    }

    /// Deletes a floating IP that was created without the mark in its description: nothing else would ever find it. Only
    /// one that this project did not have before the request began: the id is what the cloud says.
    async fn discard_unmarked(&self, fip: &FloatingIp, began: CallStart) -> Error {
        let is_held = self.pool.project.ledger().hold_created(fip.clone(), began);
        let deleted = match is_held {
            true => self.delete_unmarked(&fip.id, began).await.map_err(|error| error.to_string()),
            false => Ok(false),
        };
        match deleted {
            Ok(true) => {}
            Ok(false) => self.warn_of_unmarked(fip, "it existed before, or is in use"),
            Err(why) => self.warn_of_unmarked(fip, &why),
        }
        Error::new(ErrorKind::DescriptionDropped, "create floating IP", NOT_STORED)
    }

    fn warn_of_unmarked(&self, fip: &FloatingIp, why: &str) {
        tracing::warn!(pool.name = %self.pool.name, fip.id = %fip.id, fip.address = %fip.address, "created without its mark and not deleted: {why}");
    }

    /// Records why Neutron created nothing, so that no useless requests follow for a while.
    ///
    /// # Errors
    ///
    /// The answer itself, unless it means that no address is available.
    pub(super) fn record_refusal(&self, subnet: Option<SubnetId>, answer: Error) -> Result<(), Error> {
        let now = self.clock.now();
        let until = after(now, BLOCKED_FOR);
        let mut ledger = self.pool.project.ledger();
        let (refusal, until) = match (answer.kind, subnet) {
            (ErrorKind::OverQuota, _) => (Refusal::QuotaReached, until),
            // What is left is unwanted.
            (ErrorKind::NoMoreAddresses, subnet) if ledger.holds_unwanted(&self.pool.policy.id, subnet.as_ref()) => {
                ledger.note_only_unwanted(&self.pool.policy.id, subnet.as_ref(), now);
                return Ok(());
            }
            (ErrorKind::NoMoreAddresses, None) => (Refusal::NetworkExhausted, until),
            (ErrorKind::DescriptionDropped, _) => (Refusal::DescriptionDropped, after(now, BLOCKED_UNMARKED_FOR)),
            (ErrorKind::NoMoreAddresses, Some(subnet)) => {
                ledger.note_empty_subnet(&self.pool.policy.id, subnet, until);
                if ledger.usable_subnet(&self.pool.policy, now).is_some() {
                    return Ok(());
                }
                (Refusal::NetworkExhausted, until)
            }
            _ => return Err(answer),
        };
        ledger.block_creation(self.pool.policy.id.clone(), CreationBlock { refusal, until });
        Ok(())
    }

    /// Deletes unwanted addresses that Neutron offered. Returns whether any is kept, since a claim waits for it.
    ///
    /// # Errors
    ///
    /// The first failure. Every action is tried, and the sweep does what is left.
    pub(super) async fn discard(&self, unwanted: Vec<FloatingIpId>, memory: &Memory) -> Result<bool, Error> {
        let mut result = Ok(false);
        for id in unwanted {
            let (action, is_kept) = {
                let mut ledger = self.pool.project.ledger();
                ledger.set_hold(&id, Some(Hold::Cleanup));
                let action = memory
                    .with_situation(&ledger, self.pool, self.clock.now(), |situation| plan_discard(situation, &id));
                let is_kept = !matches!(action, SweepAction::Delete(_));
                if is_kept {
                    ledger.keep_unwanted(&self.pool.policy.id, &id);
                }
                (action, is_kept)
            };
            // What is needed by now stays as it is: the sweep gives it to its claim.
            let performed = self.perform_while(is_still_unneeded, &action, memory, || false).await;
            result = result.and_then(|any_kept| performed.map(|is_done| any_kept || is_kept || !is_done));
        }
        result
    }

    /// Performs one action on an address that is held for it, and ends the hold. False if it was not done: the floating IP had
    /// changed, or a write was no longer to be sent when it had its turn.
    pub(super) async fn perform(&self, action: &SweepAction) -> Result<bool, Error> {
        self.perform_if(action, |_| true, || false).await
    }

    /// The same, except that a floating IP that is no longer `is_unneeded` when its turn comes is not deleted, nor, if
    /// `leave_outdated`, one that would have to be read first.
    pub(super) async fn perform_while(
        &self,
        is_unneeded: impl Fn(&Situation<'_>, &FloatingIpId) -> bool + Send + Sync,
        action: &SweepAction,
        memory: &Memory,
        leave_outdated: impl Fn() -> bool + Send + Sync,
    ) -> Result<bool, Error> {
        let may_delete = |ledger: &Ledger| {
            let is_unneeded = |situation: &Situation<'_>| is_unneeded(situation, action.id());
            memory.with_situation(ledger, self.pool, self.clock.now(), is_unneeded)
        };
        self.perform_if(action, may_delete, leave_outdated).await
    }

    async fn perform_if(
        &self,
        action: &SweepAction,
        may_delete: impl Fn(&Ledger) -> bool + Send + Sync,
        leave_outdated: impl Fn() -> bool + Send + Sync,
    ) -> Result<bool, Error> {
        let result = match action {
            SweepAction::Delete(id) => self.delete(id, may_delete, leave_outdated).await,
            SweepAction::Rewrite { id, description, tags } => {
                self.rewrite(id, description.as_deref(), tags).await.map(|()| true)
            }
            SweepAction::Release(id, tag) => self.add_tag(id, tag).await.map(|()| true),
            SweepAction::Describe(id, mark) => self.describe(id, &mark.render(None)).await.map(|()| true),
        };
        self.pool.project.ledger().set_hold(action.id(), None);
        match result {
            Err(error) if error.is_unsent() => Ok(false),
            other => other,
        }
    }

    /// Deletes a floating IP if it may still be deleted: it may have changed since that was planned. One that is gone already
    /// is success. False if it is kept.
    async fn delete(
        &self,
        id: &FloatingIpId,
        may_delete: impl Fn(&Ledger) -> bool + Send + Sync,
        leave_outdated: impl Fn() -> bool + Send + Sync,
    ) -> Result<bool, Error> {
        let may_delete = |ledger: &Ledger| ledger.may_delete(id, &self.pool.policy.id) && may_delete(ledger);
        let deleted = delete_with_retry(async |attempt| {
            let mut began = None;
            self.delete_if(id, |read| {
                let Some(read) = read else {
                    let now = self.pool.project.begin_call(self.clock.now());
                    let ledger = self.pool.project.ledger();
                    if ledger.get(id).is_none_or(|entry| must_read(attempt, entry.seen.at, now.at)) {
                        if attempt == Attempt::First && leave_outdated() {
                            return DeletionStep::Keep;
                        }
                        began = Some(now);
                        return DeletionStep::Read;
                    }
                    return delete_or_keep(may_delete(&ledger));
                };
                let is_attached = read.is_attached();
                let mut ledger = self.pool.project.ledger();
                if let Some(began) = began {
                    ledger.record_read(read, began);
                }
                delete_or_keep(!is_attached && may_delete(&ledger))
            })
            .await
        });
        self.record_deletion(id, deleted.await)
    }

    /// Deletes a floating IP that a request created without its mark, and that is held. The request began then. False if the
    /// floating IP is attached or marked by now.
    async fn delete_unmarked(&self, id: &FloatingIpId, began: CallStart) -> Result<bool, Error> {
        let deleted = delete_with_retry(async |attempt| {
            let is_unused = |fip: &FloatingIp| !fip.is_attached() && Marks::read(fip).is_empty();
            self.delete_if(id, |read| match read {
                Some(read) => delete_or_keep(is_unused(&read)),
                None if must_read(attempt, began.at, self.clock.now()) => DeletionStep::Read,
                // A listing may have shown more than the reply to the request.
                None => delete_or_keep(self.pool.project.ledger().get(id).is_none_or(|entry| is_unused(&entry.fip))),
            })
            .await
        });
        let result = self.record_deletion(id, deleted.await);
        self.pool.project.ledger().set_hold(id, None);
        result
    }

    /// Records how a deletion ended. One that is gone already is success; false if it is kept.
    fn record_deletion(&self, id: &FloatingIpId, deleted: Result<bool, (Error, MayBeSent)>) -> Result<bool, Error> {
        match deleted {
            Ok(true) => info!(pool.name = %self.pool.name, fip.id = %id, "deleted"),
            Ok(false) => return Ok(false),
            Err((error, _)) if error.kind == ErrorKind::NotFound => {}
            Err((error, MayBeSent(false))) => return Err(error),
            Err((error, MayBeSent(true))) => return self.record_failure(id, error).map(|()| true),
        }
        self.pool.project.ledger().record_deletion(id);
        Ok(true)
    }

    /// One attempt to delete a floating IP, with what its failure means.
    async fn delete_if(
        &self,
        id: &FloatingIpId,
        mut check: impl FnMut(Option<FloatingIp>) -> DeletionStep + Send,
    ) -> Result<bool, (Error, MayBeSent)> {
        let mut is_decided = false;
        let mut recorded = |read: Option<FloatingIp>| {
            let step = if self.may_send() { check(read) } else { DeletionStep::Keep };
            is_decided = step == DeletionStep::Delete;
            step
        };
        let result = self.pool.neutron.delete_floating_ip(id, &mut recorded).await;
        result.map_err(|error| (error, MayBeSent(is_decided)))
    }

    async fn rewrite(&self, id: &FloatingIpId, description: Option<&str>, tags: &[String]) -> Result<(), Error> {
        if let Some(description) = description {
            self.describe(id, description).await?;
        }
        self.remove_tags(id, tags).await
    }

    /// Records a failed write: not found means deleted, a certain failure ends the hold, an unknown outcome does not.
    fn record_failure(&self, id: &FloatingIpId, error: Error) -> Result<(), Error> {
        let mut ledger = self.pool.project.ledger();
        if error.kind == ErrorKind::NotFound {
            ledger.record_deletion(id);
            return Ok(());
        }
        if error.is_unknown() {
            ledger.note_uncertain_write(id, self.clock.now());
        } else {
            ledger.end_hold_unless_uncertain(id);
        }
        Err(error)
    }
}

pub(super) fn render(mark: &CreationMark, claim: Option<&ObjectName>) -> String {
    mark.render(claim.map(|claim| (claim.namespace.as_str(), claim.name.as_str())))
}

const fn delete_or_keep(may_delete: bool) -> DeletionStep {
    if may_delete { DeletionStep::Delete } else { DeletionStep::Keep }
}

/// Which of the two DELETEs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Attempt {
    First,
    Second,
}

/// Whether a DELETE that failed may have been sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct MayBeSent(bool);

/// Whether a floating IP must be read before it is deleted, as it was last seen at that time.
fn must_read(attempt: Attempt, seen: Timestamp, now: Timestamp) -> bool {
    attempt == Attempt::Second || !is_fresh(seen, now)
}

/// Deletes a floating IP, and tries again after an unknown outcome. The second attempt has to read it first: it may be attached
/// by now. The first DELETE may take effect even if the second is refused or not sent.
async fn delete_with_retry(
    delete: impl AsyncFn(Attempt) -> Result<bool, (Error, MayBeSent)>,
) -> Result<bool, (Error, MayBeSent)> {
    let first = match delete(Attempt::First).await {
        Err((first, MayBeSent(true))) if first.is_unknown() => first,
        other => return other,
    };
    match delete(Attempt::Second).await {
        Ok(true) => Ok(true),
        Err((error, _)) if error.kind == ErrorKind::NotFound => Ok(true),
        Err((error, MayBeSent(true))) if error.is_unknown() => Err((error, MayBeSent(true))),
        _ => Err((first, MayBeSent(true))),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::allocation::testing::{ago, start};

    type Outcome = Result<bool, (ErrorKind, MayBeSent)>;

    /// What becomes of a deletion whose attempts end so, and how many there are.
    fn deleted(outcomes: [Outcome; 2]) -> (Outcome, usize) {
        let mut left = outcomes.into_iter();
        let attempts = RefCell::new(Vec::new());
        let next = RefCell::new(|attempt| {
            attempts.borrow_mut().push(attempt);
            left.next().unwrap().map_err(|(kind, sent)| (Error::new(kind, "delete floating IP", "no"), sent))
        });
        let result = futures::executor::block_on(delete_with_retry(async |attempt| (next.borrow_mut())(attempt)));
        let attempts = attempts.take();
        assert!([Attempt::First, Attempt::Second].starts_with(&attempts), "{attempts:?}");
        (result.map_err(|(error, sent)| (error.kind, sent)), attempts.len())
    }

    #[test]
    fn a_floating_ip_is_read_before_a_second_deletion_and_if_it_was_not_seen_lately() {
        for (attempt, seen, is_read) in
            [(Attempt::First, ago(5), false), (Attempt::First, ago(6), true), (Attempt::Second, ago(0), true)]
        {
            assert_eq!(must_read(attempt, seen, start()), is_read, "{attempt:?}, seen at {seen}");
        }
    }

    #[test]
    fn a_deletion_is_tried_again_only_if_the_first_may_have_been_done() {
        let (sent, unsent) = (MayBeSent(true), MayBeSent(false));
        for certain in [
            Ok(true),
            Ok(false),
            Err((ErrorKind::NoAnswer, unsent)),
            Err((ErrorKind::NotFound, sent)),
            Err((ErrorKind::Conflict, sent)),
        ] {
            assert_eq!(deleted([certain, Ok(true)]), (certain, 1));
        }
    }

    #[test]
    fn the_first_of_two_deletions_counts_unless_the_second_is_certain() {
        let (sent, unsent) = (MayBeSent(true), MayBeSent(false));
        let unknown = Err((ErrorKind::NoAnswer, sent));
        let table = [
            ("deleted", Ok(true), Ok(true)),
            ("kept, since it is attached", Ok(false), unknown),
            ("gone when it was read", Err((ErrorKind::NotFound, unsent)), Ok(true)),
            ("gone when it was to be deleted", Err((ErrorKind::NotFound, sent)), Ok(true)),
            ("not read", Err((ErrorKind::Server, unsent)), unknown),
            ("refused", Err((ErrorKind::Forbidden, sent)), unknown),
            ("unknown", Err((ErrorKind::Server, sent)), Err((ErrorKind::Server, sent))),
        ];
        for (what, second, outcome) in table {
            assert_eq!(deleted([unknown, second]), (outcome, 2), "{what}");
        }
    }
}
