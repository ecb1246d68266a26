//! The token of one set of credentials: requested once for all callers, renewed before it expires, and not requested again
//! at once after a failure.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Mutex;

use super::super::{CloudName, Credentials, Error, ErrorKind};
use super::keystone::{KeystoneClient, OPERATION, Token};
use super::transport::HttpClient;
use crate::clock::Clock;
use crate::time::after;

/// If Neutron refuses a token younger than this, it would refuse a new one too. So a Neutron that accepts no token costs
/// Keystone few requests.
const MIN_TOKEN_AGE: Duration = Duration::from_secs(5);
/// How old a catalogue must be to be doubted. So that an outage of Neutron costs Keystone few requests.
const MIN_CATALOGUE_AGE: Duration = Duration::from_secs(300);
/// After the first failure, and doubled after each further one: clouds lock users out after a few wrong passwords.
const MIN_BACKOFF: Duration = Duration::from_secs(5);
/// So that a fix in Keystone is noticed within 30 s. A fix in the Secret makes other credentials, which are tried at once.
const MAX_BACKOFF: Duration = Duration::from_secs(15);

/// Gets the result of each authentication, and with which cloud.
pub(super) type AuthObserver = Arc<dyn Fn(&CloudName, Option<ErrorKind>) + Send + Sync>;

pub(super) struct TokenCache {
    keystone: KeystoneClient,
    cloud: CloudName,
    clock: Clock,
    observer: AuthObserver,
    // Locked across the request for a token, up to `KEYSTONE_TIMEOUT`, so that concurrent callers share its result.
    state: Mutex<TokenState>,
}

#[derive(Default)]
struct TokenState {
    token: Option<Arc<Token>>,
    /// The next token may be for another project, or say that Neutron has another URL.
    is_catalogue_doubted: bool,
    failure: Option<FailedAuthentication>,
}

struct FailedAuthentication {
    error: Error,
    backoff: Duration,
    retry_at: Timestamp,
}

impl TokenCache {
    pub(super) fn new(credentials: Credentials, http: HttpClient, clock: Clock, observer: AuthObserver) -> Self {
        let cloud = credentials.cloud();
        let keystone = KeystoneClient::new(credentials, http, clock.clone());
        Self { keystone, cloud, clock, observer, state: Mutex::default() }
    }

    /// For requests to any service of the cloud: it trusts the CAs of the credentials.
    pub(super) fn http_client(&self) -> &HttpClient {
        &self.keystone.http
    }

    /// A token that is valid for at least one request.
    pub(super) async fn token(&self) -> Result<Arc<Token>, Error> {
        let mut state = self.state.lock().await;
        let now = self.clock.now();
        match &state.token {
            Some(token) if now < token.renew_at && !state.is_catalogue_doubted => Ok(token.clone()),
            // Another one would expire as soon. A Keystone that says so is not asked with every request.
            Some(token) if now < after(token.received_at, MIN_TOKEN_AGE) => Ok(token.clone()),
            // Until it expires, the old token is better than an error.
            Some(token) if now < token.expires_at => {
                let old = token.clone();
                // A Keystone that does not answer is not asked with every call to a Neutron that does.
                state.is_catalogue_doubted = false;
                Ok(self.renew(&mut state).await.unwrap_or(old))
            }
            _ => self.renew(&mut state).await,
        }
    }

    /// The present token, if none is being requested.
    pub(super) fn known(&self) -> Option<Arc<Token>> {
        self.state.try_lock().ok()?.token.clone()
    }

    /// Neutron does not answer, or a session is to be opened. If its URL or the project has changed, the next token says so.
    pub(super) fn doubt_catalogue(&self) {
        let Ok(mut state) = self.state.try_lock() else { return };
        let is_old = |token: &Arc<Token>| self.clock.now() >= after(token.received_at, MIN_CATALOGUE_AGE);
        state.is_catalogue_doubted = state.token.as_ref().is_some_and(is_old);
    }

    /// A token in place of `refused`; only the first of several callers with the same refused token authenticates.
    pub(super) async fn replace(&self, refused: &Arc<Token>) -> Result<Arc<Token>, Error> {
        let mut state = self.state.lock().await;
        match &state.token {
            Some(current) if !Arc::ptr_eq(current, refused) => return Ok(current.clone()),
            Some(current) if self.clock.now() < after(current.received_at, MIN_TOKEN_AGE) => {
                let message = "Neutron refuses a token that Keystone has just issued: check the access rules of the application credential, or ask the operators of the cloud";
                return Err(Error::new(ErrorKind::Unauthorized, OPERATION, message));
            }
            _ => state.token = None,
        }
        self.renew(&mut state).await
    }

    async fn renew(&self, state: &mut TokenState) -> Result<Arc<Token>, Error> {
        let started_at = self.clock.now();
        if let Some(failure) = &state.failure
            && started_at < failure.retry_at
        {
            return Err(failure.error.clone());
        }
        let result = self.keystone.authenticate().await;
        (self.observer)(&self.cloud, result.as_ref().err().map(|error| error.kind));
        match result {
            Ok(token) => {
                let token = Arc::new(token);
                *state = TokenState { token: Some(token.clone()), ..TokenState::default() };
                Ok(token)
            }
            Err(error) => {
                self.record_failure(state, &error, started_at);
                Err(error)
            }
        }
    }

    /// The back-off counts from the start of the attempt, so that a Keystone that is slow to fail is not asked less often.
    /// But it lasts at least [`MIN_BACKOFF`] from now, so that callers who waited for the attempt get its error.
    fn record_failure(&self, state: &mut TokenState, error: &Error, started_at: Timestamp) {
        let previous = state.failure.as_ref().map(|failure| failure.backoff);
        let backoff = previous.map_or(MIN_BACKOFF, |backoff| backoff.saturating_mul(2).min(MAX_BACKOFF));
        let backoff = backoff.max(error.retry_after.unwrap_or_default().min(MAX_BACKOFF));
        let retry_at = after(started_at, backoff).max(after(self.clock.now(), MIN_BACKOFF));
        state.failure = Some(FailedAuthentication { error: error.clone(), backoff, retry_at });
    }

    /// The token was issued but cannot be used, because of its project or catalogue.
    pub(super) async fn reject(&self, token: &Arc<Token>, error: &Error) {
        let mut state = self.state.lock().await;
        if state.token.as_ref().is_some_and(|current| Arc::ptr_eq(current, token)) {
            state.token = None;
            self.record_failure(&mut state, error, self.clock.now());
        }
    }

    /// Whether a failure is so recent that it must be kept even without a session.
    pub(super) fn is_backing_off(&self) -> bool {
        // Locked means that an authentication is in progress.
        self.state.try_lock().map_or(true, |state| {
            let kept_until = |failure: &FailedAuthentication| after(failure.retry_at, MAX_BACKOFF.saturating_mul(2));
            state.failure.as_ref().is_some_and(|failure| self.clock.now() < kept_until(failure))
        })
    }
}
