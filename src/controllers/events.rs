//! Writes events. Most are announced: they are queued and written in the background, so that a burst of claims is bound
//! first. An event about something left behind is recorded at once.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::runtime::telemetry::chain;
use crate::text::one_line;

/// How long writing the remaining events may take when the process ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) struct Events {
    writer: EventWriter,
    queue: mpsc::UnboundedSender<(ObjectReference, Event)>,
}

/// The events that were announced and not yet written.
pub(super) struct QueuedEvents {
    writer: EventWriter,
    queue: mpsc::UnboundedReceiver<(ObjectReference, Event)>,
}

pub(super) fn channel(client: kube::Client) -> (Events, QueuedEvents) {
    let writer = EventWriter(Arc::new(Mutex::new((recorder(&client), 0))), client);
    let (send, receive) = mpsc::unbounded_channel();
    (Events { writer: writer.clone(), queue: send }, QueuedEvents { writer, queue: receive })
}

impl Events {
    /// Queues an event; it is lost if the process dies first.
    pub(super) fn announce(&self, on: ObjectReference, type_: EventType, reason: &str, action: &str, note: String) {
        // Sending fails only when the process ends.
        let _ = self.queue.send((on, event(type_, reason, action, &note)));
    }

    /// Writes an event, or fails to, before it returns.
    pub(super) async fn record(&self, on: ObjectReference, type_: EventType, reason: &str, action: &str, note: String) {
        self.writer.write(&on, &event(type_, reason, action, &note)).await;
    }
}

impl QueuedEvents {
    /// Writes announced events until `ending`, and then the remaining ones.
    pub(super) async fn write(mut self, ending: impl Future<Output = ()>) {
        tokio::pin!(ending);
        loop {
            tokio::select! {
                biased;
                () = &mut ending => break,
                next = self.queue.recv() => match next {
                    Some((on, event)) => self.writer.write(&on, &event).await,
                    None => return,
                },
            }
        }
        self.queue.close();
        let rest = async {
            while let Some((on, event)) = self.queue.recv().await {
                self.writer.write(&on, &event).await;
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
