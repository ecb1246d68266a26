//! One measurement: a kind of address and a number of claims, bound and released at once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use kube::ResourceExt;
use kube::core::DynamicObject;
use kube::runtime::watcher::Event;
use reqwest::Method;
use serde::Serialize;
use serde_json::Value;
use tokio::time::timeout;

use crate::access_log::{AccessLog, Calls, NOT_COUNTED, count_writes};
use crate::claim_events::{ClaimEvents, bound_claim, deleted_claim, watch_claims};
use crate::provider::{Process, Provider};
use crate::recovery::{self, Recovery};
use crate::settled::{self, Idle, Settled};
use crate::support::{self, FloatingIp, Manifest, Namespace, pool};
use crate::usage;

/// How many requests of the benchmark the API server gets at once.
const KUBERNETES_REQUESTS: usize = 16;
/// The same for Neutron, which gains nothing from more.
const NEUTRON_REQUESTS: usize = 8;
/// When something has gone wrong: no measurement takes this long.
const PATIENCE: Duration = Duration::from_secs(600);
/// A phase has ended when Neutron has not been written to for this long.
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
    Spare,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Predefined => "predefined",
            Self::Reused => "reused",
            Self::Spare => "spare",
        }
    }
}

/// What to measure.
pub struct Round<'a> {
    pub provider: Provider,
    pub ns: &'a Namespace,
    pub log: &'a AccessLog,
    pub network: &'a str,
    pub kind: Kind,
    pub claims: usize,
}

#[derive(Serialize)]
pub struct Measured {
    pub provider: Provider,
    pub kind: &'static str,
    pub claims: usize,
    pub bind: Bind,
    pub release: Release,
    pub settled: Option<Settled>,
    pub recovery: Option<Recovery>,
    pub idle: Option<Idle>,
}

/// What to measure besides binding and releasing.
#[derive(Clone, Copy, Default)]
pub struct Extras {
    /// A minute with bound claims.
    pub settles: bool,
    /// The recovery from a crash.
    pub recovers: bool,
    /// Half a minute in which the pool has free addresses and no claims.
    pub idles: bool,
}

#[derive(Serialize)]
pub struct Bind {
    /// From before the first creation until the last claim was bound.
    pub bound_s: f64,
    /// For one claim, from before its creation until it was bound.
    pub p50_s: f64,
    pub p99_s: f64,
    pub calls: Calls,
    pub cpu_ms_per_claim: f64,
    pub rss_mib: f64,
}

#[derive(Serialize)]
pub struct Release {
    /// From before the first deletion until the last claim was gone.
    pub claims_gone_s: f64,
    /// The same until the last write in Neutron.
    pub given_back_s: f64,
    pub calls: Calls,
    pub cpu_ms_per_claim: f64,
    pub rss_mib: f64,
    pub rss_peak_mib: f64,
}

impl Round<'_> {
    pub async fn measure(&self, extras: Extras) -> Measured {
        eprintln!("{} claims, {}, {}", self.claims, self.kind.name(), self.provider.name());
        self.ns.create_secret_for("demo").await;
        let made = self.create_floating_ips().await;
        let start = || self.provider.start(self.ns);
        let mut process = start();
        let existing = self.list_floating_ips().await.len();
        self.ns.create(self.pool(&made)).await;
        let pool_id = self.await_ready().await;
        let held = Held { existing, pool_id, keeps_spares: self.kind == Kind::Spare };
        let mut claims = watch_claims(self.ns).await;
        let bind = self.bind(&mut claims, &process).await;
        eprintln!("  bound in {:.2} s", bind.bound_s);
        let settled = match extras.settles {
            true => Some(settled::measure(self.ns, self.log, &process).await),
            false => None,
        };
        let mut recovery = None;
        if extras.recovers {
            let start = || {
                process = start();
                process.clone()
            };
            recovery = Some(recovery::measure(self.ns, self.log, self.provider.claim(self.claims), start).await);
        }
        let release = self.release(&mut claims, &process, &held).await;
        let pool = self.provider.pool_kind();
        let idle = match extras.idles {
            true => Some(settled::watch_idle(self.ns, pool, self.log, &process).await),
            false => None,
        };
        self.ns.delete(pool, "public").await;
        self.ns.await_gone(pool, "public", PATIENCE).await;
        let cloud = self.ns.cloud().await;
        stream::iter(&made).map(|made| cloud.delete(&made.id)).buffer_unordered(NEUTRON_REQUESTS).count().await;
        let (provider, kind, claims) = (self.provider, self.kind.name(), self.claims);
        Measured { provider, kind, claims, bind, release, settled, recovery, idle }
    }

    /// The floating IPs that must be there beforehand.
    async fn create_floating_ips(&self) -> Vec<FloatingIp> {
        let description = match self.kind {
            Kind::New | Kind::Spare => return Vec::new(),
            Kind::Predefined => "of the benchmark",
            // One with a description is not unmarked.
            Kind::Reused => "",
        };
        let cloud = self.ns.cloud().await;
        let creations = (0..self.claims).map(|_| cloud.create(self.network, description));
        stream::iter(creations).buffer_unordered(NEUTRON_REQUESTS).collect().await
    }

    fn pool(&self, made: &[FloatingIp]) -> Manifest {
        let listed = made.iter().map(|made| made.address.as_str());
        if self.provider == Provider::InTree {
            assert!(matches!(self.kind, Kind::New | Kind::Predefined), "CAPO's pool has no such addresses");
            return Provider::in_tree_pool(self.network, listed.collect());
        }
        let pool = pool("public").served_in(&self.ns.name);
        let claims = u32::try_from(self.claims).expect("a pool has as many addresses");
        let pool = match self.kind {
            Kind::New => pool.network(self.network),
            Kind::Predefined => pool.list(listed),
            Kind::Reused => pool.network(self.network).reuse_unmarked(),
            // The limit keeps the pool from creating the next ones while these are given.
            Kind::Spare => pool.network(self.network).min_free(claims).max_ips(claims),
        };
        pool.into()
    }

    /// Waits until the pool can serve all claims; returns its id in Neutron's marks, which CAPO's pool does not have.
    async fn await_ready(&self) -> Option<String> {
        if self.provider == Provider::InTree {
            let has_finalizer = |pool: Option<&DynamicObject>| pool.is_some_and(|pool| !pool.finalizers().is_empty());
            self.ns.await_object(support::Kind::InTreePool, "public", PATIENCE, "seen by CAPO", has_finalizer).await;
            return None;
        }
        let free = if self.kind == Kind::Spare { self.claims as u64 } else { 0 };
        let is_ready = |pool: Option<&DynamicObject>| {
            pool.is_some_and(|pool| {
                support::condition_of(pool, "Ready").is_some_and(|ready| ready["status"] == "True")
                    && pool.data["status"]["addresses"]["free"].as_u64().is_some_and(|count| count >= free)
            })
        };
        let pool = self.ns.await_object(support::Kind::Pool, "public", PATIENCE, "ready", is_ready).await;
        let pool = pool.expect("only a pool that is there is ready");
        Some(pool.data["status"]["poolID"].as_str().expect("a pool that serves has an id").to_owned())
    }

    async fn bind(&self, claims: &mut ClaimEvents, process: &Process) -> Bind {
        let (_, begin) = self.log.await_quiet(QUIET).await;
        let (cpu, begun) = (usage::cpu_time(process.pid()), Instant::now());
        let creations = (0..self.claims).map(async |number| {
            let (claim, begun) = (self.provider.claim(number), Instant::now());
            let name = claim.name();
            self.ns.create(claim).await;
            (name, begun)
        });
        let creations = stream::iter(creations).buffer_unordered(KUBERNETES_REQUESTS).collect::<Vec<_>>();
        let (created, bound) = tokio::join!(creations, self.times_of(claims, bound_claim, process));
        let mut times: Vec<f64> = created.iter().map(|(name, begun)| (bound[name] - *begun).as_secs_f64()).collect();
        times.sort_by(f64::total_cmp);
        let (_, end) = self.log.await_quiet(QUIET).await;
        Bind {
            bound_s: seconds_until_last(begun, &bound),
            p50_s: percentile(&times, 0.50),
            p99_s: percentile(&times, 0.99),
            calls: self.log.calls(begin, end),
            cpu_ms_per_claim: self.cpu_ms_per_claim(cpu, process),
            rss_mib: usage::memory(process.pid()).now,
        }
    }

    async fn release(&self, claims: &mut ClaimEvents, process: &Process, held: &Held) -> Release {
        let (_, begin) = self.log.await_quiet(QUIET).await;
        let (cpu, begun) = (usage::cpu_time(process.pid()), Instant::now());
        let deletions = (0..self.claims).map(async |number| {
            self.ns.delete(support::Kind::Claim, &self.provider.claim(number).name()).await;
        });
        let deletions = stream::iter(deletions).buffer_unordered(KUBERNETES_REQUESTS).count();
        let (_, gone) = tokio::join!(deletions, self.times_of(claims, deleted_claim, process));
        let (last_write, end) = self.await_given_back(held).await;
        let memory = usage::memory(process.pid());
        Release {
            claims_gone_s: seconds_until_last(begun, &gone),
            given_back_s: last_write.saturating_duration_since(begun).as_secs_f64(),
            calls: self.log.calls(begin, end),
            cpu_ms_per_claim: self.cpu_ms_per_claim(cpu, process),
            rss_mib: memory.now,
            rss_peak_mib: memory.peak,
        }
    }

    fn cpu_ms_per_claim(&self, before: Duration, process: &Process) -> f64 {
        (usage::cpu_time(process.pid()) - before).as_secs_f64() * 1000.0 / self.claims as f64
    }

    /// When each of the claims first had an event that `name_in` recognizes.
    async fn times_of(
        &self,
        claims: &mut ClaimEvents,
        name_in: impl Fn(Event<DynamicObject>) -> Option<String>,
        process: &Process,
    ) -> BTreeMap<String, Instant> {
        let begun = Instant::now();
        let mut times = BTreeMap::new();
        while times.len() < self.claims {
            match timeout(Duration::from_secs(5), claims.next()).await {
                Ok(event) => {
                    let event = event.expect("a watch does not end");
                    let name = event.ok().and_then(&name_in);
                    name.map(|name| times.entry(name).or_insert_with(Instant::now));
                }
                Err(_) => process.assert_running(),
            }
            assert!(begun.elapsed() < PATIENCE, "{} of {} claims after {PATIENCE:?}", times.len(), self.claims);
        }
        times
    }

    /// When Neutron was last written to, once every address is given back; and the length of its log then.
    async fn await_given_back(&self, held: &Held) -> (Instant, u64) {
        let begun = Instant::now();
        loop {
            let (last_write, end) = self.log.await_quiet(QUIET).await;
            let left = held.count(&self.list_floating_ips().await);
            if left == 0 {
                // A slow write is logged when it ends: it may have ended after the quiet, before the count.
                let (later_write, later_end) = self.log.await_quiet(QUIET).await;
                let has_later = count_writes(&self.log.calls(end, later_end)) > 0;
                return (if has_later { later_write } else { last_write }, later_end);
            }
            assert!(begun.elapsed() < PATIENCE, "all claims are gone, but the pool still has {left} floating IPs");
        }
    }

    async fn list_floating_ips(&self) -> Vec<Value> {
        let cloud = self.ns.cloud().await;
        let (status, answer) = cloud.call(Method::GET, &format!("floatingips?{NOT_COUNTED}"), None).await;
        assert!(status.is_success(), "GET floatingips: {status} {answer}");
        answer["floatingips"].as_array().expect("Neutron lists floating IPs").clone()
    }
}

/// By what the floating IPs that a pool has, or is giving back, are recognized.
struct Held {
    /// How many floating IPs there were before.
    existing: usize,
    /// The pool's id in our marks. CAPO's pool marks no predefined ones, and tags those that it created.
    pool_id: Option<String>,
    /// Whether those that are given back stay, without a claim in their mark and without a tag.
    keeps_spares: bool,
}

impl Held {
    fn count(&self, all: &[Value]) -> usize {
        let Some(pool_id) = &self.pool_id else { return all.len() - self.existing };
        let names_pool = |found: &Value, field: &str| found[field].to_string().contains(pool_id);
        let has_claim = |found: &Value| found["description"].to_string().contains(" claim=");
        let is_held = |found: &&Value| {
            let is_described = names_pool(found, "description") && (has_claim(found) || !self.keeps_spares);
            is_described || names_pool(found, "tags")
        };
        all.iter().filter(is_held).count()
    }
}

fn seconds_until_last(begun: Instant, times: &BTreeMap<String, Instant>) -> f64 {
    (*times.values().max().expect("there are claims") - begun).as_secs_f64()
}

pub fn median(mut values: Vec<f64>) -> f64 {
    assert!(!values.is_empty(), "there is a figure");
    values.sort_by(f64::total_cmp);
    percentile(&values, 0.5)
}

/// The smallest value that at least this share of the values does not exceed.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or_default()
}
