//! Trouble on purpose: what may go wrong at each call to the in-memory cloud, and a log of the calls.

use std::time::Duration;

use super::super::{Error, ErrorKind};
use crate::floating_ip::{FloatingIpId, ProjectId};

/// One call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// Counts all calls to this cloud from 0.
    pub number: usize,
    /// The trait's method: `connect`, `create_floating_ip` and so on.
    pub operation: &'static str,
    /// The project that it works in; `connect` has none yet.
    pub project: Option<ProjectId>,
    /// The floating IP that it is about, when it names one.
    pub id: Option<FloatingIpId>,
    /// The tag or the description that it writes.
    pub text: Option<String>,
}

impl Call {
    /// Whether it changes anything in Neutron.
    pub fn is_write(&self) -> bool {
        matches!(
            self.operation,
            "create_floating_ip" | "describe_floating_ip" | "delete_floating_ip" | "add_tag" | "remove_tag"
        )
    }
}

/// When a fault strikes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Moment {
    /// Before the cloud sees the call: nothing is done.
    Before,
    /// After it is done: the caller may never hear of it.
    After,
}

/// What happens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Nothing.
    None,
    /// The caller gets this error. After the call it stands for the reply.
    Fail(ErrorKind),
    /// The call stays here for so long, in tokio's time.
    Delay(Duration),
    /// The call stays here for ever, as it does to a process that is killed at this point.
    Never,
}

impl Fault {
    /// A reply that got lost: what a caller sees of a write that may have happened.
    pub const LOST: Self = Self::Fail(ErrorKind::NoAnswer);
}

/// Decides what goes wrong. Asked twice for each call, in the order of the calls. Any closure of this form will do.
pub trait Faults: Send + Sync {
    /// What happens to `call` at `moment`.
    fn at(&self, moment: Moment, call: &Call) -> Fault;
}

impl<F: Fn(Moment, &Call) -> Fault + Send + Sync> Faults for F {
    fn at(&self, moment: Moment, call: &Call) -> Fault {
        self(moment, call)
    }
}

/// Lets a fault happen.
pub(super) async fn strike(fault: Fault, call: &Call) -> Result<(), Error> {
    match fault {
        Fault::None => Ok(()),
        Fault::Fail(kind) => {
            let message = match kind {
                ErrorKind::NoAnswer => "the cloud does not answer in time",
                ErrorKind::Unreachable => "the cloud refuses connections",
                _ => "the cloud is in trouble",
            };
            Err(Error::new(kind, call.operation, message))
        }
        Fault::Delay(time) => {
            tokio::time::sleep(time).await;
            Ok(())
        }
        Fault::Never => std::future::pending().await,
    }
}
