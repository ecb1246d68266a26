//! What Keystone and Neutron answer.

#![expect(clippy::unwrap_used, reason = "a panic is a find")]

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response};
use jiff::Timestamp;

use super::catalog::NeutronEndpoint;
use super::{answer, keystone};
use crate::fuzzing::{assert_one_line, parts};
use crate::openstack::fuzzing::{PASSWORD, credentials};
use crate::openstack::{Error, ErrorKind};

/// Of an annotation's value, and of an id in a condition.
const LONGEST_ID: usize = 255;

fn assert_error(error: &Error) {
    assert_one_line(&error.message, 1000);
    assert_eq!(error.to_string(), format!("{}: {}", error.operation, error.message));
    assert!(error.error_type.as_ref().is_none_or(|name| name.len() <= LONGEST_ID), "{error:?}");
    assert!(error.request_id.as_ref().is_none_or(|id| id.chars().count() <= 64), "{error:?}");
    assert!(error.retry_after.is_none_or(|wait| (1..=300).contains(&wait.as_secs())), "{error:?}");
}

/// A token, and the body that it comes with.
pub fn token(data: &[u8]) {
    let mut parts = parts(data);
    let header = HeaderValue::from_bytes(parts.next().unwrap_or_default());
    let body = Bytes::copy_from_slice(parts.next().unwrap_or_default());
    let Ok(header) = header else { return };
    let mut response = Response::new(body);
    response.headers_mut().insert("x-subject-token", header);
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let Some(token) = keystone::read_token(response, credentials(), now) else { return };
    assert!(token.header.is_sensitive() && token.received_at == now);
    assert!(token.received_at <= token.renew_at && token.renew_at <= token.expires_at);
    assert!(token.project.as_ref().is_none_or(|project| project.as_str().len() <= LONGEST_ID));
    match &token.neutron {
        Ok(NeutronEndpoint { service, region }) => {
            assert!(region.len() <= LONGEST_ID);
            let url: url::Url = service.url_str().parse().unwrap();
            assert!(matches!(url.scheme(), "http" | "https") && url.path().ends_with("/v2.0/"), "{url}");
        }
        Err(error) => assert_error(error),
    }
}

/// A status, headers, and a body.
pub fn refusal(data: &[u8]) {
    let mut parts = parts(data);
    let head = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let mut lines = head.lines();
    let mut response = Response::new(Bytes::copy_from_slice(parts.next().unwrap_or_default()));
    let status = lines.next().and_then(|status| http::StatusCode::from_bytes(status.as_bytes()).ok());
    let Some(status) = status.filter(|status| !status.is_success()) else { return };
    *response.status_mut() = status;
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    let error = answer::error(&response);
    assert_error(&error);
    assert_eq!(error.status, Some(status.as_u16()));
    // What is gone may be given to another claim, so only OpenStack may say it.
    assert!(error.kind != ErrorKind::NotFound || answer::is_from_openstack(response.body()));
    let _ = answer::health(&error);

    let error = keystone::read_refusal(&response, credentials());
    assert_error(&error);
    assert!(!error.message.contains(PASSWORD), "{error:?}");
}
