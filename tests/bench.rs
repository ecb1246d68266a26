//! Measures the release build against real servers: `make bench`, which starts them.
//!
//! For each kind of address and each number of claims at once: seconds until all are bound and until all are gone,
//! Neutron calls by its access log, CPU and memory of the controller. Claims have the form that CAPO gives them but for
//! its finalizer, which CAPO itself removes when a machine is gone; here there are no machines.
//!
//! Neutron's access log, which `CAIP_NEUTRON_LOG` names, counts the calls of other clients too: run it alone.

#![allow(clippy::restriction, reason = "a panic ends the benchmark")]
#![warn(clippy::dbg_macro, clippy::todo, clippy::unwrap_used)]

#[path = "bench/access_log.rs"]
mod access_log;
#[path = "bench/beside_capo.rs"]
mod beside_capo;
#[path = "bench/claim_events.rs"]
mod claim_events;
#[path = "bench/hostile.rs"]
mod hostile;
#[path = "bench/objects.rs"]
mod objects;
#[path = "bench/plain.rs"]
mod plain;
#[path = "bench/provider.rs"]
mod provider;
#[path = "bench/recovery.rs"]
mod recovery;
#[path = "bench/report.rs"]
mod report;
#[path = "bench/requirement.rs"]
mod requirement;
#[path = "bench/round.rs"]
mod round;
#[path = "bench/scale.rs"]
mod scale;
#[path = "bench/scale_figures.rs"]
mod scale_figures;
#[path = "bench/settled.rs"]
mod settled;
#[path = "bench/stand_in.rs"]
mod stand_in;
#[allow(dead_code, unused_imports, reason = "a vocabulary of the scenarios")]
mod support;
#[path = "bench/usage.rs"]
mod usage;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use support::with_namespace;

use access_log::AccessLog;
use provider::Provider;
use report::Report;
use round::{Extras, Kind, Round};

/// Measures caip-openstack against real servers.
#[derive(Parser)]
struct Flags {
    /// How many claims at once.
    #[arg(long, value_delimiter = ',', default_values_t = [20, 100, 300])]
    claims: Vec<usize>,
    /// Where the addresses come from.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Kind::New, Kind::Predefined, Kind::Reused, Kind::Spare])]
    kinds: Vec<Kind>,
    /// Where to write the figures.
    #[arg(long, default_value = "bench.json")]
    json: PathBuf,
    /// Leave out the minute of watching bound claims.
    #[arg(long)]
    no_settled: bool,
    /// Kill the controller when the claims are bound, and measure how the next one recovers.
    #[arg(long)]
    recovery: bool,
    /// The external network to take addresses from.
    #[arg(long, default_value = "public-large")]
    network: String,
    /// Measure CAPO's built-in pool too, on the same servers; `CAIP_CAPO_PID` is its manager's process.
    #[arg(long)]
    beside_capo: bool,
    #[command(flatten)]
    beside: hostile::Setting,
    #[command(flatten)]
    scale: scale::Setting,
    /// The stand-in for OpenStack, as a process of its own.
    #[arg(long, hide = true)]
    serve_stand_in: bool,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let flags = Flags::parse();
    if flags.serve_stand_in {
        stand_in::serve(flags.scale.latency).await;
    }
    if flags.scale.scale {
        return exit_code(flags.scale.run(&flags.json).await);
    }
    if flags.beside_capo {
        return exit_code(beside_capo::run(&flags.claims, &flags.network, &flags.json).await);
    }
    if flags.beside.hostile {
        return exit_code(flags.beside.run(&flags.network, &flags.json).await);
    }
    let log = AccessLog::from_env();
    let mut report = Report::default();
    let mut wants_settled = !flags.no_settled;
    for &kind in &flags.kinds {
        for &claims in &flags.claims {
            let is_last = Some(&kind) == flags.kinds.last() && Some(&claims) == flags.claims.last();
            // The promise is for 100 bound claims; with other flags the last round is watched.
            let settles = wants_settled && (claims == 100 || is_last);
            wants_settled &= !settles;
            with_namespace(async |ns| {
                let round = Round { provider: Provider::Ours, ns, log: &log, network: &flags.network, kind, claims };
                let extras = Extras { settles, recovers: flags.recovery, idles: false };
                report.rounds.push(round.measure(extras).await);
            })
            .await;
            // After each round: a later one may fail.
            report.write(&flags.json);
        }
    }
    print!("{}", report.table());
    println!("\nwritten to {}", flags.json.display());
    exit_code(!report.has_misses())
}

fn exit_code(is_as_asked: bool) -> ExitCode {
    if is_as_asked { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
