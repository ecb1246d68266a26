//! One thing that was looked at.

use anstyle::AnsiColor;
use serde::Serialize;

use crate::plugin::output::{paint, style};

/// How it is.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Status {
    /// As it should be.
    Ok,
    /// It works, but somebody should look at it.
    Warning,
    /// It does not work.
    Failed,
    /// This user may not look at it.
    Unknown,
}

/// One thing that was looked at.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub(super) struct Finding {
    /// What it is about: `Installation`, `Controller`, or a pool.
    pub(super) subject: String,
    /// What was looked at; one word, which does not change.
    pub(super) check: &'static str,
    pub(super) status: Status,
    /// What is so; when it is not well, what to do.
    pub(super) message: String,
}

impl Finding {
    /// The CRDs of ours and of Cluster API.
    pub(super) const KINDS: [&'static str; 2] = ["crd", "cluster-api"];

    pub(super) fn new(subject: &str, check: &'static str, status: Status, message: impl Into<String>) -> Self {
        Self { subject: subject.into(), check, status, message: message.into() }
    }

    /// Whether pools can be asked for, as far as this goes.
    pub(super) fn is_about_kinds_and_fine(&self) -> bool {
        !Self::KINDS.contains(&self.check) || self.status != Status::Failed
    }

    /// One line.
    pub(super) fn line(&self, widest: usize) -> String {
        let (sign, colour) = match self.status {
            Status::Ok => ("✓", AnsiColor::Green),
            Status::Warning => ("!", AnsiColor::Yellow),
            Status::Failed => ("✗", AnsiColor::Red),
            Status::Unknown => ("?", AnsiColor::Cyan),
        };
        format!("  {} {:widest$}  {}\n", paint(style(colour), sign), self.check, self.message)
    }
}
