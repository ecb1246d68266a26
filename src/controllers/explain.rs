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
        // What a proxy or a login page says; a message that says what to look at has a colon or a question.
        ErrorKind::Malformed if !error.message.contains(": ") && !error.message.ends_with('?') => Some(
            "something else may answer in its place: check the URL in the catalogue, and what stands between here and the cloud",
        ),
        ErrorKind::Rejected => {
            Some("it will be refused again: check the pool's spec, or ask the operators of the cloud")
        }
        // Keystone's names what to check.
        ErrorKind::Unreachable | ErrorKind::NoAnswer if !error.message.starts_with("Keystone") => {
            Some("it is tried again; if it stays so, check whether Neutron is up and can be reached from here")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_is_added_only_where_the_message_has_none() {
        let said = |kind, message: &str| explain(&Error::new(kind, "create floating IP", message));
        let bare = said(ErrorKind::Malformed, "the answer is a success, but not what Neutron would say");
        assert!(bare.contains("; something else may answer"), "{bare}");
        for (kind, message) in [
            (ErrorKind::Malformed, "k:5000 has no Keystone v3: check auth_url"),
            (ErrorKind::Malformed, "k:5000 answers, but not with a token: is auth_url Keystone's?"),
            (ErrorKind::Untrusted, "the certificate of n is not trusted: put its CA into key cacert of the Secret"),
        ] {
            assert_eq!(said(kind, message), format!("create floating IP: {message}"));
        }
        let refused = said(ErrorKind::Rejected, "Invalid input.");
        assert!(refused.starts_with("create floating IP: Invalid input; it will be refused again"), "{refused}");
    }
}
