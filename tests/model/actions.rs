//! Everything that can happen next, and how it is told.

use crate::events::{Event, Life};
use crate::neutron::owner_name;
use crate::state::{Left, State};
use crate::world::World;

/// What becomes of a request that nobody waits for any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Late,
    Never,
}

/// One thing that happens. Numbers are owners, slots, places in a list, and floating IPs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// An owner does something by itself: a claim's controller, or the sweep.
    Own(usize, Event),
    /// A listing begins, and is read.
    Look(usize),
    /// The next page is read.
    ReadOn(usize),
    Hear(usize),
    /// A request reaches Neutron.
    Apply(usize),
    Answer(usize),
    Refuse(usize),
    /// The caller gives up on a call, which was done.
    LoseReply(usize),
    /// The caller gives up on a call, which may come late or never.
    GiveUp(usize, Fate),
    /// A call is sent again, and the first may still come.
    Repeat(usize),
    /// A late call reaches Neutron.
    Land(usize),
    /// For an owner so much time goes by that no late call of its own can be left.
    Pass(usize),
    /// The process dies; so many of the calls that it has sent may still come.
    Crash(usize, Fate),
    Attach(usize),
    Detach(usize),
}

impl World {
    /// What can happen next; what would change nothing is sorted out later.
    pub fn all(&self, state: &State, actions: &mut Vec<Action>) {
        let Left { faults, ports, ends, returns } = state.left;
        for (index, wire) in state.wire.iter().enumerate() {
            actions.push(if wire.is_applied { Action::Answer(index) } else { Action::Apply(index) });
            if faults > 0 {
                if wire.is_applied {
                    actions.push(Action::LoseReply(index));
                } else {
                    actions.extend([Fate::Late, Fate::Never].map(|fate| Action::GiveUp(index, fate)));
                    actions.extend([Action::Refuse(index), Action::Repeat(index)]);
                }
            }
        }
        actions.extend((0..state.late.len()).map(Action::Land));
        for owner in 0..self.owners {
            let view = self.view(state, owner);
            actions.extend(view.own_events().map(|event| Action::Own(owner, event)));
            for (index, claim) in view.claims.iter().enumerate().take(self.spec.claims) {
                match claim.life {
                    Life::Stays if ends > 0 => actions.push(Action::Own(owner, Event::Delete(index))),
                    Life::Absent if returns > 0 => actions.push(Action::Own(owner, Event::Create(index))),
                    _ => {}
                }
            }
            actions.extend([Action::Look(owner), Action::ReadOn(owner), Action::Hear(owner), Action::Pass(owner)]);
            if faults > 0 {
                let is_out = state.wire.iter().any(|wire| usize::from(wire.owner) == owner && !wire.is_applied);
                actions.extend(is_out.then_some(Action::Crash(owner, Fate::Late)));
                actions.push(Action::Crash(owner, Fate::Never));
            }
        }
        for (index, fip) in state.fips.iter().enumerate() {
            if fip.has_port {
                actions.push(Action::Detach(index));
            } else if ports > 0 {
                actions.push(Action::Attach(index));
            }
        }
    }

    /// A step of a history, for whoever reads it.
    pub fn told(&self, state: &State, action: &Action) -> String {
        let name = |owner: usize| owner_name(owner);
        let call = |index: usize| {
            let wire = state.wire[index];
            format!("{}: {:?}", name(wire.owner.into()), self.call(state, wire))
        };
        match action {
            Action::Own(owner, event) => format!("{}: {event:?}", name(*owner)),
            Action::Apply(index) => format!("{} is done", call(*index)),
            Action::Answer(index) => format!("{} is answered", call(*index)),
            Action::Refuse(index) => format!("{} is refused", call(*index)),
            Action::LoseReply(index) => format!("{} loses its reply", call(*index)),
            Action::GiveUp(index, fate) => format!("{} is given up: {fate:?}", call(*index)),
            Action::Repeat(index) => format!("{} is sent again", call(*index)),
            Action::Land(index) => format!("{:?} lands late", state.late[*index]),
            other => format!("{other:?}"),
        }
    }
}
