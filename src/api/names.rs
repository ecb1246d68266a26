//! Labels, annotations and finalizers: ours, Cluster API's and Kubernetes' own.

/// Our API group; Cluster API's IPAM kinds live in it too.
pub const GROUP: &str = "ipam.cluster.x-k8s.io";
/// The pool's kind.
pub const POOL_KIND: &str = "OpenStackFloatingIPPool";

/// Keeps a claim until its address is on its way out.
pub const CLAIM_FINALIZER: &str = "ipam.cluster.x-k8s.io/openstackfloatingippool-claim";
/// Protects an IPAddress while its claim lives (contract: "protect finalizer on IPAddress").
pub const ADDRESS_FINALIZER: &str = "ipam.cluster.x-k8s.io/openstackfloatingippool-protect";
/// Keeps a pool until nothing in Neutron carries its mark.
pub const POOL_FINALIZER: &str = "ipam.cluster.x-k8s.io/openstackfloatingippool";
/// Keeps a credentials Secret while a pool needs it for cleaning up. One per pool, so that each removes its own.
pub const SECRET_FINALIZER_PREFIX: &str = "openstackfloatingippool.ipam.cluster.x-k8s.io/";

/// The pool's identity in Neutron's marks, written once, on the pool and on each of its IPAddresses.
pub const POOL_ID_ANNOTATION: &str = "openstackfloatingippool.ipam.cluster.x-k8s.io/pool-id";
/// The project that a pool's floating IPs are in, written once, on the pool: other credentials must not lead elsewhere.
pub const PROJECT_ID_ANNOTATION: &str = "openstackfloatingippool.ipam.cluster.x-k8s.io/project-id";
/// The floating IP's id in Neutron, on an IPAddress.
pub const FLOATING_IP_ID_ANNOTATION: &str = "openstackfloatingippool.ipam.cluster.x-k8s.io/floating-ip-id";
/// The id of the floating IP's network in Neutron, on an IPAddress.
pub const NETWORK_ID_ANNOTATION: &str = "openstackfloatingippool.ipam.cluster.x-k8s.io/network-id";
/// Where an IPAddress' floating IP came from: `reserved`, `list`, `owned`, `reuse`, `created` or `recovered`.
pub const ORIGIN_ANNOTATION: &str = "openstackfloatingippool.ipam.cluster.x-k8s.io/origin";
/// On a pool that is being deleted: give up what is left in OpenStack, and record it. Its value must be `"true"`.
pub const ABANDON_ANNOTATION: &str = "openstackfloatingippool.ipam.cluster.x-k8s.io/abandon";

/// Cluster API: the Cluster that an object belongs to.
pub const CLUSTER_NAME_LABEL: &str = "cluster.x-k8s.io/cluster-name";
/// Cluster API: nothing is done about an object that has it.
pub const PAUSED_ANNOTATION: &str = "cluster.x-k8s.io/paused";
/// Cluster API: which of several controllers an object is for.
pub const WATCH_FILTER_LABEL: &str = "cluster.x-k8s.io/watch-filter";
/// clusterctl is moving the object away: its deletion means nothing.
pub const DELETE_FOR_MOVE_ANNOTATION: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";

/// Finalizers of Kubernetes' garbage collector, which wait for us and so must not be waited for.
pub const GARBAGE_COLLECTOR_FINALIZERS: [&str; 2] = ["foregroundDeletion", "orphan"];
