//! What was measured: a table, the promises beside it, and JSON.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use serde_json::json;

use crate::access_log::Calls;
use crate::round::Measured;
use crate::settled::IDLE;

#[derive(Default)]
pub struct Report {
    pub rounds: Vec<Measured>,
}

/// The most that is promised, and what was measured.
#[derive(Serialize)]
struct Promise {
    what: String,
    at_most: f64,
    measured: f64,
    is_kept: bool,
}

impl Report {
    pub fn has_misses(&self) -> bool {
        self.promises().iter().any(|promise| !promise.is_kept)
    }

    pub fn table(&self) -> String {
        self.text_of(Self::write_promises)
    }

    /// The table without the promises.
    pub fn rounds_table(&self) -> String {
        self.text_of(|_, _| Ok(()))
    }

    fn text_of(&self, end: impl FnOnce(&Self, &mut String) -> std::fmt::Result) -> String {
        let mut text = String::new();
        self.write_rounds(&mut text)
            .and_then(|()| self.write_calls(&mut text))
            .and_then(|()| end(self, &mut text))
            .expect("a string takes any text");
        text
    }

    fn write_rounds(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "\nClaims at once; seconds, Neutron calls a claim, CPU milliseconds a claim, MiB\n")?;
        writeln!(
            text,
            "provider       kind         claims |  bound    p50    p99  claims/s |   gone  given back | calls: bind release | \
             CPU: bind release | RSS: bound after  peak"
        )?;
        for round in &self.rounds {
            let (bind, release) = (&round.bind, &round.release);
            let (to_bind, to_release) = (round.calls_to_bind(), round.calls_to_release());
            write!(text, "{:<14} {:<12} {:>6} | ", round.provider.name(), round.kind, round.claims)?;
            write!(text, "{:>6.2} {:>6.2} {:>6.2} ", bind.bound_s, bind.p50_s, bind.p99_s)?;
            write!(text, "{:>9.1} | ", round.claims as f64 / bind.bound_s)?;
            write!(text, "{:>6.2} {:>11.2} | ", release.claims_gone_s, release.given_back_s)?;
            write!(text, "{to_bind:>11.2} {to_release:>7.2} | ")?;
            write!(text, "{:>9.1} {:>7.1} | ", bind.cpu_ms_per_claim, release.cpu_ms_per_claim)?;
            writeln!(text, "{:>10.1} {:>5.1} {:>5.1}", bind.rss_mib, release.rss_mib, release.rss_peak_mib)?;
        }
        Ok(())
    }

    fn write_calls(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "\nNeutron calls\n")?;
        for round in &self.rounds {
            writeln!(text, "{}: {} {}", round.provider.name(), round.claims, round.kind)?;
            writeln!(text, "  bind:    {}", listed(&round.bind.calls))?;
            writeln!(text, "  release: {}", listed(&round.release.calls))?;
            let mut writes: Vec<&String> = Vec::new();
            if let Some(settled) = &round.settled {
                let calls = listed(&settled.neutron_calls);
                writeln!(text, "  settled, 60 s: {calls}; CPU {:.0} ms", settled.cpu_ms)?;
                writes.extend(&settled.kubernetes_writes);
            }
            if let Some(idle) = &round.idle {
                let (calls, seconds) = (listed(&idle.neutron_calls), IDLE.as_secs());
                writeln!(text, "  free, {seconds} s: {} writes to the pool; {calls}", idle.pool_writes)?;
            }
            if let Some(recovery) = &round.recovery {
                let calls = listed(&recovery.neutron_calls);
                write!(text, "  killed: a new claim bound after {:.2} s, {calls}; ", recovery.served_s)?;
                writeln!(text, "CPU {:.0} ms, RSS {:.1} MiB", recovery.cpu_ms, recovery.rss_mib)?;
                writes.extend(&recovery.kubernetes_writes);
            }
            for write in writes {
                writeln!(text, "    written: {write}")?;
            }
        }
        Ok(())
    }

    fn write_promises(&self, text: &mut String) -> std::fmt::Result {
        let promises = self.promises();
        if promises.is_empty() {
            return writeln!(text, "\nThe promises are for 100 claims, which were not measured.");
        }
        writeln!(text, "\n{:<52} {:>8} {:>10}", "Promised", "at most", "measured")?;
        for Promise { what, at_most, measured, is_kept } in promises {
            let verdict = if is_kept { "PASS" } else { "MISS" };
            writeln!(text, "{what:<52} {at_most:>8} {measured:>10.2}  {verdict}")?;
        }
        Ok(())
    }

    /// The promises that were measured.
    fn promises(&self) -> Vec<Promise> {
        let mut promises = Vec::new();
        let mut promise = |what: String, at_most: f64, measured: f64| {
            promises.push(Promise { what, at_most, measured, is_kept: measured <= at_most });
        };
        for recovery in self.rounds.iter().filter_map(|round| round.recovery.as_ref()) {
            let calls = recovery.neutron_calls.values().sum::<usize>();
            promise("killed: Neutron calls of the next process".into(), 12.0, calls as f64);
            let writes = recovery.kubernetes_writes.len();
            promise("killed: writes to Kubernetes of the next process".into(), 0.0, writes as f64);
        }
        for round in self.rounds.iter().filter(|round| round.claims == 100) {
            let kind = round.kind;
            // A burst is listed once, whatever the number of its claims: that is left room for.
            let calls = if matches!(kind, "new" | "spare") { 1.05 } else { 1.2 };
            promise(format!("{kind}: Neutron calls to bind a claim"), calls, round.calls_to_bind());
            if kind == "new" {
                promise(format!("{kind}: Neutron calls to release a claim"), 2.05, round.calls_to_release());
            }
            promise(format!("{kind}: CPU, ms a claim bound and released"), 5.0, round.cpu_ms_per_claim());
            promise(format!("{kind}: RSS with 100 bound claims, MiB"), 24.0, round.bind.rss_mib);
            if let Some(settled) = &round.settled {
                let writes = settled.kubernetes_writes.len() + settled.neutron_writes();
                promise("settled: writes in 60 s".into(), 0.0, writes as f64);
                promise("settled: listings of Neutron in 60 s".into(), 1.0, settled.neutron_reads() as f64);
            }
        }
        promises
    }

    /// Writes the figures as JSON.
    pub fn write(&self, path: &Path) {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let all = json!({"cores": cores, "rounds": self.rounds, "promises": self.promises()});
        std::fs::write(path, format!("{all:#}\n")).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
    }
}

impl Measured {
    pub fn cpu_ms_per_claim(&self) -> f64 {
        self.bind.cpu_ms_per_claim + self.release.cpu_ms_per_claim
    }

    fn calls_to_bind(&self) -> f64 {
        self.bind.calls.values().sum::<usize>() as f64 / self.claims as f64
    }

    fn calls_to_release(&self) -> f64 {
        self.release.calls.values().sum::<usize>() as f64 / self.claims as f64
    }
}

fn listed(calls: &Calls) -> String {
    let calls: Vec<String> = calls.iter().map(|(name, count)| format!("{count} {name}")).collect();
    if calls.is_empty() { "none".to_owned() } else { calls.join(", ") }
}
