//! A session: one set of credentials with its token, and one path that every request to Neutron takes.
//!
//! Built of the parts of `openstack_sdk` (its identity, catalogue, endpoint and request types), but with our own HTTP
//! client: the SDK's follows redirects with the token, takes a CA only as a file, and cannot be given another. The path
//! is: the cloud's gate → token → send → one new token if it was refused → classify.

mod answer;
mod breaker;
mod catalog;
mod gate;
mod keystone;
mod limiter;
mod sessions;
mod span;
mod transport;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backon::{ExponentialBuilder, Retryable};
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use openstack_sdk_auth_core::types::Project;
use openstack_sdk_core::api::{ApiError, AsyncClient, QueryAsync, RestClient, RestEndpoint, raw};
use openstack_sdk_core::catalog::ServiceEndpoint;
use openstack_sdk_core::types::{ApiVersion, BoxedAsyncRead, ServiceType};
use tokio::time::Instant;

use super::{Error, ErrorKind, Scope};
use gate::{Gate, Verdict};
use keystone::{Keystone, Token};

pub use sessions::Sessions;
pub use transport::{KEYSTONE_TIMEOUT, REQUEST_TIMEOUT};

/// Attempts at a call that may be repeated, the first included.
const ATTEMPTS: usize = 3;
/// No further attempt begins later than this after the first was sent, so that a slow cloud is not asked three times
/// by callers who could hear of it and come back later.
const ATTEMPTS_WITHIN: Duration = Duration::from_secs(10);

/// Whether a call may be sent again when its outcome is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Repeat {
    /// Sent once. After a failure that may have happened all the same, the caller settles it by reading.
    Never,
    /// Repeating it changes nothing. The reason stands at the call.
    Safe,
    /// The same for a write: what an attempt without an answer does is not undone by what a later one is told, so that
    /// the outcome is known only if one of them was done, or there is nothing to write to.
    SafeWrite,
}

/// A session with one cloud's Neutron.
pub(super) struct Session {
    keystone: Arc<Keystone>,
    gate: Arc<Gate>,
    endpoint: ServiceEndpoint,
    scope: Scope,
}

impl Session {
    pub(super) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Makes one call: an answer of success, or an error with all that is known about it.
    pub(super) async fn call<E>(
        &self,
        operation: &'static str,
        repeat: Repeat,
        endpoint: E,
    ) -> Result<Response<Bytes>, Error>
    where
        E: RestEndpoint + Sync + Send,
    {
        let query = raw(endpoint).skip_error_check(true);
        let begun = Instant::now();
        let attempts = if repeat == Repeat::Never { 1 } else { ATTEMPTS };
        let delays = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(200))
            .with_max_delay(Duration::from_secs(2))
            .with_max_times(attempts - 1)
            .with_jitter();
        let attempt = || self.attempt(operation, &query);
        let mut unknown = None;
        let retried = attempt
            .retry(delays)
            .when(|error| is_worth_repeating(error) && begun.elapsed() < ATTEMPTS_WITHIN)
            // The gate makes everybody wait for what a server asks; a longer wait is the caller's business.
            .notify(|error, delay| {
                tracing::debug!(operation, ?delay, %error, "repeating a call");
                if error.is_unknown() {
                    unknown = Some(error.clone());
                }
            });
        let result = span::call(operation, retried, |response| answer::request_id(response.headers())).await;
        match (result, unknown) {
            (Err(error), Some(earlier)) if repeat == Repeat::SafeWrite && error.kind != ErrorKind::NotFound => {
                Err(if error.is_unknown() { error } else { earlier })
            }
            (result, _) => result,
        }
    }

    async fn attempt<Q>(&self, operation: &'static str, query: &Q) -> Result<Response<Bytes>, Error>
    where
        Q: QueryAsync<Response<Bytes>, Self> + Sync,
    {
        let named = |error: Error| Error { operation, ..error };
        let pass = self.gate.enter().await.map_err(named)?;
        let result = match query.query_async(self).await {
            Ok(response) if response.status().is_success() => Ok(response),
            Ok(response) => Err(named(answer::error(&response))),
            Err(ApiError::Client { source }) if source.operation.is_empty() => Err(named(source)),
            // Keystone's, which names its own operation.
            Err(ApiError::Client { source }) => {
                pass.end(Verdict::Nothing, None);
                return Err(source);
            }
            Err(_) => Err(Error::new(ErrorKind::Rejected, operation, "the request cannot be built")),
        };
        match &result {
            Ok(_) => pass.end(Verdict::Answered, None),
            Err(error) => {
                // An error of one request: Neutron answers so to a tag of a floating IP that is gone, and is well.
                let is_one_requests = error.status == Some(500) && error.error_type.is_some();
                let verdict = if is_one_requests { Verdict::Answered } else { answer::verdict(error) };
                pass.end(verdict, Some(error));
                tracing::debug!(operation, request.id = error.request_id, status = error.status, %error, "call failed");
            }
        }
        result
    }

    async fn send(&self, request: http::request::Builder, body: Vec<u8>) -> Result<Response<Bytes>, Error> {
        let unbuilt = |_| Error::new(ErrorKind::Rejected, "", "the request cannot be built");
        let request = request.body(body).map_err(unbuilt)?;
        let token = self.keystone.token().await?;
        let response = self.send_with(&token, request.clone()).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        // Refused before Neutron saw it, so that even a POST may be sent again.
        let token = self.keystone.replace(&token).await?;
        self.send_with(&token, request).await
    }

    async fn send_with(&self, token: &Token, request: http::Request<Vec<u8>>) -> Result<Response<Bytes>, Error> {
        let mut request = reqwest::Request::try_from(request)
            .map_err(|_| Error::new(ErrorKind::Rejected, "", "the request cannot be built"))?;
        request.headers_mut().insert("X-Auth-Token", token.header.clone());
        transport::exchange(&self.keystone.client, request).await
    }
}

/// Trouble on the way that a moment may mend. A refused connection is not: a service takes longer than our patience to
/// start, and the caller is better told at once.
fn is_worth_repeating(error: &Error) -> bool {
    match error.kind {
        ErrorKind::NoAnswer => true,
        // 500 is Neutron's own trouble with this very request.
        ErrorKind::Server => error.status != Some(500),
        // The gate waits; without a time to wait, the pause between attempts has to do.
        ErrorKind::TooManyRequests => error.status.is_some(),
        _ => false,
    }
}

impl RestClient for Session {
    type Error = Error;

    fn get_current_project(&self) -> Option<Project> {
        Some(Project { id: Some(self.scope.project.to_string()), name: None, domain: None })
    }
}

#[async_trait]
impl AsyncClient for Session {
    async fn rest_async(
        &self,
        request: http::request::Builder,
        body: Vec<u8>,
    ) -> Result<Response<Bytes>, ApiError<Error>> {
        self.send(request, body).await.map_err(|source| ApiError::Client { source })
    }

    async fn rest_read_body_async(
        &self,
        _: http::request::Builder,
        _: BoxedAsyncRead,
    ) -> Result<Response<Bytes>, ApiError<Error>> {
        Err(ApiError::Session { msg: "streams are not sent".to_owned() })
    }

    async fn download_async(
        &self,
        _: http::request::Builder,
        _: Vec<u8>,
    ) -> Result<(HeaderMap, BoxedAsyncRead), ApiError<Error>> {
        Err(ApiError::Session { msg: "streams are not received".to_owned() })
    }

    async fn get_service_endpoint(
        &self,
        _: &ServiceType,
        _: Option<&ApiVersion>,
    ) -> Result<ServiceEndpoint, ApiError<Error>> {
        Ok(self.endpoint.clone())
    }
}
