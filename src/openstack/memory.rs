//! OpenStack in memory, for properties and crash points: deterministic, on the injected clock, without a network.
//!
//! It answers as the real servers were measured to, quirks included: a quota that a race passes, a DELETE that a port
//! does not stop, single tags that add up, a 500 for a tag of what is gone. `tests/contract.rs` puts the same questions
//! to both. [`MemoryCloud`] is also the hand of everybody else: the project's users, the operators, and fate.

mod cloud;
mod faults;
mod neutron;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::ByteString;
use secrecy::ExposeSecret;

use super::credentials::{CLOUDS_YAML, Identity};
use super::{Clouds, Credentials, Error, ErrorKind, Network, Neutron, NewFloatingIp, Scope, Subnet};
use crate::clock::Clock;
use crate::floating_ip::{FloatingIp, FloatingIpId, NetworkId, PortId, ProjectId, SubnetId};
use cloud::Cloud;
pub use faults::{Call, Fault, Faults, Moment};
use neutron::MemoryNeutron;
use state::{NetworkRow, SubnetRow};

/// Where the cloud is, by its catalogue.
const REGION: &str = "RegionOne";
const KEYSTONE: &str = "http://keystone.memory/v3/";
const NEUTRON: &str = "http://neutron.memory/v2.0/";

/// A cloud, and the handle to it. Clones are the same cloud.
#[derive(Clone)]
pub struct MemoryCloud {
    cloud: Arc<Cloud>,
}

impl MemoryCloud {
    /// An empty cloud.
    pub fn new(clock: Clock) -> Self {
        Self { cloud: Arc::new(Cloud::new(clock)) }
    }

    /// Adds a project with a quota of floating IPs (`None`: unlimited) and a user of the same name.
    pub fn add_project(&self, name: &str, quota: Option<u32>) -> ProjectId {
        let mut state = self.cloud.state();
        let id = ProjectId::new(state.new_id().replace('-', ""));
        state.projects.insert(id.clone(), quota);
        state.logins.insert((name.to_owned(), password(name)), id.clone());
        id
    }

    /// A Secret's data with which the user of project `name` can log in: cloud `openstack`.
    pub fn secret(&self, name: &str) -> BTreeMap<String, ByteString> {
        let yaml = format!(
            "clouds:\n  openstack:\n    region_name: {REGION}\n    auth: {{auth_url: {KEYSTONE}, username: {name}, \
             password: {}, project_name: {name}}}\n",
            password(name)
        );
        BTreeMap::from([(CLOUDS_YAML.to_owned(), ByteString(yaml.into_bytes()))])
    }

    /// The credentials of [`Self::secret`].
    pub fn credentials(&self, name: &str) -> Credentials {
        Credentials::from_secret(&self.secret(name), "openstack", None).expect("the cloud writes a good clouds.yaml")
    }

    /// Takes the login of project `name` away, or gives it back: sessions that are open are refused too.
    pub fn set_login(&self, name: &str, project: Option<&ProjectId>) {
        let login = (name.to_owned(), password(name));
        let mut state = self.cloud.state();
        match project {
            Some(project) => _ = state.logins.insert(login, project.clone()),
            None => _ = state.logins.remove(&login),
        }
    }

    /// Adds a network without subnets.
    pub fn add_network(&self, owner: &ProjectId, name: &str, is_external: bool) -> NetworkId {
        let mut state = self.cloud.state();
        let id = NetworkId::new(state.new_id());
        let network = Network { id: id.clone(), name: name.to_owned(), is_external };
        let (tags, description) = (BTreeSet::new(), String::new());
        state.networks.push(NetworkRow { network, tags, description, project: owner.clone() });
        id
    }

    /// Rewrites a network's tags.
    pub fn tag_network(&self, network: &NetworkId, tags: &[&str]) {
        let mut state = self.cloud.state();
        for row in state.networks.iter_mut().filter(|row| &row.network.id == network) {
            row.tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        }
    }

    /// Adds a subnet from which floating IPs get `addresses`.
    pub fn add_subnet(&self, network: &NetworkId, name: &str, addresses: RangeInclusive<IpAddr>) -> SubnetId {
        let mut state = self.cloud.state();
        let id = SubnetId::new(state.new_id());
        let subnet = Subnet { id: id.clone(), name: name.to_owned(), network: network.clone() };
        state.subnets.push(SubnetRow { subnet, addresses });
        id
    }

    /// Rewrites a project's quota of floating IPs.
    pub fn set_quota(&self, project: &ProjectId, limit: Option<u32>) {
        self.cloud.state().projects.insert(project.clone(), limit);
    }

    /// Takes the tag extension away, or gives it back.
    pub fn set_tags_extension(&self, is_there: bool) {
        self.cloud.state().has_tags = is_there;
    }

    /// Takes the quota extension away, or gives it back.
    pub fn set_quota_extension(&self, is_there: bool) {
        self.cloud.state().has_quotas = is_there;
    }

    /// Creates a floating IP as a user of the project would, by the rules but unseen by log and faults.
    pub fn create(&self, project: &ProjectId, network: &NetworkId, description: &str) -> Result<FloatingIp, Error> {
        let new = NewFloatingIp { network: network.clone(), subnet: None, description: description.to_owned() };
        let mut state = self.cloud.state();
        state.check_new(project, &new)?;
        state.create(project, &new, self.cloud.clock.now())
    }

    /// Creates a floating IP with an address of choice, as an administrator can.
    pub fn create_at(&self, project: &ProjectId, network: &NetworkId, address: IpAddr) -> FloatingIp {
        let mut state = self.cloud.state();
        let id = FloatingIpId::new(state.new_id());
        state.insert(id, project, network, address, "", self.cloud.clock.now())
    }

    /// Changes a floating IP in any way, as its user could; the time of its last change is now. False when it is gone.
    pub fn edit(&self, id: &FloatingIpId, change: impl FnOnce(&mut FloatingIp)) -> bool {
        let mut state = self.cloud.state();
        let Some(ip) = state.floating_ips.get_mut(id) else { return false };
        change(ip);
        state::touch(ip, self.cloud.clock.now());
        true
    }

    /// Attaches a floating IP to a port, taking it from another without a word, or detaches it.
    pub fn set_port(&self, id: &FloatingIpId, port: Option<&str>) -> bool {
        let now = self.cloud.clock.now();
        self.edit(id, |ip| state::set_port(ip, port.map(PortId::new), now))
    }

    /// Deletes a floating IP, whatever it is attached to. False when it is gone already.
    pub fn delete(&self, id: &FloatingIpId) -> bool {
        self.cloud.state().floating_ips.remove(id).is_some()
    }

    /// A floating IP as it is now.
    pub fn get(&self, id: &FloatingIpId) -> Option<FloatingIp> {
        self.cloud.state().floating_ips.get(id).cloned()
    }

    /// All floating IPs of all projects.
    pub fn floating_ips(&self) -> Vec<FloatingIp> {
        self.cloud.state().floating_ips.values().cloned().collect()
    }

    /// Every call so far, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.cloud.calls().clone()
    }

    /// How many calls there were of one of the trait's methods.
    pub fn count(&self, operation: &str) -> usize {
        self.cloud.calls().iter().filter(|call| call.operation == operation).count()
    }

    /// Decides what goes wrong from now on.
    pub fn set_faults(&self, faults: impl Faults + 'static) {
        self.cloud.set_faults(Some(Arc::new(faults)));
    }

    /// Nothing goes wrong from now on.
    pub fn clear_faults(&self) {
        self.cloud.set_faults(None);
    }
}

fn password(name: &str) -> String {
    format!("password-of-{name}")
}

/// What somebody logs in with, in the form of the table of logins.
fn login(identity: &Identity) -> (String, String) {
    let secret = identity.secret().expose_secret().to_owned();
    (identity.who().to_owned(), secret)
}

#[async_trait]
impl Clouds for MemoryCloud {
    async fn connect(&self, credentials: &Credentials) -> Result<Arc<dyn Neutron>, Error> {
        if let Some(session) = self.known_session(credentials) {
            return Ok(session);
        }
        let call = self.cloud.log(Call { number: 0, operation: "connect", project: None, id: None, text: None });
        faults::strike(self.cloud.fault(Moment::Before, &call), &call).await?;
        tokio::task::yield_now().await;
        let session = self.open(credentials);
        faults::strike(self.cloud.fault(Moment::After, &call), &call).await?;
        session
    }
}

impl MemoryCloud {
    fn known_session(&self, credentials: &Credentials) -> Option<Arc<dyn Neutron>> {
        let sessions = self.cloud.sessions.lock().expect("no code panics while it holds the sessions");
        let session = sessions.get(&credentials.fingerprint())?.upgrade()?;
        Some(session)
    }

    fn open(&self, credentials: &Credentials) -> Result<Arc<dyn Neutron>, Error> {
        if credentials.auth_url.as_str() != KEYSTONE {
            let message = "Keystone: the cloud cannot be reached";
            return Err(Error::new(ErrorKind::Unreachable, "authenticate", message));
        }
        let login = login(&credentials.identity);
        let project = self.cloud.state().logins.get(&login).cloned().ok_or_else(cloud::refused)?;
        if let Some(region) = credentials.region.as_deref().filter(|region| *region != REGION) {
            let message = format!("region {region} has none at its public interface, but these have: {REGION}");
            return Err(Error::new(ErrorKind::NoNetworkService, "find Neutron in the catalogue", message));
        }
        if let Some(session) = self.known_session(credentials) {
            return Ok(session);
        }
        let scope = Scope { endpoint: NEUTRON.to_owned(), project };
        let session = Arc::new(MemoryNeutron { cloud: self.cloud.clone(), scope, login });
        let mut sessions = self.cloud.sessions.lock().expect("no code panics while it holds the sessions");
        sessions.insert(credentials.fingerprint(), Arc::downgrade(&session));
        Ok(session)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by it")]
mod tests;
