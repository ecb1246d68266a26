//! What must be so when nothing more goes wrong: from every state the owners come to rest by themselves, and then no mark
//! is left that belongs to no claim, whoever waits while an address is free gets it, and what is being deleted is gone.
//!
//! Rest is looked for along one history, in which one owner at a time does all that it can. Two that go on side by side
//! may both withdraw again and again; chance ends that, and the model has none.

use std::hash::{DefaultHasher, Hash, Hasher};

use stateright::Model;

use crate::actions::Action;
use crate::events::{Event, Life};
use crate::neutron::Tag;
use crate::state::State;
use crate::world::World;

/// What is wrong when the world has come to rest from here on.
pub fn verdict(world: &World, state: &State) -> Option<&'static str> {
    let mut verdicts = world.verdicts.lock().expect("nobody panics with it");
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
        match next(world, &here) {
            Some(next) => here = next,
            None => break at_rest(world, &here),
        }
    };
    verdicts.extend(path.into_iter().map(|print| (print, verdict)));
    verdict
}

fn fingerprint(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    // Turned it would be another history: who goes first is not the same.
    (&state.owners, &state.fips, &state.wire, &state.late, &state.looks).hash(&mut hasher);
    hasher.finish()
}

/// The next thing that happens when nothing goes wrong and nobody interferes.
pub fn next(world: &World, state: &State) -> Option<State> {
    let answer = |index: usize| if state.wire[index].is_applied { Action::Answer(index) } else { Action::Apply(index) };
    let mut calm: Vec<Action> = vec![];
    calm.extend((!state.late.is_empty()).then_some(Action::Land(0)));
    calm.extend((!state.wire.is_empty()).then(|| answer(0)));
    calm.extend((0..world.fips).filter(|fip| state.fips[*fip].has_port).map(Action::Detach));
    for owner in 0..world.owners {
        calm.extend([Action::ReadOn(owner), Action::Hear(owner), Action::Look(owner)]);
        let events = world.view(state, owner).own_events().collect::<Vec<_>>();
        calm.extend(events.into_iter().map(|event| Action::Own(owner, event)));
    }
    calm.extend((0..world.owners).map(Action::Pass));
    calm.into_iter().filter(|action| !is_idle(world, state, action)).find_map(|action| world.next_state(state, action))
}

/// Whether somebody would only look again, and learn nothing: time must pass first.
fn is_idle(world: &World, state: &State, action: &Action) -> bool {
    let Action::Own(owner, event) = action else { return false };
    let here = state.owners[*owner];
    let mut registry = world.registry();
    let (next, gave) = registry.happen(here, event.clone());
    let (before, after) = (registry.view(here), registry.view(next));
    if gave.is_some() || before.must_look || !after.must_look || before.calls != after.calls {
        return false;
    }
    let (looking, _) = registry.happen(next, Event::Look);
    drop(registry);
    let seen = world.seen_by(state, *owner);
    world.registry().happen(looking, Event::Listed(seen)).0 == here
}

fn at_rest(world: &World, state: &State) -> Option<&'static str> {
    let views: Vec<_> = (0..world.owners).map(|owner| world.view(state, owner)).collect();
    for (index, fip) in state.fips.iter().enumerate() {
        for tag in fip.tags.iter() {
            let claim = views[tag.owner()].claims[tag.claim()];
            if tag.is_release() || claim.published != Some(index as u8) {
                return Some("law 4: a mark is left that belongs to no claim");
            }
        }
    }
    let claims =
        || views.iter().enumerate().flat_map(|(owner, view)| view.claims.iter().enumerate().map(move |it| (owner, it)));
    for (owner, (index, claim)) in claims() {
        let mark = Tag::of(owner, index, false);
        if claim.published.is_some_and(|fip| !state.fips[usize::from(fip)].tags.has(mark)) {
            return Some("law 5: a published address lacks its mark");
        }
    }
    let is_free = state.fips.iter().any(|fip| fip.tags.is_empty());
    if is_free && claims().any(|(_, (_, claim))| claim.life == Life::Stays && claim.published.is_none()) {
        return Some("law 7: a claim waits, and an address is free");
    }
    claims().any(|(_, (_, claim))| claim.life == Life::Goes).then_some("law 9: a deleted claim is still there")
}
