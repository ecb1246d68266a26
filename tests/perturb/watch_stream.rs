//! One watch on its way to the controller, event by event.

use std::future::pending;
use std::io;

use axum::body::{Body, Bytes};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until};

use super::recorder::{Delivery, Recorder};
use super::request::short_name;

pub struct WatchStream {
    from: reqwest::Response,
    to: UnboundedSender<io::Result<Bytes>>,
    resource: String,
    recorder: Recorder,
    broken: Receiver<Option<String>>,
    /// The beginning of a line.
    rest: Vec<u8>,
    held: Option<HeldEvent>,
}

struct HeldEvent {
    object: String,
    line: Vec<u8>,
    until: Instant,
}

impl WatchStream {
    /// Passes on the answer to a watch. `broken` was subscribed to before the watch began.
    pub fn pass(
        from: reqwest::Response,
        resource: String,
        broken: Receiver<Option<String>>,
        recorder: Recorder,
    ) -> Body {
        let (to, received) = unbounded_channel();
        let stream = Self { from, to, resource, recorder, broken, rest: Vec::new(), held: None };
        tokio::spawn(stream.run());
        let next = async |mut received: UnboundedReceiver<io::Result<Bytes>>| Some((received.recv().await?, received));
        Body::from_stream(futures::stream::unfold(received, next))
    }

    async fn run(mut self) {
        loop {
            let until = self.held.as_ref().map(|held| held.until);
            tokio::select! {
                chunk = self.from.chunk() => match chunk {
                    Ok(Some(bytes)) => self.take(&bytes),
                    Ok(None) => return self.deliver_held(),
                    Err(error) => return self.send(Err(io::Error::other(error))),
                },
                () = reached(until) => self.deliver_held(),
                () = is_broken(&mut self.broken, &self.resource) => return self.expire(),
                () = self.to.closed() => return,
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            self.pass_line(line);
        }
    }

    fn pass_line(&mut self, line: Vec<u8>) {
        let event: Value = serde_json::from_slice(&line).unwrap_or_default();
        let kind = event["type"].as_str().unwrap_or_default();
        if !matches!(kind, "ADDED" | "MODIFIED" | "DELETED") {
            return self.send(Ok(line.into()));
        }
        let name = event.pointer("/object/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let object = short_name(name);
        if self.held.take_if(|held| held.object == object).is_some() {
            self.recorder.held_event_ended("dropped");
        }
        match self.recorder.delivery(kind, &self.resource, &object, &event["object"]) {
            Delivery::Now => self.send(Ok(line.into())),
            Delivery::HeldUntil(until) => self.held = Some(HeldEvent { object, line, until }),
        }
    }

    fn deliver_held(&mut self) {
        if let Some(held) = self.held.take() {
            self.recorder.held_event_ended("delayed");
            self.send(Ok(held.line.into()));
        }
    }

    /// A watch that merely ends goes on from where it was; one that has expired begins again with a list.
    fn expire(&self) {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired", "code": 410,
            "message": "the watch breaks"
        });
        let line = format!("{}\n", json!({"type": "ERROR", "object": status}));
        self.send(Ok(line.into()));
    }

    fn send(&self, bytes: io::Result<Bytes>) {
        // An error means that the controller has ended.
        let _ended = self.to.send(bytes);
    }
}

async fn reached(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => pending().await,
    }
}

async fn is_broken(broken: &mut Receiver<Option<String>>, resource: &str) {
    // Only what changes from now on: the watch may be the one that follows a broken one.
    while broken.changed().await.is_ok() {
        if broken.borrow().as_deref() == Some(resource) {
            return;
        }
    }
    pending().await
}
