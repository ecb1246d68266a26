//! What can go wrong on a wire: with which calls, how often, and whether OpenStack does the work all the same.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

/// Every call, to Keystone too.
pub const EVERYTHING: &str = "*";
/// Every call to Neutron.
pub const NEUTRON: &str = "neutron";
/// Asking Keystone for a token.
pub const TOKEN: &str = "POST auth/tokens";

/// One thing that goes wrong, until told otherwise every time and before OpenStack hears of the call.
#[derive(Clone)]
pub struct Fault {
    calls: &'static str,
    /// How many times it still happens; `None`: as long as it is on the wire.
    pub(super) left: Option<usize>,
    /// OpenStack does what was asked, and only the answer is lost.
    pub(super) is_done: bool,
    pub(super) how: How,
}

/// What the caller gets instead of the answer.
#[derive(Clone)]
pub(super) enum How {
    Answer(u16, Vec<(&'static str, String)>, String),
    Break,
    Never,
    Late(Duration),
    Change(Arc<dyn Fn(String) -> String + Send + Sync>),
}

impl Fault {
    fn new(calls: &'static str, how: How) -> Self {
        Self { calls, left: None, is_done: false, how }
    }

    /// Somebody on the way answers in a page of HTML.
    pub fn page(calls: &'static str, status: u16) -> Self {
        Self::says(calls, status, "<html><h1>It is not me whom you want</h1></html>")
    }

    /// Neutron refuses, in its own form.
    pub fn refusal(calls: &'static str, status: u16, error_type: &str) -> Self {
        let body = json!({"NeutronError": {"type": error_type, "message": "It does not do so now.", "detail": ""}});
        Self::says(calls, status, &body.to_string())
    }

    /// The token is refused.
    pub fn unauthorized(calls: &'static str) -> Self {
        let body = json!({"error": {"code": 401, "title": "Unauthorized", "message": "The token is not good."}});
        Self::says(calls, 401, &body.to_string())
    }

    /// A rate limit, with a time to wait or without.
    pub fn limit(calls: &'static str, seconds: Option<u32>) -> Self {
        let headers = seconds.map(|seconds| ("retry-after", seconds.to_string())).into_iter().collect();
        Self::new(calls, How::Answer(429, headers, r#"{"error": {"message": "slow down"}}"#.to_owned()))
    }

    /// A redirect to another server.
    pub fn redirect(calls: &'static str, status: u16, to: &str) -> Self {
        Self::new(calls, How::Answer(status, vec![("location", format!("{to}/v3/auth/tokens"))], String::new()))
    }

    /// An answer of any kind.
    pub fn says(calls: &'static str, status: u16, body: &str) -> Self {
        Self::new(calls, How::Answer(status, Vec::new(), body.to_owned()))
    }

    /// The connection breaks without a word.
    pub fn reset(calls: &'static str) -> Self {
        Self::new(calls, How::Break)
    }

    /// Nobody ever answers.
    pub fn silence(calls: &'static str) -> Self {
        Self::new(calls, How::Never)
    }

    /// It takes this long before OpenStack hears of it; that it does, whatever became of the caller.
    pub fn delay(calls: &'static str, pause: Duration) -> Self {
        Self::new(calls, How::Late(pause))
    }

    /// Half of the answer comes.
    pub fn truncated(calls: &'static str) -> Self {
        Self::changed(calls, |text| text.chars().take(text.chars().count() / 2).collect())
    }

    /// The answer says something else.
    pub fn changed(calls: &'static str, change: impl Fn(String) -> String + Send + Sync + 'static) -> Self {
        Self { is_done: true, ..Self::new(calls, How::Change(Arc::new(change))) }
    }

    /// The same for an answer in JSON; others stay as they are.
    pub fn edited(calls: &'static str, edit: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        Self::changed(calls, move |text| match serde_json::from_str(&text) {
            Ok(mut body) => {
                edit(&mut body);
                body.to_string()
            }
            Err(_) => text,
        })
    }

    /// OpenStack does what was asked; the caller hears this instead of its answer.
    pub fn done(self) -> Self {
        Self { is_done: true, ..self }
    }

    /// So many times, and then no more.
    pub fn times(self, times: usize) -> Self {
        Self { left: Some(times), ..self }
    }

    /// One time.
    pub fn once(self) -> Self {
        self.times(1)
    }

    /// Whether it happens to this call.
    pub(super) fn meets(&self, call: &str, is_keystone: bool) -> bool {
        let is_meant = match self.calls {
            EVERYTHING => true,
            NEUTRON => !is_keystone,
            calls => calls == call,
        };
        is_meant && self.left != Some(0)
    }

    /// What it is, for a reader of a failed test.
    pub(super) fn describe(&self) -> String {
        let how = match &self.how {
            How::Answer(status, ..) => format!("{status}"),
            How::Break => "reset".to_owned(),
            How::Never => "silence".to_owned(),
            How::Late(pause) => format!("late by {pause:?}"),
            How::Change(_) => "another answer".to_owned(),
        };
        format!("{}: {how}{} ({:?} left)", self.calls, if self.is_done { " after the work" } else { "" }, self.left)
    }
}
