//! The possible next steps, and their descriptions.

use crate::events::{Event, Lifecycle};
use crate::neutron::owner_name;
use crate::state::{Budget, State};
use crate::world::World;

/// What happens to a request that its sender has given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LostCall {
    LandsLater,
    NeverLands,
}

/// One step. Numbers are owners, indexes into the pending or late calls, and floating IPs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// A claim's controller or the sweep acts, or a user creates or deletes a claim.
    Act(usize, Event),
    /// A listing begins and reads its first page.
    StartListing(usize),
    ReadPage(usize),
    ReceiveListing(usize),
    /// A request reaches Neutron.
    Apply(usize),
    Answer(usize),
    Refuse(usize),
    /// The caller gives up on a call that was applied.
    LoseReply(usize),
    /// The caller gives up on a call that may arrive late or never.
    GiveUp(usize, LostCall),
    /// A call is sent again, and the first attempt may still arrive.
    Resend(usize),
    ApplyLate(usize),
    /// One `TIMEOUT` passes for an owner, so that none of its calls can still be late.
    PassTime(usize),
    /// The process crashes; the calls that it has sent may still arrive, or never do.
    Crash(usize, LostCall),
    Attach(usize),
    Detach(usize),
}

impl World {
    /// All steps that may be possible; `next_state` drops those that change nothing.
    pub fn collect_actions(&self, state: &State, actions: &mut Vec<Action>) {
        let Budget { faults, ports, deletions, recreations, deleted_addresses } = state.budget;
        for (index, sent) in state.pending.iter().enumerate() {
            actions.push(if sent.is_applied { Action::Answer(index) } else { Action::Apply(index) });
            if faults > 0 {
                if sent.is_applied {
                    actions.push(Action::LoseReply(index));
                } else {
                    actions.extend(
                        [LostCall::LandsLater, LostCall::NeverLands].map(|lost_call| Action::GiveUp(index, lost_call)),
                    );
                    actions.extend([Action::Refuse(index), Action::Resend(index)]);
                }
            }
        }
        actions.extend((0..state.late_calls.len()).map(Action::ApplyLate));
        for owner in 0..self.owners {
            let view = self.view(state, owner);
            actions.extend(view.own_events().map(|event| Action::Act(owner, event)));
            for (index, claim) in view.claims.iter().enumerate().take(self.spec.claims) {
                match claim.lifecycle {
                    Lifecycle::Active if deletions > 0 => actions.push(Action::Act(owner, Event::Delete(index))),
                    Lifecycle::Absent if recreations > 0 => actions.push(Action::Act(owner, Event::Create(index))),
                    _ => {}
                }
                if deleted_addresses > 0 && claim.published.is_some() {
                    actions.push(Action::Act(owner, Event::DeleteAddress(index)));
                }
            }
            actions.extend([
                Action::StartListing(owner),
                Action::ReadPage(owner),
                Action::ReceiveListing(owner),
                Action::PassTime(owner),
            ]);
            if faults > 0 {
                let has_sent = state.pending.iter().any(|sent| sent.is_from(owner) && !sent.is_applied);
                actions.extend(has_sent.then_some(Action::Crash(owner, LostCall::LandsLater)));
                actions.push(Action::Crash(owner, LostCall::NeverLands));
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

    pub fn describe(&self, state: &State, action: &Action) -> String {
        let call = |index: usize| {
            let sent = state.pending[index];
            format!("{}: {:?}", owner_name(sent.owner.into()), self.call(state, sent))
        };
        match action {
            Action::Act(owner, event) => format!("{}: {event:?}", owner_name(*owner)),
            Action::Apply(index) => format!("{} is applied", call(*index)),
            Action::Answer(index) => format!("{} is answered", call(*index)),
            Action::Refuse(index) => format!("{} is refused", call(*index)),
            Action::LoseReply(index) => format!("{} loses its reply", call(*index)),
            Action::GiveUp(index, lost_call) => format!("{} is given up: {lost_call:?}", call(*index)),
            Action::Resend(index) => format!("{} is sent again", call(*index)),
            Action::ApplyLate(index) => format!("{:?} arrives late", state.late_calls[*index]),
            other => format!("{other:?}"),
        }
    }
}
