//! Nothing changes, so nothing may be written: a minute with bound claims, half a minute with free addresses.

use std::time::Duration;

use futures::StreamExt;
use kube::ResourceExt;
use kube::runtime::watcher::{Config, Event, watcher};
use serde::Serialize;
use tokio::time::{Instant as Deadline, sleep, timeout_at};

use crate::access_log::{AccessLog, Calls, count_writes};
use crate::provider::Process;
use crate::support::{Kind, Namespace};
use crate::usage;

const WATCHED: Duration = Duration::from_secs(60);
/// The last status and the last event may be written a little after the last claim was bound.
const STILL: Duration = Duration::from_secs(5);
/// How long a pool with free addresses is watched.
pub const IDLE: Duration = Duration::from_secs(30);

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
pub async fn measure(ns: &Namespace, log: &AccessLog, process: &Process) -> Settled {
    let before = await_stillness(async || versions(ns).await, STILL, 12).await;
    let before = before.expect("objects are still written a minute after all claims were bound");
    eprintln!("  watching {} s", WATCHED.as_secs());
    let (begin, cpu) = (log.end(), usage::cpu_time(process.pid()));
    sleep(WATCHED).await;
    let (end, cpu) = (log.end(), usage::cpu_time(process.pid()) - cpu);
    Settled {
        kubernetes_writes: changes(&before, &versions(ns).await),
        neutron_calls: log.calls(begin, end),
        cpu_ms: cpu.as_secs_f64() * 1000.0,
        rss_mib: usage::memory(process.pid()).now,
    }
}

/// Half a minute in which a pool has free addresses and no claims.
#[derive(Serialize)]
pub struct Idle {
    pub pool_writes: usize,
    pub neutron_calls: Calls,
    pub cpu_ms: f64,
}

/// Counts what is written to a pool of this kind, the only one of the namespace.
pub async fn watch_idle(ns: &Namespace, pool: Kind, log: &AccessLog, process: &Process) -> Idle {
    sleep(STILL).await;
    let mut events = watcher(ns.api(pool), Config::default()).boxed();
    while !matches!(events.next().await, Some(Ok(Event::InitDone))) {}
    eprintln!("  watching the pool for {} s", IDLE.as_secs());
    let (begin, cpu, end) = (log.end(), usage::cpu_time(process.pid()), Deadline::now() + IDLE);
    let mut pool_writes = 0;
    while let Ok(event) = timeout_at(end, events.next()).await {
        pool_writes += usize::from(matches!(event, Some(Ok(Event::Apply(_)))));
    }
    let cpu_ms = (usage::cpu_time(process.pid()) - cpu).as_secs_f64() * 1000.0;
    Idle { pool_writes, neutron_calls: log.calls(begin, log.end()), cpu_ms }
}

/// Waits until nothing was written during a pause; returns the versions then. None after so many pauses.
pub async fn await_stillness(
    versions: impl AsyncFn() -> Vec<String>,
    pause: Duration,
    pauses: usize,
) -> Option<Vec<String>> {
    let mut before = versions().await;
    for _ in 0..pauses {
        sleep(pause).await;
        let now = versions().await;
        if now == before {
            return Some(now);
        }
        before = now;
    }
    None
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
