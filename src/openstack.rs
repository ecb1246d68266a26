//! The OpenStack client: the calls that the controllers make, and what they can answer.
//!
//! [`Clouds`] opens a session with credentials; [`Neutron`] is that session. The implementations over HTTP are in
//! [`session`] and `neutron`; tests have one in memory, `tests/support/memory`.

use std::sync::Arc;

use async_trait::async_trait;

use crate::floating_ip::{FloatingIp, FloatingIpId, NetworkId, ProjectId, SubnetId};

pub mod credentials;
pub mod error;
#[cfg(any(fuzzing, test))]
pub(crate) mod fuzzing;
pub mod hosts;
mod neutron;
mod proxy;
pub mod session;

pub use credentials::{CloudName, Credentials, CredentialsError, KeystoneId};
pub use error::{Error, ErrorKind};
pub use hosts::AllowedHosts;
pub use neutron::ROW_SIZE;
pub use proxy::HttpsProxy;

/// Opens sessions.
#[async_trait]
pub trait Clouds: Send + Sync {
    /// A session for these credentials and the pools of one namespace, whose sessions have common limits. While a session
    /// is in use, equal credentials in the namespace get the same one.
    ///
    /// Authenticates and looks Neutron up in the catalogue, so that an existing session has worked once.
    async fn connect(&self, namespace: &str, credentials: &Credentials) -> Result<Arc<dyn Neutron>, Error>;
}

/// What a session works with.
///
/// What is known of one [key](Self::key) is shared by all its sessions, so that each must have proved its access: the
/// Keystone that says whose the token is belongs to it. A tenant's own Keystone can name any project and any Neutron.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProjectScope {
    /// The Keystone that issued the token.
    pub keystone: KeystoneId,
    /// Neutron's URL.
    pub endpoint: String,
    /// Its region in the catalogue: projects span regions.
    pub region: String,
    /// The token's project.
    pub project: ProjectId,
}

/// Keystone, region and project.
pub type ProjectKey = (KeystoneId, String, ProjectId);

impl ProjectScope {
    /// The same for two sessions that certainly work with the same floating IPs, through whichever URL of Neutron.
    pub fn key(&self) -> ProjectKey {
        (self.keystone, self.region.clone(), self.project.clone())
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Network {
    pub id: NetworkId,
    pub name: String,
    /// `router:external`: only such networks have floating IPs.
    pub is_external: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subnet {
    pub id: SubnetId,
    pub name: String,
    pub network: NetworkId,
}

/// Selects networks or subnets: every part that is given must match, as in Neutron's own filters.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    pub id: Option<String>,
    pub name: Option<String>,
    pub description: Option<String>,
    pub project_id: Option<String>,
    /// All of these tags.
    pub tags: Vec<String>,
    /// Any of these tags.
    pub tags_any: Vec<String>,
    /// Not all of these tags.
    pub not_tags: Vec<String>,
    /// None of these tags.
    pub not_tags_any: Vec<String>,
    /// Only networks whose `router:external` is true. Ignored for subnets.
    pub is_external: Option<bool>,
    /// Subnets of this network only. Ignored for networks.
    pub network_id: Option<String>,
    /// Subnets of this IP version only. Ignored for networks.
    pub ip_version: Option<u8>,
    /// Subnets of exactly this range only. Ignored for networks.
    pub cidr: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewFloatingIp {
    pub network: NetworkId,
    /// Neutron chooses a subnet when there is none.
    pub subnet: Option<SubnetId>,
    /// Set in the same request, so that the floating IP never exists without our mark.
    pub description: String,
}

/// The project's limit on floating IPs, as Neutron counts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quota {
    /// `None` when unlimited.
    pub limit: Option<u32>,
    pub used: u32,
}

/// What to do about a floating IP whose deletion has its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeletionStep {
    Delete,
    /// Read it, and ask again. After a read, the same as `Keep`.
    Read,
    Keep,
}

/// Called without a floating IP each time that a deletion gets its turn, so again after a failed read; and with the floating
/// IP once it has been read.
pub type DeletionCheck<'a> = dyn FnMut(Option<FloatingIp>) -> DeletionStep + Send + 'a;

/// Whether a write may be sent. Called right before each sending: a write may wait for its turn at the cloud, and what its
/// caller decided may no longer hold.
pub type MaySend<'a> = dyn Fn() -> bool + Send + Sync + 'a;

/// One project's Neutron, with the calls that we make and no others.
///
/// Every call ends within its timeout. Calls that are safe to repeat are retried internally: reads and additions of a tag.
/// A creation, a deletion or a change of a description never is. [`Error::is_unknown`] reports whether a failed write may
/// have taken effect. One that may no longer be sent fails with [`ErrorKind::Conflict`].
#[async_trait]
pub trait Neutron: Send + Sync {
    fn scope(&self) -> &ProjectScope;

    /// False once Keystone names another project, region or URL: a new session has that. With another project or region,
    /// nothing is sent any more: each call fails with [`ErrorKind::Credentials`].
    fn is_current(&self) -> bool;

    /// Every floating IP of the project, exactly once.
    async fn list_floating_ips(&self) -> Result<Vec<FloatingIp>, Error>;

    /// Fails with [`ErrorKind::NotFound`] when it does not exist.
    async fn get_floating_ip(&self, id: &FloatingIpId) -> Result<FloatingIp, Error>;

    /// Never retried.
    async fn create_floating_ip(&self, new: &NewFloatingIp, may_send: &MaySend<'_>) -> Result<FloatingIp, Error>;

    /// Replaces the description and returns the updated floating IP. Never retried.
    async fn describe_floating_ip(
        &self,
        id: &FloatingIpId,
        description: &str,
        may_send: &MaySend<'_>,
    ) -> Result<FloatingIp, Error>;

    /// False if it was kept. Fails with [`ErrorKind::NotFound`] when it did not exist. The DELETE is never retried.
    ///
    /// Neutron also deletes a floating IP that is attached, and the request may wait for its turn at the cloud. So `check`
    /// decides once the turn has come, and the DELETE follows within seconds. What is done until then is retried.
    async fn delete_floating_ip(&self, id: &FloatingIpId, check: &mut DeletionCheck<'_>) -> Result<bool, Error>;

    /// Adds one tag and keeps the others; adding a tag twice is no error.
    async fn add_tag(&self, id: &FloatingIpId, tag: &str, may_send: &MaySend<'_>) -> Result<(), Error>;

    /// Removes one tag and keeps the others; succeeds if the tag or the floating IP does not exist. Never retried.
    async fn remove_tag(&self, id: &FloatingIpId, tag: &str, may_send: &MaySend<'_>) -> Result<(), Error>;

    async fn find_networks(&self, filter: &Filter) -> Result<Vec<Network>, Error>;

    /// A cloud may hide external subnets from a project, so an empty result does not mean that there are none.
    async fn find_subnets(&self, filter: &Filter) -> Result<Vec<Subnet>, Error>;

    /// Whether floating IPs can carry tags (extension `standard-attr-tag`).
    async fn has_tags(&self) -> Result<bool, Error>;

    /// `None` where the extension or the permission is missing.
    async fn quota(&self) -> Result<Option<Quota>, Error>;
}
