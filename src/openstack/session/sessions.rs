//! Which sessions there are: one for each distinct content of credentials, and one gate for each cloud.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use async_trait::async_trait;
use openstack_sdk_core::catalog::ServiceEndpoint;

use super::super::credentials::Fingerprint;
use super::super::neutron::NeutronClient;
use super::super::{Clouds, Credentials, Error, ErrorKind, Neutron, Scope};
use super::gate::Gate;
use super::keystone::{AuthObserver, Keystone, Token};
use super::limiter::MOST;
use super::{Session, catalog};
use crate::clock::Clock;

/// The real clouds.
pub struct Sessions {
    clock: Clock,
    heard: AuthObserver,
    most: usize,
    // A plain mutex: held for look-ups only, never across an await.
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    identities: BTreeMap<Fingerprint, Entry>,
    gates: BTreeMap<String, Weak<Gate>>,
}

struct Entry {
    /// Kept while it has a session, or while it must remember that it was refused.
    keystone: Arc<Keystone>,
    session: Weak<NeutronClient>,
}

impl Sessions {
    /// No sessions yet; they are opened as they are asked for and closed when nobody holds them.
    pub fn new(clock: Clock) -> Self {
        Self { clock, heard: Arc::new(|_| ()), most: MOST, known: Mutex::default() }
    }

    /// Makes at most this many calls side by side to one cloud; 8 where nobody says otherwise.
    pub fn side_by_side(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Calls `heard` at the end of every authentication that was sent to Keystone, with the error of one that failed.
    pub fn on_authentication(self, heard: impl Fn(Option<ErrorKind>) + Send + Sync + 'static) -> Self {
        Self { heard: Arc::new(heard), ..self }
    }

    /// The session for these credentials, or who is to ask Keystone for one.
    fn find(&self, credentials: &Credentials) -> Result<Result<Arc<NeutronClient>, Arc<Keystone>>, Error> {
        let mut known = self.known.lock().expect("no code panics while it holds the list of sessions");
        known.identities.retain(|_, entry| {
            let is_held = entry.session.strong_count() > 0 || Arc::strong_count(&entry.keystone) > 1;
            is_held || entry.keystone.is_resting()
        });
        known.gates.retain(|_, gate| gate.strong_count() > 0);
        if let Some(entry) = known.identities.get(&credentials.fingerprint()) {
            return Ok(entry.session.upgrade().ok_or_else(|| entry.keystone.clone()));
        }
        let keystone = Arc::new(Keystone::new(credentials.clone(), self.clock.clone(), self.heard.clone())?);
        let entry = Entry { keystone: keystone.clone(), session: Weak::new() };
        known.identities.insert(credentials.fingerprint(), entry);
        Ok(Err(keystone))
    }
}

/// Where the token works.
fn place(token: &Token, credentials: &Credentials) -> Result<(ServiceEndpoint, Scope), Error> {
    let project = token.project.clone().ok_or_else(|| {
        let message = "the token is for no project: set project_id, or project_name, in clouds.yaml";
        Error::new(ErrorKind::Credentials, "authenticate", message)
    })?;
    let endpoint = catalog::neutron(token, credentials)?;
    let scope = Scope { endpoint: endpoint.url_str().to_owned(), project };
    Ok((endpoint, scope))
}

#[async_trait]
impl Clouds for Sessions {
    async fn connect(&self, credentials: &Credentials) -> Result<Arc<dyn Neutron>, Error> {
        let keystone = match self.find(credentials)? {
            Ok(session) => return Ok(session),
            Err(keystone) => keystone,
        };
        let token = keystone.token().await?;
        let (endpoint, scope) = match place(&token, credentials) {
            Ok(place) => place,
            Err(error) => {
                // The next token may say otherwise, but must not be asked for at once.
                keystone.reject(&token, &error).await;
                return Err(error);
            }
        };

        let mut known = self.known.lock().expect("no code panics while it holds the list of sessions");
        // Somebody may have been quicker.
        let entry = known.identities.get(&credentials.fingerprint());
        if let Some(session) = entry.and_then(|entry| entry.session.upgrade()) {
            return Ok(session);
        }
        let gate = known.gates.get(&scope.endpoint).and_then(Weak::upgrade);
        let gate = gate.unwrap_or_else(|| Arc::new(Gate::new(self.clock.clone(), self.most)));
        known.gates.insert(scope.endpoint.clone(), Arc::downgrade(&gate));
        let session = Session { keystone: keystone.clone(), gate, endpoint, scope };
        let session = Arc::new(NeutronClient::new(session));
        let entry = Entry { keystone, session: Arc::downgrade(&session) };
        known.identities.insert(credentials.fingerprint(), entry);
        Ok(session)
    }
}
