//! What OpenStack said, with what a user of pools can do about it. The client knows no pools, so their fields are named here.

use crate::openstack::{Error, ErrorKind};

/// A failed call in one line for a condition; nothing in it changes from one attempt to the next.
pub(super) fn explain(error: &Error) -> String {
    match remedy(error) {
        // Neutron ends its sentences.
        Some(remedy) => format!("{}; {remedy}", error.to_string().trim_end_matches('.')),
        None => error.to_string(),
    }
}

/// What to do, where the message does not say so itself: those of credentials and certificates do.
fn remedy(error: &Error) -> Option<&'static str> {
    match error.kind {
        ErrorKind::BadNetwork => Some("check spec.floatingIPNetwork and spec.subnets of the pool"),
        ErrorKind::Forbidden => {
            Some("the cloud's policy does not let this user do it: give the user the role for it in the project")
        }
        ErrorKind::Server | ErrorKind::TooManyRequests => {
            Some("it is tried again; if it stays so, ask the operators of the cloud")
        }
        // Keystone's names what to check.
        ErrorKind::Unreachable | ErrorKind::NoAnswer if !error.message.starts_with("Keystone") => {
            Some("it is tried again; if it stays so, check whether Neutron is up and can be reached from here")
        }
        _ => None,
    }
}
