//! What must hold without further disturbances: from every state the owners come to rest, and then no mark is left
//! without a claim, no claim waits while an address is free, and everything deleted is gone.
//!
//! Rest is verified along one history, in which the owners take turns and each does all that it can. Where the pools' ids
//! have an order, it is also verified along one in which the owners are always equally far: then all withdraw at the same
//! moment, and the order must decide who tries again.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use stateright::Model;

use crate::actions::Action;
use crate::events::{Event, Lifecycle};
use crate::neutron::Tag;
use crate::state::State;
use crate::world::World;

/// In which order the owners act.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Schedule {
    /// One after the other, each as long as it can.
    InTurns,
    /// Each makes one step, so that all are always equally far: this owner is next.
    InStep(usize),
}

/// The law that is violated once the world has come to rest from this state, if any.
pub fn find_violation(world: &World, state: &State) -> Option<&'static str> {
    let in_turns = follow(world, state, Schedule::InTurns);
    in_turns.or_else(|| world.is_ordered.then(|| follow(world, state, Schedule::InStep(0)))?)
}

fn follow(world: &World, state: &State, schedule: Schedule) -> Option<&'static str> {
    let mut verdicts = world.verdicts.lock().expect("no thread panics while it holds the lock");
    let (mut path, mut seen) = (vec![], HashSet::new());
    let (mut here, mut schedule) = (state.clone(), schedule);
    let verdict = loop {
        let print = fingerprint(&here, schedule);
        if let Some(known) = verdicts.get(&print) {
            break *known;
        }
        if !seen.insert(print) {
            break Some("the owners never come to rest");
        }
        path.push(print);
        match next_undisturbed(world, &here, schedule) {
            Some((next, following)) => (here, schedule) = (next, following),
            None => break violation_at_rest(world, &here),
        }
    };
    verdicts.extend(path.into_iter().map(|print| (print, verdict)));
    verdict
}

fn fingerprint(state: &State, schedule: Schedule) -> u64 {
    let mut hasher = DefaultHasher::new();
    // Not rotated: the history depends on which owner goes first.
    (schedule, &state.owners, &state.fips, &state.pending, &state.late_calls, &state.listings).hash(&mut hasher);
    hasher.finish()
}

/// The next state, and who acts then, if nothing fails and no user interferes.
fn next_undisturbed(world: &World, state: &State, schedule: Schedule) -> Option<(State, Schedule)> {
    match schedule {
        Schedule::InTurns => {
            let mut actions: Vec<Action> = state.late_calls.first().map(|_| Action::ApplyLate(0)).into_iter().collect();
            actions.extend(state.pending.first().map(|_| progress(state, 0)));
            actions.extend(detached(world, state));
            (0..world.owners).for_each(|owner| actions.extend(steps(world, state, owner)));
            actions.extend((0..world.owners).map(Action::PassTime));
            Some((first_effective(world, state, actions)?, schedule))
        }
        Schedule::InStep(turn) => {
            let owners = || (0..world.owners).map(|owner| (owner + turn) % world.owners);
            let then = |owner: usize, next: State| (next, Schedule::InStep((owner + 1) % world.owners));
            let step = |owner: usize| {
                let sent = (0..state.pending.len()).find(|index| state.pending[*index].is_from(owner));
                let actions = sent.map(|index| progress(state, index)).into_iter().chain(steps(world, state, owner));
                first_effective(world, state, actions).map(|next| then(owner, next))
            };
            let late = state.late_calls.first().map(|_| Action::ApplyLate(0));
            let others = late.into_iter().chain(detached(world, state));
            let pass_time =
                |owner: usize| first_effective(world, state, [Action::PassTime(owner)]).map(|next| then(owner, next));
            (owners().find_map(step))
                .or_else(|| first_effective(world, state, others).map(|next| (next, schedule)))
                .or_else(|| owners().find_map(pass_time))
        }
    }
}

fn first_effective(world: &World, state: &State, actions: impl IntoIterator<Item = Action>) -> Option<State> {
    let mut actions = actions.into_iter().filter(|action| !is_futile(world, state, action));
    actions.find_map(|action| world.next_state(state, action))
}

fn progress(state: &State, index: usize) -> Action {
    if state.pending[index].is_applied { Action::Answer(index) } else { Action::Apply(index) }
}

fn detached(world: &World, state: &State) -> impl Iterator<Item = Action> {
    (0..world.fips).filter(|fip| state.fips[*fip].has_port).map(Action::Detach)
}

/// What an owner may do by itself.
fn steps(world: &World, state: &State, owner: usize) -> Vec<Action> {
    let mut actions = vec![Action::ReadPage(owner), Action::ReceiveListing(owner), Action::StartListing(owner)];
    actions.extend(world.view(state, owner).own_events().map(|event| Action::Act(owner, event)));
    actions
}

/// Whether the action only requests a listing that would change nothing: time must pass first.
fn is_futile(world: &World, state: &State, action: &Action) -> bool {
    let Action::Act(owner, event) = action else { return false };
    let here = state.owners[*owner];
    let mut registry = world.registry();
    let (next, just_published) = registry.apply_event(here, event.clone());
    let (before, after) = (registry.view(here), registry.view(next));
    if just_published.is_some() || before.must_list || !after.must_list || before.calls != after.calls {
        return false;
    }
    let (listing, _) = registry.apply_event(next, Event::StartListing);
    drop(registry);
    let fips = world.listing_for(state, *owner);
    world.registry().apply_event(listing, Event::Listed(fips)).0 == here
}

fn violation_at_rest(world: &World, state: &State) -> Option<&'static str> {
    let views: Vec<_> = (0..world.owners).map(|owner| world.view(state, owner)).collect();
    for (index, fip) in state.fips.iter().enumerate() {
        for tag in fip.tags.iter() {
            let claim = views[tag.owner()].claims[tag.claim()];
            if tag.is_release() || claim.published != Some(index as u8) {
                return Some("law 4: a mark is left without a claim");
            }
        }
    }
    let claims = || {
        views
            .iter()
            .enumerate()
            .flat_map(|(owner, view)| view.claims.iter().enumerate().map(move |claim| (owner, claim)))
    };
    for (owner, (index, claim)) in claims() {
        let mark = Tag::new(owner, index, false);
        if claim.published.is_some_and(|fip| !state.fips[usize::from(fip)].tags.has(mark)) {
            return Some("law 5: a published address lacks its mark");
        }
    }
    let is_free = state.fips.iter().any(|fip| fip.tags.is_empty());
    if is_free && claims().any(|(_, (_, claim))| claim.lifecycle == Lifecycle::Active && claim.published.is_none()) {
        return Some("law 7: a claim waits while an address is free");
    }
    let is_deleting = claims().any(|(_, (_, claim))| claim.lifecycle == Lifecycle::Deleting);
    is_deleting.then_some("law 9: a deleted claim still exists")
}
