//! What is known of each pool, written out when somebody asks.
//!
//! Kept as figures, not as series: a pool's series appear with it, change together, and disappear with it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, LabelSetEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use crate::api::conditions::claim_reasons::{ALLOCATION_FAILED, POOL_EXHAUSTED, POOL_NOT_READY};
use crate::api::conditions::pool_reasons::PROBLEMS;
use crate::openstack::{Quota, Scope};

/// Which pool.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PoolLabels {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What a look at a pool found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolFigures {
    /// Listed addresses and those with the pool's mark; each once.
    pub size: u64,
    /// Bound to claims.
    pub allocated: u64,
    /// To be had without a POST.
    pub free: u64,
    /// Resting after a release.
    pub cooling: u64,
    /// Unusable, such as listed ones that the project does not have.
    pub failed: u64,
    /// What is counted only where Neutron could be looked at; what was counted before stands where it could not.
    pub counted: Option<Counted>,
    /// `maxIPs`, when there is one.
    pub limit: Option<u64>,
    /// Whether claims can be served in principle.
    pub ready: bool,
    /// Why they cannot: one of [`PROBLEMS`].
    pub problem: Option<&'static str>,
    /// Whether a claim that came now would wait for an address.
    pub exhausted: bool,
    /// Whether nothing is done for the pool.
    pub paused: bool,
    /// Whether OpenStack takes the credentials; where it cannot be asked, what it said before stands.
    pub credentials_valid: Option<bool>,
    /// Claims without an address, by the reason of their condition.
    pub waiting: BTreeMap<&'static str, u64>,
    /// Since when the one that waits longest does.
    pub oldest_waiting: Option<Timestamp>,
    /// Floating IPs with the pool's mark that belong to no claim.
    pub orphans: u64,
}

/// What a status does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counted {
    /// The most addresses that can be in use at once; none where only the quota and the network are the limit.
    pub capacity: Option<u64>,
    /// Bound to claims, although the pool as it is now would not give them.
    pub out_of_range: u64,
}

impl PoolFigures {
    fn after(mut self, before: Option<&Self>) -> Self {
        self.counted = self.counted.or_else(|| before?.counted);
        self.credentials_valid = self.credentials_valid.or_else(|| before?.credentials_valid);
        self
    }
}

/// Reasons that every pool shows, with 0 where nothing waits, so that an alert finds them from the start.
const USUAL_REASONS: [&str; 3] = [ALLOCATION_FAILED, POOL_EXHAUSTED, POOL_NOT_READY];

#[derive(Default)]
struct Known {
    figures: Option<PoolFigures>,
    quota: Option<(Scope, Quota)>,
    listed: Option<Timestamp>,
}

/// All pools that have been seen and are not gone.
#[derive(Clone, Default)]
pub(super) struct Pools {
    // A plain mutex: held for an update or for writing out, never across an await.
    known: Arc<Mutex<BTreeMap<PoolLabels, Known>>>,
}

impl Pools {
    pub(super) fn observed(&self, pool: &PoolLabels, figures: PoolFigures) {
        let mut all = self.lock();
        let known = all.entry(pool.clone()).or_default();
        known.figures = Some(figures.after(known.figures.as_ref()));
    }

    pub(super) fn listed(&self, pool: &PoolLabels, at: Timestamp) {
        self.lock().entry(pool.clone()).or_default().listed = Some(at);
    }

    pub(super) fn quota(&self, pool: &PoolLabels, scope: &Scope, quota: Option<Quota>) {
        self.lock().entry(pool.clone()).or_default().quota = quota.map(|quota| (scope.clone(), quota));
    }

    pub(super) fn retain(&self, is_living: impl Fn(&PoolLabels) -> bool) {
        self.lock().retain(|pool, _| is_living(pool));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PoolLabels, Known>> {
        self.known.lock().expect("no code panics while it holds the pools' figures")
    }
}

impl fmt::Debug for Pools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pools")
    }
}

impl EncodeLabelSet for PoolLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        [("namespace", self.namespace.as_str()), ("pool", self.name.as_str())].encode(encoder)
    }
}

impl Collector for Pools {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let known = self.lock();
        let figures: Vec<_> = known.iter().filter_map(|(pool, known)| Some((pool, known.figures.as_ref()?))).collect();
        addresses(&mut encoder, &figures)?;
        state(&mut encoder, &figures)?;
        claims(&mut encoder, &figures)?;
        let help = "When the pool's floating IPs were last listed, in seconds since 1970.";
        let mut out = gauge(&mut encoder, "last_listing_timestamp", help, Some(&Unit::Seconds))?;
        for (pool, at) in known.iter().filter_map(|(pool, known)| Some((pool, known.listed?))) {
            put(&mut out, pool, seconds(at))?;
        }
        quotas(&mut encoder, known.values().filter_map(|known| known.quota.as_ref()))
    }
}

type Figures<'a> = [(&'a PoolLabels, &'a PoolFigures)];

fn addresses(encoder: &mut DescriptorEncoder<'_>, pools: &Figures<'_>) -> fmt::Result {
    let help = "Addresses of the pool: those of its list, and those with its mark, each once.";
    let mut out = gauge(encoder, "pool_size", help, None)?;
    for (pool, it) in pools {
        put(&mut out, *pool, it.size)?;
    }
    let help = "Addresses by state, each in one; what reuse may take is free and not in the pool's size.";
    let mut out = gauge(encoder, "pool_addresses", help, None)?;
    for (pool, it) in pools {
        for (state, count) in
            [("allocated", it.allocated), ("free", it.free), ("cooling", it.cooling), ("failed", it.failed)]
        {
            put(&mut out, &((*pool).clone(), [("state", state)]), count)?;
        }
    }
    let counted = || pools.iter().filter_map(|(pool, it)| Some((*pool, it.counted?)));
    let help = "Allocated addresses that the pool, as its spec is now, would not give.";
    let mut out = gauge(encoder, "pool_addresses_out_of_range", help, None)?;
    for (pool, it) in counted() {
        put(&mut out, pool, it.out_of_range)?;
    }
    let help =
        "The most addresses that can be in use at once by list and maxIPs, without failed ones; absent without either.";
    let mut out = gauge(encoder, "pool_capacity", help, None)?;
    for (pool, capacity) in counted().filter_map(|(pool, it)| Some((pool, it.capacity?))) {
        put(&mut out, pool, capacity)?;
    }
    let mut out = gauge(encoder, "pool_limit", "The pool's maxIPs; absent where there is none.", None)?;
    for (pool, limit) in pools.iter().filter_map(|(pool, it)| Some((*pool, it.limit?))) {
        put(&mut out, pool, limit)?;
    }
    let help = "Floating IPs with the pool's mark that belong to no claim.";
    let mut out = gauge(encoder, "orphaned_floating_ips", help, None)?;
    for (pool, it) in pools {
        put(&mut out, *pool, it.orphans)?;
    }
    Ok(())
}

fn state(encoder: &mut DescriptorEncoder<'_>, pools: &Figures<'_>) -> fmt::Result {
    type Is = fn(&PoolFigures) -> Option<bool>;
    let conditions: [(&str, &str, Is); 4] = [
        ("pool_ready", "Whether the pool's condition Ready is true.", |it| Some(it.ready)),
        ("pool_exhausted", "Whether a claim that came now would wait for an address.", |it| Some(it.exhausted)),
        ("pool_paused", "Whether nothing is done for the pool.", |it| Some(it.paused)),
        (
            "pool_credentials_valid",
            "Whether OpenStack took the credentials when it was last asked; absent until it was.",
            |it| it.credentials_valid,
        ),
    ];
    for (name, help, is) in conditions {
        let mut out = gauge(encoder, name, help, None)?;
        for (pool, is) in pools.iter().filter_map(|(pool, it)| Some((*pool, is(it)?))) {
            put(&mut out, pool, u64::from(is))?;
        }
    }
    let help = "1 for the reason for which the pool is not ready, 0 for all others.";
    let mut out = gauge(encoder, "pool_problem", help, None)?;
    for (pool, it) in pools {
        for reason in PROBLEMS {
            put(&mut out, &((*pool).clone(), [("reason", reason)]), u64::from(it.problem == Some(reason)))?;
        }
    }
    Ok(())
}

fn claims(encoder: &mut DescriptorEncoder<'_>, pools: &Figures<'_>) -> fmt::Result {
    let mut out = gauge(encoder, "claims_waiting", "Claims without an address, by reason.", None)?;
    for (pool, it) in pools {
        let mut waiting: BTreeMap<_, _> = USUAL_REASONS.into_iter().map(|reason| (reason, 0)).collect();
        waiting.extend(&it.waiting);
        for (reason, count) in waiting {
            put(&mut out, &((*pool).clone(), [("reason", reason)]), count)?;
        }
    }
    let help = "Since when the claim that waits longest does, in seconds since 1970; absent when none waits.";
    let mut out = gauge(encoder, "oldest_waiting_claim_timestamp", help, Some(&Unit::Seconds))?;
    for (pool, at) in pools.iter().filter_map(|(pool, it)| Some((*pool, it.oldest_waiting?))) {
        put(&mut out, pool, seconds(at))?;
    }
    Ok(())
}

/// A project's once, however many pools are in it.
fn quotas<'a>(encoder: &mut DescriptorEncoder<'_>, all: impl Iterator<Item = &'a (Scope, Quota)>) -> fmt::Result {
    let help = "The project's quota of floating IPs, and how many it has; no limit where it is unlimited.";
    let mut out = gauge(encoder, "quota_floating_ips", help, None)?;
    let by_project: BTreeMap<_, _> = all.map(|(scope, quota)| (scope, quota)).collect();
    for (scope, quota) in by_project {
        let project = [("project", scope.project.to_string()), ("neutron", scope.endpoint.clone())];
        if let Some(limit) = quota.limit {
            put(&mut out, &(project.clone(), [("kind", "limit")]), u64::from(limit))?;
        }
        put(&mut out, &(project, [("kind", "used")]), u64::from(quota.used))?;
    }
    Ok(())
}

fn gauge<'s>(
    encoder: &'s mut DescriptorEncoder<'_>,
    name: &'s str,
    help: &str,
    unit: Option<&'s Unit>,
) -> Result<MetricEncoder<'s>, fmt::Error> {
    encoder.encode_descriptor(name, help, unit, MetricType::Gauge)
}

fn put<N>(out: &mut MetricEncoder<'_>, labels: &impl EncodeLabelSet, value: N) -> fmt::Result
where
    ConstGauge<N>: EncodeMetric,
{
    ConstGauge::new(value).encode(out.encode_family(labels)?)
}

fn seconds(at: Timestamp) -> f64 {
    at.as_duration().as_secs_f64()
}
