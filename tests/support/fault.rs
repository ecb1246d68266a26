//! Faults of calls to OpenStack: of which calls, how often, and whether OpenStack does the work.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

/// Every call, to Keystone too.
pub const EVERYTHING: &str = "*";
/// Every call to Neutron.
pub const NEUTRON: &str = "neutron";
/// Requests of a token from Keystone.
pub const TOKEN: &str = "POST auth/tokens";

/// Happens to every such call, and before OpenStack receives it, unless [`Self::times`] and [`Self::done`] say otherwise.
#[derive(Clone)]
pub struct Fault {
    calls: &'static str,
    /// How many times it still happens; `None`: always.
    pub(super) left: Option<usize>,
    /// OpenStack does the work, and only the answer is lost.
    pub(super) is_done: bool,
    pub(super) effect: Effect,
}

/// What the caller gets instead of the answer.
#[derive(Clone)]
pub(super) enum Effect {
    Answer(u16, Vec<(&'static str, String)>, String),
    Reset,
    NoAnswer,
    Delay(Duration),
    Rewrite(Arc<dyn Fn(String) -> String + Send + Sync>),
}

impl Fault {
    fn new(calls: &'static str, effect: Effect) -> Self {
        Self { calls, left: None, is_done: false, effect }
    }

    /// A load balancer answers with HTML.
    pub fn page(calls: &'static str, status: u16) -> Self {
        Self::says(calls, status, "<html><h1>Bad gateway</h1></html>")
    }

    /// Neutron refuses the call.
    pub fn refusal(calls: &'static str, status: u16, error_type: &str) -> Self {
        let body = json!({"NeutronError": {"type": error_type, "message": "It does not do so now.", "detail": ""}});
        Self::says(calls, status, &body.to_string())
    }

    /// The token is refused.
    pub fn unauthorized(calls: &'static str) -> Self {
        let body = json!({"error": {"code": 401, "title": "Unauthorized", "message": "The token is not good."}});
        Self::says(calls, 401, &body.to_string())
    }

    /// A rate limit, with or without `Retry-After`.
    pub fn limit(calls: &'static str, seconds: Option<u32>) -> Self {
        let headers = seconds.map(|seconds| ("retry-after", seconds.to_string())).into_iter().collect();
        Self::new(calls, Effect::Answer(429, headers, r#"{"error": {"message": "slow down"}}"#.to_owned()))
    }

    /// A redirect to another server.
    pub fn redirect(calls: &'static str, status: u16, to: &str) -> Self {
        Self::new(calls, Effect::Answer(status, vec![("location", format!("{to}/v3/auth/tokens"))], String::new()))
    }

    pub fn says(calls: &'static str, status: u16, body: &str) -> Self {
        Self::new(calls, Effect::Answer(status, Vec::new(), body.to_owned()))
    }

    /// The connection is reset.
    pub fn reset(calls: &'static str) -> Self {
        Self::new(calls, Effect::Reset)
    }

    /// There is never an answer.
    pub fn silence(calls: &'static str) -> Self {
        Self::new(calls, Effect::NoAnswer)
    }

    /// OpenStack receives the call after this time, even when the caller has ended.
    pub fn delay(calls: &'static str, pause: Duration) -> Self {
        Self::new(calls, Effect::Delay(pause))
    }

    /// The caller gets half of the answer.
    pub fn truncated(calls: &'static str) -> Self {
        Self::changed(calls, |text| text.chars().take(text.chars().count() / 2).collect())
    }

    /// The caller gets another answer.
    pub fn changed(calls: &'static str, change: impl Fn(String) -> String + Send + Sync + 'static) -> Self {
        Self { is_done: true, ..Self::new(calls, Effect::Rewrite(Arc::new(change))) }
    }

    /// The same for an answer in JSON; others do not change.
    pub fn edited(calls: &'static str, edit: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        Self::changed(calls, move |text| match serde_json::from_str(&text) {
            Ok(mut body) => {
                edit(&mut body);
                body.to_string()
            }
            Err(_) => text,
        })
    }

    /// OpenStack does the work; only its answer is replaced.
    pub fn done(self) -> Self {
        Self { is_done: true, ..self }
    }

    pub fn times(self, times: usize) -> Self {
        Self { left: Some(times), ..self }
    }

    pub fn once(self) -> Self {
        self.times(1)
    }

    pub(super) fn applies_to(&self, call: &str, is_keystone: bool) -> bool {
        let is_meant = match self.calls {
            EVERYTHING => true,
            NEUTRON => !is_keystone,
            calls => calls == call,
        };
        is_meant && self.left != Some(0)
    }

    /// For the message of a failed test.
    pub(super) fn describe(&self) -> String {
        let effect = match &self.effect {
            Effect::Answer(status, ..) => format!("{status}"),
            Effect::Reset => "reset".to_owned(),
            Effect::NoAnswer => "no answer".to_owned(),
            Effect::Delay(pause) => format!("delayed by {pause:?}"),
            Effect::Rewrite(_) => "another answer".to_owned(),
        };
        format!("{}: {effect}{} ({:?} left)", self.calls, if self.is_done { " after the work" } else { "" }, self.left)
    }
}
