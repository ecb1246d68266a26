//! The closed sets that label what is counted.

use std::fmt;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};

use crate::allocation::claim::Origin;

/// Where a claim's address came from. A wrapper, since the allocation core knows nothing of metrics.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Source(pub(super) Origin);

impl Source {
    const fn as_str(self) -> &'static str {
        self.0.as_str()
    }
}

/// What became of a floating IP that was released.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Sweep {
    /// Deleted in Neutron.
    Deleted,
    /// Kept for the pool.
    Retained,
    /// Given back to the project without our marks.
    Unmarked,
}

impl Sweep {
    pub(super) const ALL: [Self; 3] = [Self::Deleted, Self::Retained, Self::Unmarked];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Retained => "retained",
            Self::Unmarked => "unmarked",
        }
    }
}

/// Whether something that can fail did.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// It was done.
    Success,
    /// It was not.
    Failure,
}

impl Outcome {
    pub(super) const ALL: [Self; 2] = [Self::Success, Self::Failure];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
        }
    }
}

impl<T, E> From<&Result<T, E>> for Outcome {
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
label_value!(Source, Sweep, Outcome);

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(super) struct Allocation {
    pub(super) source: Source,
    pub(super) result: Outcome,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(super) struct Done {
    pub(super) result: Outcome,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(super) struct Swept {
    pub(super) how: Sweep,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(super) struct Request {
    pub(super) operation: &'static str,
    pub(super) result: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(super) struct Operation {
    pub(super) operation: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(super) struct Controller {
    pub(super) controller: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(super) struct Build {
    pub(super) version: &'static str,
    /// As exporters commonly call the commit.
    pub(super) revision: &'static str,
}
