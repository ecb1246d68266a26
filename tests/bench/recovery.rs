//! A crash with many bound claims: how long until the next process serves, and which calls it makes.

use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::time::sleep;

use crate::access_log::{AccessLog, Calls};
use crate::provider::Process;
use crate::settled::{changes, versions};
use crate::support::{ClaimBuilder, Kind, Namespace};
use crate::usage;

/// Longer than a new process waits for late calls of the old one.
const FENCE: Duration = Duration::from_secs(40);
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Serialize)]
pub struct Recovery {
    /// From the start of the new process until a claim was bound that was created at that moment.
    pub served_s: f64,
    /// Calls to Neutron until the fence had passed.
    pub neutron_calls: Calls,
    /// Objects that were written, added or removed, except those of that claim.
    pub kubernetes_writes: Vec<String>,
    pub cpu_ms: f64,
    pub rss_mib: f64,
}

/// Kills the controller as a crash would, starts another with `start`, and gives it one more claim.
pub async fn measure(
    ns: &Namespace,
    log: &AccessLog,
    claim: ClaimBuilder,
    start: impl FnOnce() -> Process,
) -> Recovery {
    eprintln!("  kill -9");
    let (before, begin) = (versions(ns).await, log.end());
    ns.kill_controllers();
    let begun = Instant::now();
    let process = start();
    let name = claim.name();
    ns.bind_within(claim, PATIENCE).await;
    let served_s = begun.elapsed().as_secs_f64();
    sleep(FENCE).await;
    let neutron_calls = log.calls(begin, log.end());
    let mut kubernetes_writes = changes(&before, &versions(ns).await);
    // The pool's status has one more address, and the claim its own objects and events.
    kubernetes_writes.retain(|version| !version.contains(&name) && !version.starts_with("Pool "));
    let recovery = Recovery {
        served_s,
        neutron_calls,
        kubernetes_writes,
        cpu_ms: usage::cpu_time(process.pid()).as_secs_f64() * 1000.0,
        rss_mib: usage::memory(process.pid()).now,
    };
    ns.delete(Kind::Claim, &name).await;
    ns.await_gone(Kind::Claim, &name, PATIENCE).await;
    recovery
}
