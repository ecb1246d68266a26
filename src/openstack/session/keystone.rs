//! Tokens: asked for one at a time, kept while they are good, renewed before they expire, and not asked for again at
//! once by credentials that have just been refused.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use jiff::Timestamp;
use openstack_sdk_auth_core::AuthToken;
use openstack_sdk_auth_core::types::ServiceEndpoints;
use secrecy::ExposeSecret;

use super::super::{Credentials, Error, ErrorKind};
use super::transport::{self, KEYSTONE_TIMEOUT};
use super::{answer, span};
use crate::clock::Clock;
use crate::floating_ip::ProjectId;

const OPERATION: &str = "authenticate";

/// Longer than the longest request, so that no token expires on its way, with room for a few attempts at a new one.
const RENEWAL_MARGIN: Duration = Duration::from_secs(120);
/// A refused token that is younger than this is not the problem: a new one would be refused too. Bounds what a Neutron
/// that accepts no token costs Keystone.
const YOUNG: Duration = Duration::from_secs(5);
/// The first pause after a failure, then twice as long each time: clouds lock users out after a few wrong passwords.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// What heals in Keystone must be noticed within 30 s; what heals in the Secret is other credentials, asked at once.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// A token and what came with it.
pub(super) struct Token {
    /// `X-Auth-Token`, marked as sensitive so that no debug output of headers shows it.
    pub(super) header: HeaderValue,
    /// The project that it is for.
    pub(super) project: Option<ProjectId>,
    /// The services of the cloud.
    pub(super) catalog: Vec<ServiceEndpoints>,
    issued: Timestamp,
    renew_at: Timestamp,
    expires: Timestamp,
}

/// Who is told how each authentication ended.
pub(super) type AuthObserver = Arc<dyn Fn(Option<ErrorKind>) + Send + Sync>;

/// One set of credentials and its token.
pub(super) struct Keystone {
    pub(super) credentials: Credentials,
    pub(super) client: reqwest::Client,
    clock: Clock,
    heard: AuthObserver,
    // Held while a token is fetched, which takes up to `KEYSTONE_TIMEOUT`, on purpose: whoever comes meanwhile waits
    // for the same answer instead of asking for another.
    state: tokio::sync::Mutex<State>,
}

#[derive(Default)]
struct State {
    token: Option<Arc<Token>>,
    failure: Option<Failure>,
}

struct Failure {
    error: Error,
    pause: Duration,
    until: Timestamp,
}

impl Keystone {
    pub(super) fn new(credentials: Credentials, clock: Clock, heard: AuthObserver) -> Result<Self, Error> {
        let client = transport::client(&credentials)?;
        Ok(Self { credentials, client, clock, heard, state: tokio::sync::Mutex::default() })
    }

    /// A token that lives long enough for a request.
    pub(super) async fn token(&self) -> Result<Arc<Token>, Error> {
        let mut state = self.state.lock().await;
        let now = self.clock.now();
        match &state.token {
            Some(token) if now < token.renew_at => Ok(token.clone()),
            // It is still good for a while, and so worth more than an error.
            Some(token) if now < token.expires => {
                let old = token.clone();
                Ok(self.renewed(&mut state).await.unwrap_or(old))
            }
            _ => self.renewed(&mut state).await,
        }
    }

    /// A token in place of `refused`, which somebody else may have replaced by now: one authentication, however many
    /// calls were refused.
    pub(super) async fn replace(&self, refused: &Arc<Token>) -> Result<Arc<Token>, Error> {
        let mut state = self.state.lock().await;
        match &state.token {
            Some(current) if !Arc::ptr_eq(current, refused) => return Ok(current.clone()),
            Some(current) if self.clock.now() < after(current.issued, YOUNG) => {
                let message = "Neutron refuses a token that Keystone has just issued: check the access rules of the application credential, or ask the operators of the cloud";
                return Err(Error::new(ErrorKind::Unauthorized, OPERATION, message));
            }
            _ => state.token = None,
        }
        self.renewed(&mut state).await
    }

    async fn renewed(&self, state: &mut State) -> Result<Arc<Token>, Error> {
        if let Some(failure) = &state.failure
            && self.clock.now() < failure.until
        {
            return Err(failure.error.clone());
        }
        let began = self.clock.now();
        let result = span::call(OPERATION, self.authenticate(), |_| None).await;
        (self.heard)(result.as_ref().err().map(|error| error.kind));
        match result {
            Ok(token) => {
                let token = Arc::new(token);
                *state = State { token: Some(token.clone()), failure: None };
                Ok(token)
            }
            Err(error) => {
                tracing::warn!(
                    auth.url = %self.credentials.auth_url,
                    request.id = error.request_id,
                    error = %error,
                    "authentication failed"
                );
                self.remember(state, &error, began);
                Err(error)
            }
        }
    }

    /// A pause counts from the beginning of the attempt: a Keystone that is slow to fail is not left alone for longer, and
    /// what heals is noticed in time. But whoever waited for the attempt hears of its end, and does not make another.
    fn remember(&self, state: &mut State, error: &Error, began: Timestamp) {
        let before = state.failure.as_ref().map(|failure| failure.pause);
        let pause = before.map_or(FIRST_PAUSE, |pause| (pause * 2).min(LONGEST_PAUSE));
        let pause = pause.max(error.retry_after.unwrap_or_default().min(LONGEST_PAUSE));
        let until = after(began, pause).max(after(self.clock.now(), FIRST_PAUSE));
        state.failure = Some(Failure { error: error.clone(), pause, until });
    }

    /// The token was issued but cannot be used, for a reason that lies in what came with it.
    pub(super) async fn reject(&self, token: &Arc<Token>, error: &Error) {
        let mut state = self.state.lock().await;
        if state.token.as_ref().is_some_and(|current| Arc::ptr_eq(current, token)) {
            state.token = None;
            self.remember(&mut state, error, self.clock.now());
        }
    }

    /// Whether it failed so recently that it must be remembered although nobody holds a session.
    pub(super) fn is_resting(&self) -> bool {
        // Locked means that somebody is at it.
        self.state.try_lock().map_or(true, |state| {
            state.failure.as_ref().is_some_and(|failure| self.clock.now() < after(failure.until, 2 * LONGEST_PAUSE))
        })
    }

    async fn authenticate(&self) -> Result<Token, Error> {
        let fail = |kind, message: &str| Error::new(kind, OPERATION, message);
        let url = self.credentials.auth_url.join("auth/tokens");
        let url = url.map_err(|_| fail(ErrorKind::Credentials, "auth_url cannot be extended"))?;
        let body = self.credentials.identity.request();
        let body = body.map_err(|_| fail(ErrorKind::Credentials, "the request for a token cannot be built"))?;
        let request = self.client.post(url).timeout(KEYSTONE_TIMEOUT).json(&body).build();
        let request = request.map_err(|_| fail(ErrorKind::Credentials, "the request for a token cannot be built"))?;

        let response = transport::exchange(&self.client, request).await;
        let response = response.map_err(|error| Error { operation: OPERATION, ..self.reworded(error) })?;
        if !response.status().is_success() {
            return Err(self.refused(&response));
        }
        let received = self.clock.now();
        let malformed = || {
            let host = transport::authority(&self.credentials.auth_url);
            fail(ErrorKind::Malformed, &format!("{host} answers, but not with a token: is auth_url Keystone's?"))
        };
        let token = AuthToken::try_from(response).map_err(|_| malformed())?;
        let info = token.auth_info.ok_or_else(malformed)?.token;
        let mut header = HeaderValue::from_str(token.token.expose_secret()).map_err(|_| malformed())?;
        header.set_sensitive(true);

        // Its length counts from now, by our clock: Keystone's may be wrong, and only the difference matters.
        let issued_at = info.issued_at.map(|at| at.timestamp());
        let length = info.expires_at.timestamp().saturating_sub(issued_at.unwrap_or_else(|| received.as_second()));
        let length = Duration::from_secs(length.try_into().unwrap_or(0));
        // Where tokens are short, the margin must not eat them up.
        let margin = RENEWAL_MARGIN.min(length / 2);
        let project = info.project.and_then(|project| project.id).map(ProjectId::new);
        let catalog = info.catalog.unwrap_or_default();
        let (renew_at, expires) = (after(received, length - margin), after(received, length));
        tracing::debug!(auth.url = %self.credentials.auth_url, token.length_s = length.as_secs(), "authenticated");
        Ok(Token { header, project, catalog, issued: received, renew_at, expires })
    }

    /// Keystone refused. Its own words for a 401 say nothing but that; ours name what to look at.
    fn refused(&self, response: &http::Response<bytes::Bytes>) -> Error {
        let error = Error { operation: OPERATION, ..answer::error(response) };
        let host = transport::authority(&self.credentials.auth_url);
        // Keystone's own 404 is about the application credential or the token; any other is not Keystone's.
        let is_unknown = error.status == Some(404) && answer::is_openstacks(response.body());
        match error.status {
            _ if error.kind == ErrorKind::Unauthorized || is_unknown => {
                let check = match self.credentials.identity.auth_type() {
                    "v3applicationcredential" => "the application credential, its secret and whether it has expired",
                    "v3token" => "whether the token has expired, and its project",
                    _ => "username, password, project and domain",
                };
                let message = format!("Keystone at {host} refuses the credentials: check {check} in clouds.yaml");
                Error { kind: ErrorKind::Unauthorized, message, ..error }
            }
            Some(404) => Error {
                kind: ErrorKind::Malformed,
                message: format!("{host} has no Keystone v3: check auth_url"),
                ..error
            },
            // A validation error quotes what it was sent.
            _ => {
                let secret = self.credentials.identity.secret().expose_secret();
                Error { message: error.message.replace(secret, "…"), ..error }
            }
        }
    }

    fn reworded(&self, error: Error) -> Error {
        let is_away = matches!(error.kind, ErrorKind::Unreachable | ErrorKind::NoAnswer);
        // One that ends in a question says already what to look at.
        let remedy = match is_away && !error.message.ends_with('?') {
            true => ": check auth_url in clouds.yaml, and whether Keystone is up",
            false => "",
        };
        Error { message: format!("Keystone: {}{remedy}", error.message), ..error }
    }
}

/// Saturates: how long a token lasts is the server's word, and one that outlasts [`Timestamp::MAX`] must do no harm.
fn after(time: Timestamp, duration: Duration) -> Timestamp {
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}
