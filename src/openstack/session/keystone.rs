//! Authentication: one request to Keystone for a token.

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response};
use jiff::Timestamp;
use openstack_sdk_auth_core::AuthToken;
use secrecy::ExposeSecret;

use super::super::{Credentials, Error, ErrorKind};
use super::catalog::{NeutronEndpoint, neutron_endpoint};
use super::transport::{self, AnswerLimit, HttpClient, KEYSTONE_TIMEOUT};
use super::{answer, span};
use crate::clock::Clock;
use crate::floating_ip::ProjectId;
use crate::time::after;

pub(super) const OPERATION: &str = "authenticate";

/// Longer than the longest request, so that no token expires during one, and with time to retry a failed renewal.
const RENEWAL_MARGIN: Duration = Duration::from_secs(120);

/// In bytes. Keystone's limit; it becomes an annotation.
const MAX_PROJECT_ID: usize = 64;

/// In bytes. Web servers accept no longer headers; Keystone's tokens have about 200.
const MAX_TOKEN: usize = 8 << 10;

/// A token and what is used of what Keystone sent with it. A catalogue may be large, and is not kept.
pub(super) struct Token {
    /// `X-Auth-Token`, marked as sensitive so that no debug output of headers shows it.
    pub(super) header: HeaderValue,
    pub(super) project: Option<ProjectId>,
    pub(super) neutron: Result<NeutronEndpoint, Error>,
    pub(super) received_at: Timestamp,
    pub(super) renew_at: Timestamp,
    pub(super) expires_at: Timestamp,
}

impl Token {
    pub(super) fn project(&self) -> Result<&ProjectId, Error> {
        self.project.as_ref().ok_or_else(|| {
            let message = "the token is for no project: set project_id, or project_name, in clouds.yaml";
            Error::new(ErrorKind::Credentials, OPERATION, message)
        })
    }
}

pub(super) struct KeystoneClient {
    pub(super) http: HttpClient,
    credentials: Credentials,
    clock: Clock,
}

impl KeystoneClient {
    pub(super) fn new(mut credentials: Credentials, http: HttpClient, clock: Clock) -> Self {
        // The client has them.
        credentials.ca_certificates = Vec::new();
        Self { http, credentials, clock }
    }

    pub(super) async fn authenticate(&self) -> Result<Token, Error> {
        let result = span::record(OPERATION, self.request_token(), |_| None).await;
        match &result {
            Ok(token) => {
                let lifetime = token.expires_at.duration_since(token.received_at).as_secs();
                tracing::debug!(auth.url = %self.credentials.auth_url, token.length_s = lifetime, "authenticated");
            }
            Err(error) => tracing::warn!(
                auth.url = %self.credentials.auth_url,
                request.id = error.request_id,
                error = %error,
                "authentication failed"
            ),
        }
        result
    }

    async fn request_token(&self) -> Result<Token, Error> {
        let fail = |message| Error::new(ErrorKind::Credentials, OPERATION, message);
        let url = self.credentials.auth_url.join("auth/tokens").map_err(|_| fail("auth_url cannot be extended"))?;
        let body = self.credentials.identity.request();
        let body = body.map_err(|_| fail("the request for a token cannot be built"))?;
        let request = Request::post(url.as_str()).header(CONTENT_TYPE, "application/json");
        let request = request.body(body.to_string().into_bytes());
        let request = request.map_err(|_| fail("the request for a token cannot be built"))?;

        let response = self.http.send(request, AnswerLimit::Small, KEYSTONE_TIMEOUT).await;
        let response = response.map_err(|error| Error { operation: OPERATION, ..with_remedy(error) })?;
        if !response.status().is_success() {
            return Err(self.refusal(&response));
        }
        read_token(response, &self.credentials, self.clock.now()).ok_or_else(|| {
            let host = transport::host_and_port(&self.credentials.auth_url);
            let message = format!("{host} answers, but not with a token: is auth_url Keystone's?");
            self.http.hosts.conceal(Error::new(ErrorKind::Malformed, OPERATION, message))
        })
    }

    fn refusal(&self, response: &Response<Bytes>) -> Error {
        let refusal = read_refusal(response, &self.credentials);
        if answer::is_from_openstack(response.body()) { refusal } else { self.http.hosts.conceal(refusal) }
    }
}

pub(super) fn read_token(
    response: Response<Bytes>,
    credentials: &Credentials,
    received_at: Timestamp,
) -> Option<Token> {
    let token = AuthToken::try_from(response).ok()?;
    let info = token.auth_info?.token;
    let mut header = HeaderValue::from_str(token.token.expose_secret()).ok()?;
    header.set_sensitive(true);

    // The lifetime counts from now, by our clock: Keystone's may be wrong, and only the difference matters.
    let issued_at = info.issued_at.map_or_else(|| received_at.as_second(), |at| at.timestamp());
    let lifetime = info.expires_at.timestamp().saturating_sub(issued_at);
    let lifetime = Duration::from_secs(lifetime.try_into().unwrap_or(0));
    // Leaves a short-lived token at least half of its lifetime.
    #[expect(clippy::arithmetic_side_effects, reason = "2 is not 0")]
    let margin = RENEWAL_MARGIN.min(lifetime / 2);
    let project = info.project.and_then(|project| project.id);
    if project.as_ref().is_some_and(|id| id.len() > MAX_PROJECT_ID) || header.len() > MAX_TOKEN {
        return None;
    }
    Some(Token {
        header,
        project: project.map(ProjectId::new),
        neutron: neutron_endpoint(&info.catalog.unwrap_or_default(), credentials),
        received_at,
        renew_at: after(received_at, lifetime.saturating_sub(margin)),
        expires_at: after(received_at, lifetime),
    })
}

/// Keystone does not say why it refuses credentials; our message says what to check.
pub(super) fn read_refusal(response: &Response<Bytes>, credentials: &Credentials) -> Error {
    let secret = credentials.identity.secret().expose_secret();
    let error = Error { operation: OPERATION, ..answer::error_without(secret, response) };
    let host = transport::host_and_port(&credentials.auth_url);
    // A 404 from Keystone means that the application credential or the token is unknown.
    let is_unknown = error.status == Some(404) && answer::is_from_openstack(response.body());
    match error.status {
        _ if error.kind == ErrorKind::Unauthorized || is_unknown => {
            let check = match credentials.identity.auth_type() {
                "v3applicationcredential" => "the application credential, its secret and whether it has expired",
                "v3token" => "whether the token has expired, and its project",
                _ => "username, password, project and domain",
            };
            let message = format!("Keystone at {host} refuses the credentials: check {check} in clouds.yaml");
            Error { kind: ErrorKind::Unauthorized, message, ..error }
        }
        Some(404) => {
            Error { kind: ErrorKind::Malformed, message: format!("{host} has no Keystone v3: check auth_url"), ..error }
        }
        _ => error,
    }
}

fn with_remedy(error: Error) -> Error {
    let is_unanswered = matches!(error.kind, ErrorKind::Unreachable | ErrorKind::NoAnswer);
    // A message that ends with a question already says what to check.
    let remedy = match is_unanswered && !error.message.ends_with('?') {
        true => ": check auth_url in clouds.yaml, and whether Keystone is up",
        false => "",
    };
    Error { message: format!("Keystone: {}{remedy}", error.message), ..error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openstack::fuzzing::credentials;

    #[test]
    fn a_project_has_an_id_that_keystone_could_give() {
        let project = |length: usize| {
            let (id, user) = ("p".repeat(length), r#"{"id":"u","name":"n"}"#);
            let body = format!(
                r#"{{"token":{{"expires_at":"2026-11-21T10:33:43Z","user":{user},"project":{{"id":"{id}"}}}}}}"#
            );
            let response = Response::builder().header("X-Subject-Token", "t").body(Bytes::from(body)).unwrap();
            read_token(response, credentials(), Timestamp::UNIX_EPOCH)?.project
        };
        assert_eq!(project(MAX_PROJECT_ID).unwrap().as_str().len(), MAX_PROJECT_ID);
        assert!(project(MAX_PROJECT_ID + 1).is_none());
    }
}
