//! The laws hold at the end of every history, and on the way. `SIMULATION_HISTORIES` says how many, `SIMULATION_SEED`
//! where to begin; one seed alone is told in full by `SIMULATION_SEED=n SIMULATION_HISTORIES=1`.

use std::time::Instant;

use crate::history::{Cast, Event, history, lived, shrunk};
use crate::variable;
use crate::world::Start;

/// How many histories of each kind a plain test run lives through.
const HISTORIES: u64 = 12;

fn start(seed: u64) -> Start {
    Start {
        seed,
        sites: 1 + usize::from(!seed.is_multiple_of(3)),
        replicas: 1 + usize::from(seed % 5 == 4),
        slowest: [2, 15, 120, 900][(seed / 7 % 4) as usize],
        is_told: false,
    }
}

fn the_laws_hold(cast: Cast) {
    let (first, count) =
        (variable("SIMULATION_SEED").unwrap_or(0), variable("SIMULATION_HISTORIES").unwrap_or(HISTORIES));
    let (begin, mut calls, mut lives) = (Instant::now(), 0, 0);
    for seed in first..first + count {
        let (start, events) = (start(seed), history(seed, cast));
        let outcome = lived(&start, &events);
        lives += outcome.calls.iter().map(Vec::len).sum::<usize>();
        calls += outcome.calls.iter().flatten().sum::<usize>();
        if !outcome.broken.is_empty() {
            tell(&start, &events);
        }
    }
    let took = begin.elapsed().as_secs_f64();
    println!("{cast:?}: {count} histories from seed {first}, {lives} lives, {calls} calls, {took:.1} s");
}

/// The core of a history that breaks a law, and all that happened in it.
fn tell(start: &Start, events: &[Event]) -> ! {
    let core = shrunk(start, events);
    let told = lived(&Start { is_told: true, ..*start }, &core);
    let broken: Vec<String> = told.broken.iter().map(ToString::to_string).collect();
    panic!("seed {}: {}\n{}\n\n{start:?}\n{core:?}", start.seed, broken.join("; "), told.story);
}

#[test]
fn the_laws_hold_whatever_goes_wrong() {
    the_laws_hold(Cast::Trouble);
}

#[test]
fn the_laws_hold_whatever_people_do() {
    the_laws_hold(Cast::People);
}

#[test]
fn the_laws_hold_between_management_clusters_that_want_the_same_addresses() {
    the_laws_hold(Cast::Rivals);
}

#[test]
fn a_seed_gives_the_same_history_each_time() {
    for seed in 0..8 {
        let (start, events) = (start(seed), history(seed, Cast::People));
        assert_eq!(lived(&start, &events).hash, lived(&start, &events).hash, "seed {seed}");
    }
}
