//! A session: one set of credentials with its token, and the one path that every request to Neutron takes.
//!
//! It uses the identity, catalogue, endpoint and request types of `openstack_sdk`, but its own HTTP client: the SDK's
//! follows redirects with the token, takes a CA only as a file, and cannot be replaced. A request gets the token, passes
//! the cloud's throttle, is sent if the token is for the session's project, is sent once more if the token was refused, and
//! its answer is classified.

mod answer;
mod breaker;
mod catalog;
#[cfg(any(fuzzing, test))]
pub(crate) mod fuzzing;
mod keystone;
mod large_answer;
mod limiter;
mod sessions;
mod span;
mod throttle;
mod token_cache;
mod transport;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder, Retryable};
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use openstack_sdk_auth_core::types::Project;
use openstack_sdk_core::api::{ApiError, AsyncClient, QueryAsync, RestClient, RestEndpoint, raw};
use openstack_sdk_core::catalog::ServiceEndpoint;
use openstack_sdk_core::types::{ApiVersion, BoxedAsyncRead, ServiceType};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::{Error, ErrorKind, MaySend, ProjectScope};
use catalog::NeutronEndpoint;
use keystone::Token;
use large_answer::LargeAnswer;
use throttle::{Health, Permit, Throttle};
use token_cache::TokenCache;
use transport::AnswerLimit;

pub use sessions::Sessions;
pub(super) use transport::host_and_port;
pub use transport::{KEYSTONE_TIMEOUT, LANDS_WITHIN, REQUEST_TIMEOUT};

/// Including the first.
const MAX_ATTEMPTS: usize = 3;
/// No attempt begins later than this after the first: the caller can come back later, and a slow cloud gets fewer calls.
const RETRY_WINDOW: Duration = Duration::from_secs(10);

/// What a call does: whether it may be sent again when its outcome is unknown, and how large its answer may be.
#[derive(Clone, Copy)]
pub(super) enum CallKind<'a> {
    Read,
    ReadLarge(&'a LargeAnswer),
    /// Sent once. After an unknown outcome, the caller has to read the result.
    Write(&'a MaySend<'a>),
    /// Repeating it changes nothing. An earlier attempt without an answer may take effect after a later one is refused, so
    /// the outcome is known only if an attempt succeeded or the resource does not exist.
    IdempotentWrite(&'a MaySend<'a>),
}

/// A session with one cloud's Neutron.
pub(super) struct Session {
    tokens: Arc<TokenCache>,
    throttle: Arc<Throttle>,
    /// The namespace's permits to read a large answer.
    large_answers: Arc<Semaphore>,
    endpoint: ServiceEndpoint,
    scope: ProjectScope,
}

/// Limits and delays the retries of an operation that consists of several calls.
pub(super) struct Retries {
    started: Instant,
    delays: ExponentialBackoff,
}

impl Retries {
    pub(super) fn begin() -> Self {
        let delays = retry_delays().with_max_times(MAX_ATTEMPTS - 1).build();
        Self { started: Instant::now(), delays }
    }

    /// Waits before the next attempt. Returns the error if there is to be none.
    pub(super) async fn wait_after(&mut self, error: Error) -> Result<(), Error> {
        let may_retry = is_retryable(&error) && self.started.elapsed() < RETRY_WINDOW;
        let Some(delay) = self.delays.next().filter(|_| may_retry) else { return Err(error) };
        tracing::debug!(operation = error.operation, ?delay, %error, "repeating a call");
        tokio::time::sleep(delay).await;
        Ok(())
    }
}

fn retry_delays() -> ExponentialBuilder {
    let delays = ExponentialBuilder::default().with_jitter();
    delays.with_min_delay(Duration::from_millis(200)).with_max_delay(Duration::from_secs(2))
}

/// Permission to send calls to the session's cloud, one after the other.
pub(super) struct Turn<'a> {
    session: &'a Session,
    permit: Permit,
}

/// One call of a session, as the SDK sends it.
struct Call<'a> {
    session: &'a Session,
    limit: AnswerLimit<'a>,
    /// None for a read.
    may_send: Option<&'a MaySend<'a>>,
}

impl Session {
    pub(super) fn scope(&self) -> &ProjectScope {
        &self.scope
    }

    /// Whether the present token is for the session's project, and its catalogue has the session's URL. A catalogue without
    /// any says nothing.
    pub(super) fn is_current(&self) -> bool {
        self.tokens.known().is_none_or(|token| {
            let is_here = |neutron: &NeutronEndpoint| neutron.service.url_str() == self.scope.endpoint;
            self.check_project(&token).is_ok() && token.neutron.as_ref().ok().is_none_or(is_here)
        })
    }

    /// Fails for a token of another project, or of a Neutron in another region. The next token is one where clouds.yaml names
    /// no project and the user's default project was changed, or where the project was created again under its name. With
    /// it, the floating IPs of this project would all look deleted.
    fn check_project(&self, token: &Token) -> Result<(), Error> {
        let ProjectScope { project: former, region: former_region, .. } = &self.scope;
        let fail = |message: String| Err(Error::new(ErrorKind::Credentials, keystone::OPERATION, message));
        let project = token.project()?;
        if project != former {
            return fail(format!(
                "Keystone's new token is for project {project}, and the one before was for project {former}: set project_id in clouds.yaml, and check that {former} still exists"
            ));
        }
        match &token.neutron {
            Ok(NeutronEndpoint { region, .. }) if region != former_region => fail(format!(
                "Keystone's catalogue now has Neutron in region {region}, and had it in region {former_region}: ask the operators of the cloud"
            )),
            _ => Ok(()),
        }
    }

    /// Permission for large answers.
    pub(super) fn large_answer(&self) -> LargeAnswer {
        LargeAnswer::new(self.large_answers.clone())
    }

    /// Returns a successful answer, or an error with all that is known about the failure.
    pub(super) async fn call<E>(
        &self,
        operation: &'static str,
        kind: CallKind<'_>,
        endpoint: E,
    ) -> Result<Response<Bytes>, Error>
    where
        E: RestEndpoint + Sync + Send,
    {
        let query = raw(endpoint).skip_error_check(true);
        let started = Instant::now();
        let delays =
            retry_delays().with_max_times(if matches!(kind, CallKind::Write(_)) { 0 } else { MAX_ATTEMPTS - 1 });
        let attempt = async || match kind {
            // An answer that turns out to be large is given up, and requested again, if another one is being read.
            CallKind::ReadLarge(large) => {
                let attempt = || self.attempt(operation, AnswerLimit::Large(large), None, &query);
                large.acquire_if_refused(attempt).await
            }
            CallKind::Read => self.attempt(operation, AnswerLimit::Small, None, &query).await,
            CallKind::Write(may_send) | CallKind::IdempotentWrite(may_send) => {
                self.attempt(operation, AnswerLimit::Small, Some(may_send), &query).await
            }
        };
        let mut unknown = None;
        let attempts = attempt
            .retry(delays)
            .when(|error| is_retryable(error) && started.elapsed() < RETRY_WINDOW)
            .notify(|error, delay| {
                tracing::debug!(operation, ?delay, %error, "repeating a call");
                if error.is_unknown() {
                    unknown = Some(error.clone());
                }
            });
        let result = span::record(operation, attempts, |response| answer::request_id(response.headers())).await;
        match (result, unknown) {
            (Err(error), Some(earlier))
                if matches!(kind, CallKind::IdempotentWrite(_)) && error.kind != ErrorKind::NotFound =>
            {
                Err(if error.is_unknown() { error } else { earlier })
            }
            (result, _) => result,
        }
    }

    async fn attempt<Q>(
        &self,
        operation: &'static str,
        limit: AnswerLimit<'_>,
        may_send: Option<&MaySend<'_>>,
        query: &Q,
    ) -> Result<Response<Bytes>, Error>
    where
        Q: for<'a> QueryAsync<Response<Bytes>, Call<'a>> + Sync,
    {
        self.begin_turn(operation).await?.send(operation, limit, may_send, query).await
    }

    /// Awaits a call that consists of several requests, of which the last may not be necessary, in one span.
    pub(super) async fn record(
        operation: &'static str,
        call: impl Future<Output = Result<Option<Response<Bytes>>, Error>>,
    ) -> Result<Option<Response<Bytes>>, Error> {
        span::record(operation, call, |last| answer::request_id(last.as_ref()?.headers())).await
    }

    /// Waits until a call may be sent.
    pub(super) async fn begin_turn(&self, operation: &'static str) -> Result<Turn<'_>, Error> {
        // First, so that a slow Keystone takes none of the cloud's slots, and its time says nothing about Neutron.
        self.tokens.token().await?;
        let permit = self.throttle.acquire(&self.scope.project).await;
        let permit = permit.map_err(|error| Error { operation, ..error })?;
        // Again, since it may have expired meanwhile: what is decided in the turn must not wait for Keystone. This holds the
        // slot, and is rare.
        self.tokens.token().await?;
        Ok(Turn { session: self, permit })
    }

    fn refusal(&self, response: &Response<Bytes>) -> Error {
        self.conceal_unless_openstack(response.body(), answer::error(response))
    }

    fn conceal_unless_openstack(&self, body: &[u8], error: Error) -> Error {
        if answer::is_from_openstack(body) { error } else { self.conceal(error) }
    }

    fn conceal(&self, error: Error) -> Error {
        self.tokens.http_client().hosts.conceal(error)
    }

    /// The error for a success whose body is not what Neutron would say.
    pub(super) fn malformed(&self, operation: &'static str) -> Error {
        let message = "the answer is a success, but not what Neutron would say";
        self.conceal(Error::new(ErrorKind::Malformed, operation, message))
    }
}

impl Turn<'_> {
    /// Sends a call with a small answer once; a write only if `may_send` allows it.
    pub(super) async fn call<E>(
        &mut self,
        operation: &'static str,
        may_send: Option<&MaySend<'_>>,
        endpoint: E,
    ) -> Result<Response<Bytes>, Error>
    where
        E: RestEndpoint + Sync + Send,
    {
        self.send(operation, AnswerLimit::Small, may_send, &raw(endpoint).skip_error_check(true)).await
    }

    async fn send<Q>(
        &mut self,
        operation: &'static str,
        limit: AnswerLimit<'_>,
        may_send: Option<&MaySend<'_>>,
        query: &Q,
    ) -> Result<Response<Bytes>, Error>
    where
        Q: for<'a> QueryAsync<Response<Bytes>, Call<'a>> + Sync,
    {
        let Self { session, permit } = self;
        let in_operation = |error: Error| Error { operation, ..error };
        let result = match query.query_async(&Call { session, limit, may_send }).await {
            Ok(response) if response.status().is_success() => Ok(response),
            Ok(response) => Err(in_operation(session.refusal(&response))),
            Err(ApiError::Client { source }) if source.operation.is_empty() => Err(in_operation(source)),
            // From Keystone: it has an operation of its own, and says nothing about Neutron.
            Err(ApiError::Client { source }) => return Err(source),
            Err(_) => Err(Error::new(ErrorKind::Rejected, operation, "the request cannot be built")),
        };
        let health = result.as_ref().map_or_else(answer::health, |_| Health::Answering);
        permit.record(health, result.as_ref().err());
        if matches!(health, Health::Failing(_)) {
            session.tokens.doubt_catalogue();
        }
        if let Err(error) = &result {
            tracing::debug!(operation, request.id = error.request_id, status = error.status, %error, "call failed");
        }
        result
    }
}

impl Call<'_> {
    async fn send(&self, request: http::request::Builder, body: Vec<u8>) -> Result<Response<Bytes>, Error> {
        let request = request.body(body).map_err(|_| invalid_request())?;
        let Session { tokens, .. } = self.session;
        let token = tokens.token().await?;
        let response = self.send_with(&token, request.clone()).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        // Refused before Neutron processed it, so that even a POST may be sent again.
        let renewed = tokens.replace(&token).await;
        let token = renewed.map_err(|error| self.session.conceal_unless_openstack(response.body(), error))?;
        self.send_with(&token, request).await
    }

    async fn send_with(&self, token: &Token, mut request: http::Request<Vec<u8>>) -> Result<Response<Bytes>, Error> {
        self.session.check_project(token)?;
        if self.may_send.is_some_and(|may_send| !may_send()) {
            return Err(Error::unsent(""));
        }
        request.headers_mut().insert("X-Auth-Token", token.header.clone());
        self.session.tokens.http_client().send(request, self.limit, REQUEST_TIMEOUT).await
    }
}

fn invalid_request() -> Error {
    Error::new(ErrorKind::Rejected, "", "the request cannot be built")
}

/// Failures that may pass within a moment. A refused connection is none: a service takes longer than [`RETRY_WINDOW`] to
/// start.
fn is_retryable(error: &Error) -> bool {
    match error.kind {
        ErrorKind::NoAnswer => true,
        // 500 is caused by the request itself.
        ErrorKind::Server => error.status != Some(500),
        // Not the throttle's own refusal, which has no status.
        ErrorKind::TooManyRequests => error.status.is_some(),
        _ => false,
    }
}

impl RestClient for Call<'_> {
    type Error = Error;

    fn get_current_project(&self) -> Option<Project> {
        Some(Project { id: Some(self.session.scope.project.to_string()), name: None, domain: None })
    }
}

#[async_trait]
impl AsyncClient for Call<'_> {
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
        Ok(self.session.endpoint.clone())
    }
}
