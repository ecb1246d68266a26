//! Label sets and their values.

use std::fmt;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};

use super::clouds::CloudLabel;
use crate::allocation::origin::Origin;
use crate::text::one_line;

/// In characters: of a label value that a tenant or a server chose. Enough for a host name of 63 characters, a port and a
/// region, or for a usual endpoint; Keystone would allow 255 for the region alone.
const MAX_FOREIGN_LABEL: usize = 128;

/// A label value that a tenant or a server chose.
pub(super) fn foreign_label(text: &str) -> String {
    one_line(text, MAX_FOREIGN_LABEL)
}

/// A wrapper, because the allocation core does not depend on the metrics crate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct OriginLabel(pub(super) Origin);

impl OriginLabel {
    const fn as_str(self) -> &'static str {
        self.0.as_str()
    }
}

/// What happened to a released floating IP.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ReleasedAs {
    /// Deleted in Neutron.
    Deleted,
    /// Kept for the pool.
    Retained,
    /// Our mark was removed: it is the project's again, or another owner's.
    Unmarked,
}

impl ReleasedAs {
    pub(super) const ALL: [Self; 3] = [Self::Deleted, Self::Retained, Self::Unmarked];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Retained => "retained",
            Self::Unmarked => "unmarked",
        }
    }
}

/// How a reconcile ended, as controller-runtime names it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ReconcileResult {
    Success,
    /// It asked to be repeated later.
    RequeueAfter,
    Error,
}

impl ReconcileResult {
    pub(super) const ALL: [Self; 3] = [Self::Success, Self::RequeueAfter, Self::Error];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::RequeueAfter => "requeue_after",
            Self::Error => "error",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OperationResult {
    Success,
    Failure,
}

impl OperationResult {
    pub(super) const ALL: [Self; 2] = [Self::Success, Self::Failure];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
        }
    }
}

impl<T, E> From<&Result<T, E>> for OperationResult {
    fn from(result: &Result<T, E>) -> Self {
        if result.is_ok() { Self::Success } else { Self::Failure }
    }
}

macro_rules! label_value {
    ($($name:ty),*) => {$(
        impl EncodeLabelValue for $name {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
                self.as_str().encode(encoder)
            }
        }
    )*};
}
label_value!(CloudLabel, OriginLabel, ReconcileResult, ReleasedAs, OperationResult);

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(super) struct CloudLabelSet {
    pub(super) cloud: CloudLabel,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(super) struct AllocationLabels {
    pub(super) cloud: CloudLabel,
    pub(super) origin: OriginLabel,
    pub(super) result: OperationResult,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(super) struct ResultLabels {
    pub(super) result: OperationResult,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(super) struct TokenLabels {
    pub(super) cloud: CloudLabel,
    pub(super) result: OperationResult,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(super) struct ReleasedLabels {
    pub(super) how: ReleasedAs,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(super) struct RequestLabels {
    pub(super) cloud: CloudLabel,
    pub(super) operation: &'static str,
    pub(super) result: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(super) struct OperationLabels {
    pub(super) cloud: CloudLabel,
    pub(super) operation: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(super) struct ControllerLabels {
    pub(super) controller: &'static str,
}

/// controller-runtime gives a queue the name of its controller, in both labels.
#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(super) struct QueueLabels {
    pub(super) name: &'static str,
    pub(super) controller: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(super) struct ReconcileLabels {
    pub(super) controller: &'static str,
    pub(super) result: ReconcileResult,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(super) struct ApiRequestLabels {
    pub(super) code: String,
    pub(super) host: String,
    pub(super) method: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(super) struct ApiDurationLabels {
    pub(super) verb: String,
    pub(super) host: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(super) struct BuildLabels {
    pub(super) version: &'static str,
    /// The commit; the conventional label name for it.
    pub(super) revision: &'static str,
}
