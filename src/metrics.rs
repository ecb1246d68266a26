//! Prometheus metrics.
//!
//! Every series has the prefix `caip_`. Where the set of labels is closed its series exist from the start, since a
//! counter that first appears with 1 hides that 1 from every rate; a pool's series live as long as the pool.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::allocation::claim::Origin;
use crate::openstack::{Error, Quota, Scope};
use crate::runtime::flags::COMMIT;

mod labels;
mod metered;
mod pools;
mod process;

use labels::{Allocation, Build, Controller, Done, Operation, Request, Source, Swept};
pub use labels::{Outcome, Sweep};
pub use metered::Metered;
pub use pools::{Counted, PoolFigures, PoolLabels};

/// The names of the calls, as the traits in [`crate::openstack`] have them.
pub const OPERATIONS: [&str; 12] = [
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

/// The names of the controllers.
pub const CONTROLLERS: [&str; 3] = ["pool", "claim", "sweeper"];

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// Everything that is counted. Cheap to clone; clones count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    pools: pools::Pools,
    allocations: Family<Allocation, Counter>,
    allocation_duration: Histogram,
    releases: Family<Done, Counter>,
    swept: Family<Swept, Counter>,
    requests: Family<Request, Counter>,
    request_duration: Histograms<Operation>,
    token_refreshes: Family<Done, Counter>,
    reconcile_errors: Family<Controller, Counter>,
    leader: Gauge,
}

impl Metrics {
    /// All series at 0.
    pub fn new() -> Self {
        let mut it = Self {
            registry: Arc::default(),
            pools: pools::Pools::default(),
            allocations: Family::default(),
            // From what a warm pool needs to what a claim that had to wait does.
            allocation_duration: Histogram::new([
                0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0,
            ]),
            releases: Family::default(),
            swept: Family::default(),
            requests: Family::default(),
            // Neutron answers in 20 to 500 ms; the longest timeout is a minute.
            request_duration: Family::new_with_constructor(|| {
                Histogram::new([0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0])
            }),
            token_refreshes: Family::default(),
            reconcile_errors: Family::default(),
            leader: Gauge::default(),
        };
        it.start_at_zero();
        it.registry = Arc::new(it.register());
        it
    }

    fn start_at_zero(&self) {
        for source in Origin::ALL.map(Source) {
            for result in Outcome::ALL {
                drop(self.allocations.get_or_create(&Allocation { source, result }));
            }
        }
        for result in Outcome::ALL {
            drop(self.releases.get_or_create(&Done { result }));
            drop(self.token_refreshes.get_or_create(&Done { result }));
        }
        for how in Sweep::ALL {
            drop(self.swept.get_or_create(&Swept { how }));
        }
        for operation in OPERATIONS {
            // Of the failures only those that occur: most operations cannot fail in most ways.
            drop(self.requests.get_or_create(&Request { operation, result: "ok" }));
            drop(self.request_duration.get_or_create(&Operation { operation }));
        }
        for controller in CONTROLLERS {
            drop(self.reconcile_errors.get_or_create(&Controller { controller }));
        }
    }

    fn register(&self) -> Registry {
        let mut all = Registry::default();
        all.register_collector(Box::new(process::Process));
        let ours = all.sub_registry_with_prefix("caip");
        let build = Build { version: env!("CARGO_PKG_VERSION"), revision: COMMIT };
        ours.register("build", "What is running.", Info::new(build));
        ours.register("leader", "Whether this process leads.", self.leader.clone());
        let help = "Claims that were given an address, or failed to be, by where it came from.";
        ours.register("allocations", help, self.allocations.clone());
        let help = "From the first sight of a claim until it is bound.";
        ours.register_with_unit("allocation_duration", help, Unit::Seconds, self.allocation_duration.clone());
        ours.register("releases", "Claims whose address was released, or failed to be.", self.releases.clone());
        let help = "Floating IPs that a release left behind, by what became of them.";
        ours.register("released_floating_ips", help, self.swept.clone());
        let help = "Calls to OpenStack by how they ended.";
        ours.register("openstack_requests", help, self.requests.clone());
        let help = "How long calls to OpenStack took, waiting and repetitions included.";
        ours.register_with_unit("openstack_request_duration", help, Unit::Seconds, self.request_duration.clone());
        ours.register("token_refreshes", "New Keystone tokens, or failures to get one.", self.token_refreshes.clone());
        ours.register("reconcile_errors", "Reconciliations that failed.", self.reconcile_errors.clone());
        ours.register_collector(Box::new(self.pools.clone()));
        all
    }

    /// A look at a pool was taken.
    pub fn pool_observed(&self, pool: &PoolLabels, figures: PoolFigures) {
        self.pools.observed(pool, figures);
    }

    /// The pool's floating IPs were listed.
    pub fn pool_listed(&self, pool: &PoolLabels, at: Timestamp) {
        self.pools.listed(pool, at);
    }

    /// The quota of the pool's project was read; `None` where it cannot be.
    pub fn pool_quota(&self, pool: &PoolLabels, project: &Scope, quota: Option<Quota>) {
        self.pools.quota(pool, project, quota);
    }

    /// The pool is gone, and so are its series. The last word on it: any later one brings them back.
    pub fn pool_gone(&self, pool: &PoolLabels) {
        self.pools.retain(|other| other != pool);
    }

    /// All pools but these are gone.
    pub fn retain_pools(&self, is_living: impl Fn(&PoolLabels) -> bool) {
        self.pools.retain(is_living);
    }

    /// A claim was bound, `duration` after it was first seen.
    pub fn allocated(&self, origin: Origin, duration: Duration) {
        self.allocations.get_or_create(&Allocation { source: Source(origin), result: Outcome::Success }).inc();
        self.allocation_duration.observe(duration.as_secs_f64());
    }

    /// An address was chosen for a claim and could not be had.
    pub fn allocation_failed(&self, origin: Origin) {
        self.allocations.get_or_create(&Allocation { source: Source(origin), result: Outcome::Failure }).inc();
    }

    /// A claim's address was tagged for release and the claim let go, or that failed.
    pub fn released(&self, result: Outcome) {
        self.releases.get_or_create(&Done { result }).inc();
    }

    /// A released floating IP was dealt with.
    pub fn swept(&self, how: Sweep) {
        self.swept.get_or_create(&Swept { how }).inc();
    }

    /// A call to OpenStack ended. `operation` is one of [`OPERATIONS`].
    pub fn openstack_call<T>(&self, operation: &'static str, result: &Result<T, Error>, duration: Duration) {
        let how = result.as_ref().map_or_else(|error| error.kind.as_str(), |_| "ok");
        self.requests.get_or_create(&Request { operation, result: how }).inc();
        self.request_duration.get_or_create(&Operation { operation }).observe(duration.as_secs_f64());
    }

    /// A token was asked for.
    pub fn token_refreshed(&self, result: Outcome) {
        self.token_refreshes.get_or_create(&Done { result }).inc();
    }

    /// A reconciliation failed. `controller` is one of [`CONTROLLERS`].
    pub fn reconcile_failed(&self, controller: &'static str) {
        self.reconcile_errors.get_or_create(&Controller { controller }).inc();
    }

    /// This process leads now, or does not.
    pub fn leads(&self, is_leader: bool) {
        self.leader.set(i64::from(is_leader));
    }

    /// All of it, in the text format of OpenMetrics.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).expect("a String takes any text");
        text
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::floating_ip::ProjectId;
    use crate::openstack::ErrorKind;

    fn web() -> PoolLabels {
        PoolLabels { namespace: "one".into(), name: "web".into() }
    }

    #[track_caller]
    fn has(metrics: &Metrics, line: &str) {
        let text = metrics.to_text();
        assert!(text.lines().any(|it| it == line), "no line {line:?} in:\n{text}");
    }

    #[test]
    fn closed_sets_are_there_before_anything_happens() {
        let metrics = Metrics::new();
        has(&metrics, r#"caip_allocations_total{source="created",result="failure"} 0"#);
        has(&metrics, r#"caip_openstack_requests_total{operation="add_tag",result="ok"} 0"#);
        has(&metrics, r#"caip_openstack_request_duration_seconds_count{operation="quota"} 0"#);
        has(&metrics, r#"caip_released_floating_ips_total{how="retained"} 0"#);
        has(&metrics, r#"caip_reconcile_errors_total{controller="sweeper"} 0"#);
        has(&metrics, &format!(r#"caip_build_info{{version="0.1.0",revision="{COMMIT}"}} 1"#));
        has(&metrics, "caip_leader 0");
        assert!(!metrics.to_text().contains("pool=\""));
    }

    #[test]
    fn calls_are_counted_by_how_they_ended() {
        let metrics = Metrics::new();
        let full = Err::<(), _>(Error::new(ErrorKind::NoMoreAddresses, "create floating IP", "full"));
        metrics.openstack_call("create_floating_ip", &full, Duration::from_millis(40));
        metrics.openstack_call("create_floating_ip", &Ok(()), Duration::from_millis(40));
        has(&metrics, r#"caip_openstack_requests_total{operation="create_floating_ip",result="no_more_addresses"} 1"#);
        has(&metrics, r#"caip_openstack_requests_total{operation="create_floating_ip",result="ok"} 1"#);
        has(&metrics, r#"caip_openstack_request_duration_seconds_count{operation="create_floating_ip"} 2"#);
    }

    fn project() -> Scope {
        Scope { endpoint: "http://neutron".into(), project: ProjectId::new("p1") }
    }

    #[test]
    fn a_pool_is_shown_while_there_is_one() {
        let metrics = Metrics::new();
        let figures = PoolFigures {
            size: 3,
            allocated: 2,
            counted: Some(Counted { capacity: Some(4), out_of_range: 1 }),
            limit: Some(5),
            ready: true,
            credentials_valid: Some(true),
            waiting: BTreeMap::from([("PoolExhausted", 1)]),
            oldest_waiting: Some(Timestamp::from_second(1_700_000_000).expect("it is valid")),
            ..PoolFigures::default()
        };
        metrics.pool_observed(&web(), figures);
        metrics.pool_listed(&web(), Timestamp::from_second(1_700_000_001).expect("it is valid"));
        has(&metrics, r#"caip_pool_size{namespace="one",pool="web"} 3"#);
        has(&metrics, r#"caip_pool_addresses{namespace="one",pool="web",state="allocated"} 2"#);
        has(&metrics, r#"caip_pool_addresses_out_of_range{namespace="one",pool="web"} 1"#);
        has(&metrics, r#"caip_pool_capacity{namespace="one",pool="web"} 4"#);
        has(&metrics, r#"caip_pool_limit{namespace="one",pool="web"} 5"#);
        has(&metrics, r#"caip_pool_ready{namespace="one",pool="web"} 1"#);
        has(&metrics, r#"caip_pool_problem{namespace="one",pool="web",reason="NameConflict"} 0"#);
        has(&metrics, r#"caip_claims_waiting{namespace="one",pool="web",reason="PoolExhausted"} 1"#);
        has(&metrics, r#"caip_claims_waiting{namespace="one",pool="web",reason="PoolNotReady"} 0"#);
        has(&metrics, r#"caip_oldest_waiting_claim_timestamp_seconds{namespace="one",pool="web"} 1700000000.0"#);
        has(&metrics, r#"caip_last_listing_timestamp_seconds{namespace="one",pool="web"} 1700000001.0"#);

        let failing = PoolFigures { problem: Some("NameConflict"), ..PoolFigures::default() };
        metrics.pool_observed(&web(), failing);
        has(&metrics, r#"caip_claims_waiting{namespace="one",pool="web",reason="PoolExhausted"} 0"#);
        has(&metrics, r#"caip_pool_problem{namespace="one",pool="web",reason="NameConflict"} 1"#);
        has(&metrics, r#"caip_pool_credentials_valid{namespace="one",pool="web"} 1"#);
        has(&metrics, r#"caip_pool_capacity{namespace="one",pool="web"} 4"#);
        assert!(!metrics.to_text().contains("caip_pool_limit{"), "a limit that was taken away is gone");

        metrics.pool_gone(&web());
        assert!(!metrics.to_text().contains(r#"pool="web""#));
    }

    #[test]
    fn only_living_pools_stay_after_a_look_at_all() {
        let metrics = Metrics::new();
        let other = PoolLabels { name: "other".into(), ..web() };
        [&web(), &other].into_iter().for_each(|pool| metrics.pool_observed(pool, PoolFigures::default()));
        metrics.retain_pools(|pool| *pool == other);
        let text = metrics.to_text();
        assert!(!text.contains(r#"pool="web""#) && text.contains(r#"pool="other""#));
    }

    #[test]
    fn a_quota_is_shown_once_and_goes_with_the_last_pool_of_its_project() {
        let metrics = Metrics::new();
        let other = PoolLabels { name: "other".into(), ..web() };
        let quota = Quota { limit: Some(50), used: 7 };
        [&web(), &other].into_iter().for_each(|pool| metrics.pool_quota(pool, &project(), Some(quota)));
        let used = r#"caip_quota_floating_ips{project="p1",neutron="http://neutron",kind="used"} 7"#;
        assert_eq!(metrics.to_text().matches("caip_quota_floating_ips{").count(), 2);
        has(&metrics, used);
        metrics.pool_gone(&web());
        has(&metrics, used);
        metrics.pool_quota(&other, &project(), Some(Quota { limit: None, used: 7 }));
        assert!(!metrics.to_text().contains(r#"kind="limit""#), "an unlimited quota has no limit to show");
        metrics.pool_gone(&other);
        assert!(!metrics.to_text().contains("project="));
    }

    #[test]
    fn every_name_is_explained_and_ends_in_its_unit() {
        let text = Metrics::new().to_text();
        let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        for name in names {
            assert!(text.contains(&format!("# HELP {name} ")), "{name}");
            assert!(name.starts_with("caip_") || name.starts_with("process_"), "{name}");
            assert!(!name.contains("duration") || name.ends_with("_seconds"), "{name}");
        }
    }
}
