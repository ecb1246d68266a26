//! The kinds that scenarios deal with.

use caip_openstack::api::{IpamVersion, OpenStackFloatingIPPool};
use kube::core::ApiResource;

pub(super) const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Our `OpenStackFloatingIPPool`.
    Pool,
    /// Cluster API's `IPAddressClaim`.
    Claim,
    /// Cluster API's `IPAddress`.
    Address,
    /// Cluster API's `Cluster`.
    Cluster,
    /// Cluster API's `MachineDeployment`.
    MachineDeployment,
    /// Cluster API's `Machine`.
    Machine,
    // CAPO's kinds are stand-ins without fields, except in `make e2e-capo`.
    /// CAPO's `OpenStackCluster`, which a Cluster names.
    InfrastructureCluster,
    /// CAPO's `OpenStackMachine`; there is no stand-in.
    InfrastructureMachine,
    /// CAPO's `OpenStackServer`, which owns its claim.
    Server,
    /// CAPO's in-tree `OpenStackFloatingIPPool`.
    InTreePool,
    /// CAPO's `OpenStackMachineTemplate`.
    MachineTemplate,
    /// `KubeadmControlPlane`, a stand-in.
    ControlPlane,
    /// `KubeadmConfig`, a stand-in.
    BootstrapConfig,
    Secret,
    ConfigMap,
    /// `Event` of `events.k8s.io`.
    Event,
}

impl Kind {
    /// Where the API server serves it.
    pub fn resource(self, version: IpamVersion) -> ApiResource {
        let of = |group: &str, version: &str, kind: &str, plural: &str| ApiResource {
            group: group.into(),
            version: version.into(),
            api_version: if group.is_empty() { version.into() } else { format!("{group}/{version}") },
            kind: kind.into(),
            plural: plural.into(),
        };
        match self {
            Self::Pool => ApiResource::erase::<OpenStackFloatingIPPool>(&()),
            Self::Claim => version.resource("IPAddressClaim", "ipaddressclaims"),
            Self::Address => version.resource("IPAddress", "ipaddresses"),
            Self::Cluster => of("cluster.x-k8s.io", version.as_str(), "Cluster", "clusters"),
            Self::MachineDeployment => {
                of("cluster.x-k8s.io", version.as_str(), "MachineDeployment", "machinedeployments")
            }
            Self::Machine => of("cluster.x-k8s.io", version.as_str(), "Machine", "machines"),
            Self::InfrastructureMachine => of(INFRASTRUCTURE, "v1beta1", "OpenStackMachine", "openstackmachines"),
            Self::InfrastructureCluster => of(INFRASTRUCTURE, "v1beta1", "OpenStackCluster", "openstackclusters"),
            Self::Server => of(INFRASTRUCTURE, "v1alpha1", "OpenStackServer", "openstackservers"),
            Self::InTreePool => of(INFRASTRUCTURE, "v1alpha1", "OpenStackFloatingIPPool", "openstackfloatingippools"),
            Self::MachineTemplate => {
                of(INFRASTRUCTURE, "v1beta1", "OpenStackMachineTemplate", "openstackmachinetemplates")
            }
            Self::ControlPlane => {
                of("controlplane.cluster.x-k8s.io", "v1beta2", "KubeadmControlPlane", "kubeadmcontrolplanes")
            }
            Self::BootstrapConfig => of("bootstrap.cluster.x-k8s.io", "v1beta2", "KubeadmConfig", "kubeadmconfigs"),
            Self::Secret => of("", "v1", "Secret", "secrets"),
            Self::ConfigMap => of("", "v1", "ConfigMap", "configmaps"),
            Self::Event => of("events.k8s.io", "v1", "Event", "events"),
        }
    }
}
