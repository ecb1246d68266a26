//! Nothing changes, so nothing may be written: a minute with bound claims.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::Serialize;
use tokio::time::sleep;

use crate::access_log::{AccessLog, Calls};
use crate::cluster::Place;
use crate::process::Process;

/// How long is watched.
const WATCHED: Duration = Duration::from_secs(60);
/// Before that, the last status is written and the last event sent: this long without either.
const STILL: Duration = Duration::from_secs(5);

/// What happened in that minute.
#[derive(Clone, Debug, Serialize)]
pub struct Settled {
    /// Objects that were written, added or removed, each as kind, name and version.
    pub kubernetes_writes: Vec<String>,
    pub neutron_calls: Calls,
    pub cpu_ms: f64,
    pub rss_mib: f64,
}

impl Settled {
    /// Calls to Neutron that change something.
    pub fn neutron_writes(&self) -> usize {
        self.neutron_calls.iter().filter(|(kind, _)| !kind.starts_with("GET")).map(|(_, count)| count).sum()
    }

    /// Calls to Neutron that only look.
    pub fn neutron_reads(&self) -> usize {
        self.neutron_calls.values().sum::<usize>() - self.neutron_writes()
    }
}

/// Watches a namespace with bound claims.
pub async fn watch(place: &Place, log: &AccessLog, process: &mut Process) -> Result<Settled> {
    let before = await_stillness(place).await?;
    eprintln!("  watching {} s", WATCHED.as_secs());
    let (begin, cpu) = (log.end()?, process.cpu()?);
    sleep(WATCHED).await;
    let (end, cpu) = (log.end()?, process.cpu()? - cpu);
    process.assert_running()?;
    let after = place.versions().await?;
    let kubernetes_writes = after.iter().filter(|version| !before.contains(version));
    let removed = before.iter().filter(|version| !after.contains(version));
    Ok(Settled {
        kubernetes_writes: kubernetes_writes.chain(removed).cloned().collect(),
        neutron_calls: log.calls(begin, end)?,
        cpu_ms: cpu.as_secs_f64() * 1000.0,
        rss_mib: process.memory()?.now,
    })
}

async fn await_stillness(place: &Place) -> Result<Vec<String>> {
    let begun = Instant::now();
    let mut versions = place.versions().await?;
    loop {
        sleep(STILL).await;
        let now = place.versions().await?;
        if now == versions {
            return Ok(now);
        }
        ensure!(begun.elapsed() < WATCHED, "objects are still written a minute after all claims were bound");
        versions = now;
    }
}
