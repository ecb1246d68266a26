//! The whole controllers, against an API server and an OpenStack in memory, in time that is simulated: processes that
//! die at any call, replies that are lost, doubled or late, users who interfere, replicas that compete, management
//! clusters that share a project. The same seed gives the same history, to the letter.
//!
//! | file | what is in it |
//! |---|---|
//! | [`api`] | the API server |
//! | [`wire`], [`client`], [`clouds`] | the way of one process to both, where everything can go wrong |
//! | [`process`] | the controllers, through all their lives |
//! | [`world`] | everything at once, and what must hold when it comes to rest |
//! | [`witness`] | who sees what came first |
//! | [`people`] | what users do |
//! | [`history`], [`events`] | histories from a seed, and what each event does |
//! | [`generated`] | the laws hold in generated histories |
//! | [`crash`] | one claim's life, with a crash at each call and each reply lost, doubled, late |
//! | [`replicas`] | two replicas, and leadership that changes at each call |
//! | [`missed`], [`jumps`] | what happens while nobody looks; clocks that jump |
//! | [`offered`] | what is done with what Neutron offers |
//! | [`deletion`] | every order of deleting everything; OpenStack gone for good |

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "../support"]
mod support {
    pub mod laws;
}

mod api;
mod client;
mod clouds;
mod crash;
mod deletion;
mod events;
mod generated;
mod history;
mod jumps;
mod missed;
mod offered;
mod people;
mod process;
mod replicas;
mod trace;
mod wire;
mod witness;
mod world;

use support::laws;
use world::{Start, World};

/// What came of a history.
pub struct Outcome {
    /// The laws that were broken.
    pub broken: Vec<laws::Broken>,
    /// All that happened, as a number.
    pub hash: u64,
    /// All that happened, as text, where that was asked for.
    pub story: String,
    /// How many calls each life of each process made.
    pub calls: Vec<Vec<usize>>,
}

/// Lives through a history: what `act` does, and then rest.
pub fn live(start: &Start, act: impl AsyncFnOnce(&World)) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let world = World::new(start);
        world.begin();
        act(&world).await;
        if !world.is_broken() && !world.is_over.get() {
            world.settle().await;
        }
        let calls = |replica: &std::rc::Rc<process::Process>| {
            let mut calls = replica.past_calls.borrow().clone();
            calls.extend(replica.now().map(|wire| wire.calls()));
            calls
        };
        Outcome {
            broken: world.broken.borrow().clone(),
            hash: world.trace.hash(),
            story: world.trace.text(),
            calls: world.sites.iter().flat_map(|site| &site.replicas).map(calls).collect(),
        }
    })
}

/// A number from the environment.
pub fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Whether a point of an enumeration has its turn: each has in a soak (`SIMULATION_STEP=1`), one of `every` in a plain
/// run, which has to be soon over.
pub fn is_due(point: usize, every: u64) -> bool {
    (point as u64).is_multiple_of(variable("SIMULATION_STEP").unwrap_or(every))
}
