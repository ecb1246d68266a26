//! The open sessions: one for each distinct content of credentials, and one throttle for each cloud, by Keystone.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use openstack_sdk_core::catalog::ServiceEndpoint;
use parking_lot::Mutex;

use super::super::credentials::Fingerprint;
use super::super::neutron::{MAX_FLOATING_IPS, NeutronClient};
use super::super::{AllowedHosts, Clouds, Credentials, Error, ErrorKind, KeystoneId, Neutron, ProjectScope};
use super::keystone::{OPERATION, Token};
use super::limiter::DEFAULT_MAX_CALLS;
use super::throttle::Throttle;
use super::token_cache::{AuthObserver, TokenCache};
use super::{Session, catalog};
use crate::clock::Clock;

/// Opens sessions on demand and forgets those that are no longer used.
pub struct Sessions {
    clock: Clock,
    observer: AuthObserver,
    max_calls: usize,
    max_floating_ips: usize,
    hosts: Arc<AllowedHosts>,
    // Never locked across an await.
    open: Mutex<OpenSessions>,
}

#[derive(Default)]
struct OpenSessions {
    by_credentials: BTreeMap<Fingerprint, Entry>,
    /// By Keystone and Neutron's URL, so that slow servers of one tenant do not delay the calls of another.
    throttles: BTreeMap<(KeystoneId, String), Weak<Throttle>>,
}

struct Entry {
    /// Kept while it has a session, or while it backs off.
    tokens: Arc<TokenCache>,
    session: Weak<NeutronClient>,
}

impl Sessions {
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            observer: Arc::new(|_| ()),
            max_calls: DEFAULT_MAX_CALLS,
            max_floating_ips: MAX_FLOATING_IPS,
            hosts: Arc::new(AllowedHosts::all()),
            open: Mutex::default(),
        }
    }

    /// Limits the floating IPs of one project; the default is 4000. A listing of more is an error.
    pub fn max_floating_ips(self, max_floating_ips: usize) -> Self {
        Self { max_floating_ips, ..self }
    }

    /// Limits the concurrent calls to one cloud; the default is 8.
    pub fn max_concurrent_calls(self, max_calls: usize) -> Self {
        Self { max_calls, ..self }
    }

    /// Limits the servers that are connected to. By default, every server is allowed.
    pub fn allowed_hosts(self, hosts: AllowedHosts) -> Self {
        Self { hosts: Arc::new(hosts), ..self }
    }

    /// Calls `observer` after each request for a token, with the kind of the error if it failed.
    pub fn on_authentication(self, observer: impl Fn(Option<ErrorKind>) + Send + Sync + 'static) -> Self {
        Self { observer: Arc::new(observer), ..self }
    }

    /// Where these credentials get their tokens, and their session if it is open. Removes the entries that are not used.
    fn find_or_insert(
        &self,
        credentials: &Credentials,
    ) -> Result<(Arc<TokenCache>, Option<Arc<NeutronClient>>), Error> {
        let mut open = self.open.lock();
        open.by_credentials.retain(|_, entry| {
            let is_used = entry.session.strong_count() > 0 || Arc::strong_count(&entry.tokens) > 1;
            is_used || entry.tokens.is_backing_off()
        });
        open.throttles.retain(|_, throttle| throttle.strong_count() > 0);
        if let Some(entry) = open.by_credentials.get(&credentials.fingerprint()) {
            return Ok((entry.tokens.clone(), entry.session.upgrade()));
        }
        let tokens =
            TokenCache::new(credentials.clone(), self.hosts.clone(), self.clock.clone(), self.observer.clone())?;
        let entry = Entry { tokens: Arc::new(tokens), session: Weak::new() };
        let tokens = entry.tokens.clone();
        open.by_credentials.insert(credentials.fingerprint(), entry);
        Ok((tokens, None))
    }
}

fn endpoint_and_scope(token: &Token, credentials: &Credentials) -> Result<(ServiceEndpoint, ProjectScope), Error> {
    let project = token.project.clone().ok_or_else(|| {
        let message = "the token is for no project: set project_id, or project_name, in clouds.yaml";
        Error::new(ErrorKind::Credentials, OPERATION, message)
    })?;
    let (endpoint, region) = catalog::neutron_endpoint(token, credentials)?;
    let (keystone, url) = (credentials.keystone(), endpoint.url_str().to_owned());
    let scope = ProjectScope { keystone, endpoint: url, region, project };
    Ok((endpoint, scope))
}

#[async_trait]
impl Clouds for Sessions {
    async fn connect(&self, credentials: &Credentials) -> Result<Arc<dyn Neutron>, Error> {
        let (tokens, session) = self.find_or_insert(credentials)?;
        if let Some(session) = session {
            return Ok(session);
        }
        let token = tokens.token().await?;
        let (endpoint, scope) = match endpoint_and_scope(&token, credentials) {
            Ok(found) => found,
            Err(error) => {
                // The next token may be usable, but must not be requested at once.
                tokens.reject(&token, &error).await;
                return Err(error);
            }
        };

        let mut open = self.open.lock();
        // A concurrent call may have opened the session.
        let entry = open.by_credentials.get(&credentials.fingerprint());
        if let Some(session) = entry.and_then(|entry| entry.session.upgrade()) {
            return Ok(session);
        }
        let cloud = (scope.keystone, scope.endpoint.clone());
        let throttle = open.throttles.get(&cloud).and_then(Weak::upgrade);
        let throttle = throttle.unwrap_or_else(|| Arc::new(Throttle::new(self.clock.clone(), self.max_calls)));
        open.throttles.insert(cloud, Arc::downgrade(&throttle));
        let session = Session { tokens: tokens.clone(), throttle, endpoint, scope };
        let session = Arc::new(NeutronClient::new(session, self.max_floating_ips));
        let entry = Entry { tokens, session: Arc::downgrade(&session) };
        open.by_credentials.insert(credentials.fingerprint(), entry);
        Ok(session)
    }
}
