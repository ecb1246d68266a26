//! A floating IP as Neutron describes it, and the ids that go with it: plain values that every room may use.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use jiff::Timestamp;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Takes the id as OpenStack wrote it.
            pub fn new(id: impl Into<String>) -> Self {
                Self(id.into())
            }

            /// The id as OpenStack wrote it.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(
    /// The id of a floating IP in Neutron. An address may come back under another id.
    FloatingIpId
);
id!(
    /// The id of a network in Neutron.
    NetworkId
);
id!(
    /// The id of a subnet in Neutron.
    SubnetId
);
id!(
    /// The id of a port in Neutron.
    PortId
);
id!(
    /// The id of a project in Keystone.
    ProjectId
);

/// A floating IP, with what decides whether it may be given to a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FloatingIp {
    /// Its id.
    pub id: FloatingIpId,
    /// Its address.
    pub address: IpAddr,
    /// The external network that it comes from.
    pub network: NetworkId,
    /// The project that owns it.
    pub project: ProjectId,
    /// The port that it is attached to.
    pub port: Option<PortId>,
    /// Whether it has port forwardings: then it is in use although it has no port.
    pub is_forwarded: bool,
    /// Free text, 255 characters at most; our mark on what we created.
    pub description: String,
    /// Its tags; our mark on what we did not create.
    pub tags: BTreeSet<String>,
    /// The DNS name that somebody gave it; empty when there is none or Neutron has no DNS extension.
    pub dns_name: String,
    /// When it last changed in Neutron: `updated_at`, else `created_at`. Absent where Neutron does not tell.
    pub changed_at: Option<Timestamp>,
}

impl FloatingIp {
    /// Something answers on it: a port, or port forwardings, which leave the port empty.
    pub fn is_attached(&self) -> bool {
        self.port.is_some() || self.is_forwarded
    }
}
