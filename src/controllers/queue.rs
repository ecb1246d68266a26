//! One controller's work: every object that was asked for is looked at, in the order in which that was due.
//!
//! Ours in place of kube's `Controller`, whose objects wait and run in the order of a hash that differs from process to
//! process: what follows from the order of two claims could be neither simulated nor repeated. Here the order is that of
//! the asking. **Guaranteed:** one object is looked at once at a time, different ones side by side; an object that is
//! asked for while it is looked at is looked at once more; the earlier of two dates counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kube::Resource;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::object_name::ObjectName;
use crate::runtime::telemetry;

/// When an object is looked at again if nobody asks for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Action(Option<Duration>);

impl Action {
    /// Not by itself.
    pub(super) fn await_change() -> Self {
        Self(None)
    }

    /// After so long.
    pub(super) fn requeue(after: Duration) -> Self {
        Self(Some(after))
    }
}

/// Further than any wait of ours, and near enough for every timer.
const FAR: Duration = Duration::from_secs(86400 * 30);

/// Looks at what is asked for until `stop`, and then finishes what was begun. At most `side_by_side` objects at a time;
/// 0 for no limit.
pub(super) async fn run<K, E>(
    store: Store<K>,
    mut asked: UnboundedReceiver<ObjectRef<K>>,
    side_by_side: usize,
    stop: CancellationToken,
    reconcile: impl AsyncFn(Arc<K>) -> Result<Action, E>,
    on_error: impl Fn(Arc<K>, &E) -> Action,
) where
    K: Resource + Clone + 'static,
    K::DynamicType: Eq + std::hash::Hash + Clone,
{
    let most = if side_by_side == 0 { usize::MAX } else { side_by_side };
    let mut queue = Queue::default();
    let mut running = FuturesUnordered::new();
    let (reconcile, on_error) = (&reconcile, &on_error);
    let ask = |queue: &mut Queue<_>, reference: ObjectRef<K>| {
        let name = ObjectName::new(reference.namespace.clone().unwrap_or_default(), &reference.name);
        queue.ask(name, reference, Instant::now());
    };
    loop {
        // All of a burst first: whoever is asked for ten times in it is looked at once.
        while let Ok(reference) = asked.try_recv() {
            ask(&mut queue, reference);
        }
        while running.len() < most && !stop.is_cancelled() {
            let Some((name, reference)) = queue.take(Instant::now()) else { break };
            match store.get(&reference) {
                Some(object) => {
                    let span = telemetry::reconcile_span(&reference);
                    let work = async move {
                        let result = reconcile(object.clone()).await;
                        (name, reference, result.unwrap_or_else(|error| on_error(object, &error)))
                    };
                    running.push(work.instrument(span));
                }
                // It is gone; if it comes back, the watch asks for it.
                None => queue.end(&name),
            }
        }
        let due = queue.due().filter(|_| running.len() < most && !stop.is_cancelled());
        let due = due.unwrap_or_else(|| Instant::now() + FAR);
        tokio::select! {
            // In this order always, so that a simulation repeats.
            biased;
            Some((name, reference, Action(again))) = running.next() => {
                queue.end(&name);
                if let Some(after) = again {
                    queue.ask(name, reference, Instant::now() + after.min(FAR));
                }
            }
            () = stop.cancelled(), if running.is_empty() => return,
            Some(reference) = asked.recv(), if !stop.is_cancelled() => ask(&mut queue, reference),
            () = tokio::time::sleep_until(due) => {}
        }
    }
}

/// Who is asked for, and when that is due.
struct Queue<R> {
    due: BTreeMap<(Instant, u64), (ObjectName, R)>,
    at: BTreeMap<ObjectName, (Instant, u64)>,
    running: BTreeSet<ObjectName>,
    /// Asked for while they were looked at, with the date.
    again: BTreeMap<ObjectName, (Instant, R)>,
    next: u64,
}

impl<R> Default for Queue<R> {
    fn default() -> Self {
        Self { due: BTreeMap::new(), at: BTreeMap::new(), running: BTreeSet::new(), again: BTreeMap::new(), next: 0 }
    }
}

impl<R> Queue<R> {
    /// Asks for an object.
    fn ask(&mut self, name: ObjectName, reference: R, when: Instant) {
        if self.running.contains(&name) {
            if self.again.get(&name).is_none_or(|(at, _)| when < *at) {
                self.again.insert(name, (when, reference));
            }
            return;
        }
        if let Some(at) = self.at.get(&name) {
            if at.0 <= when {
                return;
            }
            self.due.remove(at);
        }
        self.next += 1;
        self.at.insert(name.clone(), (when, self.next));
        self.due.insert((when, self.next), (name, reference));
    }

    /// The first object that is due; it is looked at until [`Self::end`].
    fn take(&mut self, now: Instant) -> Option<(ObjectName, R)> {
        let first = self.due.first_entry().filter(|first| first.key().0 <= now)?;
        let (name, reference) = first.remove();
        self.at.remove(&name);
        self.running.insert(name.clone());
        Some((name, reference))
    }

    /// The object was looked at.
    fn end(&mut self, name: &ObjectName) {
        self.running.remove(name);
        if let Some((when, reference)) = self.again.remove(name) {
            self.ask(name.clone(), reference, when);
        }
    }

    /// When the next object is due.
    fn due(&self) -> Option<Instant> {
        self.due.first_key_value().map(|((when, _), _)| *when)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake, Waker};

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::runtime::{reflector, watcher};

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stopping_queue_does_not_wake_itself_for_due_objects() {
        let (store, mut writer) = reflector::store::<ConfigMap>();
        let (ask, asked) = tokio::sync::mpsc::unbounded_channel();
        for name in ["a", "b"] {
            let mut object = ConfigMap::default();
            object.metadata.name = Some(name.into());
            writer.apply_watcher_event(&watcher::Event::Apply(object));
            ask.send(ObjectRef::<ConfigMap>::new(name)).expect("it is received");
        }
        let stop = CancellationToken::new();
        // The first is never done, and the second is due again in a second.
        let work = async |object: Arc<ConfigMap>| match object.metadata.name.as_deref() {
            Some("a") => std::future::pending::<Result<Action, ()>>().await,
            _ => Ok(Action::requeue(Duration::from_secs(1))),
        };
        let mut run = pin!(run(store, asked, 0, stop.clone(), work, |_, ()| Action::await_change()));
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let mut look = || assert!(run.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        look();
        stop.cancel();
        tokio::time::advance(Duration::from_secs(2)).await;
        look();
        // Who yields is woken by the runtime, a turn later.
        tokio::task::yield_now().await;
        let before = count.0.load(Ordering::Relaxed);
        look();
        tokio::task::yield_now().await;
        assert_eq!(count.0.load(Ordering::Relaxed), before, "it does not wake itself");
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_for_one_object_is_one_reconcile() {
        let (store, mut writer) = reflector::store::<ConfigMap>();
        let (ask, asked) = tokio::sync::mpsc::unbounded_channel();
        let mut object = ConfigMap::default();
        object.metadata.name = Some("a".into());
        writer.apply_watcher_event(&watcher::Event::Apply(object));
        for _ in 0..100 {
            ask.send(ObjectRef::<ConfigMap>::new("a")).expect("it is received");
        }
        let (stop, looks) = (CancellationToken::new(), AtomicUsize::new(0));
        let work = async |_| {
            looks.fetch_add(1, Ordering::Relaxed);
            Ok::<_, ()>(Action::await_change())
        };
        let run = run(store, asked, 0, stop.clone(), work, |_, ()| Action::await_change());
        tokio::join!(run, async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            stop.cancel();
        });
        assert_eq!(looks.into_inner(), 1);
    }

    fn name(name: &str) -> ObjectName {
        ObjectName::new("ns", name)
    }

    fn taken(queue: &mut Queue<()>, now: Instant) -> Vec<String> {
        std::iter::from_fn(|| queue.take(now)).map(|(name, ())| name.name).collect()
    }

    #[test]
    fn objects_are_taken_in_the_order_of_the_requests() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for each in ["c", "a", "b", "a"] {
            queue.ask(name(each), (), now);
        }
        assert_eq!(taken(&mut queue, now), ["c", "a", "b"]);
    }

    #[test]
    fn the_earlier_of_two_due_times_counts() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let later = now + Duration::from_secs(9);
        queue.ask(name("a"), (), later);
        queue.ask(name("b"), (), now);
        assert_eq!(taken(&mut queue, now), ["b"]);
        assert_eq!(queue.due(), Some(later));
        queue.ask(name("a"), (), now);
        queue.ask(name("a"), (), later);
        assert_eq!(taken(&mut queue, now), ["a"]);
        assert_eq!(queue.due(), None);
    }

    #[test]
    fn an_object_requested_during_its_reconcile_is_reconciled_once_more() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.ask(name("a"), (), now);
        assert_eq!(taken(&mut queue, now), ["a"]);
        queue.ask(name("a"), (), now);
        queue.ask(name("a"), (), now);
        assert_eq!(taken(&mut queue, now), Vec::<String>::new(), "once at a time");
        queue.end(&name("a"));
        assert_eq!(taken(&mut queue, now), ["a"]);
        queue.end(&name("a"));
        assert_eq!(taken(&mut queue, now), Vec::<String>::new());
    }
}
