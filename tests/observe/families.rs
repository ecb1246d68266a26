//! The metrics that the program has, read from what it writes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use caip_openstack::clock::Clock;
use caip_openstack::floating_ip::ProjectId;
use caip_openstack::metrics::{Metrics, PoolCounts, PoolLabels, UsageDetails};
use caip_openstack::openstack::{CloudName, KeystoneId, ProjectScope, Quota};
use http::{Method, StatusCode};

/// A metric.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Family {
    /// `gauge`, `counter`, `histogram` or `info`.
    pub kind: String,
    /// The names of its labels.
    pub labels: BTreeSet<String>,
}

/// All metrics that the program can show, by the names that queries use; a histogram by its own.
pub fn families() -> BTreeMap<String, Family> {
    read(&full().to_text())
}

/// The names of all series: those of a histogram end in `_bucket`, `_count` and `_sum`.
pub fn series_names() -> BTreeSet<String> {
    let names = families().into_iter().flat_map(|(name, family)| match family.kind.as_str() {
        "histogram" => ["bucket", "count", "sum"].map(|part| format!("{name}_{part}")).to_vec(),
        _ => vec![name],
    });
    names.collect()
}

/// Metrics in which nothing is absent.
fn full() -> Metrics {
    let metrics = Metrics::new();
    let now = Clock::system().now();
    let pool = PoolLabels { namespace: "one".into(), name: "web".into() };
    let figures = PoolCounts {
        counted: Some(UsageDetails { capacity: Some(1), outside_spec: 0 }),
        limit: Some(1),
        credentials_valid: Some(true),
        addresses_maintained: Some(true),
        address_config_map_current: Some(true),
        oldest_waiting: Some(now),
        ..PoolCounts::default()
    };
    metrics.pool_observed(&pool, figures);
    metrics.pool_listed(&pool, now);
    metrics.pool_deleted(&pool, now);
    let auth_url = "http://keystone/v3/".parse().expect("a URL");
    let keystone = KeystoneId::new(&auth_url, true, &[]);
    let (endpoint, region) = ("http://neutron".into(), "R".into());
    let project = ProjectScope { keystone, endpoint, region, project: ProjectId::new("p") };
    metrics.pool_quota(&pool, &project, Some(Quota { limit: Some(1), used: 0 }));
    metrics.admit_cloud("one", &CloudName::new(&auth_url, None));
    metrics.api_request("api:6443", &Method::GET, Some(StatusCode::OK), Duration::from_secs(1));
    metrics
}

fn read(text: &str) -> BTreeMap<String, Family> {
    let mut families = BTreeMap::new();
    let mut current = (String::new(), Family::default());
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let ending = match kind {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            current = (format!("{name}{ending}"), Family { kind: kind.to_owned(), ..Family::default() });
        } else if !line.starts_with('#') {
            current.1.labels.extend(labels(line));
        }
        families.insert(current.0.clone(), current.1.clone());
    }
    families.retain(|name, _| !name.is_empty());
    families
}

/// The names of a sample's labels, but for the bucket of a histogram. No value of ours has a comma or a brace.
fn labels(sample: &str) -> impl Iterator<Item = String> {
    let inner = sample.split_once('{').and_then(|(_, rest)| Some(rest.split_once('}')?.0)).unwrap_or_default();
    let names = inner.split(',').filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
    names.filter(|name| name != "le")
}

#[test]
fn what_is_read_is_what_is_written() {
    let families = families();
    let of = |name: &str| families.get(name).unwrap_or_else(|| panic!("there is no {name} in {families:?}"));
    assert_eq!(of("caip_openstack_allocations_total").labels, ["cloud", "origin", "result"].map(str::to_owned).into());
    assert_eq!(of("caip_openstack_allocation_duration_seconds").kind, "histogram");
    assert!(
        of("caip_openstack_build_info").labels.contains("version"),
        "and revision, where the build was told the commit"
    );
    assert_eq!(of("process_cpu_seconds_total").kind, "counter");
    for (name, family) in &families {
        // Each of them is a set that is closed, or bounded by the pools that there are.
        let known = ["namespace", "pool", "state", "reason", "project", "neutron", "cloud", "origin", "result", "how"];
        let known =
            [&known[..], &["operation", "controller", "version", "revision", "name", "code", "host", "method", "verb"]]
                .concat();
        assert!(family.labels.iter().all(|label| known.contains(&label.as_str())), "{name}: {family:?}");
    }
}
