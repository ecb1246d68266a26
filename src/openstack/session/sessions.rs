//! The open sessions: in each namespace one for each distinct content of credentials, and one throttle for each cloud, by
//! Keystone.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use openstack_sdk_core::catalog::ServiceEndpoint;
use parking_lot::Mutex;

use super::super::credentials::Fingerprint;
use super::super::neutron::{MAX_FLOATING_IPS, NeutronClient};
use super::super::{AllowedHosts, Clouds, Credentials, Error, ErrorKind, KeystoneId, Neutron, ProjectScope};
use super::Session;
use super::allowance::Allowance;
use super::catalog::NeutronEndpoint;
use super::keystone::{OPERATION, Token};
use super::limiter::DEFAULT_MAX_CALLS;
use super::throttle::Throttle;
use super::token_cache::{AuthObserver, TokenCache};
use crate::clock::Clock;
use crate::tls;

/// In bytes: of a session, without what its credentials say. 3,000 sessions took 30 MiB.
const SESSION_SIZE: usize = 16 << 10;
/// In bytes: that the sessions of one namespace may take, so that ten tenants do not fill the container's memory.
const MAX_MEMORY: usize = 1 << 20;

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
    by_namespace: BTreeMap<String, NamespaceSessions>,
    /// By Keystone and Neutron's URL, so that slow servers of one tenant do not delay the calls of another.
    throttles: BTreeMap<(KeystoneId, String), Weak<Throttle>>,
}

struct NamespaceSessions {
    allowance: Arc<Allowance>,
    by_credentials: BTreeMap<Fingerprint, Entry>,
}

struct Entry {
    /// Kept while it has a session, or while it backs off.
    tokens: Arc<TokenCache>,
    session: Weak<NeutronClient>,
    /// In bytes: of the credentials.
    size: usize,
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
        namespace: &str,
        credentials: &Credentials,
    ) -> Result<(Arc<TokenCache>, Option<Arc<NeutronClient>>), Error> {
        let mut open = self.open.lock();
        open.remove_unused();
        let sessions = open.by_namespace.entry(namespace.to_owned()).or_insert_with(|| NamespaceSessions {
            allowance: Arc::new(Allowance::new(self.max_calls)),
            by_credentials: BTreeMap::new(),
        });
        if let Some(entry) = sessions.by_credentials.get(&credentials.fingerprint()) {
            return Ok((entry.tokens.clone(), entry.session.upgrade()));
        }
        let tokens = TokenCache::new(
            credentials.clone(),
            sessions.allowance.clone(),
            self.hosts.clone(),
            self.clock.clone(),
            self.observer.clone(),
        )?;
        let entry = Entry { tokens: Arc::new(tokens), session: Weak::new(), size: credentials.size };
        if sessions.memory_size_with(&entry) > MAX_MEMORY {
            return Err(too_many_sessions(namespace));
        }
        let tokens = entry.tokens.clone();
        sessions.by_credentials.insert(credentials.fingerprint(), entry);
        Ok((tokens, None))
    }
}

impl OpenSessions {
    fn remove_unused(&mut self) {
        self.by_namespace.retain(|_, sessions| {
            sessions.by_credentials.retain(|_, entry| entry.is_used());
            !sessions.by_credentials.is_empty()
        });
        self.throttles.retain(|_, throttle| throttle.strong_count() > 0);
    }
}

impl NamespaceSessions {
    /// In bytes, with one more entry. Entries with the same CAs share them; the system's are everybody's.
    fn memory_size_with(&self, new: &Entry) -> usize {
        let mut counted = vec![tls::system_roots()];
        let size = |entry: &Entry| {
            let roots = entry.tokens.http_client().roots.as_ref();
            let new_roots = roots.filter(|roots| !counted.iter().any(|known| Arc::ptr_eq(known, roots)));
            counted.extend(new_roots.cloned());
            [SESSION_SIZE, entry.size, new_roots.map_or(0, |roots| tls::memory_size(roots))]
                .iter()
                .fold(0, |sum: usize, size| sum.saturating_add(*size))
        };
        self.by_credentials.values().chain([new]).map(size).fold(0, usize::saturating_add)
    }
}

impl Entry {
    fn is_used(&self) -> bool {
        self.session.strong_count() > 0 || Arc::strong_count(&self.tokens) > 1 || self.tokens.is_backing_off()
    }
}

fn too_many_sessions(namespace: &str) -> Error {
    let (sessions, kib) = (MAX_MEMORY / SESSION_SIZE, MAX_MEMORY >> 10);
    let message = format!(
        "the pools of namespace {namespace} have more than {sessions} different credentials, or credentials and CAs that take more than {kib} KiB of memory: let pools share a Secret, or shorten cacert"
    );
    Error::new(ErrorKind::Credentials, OPERATION, message)
}

fn endpoint_and_scope(token: &Token, credentials: &Credentials) -> Result<(ServiceEndpoint, ProjectScope), Error> {
    let project = token.project.clone().ok_or_else(|| {
        let message = "the token is for no project: set project_id, or project_name, in clouds.yaml";
        Error::new(ErrorKind::Credentials, OPERATION, message)
    })?;
    let NeutronEndpoint { endpoint, region } = token.neutron.clone()?;
    let (keystone, url) = (credentials.keystone(), endpoint.url_str().to_owned());
    let scope = ProjectScope { keystone, endpoint: url, region, project };
    Ok((endpoint, scope))
}

#[async_trait]
impl Clouds for Sessions {
    async fn connect(&self, namespace: &str, credentials: &Credentials) -> Result<Arc<dyn Neutron>, Error> {
        let (tokens, session) = self.find_or_insert(namespace, credentials)?;
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
        let OpenSessions { by_namespace, throttles } = &mut *open;
        // It stays while its tokens are in use here.
        let known = by_namespace.get_mut(namespace);
        let known = known.and_then(|sessions| sessions.by_credentials.get_mut(&credentials.fingerprint()));
        // A concurrent call may have opened the session.
        if let Some(session) = known.as_ref().and_then(|entry| entry.session.upgrade()) {
            return Ok(session);
        }
        let cloud = (scope.keystone, scope.endpoint.clone());
        let throttle = throttles.get(&cloud).and_then(Weak::upgrade);
        let throttle = throttle.unwrap_or_else(|| Arc::new(Throttle::new(self.clock.clone(), self.max_calls)));
        throttles.insert(cloud, Arc::downgrade(&throttle));
        let session = Session { tokens, throttle, endpoint, scope };
        let session = Arc::new(NeutronClient::new(session, self.max_floating_ips));
        if let Some(entry) = known {
            entry.session = Arc::downgrade(&session);
        }
        Ok(session)
    }
}
