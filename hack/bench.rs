//! Measures the release build against real servers, beside what plain HTTP clients reach: `make bench`.
//!
//! For each kind of address and each number of claims at once: seconds until all are bound and until all are gone,
//! Neutron calls by its access log, CPU and memory of our process. Absolute times drift with the machine, so the plain
//! clients run before and after each measurement and the better of both is the limit. Claims have the form that CAPO
//! gives them but for its finalizer, which CAPO itself takes off when a machine is gone; here there are no machines.
//!
//! Reads `KUBECONFIG`, `OS_CLIENT_CONFIG_FILE` (cloud `demo`) and `CAIP_NEUTRON_LOG`, the access log of Neutron, with
//! lines of `epoch method uri status milliseconds`. Run it alone: whoever else calls this Neutron is counted too.

#[path = "bench/access_log.rs"]
mod access_log;
#[path = "bench/baseline.rs"]
mod baseline;
#[path = "bench/cluster.rs"]
mod cluster;
#[path = "bench/contract.rs"]
mod contract;
#[path = "bench/machine.rs"]
mod machine;
#[path = "bench/neutron.rs"]
mod neutron;
#[path = "bench/process.rs"]
mod process;
#[path = "bench/recovery.rs"]
mod recovery;
#[path = "bench/report.rs"]
mod report;
#[path = "bench/round.rs"]
mod round;
#[path = "bench/settled.rs"]
mod settled;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;

use access_log::AccessLog;
use baseline::{Baseline, Limits};
use cluster::Cluster;
use neutron::Neutron;
use report::Report;
use round::{Kind, Round};

/// Measures caip-openstack against real servers, beside what plain HTTP clients reach.
#[derive(Parser)]
struct Flags {
    /// How many claims at once.
    #[arg(long, value_delimiter = ',', default_values_t = [20, 100, 300])]
    claims: Vec<usize>,
    /// Where the addresses come from.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Kind::New, Kind::Predefined, Kind::Reused, Kind::Preallocated])]
    kinds: Vec<Kind>,
    /// Where to write the figures.
    #[arg(long, default_value = "bench.json")]
    json: PathBuf,
    /// Leave out the plain HTTP clients, and with them all ratios.
    #[arg(long)]
    no_baseline: bool,
    /// Leave out the minute of watching bound claims.
    #[arg(long)]
    no_settled: bool,
    /// Kill the program when the claims are bound, and measure how the next one recovers.
    #[arg(long)]
    recovery: bool,
    /// The external network to take addresses from.
    #[arg(long, default_value = "public-large")]
    network: String,
    /// The program to measure.
    #[arg(long, default_value = "target/release/caip-openstack")]
    program: PathBuf,
}

/// Everything that a measurement needs.
struct Bench {
    flags: Flags,
    cluster: Cluster,
    neutron: Neutron,
    log: AccessLog,
    network: String,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let flags = Flags::parse();
    let program = flags.program.display();
    ensure!(flags.program.is_file(), "{program} is not there: build it with `cargo build --release`");
    let neutron = Neutron::sign_in("demo").await.context("sign in to OpenStack")?;
    let network = neutron.network(&flags.network).await?;
    let log = AccessLog::from_env()?;
    let cluster = Cluster::connect().await.context("reach the management cluster")?;
    let bench = Bench { flags, cluster, neutron, log, network };
    let mut report = Report::default();
    let outcome = tokio::select! {
        outcome = bench.run(&mut report) => outcome,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    // Also after a failure: what was measured so far is worth reading, and nothing of ours may stay.
    bench.cluster.clean_up().await;
    bench.neutron.clean_up(&bench.network).await;
    if !report.is_empty() {
        print!("{}", report.table());
        report.write(&bench.flags.json)?;
        println!("\nwritten to {}", bench.flags.json.display());
    }
    outcome?;
    Ok(if report.has_misses() { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

impl Bench {
    async fn run(&self, report: &mut Report) -> Result<()> {
        let strangers = self.neutron.floating_ips(&self.network).await?.len();
        if strangers > 0 {
            eprintln!("note: {strangers} floating IPs are on {} already; listings cost more", self.flags.network);
        }
        let baseline = match self.flags.no_baseline {
            true => None,
            false => Some(self.sweep(report).await.context("measure plain HTTP clients")?),
        };
        let mut wants_settled = !self.flags.no_settled;
        for &kind in &self.flags.kinds {
            for &claims in &self.flags.claims {
                let is_last = Some(&kind) == self.flags.kinds.last() && Some(&claims) == self.flags.claims.last();
                // 100 bound claims are what is promised; with other flags whatever comes last is watched.
                let settles = wants_settled && (claims == 100 || is_last);
                wants_settled &= !settles;
                let round = Round { bench: self, kind, claims, settles };
                let context = || format!("measure {claims} claims of kind {}", kind.name());
                report.add(round.measure(baseline.as_ref()).await.with_context(context)?);
            }
        }
        Ok(())
    }

    /// All numbers of clients once; later only the best number is measured again.
    async fn sweep(&self, report: &mut Report) -> Result<Baseline<'_>> {
        let mut baseline = Baseline::prepare(&self.neutron, &self.network).await?;
        for clients in [1, 4, 8, 16] {
            eprintln!("plain HTTP, {clients} clients, {} calls of each kind", baseline::CALLS);
            let limits: Limits = baseline.measure_all(clients).await?;
            eprintln!("  {limits}");
            report.baseline.push((clients, limits.clone()));
            baseline.learn(clients, &limits);
        }
        Ok(baseline)
    }
}
