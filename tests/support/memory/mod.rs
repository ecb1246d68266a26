//! OpenStack in memory: deterministic, on an injected clock, without a network.
//!
//! It answers as real servers were measured to, quirks included: concurrent requests can exceed a quota, a port does not
//! prevent a deletion, single tags add up. `tests/contract.rs` asks both the same questions. [`MemoryCloud`] also does
//! what the project's users and the cloud's operators do.

mod neutron;
mod state;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use async_trait::async_trait;
use caip_openstack::clock::Clock;
use caip_openstack::floating_ip::{FloatingIp, FloatingIpId, NetworkId, PortId, ProjectId, SubnetId};
use caip_openstack::openstack::credentials::CLOUDS_YAML;
use caip_openstack::openstack::{
    Clouds, Credentials, DeletionCheck, DeletionStep, Error, Network, Neutron, ProjectScope, Subnet,
};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use parking_lot::{Mutex, MutexGuard};

pub use neutron::MemoryNeutron;
pub use state::{Alteration, Elsewhere};
use state::{Login, NetworkRow, State, SubnetRow};

/// Whether a floating IP is to be deleted, after the read that its check may ask for.
pub async fn may_delete(
    neutron: &dyn Neutron,
    id: &FloatingIpId,
    check: &mut DeletionCheck<'_>,
) -> Result<bool, Error> {
    let mut step = check(None);
    if step == DeletionStep::Read {
        step = check(Some(neutron.get_floating_ip(id).await?));
    }
    Ok(step == DeletionStep::Delete)
}

/// A cloud, and the handle to it. Clones are the same cloud.
#[derive(Clone)]
pub struct MemoryCloud {
    clock: Clock,
    // Locked for one step at a time, never across an await.
    state: Arc<Mutex<State>>,
}

impl MemoryCloud {
    pub fn new(clock: Clock) -> Self {
        let cloud = Self { clock, state: Arc::default() };
        cloud.state().region = "RegionOne".to_owned();
        cloud
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Adds a project with a quota of floating IPs (`None`: unlimited) and a user of the same name.
    pub fn add_project(&self, name: &str, quota: Option<u32>) -> ProjectId {
        let mut state = self.state();
        let id = ProjectId::new(state.new_id().replace('-', ""));
        state.quotas.insert(id.clone(), quota);
        state.passwords.insert(name.to_owned(), format!("password-of-{name}"));
        drop(state);
        let login = self.credentials(name).fingerprint();
        self.state().logins.insert(login, Login { project: id.clone(), elsewhere: None });
        id
    }

    /// Adds a user to the project of another one.
    pub fn add_user(&self, name: &str, of: &str) {
        let usual = self.credentials(of).fingerprint();
        self.state().passwords.entry(name.to_owned()).or_insert_with(|| format!("password-of-{name}"));
        let new = self.credentials(name).fingerprint();
        let mut state = self.state();
        if let Some(login) = state.logins.get(&usual).cloned() {
            state.logins.insert(new, login);
        }
    }

    /// Adds a user whose role may see no floating IP: Neutron lists none.
    pub fn add_blind_user(&self, name: &str, of: &str) {
        self.add_user(name, of);
        let login = self.credentials(name).fingerprint();
        self.state().blind.insert(login);
    }

    /// From now on the user gets tokens for this project, as where clouds.yaml names none and the user's default project is
    /// changed.
    pub fn set_project(&self, name: &str, project: &ProjectId) {
        let login = self.credentials(name).fingerprint();
        self.state().logins.entry(login).and_modify(|login| login.project = project.clone());
    }

    /// Changes the password of a project's user: credentials and sessions with the old one are refused.
    pub fn change_password(&self, name: &str, password: &str) {
        let old = self.credentials(name).fingerprint();
        self.state().passwords.insert(name.to_owned(), password.to_owned());
        let new = self.credentials(name).fingerprint();
        self.state().replace_login(&old, new);
    }

    /// From now on the cloud does this to what is written to it.
    pub fn alter(&self, alteration: Alteration) {
        self.state().alteration = alteration;
    }

    pub fn alteration(&self) -> Alteration {
        self.state().alteration
    }

    /// A Secret's data whose credentials are accepted, and lead elsewhere.
    pub fn secret_elsewhere(&self, name: &str, place: Elsewhere) -> BTreeMap<String, ByteString> {
        let (secret, login) = match place {
            Elsewhere::Region => {
                let region = Some(Elsewhere::REGION);
                (self.secret_of(name, Elsewhere::REGION), self.credentials_in(name, region))
            }
            Elsewhere::Project => {
                let nobodys = format!("not-{name}");
                self.state().passwords.entry(nobodys.clone()).or_insert_with(|| "secret".to_owned());
                (self.secret(&nobodys), self.credentials(&nobodys))
            }
            Elsewhere::Keystone | Elsewhere::Panic => {
                let url = std::mem::replace(&mut self.state().keystone, "http://keystone.tenant/v3/".to_owned());
                let found = (self.secret(name), self.credentials(name));
                self.state().keystone = url;
                found
            }
        };
        self.accept_elsewhere(name, &login, place);
        secret
    }

    /// Accepts the credentials of [`Self::secret`] where `spec.identityRef.region` is [`Elsewhere::REGION`].
    pub fn accept_other_region(&self, name: &str) {
        let login = self.credentials_in(name, Some(Elsewhere::REGION));
        self.accept_elsewhere(name, &login, Elsewhere::Region);
    }

    fn accept_elsewhere(&self, name: &str, credentials: &Credentials, place: Elsewhere) {
        let usual = self.credentials(name).fingerprint();
        let mut state = self.state();
        let Some(usual) = state.logins.get(&usual).cloned() else { return };
        let project = match place {
            // The project is the same, and it has nothing there.
            Elsewhere::Region | Elsewhere::Keystone | Elsewhere::Panic => {
                ProjectId::new(format!("{}{NOTHING}", usual.project))
            }
            Elsewhere::Project => ProjectId::new("f".repeat(32)),
        };
        state.logins.insert(credentials.fingerprint(), Login { project, elsewhere: Some(place) });
    }

    /// From now on Secrets are written for another region. Credentials for the first one are no longer accepted.
    pub fn change_region(&self, name: &str, region: &str) {
        let old = self.credentials(name).fingerprint();
        self.state().region = region.to_owned();
        let new = self.credentials(name).fingerprint();
        self.state().replace_login(&old, new);
    }

    /// From now on Secrets are written with this URL of Keystone. Both are accepted.
    pub fn move_keystone(&self, name: &str, url: &str) {
        let old = self.credentials(name).fingerprint();
        self.state().keystone = url.to_owned();
        let new = self.credentials(name).fingerprint();
        let mut state = self.state();
        if let Some(login) = state.logins.get(&old).cloned() {
            state.logins.insert(new, login);
        }
    }

    /// Keystone's URL in Secrets that are written now.
    pub fn keystone(&self) -> String {
        let url = Some(self.state().keystone.clone()).filter(|url| !url.is_empty());
        url.unwrap_or_else(|| "http://keystone.memory/v3/".to_owned())
    }

    /// From now on Neutron has another URL, and nothing answers at the old one.
    pub fn move_neutron(&self) {
        self.state().neutron_moves += 1;
    }

    pub fn network_name(&self, id: &NetworkId) -> String {
        let state = self.state();
        let row = state.networks.iter().find(|row| row.network.id == *id);
        row.map(|row| row.network.name.clone()).unwrap_or_default()
    }

    /// Gives a network another name.
    pub fn rename_network(&self, id: &NetworkId, name: &str) {
        let mut state = self.state();
        state
            .networks
            .iter_mut()
            .filter(|row| row.network.id == *id)
            .for_each(|row| row.network.name = name.to_owned());
    }

    /// A Secret's data with which the user of project `name` can log in: cloud `openstack`.
    pub fn secret(&self, name: &str) -> BTreeMap<String, ByteString> {
        let region = self.state().region.clone();
        self.secret_of(name, &region)
    }

    fn secret_of(&self, name: &str, region: &str) -> BTreeMap<String, ByteString> {
        let password = self.state().passwords.get(name).cloned().unwrap_or_default();
        let keystone = self.keystone();
        let yaml = format!(
            "clouds:\n  openstack:\n    region_name: {region}\n    auth: {{auth_url: '{keystone}', \
             username: {name}, password: {password}, project_name: {name}}}\n",
        );
        BTreeMap::from([(CLOUDS_YAML.to_owned(), ByteString(yaml.into_bytes()))])
    }

    /// The credentials of [`Self::secret`].
    pub fn credentials(&self, name: &str) -> Credentials {
        self.credentials_in(name, None)
    }

    fn credentials_in(&self, name: &str, region: Option<&str>) -> Credentials {
        Credentials::from_secret(&self.secret(name), "openstack", region).expect("the cloud writes a valid clouds.yaml")
    }

    /// Adds a network without subnets.
    pub fn add_network(&self, owner: &ProjectId, name: &str, is_external: bool) -> NetworkId {
        let mut state = self.state();
        let id = NetworkId::new(state.new_id());
        let network = Network { id: id.clone(), name: name.to_owned(), is_external };
        state.networks.push(NetworkRow { network, project: owner.clone() });
        id
    }

    /// Adds a subnet from which floating IPs get `addresses`.
    pub fn add_subnet(&self, network: &NetworkId, name: &str, addresses: RangeInclusive<IpAddr>) -> SubnetId {
        let mut state = self.state();
        let id = SubnetId::new(state.new_id());
        let subnet = Subnet { id: id.clone(), name: name.to_owned(), network: network.clone() };
        state.subnets.push(SubnetRow { subnet, addresses });
        id
    }

    /// The subnet of this name, which is added if it is not there. A part of another one's addresses may be its own.
    pub fn ensure_subnet(&self, network: &NetworkId, name: &str, addresses: RangeInclusive<IpAddr>) -> SubnetId {
        let known = self.state().subnets.iter().find(|row| row.subnet.name == name).map(|row| row.subnet.id.clone());
        known.unwrap_or_else(|| self.add_subnet(network, name, addresses))
    }

    /// All subnets, with the addresses that floating IPs get.
    pub fn subnets(&self) -> Vec<(Subnet, RangeInclusive<IpAddr>)> {
        self.state().subnets.iter().map(|row| (row.subnet.clone(), row.addresses.clone())).collect()
    }

    /// Sets a project's quota of floating IPs.
    pub fn set_quota(&self, project: &ProjectId, limit: Option<u32>) {
        let mut state = self.state();
        state.quotas.insert(project.clone(), limit);
        state.has_been_limited |= limit.is_some();
    }

    /// Whether any project's quota is used up.
    pub fn is_a_quota_used_up(&self) -> bool {
        let state = self.state();
        state.quotas.keys().any(|project| state.is_quota_used_up(project))
    }

    /// Whether a quota was ever set after the project was added.
    pub fn has_been_limited(&self) -> bool {
        self.state().has_been_limited
    }

    /// Creates a floating IP with this address, as an administrator can.
    pub fn create_at(&self, project: &ProjectId, network: &NetworkId, address: IpAddr) -> FloatingIp {
        let mut state = self.state();
        let is_taken = state.floating_ips.values().any(|fip| fip.network == *network && fip.address == address);
        assert!(!is_taken, "{address} is a floating IP already");
        let id = FloatingIpId::new(state.new_id());
        state.insert(id, project, network, address, "", self.clock.now())
    }

    /// Changes a floating IP in any way; its last change is now. False when it does not exist.
    pub fn edit(&self, id: &FloatingIpId, change: impl FnOnce(&mut FloatingIp)) -> bool {
        let mut state = self.state();
        let Some(ip) = state.floating_ips.get_mut(id) else { return false };
        change(ip);
        state::touch(ip, self.clock.now());
        true
    }

    /// Makes a floating IP look as if it had not changed since.
    pub fn set_last_change(&self, id: &FloatingIpId, at: Timestamp) {
        if let Some(ip) = self.state().floating_ips.get_mut(id) {
            state::touch(ip, at);
        }
    }

    /// Attaches a floating IP to a port, silently taking it from another one, or detaches it.
    pub fn set_port(&self, id: &FloatingIpId, port: Option<&str>) -> bool {
        self.edit(id, |ip| ip.port = port.map(PortId::new))
    }

    /// A floating IP gets a port forwarding, or loses it.
    pub fn toggle_forwarding(&self, id: &FloatingIpId) -> bool {
        self.edit(id, |ip| ip.is_forwarded = !ip.is_forwarded)
    }

    /// Deletes a floating IP, even an attached one. False when it does not exist.
    pub fn delete(&self, id: &FloatingIpId) -> bool {
        self.state().floating_ips.remove(id).is_some()
    }

    /// All floating IPs of all projects.
    pub fn floating_ips(&self) -> Vec<FloatingIp> {
        self.state().floating_ips.values().cloned().collect()
    }
}

#[async_trait]
impl Clouds for MemoryCloud {
    async fn connect(&self, _: &str, credentials: &Credentials) -> Result<Arc<dyn Neutron>, Error> {
        Ok(Arc::new(self.open(credentials)?))
    }
}

impl MemoryCloud {
    /// Opens a session.
    pub fn open(&self, credentials: &Credentials) -> Result<MemoryNeutron, Error> {
        let login = credentials.fingerprint();
        let Login { project, elsewhere } = self.state().log_in(&login)?;
        assert_ne!(elsewhere, Some(Elsewhere::Panic), "as a bug would");
        let region = match elsewhere {
            Some(Elsewhere::Region) => Elsewhere::REGION.to_owned(),
            _ => self.state().region.clone(),
        };
        let (project, whole) = (ProjectId::new(project.as_str().trim_end_matches(NOTHING)), project);
        let (keystone, moves) = (credentials.keystone(), self.state().neutron_moves);
        let number = if moves == 0 { String::new() } else { moves.to_string() };
        let endpoint = format!("http://neutron{number}.{region}.memory/v2.0/");
        let scope = ProjectScope { keystone, endpoint, region, project };
        Ok(MemoryNeutron {
            cloud: self.clone(),
            login,
            scope,
            project: whole,
            is_elsewhere: elsewhere.is_some_and(|place| place != Elsewhere::Keystone),
            moves: Some(moves),
        })
    }
}

/// Follows a project's id where it has nothing.
const NOTHING: &str = "-elsewhere";
