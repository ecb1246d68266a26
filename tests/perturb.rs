//! Perturbed runs of the controller on real servers, as in Sieve (OSDI '22): a crash after each write, each event withheld,
//! each view turned back to an older one. A binary of its own: `make perturb` runs all plans, `make test` a sample.
//!
//! An undisturbed run of each workload is recorded, and the plans are derived from it. A plan's run must end in the same
//! state, the laws must hold, and nothing may leak.
//!
//! | file | what it does |
//! |---|---|
//! | `workloads.rs` | what users do |
//! | `scene.rs` | the namespace of a run, its proxies and controllers |
//! | `kubernetes_proxy.rs`, `watch_stream.rs`, `request.rs` | between the controller and its API server |
//! | `recorder.rs` | the trace of a run, and its perturbation |
//! | `trace.rs`, `plan.rs` | what was recorded, and the plans that follow from it |
//! | `run.rs`, `summary.rs` | one run, and the state in which it ends |
//! | `selection.rs`, `results.rs`, `figures.rs` | which plans are run, what came of them |

#![allow(clippy::restriction, reason = "a panic fails the test")]
#![warn(clippy::dbg_macro, clippy::todo, clippy::unwrap_used)]

#[allow(dead_code, unused_imports, reason = "a vocabulary: not every scenario uses every word")]
mod support;

/// In `tests/perturb`.
mod perturb {
    pub mod figures;
    pub mod kubernetes_proxy;
    pub mod plan;
    pub mod recorder;
    pub mod request;
    pub mod results;
    pub mod run;
    pub mod scene;
    pub mod selection;
    pub mod summary;
    pub mod trace;
    pub mod watch_stream;
    pub mod workloads;
}

use std::time::Instant;

use futures::StreamExt;

use perturb::figures::Figures;
use perturb::plan::{Derivation, Plan};
use perturb::results::Store;
use perturb::run::{self, Outcome, Reference};
use perturb::selection::{self, Selection};
use perturb::workloads::Workload;

/// How many runs there are at the same time: they mostly wait.
const AT_ONCE: u64 = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn perturbed_runs_end_as_undisturbed_ones() {
    let (selection, store) = (Selection::from_environment(), Store::open());
    let at_once = selection::number("PERTURB_AT_ONCE").unwrap_or(AT_ONCE) as usize;
    let workloads = selection.workloads();
    let references: Vec<(Workload, Reference)> =
        futures::stream::iter(workloads).map(|workload| reference(&store, workload)).buffered(at_once).collect().await;
    let derived: Vec<(Workload, &Reference, Derivation)> = references
        .iter()
        .map(|(workload, reference)| (*workload, reference, Derivation::of(*workload, &reference.trace)))
        .collect();
    let plans = derived.iter().flat_map(|(_, _, derivation)| derivation.plans.clone()).collect();
    let chosen = selection.choose(plans);
    let has_result = |plan: &Plan| store.outcomes(plan.workload).contains_key(&plan.to_string());
    let left: Vec<Plan> = chosen.into_iter().filter(|plan| selection.repeats() || !has_result(plan)).collect();
    eprintln!("{} plans, {at_once} at the same time", left.len());
    let of = |plan: &Plan| references.iter().find(|(workload, _)| *workload == plan.workload);
    let runs = left.iter().map(|plan| run_and_keep(&store, plan, &of(plan).expect("it was derived from it").1));
    futures::stream::iter(runs).buffer_unordered(at_once).collect::<()>().await;
    let mut figures = Figures::default();
    derived.iter().for_each(|(workload, _, plans)| figures.add(*workload, plans, &store.outcomes(*workload)));
    figures.print();
    assert_eq!(figures.failures(), 0, "plans failed");
    assert!(figures.reached_most(), "no plan was selected, or the moments of half of them did not come");
}

async fn reference(store: &Store, workload: Workload) -> (Workload, Reference) {
    let reference = match store.reference(workload) {
        Some(reference) => reference,
        None => {
            let recorded = run::record(workload).await;
            let recorded = recorded.unwrap_or_else(|why| panic!("{} fails undisturbed: {why}", workload.name()));
            store.keep_reference(workload, &recorded)
        }
    };
    (workload, reference)
}

/// Runs a plan, twice where its moment does not come at first, and keeps its outcome.
async fn run_and_keep(store: &Store, plan: &Plan, reference: &Reference) {
    let begin = Instant::now();
    let mut outcome = run::run(plan, reference).await;
    if outcome == Outcome::NotReached {
        outcome = run::run(plan, reference).await;
    }
    let seconds = begin.elapsed().as_secs();
    eprintln!("{plan}: {outcome:?} after {seconds} s");
    store.add(plan.workload, &plan.to_string(), &outcome, seconds);
}
