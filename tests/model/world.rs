//! The transitions of the model: Neutron, the owners, the calls between them, and users, one step at a time.
//!
//! Sending a call, its effect in Neutron and its reply are separate steps. A listing is read when it begins, so that it
//! is as old as the ledger assumes at most (in pages: the second floating IP later), and is received later.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use stateright::{Model, Property};

use crate::actions::{Action, LostCall};
use crate::events::{Event, Flaw, Lifecycle, OperationKind, Reply, Spec};
use crate::neutron::{Call, Fip, ListedFip, Seat, Tag};
use crate::quiescence;
use crate::registry::{Id, Registry, View};
use crate::state::{Budget, PendingCall, State};

/// One variant of the model.
pub struct World {
    pub fips: usize,
    pub owners: usize,
    pub spec: Spec,
    pub budget: Budget,
    has_slow_listings: bool,
    /// Whether the owners' pools have different ids, in the order of the owners.
    pub is_ordered: bool,
    registry: Mutex<Registry>,
    first: Vec<Id>,
    pub verdicts: Mutex<HashMap<u64, Option<&'static str>>>,
}

impl World {
    pub fn new(fips: usize, owners: usize, spec: Spec, budget: Budget) -> Self {
        let seats = vec![Seat { at: 0, owners: owners as u8 }; owners];
        let (registry, first) = Registry::new(fips, spec, &seats);
        Self {
            fips,
            owners,
            spec,
            budget,
            has_slow_listings: false,
            is_ordered: false,
            registry: Mutex::new(registry),
            first,
            verdicts: Mutex::default(),
        }
    }

    /// The owners' pools have different ids, so that each knows which of them yields. No two owners are interchangeable.
    pub fn ordered(self) -> Self {
        let seats: Vec<Seat> = (0..self.owners as u8).map(|at| Seat { at, owners: self.owners as u8 }).collect();
        let (registry, first) = Registry::new(self.fips, self.spec, &seats);
        Self { is_ordered: true, registry: Mutex::new(registry), first, ..self }
    }

    /// Time may pass while a listing is in progress.
    pub fn with_slow_listings(self) -> Self {
        Self { has_slow_listings: true, ..self }
    }

    pub fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().expect("no thread panics while it holds the lock")
    }

    pub fn view(&self, state: &State, owner: usize) -> Arc<View> {
        self.registry().view(state.owners[owner])
    }

    /// Neutron as an owner lists it, with the owners numbered from itself on.
    pub fn listing_for(&self, state: &State, owner: usize) -> Vec<ListedFip> {
        let by = self.owners - owner;
        state.fips.iter().map(|fip| fip.as_listed().rotated(by, self.owners)).collect()
    }

    /// A call with the world's owner numbers instead of the sender's.
    pub fn call(&self, state: &State, sent: PendingCall) -> (OperationKind, Call) {
        let (kind, call) = self.view(state, sent.owner.into()).call(sent.slot.into());
        (kind, Call { tag: call.tag.rotated(sent.owner.into(), self.owners), ..call })
    }

    fn act(&self, state: &mut State, owner: usize, event: Event) {
        let (next, just_published) = self.registry().apply_event(state.owners[owner], event);
        state.owners[owner] = next;
        let view = self.view(state, owner);
        let is_sent =
            |slot: usize| state.pending.iter().any(|sent| sent.is_from(owner) && usize::from(sent.slot) == slot);
        let unsent: Vec<usize> = view.calls.iter().map(|(slot, ..)| *slot).filter(|slot| !is_sent(*slot)).collect();
        state.pending.extend(unsent.into_iter().map(|slot| PendingCall::new(owner, slot)));
        state.pending.sort();
        if let Some((claim, fip)) = just_published {
            let fip = state.fips[usize::from(fip)];
            let mark = Tag::new(owner, claim, false);
            if !fip.tags.has(mark) {
                state.violation = Some("published without its mark");
            }
            if fip.tags_after_port.has(mark) && !view.claims[claim].predates_process {
                state.violation = Some("published although it had a port before it was marked");
            }
        }
    }

    fn deliver_reply(&self, state: &mut State, index: usize, reply: Reply) {
        let sent = state.pending.remove(index);
        self.act(state, sent.owner.into(), Event::Answered(sent.slot.into(), reply));
    }

    fn apply(&self, state: &mut State, call: Call, kind: Option<OperationKind>) {
        let owner = call.tag.owner();
        let view = self.view(state, owner);
        let claim = view.claims[call.tag.claim()];
        let fip = state.fips[usize::from(call.fip)];
        let is_bound = claim.lifecycle == Lifecycle::Active && claim.bound == Some(call.fip);
        if !call.adds && !call.tag.is_release() && is_bound && fip.tags.has(call.tag) {
            state.violation = Some("the mark of a claim's address was removed");
        }
        let was_attached = fip.tags_after_port.iter().any(|tag| tag.owner() == owner && tag.is_release());
        if kind == Some(OperationKind::Sweep(true)) && was_attached {
            state.violation = Some("released although it had a port before");
        }
        state.fips[usize::from(call.fip)].set_tag(call.tag, call.adds);
    }

    fn make_late(state: &mut State, owner: usize, call: Call) {
        state.late_calls.push((owner as u8, call));
        state.late_calls.sort();
        state.late_calls.dedup();
    }

    fn publishes_each_address_once(&self, state: &State) -> bool {
        let views: Vec<_> = (0..self.owners).map(|owner| self.view(state, owner)).collect();
        let bound = |view: &Arc<View>| {
            let active = view.claims.into_iter().filter(|claim| claim.lifecycle == Lifecycle::Active);
            active.filter_map(|claim| claim.published).collect::<Vec<_>>()
        };
        let mut published: Vec<u8> = views.iter().flat_map(bound).collect();
        published.sort();
        published.windows(2).all(|pair| pair[0] != pair[1])
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            fips: vec![Fip::default(); self.fips],
            owners: self.first.clone(),
            pending: vec![],
            late_calls: vec![],
            listings: vec![vec![]; self.owners],
            budget: self.budget,
            violation: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.collect_actions(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Act(owner, event) => {
                match event {
                    Event::Delete(_) => state.budget.deletions -= 1,
                    Event::Create(_) => state.budget.recreations -= 1,
                    Event::DeleteAddress(_) => state.budget.deleted_addresses -= 1,
                    _ => {}
                }
                self.act(&mut state, owner, event);
            }
            Action::StartListing(owner) => {
                let (view, fips) = (self.view(last, owner), self.listing_for(last, owner));
                let has_changes = view.known_fips.iter().zip(&fips).any(|(known, fip)| known.as_ref() != Some(fip));
                if view.listing_age.is_some() || !(view.must_list || view.is_audit_due || has_changes) {
                    return None;
                }
                state.listings[owner] = vec![fips[0]];
                self.act(&mut state, owner, Event::StartListing);
            }
            Action::ReadPage(owner) => {
                let read = state.listings[owner].len();
                if read == 0 || read == self.fips {
                    return None;
                }
                let fip = self.listing_for(last, owner)[read];
                state.listings[owner].push(fip);
            }
            Action::ReceiveListing(owner) => {
                if state.listings[owner].len() != self.fips {
                    return None;
                }
                let fips = std::mem::take(&mut state.listings[owner]);
                self.act(&mut state, owner, Event::Listed(fips));
            }
            Action::Apply(index) => {
                let (kind, call) = self.call(last, last.pending[index]);
                self.apply(&mut state, call, Some(kind));
                state.pending[index].is_applied = true;
            }
            Action::Answer(index) => self.deliver_reply(&mut state, index, Reply::Done),
            Action::Refuse(index) => {
                state.budget.faults -= 1;
                let is_certain = !last.pending[index].is_resent || self.spec.flaw == Some(Flaw::TrustsLastAttempt);
                self.deliver_reply(&mut state, index, if is_certain { Reply::Refused } else { Reply::Unknown });
            }
            Action::LoseReply(index) => {
                state.budget.faults -= 1;
                self.deliver_reply(&mut state, index, Reply::Unknown);
            }
            Action::GiveUp(index, lost_call) => {
                let sent = last.pending[index];
                if lost_call == LostCall::LandsLater {
                    Self::make_late(&mut state, sent.owner.into(), self.call(last, sent).1);
                }
                state.budget.faults -= 1;
                self.deliver_reply(&mut state, index, Reply::Unknown);
            }
            Action::Resend(index) => {
                let sent = last.pending[index];
                let (_, call) = self.call(last, sent);
                if !call.adds && self.spec.flaw != Some(Flaw::ResentRemoval) {
                    return None;
                }
                state.budget.faults -= 1;
                Self::make_late(&mut state, sent.owner.into(), call);
                state.pending[index].is_resent = true;
            }
            Action::ApplyLate(index) => {
                let (_, call) = state.late_calls.remove(index);
                self.apply(&mut state, call, None);
            }
            Action::PassTime(owner) => {
                let has_late_calls = last.late_calls.iter().any(|(sender, _)| usize::from(*sender) == owner);
                let is_blocked_by_listing =
                    self.view(last, owner).listing_age.is_some_and(|age| age > 0 || !self.has_slow_listings);
                if has_late_calls || is_blocked_by_listing {
                    return None;
                }
                self.act(&mut state, owner, Event::PassTime);
            }
            Action::Crash(owner, lost_call) => {
                state.budget.faults -= 1;
                let (mine, others): (Vec<_>, _) = last.pending.iter().copied().partition(|sent| sent.is_from(owner));
                for sent in mine.iter().filter(|sent| lost_call == LostCall::LandsLater && !sent.is_applied) {
                    Self::make_late(&mut state, owner, self.call(last, *sent).1);
                }
                state.pending = others;
                state.listings[owner] = vec![];
                self.act(&mut state, owner, Event::Crash);
            }
            Action::Attach(fip) => {
                state.budget.ports -= 1;
                state.fips[fip].set_port(true);
            }
            Action::Detach(fip) => state.fips[fip].set_port(false),
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("law 1: no address is published twice", Self::publishes_each_address_once),
            Property::always("laws 2 and 5, at each step", |_, state: &State| state.violation.is_none()),
            Property::always("laws 4, 7, 8 and 9, at rest", |world: &Self, state: &State| {
                quiescence::find_violation(world, state).is_none()
            }),
        ]
    }
}
