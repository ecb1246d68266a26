//! How the plugin ends. The codes are documented (docs/kubectl-fippool.md) and do not change.

use std::process::ExitCode;

/// Done, and the answer is a good one.
pub(super) const YES: u8 = 0;
/// Done, and the answer is no: not ready, nobody has it, no address, something stands in the way.
pub(super) const NO: u8 = 1;
/// The command line is wrong.
pub(super) const USAGE: u8 = 2;
/// What was named does not exist.
pub(super) const NOT_FOUND: u8 = 3;
/// Kubernetes or OpenStack could not be asked.
pub(super) const ASKED: u8 = 4;
/// `check --wait` ran out of time.
pub(super) const TIMEOUT: u8 = 5;

/// What a command that could be carried out says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    Yes,
    No,
}

impl Answer {
    /// Yes when it is so.
    pub(super) fn when(is_so: bool) -> Self {
        if is_so { Self::Yes } else { Self::No }
    }
}

impl From<Answer> for ExitCode {
    fn from(answer: Answer) -> Self {
        Self::from(match answer {
            Answer::Yes => YES,
            Answer::No => NO,
        })
    }
}

/// Why a command could not be carried out: what was missing, and what to do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The command line, or a file that it names.
    #[error("{0}")]
    Usage(String),
    /// What was named does not exist.
    #[error("{0}")]
    NotFound(String),
    /// Kubernetes or OpenStack could not be asked.
    #[error("failed to {0}")]
    Asked(String),
    /// `check --wait` ran out of time.
    #[error("not ready within {0:?}")]
    TimedOut(std::time::Duration),
}

impl Failure {
    /// A call to Kubernetes; `what` finishes "failed to …".
    pub(super) fn kubernetes(what: &str, error: &kube::Error) -> Self {
        let why = match error {
            kube::Error::Api(status) if status.code == 403 => {
                format!("{} (docs/kubectl-fippool.md lists the permissions that each command needs)", status.message)
            }
            kube::Error::Api(status) => status.message.clone(),
            error => crate::runtime::telemetry::chain(error),
        };
        Self::Asked(format!("{what}: {why}"))
    }

    /// Its exit code.
    pub(super) fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Usage(_) => USAGE,
            Self::NotFound(_) => NOT_FOUND,
            Self::Asked(_) => ASKED,
            Self::TimedOut(_) => TIMEOUT,
        })
    }
}
