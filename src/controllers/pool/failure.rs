//! Why a pool cannot be worked with.

use std::time::Duration;

use super::{POLLED_RESYNC, PROBLEM_RETRY};
use crate::api::OpenStackFloatingIPPool;
use crate::api::conditions::pool_reasons as reasons;
use crate::controllers::explain::explain;
use crate::controllers::memory::Problem;
use crate::openstack::{self, ErrorKind};

/// Why a pool cannot be used.
#[derive(Debug)]
pub(in crate::controllers) enum PoolFailure {
    /// Another pool would serve the same claims or write the same marks.
    Conflict(Problem),
    /// The Secret, or its content.
    Credentials(Problem),
    /// The pool may not use the cluster identity that it names.
    Access(Problem),
    /// Keystone, or the connection to it.
    Session(openstack::Error),
    /// The network or a subnet.
    Network(Problem),
    /// A call to Neutron, with credentials that work.
    Neutron(openstack::Error),
}

impl Problem {
    /// A failed call to OpenStack.
    pub(in crate::controllers) fn of_call(error: &openstack::Error) -> Self {
        let reason = match error.kind {
            _ if error.is_concealed => reasons::OPENSTACK_UNREACHABLE,
            ErrorKind::Unauthorized => reasons::AUTHENTICATION_FAILED,
            ErrorKind::Credentials | ErrorKind::NoNetworkService => reasons::CREDENTIALS_INVALID,
            ErrorKind::Forbidden | ErrorKind::Rejected | ErrorKind::NotFound => reasons::OPENSTACK_REFUSED,
            _ => reasons::OPENSTACK_UNREACHABLE,
        };
        Self { reason, message: explain(error) }
    }
}

impl PoolFailure {
    /// What the conditions of the pool and its claims say.
    pub(in crate::controllers) fn problem(&self) -> Problem {
        match self {
            Self::Conflict(problem) | Self::Credentials(problem) | Self::Access(problem) | Self::Network(problem) => {
                problem.clone()
            }
            Self::Session(error) | Self::Neutron(error) => Problem::of_call(error),
        }
    }

    /// Whether a session with the credentials of this cluster identity must not be used any more, not even to release and to
    /// clean up: the pool may not use the identity, or it names another one, so that this one is no longer checked.
    pub(super) fn ends_use_of(&self, identity: Option<&str>, pool: &OpenStackFloatingIPPool) -> bool {
        let is_another = |used| pool.spec.identity_ref.cluster_identity() != Some(used);
        identity.is_some_and(|used| matches!(self, Self::Access(_)) || is_another(used))
    }

    /// How soon the pool is tried again: when the server asks for it, but after [`POLLED_RESYNC`] at most if it has a cluster
    /// identity. Nothing else shows that the namespace has lost access to that, or that it names another Secret.
    pub(super) fn retry_after(&self, pool: &OpenStackFloatingIPPool) -> Duration {
        let after = match self {
            Self::Session(error) | Self::Neutron(error) => error.retry_after.unwrap_or(PROBLEM_RETRY),
            _ => PROBLEM_RETRY,
        };
        match pool.spec.identity_ref.cluster_identity() {
            Some(_) => after.min(POLLED_RESYNC),
            None => after,
        }
    }
}
