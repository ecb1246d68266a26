//! Explains a failed call, with what to do about it. The OpenStack client does not know pools, so their fields are named
//! here.

use super::patch;
use crate::openstack::{Error, ErrorKind};

/// A failed call in one line for a condition. It is the same at each attempt.
pub(super) fn explain(error: &Error) -> String {
    if error.is_concealed {
        return format!("{}: {CONCEALED}", error.operation);
    }
    match remedy(error) {
        // Neutron ends its sentences.
        Some(remedy) => format!("{}; {remedy}", error.to_string().trim_end_matches('.')),
        None => error.to_string(),
    }
}

/// What Kubernetes refused, in one line for a condition. None for what passes.
pub(super) fn explain_refusal(what: &str, error: &kube::Error) -> Option<String> {
    let to_do = "check the controller's role, and the webhooks, policies and quotas of the namespace";
    let explained = || format!("Kubernetes refused to {what}: {}: {to_do}", patch::reply(error));
    patch::is_lasting_refusal(error).then(explained)
}

const CONCEALED: &str = "the server does not answer as OpenStack does: check auth_url and cacert in clouds.yaml, and whether OpenStack is up; the reason is in the controller's log, and here for servers that --openstack-hosts lists";

/// What to do, unless the message says so itself, as those about credentials and certificates do.
fn remedy(error: &Error) -> Option<&'static str> {
    match error.kind {
        ErrorKind::BadNetwork => Some("check spec.floatingIPNetwork and spec.subnets of the pool"),
        ErrorKind::Forbidden => {
            Some("the cloud's policy does not let this user do it: give the user the required role in the project")
        }
        ErrorKind::Server | ErrorKind::TooManyRequests => {
            Some("it is tried again; if this persists, ask the operators of the cloud")
        }
        // The answer of a proxy or a login page. A message with a remedy of its own has a colon or a question mark.
        ErrorKind::Malformed if !error.message.contains(": ") && !error.message.ends_with('?') => Some(
            "something else may answer in its place: check the URL in the catalogue, and any proxy between here and the cloud",
        ),
        ErrorKind::Rejected => {
            Some("it will be refused again: check the pool's spec, or ask the operators of the cloud")
        }
        // Keystone's messages name what to check.
        ErrorKind::Unreachable | ErrorKind::NoAnswer if !error.message.starts_with("Keystone") => {
            Some("it is tried again; if this persists, check whether Neutron is up and can be reached from here")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_for_the_log_only_is_not_explained() {
        let refused = Error::new(ErrorKind::Unreachable, "authenticate", "Keystone: 10.0.0.1:22 refuses connections");
        let concealed = explain(&Error { is_concealed: true, ..refused });
        assert!(concealed.starts_with("authenticate: the server does not answer as OpenStack does: "), "{concealed}");
        assert!(!concealed.contains("10.0.0.1") && !concealed.contains("refuses"), "{concealed}");
    }

    #[test]
    fn a_remedy_is_added_only_where_the_message_has_none() {
        let explained = |kind, message: &str| explain(&Error::new(kind, "create floating IP", message));
        let bare = explained(ErrorKind::Malformed, "the answer is a success, but not what Neutron would say");
        assert!(bare.contains("; something else may answer"), "{bare}");
        for (kind, message) in [
            (ErrorKind::Malformed, "k:5000 has no Keystone v3: check auth_url"),
            (ErrorKind::Malformed, "k:5000 answers, but not with a token: is auth_url Keystone's?"),
            (ErrorKind::Untrusted, "the certificate of n is not trusted: put its CA into key cacert of the Secret"),
        ] {
            assert_eq!(explained(kind, message), format!("create floating IP: {message}"));
        }
        let refused = explained(ErrorKind::Rejected, "Invalid input.");
        assert!(refused.starts_with("create floating IP: Invalid input; it will be refused again"), "{refused}");
    }
}
