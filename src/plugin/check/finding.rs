//! The result of one check.

use anstyle::AnsiColor;
use serde::Serialize;

use crate::plugin::output::paint;

#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Status {
    Ok,
    /// It works, but needs attention.
    Warning,
    Failed,
    /// This user may not read it.
    Unknown,
}

#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub(super) struct Finding {
    /// `Installation`, `Controller`, or a pool.
    pub(super) subject: String,
    /// One word, which scripts may rely on.
    pub(super) check: &'static str,
    pub(super) status: Status,
    /// What was found and, unless that is good, what to do.
    pub(super) message: String,
}

impl Finding {
    /// The check of our CRD.
    pub(super) const CRD: &'static str = "crd";
    /// The check of Cluster API's IPAM kinds.
    pub(super) const CLUSTER_API: &'static str = "cluster-api";

    pub(super) fn new(subject: &str, check: &'static str, status: Status, message: impl Into<String>) -> Self {
        Self { subject: subject.into(), check, status, message: message.into() }
    }

    /// Whether pools cannot be listed because of this.
    pub(super) fn is_missing_kind(&self) -> bool {
        [Self::CRD, Self::CLUSTER_API].contains(&self.check) && self.status == Status::Failed
    }

    pub(super) fn line(&self, widest: usize) -> String {
        let (sign, colour) = match self.status {
            Status::Ok => ("✓", AnsiColor::Green),
            Status::Warning => ("!", AnsiColor::Yellow),
            Status::Failed => ("✗", AnsiColor::Red),
            Status::Unknown => ("?", AnsiColor::Cyan),
        };
        format!("  {} {:widest$}  {}\n", paint(colour, sign), self.check, self.message)
    }
}
