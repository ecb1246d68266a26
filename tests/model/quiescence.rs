//! What must hold without further disturbances: from every state the owners come to rest, and then no mark is left
//! without a claim, no claim waits while an address is free, and everything deleted is gone.
//!
//! Rest is verified along one history, in which the owners take turns and each does all that it can. Two that run
//! concurrently could both withdraw forever: in the product random delays prevent that, and the model has none.

use std::hash::{DefaultHasher, Hash, Hasher};

use stateright::Model;

use crate::actions::Action;
use crate::events::{Event, Lifecycle};
use crate::neutron::Tag;
use crate::state::State;
use crate::world::World;

/// The law that is violated once the world has come to rest from this state, if any.
pub fn find_violation(world: &World, state: &State) -> Option<&'static str> {
    let mut verdicts = world.verdicts.lock().expect("no thread panics while it holds the lock");
    let mut path = vec![];
    let mut here = state.clone();
    let verdict = loop {
        let print = fingerprint(&here);
        if let Some(known) = verdicts.get(&print) {
            break *known;
        }
        if path.contains(&print) {
            break Some("the owners never come to rest");
        }
        path.push(print);
        match next_undisturbed(world, &here) {
            Some(next) => here = next,
            None => break violation_at_rest(world, &here),
        }
    };
    verdicts.extend(path.into_iter().map(|print| (print, verdict)));
    verdict
}

fn fingerprint(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    // Not rotated: the history depends on which owner goes first.
    (&state.owners, &state.fips, &state.pending, &state.late_calls, &state.listings).hash(&mut hasher);
    hasher.finish()
}

/// The next state if nothing fails and no user interferes.
pub fn next_undisturbed(world: &World, state: &State) -> Option<State> {
    let mut actions: Vec<Action> = vec![];
    actions.extend((!state.late_calls.is_empty()).then_some(Action::ApplyLate(0)));
    actions
        .extend(state.pending.first().map(|sent| if sent.is_applied { Action::Answer(0) } else { Action::Apply(0) }));
    actions.extend((0..world.fips).filter(|fip| state.fips[*fip].has_port).map(Action::Detach));
    for owner in 0..world.owners {
        actions.extend([Action::ReadPage(owner), Action::ReceiveListing(owner), Action::StartListing(owner)]);
        let events = world.view(state, owner).own_events().collect::<Vec<_>>();
        actions.extend(events.into_iter().map(|event| Action::Act(owner, event)));
    }
    actions.extend((0..world.owners).map(Action::PassTime));
    actions
        .into_iter()
        .filter(|action| !is_futile(world, state, action))
        .find_map(|action| world.next_state(state, action))
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
