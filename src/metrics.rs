//! Prometheus metrics.
//!
//! Our own have the prefix `caip_openstack_`; others have the names by which operators know them. A counter whose label
//! values are known in advance starts at 0, because `rate()` does not see the first increment of a series that appears with
//! 1. A pool's series exist as long as the pool, and a cloud's from when a pool first uses it.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::allocation::origin::Origin;
use crate::openstack::{CloudName, Error, ProjectScope, Quota};
use crate::runtime::flags::COMMIT;

mod clouds;
mod controllers;
mod labels;
mod metered;
mod pools;
mod process;

pub use clouds::CloudLabel;
use clouds::CloudLabels;
pub(crate) use controllers::{ControllerMetrics, RunningReconcile};
pub use labels::OperationResult;
use labels::{
    AllocationLabels, ApiDurationLabels, ApiRequestLabels, BuildLabels, CloudLabelSet, ControllerLabels,
    OperationLabels, OriginLabel, ReleasedLabels, RequestLabels, ResultLabels, TokenLabels,
};
pub(crate) use labels::{ReconcileResult, ReleasedAs};
pub use metered::MeteredClouds;
pub use pools::{PoolCounts, PoolLabels, UsageDetails};

/// The methods of the traits in [`crate::openstack`].
const OPERATIONS: [&str; 12] = [
    "connect",
    "list_floating_ips",
    "get_floating_ip",
    "create_floating_ip",
    "describe_floating_ip",
    "delete_floating_ip",
    "add_tag",
    "remove_tag",
    "find_networks",
    "find_subnets",
    "has_tags",
    "quota",
];

const CONTROLLERS: [&str; 3] = ["pool", "claim", "sweeper"];

type HistogramFamily<L> = Family<L, Histogram, fn() -> Histogram>;

/// All metrics. Cheap to clone; clones share the values.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    pools: pools::PoolCollector,
    clouds: CloudLabels,
    allocations: Family<AllocationLabels, Counter>,
    allocation_duration: HistogramFamily<CloudLabelSet>,
    releases: Family<ResultLabels, Counter>,
    released_floating_ips: Family<ReleasedLabels, Counter>,
    requests: Family<RequestLabels, Counter>,
    request_duration: HistogramFamily<OperationLabels>,
    token_refreshes: Family<TokenLabels, Counter>,
    reconcile_errors: Family<ControllerLabels, Counter>,
    reconcile_panics: Family<ControllerLabels, Counter>,
    controllers: controllers::Controllers,
    api_requests: Family<ApiRequestLabels, Counter>,
    api_request_duration: HistogramFamily<ApiDurationLabels>,
    leader: Gauge,
}

impl Metrics {
    pub fn new() -> Self {
        let mut metrics = Self {
            registry: Arc::default(),
            pools: pools::PoolCollector::default(),
            clouds: CloudLabels::default(),
            allocations: Family::default(),
            // From an address that exists already to a claim that waits for an hour.
            allocation_duration: Family::new_with_constructor(|| {
                Histogram::new([0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0])
            }),
            releases: Family::default(),
            released_floating_ips: Family::default(),
            requests: Family::default(),
            // Neutron answers in 20 to 500 ms; a request times out after 30 s, and waiting and retries come on top.
            request_duration: Family::new_with_constructor(|| {
                Histogram::new([0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0])
            }),
            token_refreshes: Family::default(),
            reconcile_errors: Family::default(),
            reconcile_panics: Family::default(),
            controllers: controllers::Controllers::new(),
            api_requests: Family::default(),
            // As the Kubernetes components have them.
            api_request_duration: Family::new_with_constructor(|| {
                Histogram::new([0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0])
            }),
            leader: Gauge::default(),
        };
        metrics.start_at_zero();
        metrics.registry = Arc::new(metrics.register());
        metrics
    }

    fn start_at_zero(&self) {
        for result in OperationResult::ALL {
            drop(self.releases.get_or_create(&ResultLabels { result }));
        }
        for how in ReleasedAs::ALL {
            drop(self.released_floating_ips.get_or_create(&ReleasedLabels { how }));
        }
        for controller in CONTROLLERS {
            drop(self.reconcile_errors.get_or_create(&ControllerLabels { controller }));
            drop(self.reconcile_panics.get_or_create(&ControllerLabels { controller }));
            drop(self.controllers.of(controller));
        }
    }

    /// Pools of the namespace use this cloud. Must come before anything else about the cloud, whose series start at 0 here.
    pub fn admit_cloud(&self, namespace: &str, cloud: &CloudName) -> CloudLabel {
        let (cloud, is_new) = self.clouds.admit(namespace, cloud);
        if is_new {
            self.start_cloud_at_zero(&cloud);
        }
        cloud
    }

    fn start_cloud_at_zero(&self, cloud: &CloudLabel) {
        for result in OperationResult::ALL {
            for origin in Origin::ALL.map(OriginLabel) {
                drop(self.allocations.get_or_create(&AllocationLabels { cloud: cloud.clone(), origin, result }));
            }
            drop(self.token_refreshes.get_or_create(&TokenLabels { cloud: cloud.clone(), result }));
        }
        drop(self.allocation_duration.get_or_create(&CloudLabelSet { cloud: cloud.clone() }));
        for operation in OPERATIONS {
            // Failures appear when they first occur: most operations cannot fail in most ways.
            drop(self.requests.get_or_create(&RequestLabels { cloud: cloud.clone(), operation, result: "ok" }));
            drop(self.request_duration.get_or_create(&OperationLabels { cloud: cloud.clone(), operation }));
        }
    }

    fn register(&self) -> Registry {
        let mut all = Registry::default();
        all.register_collector(Box::new(process::Process::default()));
        self.controllers.register(&mut all);
        self.register_api_requests(&mut all);
        let ours = all.sub_registry_with_prefix("caip_openstack");
        let build = BuildLabels { version: env!("CARGO_PKG_VERSION"), revision: COMMIT };
        ours.register("build", "The running version.", Info::new(build));
        ours.register("leader", "Whether this process is the leader.", self.leader.clone());
        let help = "Allocations of addresses to claims, successful or failed, by the origin of the address.";
        ours.register("allocations", help, self.allocations.clone());
        let help = "Time from the claim's creation, or from its Ready condition becoming False, until it is bound.";
        ours.register_with_unit("allocation_duration", help, Unit::Seconds, self.allocation_duration.clone());
        ours.register("releases", "Releases of claims' addresses, successful or failed.", self.releases.clone());
        let help = "Released floating IPs by what happened to them.";
        ours.register("released_floating_ips", help, self.released_floating_ips.clone());
        let help = "Calls to OpenStack by result.";
        ours.register("requests", help, self.requests.clone());
        let help = "Duration of calls to OpenStack, including waiting and retries.";
        ours.register_with_unit("request_duration", help, Unit::Seconds, self.request_duration.clone());
        ours.register(
            "token_refreshes",
            "Requests for a Keystone token, successful or failed.",
            self.token_refreshes.clone(),
        );
        ours.register("reconcile_errors", "Failed reconciliations.", self.reconcile_errors.clone());
        let help = "Reconciliations that panicked: each is a bug.";
        ours.register("reconcile_panics", help, self.reconcile_panics.clone());
        ours.register_collector(Box::new(self.pools.clone()));
        all
    }

    /// The names and help texts are client-go's.
    fn register_api_requests(&self, all: &mut Registry) {
        let requests = all.sub_registry_with_prefix("rest_client");
        let help = "Number of HTTP requests, partitioned by status code, method, and host.";
        requests.register("requests", help, self.api_requests.clone());
        let help = "Request latency in seconds. Broken down by verb, and host.";
        requests.register_with_unit("request_duration", help, Unit::Seconds, self.api_request_duration.clone());
    }

    pub fn pool_observed(&self, pool: &PoolLabels, figures: PoolCounts) {
        self.pools.observed(pool, figures);
    }

    /// The pool's floating IPs were listed.
    pub fn pool_listed(&self, pool: &PoolLabels, at: Timestamp) {
        self.pools.listed(pool, at);
    }

    /// The deletion of the pool was requested then. [`Self::pool_gone`] ends it.
    pub fn pool_deleted(&self, pool: &PoolLabels, at: Timestamp) {
        self.pools.deleted(pool, at);
    }

    /// `None` if the project's quota cannot be read.
    pub fn pool_quota(&self, pool: &PoolLabels, project: &ProjectScope, quota: Option<Quota>) {
        self.pools.quota(pool, project, quota);
    }

    /// Removes the pool's series. Must be the last call for a pool: any later one creates them again.
    pub(crate) fn pool_gone(&self, pool: &PoolLabels) {
        self.pools.retain(|other| other != pool);
    }

    /// Removes the series of all other pools.
    pub(crate) fn retain_pools(&self, exists: impl Fn(&PoolLabels) -> bool) {
        self.pools.retain(exists);
    }

    /// `duration` is the time since the claim was created, or since its condition became False.
    pub fn allocated(&self, cloud: &CloudName, origin: Origin, duration: Duration) {
        let cloud = self.count_allocation(cloud, origin, OperationResult::Success);
        self.allocation_duration.get_or_create(&CloudLabelSet { cloud }).observe(duration.as_secs_f64());
    }

    /// An address was chosen for a claim and could not be allocated.
    pub(crate) fn allocation_failed(&self, cloud: &CloudName, origin: Origin) {
        self.count_allocation(cloud, origin, OperationResult::Failure);
    }

    fn count_allocation(&self, cloud: &CloudName, origin: Origin, result: OperationResult) -> CloudLabel {
        let cloud = self.clouds.find(cloud);
        let labels = AllocationLabels { cloud: cloud.clone(), origin: OriginLabel(origin), result };
        self.allocations.get_or_create(&labels).inc();
        cloud
    }

    /// A claim's address was marked for release and the claim's finalizer removed, or that failed.
    pub fn released(&self, result: OperationResult) {
        self.releases.get_or_create(&ResultLabels { result }).inc();
    }

    pub(crate) fn swept(&self, how: ReleasedAs) {
        self.released_floating_ips.get_or_create(&ReleasedLabels { how }).inc();
    }

    /// `operation` is one of [`OPERATIONS`].
    pub(crate) fn openstack_call<T>(
        &self,
        cloud: &CloudLabel,
        operation: &'static str,
        result: &Result<T, Error>,
        duration: Duration,
    ) {
        let result = result.as_ref().map_or_else(|error| error.kind.as_str(), |_| "ok");
        self.requests.get_or_create(&RequestLabels { cloud: cloud.clone(), operation, result }).inc();
        let labels = OperationLabels { cloud: cloud.clone(), operation };
        self.request_duration.get_or_create(&labels).observe(duration.as_secs_f64());
    }

    pub fn token_refreshed(&self, cloud: &CloudName, result: OperationResult) {
        let cloud = self.clouds.find(cloud);
        self.token_refreshes.get_or_create(&TokenLabels { cloud, result }).inc();
    }

    /// A request to the API server; `status` is none if it was not answered.
    pub fn api_request(&self, host: &str, method: &Method, status: Option<StatusCode>, duration: Duration) {
        let (host, method) = (host.to_owned(), method.as_str().to_owned());
        let code = status.map_or_else(|| "<error>".to_owned(), |status| status.as_str().to_owned());
        let labels = ApiDurationLabels { verb: method.clone(), host: host.clone() };
        self.api_request_duration.get_or_create(&labels).observe(duration.as_secs_f64());
        self.api_requests.get_or_create(&ApiRequestLabels { code, host, method }).inc();
    }

    /// `controller` is one of [`CONTROLLERS`].
    pub(crate) fn controller(&self, controller: &'static str) -> ControllerMetrics {
        self.controllers.of(controller)
    }

    /// `controller` is one of [`CONTROLLERS`].
    pub(crate) fn reconcile_panicked(&self, controller: &'static str) {
        self.reconcile_panics.get_or_create(&ControllerLabels { controller }).inc();
    }

    pub(crate) fn reconcile_failed(&self, controller: &'static str) {
        self.reconcile_errors.get_or_create(&ControllerLabels { controller }).inc();
    }

    pub fn leads(&self, is_leader: bool) {
        self.leader.set(i64::from(is_leader));
    }

    /// In the OpenMetrics text format.
    #[expect(clippy::expect_used, reason = "writing to a String cannot fail")]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).expect("writing to a String cannot fail");
        text
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::floating_ip::ProjectId;
    use crate::openstack::{ErrorKind, KeystoneId};

    fn web() -> PoolLabels {
        PoolLabels { namespace: "one".into(), name: "web".into() }
    }

    #[track_caller]
    pub(crate) fn has(metrics: &Metrics, line: &str) {
        let text = metrics.to_text();
        assert!(text.lines().any(|other| other == line), "no line {line:?} in:\n{text}");
    }

    #[test]
    fn series_with_known_labels_start_at_zero() {
        let metrics = Metrics::new();
        has(&metrics, r#"caip_openstack_released_floating_ips_total{how="retained"} 0"#);
        has(&metrics, r#"caip_openstack_reconcile_errors_total{controller="sweeper"} 0"#);
        has(&metrics, &format!(r#"caip_openstack_build_info{{version="0.1.0",revision="{COMMIT}"}} 1"#));
        has(&metrics, "caip_openstack_leader 0");
        assert!(!metrics.to_text().contains("pool=\"") && !metrics.to_text().contains("cloud=\""));
    }

    fn cloud() -> CloudName {
        CloudName::new(&"https://keystone/v3/".parse().expect("a URL"), Some("R"))
    }

    #[test]
    fn a_clouds_series_start_at_zero_when_a_pool_first_uses_it() {
        let metrics = Metrics::new();
        metrics.admit_cloud("one", &cloud());
        for line in [
            r#"caip_openstack_allocations_total{cloud="keystone:443/R",origin="created",result="failure"} 0"#,
            r#"caip_openstack_allocation_duration_seconds_count{cloud="keystone:443/R"} 0"#,
            r#"caip_openstack_requests_total{cloud="keystone:443/R",operation="add_tag",result="ok"} 0"#,
            r#"caip_openstack_request_duration_seconds_count{cloud="keystone:443/R",operation="quota"} 0"#,
            r#"caip_openstack_token_refreshes_total{cloud="keystone:443/R",result="failure"} 0"#,
        ] {
            has(&metrics, line);
        }
        metrics.allocated(&cloud(), Origin::Created, Duration::from_secs(1));
        metrics.token_refreshed(&cloud(), OperationResult::Failure);
        metrics.admit_cloud("two", &cloud());
        has(&metrics, r#"caip_openstack_allocation_duration_seconds_count{cloud="keystone:443/R"} 1"#);
        has(&metrics, r#"caip_openstack_token_refreshes_total{cloud="keystone:443/R",result="failure"} 1"#);
    }

    #[test]
    fn requests_are_counted_by_cloud_and_result() {
        let metrics = Metrics::new();
        let full = Err::<(), _>(Error::new(ErrorKind::NoMoreAddresses, "create floating IP", "full"));
        let cloud = metrics.admit_cloud("one", &cloud());
        let call = |result| metrics.openstack_call(&cloud, "create_floating_ip", result, Duration::from_millis(40));
        [&full, &Ok(())].into_iter().for_each(call);
        let labels = r#"cloud="keystone:443/R",operation="create_floating_ip""#;
        has(&metrics, &format!(r#"caip_openstack_requests_total{{{labels},result="no_more_addresses"}} 1"#));
        has(&metrics, &format!(r#"caip_openstack_requests_total{{{labels},result="ok"}} 1"#));
        has(&metrics, &format!("caip_openstack_request_duration_seconds_count{{{labels}}} 2"));
    }

    fn project() -> ProjectScope {
        let keystone = KeystoneId::new(&"http://keystone/v3/".parse().expect("a URL"), true, &[]);
        ProjectScope { keystone, endpoint: "http://neutron".into(), region: "R".into(), project: ProjectId::new("p1") }
    }

    #[test]
    fn a_pools_series_exist_as_long_as_the_pool() {
        let metrics = Metrics::new();
        let figures = PoolCounts {
            size: 3,
            allocated: 2,
            counted: Some(UsageDetails { capacity: Some(4), outside_spec: 1 }),
            limit: Some(5),
            ready: true,
            credentials_valid: Some(true),
            addresses_maintained: Some(true),
            address_config_map_current: Some(false),
            waiting: BTreeMap::from([("PoolExhausted", 1)]),
            oldest_waiting: Some(Timestamp::from_second(1_700_000_000).expect("it is valid")),
            lost: BTreeMap::from([("Deleted", 2)]),
            failing_releases: 3,
            ..PoolCounts::default()
        };
        metrics.pool_observed(&web(), figures);
        metrics.pool_listed(&web(), Timestamp::from_second(1_700_000_001).expect("it is valid"));
        has(&metrics, r#"caip_openstack_pool_size{namespace="one",pool="web"} 3"#);
        has(&metrics, r#"caip_openstack_pool_addresses{namespace="one",pool="web",state="allocated"} 2"#);
        has(&metrics, r#"caip_openstack_pool_addresses_out_of_range{namespace="one",pool="web"} 1"#);
        has(&metrics, r#"caip_openstack_pool_capacity{namespace="one",pool="web"} 4"#);
        has(&metrics, r#"caip_openstack_pool_limit{namespace="one",pool="web"} 5"#);
        has(&metrics, r#"caip_openstack_pool_ready{namespace="one",pool="web"} 1"#);
        has(&metrics, r#"caip_openstack_pool_addresses_maintained{namespace="one",pool="web"} 1"#);
        has(&metrics, r#"caip_openstack_pool_address_config_map_current{namespace="one",pool="web"} 0"#);
        has(&metrics, r#"caip_openstack_pool_problem{namespace="one",pool="web",reason="NameConflict"} 0"#);
        has(&metrics, r#"caip_openstack_claims_waiting{namespace="one",pool="web",reason="PoolExhausted"} 1"#);
        has(&metrics, r#"caip_openstack_claims_waiting{namespace="one",pool="web",reason="PoolNotReady"} 0"#);
        has(
            &metrics,
            r#"caip_openstack_oldest_waiting_claim_timestamp_seconds{namespace="one",pool="web"} 1700000000.0"#,
        );
        has(&metrics, r#"caip_openstack_last_listing_timestamp_seconds{namespace="one",pool="web"} 1700000001.0"#);

        has(&metrics, r#"caip_openstack_lost_addresses{namespace="one",pool="web",reason="Deleted"} 2"#);
        has(&metrics, r#"caip_openstack_lost_addresses{namespace="one",pool="web",reason="Taken"} 0"#);
        has(&metrics, r#"caip_openstack_claims_release_failing{namespace="one",pool="web"} 3"#);
        assert!(!metrics.to_text().contains("caip_openstack_pool_deletion_timestamp_seconds{"));
        metrics.pool_deleted(&web(), Timestamp::from_second(1_700_000_002).expect("it is valid"));
        let deletion = r#"caip_openstack_pool_deletion_timestamp_seconds{namespace="one",pool="web"} 1700000002.0"#;
        has(&metrics, deletion);

        let failing = PoolCounts { problem: Some("NameConflict"), ..PoolCounts::default() };
        metrics.pool_observed(&web(), failing);
        has(&metrics, r#"caip_openstack_claims_waiting{namespace="one",pool="web",reason="PoolExhausted"} 0"#);
        has(&metrics, r#"caip_openstack_pool_problem{namespace="one",pool="web",reason="NameConflict"} 1"#);
        has(&metrics, r#"caip_openstack_pool_credentials_valid{namespace="one",pool="web"} 1"#);
        has(&metrics, r#"caip_openstack_pool_capacity{namespace="one",pool="web"} 4"#);
        assert!(!metrics.to_text().contains("caip_openstack_pool_limit{"), "a removed limit has no series");
        assert!(!metrics.to_text().contains("config_map_current{"), "the spec asks for none any more");

        metrics.pool_gone(&web());
        assert!(!metrics.to_text().contains(r#"pool="web""#));
    }

    #[test]
    fn only_retained_pools_keep_their_series() {
        let metrics = Metrics::new();
        let other = PoolLabels { name: "other".into(), ..web() };
        [&web(), &other].into_iter().for_each(|pool| metrics.pool_observed(pool, PoolCounts::default()));
        metrics.retain_pools(|pool| *pool == other);
        let text = metrics.to_text();
        assert!(!text.contains(r#"pool="web""#) && text.contains(r#"pool="other""#));
    }

    #[test]
    fn a_quota_is_shown_once_until_the_last_pool_of_its_project_is_gone() {
        let metrics = Metrics::new();
        let other = PoolLabels { name: "other".into(), ..web() };
        let quota = Quota { limit: Some(50), used: 7 };
        [&web(), &other].into_iter().for_each(|pool| metrics.pool_quota(pool, &project(), Some(quota)));
        let used = r#"caip_openstack_quota_used_floating_ips{project="p1",neutron="http://neutron"} 7"#;
        assert_eq!(metrics.to_text().matches("caip_openstack_quota_used_floating_ips{").count(), 1);
        has(&metrics, used);
        has(&metrics, r#"caip_openstack_quota_limit_floating_ips{project="p1",neutron="http://neutron"} 50"#);
        metrics.pool_gone(&web());
        has(&metrics, used);
        metrics.pool_quota(&other, &project(), Some(Quota { limit: None, used: 7 }));
        let limit = "caip_openstack_quota_limit_floating_ips{";
        assert!(!metrics.to_text().contains(limit), "an unlimited quota has no limit series");
        metrics.pool_gone(&other);
        assert!(!metrics.to_text().contains("project="));
    }

    #[test]
    fn what_a_server_calls_itself_is_one_short_label_value() {
        let metrics = Metrics::new();
        let other = PoolLabels { name: "other".into(), ..web() };
        let endpoint = format!("http://neutron/\n\u{1b}[2K{}", "x".repeat(1000));
        let scope = ProjectScope { endpoint: endpoint.clone(), ..project() };
        metrics.pool_quota(&web(), &scope, Some(Quota { limit: None, used: 7 }));
        let scope = ProjectScope { endpoint: endpoint + "y", ..scope };
        metrics.pool_quota(&other, &scope, Some(Quota { limit: None, used: 7 }));
        let text = metrics.to_text();
        let series: Vec<_> = text.lines().filter(|line| line.contains("project=")).collect();
        assert_eq!(series.len(), 1, "each series once, or Prometheus drops them all: {series:?}");
        assert!(
            series.iter().all(|line| line.contains(r"http://neutron/ \\u{1b}[2Kxx") && line.len() < 300),
            "{series:?}"
        );
    }

    #[test]
    fn every_metric_has_help_and_ends_in_its_unit() {
        let text = Metrics::new().to_text();
        let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        for name in names {
            assert!(text.contains(&format!("# HELP {name} ")), "{name}");
            let prefixes = ["caip_openstack_", "controller_runtime_", "process_", "rest_client_", "workqueue_"];
            assert!(prefixes.iter().any(|prefix| name.starts_with(prefix)), "{name}");
            assert!(!name.contains("duration") || name.ends_with("_seconds"), "{name}");
        }
    }
}
