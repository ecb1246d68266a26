//! The metrics of pools, encoded on each scrape.
//!
//! Stored as one record per pool, not as series: a pool's series appear, change and disappear together.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, LabelSetEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::labels::foreign_label;
use crate::allocation::claim::LostAddress;
use crate::api::conditions::claim_reasons::{ALLOCATION_FAILED, POOL_EXHAUSTED, POOL_NOT_READY};
use crate::api::conditions::pool_reasons::PROBLEMS;
use crate::openstack::{ProjectScope, Quota};

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PoolLabels {
    pub namespace: String,
    pub name: String,
}

/// The state of a pool after a reconcile.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolCounts {
    /// Addresses that are listed or have the pool's mark; each counts once.
    pub size: u64,
    /// Bound to claims.
    pub allocated: u64,
    /// Available without creating a floating IP.
    pub free: u64,
    /// Released, and not yet available again or deleted.
    pub cooling: u64,
    /// Unusable, such as a listed address that the project does not have.
    pub failed: u64,
    /// `None` if Neutron could not be read: the previous value stays.
    pub counted: Option<UsageDetails>,
    /// `maxIPs`.
    pub limit: Option<u64>,
    /// The condition `Ready`.
    pub ready: bool,
    /// Why the pool is not ready: one of [`PROBLEMS`].
    pub problem: Option<&'static str>,
    /// Whether a new claim would wait for an address.
    pub exhausted: bool,
    pub paused: bool,
    /// Whether OpenStack accepts the credentials. `None` if it did not answer: the previous value stays.
    pub credentials_valid: Option<bool>,
    /// Whether what the pool does beside serving claims works. `None` until it serves.
    pub addresses_maintained: Option<bool>,
    /// Whether the ConfigMap with the addresses is current. `None` if the pool asks for none.
    pub address_config_map_current: Option<bool>,
    /// Claims without an address, by the reason of their condition.
    pub waiting: BTreeMap<&'static str, u64>,
    /// When the longest waiting claim started to wait.
    pub oldest_waiting: Option<Timestamp>,
    /// Claims whose address is lost, by [`LostAddress::reason`].
    pub lost: BTreeMap<&'static str, u64>,
    /// Claims that are being deleted and could not be released.
    pub failing_releases: u64,
    /// Floating IPs marked for a claim that does not exist or has another address.
    pub orphans: u64,
}

/// Figures that are not in the pool's status.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UsageDetails {
    /// The maximum number of addresses in use; `None` if only the quota and the network limit it.
    pub capacity: Option<u64>,
    /// Bound to claims, although the current spec would not provide them.
    pub outside_spec: u64,
}

impl PoolCounts {
    fn with_previous(mut self, previous: Option<&Self>) -> Self {
        self.counted = self.counted.or_else(|| previous?.counted);
        self.credentials_valid = self.credentials_valid.or_else(|| previous?.credentials_valid);
        self
    }
}

/// Reasons that every pool shows, with 0 if no claim waits, so that alerts find the series from the start.
const USUAL_REASONS: [&str; 3] = [ALLOCATION_FAILED, POOL_EXHAUSTED, POOL_NOT_READY];

#[derive(Default, Debug)]
struct PoolRecord {
    figures: Option<PoolCounts>,
    quota: Option<(ProjectScope, Quota)>,
    listed: Option<Timestamp>,
    /// When its deletion was requested.
    deleted: Option<Timestamp>,
}

#[derive(Clone, Default, Debug)]
pub(super) struct PoolCollector {
    // Not an async mutex: it is never held across an await.
    pools: Arc<Mutex<BTreeMap<PoolLabels, PoolRecord>>>,
}

impl PoolCollector {
    pub(super) fn observed(&self, pool: &PoolLabels, figures: PoolCounts) {
        let mut pools = self.pools.lock();
        let record = pools.entry(pool.clone()).or_default();
        record.figures = Some(figures.with_previous(record.figures.as_ref()));
    }

    pub(super) fn listed(&self, pool: &PoolLabels, at: Timestamp) {
        self.pools.lock().entry(pool.clone()).or_default().listed = Some(at);
    }

    pub(super) fn deleted(&self, pool: &PoolLabels, at: Timestamp) {
        self.pools.lock().entry(pool.clone()).or_default().deleted = Some(at);
    }

    pub(super) fn quota(&self, pool: &PoolLabels, scope: &ProjectScope, quota: Option<Quota>) {
        self.pools.lock().entry(pool.clone()).or_default().quota = quota.map(|quota| (scope.clone(), quota));
    }

    pub(super) fn retain(&self, exists: impl Fn(&PoolLabels) -> bool) {
        self.pools.lock().retain(|pool, _| exists(pool));
    }
}

impl EncodeLabelSet for PoolLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        [("namespace", self.namespace.as_str()), ("pool", self.name.as_str())].encode(encoder)
    }
}

impl Collector for PoolCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let pools = self.pools.lock();
        let figures: Vec<_> =
            pools.iter().filter_map(|(pool, record)| Some((pool, record.figures.as_ref()?))).collect();
        encode_addresses(&mut encoder, &figures)?;
        encode_state(&mut encoder, &figures)?;
        encode_claims(&mut encoder, &figures)?;
        let help = "When the pool's floating IPs were last listed, as a Unix timestamp.";
        let mut out = gauge(&mut encoder, "last_listing_timestamp", help, Some(&Unit::Seconds))?;
        for (pool, at) in pools.iter().filter_map(|(pool, record)| Some((pool, record.listed?))) {
            put(&mut out, pool, seconds(at))?;
        }
        let help =
            "When the deletion of the pool was requested, as a Unix timestamp; absent if it is not being deleted.";
        let mut out = gauge(&mut encoder, "pool_deletion_timestamp", help, Some(&Unit::Seconds))?;
        for (pool, at) in pools.iter().filter_map(|(pool, record)| Some((pool, record.deleted?))) {
            put(&mut out, pool, seconds(at))?;
        }
        encode_quotas(&mut encoder, pools.values().filter_map(|record| record.quota.as_ref()))
    }
}

type Figures<'a> = [(&'a PoolLabels, &'a PoolCounts)];

fn encode_addresses(encoder: &mut DescriptorEncoder<'_>, pools: &Figures<'_>) -> fmt::Result {
    let help = "Addresses of the pool: listed ones and those with its mark, each counted once.";
    let mut out = gauge(encoder, "pool_size", help, None)?;
    for (pool, figures) in pools {
        put(&mut out, *pool, figures.size)?;
    }
    let help = "Addresses by state. Floating IPs that may be reused are free and not in the pool's size.";
    let mut out = gauge(encoder, "pool_addresses", help, None)?;
    for (pool, figures) in pools {
        for (state, count) in [
            ("allocated", figures.allocated),
            ("free", figures.free),
            ("cooling", figures.cooling),
            ("failed", figures.failed),
        ] {
            put(&mut out, &((*pool).clone(), [("state", state)]), count)?;
        }
    }
    let counted = || pools.iter().filter_map(|(pool, figures)| Some((*pool, figures.counted?)));
    let help = "Allocated addresses that the pool's current spec would not provide.";
    let mut out = gauge(encoder, "pool_addresses_out_of_range", help, None)?;
    for (pool, figures) in counted() {
        put(&mut out, pool, figures.outside_spec)?;
    }
    let help = "Maximum number of addresses in use by list and maxIPs, without failed ones; absent without either.";
    let mut out = gauge(encoder, "pool_capacity", help, None)?;
    for (pool, capacity) in counted().filter_map(|(pool, figures)| Some((pool, figures.capacity?))) {
        put(&mut out, pool, capacity)?;
    }
    let mut out = gauge(encoder, "pool_limit", "The pool's maxIPs; absent if not set.", None)?;
    for (pool, limit) in pools.iter().filter_map(|(pool, figures)| Some((*pool, figures.limit?))) {
        put(&mut out, pool, limit)?;
    }
    let help = "Floating IPs marked for a claim that does not exist or has another address.";
    let mut out = gauge(encoder, "orphaned_floating_ips", help, None)?;
    for (pool, figures) in pools {
        put(&mut out, *pool, figures.orphans)?;
    }
    Ok(())
}

fn encode_state(encoder: &mut DescriptorEncoder<'_>, pools: &Figures<'_>) -> fmt::Result {
    type Predicate = fn(&PoolCounts) -> Option<bool>;
    let conditions: [(&str, &str, Predicate); 6] = [
        ("pool_ready", "Whether the pool's condition Ready is True.", |figures| Some(figures.ready)),
        ("pool_exhausted", "Whether a new claim would wait for an address.", |figures| Some(figures.exhausted)),
        ("pool_paused", "Whether reconciliation of the pool is paused.", |figures| Some(figures.paused)),
        (
            "pool_credentials_valid",
            "Whether OpenStack last accepted the credentials; absent until it has answered.",
            |figures| figures.credentials_valid,
        ),
        (
            "pool_addresses_maintained",
            "Whether released addresses, spares, spec.tags and spec.reuse are as the spec says; absent until the pool serves.",
            |figures| figures.addresses_maintained,
        ),
        (
            "pool_address_config_map_current",
            "Whether the ConfigMap of spec.addressConfigMap has the pool's addresses; absent without one.",
            |figures| figures.address_config_map_current,
        ),
    ];
    for (name, help, predicate) in conditions {
        let mut out = gauge(encoder, name, help, None)?;
        for (pool, is_true) in pools.iter().filter_map(|(pool, figures)| Some((*pool, predicate(figures)?))) {
            put(&mut out, pool, u64::from(is_true))?;
        }
    }
    let help = "1 for the reason why the pool is not ready, 0 for all others.";
    let mut out = gauge(encoder, "pool_problem", help, None)?;
    for (pool, figures) in pools {
        for reason in PROBLEMS {
            put(&mut out, &((*pool).clone(), [("reason", reason)]), u64::from(figures.problem == Some(reason)))?;
        }
    }
    Ok(())
}

fn encode_claims(encoder: &mut DescriptorEncoder<'_>, pools: &Figures<'_>) -> fmt::Result {
    let mut out = gauge(encoder, "claims_waiting", "Claims without an address, by reason.", None)?;
    for (pool, figures) in pools {
        let mut waiting: BTreeMap<_, _> = USUAL_REASONS.into_iter().map(|reason| (reason, 0)).collect();
        waiting.extend(&figures.waiting);
        for (reason, count) in waiting {
            put(&mut out, &((*pool).clone(), [("reason", reason)]), count)?;
        }
    }
    let help = "Claims that had an address whose floating IP is gone, or belongs to another owner or claim, by reason.";
    let mut out = gauge(encoder, "lost_addresses", help, None)?;
    for (pool, figures) in pools {
        for reason in LostAddress::REASONS {
            let count = figures.lost.get(reason).copied().unwrap_or_default();
            put(&mut out, &((*pool).clone(), [("reason", reason)]), count)?;
        }
    }
    let help = "Claims that are being deleted and whose address could not be released.";
    let mut out = gauge(encoder, "claims_release_failing", help, None)?;
    for (pool, figures) in pools {
        put(&mut out, *pool, figures.failing_releases)?;
    }
    let help = "When the longest waiting claim started to wait, as a Unix timestamp; absent if none waits.";
    let mut out = gauge(encoder, "oldest_waiting_claim_timestamp", help, Some(&Unit::Seconds))?;
    for (pool, at) in pools.iter().filter_map(|(pool, figures)| Some((*pool, figures.oldest_waiting?))) {
        put(&mut out, pool, seconds(at))?;
    }
    Ok(())
}

/// Once per project, even if several pools share a project.
fn encode_quotas<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    all: impl Iterator<Item = &'a (ProjectScope, Quota)>,
) -> fmt::Result {
    // By the label values: two series with the same labels would make the whole scrape fail.
    let by_project: BTreeMap<_, _> = all
        .map(|(scope, quota)| ((foreign_label(scope.project.as_str()), foreign_label(&scope.endpoint)), quota))
        .collect();
    let labels = |(project, endpoint): &(String, String)| [("project", project.clone()), ("neutron", endpoint.clone())];
    let help = "The project's floating IPs that count against its quota, no matter who created them.";
    let mut out = gauge(encoder, "quota_used_floating_ips", help, None)?;
    for (project, quota) in &by_project {
        put(&mut out, &labels(project), u64::from(quota.used))?;
    }
    let help = "The project's quota of floating IPs; absent if it is unlimited.";
    let mut out = gauge(encoder, "quota_limit_floating_ips", help, None)?;
    for (project, limit) in by_project.iter().filter_map(|(project, quota)| Some((project, quota.limit?))) {
        put(&mut out, &labels(project), u64::from(limit))?;
    }
    Ok(())
}

pub(super) fn gauge<'s>(
    encoder: &'s mut DescriptorEncoder<'_>,
    name: &'s str,
    help: &str,
    unit: Option<&'s Unit>,
) -> Result<MetricEncoder<'s>, fmt::Error> {
    encoder.encode_descriptor(name, help, unit, MetricType::Gauge)
}

pub(super) fn put<N>(out: &mut MetricEncoder<'_>, labels: &impl EncodeLabelSet, value: N) -> fmt::Result
where
    ConstGauge<N>: EncodeMetric,
{
    ConstGauge::new(value).encode(out.encode_family(labels)?)
}

fn seconds(at: Timestamp) -> f64 {
    at.as_duration().as_secs_f64()
}
