//! One controller's work queue: every requested object is reconciled, within a namespace in the order in which the
//! requests are due.
//!
//! It replaces kube's `Controller`, which orders objects by a hash that differs between processes: a simulation could not
//! repeat the order of two claims. Here the order is that of the requests, fair between namespaces. **Guaranteed:** an
//! object has one reconcile at a time, different objects are reconciled in parallel; an object that is requested during
//! its reconcile is reconciled once more; the earlier of two due times counts.

use std::collections::BTreeSet;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use kube::Resource;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::panics::Panicked;
use crate::clock::instant_after;
use crate::metrics::{ControllerMetrics, ReconcileResult, RunningReconcile};
use crate::object_name::ObjectName;
use crate::runtime::telemetry;

mod order;

use order::Queue;

/// When an object is reconciled again without a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Action(Option<Duration>);

impl Action {
    pub(super) fn await_change() -> Self {
        Self(None)
    }

    pub(super) fn requeue(after: Duration) -> Self {
        Self(Some(after))
    }

    fn result(self) -> ReconcileResult {
        if self.0.is_some() { ReconcileResult::RequeueAfter } else { ReconcileResult::Success }
    }
}

/// Longer than any wait of ours, and short enough for every timer.
pub(super) const FAR: Duration = Duration::from_secs(86400 * 30);

pub(super) struct WorkQueue<K>
where
    K: Resource + 'static,
    K::DynamicType: Eq + Hash,
{
    pub(super) store: Store<K>,
    /// What the store needs besides a name.
    pub(super) kind: K::DynamicType,
    pub(super) requests: UnboundedReceiver<ObjectName>,
    /// As metrics name it.
    pub(super) controller: &'static str,
    pub(super) metrics: ControllerMetrics,
    /// The most objects that are reconciled at a time; 0 for no limit.
    pub(super) concurrency: usize,
    /// Nothing is begun while there are any.
    pub(super) interruptions: watch::Receiver<BTreeSet<&'static str>>,
    pub(super) stop: CancellationToken,
}

impl<K> WorkQueue<K>
where
    K: Resource + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    /// Reconciles requested objects until `stop`, and then finishes what was begun. `forget` is called for a requested
    /// object that does not exist; no reconcile of it is in progress then. A panic in a reconcile ends it at once, and drops
    /// all others: what they share may be half written.
    pub(super) async fn process<E>(
        mut self,
        reconcile: impl AsyncFn(Arc<K>) -> Result<Action, E>,
        on_error: impl Fn(Arc<K>, &E) -> Action,
        forget: impl Fn(&ObjectName),
    ) -> Result<(), Panicked> {
        let limit = if self.concurrency == 0 { usize::MAX } else { self.concurrency };
        self.metrics.limit_is((self.concurrency != 0).then_some(limit));
        let mut queue = Queue::default();
        let mut running = FuturesUnordered::new();
        let (reconcile, on_error) = (&reconcile, &on_error);
        loop {
            // All of a burst first: an object that is requested ten times in it is reconciled once.
            while let Ok(name) = self.requests.try_recv() {
                queue.request(name, Instant::now());
            }
            let is_interrupted = !self.interruptions.borrow_and_update().is_empty();
            while running.len() < limit
                && !is_interrupted
                && let Some((name, object)) = self.begin_next(&mut queue, &forget)
            {
                let (span, controller) = (telemetry::reconcile_span(&self.reference(&name)), self.controller);
                let measured = self.metrics.begin();
                let work = async move {
                    match reconcile_or_panic(object, reconcile, on_error, measured).await {
                        Ok(action) => Ok((name, action)),
                        Err(_) => Err(Panicked { controller, object: name }),
                    }
                };
                running.push(work.instrument(span));
            }
            queue.find_due(Instant::now());
            self.metrics.queue_is(queue.depth(), queue.take_added());
            let may_begin = running.len() < limit && !is_interrupted && !self.stop.is_cancelled();
            let due = queue.due().filter(|_| may_begin).unwrap_or_else(|| instant_after(Instant::now(), FAR));
            tokio::select! {
                // In this order always, so that a simulation repeats.
                biased;
                Some(ended) = running.next() => self.conclude(&mut queue, ended?),
                () = self.stop.cancelled(), if running.is_empty() => return Ok(()),
                Some(name) = self.requests.recv(), if !self.stop.is_cancelled() => queue.request(name, Instant::now()),
                Ok(()) = self.interruptions.changed() => {}
                () = tokio::time::sleep_until(due) => {}
            }
        }
    }

    fn conclude(&self, queue: &mut Queue, ended: (ObjectName, Action)) {
        if let (_, Action(Some(_))) = &ended {
            self.metrics.will_retry();
        }
        queue.conclude(ended);
    }

    /// The next object that may be reconciled and exists. One that was deleted is requested by the watch if it is created
    /// again.
    fn begin_next(&self, queue: &mut Queue, forget: &impl Fn(&ObjectName)) -> Option<(ObjectName, Arc<K>)> {
        while !self.stop.is_cancelled() {
            let (name, waited) = queue.take(Instant::now())?;
            self.metrics.waited(waited);
            match self.store.get(&self.reference(&name)) {
                Some(object) => return Some((name, object)),
                None => {
                    forget(&name);
                    queue.end(&name);
                }
            }
        }
        None
    }

    fn reference(&self, name: &ObjectName) -> ObjectRef<K> {
        ObjectRef::new_with(&name.name, self.kind.clone()).within(&name.namespace)
    }
}

/// The result of one reconcile, or what it panicked with.
async fn reconcile_or_panic<K, E>(
    object: Arc<K>,
    reconcile: &impl AsyncFn(Arc<K>) -> Result<Action, E>,
    on_error: &impl Fn(Arc<K>, &E) -> Action,
    measured: RunningReconcile,
) -> std::thread::Result<Action> {
    let work = async {
        match reconcile(object.clone()).await {
            Ok(action) => (action, action.result()),
            Err(error) => (on_error(object.clone(), &error), ReconcileResult::Error),
        }
    };
    let ended = AssertUnwindSafe(work).catch_unwind().await;
    match &ended {
        Ok((_, result)) => measured.end(*result),
        Err(_) => measured.end_by_panic(),
    }
    ended.map(|(action, _)| action)
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake, Waker};

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::runtime::{reflector, watcher};
    use tokio::sync::mpsc::UnboundedSender;

    use super::order::MAX_RECONCILES;
    use super::*;
    use crate::metrics::Metrics;
    use crate::metrics::tests::has;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Objects with these names, each requested as often as it is named. The queue waits for more while there is a sender.
    fn requested(names: &[&str]) -> (Store<ConfigMap>, UnboundedReceiver<ObjectName>, UnboundedSender<ObjectName>) {
        let (store, mut writer) = reflector::store::<ConfigMap>();
        let (sender, requests) = tokio::sync::mpsc::unbounded_channel();
        for name in names {
            let mut object = ConfigMap::default();
            object.metadata.name = Some((*name).into());
            object.metadata.namespace = Some("ns".into());
            writer.apply_watcher_event(&watcher::Event::Apply(object));
            sender.send(ObjectName::new("ns", *name)).expect("it is received");
        }
        (store, requests, sender)
    }

    /// A queue without a limit.
    fn queue(
        store: Store<ConfigMap>,
        requests: UnboundedReceiver<ObjectName>,
        interruptions: watch::Receiver<BTreeSet<&'static str>>,
        stop: CancellationToken,
    ) -> WorkQueue<ConfigMap> {
        let metrics = Metrics::new().controller("test");
        WorkQueue { store, kind: (), requests, controller: "test", metrics, concurrency: 0, interruptions, stop }
    }

    /// Whether a future does nothing before something happens, once it was polled a few times.
    async fn is_waiting(mut future: Pin<&mut impl Future<Output: Sized>>) -> bool {
        for _ in 0..100 {
            let count = Arc::new(Count::default());
            let waker = Waker::from(count.clone());
            assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            // A task that yields is woken by the runtime, a turn later.
            tokio::task::yield_now().await;
            if count.0.load(Ordering::Relaxed) == 0 {
                return true;
            }
        }
        false
    }

    #[tokio::test(start_paused = true)]
    async fn a_stopping_queue_does_not_wake_itself_for_due_objects() {
        let (store, requests, _sender) = requested(&["a", "b"]);
        let stop = CancellationToken::new();
        // The first is never done, and the second is due again in a second.
        let work = async |object: Arc<ConfigMap>| match object.metadata.name.as_deref() {
            Some("a") => std::future::pending::<Result<Action, ()>>().await,
            _ => Ok(Action::requeue(Duration::from_secs(1))),
        };
        let interruptions = watch::Sender::default().subscribe();
        let mut processing = pin!(queue(store, requests, interruptions, stop.clone()).process(
            work,
            |_, ()| Action::await_change(),
            |_| {}
        ));
        assert!(is_waiting(processing.as_mut()).await);
        stop.cancel();
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(is_waiting(processing.as_mut()).await, "it wakes itself");
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_does_not_wake_itself_for_a_namespace_that_may_begin_nothing() {
        let names: Vec<_> = (0..=MAX_RECONCILES).map(|number| number.to_string()).collect();
        let (store, requests, _sender) = requested(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let begun = AtomicUsize::new(0);
        let work = async |_| {
            begun.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<Result<Action, ()>>().await
        };
        let (interruptions, stop) = (watch::Sender::default().subscribe(), CancellationToken::new());
        let queue = queue(store, requests, interruptions, stop);
        let mut processing = pin!(queue.process(work, |_, ()| Action::await_change(), |_| {}));
        assert!(is_waiting(processing.as_mut()).await, "it wakes itself");
        assert_eq!(begun.load(Ordering::Relaxed), MAX_RECONCILES);
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_for_one_object_is_one_reconcile() {
        let (store, requests, _sender) = requested(&["a"; 100]);
        let (stop, reconciles) = (CancellationToken::new(), AtomicUsize::new(0));
        let work = async |_| {
            reconciles.fetch_add(1, Ordering::Relaxed);
            Ok::<_, ()>(Action::await_change())
        };
        let interruptions = watch::Sender::default().subscribe();
        let processing =
            queue(store, requests, interruptions, stop.clone()).process(work, |_, ()| Action::await_change(), |_| {});
        let (ended, ()) = tokio::join!(processing, async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            stop.cancel();
        });
        assert!(ended.is_ok(), "nothing panicked");
        assert_eq!(reconciles.into_inner(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_ends_the_queue_and_drops_what_was_begun() {
        let (store, requests, _sender) = requested(&["slow", "bad"]);
        let (dropped, stop) = (CancellationToken::new(), CancellationToken::new());
        let work = async |object: Arc<ConfigMap>| {
            let _guard = dropped.clone().drop_guard();
            match object.metadata.name.as_deref() {
                Some("bad") => panic!("as a bug would"),
                _ => std::future::pending::<Result<Action, ()>>().await,
            }
        };
        let interruptions = watch::Sender::default().subscribe();
        let queue = queue(store, requests, interruptions, stop);
        let ended = queue.process(work, |_, ()| Action::await_change(), |_| {}).await;
        let panicked = ended.expect_err("it panicked");
        assert_eq!((panicked.controller, panicked.object.name.as_str()), ("test", "bad"));
        assert!(dropped.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn each_reconcile_is_measured() {
        let (store, requests, _sender) = requested(&["bad", "good", "slow"]);
        let (stop, all, interruptions) =
            (CancellationToken::new(), Metrics::new(), watch::Sender::default().subscribe());
        let work = async |object: Arc<ConfigMap>| match object.metadata.name.as_deref() {
            Some("bad") => Err(()),
            Some("good") => Ok(Action::await_change()),
            _ => std::future::pending().await,
        };
        let metrics = all.controller("test");
        let queue = WorkQueue { metrics, concurrency: 1, ..queue(store, requests, interruptions, stop) };
        let mut processing = pin!(queue.process(work, |_, ()| Action::requeue(Duration::from_secs(9)), |_| {}));
        assert!(is_waiting(processing.as_mut()).await);
        tokio::time::advance(Duration::from_secs(30)).await;
        for line in [
            r#"workqueue_depth{name="test",controller="test"} 0"#,
            r#"workqueue_adds_total{name="test",controller="test"} 3"#,
            r#"workqueue_retries_total{name="test",controller="test"} 1"#,
            r#"workqueue_queue_duration_seconds_count{name="test",controller="test"} 3"#,
            r#"workqueue_work_duration_seconds_count{name="test",controller="test"} 2"#,
            r#"workqueue_longest_running_processor_seconds{name="test",controller="test"} 30.0"#,
            r#"controller_runtime_reconcile_total{controller="test",result="error"} 1"#,
            r#"controller_runtime_reconcile_total{controller="test",result="success"} 1"#,
            r#"controller_runtime_active_workers{controller="test"} 1"#,
            r#"controller_runtime_max_concurrent_reconciles{controller="test"} 1.0"#,
        ] {
            has(&all, line);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_begun_while_a_watch_is_interrupted() {
        let (store, requests, _sender) = requested(&["a"]);
        let (stop, reconciles, kinds) =
            (CancellationToken::new(), AtomicUsize::new(0), watch::Sender::new(["ConfigMap"].into()));
        let work = async |_| {
            reconciles.fetch_add(1, Ordering::Relaxed);
            Ok::<_, ()>(Action::requeue(Duration::from_secs(1)))
        };
        let interruptions = kinds.subscribe();
        let processing =
            queue(store, requests, interruptions, stop.clone()).process(work, |_, ()| Action::await_change(), |_| {});
        let mut counts = Vec::new();
        let (ended, ()) = tokio::join!(processing, async {
            for interrupted in [true, false, true] {
                kinds.send_modify(|kinds| kinds.clear());
                kinds.send_modify(|kinds| kinds.extend(interrupted.then_some("ConfigMap")));
                tokio::time::sleep(Duration::from_millis(1500)).await;
                counts.push(reconciles.load(Ordering::Relaxed));
            }
            stop.cancel();
        });
        assert!(ended.is_ok(), "nothing panicked");
        assert_eq!(counts, [0, 2, 2]);
    }
}
