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
use crate::openstack::Quota;

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
    /// Listed addresses and those with the pool's mark.
    pub total: u64,
    /// Bound to claims.
    pub allocated: u64,
    /// To be had without a POST.
    pub free: u64,
    /// Resting after a release.
    pub cooling: u64,
    /// Unusable, such as listed ones that the project does not have.
    pub failed: u64,
    /// `maxIPs`, when there is one.
    pub limit: Option<u64>,
    /// Whether claims can be served in principle.
    pub ready: bool,
    /// Claims without an address, by the reason of their condition.
    pub waiting: BTreeMap<&'static str, u64>,
    /// Since when the one that waits longest does.
    pub oldest_waiting: Option<Timestamp>,
    /// Floating IPs with the pool's mark that belong to no claim.
    pub orphans: u64,
}

/// Reasons that every pool shows, with 0 where nothing waits, so that an alert finds them from the start.
const USUAL_REASONS: [&str; 3] = [ALLOCATION_FAILED, POOL_EXHAUSTED, POOL_NOT_READY];

#[derive(Default)]
struct Known {
    figures: Option<PoolFigures>,
    quota: Option<Quota>,
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
        self.lock().entry(pool.clone()).or_default().figures = Some(figures);
    }

    pub(super) fn listed(&self, pool: &PoolLabels, at: Timestamp) {
        self.lock().entry(pool.clone()).or_default().listed = Some(at);
    }

    pub(super) fn quota(&self, pool: &PoolLabels, quota: Option<Quota>) {
        self.lock().entry(pool.clone()).or_default().quota = quota;
    }

    pub(super) fn gone(&self, pool: &PoolLabels) {
        self.lock().remove(pool);
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
        let figures = || known.iter().filter_map(|(pool, known)| Some((pool, known.figures.as_ref()?)));

        let mut out = gauge(&mut encoder, "pool_addresses", "Addresses of the pool by state.", None)?;
        for (pool, it) in figures() {
            for (state, count) in [
                ("total", it.total),
                ("allocated", it.allocated),
                ("free", it.free),
                ("cooling", it.cooling),
                ("failed", it.failed),
            ] {
                put(&mut out, &(pool.clone(), [("state", state)]), count)?;
            }
        }
        let mut out = gauge(&mut encoder, "pool_limit", "The pool's maxIPs; absent where there is none.", None)?;
        for (pool, limit) in figures().filter_map(|(pool, it)| Some((pool, it.limit?))) {
            put(&mut out, pool, limit)?;
        }
        let mut out = gauge(&mut encoder, "pool_ready", "Whether the pool's condition Ready is true.", None)?;
        for (pool, it) in figures() {
            put(&mut out, pool, u64::from(it.ready))?;
        }
        let mut out = gauge(&mut encoder, "claims_waiting", "Claims without an address, by reason.", None)?;
        for (pool, it) in figures() {
            let mut waiting: BTreeMap<_, _> = USUAL_REASONS.into_iter().map(|reason| (reason, 0)).collect();
            waiting.extend(&it.waiting);
            for (reason, count) in waiting {
                put(&mut out, &(pool.clone(), [("reason", reason)]), count)?;
            }
        }
        let help = "Since when the claim that waits longest does, in seconds since 1970; absent when none waits.";
        let mut out = gauge(&mut encoder, "oldest_waiting_claim_timestamp", help, Some(&Unit::Seconds))?;
        for (pool, at) in figures().filter_map(|(pool, it)| Some((pool, it.oldest_waiting?))) {
            put(&mut out, pool, seconds(at))?;
        }
        let help = "Floating IPs with the pool's mark that belong to no claim.";
        let mut out = gauge(&mut encoder, "orphaned_floating_ips", help, None)?;
        for (pool, it) in figures() {
            put(&mut out, pool, it.orphans)?;
        }
        let help = "The project's quota of floating IPs; no limit where it is unlimited.";
        let mut out = gauge(&mut encoder, "quota_floating_ips", help, None)?;
        for (pool, quota) in known.iter().filter_map(|(pool, known)| Some((pool, known.quota?))) {
            if let Some(limit) = quota.limit {
                put(&mut out, &(pool.clone(), [("kind", "limit")]), u64::from(limit))?;
            }
            put(&mut out, &(pool.clone(), [("kind", "used")]), u64::from(quota.used))?;
        }
        let help = "When the pool's floating IPs were last listed, in seconds since 1970.";
        let mut out = gauge(&mut encoder, "last_listing_timestamp", help, Some(&Unit::Seconds))?;
        for (pool, at) in known.iter().filter_map(|(pool, known)| Some((pool, known.listed?))) {
            put(&mut out, pool, seconds(at))?;
        }
        Ok(())
    }
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
