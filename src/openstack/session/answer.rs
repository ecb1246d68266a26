//! What an HTTP answer means: Neutron's type and message, the status, and what follows for the caller and the cloud.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use serde_json::Value;

use super::super::{Error, ErrorKind};
use super::gate::Verdict;

/// A condition is read in a terminal; Neutron's own messages are shorter, but some quote what they were sent.
const LONGEST_MESSAGE: usize = 240;

/// A tenant chooses the server that sends `Retry-After`. Less than the minimum would requeue without a pause; more than
/// the maximum would leave a pool unattended for longer than an API limiter's window, which is minutes.
const MIN_RETRY_AFTER: Duration = Duration::from_secs(1);
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// The error that an answer other than a success is.
pub(super) fn error(response: &Response<Bytes>) -> Error {
    let status = response.status();
    let said = said(response.body());
    let (error_type, message) = match said {
        Some((error_type, message)) => (error_type, one_line(&message)),
        // Somebody else's page, a proxy's as a rule: its text is not for a condition.
        None => (None, format!("the answer is {status}, and not from OpenStack by its form")),
    };
    let kind = kind(status, error_type.as_deref());
    Error {
        kind,
        operation: "",
        message,
        status: Some(status.as_u16()),
        error_type,
        request_id: request_id(response.headers()),
        retry_after: retry_after(response.headers()),
    }
}

fn kind(status: StatusCode, error_type: Option<&str>) -> ErrorKind {
    match (status.as_u16(), error_type) {
        (404, Some("NetworkNotFound" | "ExternalNetworkNotFound" | "SubnetNotFound")) => ErrorKind::BadNetwork,
        // Neutron's word for a path that it does not have, as without an extension. Nothing is gone.
        (404, Some("HTTPNotFound")) => ErrorKind::Rejected,
        (404, Some(_)) => ErrorKind::NotFound,
        // Not Neutron's word: to take it for "gone" would give away what is in use.
        (404, None) => ErrorKind::Malformed,
        (409, Some("OverQuota")) => ErrorKind::OverQuota,
        (409, Some("IpAddressGenerationFailure")) | (400, Some("ExternalIpAddressExhausted")) => {
            ErrorKind::NoMoreAddresses
        }
        (409 | 412, _) => ErrorKind::Conflict,
        (401, _) => ErrorKind::Unauthorized,
        (403, _) => ErrorKind::Forbidden,
        (429, _) => ErrorKind::TooManyRequests,
        (400..=499, _) => ErrorKind::Rejected,
        (500..=599, _) => ErrorKind::Server,
        _ => ErrorKind::Malformed,
    }
}

/// Neutron's `{"NeutronError": {"type", "message"}}`, or Keystone's and a bad token's `{"error": {"message"}}`.
fn said(body: &[u8]) -> Option<(Option<String>, String)> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match (&body["NeutronError"], &body["error"]) {
        (neutron @ Value::Object(_), _) => Some((text(&neutron["type"]), text(&neutron["message"])?)),
        // Some middleware says only this much.
        (Value::String(message), _) => Some((None, message.clone())),
        (_, keystone @ Value::Object(_)) => Some((None, text(&keystone["message"])?)),
        _ => None,
    }
}

/// Whether a refusal is in the form that OpenStack's services use.
pub(super) fn is_openstacks(body: &[u8]) -> bool {
    said(body).is_some()
}

/// One line, no longer than a condition can bear.
pub(super) fn one_line(message: &str) -> String {
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= LONGEST_MESSAGE {
        return line;
    }
    line.chars().take(LONGEST_MESSAGE).chain("…".chars()).collect()
}

/// `x-openstack-request-id`, by which the cloud's operators find the request in their logs.
pub(super) fn request_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get("x-openstack-request-id").or_else(|| headers.get("x-compute-request-id"))?;
    id.to_str().ok().map(|id| id.chars().take(64).collect())
}

/// In seconds, as every API limiter sends it. A date, which HTTP also allows, would need our clocks to agree.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).clamp(MIN_RETRY_AFTER, MAX_RETRY_AFTER))
}

/// What the end of a call says about the cloud.
pub(super) fn verdict(error: &Error) -> Verdict {
    match error.kind {
        ErrorKind::TooManyRequests => Verdict::Overloaded(error.retry_after),
        ErrorKind::Unreachable | ErrorKind::NoAnswer | ErrorKind::Server | ErrorKind::Untrusted => {
            Verdict::Failed(error.retry_after)
        }
        _ if error.status.is_some() => Verdict::Answered,
        _ => Verdict::Nothing,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by it")]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Error {
        let response =
            Response::builder().status(status).header("Retry-After", "7").header("x-openstack-request-id", "req-1");
        error(&response.body(Bytes::copy_from_slice(body.as_bytes())).unwrap())
    }

    fn neutron(status: u16, error_type: &str) -> Error {
        answer(status, &format!(r#"{{"NeutronError":{{"type":"{error_type}","message":"what it says","detail":""}}}}"#))
    }

    #[test]
    fn each_kind_of_refusal_is_told_apart() {
        for (status, error_type, kind) in [
            (404, "FloatingIPNotFound", ErrorKind::NotFound),
            (404, "TagNotFound", ErrorKind::NotFound),
            (404, "NetworkNotFound", ErrorKind::BadNetwork),
            (404, "SubnetNotFound", ErrorKind::BadNetwork),
            (404, "HTTPNotFound", ErrorKind::Rejected),
            (409, "OverQuota", ErrorKind::OverQuota),
            (409, "IpAddressGenerationFailure", ErrorKind::NoMoreAddresses),
            (400, "ExternalIpAddressExhausted", ErrorKind::NoMoreAddresses),
            (409, "FipInUseByPortForwarding", ErrorKind::Conflict),
            (412, "RevisionNumberConstraintFailed", ErrorKind::Conflict),
            (403, "PolicyNotAuthorized", ErrorKind::Forbidden),
            (400, "HTTPBadRequest", ErrorKind::Rejected),
            (500, "HTTPInternalServerError", ErrorKind::Server),
            (503, "ServiceUnavailable", ErrorKind::Server),
        ] {
            let error = neutron(status, error_type);
            assert_eq!((error.kind, error.status), (kind, Some(status)), "{error_type}");
            assert_eq!(error.error_type.as_deref(), Some(error_type));
            assert_eq!(error.message, "what it says");
            assert_eq!(error.request_id.as_deref(), Some("req-1"));
            assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
        }
        assert_eq!(answer(401, r#"{"error":{"code":401,"message":"no"}}"#).kind, ErrorKind::Unauthorized);
        assert_eq!(answer(429, "slow down").kind, ErrorKind::TooManyRequests);
        assert_eq!(answer(404, "<html>nothing here</html>").kind, ErrorKind::Malformed, "nobody knows what is gone");
    }

    #[test]
    fn a_page_of_a_proxy_never_reaches_a_message() {
        for body in ["<html>\nX-Auth-Token: gAAAA</html>", "", "{\"NeutronError\":", "[1]", "\u{0}"] {
            let error = answer(502, body);
            assert_eq!(error.kind, ErrorKind::Server);
            assert_eq!(error.message, "the answer is 502 Bad Gateway, and not from OpenStack by its form");
        }
    }

    #[test]
    fn a_message_is_one_line_of_bounded_length() {
        let error =
            answer(400, &format!(r#"{{"NeutronError":{{"type":"T","message":"a\n\tb {}"}}}}"#, "é".repeat(999)));
        assert!(error.message.starts_with("a b é") && !error.message.contains('\n'));
        assert_eq!(error.message.chars().count(), LONGEST_MESSAGE + 1);
    }
}
