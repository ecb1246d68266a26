//! Classifies HTTP answers other than successes: for the caller an [`Error`], for the throttle the cloud's [`Health`].

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::{Error, ErrorKind};
use super::throttle::Health;
use crate::text::one_line;

/// In characters. Neutron's messages are shorter, unless they quote the request; conditions are read in a terminal.
const MAX_MESSAGE: usize = 240;

/// In bytes. Neutron's types are the names of exceptions.
const MAX_TYPE: usize = 255;

/// A tenant chooses the server that sends `Retry-After`. Less than the minimum would requeue without a pause; more than
/// the maximum would leave a pool unattended for longer than an API limiter's window, which is minutes.
const MIN_RETRY_AFTER: Duration = Duration::from_secs(1);
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

pub(super) fn error(response: &Response<Bytes>) -> Error {
    error_without("", response)
}

/// Also without the secret, which a validation error may quote.
pub(super) fn error_without(secret: &str, response: &Response<Bytes>) -> Error {
    let status = response.status();
    let (error_type, message) = match parse_refusal(response.body()) {
        // Before the message is cut, which could leave a part of the secret.
        Some((error_type, message)) if !secret.is_empty() => {
            (error_type, one_line(&message.replace(secret, "…"), MAX_MESSAGE))
        }
        Some((error_type, message)) => (error_type, one_line(&message, MAX_MESSAGE)),
        // Usually a proxy's page, whose text is of no use in a condition.
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
        is_concealed: false,
    }
}

fn kind(status: StatusCode, error_type: Option<&str>) -> ErrorKind {
    match (status.as_u16(), error_type) {
        (404, Some("NetworkNotFound" | "ExternalNetworkNotFound" | "SubnetNotFound")) => ErrorKind::BadNetwork,
        // Neutron's answer for an unknown path, as without an extension, and for what the policy does not allow to see. It does
        // not mean that a resource is gone.
        (404, Some("HTTPNotFound")) => ErrorKind::Rejected,
        (404, Some(_)) => ErrorKind::NotFound,
        // Not from Neutron. To treat it as "gone" could give away an address that is in use.
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

/// Nothing is built of a body but what is used: as values, it would take a hundred times its memory.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(rename = "NeutronError", borrow)]
    neutron: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Details<'a> {
    #[serde(rename = "type", borrow)]
    error_type: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    title: Option<&'a RawValue>,
}

/// A struct of ours would be read from an array too.
fn object<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Option<T> {
    json.trim_ascii_start().starts_with(b"{").then(|| serde_json::from_slice(json).ok()).flatten()
}

fn details(json: &RawValue) -> Option<Details<'_>> {
    object(json.get().as_bytes())
}

fn text(json: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(json?.get()).ok()
}

/// Type and message of Neutron's `{"NeutronError": {"type", "message"}}`, or message of Keystone's, and of Neutron's for an
/// invalid token, `{"error": {"message"}}`.
fn parse_refusal(body: &[u8]) -> Option<(Option<String>, String)> {
    let body: Body = object(body)?;
    if let Some(neutron) = body.neutron.and_then(details) {
        let error_type = text(neutron.error_type).filter(|name| name.len() <= MAX_TYPE);
        return Some((error_type, text(neutron.message)?));
    }
    // Some middleware sends only a message.
    let only_message = || Some((None, text(body.neutron)?));
    only_message().or_else(|| Some((None, text(details(body.error?)?.message)?)))
}

/// Whether a refusal has a form that OpenStack's services use.
pub(super) fn is_from_openstack(body: &[u8]) -> bool {
    let Some(body) = object::<Body>(body) else { return false };
    // Others send `error` with a message too, but without Keystone's title.
    let has_title = |error: Details| text(error.message).is_some() && text(error.title).is_some();
    body.neutron.is_some() || body.error.and_then(details).is_some_and(has_title)
}

/// The cloud's operators find the request in their logs by this id.
pub(super) fn request_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get("x-openstack-request-id").or_else(|| headers.get("x-compute-request-id"))?;
    id.to_str().ok().map(|id| id.chars().take(64).collect())
}

/// In seconds, as every API limiter sends it. HTTP also allows a date, which would need synchronous clocks.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).clamp(MIN_RETRY_AFTER, MAX_RETRY_AFTER))
}

pub(super) fn health(error: &Error) -> Health {
    match error.kind {
        ErrorKind::TooManyRequests => Health::Overloaded(error.retry_after),
        // An error of one request: a healthy Neutron answers so to a tag of a floating IP that is gone.
        ErrorKind::Server if error.status == Some(500) && error.error_type.is_some() => Health::Answering,
        ErrorKind::Unreachable | ErrorKind::NoAnswer | ErrorKind::Server | ErrorKind::Untrusted => {
            Health::Failing(error.retry_after)
        }
        _ if error.status.is_some() => Health::Answering,
        _ => Health::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Error {
        let response =
            Response::builder().status(status).header("Retry-After", "7").header("x-openstack-request-id", "req-1");
        error(&response.body(Bytes::copy_from_slice(body.as_bytes())).unwrap())
    }

    fn neutron(status: u16, error_type: &str) -> Error {
        answer(status, &format!(r#"{{"NeutronError":{{"type":"{error_type}","message":"some message","detail":""}}}}"#))
    }

    #[test]
    fn refusals_are_classified_by_status_and_type() {
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
            assert_eq!(error.message, "some message");
            assert_eq!(error.request_id.as_deref(), Some("req-1"));
            assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
        }
        assert_eq!(answer(401, r#"{"error":{"code":401,"message":"no"}}"#).kind, ErrorKind::Unauthorized);
        assert_eq!(answer(429, "slow down").kind, ErrorKind::TooManyRequests);
        assert_eq!(answer(404, "<html>nothing here</html>").kind, ErrorKind::Malformed, "a proxy may have sent it");
    }

    #[test]
    fn a_slow_lookup_says_nothing_about_the_cloud() {
        assert_eq!(health(&Error::new(ErrorKind::SlowLookup, "", "")), Health::Unknown);
        assert_eq!(health(&Error::new(ErrorKind::Unreachable, "", "")), Health::Failing(None));
    }

    #[test]
    fn the_page_of_a_proxy_is_not_quoted() {
        let bodies = ["<html>\nX-Auth-Token: gAAAA</html>", "", "{\"NeutronError\":", "[1]", r#"["a","b"]"#, "\u{0}"];
        for body in bodies {
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
        assert_eq!(error.message.chars().count(), MAX_MESSAGE + 1);
    }

    #[test]
    fn a_refusal_is_read_whatever_else_it_has() {
        for (body, error_type, message) in [
            (r#"{"NeutronError":{"type":"T","message":"m","detail":{"a":[1]}},"more":{}}"#, Some("T"), "m"),
            (r#"{"NeutronError":{"type":7,"message":"m"}}"#, None, "m"),
            (r#"{"NeutronError":"m"}"#, None, "m"),
            (r#"{"NeutronError":null,"error":{"message":"m","title":"t"}}"#, None, "m"),
            (r#"{"NeutronError":["T","x"],"error":{"message":"m"}}"#, None, "m"),
        ] {
            let error = answer(400, body);
            assert_eq!((error.error_type.as_deref(), &*error.message), (error_type, message), "{body}");
        }
        let long = |length| neutron(400, &"T".repeat(length)).error_type;
        assert!(long(MAX_TYPE).is_some() && long(MAX_TYPE + 1).is_none());
    }

    #[test]
    fn no_part_of_the_secret_is_shown() {
        let quoting = |text: &str| {
            let body = format!(r#"{{"error":{{"code":400,"title":"Bad Request","message":"{text}"}}}}"#);
            let response = Response::builder().status(400).body(Bytes::from(body)).unwrap();
            error_without("my  secret phrase", &response).message
        };
        assert_eq!(quoting("not 'my  secret phrase'"), "not '…'", "its blanks are not those of a line");
        let cut = quoting(&format!("{} my  secret phrase", "x".repeat(MAX_MESSAGE - 8)));
        assert!(cut.ends_with("x …"), "{cut}");
    }
}
