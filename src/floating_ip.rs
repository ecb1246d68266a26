//! A floating IP as Neutron describes it, and the ids that it refers to: plain values without behaviour.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

/// Its copies share one text: an id is in several indexes.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn new(id: impl AsRef<str>) -> Self {
                Self(id.as_ref().into())
            }

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
    /// An address that is deleted and created again has another id.
    FloatingIpId
);
id!(NetworkId);
id!(SubnetId);
id!(PortId);
id!(ProjectId);

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FloatingIp {
    pub id: FloatingIpId,
    pub address: IpAddr,
    /// The external network that the address comes from.
    pub network: NetworkId,
    pub project: ProjectId,
    pub port: Option<PortId>,
    /// Whether it has port forwardings: then it is in use although `port` is empty.
    pub is_forwarded: bool,
    /// At most 255 characters. Holds our mark if we created the floating IP.
    pub description: String,
    /// Hold our mark if we did not create the floating IP.
    pub tags: BTreeSet<String>,
    /// Empty when there is none or Neutron has no DNS extension.
    pub dns_name: String,
    /// `updated_at`, else `created_at`; none where Neutron reports neither.
    pub changed_at: Option<Timestamp>,
    /// None where Neutron does not report it.
    pub created_at: Option<Timestamp>,
}

/// How much later than its creation Neutron may date a floating IP that nothing has changed.
const CREATION: SignedDuration = SignedDuration::from_secs(2);

impl FloatingIp {
    /// In bytes, about.
    #[expect(clippy::arithmetic_side_effects, reason = "these are sizes of what is in memory")]
    pub fn memory_size(&self) -> usize {
        // The tree of tags has nodes of up to eleven, at least about half of which is used.
        const NODE: usize = 12 * size_of::<String>();
        const TAGS: usize = 6;
        let port = self.port.as_ref().map_or(0, |port| port.as_str().len());
        let ids = self.id.as_str().len() + self.network.as_str().len() + self.project.as_str().len() + port;
        let tags = self.tags.len().div_ceil(TAGS) * NODE + self.tags.iter().map(String::len).sum::<usize>();
        size_of::<Self>() + ids + self.description.len() + self.dns_name.len() + tags
    }

    /// Keeps the ids of its network and project once, if the other one has the same: thousands have.
    pub fn share_ids(&mut self, other: &Self) {
        if other.network == self.network {
            self.network = other.network.clone();
        }
        if other.project == self.project {
            self.project = other.project.clone();
        }
    }

    pub fn is_attached(&self) -> bool {
        self.port.is_some() || self.is_forwarded
    }

    /// Whether nothing has changed it since Neutron created it. So no machine has had it: to attach it is a change.
    pub fn is_as_created(&self) -> bool {
        let times = self.created_at.zip(self.changed_at);
        times.is_some_and(|(created, changed)| changed.duration_since(created) <= CREATION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocation::testing::{ago, fip};

    #[test]
    fn a_floating_ip_is_as_created_until_it_changes() {
        let created = |age| fip(10).created_at(ago(age)).changed_at(ago(50)).0;
        assert!(created(50).is_as_created() && created(52).is_as_created());
        assert!(!created(53).is_as_created());
        assert!(!FloatingIp { created_at: None, ..created(50) }.is_as_created());
        assert!(!FloatingIp { changed_at: None, ..created(50) }.is_as_created());
    }

    #[test]
    fn a_single_tag_takes_a_whole_node_of_its_tree() {
        let with_tags = |count: usize| {
            let tags = (0..count).map(|tag| format!("{tag:02}")).collect();
            FloatingIp { tags, ..fip(10).0 }.memory_size()
        };
        let (node, empty) = (11 * size_of::<String>(), with_tags(0));
        assert!(with_tags(1) > empty + node);
        assert!(with_tags(60) > empty + 60 / 6 * node + 60 * 2);
    }

    #[test]
    fn ids_are_shared_where_they_are_the_same() {
        let (first, mut second) = (fip(10).0, FloatingIp { network: NetworkId::new("other"), ..fip(11).0 });
        second.project = ProjectId::new(first.project.as_str());
        let shares = |second: &FloatingIp| {
            (Arc::ptr_eq(&first.network.0, &second.network.0), Arc::ptr_eq(&first.project.0, &second.project.0))
        };
        let before = second.clone();
        second.share_ids(&first);
        assert_eq!((&second, shares(&before), shares(&second)), (&before, (false, false), (false, true)));
        second.network = NetworkId::new(first.network.as_str());
        second.share_ids(&first);
        assert_eq!(shares(&second), (true, true));
    }
}
