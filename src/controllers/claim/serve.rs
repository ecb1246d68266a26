//! Gives a claim its address: decide, act, learn, again, until it is the claim's for certain; then publish it.

use std::sync::Arc;
use std::time::Duration;

use tracing::info;

use super::course::pool_ends;
use super::{Error, Observed, publish, report};
use crate::allocation::claim::{ClaimRequest, Decision, Origin, UNWANTED_LIMIT, creation_mark, decide, may_keep};
use crate::allocation::ledger::{Creation, Hold};
use crate::allocation::mark::CreationMark;
use crate::allocation::{Nonce, Refusal};
use crate::api::names::CLAIM_FINALIZER;
use crate::controllers::act;
use crate::controllers::context::Context;
use crate::controllers::explain::explain;
use crate::controllers::patch;
use crate::controllers::queue::Action;
use crate::controllers::registry::ResolvedPool;
use crate::floating_ip::{FloatingIp, FloatingIpId};
use crate::openstack::{self, ErrorKind, NewFloatingIp};

/// More turns than any claim needs: mark, confirm and withdraw of a few candidates. Past it the claim is tried later.
const TURNS: usize = 24;
/// How soon a write whose outcome is not known is looked for again.
const SETTLE: Duration = Duration::from_secs(5);

/// What a claim may be given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AllocationScope {
    /// Whatever is chosen for it.
    Any,
    /// The address that it had before.
    ItsOwn,
}

/// How an attempt ended.
enum AttemptOutcome {
    Bound(FloatingIp, Origin),
    Refused(Refusal),
    Wait(Duration, String),
    /// The pool was paused, or is being deleted, since the claim was looked at, or the claim has an IPAddress that was not
    /// seen: it is looked at again.
    Stopped,
    /// The pool is being deleted, and the address that the claim had cannot be found.
    NothingLeft,
    NeedsPerson(String),
    Failed(openstack::Error),
}

/// Serves one claim.
pub(super) async fn run(observed: &Observed, ctx: &Arc<Context>, reach: AllocationScope) -> Result<Action, Error> {
    let Some(served) = observed.known.served.clone() else { return Ok(Action::await_change()) };
    let request = match super::request(observed, &served) {
        Ok(request) => request,
        Err(message) => {
            report::failed(observed, ctx, message).await?;
            return Ok(Action::requeue(ctx.clock.jitter(Duration::from_secs(10), 0.5)));
        }
    };
    // Before anything is done in Neutron, so that no deletion can overtake it.
    if let Some(change) = patch::with_finalizer(&observed.claim.metadata, CLAIM_FINALIZER) {
        let claim = patch::merge(&ctx.claims(&observed.name.namespace), &observed.name.name, change)
            .await
            .map_err(|error| Error::Kubernetes("put the finalizer on the claim", error))?;
        ctx.writes().claim(&observed.name, &claim);
    }
    let mut attempt = Attempt::new(ctx, &served, request, reach);
    let end = attempt.run().await;
    attempt.clean_up(matches!(end, AttemptOutcome::Bound(..))).await;
    conclude(observed, ctx, &served, &attempt.request, end).await
}

async fn conclude(
    observed: &Observed,
    ctx: &Arc<Context>,
    served: &ResolvedPool,
    request: &ClaimRequest,
    end: AttemptOutcome,
) -> Result<Action, Error> {
    let is_waiting = matches!(&end, AttemptOutcome::Refused(_))
        && !served.policy.reservations.contains_key(&request.object.name)
        && observed.is_there(ctx);
    served.project.ledger().wait(&served.policy.id, request.place(), is_waiting);
    match end {
        AttemptOutcome::Bound(fip, origin) => {
            publish::run(observed, ctx, served, &fip, origin).await?;
            // Only now: until the published knows, the hold is what keeps others away.
            served.project.ledger().let_go(&request.hold(&served.policy.id));
            if !report::bound(observed, ctx, &fip, origin).await? {
                publish::without_claim(observed, ctx).await?;
            }
            Ok(Action::await_change())
        }
        AttemptOutcome::Refused(refusal) => {
            report::exhausted(observed, ctx, refusal.to_string()).await?;
            // A release or an edit of the pool wakes it; so does the pool's timer.
            Ok(Action::await_change())
        }
        AttemptOutcome::Wait(how_long, message) => {
            report::failed(observed, ctx, message).await?;
            Ok(Action::requeue(how_long))
        }
        AttemptOutcome::Stopped => Ok(Action::requeue(Duration::from_millis(500))),
        AttemptOutcome::NothingLeft => super::give_up(observed, ctx, pool_ends(observed)).await,
        AttemptOutcome::NeedsPerson(message) => {
            report::failed(observed, ctx, message).await?;
            // Somebody gave up what is lost anyway, and nothing keeps it any more: the claim gets another.
            if let Some(address) = observed.address.as_ref().filter(|it| it.metadata.deletion_timestamp.is_some()) {
                publish::remove_finalizer(ctx, address).await?;
            }
            Ok(Action::requeue(ctx.clock.jitter(Duration::from_secs(15), 0.5)))
        }
        AttemptOutcome::Failed(error) => {
            if matches!(error.kind, ErrorKind::Unauthorized | ErrorKind::BadNetwork | ErrorKind::Credentials)
                && ctx.registry.doubt(&served.name, ctx.clock.now())
            {
                ctx.wake_pool(&served.name);
            }
            report::failed(observed, ctx, explain(&error)).await?;
            Err(Error::OpenStack(error))
        }
    }
}

struct Attempt<'a> {
    ctx: &'a Arc<Context>,
    served: &'a Arc<ResolvedPool>,
    request: ClaimRequest,
    reach: AllocationScope,
    /// What was chosen in this attempt, and is not published therefore.
    chosen: Vec<FloatingIpId>,
    /// What Neutron offered and the pool may not give: held, so that Neutron offers another.
    unwanted: Vec<FloatingIpId>,
    /// How many these were, with those that were deleted to make room.
    declined: usize,
    origin: Origin,
}

impl<'a> Attempt<'a> {
    fn new(
        ctx: &'a Arc<Context>,
        served: &'a Arc<ResolvedPool>,
        request: ClaimRequest,
        reach: AllocationScope,
    ) -> Self {
        let (chosen, unwanted) = (Vec::new(), Vec::new());
        Self { ctx, served, request, reach, chosen, unwanted, declined: 0, origin: Origin::Recovered }
    }

    async fn run(&mut self) -> AttemptOutcome {
        for _ in 0..TURNS {
            if self.served.project.ledger().listed().is_none()
                && let Err(error) = self.look().await
            {
                return AttemptOutcome::Failed(error);
            }
            match self.turn().await {
                Ok(Some(end)) => return end,
                Ok(None) => {}
                Err(error) => return AttemptOutcome::Failed(error),
            }
        }
        AttemptOutcome::Wait(SETTLE, "several addresses in turn were taken by somebody else; trying again".into())
    }

    /// Decides, takes what the decision needs, and acts: `None` when there is more to decide.
    async fn turn(&mut self) -> Result<Option<AttemptOutcome>, openstack::Error> {
        // The end of a pool waits for what was begun, not for what is about to be.
        let is_new = self.request.bound.is_none() && self.reach == AllocationScope::Any;
        if is_new && !self.ctx.is_at_work(&self.served.name) {
            return Ok(Some(AttemptOutcome::Stopped));
        }
        let now = self.ctx.clock.now();
        let policy = &self.served.policy;
        // Under one lock: what is chosen is held before anybody else can choose.
        let (decision, nonce) = {
            let mut ledger = self.served.project.ledger();
            let decision = self.ctx.published(|published| decide(&ledger, published, policy, &self.request, now));
            if self.reach == AllocationScope::ItsOwn && decision.is_choice() {
                return Ok(Some(AttemptOutcome::NothingLeft));
            }
            let mut nonce = None;
            match &decision {
                Decision::Mark(id, _, _) | Decision::TakeBack(id, _) => {
                    if decision.is_choice() && ledger.get(id).is_some_and(|entry| entry.hold.is_none()) {
                        self.chosen.push(id.clone());
                    }
                    ledger.hold(id, Some(self.hold()));
                }
                Decision::Create(..) => {
                    let new =
                        Nonce::parse(&self.ctx.clock.random_name(Nonce::LENGTH)).expect("of the nonce's alphabet");
                    let claim = Some(self.request.key.clone());
                    ledger
                        .begin_creation(new.clone(), Creation { pool: policy.id.clone(), claim, unknown_since: None });
                    nonce = Some(new);
                }
                _ => {}
            }
            (decision, nonce)
        };
        tracing::debug!(claim.name = %self.request.object, ?decision, "decided");
        match decision {
            Decision::Keep(id) => {
                let fip = self.served.project.ledger().get(&id).map(|entry| entry.fip.clone());
                return Ok(fip.map(|fip| AttemptOutcome::Bound(fip, self.origin)));
            }
            // They fill the limit: Neutron takes addresses at random, and may offer another one next.
            Decision::Refuse(Refusal::OnlyUnwanted) if !self.unwanted.is_empty() && self.declined < UNWANTED_LIMIT => {
                self.discard().await;
            }
            Decision::Refuse(refusal) => return Ok(Some(AttemptOutcome::Refused(refusal))),
            Decision::Lost(loss) => return Ok(Some(AttemptOutcome::NeedsPerson(loss.to_string()))),
            Decision::Fenced(until) => {
                let left = Duration::try_from(until.duration_since(now)).unwrap_or_default();
                let message = "waiting until no call of a previous controller can still change an address".to_owned();
                return Ok(Some(AttemptOutcome::Wait(left + Duration::from_millis(100), message)));
            }
            Decision::Settle => {
                self.look().await?;
                let is_open = {
                    let ledger = self.served.project.ledger();
                    ledger.creations(&policy.id).any(|(_, creation)| creation.claim.as_ref() == Some(&self.request.key))
                };
                if is_open {
                    let message = "OpenStack did not say whether it created an address; looking for it".to_owned();
                    return Ok(Some(AttemptOutcome::Wait(SETTLE, message)));
                }
            }
            Decision::Confirm(_) => self.look().await?,
            Decision::Mark(id, origin, write) => {
                if origin != Origin::Recovered {
                    self.origin = origin;
                }
                let marked = act::mark(self.served, &self.ctx.clock, &id, &write, Some(&self.request.object)).await;
                marked.inspect_err(|_| self.ctx.metrics.allocation_failed(origin))?;
            }
            Decision::TakeBack(id, tags) => act::untag(self.served, &self.ctx.clock, &id, &tags).await?,
            Decision::Withdraw(id, tag) => {
                // What is published is not withdrawn, whoever marks it too. Where it was chosen only now, it cannot be.
                if !self.chosen.contains(&id) && publish::may_have_one(self.ctx, &self.request.object).await {
                    return Ok(Some(AttemptOutcome::Stopped));
                }
                act::withdraw(self.served, &self.ctx.clock, &id, &tag, self.hold()).await?;
            }
            Decision::Create(network, subnet) => {
                let nonce = nonce.expect("chosen with the decision");
                let mark = creation_mark(policy, Some(&self.request.key), nonce);
                self.origin = Origin::Created;
                self.create(NewFloatingIp { network, subnet, description: String::new() }, mark).await?;
            }
        }
        Ok(None)
    }

    async fn create(&mut self, new: NewFloatingIp, mark: CreationMark) -> Result<(), openstack::Error> {
        let policy = &self.served.policy;
        let created = act::create(self.served, &self.ctx.clock, new.clone(), &mark, Some(&self.request.object)).await;
        match created.inspect_err(|_| self.ctx.metrics.allocation_failed(Origin::Created)) {
            Ok(fip) => {
                if self.ctx.published(|published| may_keep(published, policy, &self.request, &fip)) {
                    self.unblock();
                } else {
                    act::decline(self.served, &fip.id);
                    self.unwanted.push(fip.id);
                    self.declined += 1;
                }
                Ok(())
            }
            Err(error) if error.is_unknown() => {
                // It may be there: then it is found by its mark at once, and is the claim's.
                self.look().await?;
                Ok(())
            }
            Err(error) => act::refused(self.served, &self.ctx.clock, new.subnet, error),
        }
    }

    /// Neutron gives again: whoever was refused need not wait any longer.
    fn unblock(&self) {
        let was_refused = {
            let mut ledger = self.served.project.ledger();
            let pool = &self.served.policy.id;
            let was_refused = ledger.refused(pool).is_some() || ledger.is_barren(pool);
            ledger.unblock(pool);
            was_refused
        };
        if was_refused {
            self.ctx.wake_waiting(&self.served.name);
        }
    }

    async fn look(&self) -> Result<(), openstack::Error> {
        let after = self.served.project.ledger().next_step();
        self.served.project.look(self.served.neutron.as_ref(), &self.ctx.clock, after).await
    }

    fn hold(&self) -> Hold {
        self.request.hold(&self.served.policy.id)
    }

    /// Leaves nothing behind that the pool may not give.
    async fn clean_up(&mut self, is_bound: bool) {
        if self.declined > 0 && !is_bound {
            self.served.project.ledger().found_barren(&self.served.policy.id, self.ctx.clock.now());
        }
        self.discard().await;
    }

    /// Deletes what Neutron offered and the pool may not give. What cannot be deleted now is the sweep's.
    async fn discard(&mut self) {
        if let Err(error) = act::discard(self.served, &self.ctx.clock, std::mem::take(&mut self.unwanted)).await {
            info!(pool.name = %self.served.name, "addresses that may not be given are left to the sweep: {error}");
        }
    }
}
