//! The open sessions: in each namespace one for each distinct content of credentials, whose tokens are those of all
//! namespaces; and one throttle for each cloud, by Keystone.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use openstack_sdk_core::catalog::ServiceEndpoint;
use parking_lot::Mutex;
use rustls::RootCertStore;
use tokio::sync::Semaphore;

use super::super::credentials::Fingerprint;
use super::super::hosts::{ClientLookups, Lookups};
use super::super::neutron::{MAX_FLOATING_IPS, NeutronClient};
use super::super::{
    AllowedHosts, CloudName, Clouds, Credentials, Error, ErrorKind, HttpsProxy, KeystoneId, Neutron, ProjectScope,
};
use super::Session;
use super::catalog::NeutronEndpoint;
use super::keystone::{OPERATION, Token};
use super::limiter::DEFAULT_MAX_CALLS;
use super::throttle::Throttle;
use super::token_cache::{AuthObserver, TokenCache};
use super::transport::HttpClient;
use crate::clock::Clock;
use crate::tls;

/// In bytes: of a session, without what its credentials say. 3,000 sessions took 30 MiB.
const SESSION_SIZE: usize = 10 << 10;
/// In bytes: that the sessions of one namespace may take, so that ten tenants do not fill the container's memory. Enough
/// for about 200 clusters in a namespace, each with a project of its own.
const MAX_MEMORY: usize = 2 << 20;

/// Opens sessions on demand and forgets those that are no longer used.
pub struct Sessions {
    clock: Clock,
    observer: AuthObserver,
    max_calls: usize,
    max_floating_ips: usize,
    hosts: Arc<AllowedHosts>,
    proxy: Option<HttpsProxy>,
    lookups: Arc<Lookups>,
    // Never locked across an await.
    open: Mutex<OpenSessions>,
}

#[derive(Default)]
struct OpenSessions {
    by_namespace: BTreeMap<String, NamespaceSessions>,
    /// Shared by namespaces: each failure is one for all with these credentials, as clouds lock users out after a few.
    tokens: BTreeMap<Fingerprint, Weak<TokenCache>>,
    /// By Keystone and Neutron's URL, so that slow servers of one tenant do not delay the calls of another.
    throttles: BTreeMap<(KeystoneId, String), Weak<Throttle>>,
}

struct NamespaceSessions {
    /// The permits to read a large answer.
    large_answers: Arc<Semaphore>,
    by_credentials: BTreeMap<Fingerprint, Entry>,
}

/// Kept while it has a session, or while its tokens are requested or back off.
struct Entry {
    tokens: Arc<TokenCache>,
    session: Weak<NeutronClient>,
    /// In bytes: of the credentials.
    size: usize,
}

impl Sessions {
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            observer: Arc::new(|_, _| ()),
            max_calls: DEFAULT_MAX_CALLS,
            max_floating_ips: MAX_FLOATING_IPS,
            hosts: Arc::new(AllowedHosts::all()),
            proxy: None,
            lookups: Arc::new(Lookups::system()),
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

    /// Connects through a proxy. By default, there is none.
    pub fn proxy(self, proxy: Option<HttpsProxy>) -> Self {
        Self { proxy, ..self }
    }

    /// Calls `observer` after each request for a token, with the cloud and the kind of the error if it failed.
    pub fn on_authentication(self, observer: impl Fn(&CloudName, Option<ErrorKind>) + Send + Sync + 'static) -> Self {
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
        let OpenSessions { by_namespace, tokens, .. } = &mut *open;
        let sessions = by_namespace.entry(namespace.to_owned()).or_default();
        let fingerprint = credentials.fingerprint();
        if let Some(entry) = sessions.by_credentials.get(&fingerprint) {
            return Ok((entry.tokens.clone(), entry.session.upgrade()));
        }
        // First without the CAs, which it takes time to read.
        sessions.check_memory(namespace, credentials.size, None)?;
        let tokens = match tokens.get(&fingerprint).and_then(Weak::upgrade) {
            Some(shared) => shared,
            None => {
                let lookups = ClientLookups::new(self.lookups.clone());
                let http = HttpClient::new(credentials, self.hosts.clone(), self.proxy.clone(), lookups)?;
                let (clock, observer) = (self.clock.clone(), self.observer.clone());
                let new = Arc::new(TokenCache::new(credentials.clone(), http, clock, observer));
                tokens.insert(fingerprint, Arc::downgrade(&new));
                new
            }
        };
        sessions.check_memory(namespace, credentials.size, tokens.http_client().roots.as_ref())?;
        tokens.http_client().lookups.add_user(namespace);
        let entry = Entry { tokens: tokens.clone(), session: Weak::new(), size: credentials.size };
        sessions.by_credentials.insert(fingerprint, entry);
        Ok((tokens, None))
    }
}

impl OpenSessions {
    fn remove_unused(&mut self) {
        self.by_namespace.retain(|_, sessions| {
            sessions.by_credentials.retain(|_, entry| entry.is_used());
            !sessions.by_credentials.is_empty()
        });
        self.tokens.retain(|_, tokens| tokens.strong_count() > 0);
        self.throttles.retain(|_, throttle| throttle.strong_count() > 0);
    }
}

impl Default for NamespaceSessions {
    fn default() -> Self {
        Self { large_answers: Arc::new(Semaphore::new(1)), by_credentials: BTreeMap::new() }
    }
}

impl NamespaceSessions {
    /// Whether there is memory for one more session. Sessions with the same CAs share them; the system's are everybody's.
    fn check_memory(&self, namespace: &str, size: usize, roots: Option<&Arc<RootCertStore>>) -> Result<(), Error> {
        let known = self.by_credentials.values().map(|entry| (entry.size, entry.tokens.http_client().roots.as_ref()));
        let mut counted = vec![tls::system_roots()];
        let mut used: usize = 0;
        for (size, roots) in known.chain([(size, roots)]) {
            let own = roots.filter(|roots| !counted.iter().any(|known| Arc::ptr_eq(known, roots)));
            used = [SESSION_SIZE, size, own.map_or(0, |roots| tls::memory_size(roots))]
                .into_iter()
                .fold(used, usize::saturating_add);
            counted.extend(own.cloned());
        }
        if used > MAX_MEMORY { Err(too_many_sessions(namespace)) } else { Ok(()) }
    }
}

impl Entry {
    fn is_used(&self) -> bool {
        self.session.strong_count() > 0 || self.tokens.is_backing_off()
    }
}

fn too_many_sessions(namespace: &str) -> Error {
    let kib = MAX_MEMORY >> 10;
    let message = format!(
        "the pools of namespace {namespace} have so many different credentials and CAs that they take more than {kib} KiB of memory: let pools share a Secret, shorten cacert, or use more namespaces"
    );
    Error::new(ErrorKind::Credentials, OPERATION, message)
}

fn endpoint_and_scope(token: &Token, credentials: &Credentials) -> Result<(ServiceEndpoint, ProjectScope), Error> {
    let project = token.project()?.clone();
    let NeutronEndpoint { service: endpoint, region } = token.neutron.clone()?;
    let (keystone, url) = (credentials.keystone(), endpoint.url_str().to_owned());
    let scope = ProjectScope { keystone, endpoint: url, region, project };
    Ok((endpoint, scope))
}

#[async_trait]
impl Clouds for Sessions {
    async fn connect(&self, namespace: &str, credentials: &Credentials) -> Result<Arc<dyn Neutron>, Error> {
        let (tokens, session) = self.find_or_insert(namespace, credentials)?;
        if let Some(session) = session.filter(|session| session.is_current()) {
            return Ok(session);
        }
        // The project or the URL may have changed back.
        tokens.doubt_catalogue();
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
        let OpenSessions { by_namespace, throttles, .. } = &mut *open;
        let sessions = by_namespace.entry(namespace.to_owned()).or_default();
        let entry = sessions.by_credentials.entry(credentials.fingerprint());
        // It may have been removed meanwhile.
        let entry =
            entry.or_insert_with(|| Entry { tokens: tokens.clone(), session: Weak::new(), size: credentials.size });
        // A concurrent call may have opened the session.
        if let Some(session) = entry.session.upgrade().filter(|session| *session.scope() == scope) {
            return Ok(session);
        }
        let cloud = (scope.keystone, scope.endpoint.clone());
        let throttle = throttles.get(&cloud).and_then(Weak::upgrade);
        let throttle = throttle.unwrap_or_else(|| Arc::new(Throttle::new(self.clock.clone(), self.max_calls)));
        throttles.insert(cloud, Arc::downgrade(&throttle));
        let session = Session { tokens, throttle, large_answers: sessions.large_answers.clone(), endpoint, scope };
        let session = Arc::new(NeutronClient::new(session, self.max_floating_ips));
        entry.session = Arc::downgrade(&session);
        Ok(session)
    }
}
