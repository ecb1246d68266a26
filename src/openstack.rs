//! The OpenStack client: the calls that the controllers make, and what they can answer.
//!
//! [`Clouds`] opens a session with credentials; [`Neutron`] is that session. The implementations over HTTP are in
//! [`session`] and `neutron`; tests have one in memory, `tests/support/memory`.

use std::sync::Arc;

use async_trait::async_trait;

use crate::floating_ip::{FloatingIp, FloatingIpId, NetworkId, ProjectId, SubnetId};

pub mod credentials;
pub mod error;
mod neutron;
pub mod session;

pub use credentials::{Credentials, CredentialsError};
pub use error::{Error, ErrorKind};

/// Opens sessions.
#[async_trait]
pub trait Clouds: Send + Sync {
    /// A session for these credentials; the same one for the same content while anybody holds it.
    ///
    /// Authenticates and finds Neutron in the catalogue, so that a session that exists has worked once.
    async fn connect(&self, credentials: &Credentials) -> Result<Arc<dyn Neutron>, Error>;
}

/// Where a session works: what makes two sessions look at the same floating IPs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Scope {
    /// Neutron's endpoint.
    pub endpoint: String,
    /// The project of the token.
    pub project: ProjectId,
}

/// A network to allocate from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Network {
    /// Its id.
    pub id: NetworkId,
    /// Its name, for messages.
    pub name: String,
    /// Whether floating IPs can come from it (`router:external`).
    pub is_external: bool,
}

/// A subnet to allocate from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subnet {
    /// Its id.
    pub id: SubnetId,
    /// Its name, for messages.
    pub name: String,
    /// The network that it belongs to.
    pub network: NetworkId,
}

/// What selects networks or subnets: every part that is given must match, as in Neutron's own filters.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// Exact id.
    pub id: Option<String>,
    /// Exact name.
    pub name: Option<String>,
    /// Exact description.
    pub description: Option<String>,
    /// The owning project.
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

/// A floating IP to be created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewFloatingIp {
    /// The external network to take an address from.
    pub network: NetworkId,
    /// The subnet of it to take the address from; Neutron chooses when there is none.
    pub subnet: Option<SubnetId>,
    /// Written in the same call, so that there is no moment without a mark.
    pub description: String,
}

/// The project's limit on floating IPs, as Neutron counts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quota {
    /// At most this many; `None` when unlimited.
    pub limit: Option<u32>,
    /// In use now.
    pub used: u32,
}

/// One project's Neutron, with the calls that we make and no others.
///
/// Every call ends within its timeout. What may be repeated safely is repeated inside (reads, single tags, deletions
/// that answer "not found"); a POST never is, nor is a description. [`Error::is_unknown`] tells whether a write that
/// failed may have happened all the same.
#[async_trait]
pub trait Neutron: Send + Sync {
    /// Where this session works.
    fn scope(&self) -> &Scope;

    /// Every floating IP of the project, all pages, each once.
    async fn list_floating_ips(&self) -> Result<Vec<FloatingIp>, Error>;

    /// One floating IP; [`ErrorKind::NotFound`] when it is gone.
    async fn get_floating_ip(&self, id: &FloatingIpId) -> Result<FloatingIp, Error>;

    /// Creates a floating IP with its description in one call. Never repeated.
    async fn create_floating_ip(&self, new: &NewFloatingIp) -> Result<FloatingIp, Error>;

    /// Rewrites the description and answers with the floating IP as it then is. Never repeated.
    async fn describe_floating_ip(&self, id: &FloatingIpId, description: &str) -> Result<FloatingIp, Error>;

    /// Deletes a floating IP; [`ErrorKind::NotFound`] when it was gone already. Neutron does not protect one with a port.
    async fn delete_floating_ip(&self, id: &FloatingIpId) -> Result<(), Error>;

    /// Adds one tag and touches no other; adding it twice is no error.
    async fn add_tag(&self, id: &FloatingIpId, tag: &str) -> Result<(), Error>;

    /// Removes one tag and touches no other; a tag or a floating IP that is not there is success.
    async fn remove_tag(&self, id: &FloatingIpId, tag: &str) -> Result<(), Error>;

    /// The networks that match.
    async fn find_networks(&self, filter: &Filter) -> Result<Vec<Network>, Error>;

    /// The subnets that match; external subnets may be hidden from a project, so none is not "none there".
    async fn find_subnets(&self, filter: &Filter) -> Result<Vec<Subnet>, Error>;

    /// Whether floating IPs can carry tags (extension `standard-attr-tag`).
    async fn has_tags(&self) -> Result<bool, Error>;

    /// The project's quota of floating IPs; `None` where the extension or the permission is missing.
    async fn quota(&self) -> Result<Option<Quota>, Error>;
}
