//! Nothing changes, so nothing may be written: a minute with bound claims.

use std::time::{Duration, Instant};

use kube::ResourceExt;
use serde::Serialize;
use tokio::time::sleep;

use crate::access_log::{AccessLog, Calls, count_writes};
use crate::support::{Controller, Kind, Namespace};
use crate::usage;

const WATCHED: Duration = Duration::from_secs(60);
/// The last status and the last event may be written a little after the last claim was bound.
const STILL: Duration = Duration::from_secs(5);

#[derive(Serialize)]
pub struct Settled {
    /// Objects that were written, added or removed: kind, name and version of each.
    pub kubernetes_writes: Vec<String>,
    pub neutron_calls: Calls,
    pub cpu_ms: f64,
    pub rss_mib: f64,
}

impl Settled {
    pub fn neutron_writes(&self) -> usize {
        count_writes(&self.neutron_calls)
    }

    pub fn neutron_reads(&self) -> usize {
        self.neutron_calls.values().sum::<usize>() - self.neutron_writes()
    }
}

/// Measures what the controller does in a minute in which nothing changes.
pub async fn measure(ns: &Namespace, log: &AccessLog, controller: &Controller) -> Settled {
    let before = await_stillness(ns).await;
    eprintln!("  watching {} s", WATCHED.as_secs());
    let (begin, cpu) = (log.end(), usage::cpu_time(controller.pid()));
    sleep(WATCHED).await;
    let (end, cpu) = (log.end(), usage::cpu_time(controller.pid()) - cpu);
    Settled {
        kubernetes_writes: changes(&before, &versions(ns).await),
        neutron_calls: log.calls(begin, end),
        cpu_ms: cpu.as_secs_f64() * 1000.0,
        rss_mib: usage::memory(controller.pid()).now,
    }
}

async fn await_stillness(ns: &Namespace) -> Vec<String> {
    let begun = Instant::now();
    let mut before = versions(ns).await;
    loop {
        sleep(STILL).await;
        let now = versions(ns).await;
        if now == before {
            return now;
        }
        assert!(begun.elapsed() < WATCHED, "objects are still written a minute after all claims were bound");
        before = now;
    }
}

/// Kind, name and version of every object that the controller writes.
pub async fn versions(ns: &Namespace) -> Vec<String> {
    let mut versions = Vec::new();
    for kind in [Kind::Pool, Kind::Claim, Kind::Address, Kind::Event] {
        for object in ns.list(kind).await {
            let version = object.resource_version().unwrap_or_default();
            versions.push(format!("{kind:?} {} {version}", object.name_any()));
        }
    }
    versions
}

/// What was written, added or removed.
pub fn changes(before: &[String], after: &[String]) -> Vec<String> {
    let written = after.iter().filter(|version| !before.contains(version));
    let removed = before.iter().filter(|version| !after.contains(version));
    written.chain(removed).cloned().collect()
}
