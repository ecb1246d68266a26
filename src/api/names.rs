//! Labels, annotations and finalizers: ours, Cluster API's and Kubernetes' own.

/// The API group of our pool and of Cluster API's IPAM kinds.
pub const GROUP: &str = "ipam.cluster.x-k8s.io";
/// The group of CAPO's kinds.
pub const CAPO_GROUP: &str = "infrastructure.cluster.x-k8s.io";
pub const POOL_KIND: &str = "OpenStackFloatingIPPool";
/// Cluster API's.
pub const CLAIM_KIND: &str = "IPAddressClaim";

/// On a claim, until its address is marked for release.
pub const CLAIM_FINALIZER: &str = "ipam.cluster.x-k8s.io/openstackfloatingippool-claim";
/// On an IPAddress, until its claim is released. The Cluster API IPAM provider contract requires it.
pub const ADDRESS_FINALIZER: &str = "ipam.cluster.x-k8s.io/openstackfloatingippool-protect";
/// On a pool, until nothing in Neutron has its mark.
pub const POOL_FINALIZER: &str = "ipam.cluster.x-k8s.io/openstackfloatingippool";
/// On a credentials Secret, while a pool needs it for cleanup. Each pool has its own, which starts with this.
pub const SECRET_FINALIZER_PREFIX: &str = "openstackfloatingippool.ipam.cluster.x-k8s.io/";

/// On a pool and its IPAddresses, written once: the pool's ID in the marks in Neutron.
pub const POOL_ID_ANNOTATION: &str = "openstackfloatingippool.ipam.cluster.x-k8s.io/pool-id";
/// On a pool, written once: the project of its floating IPs. Credentials of another project are refused.
pub const PROJECT_ID_ANNOTATION: &str = "openstackfloatingippool.ipam.cluster.x-k8s.io/project-id";
/// On a pool, written with the project: the region of its floating IPs.
pub const REGION_ANNOTATION: &str = "openstackfloatingippool.ipam.cluster.x-k8s.io/region";
/// On an IPAddress: the floating IP's ID in Neutron.
pub const FLOATING_IP_ID_ANNOTATION: &str = "openstackfloatingippool.ipam.cluster.x-k8s.io/floating-ip-id";
/// On an IPAddress: the ID of the floating IP's network in Neutron.
pub const NETWORK_ID_ANNOTATION: &str = "openstackfloatingippool.ipam.cluster.x-k8s.io/network-id";
/// On an IPAddress: where its floating IP came from, a word of [`Origin`](crate::allocation::origin::Origin).
pub const ORIGIN_ANNOTATION: &str = "openstackfloatingippool.ipam.cluster.x-k8s.io/origin";
/// On a pool or claim that is being deleted: leave its floating IPs in OpenStack, and record them. Only the value `"true"`
/// counts.
pub const ABANDON_ANNOTATION: &str = "openstackfloatingippool.ipam.cluster.x-k8s.io/abandon";
/// On a pool, before its ConfigMap of addresses is created: the ConfigMap's name, to delete it when the spec names another.
pub const ADDRESS_CONFIG_MAP_ANNOTATION: &str = "openstackfloatingippool.ipam.cluster.x-k8s.io/address-config-map";
/// On a pool's ConfigMap of addresses. One without it is not changed.
pub const ADDRESS_CONFIG_MAP_LABEL: &str = "openstackfloatingippool.ipam.cluster.x-k8s.io/addresses";

/// Cluster API: the Cluster that an object belongs to.
pub const CLUSTER_NAME_LABEL: &str = "cluster.x-k8s.io/cluster-name";
/// Cluster API: controllers ignore an object with this annotation.
pub const PAUSED_ANNOTATION: &str = "cluster.x-k8s.io/paused";
/// Cluster API: selects one of several controllers for an object.
pub const WATCH_FILTER_LABEL: &str = "cluster.x-k8s.io/watch-filter";
/// Set by `clusterctl move` on the objects that it deletes after copying them: nothing must be released.
pub const DELETE_FOR_MOVE_ANNOTATION: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";

/// All annotations that are read.
pub(crate) const READ_ANNOTATIONS: [&str; 10] = [
    POOL_ID_ANNOTATION,
    PROJECT_ID_ANNOTATION,
    REGION_ANNOTATION,
    FLOATING_IP_ID_ANNOTATION,
    NETWORK_ID_ANNOTATION,
    ORIGIN_ANNOTATION,
    ABANDON_ANNOTATION,
    ADDRESS_CONFIG_MAP_ANNOTATION,
    PAUSED_ANNOTATION,
    DELETE_FOR_MOVE_ANNOTATION,
];
/// All labels that are read.
pub(crate) const READ_LABELS: [&str; 2] = [CLUSTER_NAME_LABEL, WATCH_FILTER_LABEL];

/// Finalizers of Kubernetes' garbage collector. They are removed after ours, so we must not wait for them.
pub const GARBAGE_COLLECTOR_FINALIZERS: [&str; 2] = ["foregroundDeletion", "orphan"];
