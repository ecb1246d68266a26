//! The whole: Neutron, the owners, the wire between them, users; and everything that can happen, one thing at a time.
//!
//! A call is sent, reaches Neutron, and is answered, each a step of its own. A listing is read where it begins, which is
//! the oldest that the ledger may take it for (by pages: the second floating IP later), and is heard later.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use stateright::{Model, Property};

use crate::actions::{Action, Fate};
use crate::events::{Event, Flaw, Life, Reply, Spec, Work};
use crate::neutron::{Call, Fip, Seen, Tag};
use crate::registry::{Id, Registry, View};
use crate::rest;
use crate::state::{Left, State, Wire};

/// One variant of the model.
pub struct World {
    pub fips: usize,
    pub owners: usize,
    pub spec: Spec,
    pub left: Left,
    has_slow_listings: bool,
    registry: Mutex<Registry>,
    first: Id,
    pub verdicts: Mutex<HashMap<u64, Option<&'static str>>>,
}

impl World {
    pub fn new(fips: usize, owners: usize, spec: Spec, left: Left) -> Self {
        let (registry, first) = Registry::new(fips, spec);
        let has_slow_listings = false;
        Self {
            fips,
            owners,
            spec,
            left,
            has_slow_listings,
            registry: Mutex::new(registry),
            first,
            verdicts: Mutex::default(),
        }
    }

    /// Time may pass while a listing is under way.
    pub fn with_slow_listings(self) -> Self {
        Self { has_slow_listings: true, ..self }
    }

    pub fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().expect("nobody panics with it")
    }

    pub fn view(&self, state: &State, owner: usize) -> Arc<View> {
        self.registry().view(state.owners[owner])
    }

    /// Neutron as an owner sees it, who counts from itself on.
    pub fn seen_by(&self, state: &State, owner: usize) -> Vec<Seen> {
        let by = self.owners - owner;
        state.fips.iter().map(|fip| fip.seen().turned(by, self.owners)).collect()
    }

    /// A call in the numbers of the world.
    pub fn call(&self, state: &State, wire: Wire) -> (Work, Call) {
        let (work, call) = self.view(state, wire.owner.into()).call(wire.slot.into());
        (work, Call { tag: call.tag.turned(wire.owner.into(), self.owners), ..call })
    }

    fn own(&self, state: &mut State, owner: usize, event: Event) {
        let (next, gave) = self.registry().happen(state.owners[owner], event);
        state.owners[owner] = next;
        let view = self.view(state, owner);
        let is_sent = |slot: usize| {
            state.wire.iter().any(|wire| (usize::from(wire.owner), usize::from(wire.slot)) == (owner, slot))
        };
        let sent: Vec<usize> = view.calls.iter().map(|(slot, ..)| *slot).filter(|slot| !is_sent(*slot)).collect();
        let wire = |slot: usize| Wire { owner: owner as u8, slot: slot as u8, is_applied: false, is_repeated: false };
        state.wire.extend(sent.into_iter().map(wire));
        state.wire.sort();
        if let Some((claim, fip)) = gave {
            let real = state.fips[usize::from(fip)];
            let mark = Tag::of(owner, claim, false);
            if !real.tags.has(mark) {
                state.broken = Some("published without its mark");
            }
            if real.late.has(mark) && !view.claims[claim].is_old {
                state.broken = Some("published although it had a port before it was marked");
            }
        }
    }

    fn apply(&self, state: &mut State, call: Call, work: Option<Work>) {
        let owner = call.tag.owner();
        let view = self.view(state, owner);
        let claim = view.claims[call.tag.claim()];
        let fip = state.fips[usize::from(call.fip)];
        let is_bound = claim.life == Life::Stays && claim.published == Some(call.fip);
        if !call.adds && !call.tag.is_release() && is_bound && fip.tags.has(call.tag) {
            state.broken = Some("the mark of a published address was taken off");
        }
        let was_attached = fip.late.iter().any(|tag| tag.owner() == owner && tag.is_release());
        if work == Some(Work::Sweep(true)) && was_attached {
            state.broken = Some("released although it had a port before");
        }
        state.fips[usize::from(call.fip)].put(call.tag, call.adds);
    }

    fn make_late(state: &mut State, owner: usize, call: Call) {
        state.late.push((owner as u8, call));
        state.late.sort();
        state.late.dedup();
    }

    /// Two clusters must not have published one address.
    fn is_held_once(&self, state: &State) -> bool {
        let views: Vec<_> = (0..self.owners).map(|owner| self.view(state, owner)).collect();
        let bound = |view: &Arc<View>| {
            let living = view.claims.into_iter().filter(|claim| claim.life == Life::Stays);
            living.filter_map(|claim| claim.published).collect::<Vec<_>>()
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
            owners: vec![self.first; self.owners],
            wire: vec![],
            late: vec![],
            looks: vec![vec![]; self.owners],
            left: self.left,
            broken: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.all(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Own(owner, event) => {
                match event {
                    Event::Delete(_) => state.left.ends -= 1,
                    Event::Create(_) => state.left.returns -= 1,
                    _ => {}
                }
                self.own(&mut state, owner, event);
            }
            Action::Look(owner) => {
                let (view, seen) = (self.view(last, owner), self.seen_by(last, owner));
                let is_news = view.knows.iter().zip(&seen).any(|(known, seen)| known.as_ref() != Some(seen));
                if view.look.is_some() || !(view.must_look || view.is_due || is_news) {
                    return None;
                }
                state.looks[owner] = vec![seen[0]];
                self.own(&mut state, owner, Event::Look);
            }
            Action::ReadOn(owner) => {
                let read = state.looks[owner].len();
                if read == 0 || read == self.fips {
                    return None;
                }
                let seen = self.seen_by(last, owner)[read];
                state.looks[owner].push(seen);
            }
            Action::Hear(owner) => {
                if state.looks[owner].len() != self.fips {
                    return None;
                }
                let seen = std::mem::take(&mut state.looks[owner]);
                self.own(&mut state, owner, Event::Listed(seen));
            }
            Action::Apply(index) => {
                let (work, call) = self.call(last, last.wire[index]);
                self.apply(&mut state, call, Some(work));
                state.wire[index].is_applied = true;
            }
            Action::Answer(index) => self.answered(&mut state, index, Reply::Done),
            Action::Refuse(index) => {
                state.left.faults -= 1;
                let is_known = !last.wire[index].is_repeated || self.spec.flaw == Some(Flaw::BelievesTheLastAttempt);
                self.answered(&mut state, index, if is_known { Reply::Undone } else { Reply::Unknown });
            }
            Action::LoseReply(index) => {
                state.left.faults -= 1;
                self.answered(&mut state, index, Reply::Unknown);
            }
            Action::GiveUp(index, fate) => {
                let wire = last.wire[index];
                if fate == Fate::Late {
                    Self::make_late(&mut state, wire.owner.into(), self.call(last, wire).1);
                }
                state.left.faults -= 1;
                self.answered(&mut state, index, Reply::Unknown);
            }
            Action::Repeat(index) => {
                let wire = last.wire[index];
                let (_, call) = self.call(last, wire);
                if !call.adds && self.spec.flaw != Some(Flaw::RepeatedRemoval) {
                    return None;
                }
                state.left.faults -= 1;
                Self::make_late(&mut state, wire.owner.into(), call);
                state.wire[index].is_repeated = true;
            }
            Action::Land(index) => {
                let (_, call) = state.late.remove(index);
                self.apply(&mut state, call, None);
            }
            Action::Pass(owner) => {
                let is_bound_by_late = last.late.iter().any(|(of, _)| usize::from(*of) == owner);
                if is_bound_by_late || self.view(last, owner).look.is_some_and(|age| age > 0 || !self.has_slow_listings)
                {
                    return None;
                }
                self.own(&mut state, owner, Event::Pass);
            }
            Action::Crash(owner, fate) => {
                state.left.faults -= 1;
                let (mine, others) = last.wire.iter().copied().partition(|wire| usize::from(wire.owner) == owner);
                let mine: Vec<Wire> = mine;
                for wire in mine.iter().filter(|wire| fate == Fate::Late && !wire.is_applied) {
                    Self::make_late(&mut state, owner, self.call(last, *wire).1);
                }
                state.wire = others;
                state.looks[owner] = vec![];
                self.own(&mut state, owner, Event::Crash);
            }
            Action::Attach(fip) => {
                state.left.ports -= 1;
                state.fips[fip].attach(true);
            }
            Action::Detach(fip) => state.fips[fip].attach(false),
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("law 1: no address is published twice", Self::is_held_once),
            Property::always("laws 2 and 5, at each step", |_, state: &State| state.broken.is_none()),
            Property::always("laws 4, 7, 8 and 9, at rest", |world: &Self, state: &State| {
                rest::verdict(world, state).is_none()
            }),
        ]
    }

    fn format_action(&self, action: &Action) -> String {
        format!("{action:?}")
    }
}

impl World {
    fn answered(&self, state: &mut State, index: usize, reply: Reply) {
        let wire = state.wire.remove(index);
        self.own(state, wire.owner.into(), Event::Answered(wire.slot.into(), reply));
    }
}
