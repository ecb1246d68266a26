//! The resources that the API server knows: those that the controllers read or write.

/// A kind, with the one version that it is served in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    Namespace,
    Secret,
    Cluster,
    Claim,
    Address,
    Pool,
    /// CAPO's in-tree pool.
    InTreePool,
    /// CAPO's cluster, which may name floating IPs.
    OpenStackCluster,
    /// CAPO's cluster identity.
    ClusterIdentity,
    Event,
    Lease,
    ConfigMap,
}

impl Kind {
    pub const ALL: [Self; 12] = [
        Self::Namespace,
        Self::Secret,
        Self::Cluster,
        Self::Claim,
        Self::Address,
        Self::Pool,
        Self::InTreePool,
        Self::OpenStackCluster,
        Self::ClusterIdentity,
        Self::Event,
        Self::Lease,
        Self::ConfigMap,
    ];

    /// Group, version, plural and kind.
    pub fn names(self) -> (&'static str, &'static str, &'static str, &'static str) {
        match self {
            Self::Namespace => ("", "v1", "namespaces", "Namespace"),
            Self::Secret => ("", "v1", "secrets", "Secret"),
            Self::Cluster => ("cluster.x-k8s.io", "v1beta2", "clusters", "Cluster"),
            Self::Claim => ("ipam.cluster.x-k8s.io", "v1beta2", "ipaddressclaims", "IPAddressClaim"),
            Self::Address => ("ipam.cluster.x-k8s.io", "v1beta2", "ipaddresses", "IPAddress"),
            Self::Pool => ("ipam.cluster.x-k8s.io", "v1alpha1", "openstackfloatingippools", "OpenStackFloatingIPPool"),
            Self::InTreePool => {
                ("infrastructure.cluster.x-k8s.io", "v1alpha1", "openstackfloatingippools", "OpenStackFloatingIPPool")
            }
            Self::OpenStackCluster => {
                ("infrastructure.cluster.x-k8s.io", "v1beta1", "openstackclusters", "OpenStackCluster")
            }
            Self::ClusterIdentity => (
                "infrastructure.cluster.x-k8s.io",
                "v1alpha1",
                "openstackclusteridentities",
                "OpenStackClusterIdentity",
            ),
            Self::Event => ("events.k8s.io", "v1", "events", "Event"),
            Self::Lease => ("coordination.k8s.io", "v1", "leases", "Lease"),
            Self::ConfigMap => ("", "v1", "configmaps", "ConfigMap"),
        }
    }

    pub fn api_version(self) -> String {
        let (group, version, ..) = self.names();
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
    }

    pub fn is_namespaced(self) -> bool {
        !matches!(self, Self::Namespace | Self::ClusterIdentity)
    }

    /// Whether its status is a resource of its own.
    pub fn has_status(self) -> bool {
        matches!(self, Self::Claim | Self::Pool | Self::Cluster)
    }

    /// Whether a CustomResourceDefinition defines it. These have a generation.
    pub fn is_custom(self) -> bool {
        matches!(
            self,
            Self::Cluster
                | Self::Claim
                | Self::Address
                | Self::Pool
                | Self::InTreePool
                | Self::OpenStackCluster
                | Self::ClusterIdentity
        )
    }

    /// Whether a PUT without a resource version replaces whatever there is.
    pub fn is_replaced_unconditionally(self) -> bool {
        matches!(self, Self::Namespace | Self::Secret | Self::Event | Self::ConfigMap)
    }

    /// Whether a PUT creates what does not exist.
    pub fn is_created_by_update(self) -> bool {
        matches!(self, Self::Event | Self::Lease)
    }

    /// The kind that an owner reference names.
    pub fn of_reference(api_version: &str, kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.api_version() == api_version && known.names().3 == kind)
    }

    /// The kind of a group, version and plural.
    pub fn find(group: &str, version: &str, plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| {
            let names = kind.names();
            (names.0, names.1, names.2) == (group, version, plural)
        })
    }
}
