//! Exit codes and errors. The codes are documented in docs/kubectl-fippool.md and do not change.

use std::process::ExitCode;

pub(super) const YES: u8 = 0;
/// The command worked, and its answer is negative: not ready, no holder, no address, orphans found, obstacles.
pub(super) const NO: u8 = 1;
/// The command line, or a file that it names, is wrong. clap uses the same code.
pub(super) const USAGE: u8 = 2;
pub(super) const NOT_FOUND: u8 = 3;
/// A request to Kubernetes or OpenStack failed.
pub(super) const REQUEST_FAILED: u8 = 4;
pub(super) const TIMEOUT: u8 = 5;

/// The result of a command that completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    Yes,
    No,
}

impl Answer {
    pub(super) fn yes_if(condition: bool) -> Self {
        if condition { Self::Yes } else { Self::No }
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

/// Why a command could not complete.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The command line, or a file that it names.
    #[error("{0}")]
    Usage(String),
    /// An object or kind that the command needs.
    #[error("{0}")]
    NotFound(String),
    /// A call to Kubernetes or OpenStack, or output.
    #[error("failed to {0}")]
    Request(String),
    #[error("not ready within {0:?}")]
    TimedOut(std::time::Duration),
}

impl Failure {
    /// A call to Kubernetes failed; `what` completes "failed to …".
    pub(super) fn kubernetes(what: &str, error: &kube::Error) -> Self {
        let why = match error {
            kube::Error::Api(status) if status.code == 403 => {
                format!("{} (docs/kubectl-fippool.md lists the permissions that each command needs)", status.message)
            }
            kube::Error::Api(status) => status.message.clone(),
            error => crate::runtime::telemetry::chain(error),
        };
        Self::Request(format!("{what}: {why}"))
    }

    pub(super) fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Usage(_) => USAGE,
            Self::NotFound(_) => NOT_FOUND,
            Self::Request(_) => REQUEST_FAILED,
            Self::TimedOut(_) => TIMEOUT,
        })
    }
}
