//! The tag protocol between management clusters that share a project, checked exhaustively: two clusters with the same
//! pool names, the same claim names and the same list, or reuse on both. No address twice, none released for the other.
//!
//! Each owner's memory is the product's `Ledger` and `PublishedAddresses`, and each decision is asked of the product: for a claim,
//! for one that goes, and for a sweep. What the controllers do with a decision and learn from a reply is in `owner.rs`.
//!
//! What can happen, at any moment and in any order: a request is sent, reaches Neutron, is answered; it is refused, its
//! reply is lost, it is lost itself, it comes late, or a first attempt comes after a second was answered; a process dies
//! and another takes its place; a listing is read now and heard later; time passes; a user attaches and detaches a port;
//! a claim is deleted, and created again under its name; the sweep takes marks off.
//!
//! What is assumed:
//! - Neutron applies each write of one tag in one step, and a listing shows what has been applied (by pages, each whole).
//! - A request that nobody waits for any more, of a dead process too, reaches Neutron within `REQUEST_TIMEOUT` or never.
//!   Time passes for each owner by itself, in pieces of that length, and only when none of its own requests is late: so
//!   clocks need not agree. A process that may have had a predecessor is fenced for one such piece.
//! - A pool has one process at a time, and a project's listing is not ahead of what the same owner wrote before.
//! - A request that takes a tag off is sent once; one that adds a tag may be sent again.
//! - What an owner writes to Kubernetes is written and seen at once; a crash before it is a crash at the step before.
//!
//! What is not in it: descriptions (addresses that we created) and POSTs, limits, grace periods, users who delete or forge.
//!
//! `MODEL_FAULTS=2` gives every variant as many faults; `MODEL_LEFT=1,1,0,0` adds one with so many faults, ports, claims
//! that go and claims that come again, and `MODEL_SLOW_LISTINGS=1` lets time pass while one of its listings is under way.

mod actions;
mod events;
mod neutron;
mod owner;
mod registry;
mod rest;
mod state;
mod world;

use std::time::Instant;

use actions::Action;
use events::{Flaw, Spec};
use state::{Left, State};
use stateright::{Checker, HasDiscoveries, Model};
use world::World;

const LIST: Spec = Spec { listed: 1, reuses: false, claims: 1, flaw: None };
/// How long the histories of three clusters are.
const THREE_DEEP: usize = 20;
const CALM: Left = Left { faults: 0, ports: 0, ends: 0, returns: 0 };

/// With more faults than a plain run takes, where that is asked for.
fn left(left: Left) -> Left {
    let asked = std::env::var("MODEL_FAULTS").ok().and_then(|faults| faults.parse().ok());
    Left { faults: asked.unwrap_or(left.faults), ..left }
}

/// Looks at every state until a law is broken: the first history that breaks one, in words.
fn check(name: &str, world: World) -> Option<String> {
    look_at(name, world, None)
}

/// The same, of histories that are no longer than this.
fn look_at(name: &str, world: World, depth: Option<usize>) -> Option<String> {
    let began = Instant::now();
    let mut checker = world.checker().threads(1).finish_when(HasDiscoveries::AnyFailures);
    if let Some(depth) = depth {
        checker = checker.target_max_depth(depth);
    }
    let checker = checker.spawn_bfs().join();
    let world = checker.model();
    let owners = world.registry().len();
    println!(
        "{name}: {} states by {} steps, {} deep, of {owners} owners, in {:.1} s",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        began.elapsed().as_secs_f32()
    );
    let (law, history) = checker.discoveries().into_iter().next()?;
    Some(tell(world, law, history.into_vec()))
}

fn tell(world: &World, law: &str, history: Vec<(State, Option<Action>)>) -> String {
    let mut told = format!("{law} broken:\n");
    for (state, action) in &history {
        let fips: Vec<_> = state.fips.iter().map(|fip| (fip.tags, fip.has_port)).collect();
        let action = action.as_ref().map_or_else(String::new, |action| world.told(state, action));
        told += &format!("  {fips:?} {action}\n");
    }
    let (last, _) = history.last().expect("a history has a state");
    told + &format!("  {:?} {:?}\n", last.broken, rest::verdict(world, last))
}

#[track_caller]
fn holds(name: &str, world: World) {
    if let Some(history) = check(name, world) {
        panic!("{name}: {history}");
    }
}

/// With this flaw the laws must be seen broken.
#[track_caller]
fn breaks(flaw: Flaw, spec: Spec, left: Left) {
    let history = check(&format!("{flaw:?}"), World::new(1, 2, Spec { flaw: Some(flaw), ..spec }, left));
    println!("{}", history.expect("the model does not notice"));
}

mod laws_hold {
    use super::*;

    #[test]
    fn when_a_call_or_a_process_is_lost() {
        holds("a fault", World::new(1, 2, LIST, left(Left { faults: 1, ..CALM })));
    }

    #[test]
    fn when_claims_go_and_come_again() {
        holds("claims that go", World::new(1, 2, LIST, left(Left { ends: 1, returns: 1, ..CALM })));
    }

    #[test]
    fn when_a_user_attaches_a_port() {
        holds("a port", World::new(1, 2, LIST, left(Left { ports: 1, ..CALM })));
    }

    #[test]
    fn when_the_address_is_reused_and_not_listed() {
        holds("reuse", World::new(1, 2, Spec { listed: 0, reuses: true, ..LIST }, left(CALM)));
    }

    #[test]
    fn when_one_is_listed_and_another_reused() {
        holds("a list and reuse", World::new(2, 2, Spec { reuses: true, ..LIST }, left(CALM)));
    }

    #[test]
    fn when_it_is_asked_for() {
        let Ok(asked) = std::env::var("MODEL_LEFT") else { return };
        let asked: Vec<u8> = asked.split(',').map(|number| number.parse().expect("a number")).collect();
        let [faults, ports, ends, returns] = asked[..] else { panic!("MODEL_LEFT=faults,ports,ends,returns") };
        let world = World::new(1, 2, LIST, Left { faults, ports, ends, returns });
        let is_slow = std::env::var("MODEL_SLOW_LISTINGS").is_ok();
        holds("asked for", if is_slow { world.with_slow_listings() } else { world });
    }

    #[test]
    fn between_three_clusters() {
        // All that three do one after the other, and much of what they do side by side; the whole is hours.
        let world = World::new(1, 3, LIST, left(CALM));
        if let Some(history) = look_at("three clusters", world, Some(THREE_DEEP)) {
            panic!("{history}");
        }
    }

    #[test]
    fn when_each_cluster_has_two_claims() {
        holds("two claims each", World::new(1, 2, Spec { claims: 2, ..LIST }, left(CALM)));
    }
}

mod a_flaw_is_noticed {
    use super::*;

    #[test]
    fn publishing_without_a_look() {
        breaks(Flaw::NoConfirm, LIST, CALM);
    }

    #[test]
    fn leaving_ones_mark_beside_anothers() {
        breaks(Flaw::NoWithdrawal, LIST, CALM);
    }

    #[test]
    fn sending_a_removal_again() {
        breaks(Flaw::RepeatedRemoval, LIST, Left { faults: 1, ..CALM });
    }

    #[test]
    fn not_waiting_for_a_predecessors_calls() {
        breaks(Flaw::NoFence, LIST, Left { faults: 1, ..CALM });
    }

    #[test]
    fn taking_no_answer_for_a_refusal() {
        breaks(Flaw::NoDoubt, LIST, Left { faults: 1, ..CALM });
    }

    #[test]
    fn believing_the_last_attempt() {
        breaks(Flaw::BelievesTheLastAttempt, LIST, Left { faults: 2, ports: 1, ..CALM });
    }

    #[test]
    fn giving_up_what_may_still_land() {
        breaks(Flaw::GivesUpInDoubt, LIST, Left { faults: 2, ports: 1, ..CALM });
    }
}
