//! The tag protocol between management clusters that share a project, checked exhaustively: two clusters with the same
//! pool names, the same claim names and the same list, or with reuse on both sides.
//!
//! Each owner's memory is the product's own `Ledger` and `PublishedAddresses`, and the product makes every decision:
//! for claims, for deleted claims and for sweeps. `owner.rs` models how the controllers act on decisions and replies.
//!
//! These steps can happen at any moment and in any order: a request is sent, reaches Neutron, or is answered; it is
//! refused, its reply is lost, it is lost, it arrives late, or a first attempt arrives after a second was answered; a
//! process crashes and is replaced; a listing is read, and received later; time passes; a user attaches or detaches a
//! port, or deletes an IPAddress; a claim is deleted, or recreated with the same name; the sweep removes marks.
//!
//! Assumptions:
//! - Neutron writes each tag atomically, and a listing shows what has been written (in pages, each read atomically).
//! - A request that its sender has given up, also by a crash, reaches Neutron within `REQUEST_TIMEOUT` or never. Time
//!   passes for each owner separately, in units of that length, and only when none of its own requests is late: clocks
//!   need not agree. A process that may have had a predecessor is fenced for one unit.
//! - A pool has one process at a time, and a project's listing is not ahead of what the same owner wrote before.
//! - A request that removes a tag is sent once; one that adds a tag may be resent.
//! - Writes to Kubernetes are visible at once. A crash before such a write is a crash at the step before.
//!
//! Not modelled: descriptions (addresses that a pool created) and POSTs, limits, grace periods, deletions and forgeries.
//!
//! `MODEL_FAULTS=2` gives every variant two faults. `MODEL_BUDGET=1,1,0,0,0` adds a variant with these numbers of
//! faults, ports, deleted claims, recreated claims and deleted IPAddresses; `MODEL_SLOW_LISTINGS=1` lets time pass during its listings, and with
//! `MODEL_ORDER=1` its pools know which of them yields.

#![allow(clippy::restriction, reason = "a panic fails the test")]
#![warn(clippy::dbg_macro, clippy::todo, clippy::unwrap_used)]

mod actions;
mod events;
mod neutron;
mod owner;
mod quiescence;
mod registry;
mod state;
mod world;

use std::time::Instant;

use actions::Action;
use events::{Flaw, Spec};
use state::{Budget, State};
use stateright::{Checker, HasDiscoveries, Model};
use world::World;

const LIST: Spec = Spec { listed: 1, reuses: false, claims: 1, flaw: None };
/// The longest histories of three clusters, in steps.
const THREE_CLUSTERS_DEPTH: usize = 20;
const UNDISTURBED: Budget = Budget { faults: 0, ports: 0, deletions: 0, recreations: 0, deleted_addresses: 0 };

/// A variant of a normal run, in which `MODEL_FAULTS` replaces the number of faults.
fn variant(fips: usize, owners: usize, spec: Spec, budget: Budget) -> World {
    let faults = std::env::var("MODEL_FAULTS").ok().and_then(|faults| faults.parse().ok());
    World::new(fips, owners, spec, Budget { faults: faults.unwrap_or(budget.faults), ..budget })
}

/// Explores every state, or every history of up to `depth` steps, and describes the first history that violates a law.
fn find_violation(name: &str, world: World, depth: Option<usize>) -> Option<String> {
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
    Some(describe_violation(world, law, history.into_vec()))
}

fn describe_violation(world: &World, law: &str, history: Vec<(State, Option<Action>)>) -> String {
    let mut text = format!("{law} violated:\n");
    for (state, action) in &history {
        let fips: Vec<_> = state.fips.iter().map(|fip| (fip.tags, fip.has_port)).collect();
        let action = action.as_ref().map_or_else(String::new, |action| world.describe(state, action));
        text += &format!("  {fips:?} {action}\n");
    }
    let (last, _) = history.last().expect("a history has a state");
    text + &format!("  {:?} {:?}\n", last.violation, quiescence::find_violation(world, last))
}

#[track_caller]
fn assert_laws_hold(name: &str, world: World, depth: Option<usize>) {
    if let Some(history) = find_violation(name, world, depth) {
        panic!("{name}: {history}");
    }
}

/// Asserts that the model finds a violation in a product with this flaw.
#[track_caller]
fn assert_detected(flaw: Flaw, spec: Spec, budget: Budget) {
    // Only where the pools' ids have an order can one of them yield.
    let world = World::new(1, 2, Spec { flaw: Some(flaw), ..spec }, budget);
    let world = if flaw == Flaw::NoPrecedence { world.ordered() } else { world };
    let history = find_violation(&format!("{flaw:?}"), world, None);
    println!("{}", history.expect("the model does not detect the flaw"));
}

mod laws_hold {
    use super::*;

    #[test]
    fn when_a_call_or_a_process_is_lost() {
        assert_laws_hold("a fault", variant(1, 2, LIST, Budget { faults: 1, ..UNDISTURBED }), None);
    }

    #[test]
    fn when_claims_are_deleted_and_recreated() {
        let budget = Budget { deletions: 1, recreations: 1, ..UNDISTURBED };
        assert_laws_hold("deleted claims", variant(1, 2, LIST, budget), None);
    }

    #[test]
    fn when_a_user_attaches_a_port() {
        assert_laws_hold("a port", variant(1, 2, LIST, Budget { ports: 1, ..UNDISTURBED }), None);
    }

    #[test]
    fn when_a_user_deletes_an_ip_address() {
        let budget = Budget { faults: 1, deleted_addresses: 1, ..UNDISTURBED };
        assert_laws_hold("a deleted IPAddress", variant(1, 2, LIST, budget), None);
    }

    #[test]
    fn when_the_address_is_reused_and_not_listed() {
        assert_laws_hold("reuse", variant(1, 2, Spec { listed: 0, reuses: true, ..LIST }, UNDISTURBED), None);
    }

    #[test]
    fn when_one_address_is_listed_and_another_reused() {
        assert_laws_hold("a list and reuse", variant(2, 2, Spec { reuses: true, ..LIST }, UNDISTURBED), None);
    }

    #[test]
    fn when_pools_know_which_of_them_yields() {
        assert_laws_hold("an order", variant(1, 2, LIST, UNDISTURBED).ordered(), None);
    }

    #[test]
    fn when_pools_know_which_of_them_yields_and_a_call_or_a_process_is_lost() {
        assert_laws_hold("an order, a fault", variant(1, 2, LIST, Budget { faults: 1, ..UNDISTURBED }).ordered(), None);
    }

    #[test]
    fn within_a_requested_budget() {
        let Ok(budget) = std::env::var("MODEL_BUDGET") else { return };
        let budget: Vec<u8> = budget.split(',').map(|number| number.parse().expect("a number")).collect();
        let [faults, ports, deletions, recreations, deleted_addresses] = budget[..] else { panic!("five numbers") };
        let world = World::new(1, 2, LIST, Budget { faults, ports, deletions, recreations, deleted_addresses });
        let is_set = |name| std::env::var(name).is_ok();
        let world = if is_set("MODEL_SLOW_LISTINGS") { world.with_slow_listings() } else { world };
        assert_laws_hold("requested", if is_set("MODEL_ORDER") { world.ordered() } else { world }, None);
    }

    #[test]
    fn between_three_clusters() {
        // Long enough for the three to act one after the other, and often concurrently. All states would take hours.
        assert_laws_hold("three clusters", variant(1, 3, LIST, UNDISTURBED), Some(THREE_CLUSTERS_DEPTH));
    }

    #[test]
    fn when_each_cluster_has_two_claims() {
        assert_laws_hold("two claims each", variant(1, 2, Spec { claims: 2, ..LIST }, UNDISTURBED), None);
    }
}

mod flaw_is_detected {
    use super::*;

    #[test]
    fn publishing_without_confirming() {
        assert_detected(Flaw::NoConfirm, LIST, UNDISTURBED);
    }

    #[test]
    fn keeping_a_mark_beside_another_owners() {
        assert_detected(Flaw::NoWithdrawal, LIST, UNDISTURBED);
    }

    #[test]
    fn resending_a_removal() {
        assert_detected(Flaw::ResentRemoval, LIST, Budget { faults: 1, ..UNDISTURBED });
    }

    #[test]
    fn not_waiting_for_the_calls_of_a_crashed_process() {
        assert_detected(Flaw::NoFence, LIST, Budget { faults: 1, ..UNDISTURBED });
    }

    #[test]
    fn treating_a_missing_reply_as_a_refusal() {
        assert_detected(Flaw::MissingReplyIsRefusal, LIST, Budget { faults: 1, ..UNDISTURBED });
    }

    #[test]
    fn trying_again_at_once_after_both_have_backed_off() {
        assert_detected(Flaw::NoPrecedence, LIST, UNDISTURBED);
    }

    #[test]
    fn forgetting_that_a_claim_had_an_address() {
        assert_detected(Flaw::ForgetsBinding, LIST, Budget { deleted_addresses: 1, ..UNDISTURBED });
    }

    #[test]
    fn trusting_the_last_attempt() {
        assert_detected(Flaw::TrustsLastAttempt, LIST, Budget { faults: 2, ports: 1, ..UNDISTURBED });
    }

    #[test]
    fn giving_up_an_address_while_a_write_is_uncertain() {
        assert_detected(Flaw::GivesUpWhileUncertain, LIST, Budget { faults: 2, ports: 1, ..UNDISTURBED });
    }
}
