//! Work queues and reconciles, under the names, labels and buckets that controller-runtime gave them: dashboards and alerts
//! that were made for Cluster API's other controllers show this one too.
//!
//! Nothing is kept for an object; for a reconcile in progress, when it began.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use tokio::time::Instant;

use super::HistogramFamily;
use super::labels::{ControllerLabels, QueueLabels, ReconcileLabels, ReconcileResult};
use super::pools::{gauge, put};

/// The metrics of all controllers.
#[derive(Clone, Debug)]
pub(super) struct Controllers {
    adds: Family<QueueLabels, Counter>,
    retries: Family<QueueLabels, Counter>,
    queue_duration: HistogramFamily<QueueLabels>,
    work_duration: HistogramFamily<QueueLabels>,
    reconciles: Family<ReconcileLabels, Counter>,
    errors: Family<ControllerLabels, Counter>,
    panics: Family<ControllerLabels, Counter>,
    reconcile_time: HistogramFamily<ControllerLabels>,
    states: States,
}

/// What the gauges of each controller show.
#[derive(Clone, Default, Debug)]
struct States(Arc<Mutex<BTreeMap<&'static str, State>>>);

#[derive(Default, Debug)]
struct State {
    depth: usize,
    /// None for no limit.
    max_concurrent: Option<usize>,
    /// When each reconcile in progress began. The number tells those apart that began at one moment.
    running: BTreeSet<Begin>,
    next: u64,
}

type Begin = (Instant, u64);

impl Controllers {
    pub(super) fn new() -> Self {
        let durations: fn() -> Histogram = || Histogram::new(exponential_buckets(10e-9, 10.0, 12));
        Self {
            adds: Family::default(),
            retries: Family::default(),
            queue_duration: Family::new_with_constructor(durations),
            work_duration: Family::new_with_constructor(durations),
            reconciles: Family::default(),
            errors: Family::default(),
            panics: Family::default(),
            reconcile_time: Family::new_with_constructor(|| {
                Histogram::new([
                    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0,
                    1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0,
                    30.0, 40.0, 50.0, 60.0,
                ])
            }),
            states: States::default(),
        }
    }

    /// The metrics of one controller, which start at 0.
    pub(super) fn of(&self, controller: &'static str) -> ControllerMetrics {
        self.states.0.lock().entry(controller).or_default();
        let (labels, queue) = (ControllerLabels { controller }, QueueLabels { name: controller, controller });
        let result = |result| self.reconciles.get_or_create_owned(&ReconcileLabels { controller, result });
        ControllerMetrics {
            controller,
            adds: self.adds.get_or_create_owned(&queue),
            retries: self.retries.get_or_create_owned(&queue),
            queue_duration: self.queue_duration.get_or_create_owned(&queue),
            work_duration: self.work_duration.get_or_create_owned(&queue),
            reconciles: ReconcileResult::ALL.map(|kind| (kind, result(kind))),
            errors: self.errors.get_or_create_owned(&labels),
            panics: self.panics.get_or_create_owned(&labels),
            reconcile_time: self.reconcile_time.get_or_create_owned(&labels),
            states: self.states.clone(),
        }
    }

    /// The help texts are controller-runtime's.
    pub(super) fn register(&self, all: &mut Registry) {
        let queues = all.sub_registry_with_prefix("workqueue");
        queues.register("adds", "Total number of adds handled by workqueue", self.adds.clone());
        queues.register("retries", "Total number of retries handled by workqueue", self.retries.clone());
        let help = "How long in seconds an item stays in workqueue before being requested";
        queues.register_with_unit("queue_duration", help, Unit::Seconds, self.queue_duration.clone());
        let help = "How long in seconds processing an item from workqueue takes.";
        queues.register_with_unit("work_duration", help, Unit::Seconds, self.work_duration.clone());
        let controllers = all.sub_registry_with_prefix("controller_runtime");
        let help = "Total number of reconciliations per controller";
        controllers.register("reconcile", help, self.reconciles.clone());
        let help = "Total number of reconciliation errors per controller";
        controllers.register("reconcile_errors", help, self.errors.clone());
        let help = "Total number of reconciliation panics per controller";
        controllers.register("reconcile_panics", help, self.panics.clone());
        let help = "Length of time per reconciliation per controller";
        controllers.register_with_unit("reconcile_time", help, Unit::Seconds, self.reconcile_time.clone());
        all.register_collector(Box::new(self.states.clone()));
    }
}

/// The metrics of one controller. Cheap to clone; clones share the values.
#[derive(Clone, Debug)]
pub(crate) struct ControllerMetrics {
    controller: &'static str,
    adds: Counter,
    retries: Counter,
    queue_duration: Histogram,
    work_duration: Histogram,
    reconciles: [(ReconcileResult, Counter); 3],
    errors: Counter,
    panics: Counter,
    reconcile_time: Histogram,
    states: States,
}

impl ControllerMetrics {
    /// The most objects that are reconciled at a time; none for no limit.
    pub(crate) fn limit_is(&self, limit: Option<usize>) {
        self.update(|state| state.max_concurrent = limit);
    }

    /// `depth` objects wait to be reconciled; `added` of them, or of those that were reconciled since the last call, are new.
    pub(crate) fn queue_is(&self, depth: usize, added: u64) {
        self.adds.inc_by(added);
        self.update(|state| state.depth = depth);
    }

    /// An object waited in the queue for this long after it was due.
    pub(crate) fn waited(&self, duration: Duration) {
        self.queue_duration.observe(duration.as_secs_f64());
    }

    /// An object is reconciled again later.
    pub(crate) fn will_retry(&self) {
        self.retries.inc();
    }

    pub(crate) fn begin(&self) -> RunningReconcile {
        let begin = self.update(|state| {
            state.next = state.next.wrapping_add(1);
            let begin = (Instant::now(), state.next);
            state.running.insert(begin);
            begin
        });
        RunningReconcile { metrics: self.clone(), begin }
    }

    fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(self.states.0.lock().entry(self.controller).or_default())
    }
}

/// A reconcile in progress. One that is dropped is no longer in progress, and counts nowhere.
pub(crate) struct RunningReconcile {
    metrics: ControllerMetrics,
    begin: Begin,
}

impl RunningReconcile {
    pub(crate) fn end(self, result: ReconcileResult) {
        let metrics = &self.metrics;
        if let Some((_, count)) = metrics.reconciles.iter().find(|(kind, _)| *kind == result) {
            count.inc();
        }
        if result == ReconcileResult::Error {
            metrics.errors.inc();
        }
        let duration = self.begin.0.elapsed().as_secs_f64();
        metrics.work_duration.observe(duration);
        metrics.reconcile_time.observe(duration);
    }

    /// It also counts as an error.
    pub(crate) fn end_by_panic(self) {
        self.metrics.panics.inc();
        self.end(ReconcileResult::Error);
    }
}

impl Drop for RunningReconcile {
    fn drop(&mut self) {
        self.metrics.update(|state| state.running.remove(&self.begin));
    }
}

impl Collector for States {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (states, now) = (self.0.lock(), Instant::now());
        let queues = || states.iter().map(|(&controller, state)| (QueueLabels { name: controller, controller }, state));
        let mut out = gauge(&mut encoder, "workqueue_depth", "Current depth of workqueue", None)?;
        for (queue, state) in queues() {
            put(&mut out, &queue, state.depth)?;
        }
        let help = "How many seconds of work has been done that is in progress and hasn't been observed by work_duration. Large values indicate stuck threads.";
        let mut out = gauge(&mut encoder, "workqueue_unfinished_work", help, Some(&Unit::Seconds))?;
        for (queue, state) in queues() {
            put(&mut out, &queue, state.elapsed(now).map(|elapsed| elapsed.as_secs_f64()).sum::<f64>())?;
        }
        let help = "How many seconds has the longest running processor for workqueue been running.";
        let mut out = gauge(&mut encoder, "workqueue_longest_running_processor", help, Some(&Unit::Seconds))?;
        for (queue, state) in queues() {
            put(&mut out, &queue, state.elapsed(now).next().unwrap_or_default().as_secs_f64())?;
        }
        let help = "Number of currently used workers per controller";
        let mut out = gauge(&mut encoder, "controller_runtime_active_workers", help, None)?;
        for (&controller, state) in states.iter() {
            put(&mut out, &ControllerLabels { controller }, state.running.len())?;
        }
        let help = "Maximum number of concurrent reconciles per controller";
        let mut out = gauge(&mut encoder, "controller_runtime_max_concurrent_reconciles", help, None)?;
        for (&controller, state) in states.iter() {
            let limit = |limit| f64::from(u32::try_from(limit).unwrap_or(u32::MAX));
            put(&mut out, &ControllerLabels { controller }, state.max_concurrent.map_or(f64::INFINITY, limit))?;
        }
        Ok(())
    }
}

impl State {
    /// How long each reconcile has been running, the longest first.
    fn elapsed(&self, now: Instant) -> impl Iterator<Item = Duration> {
        self.running.iter().map(move |(begin, _)| now.saturating_duration_since(*begin))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;
    use super::super::tests::has;
    use super::*;

    #[track_caller]
    fn assert_has(metrics: &Metrics, lines: &[&str]) {
        lines.iter().for_each(|line| has(metrics, line));
    }

    #[test]
    fn every_controller_has_its_series_from_the_start() {
        assert_has(
            &Metrics::new(),
            &[
                r#"workqueue_depth{name="pool",controller="pool"} 0"#,
                r#"workqueue_adds_total{name="sweeper",controller="sweeper"} 0"#,
                r#"workqueue_retries_total{name="claim",controller="claim"} 0"#,
                r#"workqueue_queue_duration_seconds_bucket{le="1000.0",name="claim",controller="claim"} 0"#,
                r#"controller_runtime_reconcile_total{controller="claim",result="requeue_after"} 0"#,
                r#"controller_runtime_reconcile_panics_total{controller="claim"} 0"#,
                r#"controller_runtime_active_workers{controller="pool"} 0"#,
                r#"controller_runtime_max_concurrent_reconciles{controller="pool"} inf"#,
            ],
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_reconcile_is_active_until_it_ends_or_is_dropped() {
        let metrics = Metrics::new();
        let claims = metrics.controller("claim");
        claims.limit_is(Some(7));
        let first = claims.begin();
        tokio::time::advance(Duration::from_secs(2)).await;
        let second = claims.begin();
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_has(
            &metrics,
            &[
                r#"controller_runtime_active_workers{controller="claim"} 2"#,
                r#"controller_runtime_max_concurrent_reconciles{controller="claim"} 7.0"#,
                r#"workqueue_unfinished_work_seconds{name="claim",controller="claim"} 4.0"#,
                r#"workqueue_longest_running_processor_seconds{name="claim",controller="claim"} 3.0"#,
            ],
        );
        first.end(ReconcileResult::Success);
        drop(second);
        assert_has(
            &metrics,
            &[
                r#"controller_runtime_active_workers{controller="claim"} 0"#,
                r#"workqueue_longest_running_processor_seconds{name="claim",controller="claim"} 0.0"#,
                r#"controller_runtime_reconcile_total{controller="claim",result="success"} 1"#,
                r#"controller_runtime_reconcile_errors_total{controller="claim"} 0"#,
                r#"controller_runtime_reconcile_time_seconds_sum{controller="claim"} 3.0"#,
                r#"workqueue_work_duration_seconds_count{name="claim",controller="claim"} 1"#,
            ],
        );
    }

    #[test]
    fn a_panic_counts_as_an_error_too() {
        let metrics = Metrics::new();
        metrics.controller("pool").begin().end_by_panic();
        assert_has(
            &metrics,
            &[
                r#"controller_runtime_reconcile_panics_total{controller="pool"} 1"#,
                r#"controller_runtime_reconcile_errors_total{controller="pool"} 1"#,
                r#"controller_runtime_reconcile_total{controller="pool",result="error"} 1"#,
            ],
        );
    }
}
