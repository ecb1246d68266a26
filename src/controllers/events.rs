//! Writes events. Most are announced: they are queued and written in the background, so that a burst of claims is bound
//! first. An event about something left behind is recorded at once.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::mpsc;

use crate::runtime::telemetry::chain;
use crate::text::one_line;

/// How long writing the remaining events may take when the process ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) struct Events {
    recorder: Recorder,
    queue: mpsc::UnboundedSender<(ObjectReference, Event)>,
}

/// The events that were announced and not yet written.
pub(super) struct QueuedEvents {
    recorder: Recorder,
    queue: mpsc::UnboundedReceiver<(ObjectReference, Event)>,
}

pub(super) fn channel(client: kube::Client) -> (Events, QueuedEvents) {
    let instance = std::env::var("POD_NAME").ok();
    let recorder = Recorder::new(client, Reporter { controller: "caip-openstack".into(), instance });
    let (send, receive) = mpsc::unbounded_channel();
    (Events { recorder: recorder.clone(), queue: send }, QueuedEvents { recorder, queue: receive })
}

impl Events {
    /// Queues an event; it is lost if the process dies first.
    pub(super) fn announce(&self, on: ObjectReference, type_: EventType, reason: &str, action: &str, note: String) {
        // Sending fails only when the process ends.
        let _ = self.queue.send((on, event(type_, reason, action, &note)));
    }

    /// Writes an event, or fails to, before it returns.
    pub(super) async fn record(&self, on: ObjectReference, type_: EventType, reason: &str, action: &str, note: String) {
        publish(&self.recorder, &on, &event(type_, reason, action, &note)).await;
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
                    Some((on, event)) => publish(&self.recorder, &on, &event).await,
                    None => return,
                },
            }
        }
        self.queue.close();
        let rest = async {
            while let Some((on, event)) = self.queue.recv().await {
                publish(&self.recorder, &on, &event).await;
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

/// A lost event is not worth a failure.
async fn publish(recorder: &Recorder, on: &ObjectReference, event: &Event) {
    if let Err(error) = recorder.publish(event, on).await {
        tracing::debug!(error = %chain(&error), reason = event.reason, "event not recorded");
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
