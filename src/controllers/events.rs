//! Writes events. Most are announced: they are queued and written in the background, so that a burst of claims is bound
//! first. An event about something left behind is recorded at once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::runtime::telemetry::chain;
use crate::text::one_line;

/// How long writing the remaining events may take when the process ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// How many events of a namespace wait at most; of more, the oldest are lost. client-go keeps as many.
const MAX_WAITING: usize = 1000;

pub(super) struct Events {
    writer: EventWriter,
    waiting: Arc<Waiting>,
}

/// The events that were announced and not yet written.
pub(super) struct QueuedEvents {
    writer: EventWriter,
    waiting: Arc<Waiting>,
}

/// Events by namespace, each oldest first. The events of one namespace are written one after another, beside those of
/// the others: one that announces many events, or whose writes are slow, delays only its own.
#[derive(Default)]
struct Waiting {
    namespaces: Mutex<BTreeMap<Option<String>, OfNamespace>>,
    added: Notify,
}

/// Kept while events wait or one is being written.
#[derive(Default)]
struct OfNamespace {
    events: VecDeque<(ObjectReference, Event)>,
    is_being_written: bool,
}

pub(super) fn channel(client: kube::Client) -> (Events, QueuedEvents) {
    let writer = EventWriter(Arc::new(Mutex::new((recorder(&client), 0))), client);
    let waiting = Arc::new(Waiting::default());
    (Events { writer: writer.clone(), waiting: waiting.clone() }, QueuedEvents { writer, waiting })
}

impl Events {
    /// Queues an event; it is lost if the process dies first.
    pub(super) fn announce(&self, on: ObjectReference, type_: EventType, reason: &str, action: &str, note: String) {
        self.waiting.add(on, event(type_, reason, action, &note));
    }

    /// Writes an event, or fails to, before it returns.
    pub(super) async fn record(&self, on: ObjectReference, type_: EventType, reason: &str, action: &str, note: String) {
        self.writer.write(&on, &event(type_, reason, action, &note)).await;
    }
}

impl Waiting {
    fn add(&self, on: ObjectReference, event: Event) {
        let mut namespaces = self.namespaces.lock();
        let of_namespace = namespaces.entry(on.namespace.clone()).or_default();
        of_namespace.events.push_back((on, event));
        if of_namespace.events.len() > MAX_WAITING
            && let Some((on, event)) = of_namespace.events.pop_front()
        {
            tracing::debug!(object.name = on.name, reason = event.reason, "event lost, too many wait");
        }
        self.added.notify_one();
    }

    /// The oldest event of each namespace of which none is being written: these are to be written now.
    fn begin(&self) -> Vec<(ObjectReference, Event)> {
        let mut namespaces = self.namespaces.lock();
        let idle = namespaces.values_mut().filter(|of_namespace| !of_namespace.is_being_written);
        let begin = |of_namespace: &mut OfNamespace| {
            of_namespace.is_being_written = true;
            of_namespace.events.pop_front()
        };
        idle.filter_map(begin).collect()
    }

    /// An event of the namespace was written.
    fn end(&self, namespace: &Option<String>) {
        let mut namespaces = self.namespaces.lock();
        let is_idle = namespaces.get_mut(namespace).is_some_and(|of_namespace| {
            of_namespace.is_being_written = false;
            of_namespace.events.is_empty()
        });
        if is_idle {
            namespaces.remove(namespace);
        }
    }
}

impl QueuedEvents {
    /// Writes announced events until `ending`, and then the remaining ones.
    pub(super) async fn write(self, ending: impl Future<Output = ()>) {
        tokio::pin!(ending);
        let mut writes = FuturesUnordered::new();
        let writer = &self.writer;
        let write = |(on, event): (ObjectReference, Event)| async move {
            writer.write(&on, &event).await;
            on.namespace
        };
        loop {
            writes.extend(self.waiting.begin().into_iter().map(write));
            tokio::select! {
                biased;
                () = &mut ending => break,
                Some(namespace) = writes.next() => self.waiting.end(&namespace),
                () = self.waiting.added.notified() => {}
            }
        }
        let rest = async {
            writes.extend(self.waiting.begin().into_iter().map(write));
            while let Some(namespace) = writes.next().await {
                self.waiting.end(&namespace);
                writes.extend(self.waiting.begin().into_iter().map(write));
            }
        };
        let _ = tokio::time::timeout(FLUSH_TIMEOUT, rest).await;
    }
}

/// Kubernetes refuses an event whose note is longer, in bytes. Addresses that are named here are in the log too.
const LONGEST_NOTE: usize = 1024;

fn event(type_: EventType, reason: &str, action: &str, note: &str) -> Event {
    let mut note = one_line(note, LONGEST_NOTE);
    if note.len() > LONGEST_NOTE {
        note.truncate(note.floor_char_boundary(LONGEST_NOTE.saturating_sub('…'.len_utf8())));
        note.push('…');
    }
    Event { type_, reason: reason.into(), note: Some(note), action: action.into(), secondary: None }
}

/// How many events a recorder writes. It remembers each for six minutes, to count repetitions, and goes through all of
/// them for each new one: with thousands of claims at once, that would be most of the controller's memory.
const EVENTS_OF_A_RECORDER: usize = 256;

/// Writes events with a recorder, which is replaced after [`EVENTS_OF_A_RECORDER`]. Clones share it.
#[derive(Clone)]
struct EventWriter(Arc<Mutex<(Recorder, usize)>>, kube::Client);

fn recorder(client: &kube::Client) -> Recorder {
    let instance = std::env::var("POD_NAME").ok();
    Recorder::new(client.clone(), Reporter { controller: "caip-openstack".into(), instance })
}

impl EventWriter {
    /// A lost event is not worth a failure.
    async fn write(&self, on: &ObjectReference, event: &Event) {
        if let Err(error) = self.next_recorder().publish(event, on).await {
            tracing::debug!(error = %chain(&error), reason = event.reason, "event not recorded");
        }
    }

    fn next_recorder(&self) -> Recorder {
        let (current, count) = &mut *self.0.lock();
        if *count >= EVENTS_OF_A_RECORDER {
            (*current, *count) = (recorder(&self.1), 0);
        }
        *count = count.saturating_add(1);
        current.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(namespace: &str, name: &str) -> ObjectReference {
        ObjectReference { namespace: Some(namespace.into()), name: Some(name.into()), ..ObjectReference::default() }
    }

    fn names(events: &[(ObjectReference, Event)]) -> Vec<&str> {
        events.iter().filter_map(|(on, _)| on.name.as_deref()).collect()
    }

    #[test]
    fn a_namespace_with_many_events_delays_and_keeps_only_its_own() {
        let waiting = Waiting::default();
        let add =
            |namespace, name: &str| waiting.add(reference(namespace, name), event(EventType::Normal, "R", "A", ""));
        for number in 0..=MAX_WAITING {
            add("loud", &number.to_string());
        }
        add("quiet", "0");
        assert_eq!(names(&waiting.begin()), ["1", "0"], "the oldest is lost");
        assert_eq!(names(&waiting.begin()), [""; 0], "one of each at a time");
        add("quiet", "1");
        waiting.end(&Some("quiet".into()));
        assert_eq!(names(&waiting.begin()), ["1"]);
        waiting.end(&Some("quiet".into()));
        assert_eq!(waiting.namespaces.lock().len(), 1, "a namespace without events is forgotten");
        waiting.end(&Some("loud".into()));
        assert_eq!(names(&waiting.begin()), ["2"]);
    }

    #[test]
    fn a_long_note_is_cut_to_the_limit_of_kubernetes() {
        for (length, kept) in [(1024, 1024), (1025, 1024), (5000, 1024)] {
            let note = event(EventType::Normal, "Reason", "Action", &"x".repeat(length)).note.unwrap_or_default();
            assert_eq!(note.len(), kept, "{length}");
            assert_eq!(note.ends_with('…'), length > 1024);
        }
        let odd =
            event(EventType::Normal, "Reason", "Action", &format!("x{}", "é".repeat(800))).note.unwrap_or_default();
        assert!(odd.len() <= 1024 && odd.ends_with("é…"), "{}", odd.len());
    }
}
