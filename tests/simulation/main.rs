//! The controllers as they are, against an API server and an OpenStack in memory, in simulated time. Processes die at any
//! call, replies are lost, doubled or late, users interfere, replicas compete, management clusters share a project. The
//! same seed gives the same history, call for call.
//!
//! | file | what is in it |
//! |---|---|
//! | [`api`] | the API server, which the tests of contracts use too |
//! | [`wire`], [`client`], [`clouds`] | a process' connections to both servers; faults are injected here |
//! | [`background`] | the garbage collector and the namespace controller |
//! | [`fault`] | what can go wrong with a call |
//! | [`process`] | one replica of the controllers, restarted whenever it ends |
//! | [`world`] | the whole system |
//! | [`settling`] | how long it takes to come to rest once trouble stops, and what must hold then |
//! | [`witness`], [`claims`] | record the order of changes in Neutron, and what claims were told and given |
//! | [`publication`], [`told`], [`reserved`], [`rates`] | laws that are judged while things happen |
//! | [`users`] | what users do |
//! | [`history`], [`generator`], [`situations`] | what a history consists of; histories from a seed |
//! | [`events`], [`edits`], [`tampering`], [`operators`], [`restores`] | what each event does |
//! | [`ending`] | what must hold when a history ends |
//! | [`generated`] | the laws hold in generated histories |
//! | [`crash`] | one claim's lifecycle, with each fault at each call |
//! | [`contention`] | two management clusters that want one address at the same moment |
//! | [`handover`] | a process that ends or dies with calls under way, and its successor |
//! | [`replicas`] | two replicas, and a leader that changes at each call |
//! | [`missed`], [`jumps`] | what happens while no controller runs; clocks that jump |
//! | [`offered`], [`waiting`] | what a pool does with the addresses that Neutron offers, and with those it must wait for |
//! | [`restored`] | the API server's data go back to a backup |
//! | [`outdated`] | claims and IPAddresses come back from a backup |
//! | [`cleanup`] | releases and deletions need credentials, and nothing else of the spec |
//! | [`identities`] | cluster identities that a namespace may use, and then may not |
//! | [`proxies`] | a proxy in front of the API server answers 404 |
//! | [`problems`] | what a pool with a problem still does for the claims that have addresses |
//! | [`spec_edits`] | every edit of a pool's spec, every pair of them, and back |
//! | [`strays`] | IPAddresses that no claim has a right to |
//! | [`tenants`] | what another tenant's Keystone says |
//! | [`noninterference`], [`liar`] | an honest tenant beside hostile ones, and their clouds |
//! | [`panics`] | a bug that an object triggers |
//! | [`large`] | objects with more finalizers and owner references than are kept in memory |
//! | [`labels`] | the tags of `spec.tags` |
//! | [`address_lists`] | the ConfigMap of `spec.addressConfigMap` |
//! | [`newer`] | marks of a newer version of this provider |
//! | [`deletion`] | every order of deleting everything; OpenStack gone for good |
//! | [`lists`] | the controllers list nothing that is older than what they know |
//! | [`records`] | nothing of deleted pools and claims is remembered |

#![allow(clippy::restriction, reason = "a panic fails the test")]
#![warn(clippy::dbg_macro, clippy::todo)]

#[path = "../support"]
mod support {
    pub mod laws;
    #[allow(dead_code, reason = "the contract asks more of it")]
    pub mod memory;
    pub mod memory_api;
}

mod address_lists;
mod background;
mod calm;
mod claims;
mod cleanup;
mod client;
mod clouds;
mod contention;
mod crash;
mod deletion;
mod edits;
mod ending;
mod events;
mod fault;
mod found;
mod generated;
mod generator;
mod given_up;
mod gone;
mod handover;
mod history;
mod identities;
mod jumps;
mod labels;
mod large;
mod liar;
mod lists;
mod missed;
mod newer;
mod noninterference;
mod offered;
mod operators;
mod outdated;
mod panics;
mod problems;
mod process;
mod proxies;
mod publication;
mod rates;
mod records;
mod regressions;
mod replicas;
mod reserved;
mod restored;
mod restores;
mod settling;
mod situations;
mod spec_edits;
mod strays;
mod tampering;
mod tenants;
mod told;
mod trace;
mod turns;
mod unfinished;
mod users;
mod waiting;
mod wire;
mod witness;
mod world;

use std::collections::BTreeMap;

use settling::Settled;
use support::{laws, memory, memory_api as api};
use world::{Site, Start, World};

/// What came of a history.
pub struct Outcome {
    pub start: Start,
    pub violations: Vec<laws::Violation>,
    /// All that happened, as a number.
    pub hash: u64,
    /// All that happened, as text, where [`Start::is_logged`].
    pub log: String,
    /// How many calls each life of each process made.
    pub calls: Vec<Vec<usize>>,
    /// The most calls of each kind that any process made within a minute.
    pub peaks: BTreeMap<String, usize>,
    /// How long it took to settle in the end, where it did.
    pub settled: Option<Settled>,
    /// How often one of several claims that waited for a pool was served in the end.
    pub served_in_order: usize,
}

impl Outcome {
    /// Panics with the log when a law was broken.
    #[track_caller]
    pub fn assert_lawful(&self) {
        assert!(self.violations.is_empty(), "{:?}: {:?}\n{}", self.start, self.violations, self.log);
    }
}

/// Runs a world: what `act` does, and then until everything is at rest.
pub fn simulate(start: &Start, act: impl AsyncFnOnce(&World)) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let world = World::new(start);
        world.begin();
        act(&world).await;
        if !world.has_violations() && !world.skips_rest.get() {
            world.settle().await;
        }
        let calls = |replica: &std::rc::Rc<process::Process>| {
            let mut calls = replica.past_calls.borrow().clone();
            calls.extend(replica.wire().map(|wire| wire.calls()));
            calls
        };
        Outcome {
            start: *start,
            violations: world.violations.borrow().clone(),
            hash: world.trace.hash(),
            log: world.trace.text(),
            calls: world.sites.iter().flat_map(|site| &site.replicas).map(calls).collect(),
            peaks: world.witness.rates().peaks(),
            settled: world.settled.take(),
            served_in_order: world.served_in_order.get(),
        }
    })
}

/// Runs a history that begins with the claim `web-0`, which has an address of the new pool `public`. The laws must hold.
#[track_caller]
pub fn simulate_bound(start: &Start, act: impl AsyncFnOnce(&World, &Site)) {
    let outcome = simulate(start, async |world: &World| {
        world.bind_in_new_pool("web-0").await;
        act(world, &world.sites[0]).await;
    });
    outcome.assert_lawful();
}

/// A number from the environment.
pub fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Whether a point of an enumeration is tested in this run: every one with `SIMULATION_STEP=1`, else one of `every`, since
/// a plain run has to be quick.
pub fn is_due(point: usize, every: u64) -> bool {
    (point as u64).is_multiple_of(variable("SIMULATION_STEP").unwrap_or(every))
}
