//! What was measured: a table, what was promised beside it, and JSON.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::access_log::Calls;
use crate::baseline::{CALLS, Limits};
use crate::round::Measured;

/// All figures of a run.
#[derive(Default)]
pub struct Report {
    /// Plain HTTP clients, by their number.
    pub baseline: Vec<(usize, Limits)>,
    rounds: Vec<Measured>,
}

/// A promise and what became of it.
struct Promise {
    what: String,
    required: String,
    measured: String,
    kept: bool,
}

impl Report {
    /// Adds a round.
    pub fn add(&mut self, measured: Measured) {
        self.rounds.push(measured);
    }

    /// Nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.rounds.is_empty() && self.baseline.is_empty()
    }

    /// A promise was not kept.
    pub fn has_misses(&self) -> bool {
        self.promises().iter().any(|promise| !promise.kept)
    }

    /// For a person.
    pub fn table(&self) -> String {
        let mut text = String::new();
        self.write_table(&mut text).expect("a string takes all");
        text
    }

    fn write_table(&self, text: &mut String) -> std::fmt::Result {
        if !self.baseline.is_empty() {
            writeln!(text, "\nPlain HTTP clients, seconds for {CALLS} calls\n")?;
            writeln!(text, "clients     POST  PUT tag  PUT description   DELETE")?;
            for (clients, limits) in &self.baseline {
                let [create, tag, describe, delete] =
                    [limits.create, limits.tag, limits.describe, limits.delete].map(|limit| number(limit, 1));
                writeln!(text, "{clients:>7} {create:>8} {tag:>8} {describe:>16} {delete:>8}")?;
            }
        }
        if self.rounds.is_empty() {
            return Ok(());
        }
        writeln!(text, "\nClaims at once; seconds, Neutron calls a claim, CPU milliseconds a claim, MiB\n")?;
        writeln!(
            text,
            "kind         claims |  bound    p50    p99  limit  ratio | contract  ratio |  gone  given back | calls: bind release | \
             CPU: bind release | RSS: bound after  peak"
        )?;
        for round in &self.rounds {
            let (limit, ratio) = (number(round.limit_s, 2), number(round.ratio, 2));
            let (contract, contract_ratio) = (number(round.contract_s, 2), number(round.contract_ratio, 2));
            write!(text, "{:<12} {:>6} | {:>6.2} {:>6.2} ", round.kind, round.claims, round.bound_s, round.p50_s)?;
            write!(text, "{:>6.2} {limit:>6} {ratio:>6} | {contract:>8} {contract_ratio:>6} | ", round.p99_s)?;
            write!(text, "{:>5.2} ", round.claims_gone_s)?;
            write!(text, "{:>11.2} | {:>11.2} ", round.addresses_gone_s, round.calls_to_bind())?;
            write!(text, "{:>7.2} | {:>9.1} ", round.calls_to_release(), round.bind_cpu_ms_per_claim)?;
            write!(text, "{:>7.1} | {:>10.1} ", round.release_cpu_ms_per_claim, round.rss_bound_mib)?;
            writeln!(text, "{:>5.1} {:>5.1}", round.rss_after_mib, round.rss_peak_mib)?;
        }
        writeln!(text, "\nCPU seconds on the whole machine until all were bound\n")?;
        for round in &self.rounds {
            let used: Vec<String> = round.bind_cpu_s.iter().map(|(name, used)| format!("{name} {used:.2}")).collect();
            writeln!(text, "{:<12} {:>6} | {}", round.kind, round.claims, used.join(", "))?;
        }
        writeln!(text, "\nNeutron calls\n")?;
        for round in &self.rounds {
            writeln!(text, "{:<12} {:>6} | bind:    {}", round.kind, round.claims, listed(&round.bind_calls))?;
            writeln!(text, "{:<12} {:>6} | release: {}", "", "", listed(&round.release_calls))?;
            if let Some(settled) = &round.settled {
                let calls = listed(&settled.neutron_calls);
                writeln!(text, "{:<12} {:>6} | settled, 60 s: {calls}; CPU {:.0} ms", "", "", settled.cpu_ms)?;
                for write in &settled.kubernetes_writes {
                    writeln!(text, "{:<12} {:>6} |   written: {write}", "", "")?;
                }
            }
            if let Some(recovery) = &round.recovery {
                let calls = listed(&recovery.neutron_calls);
                write!(text, "{:<12} {:>6} | killed: a new claim bound after {:.2} s, ", "", "", recovery.served_s)?;
                writeln!(text, "{calls}; CPU {:.0} ms, RSS {:.1} MiB", recovery.cpu_ms, recovery.rss_mib)?;
                for write in &recovery.kubernetes_writes {
                    writeln!(text, "{:<12} {:>6} |   written: {write}", "", "")?;
                }
            }
        }
        let promises = self.promises();
        if promises.is_empty() {
            return writeln!(text, "\nWhat is promised is promised for 100 claims, which were not measured.");
        }
        writeln!(text, "\n{:<52} {:>14} {:>10}", "Promised, for 100 claims", "required", "measured")?;
        for promise in promises {
            let verdict = if promise.kept { "PASS" } else { "MISS" };
            writeln!(text, "{:<52} {:>14} {:>10}  {verdict}", promise.what, promise.required, promise.measured)?;
        }
        Ok(())
    }

    /// What of the promises was measured.
    fn promises(&self) -> Vec<Promise> {
        let mut promises = Vec::new();
        for recovery in self.rounds.iter().filter_map(|round| round.recovery.as_ref()) {
            let calls = recovery.neutron_calls.values().sum::<usize>() as f64;
            promises.push(at_most("killed: Neutron calls of the next process".into(), 12.0, calls));
            let writes = recovery.kubernetes_writes.len() as f64;
            promises.push(at_most("killed: writes to Kubernetes of the next process".into(), 0.0, writes));
        }
        for round in self.rounds.iter().filter(|round| round.claims == 100) {
            let kind = round.kind;
            if let Some(ratio) = round.ratio {
                promises.push(at_least(format!("{kind}: share of what plain clients reach"), 0.85, ratio));
            }
            if let Some(ratio) = round.contract_ratio {
                promises.push(at_least(format!("{kind}: share of plain clients that keep the contract"), 0.85, ratio));
            }
            // One listing for the whole burst is no call of any single claim: a twentieth is left for it.
            let calls = if matches!(kind, "new" | "preallocated") { 1.05 } else { 1.2 };
            promises.push(at_most(format!("{kind}: Neutron calls to bind a claim"), calls, round.calls_to_bind()));
            if kind == "new" {
                let calls = round.calls_to_release();
                promises.push(at_most(format!("{kind}: Neutron calls to release a claim"), 2.05, calls));
            }
            let cpu = round.bind_cpu_ms_per_claim + round.release_cpu_ms_per_claim;
            promises.push(at_most(format!("{kind}: CPU, ms a claim bound and released"), 5.0, cpu));
            promises.push(at_most(format!("{kind}: RSS with 100 bound claims, MiB"), 24.0, round.rss_bound_mib));
            if let Some(settled) = &round.settled {
                let writes = settled.kubernetes_writes.len() + settled.neutron_writes();
                promises.push(at_most("settled: writes in 60 s".into(), 0.0, writes as f64));
                let reads = settled.neutron_reads() as f64;
                promises.push(at_most("settled: listings of Neutron in 60 s".into(), 1.0, reads));
            }
        }
        promises
    }

    /// For a program.
    pub fn write(&self, path: &Path) -> Result<()> {
        let baseline: Vec<Value> = self
            .baseline
            .iter()
            .map(|(clients, limits)| {
                json!({
                    "clients": clients, "calls": CALLS, "post_s": limits.create, "put_tag_s": limits.tag,
                    "put_description_s": limits.describe, "delete_s": limits.delete
                })
            })
            .collect();
        let promises: Vec<Value> = self
            .promises()
            .iter()
            .map(|promise| {
                json!({
                    "what": promise.what, "required": promise.required,
                    "measured": promise.measured, "kept": promise.kept
                })
            })
            .collect();
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let all = json!({"cores": cores, "baseline": baseline, "rounds": self.rounds, "promises": promises});
        let text = serde_json::to_string_pretty(&all)? + "\n";
        std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
    }
}

impl Measured {
    fn calls_to_bind(&self) -> f64 {
        self.bind_calls.values().sum::<usize>() as f64 / self.claims as f64
    }

    fn calls_to_release(&self) -> f64 {
        self.release_calls.values().sum::<usize>() as f64 / self.claims as f64
    }
}

fn at_least(what: String, required: f64, measured: f64) -> Promise {
    Promise { what, required: format!(">= {required}"), measured: format!("{measured:.2}"), kept: measured >= required }
}

fn at_most(what: String, required: f64, measured: f64) -> Promise {
    Promise { what, required: format!("<= {required}"), measured: format!("{measured:.2}"), kept: measured <= required }
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

fn listed(calls: &Calls) -> String {
    let calls: Vec<String> = calls.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    if calls.is_empty() { "none".to_owned() } else { calls.join(", ") }
}
