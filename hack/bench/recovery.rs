//! A crash with many bound claims: how long until the next process serves, and what it asks for.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kube::ResourceExt;
use kube::api::{DeleteParams, PostParams};
use kube::core::DynamicObject;
use kube::runtime::wait::await_condition;
use serde::Serialize;
use tokio::time::{sleep, timeout};

use crate::Bench;
use crate::access_log::Calls;
use crate::cluster::Place;
use crate::process::Process;

/// Longer than a new process waits for late calls of the old one.
const FENCE: Duration = Duration::from_secs(40);
const PATIENCE: Duration = Duration::from_secs(120);

/// What happened.
#[derive(Clone, Debug, Serialize)]
pub struct Recovery {
    /// From the start of the new process until a claim was bound that came at that moment.
    pub served_s: f64,
    /// Calls to Neutron, until it had been quiet for a while after the last of the fence.
    pub neutron_calls: Calls,
    /// Objects that were written, added or removed, but for that claim's own.
    pub kubernetes_writes: Vec<String>,
    pub cpu_ms: f64,
    pub rss_mib: f64,
}

/// Kills the process as a crash would, starts another, and gives it one more claim.
pub async fn measure(bench: &Bench, place: &Place, process: &mut Process, number: usize) -> Result<Recovery> {
    eprintln!("  kill -9");
    let (before, begin) = (place.versions().await?, bench.log.end()?);
    process.kill();
    let begun = Instant::now();
    *process = Process::start(&bench.flags.program, &bench.cluster.watch_filter, "target/bench/recovery.log".into())?;
    let claim = place.claims.create(&PostParams::default(), &bench.cluster.claim(number)?).await?.name_any();
    while place.claims.get(&claim).await?.data["status"]["addressRef"]["name"].as_str().is_none() {
        process.assert_running()?;
        ensure!(begun.elapsed() < PATIENCE, "the claim {claim} is not served after the crash");
        sleep(Duration::from_millis(20)).await;
    }
    let served_s = begun.elapsed().as_secs_f64();
    sleep(FENCE).await;
    let neutron_calls = bench.log.calls(begin, bench.log.end()?)?;
    let after = place.versions().await?;
    // The pool's status has one more address, and the claim its own objects and events.
    let is_others = |version: &&String| !version.contains(&claim) && !version.starts_with("pool ");
    let changed = after.iter().filter(|version| !before.contains(version));
    let changed = changed.chain(before.iter().filter(|version| !after.contains(version)));
    let kubernetes_writes = changed.filter(is_others).cloned().collect();
    let recovery = Recovery {
        served_s,
        neutron_calls,
        kubernetes_writes,
        cpu_ms: process.cpu()?.as_secs_f64() * 1000.0,
        rss_mib: process.memory()?.now,
    };
    place.claims.delete(&claim, &DeleteParams::default()).await?;
    let gone = await_condition(place.claims.clone(), &claim, |claim: Option<&DynamicObject>| claim.is_none());
    timeout(PATIENCE, gone).await.context("the claim does not go")??;
    Ok(recovery)
}
