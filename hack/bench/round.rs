//! One measurement: a kind of address and a number of claims, bound and released at once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use caip_openstack::api::OpenStackFloatingIPPool;
use futures::{StreamExt, TryStreamExt, stream};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::DynamicObject;
use kube::runtime::wait::await_condition;
use kube::runtime::watcher::{self, Event, watcher};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

use crate::Bench;
use crate::access_log::Calls;
use crate::baseline::{Baseline, CALLS, Limits, Write};
use crate::cluster::Place;
use crate::contract;
use crate::machine::Machine;
use crate::neutron::{FloatingIp, NOTE};
use crate::process::Process;
use crate::recovery::{self, Recovery};
use crate::settled::{self, Settled};

/// How many requests of ours the API server gets at once.
const AT_ONCE: usize = 16;
/// When something has gone wrong: no measurement takes this long.
const PATIENCE: Duration = Duration::from_secs(600);
/// As long as this without a write by anybody, and a phase has ended.
const QUIET: Duration = Duration::from_secs(1);

/// Where addresses come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Kind {
    /// Created for the claim.
    New,
    /// From the pool's list.
    Predefined,
    /// Free ones of the project.
    Reused,
    /// Created ahead by the pool.
    Preallocated,
}

impl Kind {
    /// As it is shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Predefined => "predefined",
            Self::Reused => "reused",
            Self::Preallocated => "preallocated",
        }
    }

    /// The write that a claim needs.
    pub fn write(self) -> Write {
        match self {
            Self::New => Write::Create,
            Self::Predefined | Self::Reused => Write::Tag,
            Self::Preallocated => Write::Describe,
        }
    }
}

/// What to measure.
pub struct Round<'a> {
    pub bench: &'a Bench,
    pub kind: Kind,
    pub claims: usize,
    /// Watch the bound claims for a minute before they are released.
    pub settles: bool,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    pub kind: &'static str,
    pub claims: usize,
    /// From before the first creation until the last claim was bound.
    pub bound_s: f64,
    /// Of one claim, from before its creation until it was bound.
    pub p50_s: f64,
    pub p99_s: f64,
    /// What plain HTTP clients take for the writes that the claims need, and theirs by ours.
    pub limit_s: Option<f64>,
    pub ratio: Option<f64>,
    /// What plain clients take that write what Cluster API's contract asks for as well, and theirs by ours.
    pub contract_s: Option<f64>,
    pub contract_ratio: Option<f64>,
    /// From before the first deletion until the last claim was gone.
    pub claims_gone_s: f64,
    /// … and until the last write in Neutron.
    pub addresses_gone_s: f64,
    pub bind_calls: Calls,
    pub release_calls: Calls,
    /// CPU seconds on the whole machine until all were bound, by program.
    pub bind_cpu_s: BTreeMap<String, f64>,
    pub bind_cpu_ms_per_claim: f64,
    pub release_cpu_ms_per_claim: f64,
    pub rss_bound_mib: f64,
    pub rss_after_mib: f64,
    pub rss_peak_mib: f64,
    pub settled: Option<Settled>,
    pub recovery: Option<Recovery>,
}

impl Round<'_> {
    /// Measures in a namespace and with a process of its own, between two runs of plain HTTP clients.
    pub async fn measure(&self, baseline: Option<&Baseline<'_>>) -> Result<Measured> {
        eprintln!("{} {} claims", self.claims, self.kind.name());
        let before = self.limit(baseline).await?;
        let place = self.bench.cluster.place(&self.bench.neutron.cloud).await?;
        let made = self.prepare().await?;
        let log = format!("target/bench/{}-{}.log", self.kind.name(), self.claims);
        let mut process = Process::start(&self.bench.flags.program, &self.bench.cluster.watch_filter, log.into())?;
        let mut measured = self.bind_and_release(&place, &mut process, &made).await?;
        self.remove_pool(&place).await?;
        drop(process);
        self.bench.neutron.delete_many(made.into_iter().map(|made| made.id)).await?;
        let limits = before.better(&self.limit(baseline).await?);
        measured.limit_s = limits.of(self.kind.write()).map(|seconds| seconds * self.claims as f64 / CALLS as f64);
        if baseline.is_some() {
            let contract_s = contract::measure(self.bench, self.kind.write(), self.claims).await?;
            measured.contract_s = Some(contract_s);
            measured.contract_ratio = Some(contract_s / measured.bound_s);
        }
        measured.ratio = measured.limit_s.map(|limit| limit / measured.bound_s);
        eprintln!("  bound in {:.2} s, limit {:.2?} s", measured.bound_s, measured.limit_s);
        Ok(measured)
    }

    async fn limit(&self, baseline: Option<&Baseline<'_>>) -> Result<Limits> {
        match baseline {
            Some(baseline) => baseline.measure(self.kind.write()).await,
            None => Ok(Limits::default()),
        }
    }

    /// Makes the addresses that must be there beforehand.
    async fn prepare(&self) -> Result<Vec<FloatingIp>> {
        let (network, neutron) = (&self.bench.network, &self.bench.neutron);
        match self.kind {
            Kind::New | Kind::Preallocated => Ok(Vec::new()),
            Kind::Predefined => neutron.create_many(network, NOTE, self.claims).await,
            // With a description somebody would have meant something by them.
            Kind::Reused => neutron.create_many(network, "", self.claims).await,
        }
    }

    fn spec(&self, made: &[FloatingIp]) -> Value {
        let network = json!({"id": self.bench.network});
        let addresses: Vec<&str> = made.iter().map(|made| made.address.as_str()).collect();
        match self.kind {
            Kind::New => json!({"floatingIPNetwork": network}),
            Kind::Predefined => json!({"preAllocatedFloatingIPs": addresses}),
            Kind::Reused => {
                json!({"floatingIPNetwork": network, "reuse": {"policy": "Unmarked", "minIdleSeconds": 0}})
            }
            // The limit keeps the pool from creating the next ones while these are given.
            Kind::Preallocated => {
                json!({"floatingIPNetwork": network, "preallocate": self.claims, "maxIPs": self.claims})
            }
        }
    }

    async fn bind_and_release(&self, place: &Place, process: &mut Process, made: &[FloatingIp]) -> Result<Measured> {
        self.bench.cluster.create_pool(place, self.spec(made)).await?;
        let id = self.await_ready(place, process).await?;
        let mut seen = watch(place).await?;
        let per_claim = |used: Duration| used.as_secs_f64() * 1000.0 / self.claims as f64;

        let (_, begin) = self.bench.log.quiet_since(QUIET).await?;
        let (cpu, machine) = (process.cpu()?, Machine::now());
        let begun = Instant::now();
        let created = self.create_claims(place).await?;
        let bound = self.await_all(&mut seen, Seen::Bound, place, process).await?;
        let bind_cpu_s = Machine::now().since(&machine);
        let bound_s = (last(&bound)? - begun).as_secs_f64();
        let (_, end) = self.bench.log.quiet_since(QUIET).await?;
        let bind_calls = self.bench.log.calls(begin, end)?;
        let bind_cpu_ms_per_claim = per_claim(process.cpu()? - cpu);
        let rss_bound_mib = process.memory()?.now;
        let mut times = Vec::new();
        for (name, created) in &created {
            times.push((bound[name] - *created).as_secs_f64());
        }
        times.sort_by(f64::total_cmp);

        let settled = match self.settles {
            true => Some(settled::watch(place, &self.bench.log, process).await?),
            false => None,
        };
        let recovery = match self.bench.flags.recovery {
            true => Some(recovery::measure(self.bench, place, process, self.claims).await?),
            false => None,
        };

        let (_, begin) = self.bench.log.quiet_since(QUIET).await?;
        let cpu = process.cpu()?;
        let begun = Instant::now();
        self.delete_claims(place, created.keys()).await?;
        let gone = self.await_all(&mut seen, Seen::Gone, place, process).await?;
        let claims_gone_s = (last(&gone)? - begun).as_secs_f64();
        let (last_write, end) = self.await_given_back(&id, process).await?;
        let memory = process.memory()?;
        Ok(Measured {
            kind: self.kind.name(),
            claims: self.claims,
            bound_s,
            p50_s: percentile(&times, 0.50),
            p99_s: percentile(&times, 0.99),
            limit_s: None,
            ratio: None,
            contract_s: None,
            contract_ratio: None,
            claims_gone_s,
            addresses_gone_s: last_write.saturating_duration_since(begun).as_secs_f64(),
            bind_calls,
            release_calls: self.bench.log.calls(begin, end)?,
            bind_cpu_s,
            bind_cpu_ms_per_claim,
            release_cpu_ms_per_claim: per_claim(process.cpu()? - cpu),
            rss_bound_mib,
            rss_after_mib: memory.now,
            rss_peak_mib: memory.peak,
            settled,
            recovery,
        })
    }

    /// Waits until the pool can serve, and returns its identity in Neutron's marks. It makes that itself: one given in
    /// the spec may have been used by a predecessor, whose late writes the controller would wait for.
    async fn await_ready(&self, place: &Place, process: &mut Process) -> Result<String> {
        let free = if self.kind == Kind::Preallocated { self.claims } else { 0 };
        let status = |pool: Option<&OpenStackFloatingIPPool>| pool.and_then(|pool| pool.status.clone());
        let id = |pool: Option<&OpenStackFloatingIPPool>| status(pool).and_then(|status| status.pool_id);
        let is_ready = |pool: Option<&OpenStackFloatingIPPool>| {
            status(pool).is_some_and(|status| {
                let ready = status.conditions.iter().any(|found| found.type_ == "Ready" && found.status == "True");
                ready && status.addresses.is_some_and(|count| count.free as usize >= free)
            })
        };
        let waiting = async {
            let has_id = |pool: Option<&OpenStackFloatingIPPool>| id(pool).is_some();
            let pool = await_condition(place.pools.clone(), "bench", has_id).await?;
            let id = id(pool.as_ref()).context("the pool went away")?;
            // Before it has made all of its addresses, since it may fail in between.
            self.bench.neutron.remember_pool(&id);
            await_condition(place.pools.clone(), "bench", is_ready).await?;
            anyhow::Ok(id)
        };
        // A second for each address that the pool creates ahead.
        let Ok(id) = timeout(Duration::from_secs(60 + free as u64), waiting).await else {
            process.assert_running()?;
            let status = place.pools.get("bench").await?.status;
            bail!("the pool does not become ready: {}", serde_json::to_string(&status)?);
        };
        id
    }

    async fn create_claims(&self, place: &Place) -> Result<BTreeMap<String, Instant>> {
        let creations = (0..self.claims).map(async |number| {
            let claim = self.bench.cluster.claim(number)?;
            let begun = Instant::now();
            place.claims.create(&PostParams::default(), &claim).await?;
            anyhow::Ok((claim.name_any(), begun))
        });
        stream::iter(creations).buffer_unordered(AT_ONCE).try_collect().await
    }

    async fn delete_claims(&self, place: &Place, names: impl Iterator<Item = &String>) -> Result<()> {
        let deletions = names.map(async |name| place.claims.delete(name, &DeleteParams::default()).await.map(drop));
        Ok(stream::iter(deletions).buffer_unordered(AT_ONCE).try_collect().await?)
    }

    /// When each claim came to be as wanted.
    async fn await_all(
        &self,
        seen: &mut UnboundedReceiver<(String, Seen, Instant)>,
        wanted: Seen,
        place: &Place,
        process: &mut Process,
    ) -> Result<BTreeMap<String, Instant>> {
        let begun = Instant::now();
        let mut all = BTreeMap::new();
        while all.len() < self.claims {
            match timeout(Duration::from_secs(5), seen.recv()).await {
                Ok(Some((name, what, when))) if what == wanted => {
                    all.entry(name).or_insert(when);
                }
                Ok(Some(_)) => {}
                Ok(None) => bail!("the watch of the claims has ended"),
                Err(_) => process.assert_running()?,
            }
            if begun.elapsed() > PATIENCE {
                let claims = place.claims.list(&ListParams::default()).await?;
                let late = claims.iter().find(|claim| wanted == Seen::Gone || !is_bound(claim));
                let status = serde_json::to_string(&late.map(|claim| &claim.data["status"]))?;
                bail!("{} of {} claims are {wanted:?}; one of the others: {status}", all.len(), self.claims);
            }
        }
        Ok(all)
    }

    /// When Neutron was last written to, once every address is given back; and where its log ended then.
    async fn await_given_back(&self, id: &str, process: &mut Process) -> Result<(Instant, u64)> {
        let begun = Instant::now();
        loop {
            let (last_write, end) = self.bench.log.quiet_since(QUIET).await?;
            let there = self.bench.neutron.floating_ips(&self.bench.network).await?;
            let is_tagged = |floating_ip: &&FloatingIp| floating_ip.tags.iter().any(|tag| tag.contains(id));
            let is_described = |floating_ip: &&FloatingIp| floating_ip.description.contains(id);
            let (tagged, described) =
                (there.iter().filter(is_tagged).count(), there.iter().filter(is_described).count());
            let kept = if self.kind == Kind::Preallocated { self.claims } else { 0 };
            if tagged == 0 && described == kept {
                // A slow write is logged when it ends, which may have been between the quiet and the look.
                let (later_write, later_end) = self.bench.log.quiet_since(QUIET).await?;
                let has_later = self.bench.log.calls(end, later_end)?.keys().any(|kind| !kind.starts_with("GET"));
                return Ok((if has_later { later_write } else { last_write }, later_end));
            }
            process.assert_running()?;
            ensure!(
                begun.elapsed() < PATIENCE,
                "all claims are gone, but {tagged} floating IPs are tagged and {described} described as the pool's"
            );
        }
    }

    /// Deletes the pool, which deletes what it still has.
    async fn remove_pool(&self, place: &Place) -> Result<()> {
        place.pools.delete("bench", &DeleteParams::default()).await?;
        let gone =
            await_condition(place.pools.clone(), "bench", |pool: Option<&OpenStackFloatingIPPool>| pool.is_none());
        let gone = timeout(Duration::from_secs(120), gone).await;
        gone.context("the pool is still there two minutes after it was deleted")??;
        Ok(())
    }
}

/// What the watch tells of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seen {
    Bound,
    Gone,
}

/// Watches the claims of a namespace; returns once the watch has begun.
async fn watch(place: &Place) -> Result<UnboundedReceiver<(String, Seen, Instant)>> {
    let (tell, seen) = unbounded_channel();
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let mut begun = Some(begun);
    let mut events = watcher(place.claims.clone(), watcher::Config::default()).boxed();
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            let now = Instant::now();
            let told = match event {
                Ok(Event::Apply(claim) | Event::InitApply(claim)) if is_bound(&claim) => {
                    tell.send((claim.name_any(), Seen::Bound, now))
                }
                Ok(Event::Delete(claim)) => tell.send((claim.name_any(), Seen::Gone, now)),
                Ok(Event::InitDone) => {
                    let _nobody_waits = begun.take().map(|begun| begun.send(()));
                    Ok(())
                }
                Ok(_) => Ok(()),
                Err(error) => {
                    eprintln!("  the watch of the claims begins again: {error}");
                    Ok(())
                }
            };
            if told.is_err() {
                return;
            }
        }
    });
    has_begun.await.context("watch the claims")?;
    Ok(seen)
}

fn is_bound(claim: &DynamicObject) -> bool {
    claim.data["status"]["addressRef"]["name"].as_str().is_some_and(|name| !name.is_empty())
}

fn last(times: &BTreeMap<String, Instant>) -> Result<Instant> {
    times.values().max().copied().context("no claim was measured")
}

/// The smallest value that at least this share of the values does not exceed.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or_default()
}
