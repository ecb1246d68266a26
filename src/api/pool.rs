//! The CRD `OpenStackFloatingIPPool`. The doc comments of its fields are the CRD's descriptions. Whatever can be validated
//! without OpenStack is validated by the API server, with the schema and CEL rules defined here.

use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pool_network::{NetworkParam, SubnetParam};
use super::pool_schema as schema;
use super::reservation::{self, Reservation};

/// A pool of OpenStack floating IPs for machines whose template references it in `floatingIPPoolRef`.
///
/// Each IPAddressClaim that references the pool gets its own floating IP: one of `preAllocatedFloatingIPs`, an unused
/// one of the project (`reuse`), or a new one from `floatingIPNetwork`.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Default)]
#[kube(
    group = "ipam.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "OpenStackFloatingIPPool",
    plural = "openstackfloatingippools",
    doc = "A pool of OpenStack floating IPs for machines whose template references it in `floatingIPPoolRef`.",
    shortname = "fippool",
    category = "cluster-api",
    namespaced,
    status = "OpenStackFloatingIPPoolStatus",
    derive = "PartialEq",
    derive = "Default",
    label("cluster.x-k8s.io/v1beta1", "v1alpha1"),
    label("cluster.x-k8s.io/v1beta2", "v1alpha1"),
    label("clusterctl.cluster.x-k8s.io", ""),
    label("clusterctl.cluster.x-k8s.io/move-hierarchy", ""),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status",
        description = "Whether the pool can allocate addresses"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].reason",
        description = "Why the pool is ready or not ready"
    ),
    printcolumn(
        name = "Allocated",
        type_ = "integer",
        json_path = ".status.addresses.allocated",
        description = "Addresses allocated to claims"
    ),
    printcolumn(
        name = "Free",
        type_ = "integer",
        json_path = ".status.addresses.free",
        description = "Addresses available without creating a floating IP"
    ),
    printcolumn(
        name = "Waiting",
        type_ = "integer",
        json_path = ".status.claims.waiting",
        description = "Claims that have no address yet"
    ),
    printcolumn(name = "Limit", type_ = "integer", json_path = ".spec.maxIPs", description = "spec.maxIPs"),
    printcolumn(
        name = "Network",
        type_ = "string",
        json_path = ".status.network.name",
        description = "The network that floating IPs are created on"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since the pool was created"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].message",
        description = "Details, and what to do",
        priority = 1
    )
)]
#[expect(clippy::duplicated_attributes, reason = "each column has a type; clippy looks across columns")]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.poolID) == has(oldSelf.poolID)")
        .message("poolID cannot be added or removed once the pool exists: create another pool"),
    validation = Rule::new("!has(self.reservations) || !has(self.excludedAddresses) || self.reservations.all(r, !self.excludedAddresses.exists(e, e.contains('/') ? isIP(r.address) && isCIDR(e) && cidr(e).containsIP(r.address) : e == r.address))")
        .message("reservations and excludedAddresses name the same address: remove it from one of them"),
    validation = Rule::new("!has(self.minFree) || self.minFree == 0 || !has(self.maxIPs) || self.minFree <= self.maxIPs")
        .message("minFree must not be more than maxIPs"),
    validation = Rule::new("!has(self.subnets) || has(self.floatingIPNetwork) || !has(self.preAllocatedFloatingIPs)")
        .message("subnets needs a floatingIPNetwork where there is a list: add one, or remove subnets"),
    validation = Rule::new("!has(self.minFree) || self.minFree == 0 || has(self.floatingIPNetwork) || !has(self.preAllocatedFloatingIPs)")
        .message("minFree needs a floatingIPNetwork where there is a list: add one, or remove minFree")
)]
pub struct OpenStackFloatingIPPoolSpec {
    /// The credentials: a Secret with the key `clouds.yaml` and, if the cloud has its own CA, the key `cacert`. They must
    /// belong to the same project as the machines' credentials, because CAPO looks up the address with those.
    pub identity_ref: IdentityRef,

    /// Existing floating IPs of the project that the pool allocates first, in this order. Without `floatingIPNetwork` the
    /// list is closed: the pool allocates no other address. The floating IPs are tagged while in use, untagged when
    /// released, and never deleted. One that is missing, attached or in use by others is skipped and reported in
    /// `status.failed`. At most 1024.
    #[serde(default, rename = "preAllocatedFloatingIPs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::address_list")]
    pub pre_allocated_floating_ips: Vec<String>,

    /// The external network to reuse and create floating IPs on. If neither this nor a list is set, the cloud's only
    /// external network is used; if there are several, this field is required.
    #[serde(default, rename = "floatingIPNetwork", skip_serializing_if = "Option::is_none")]
    pub floating_ip_network: Option<NetworkParam>,

    /// Subnets of the network to create floating IPs in, in order of preference: the next one is used when one is full,
    /// or has only addresses that the pool may not give.
    /// If empty, Neutron chooses. At most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::subnets")]
    pub subnets: Vec<SubnetParam>,

    /// The maximum number of addresses with the pool's mark: allocated, being released, in their grace period, retained,
    /// spares and being created. Unclaimed addresses of the list do not count. If not set, there is no limit. A
    /// limit below the current number revokes no address, but blocks new allocations.
    #[serde(default, rename = "maxIPs", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65536))]
    pub max_ips: Option<u32>,

    /// What happens to a floating IP that the pool created when it is released: `Delete` (the default) deletes it in
    /// Neutron, `Retain` keeps it as a free address until the pool is deleted. Listed and reused ones are never deleted.
    #[serde(default)]
    #[schemars(schema_with = "schema::reclaim_policy")]
    pub reclaim_policy: ReclaimPolicy,

    /// Which unused floating IPs of the project, on the pool's network, may be used before a new one is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse: Option<Reuse>,

    /// Addresses and ranges (CIDR) that are never allocated, even if Neutron offers them. At most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::exclusions")]
    pub excluded_addresses: Vec<String>,

    /// Addresses that are each reserved for one claim. That claim waits for its address and gets no other. At most 256.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "reservation::reservations")]
    pub reservations: Vec<Reservation>,

    /// How many floating IPs that the pool created are kept free and ready, so that a claim does not wait for Neutron to
    /// create one. Retained ones count, free listed or reusable ones do not. Limited by `maxIPs`. Default 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0, max = 1024), extend("default" = 0))]
    pub min_free: u32,

    /// Tags of the floating IPs that the pool creates, spares included, beside the pool's marks; for example for accounting.
    /// They are added by a later request, so they delay no claim, and are never removed. At most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::own_tags")]
    pub tags: Vec<String>,

    /// Seconds after a release before an address is allocated again or deleted. Default 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0, max = 604800), extend("default" = 0))]
    pub reuse_grace_period_seconds: u32,

    /// What to do about floating IPs marked for a claim that does not exist or has another address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orphans: Option<Orphans>,

    /// A ConfigMap that the controller keeps up to date with the pool's addresses, for the allow-lists of firewalls. It works
    /// only if the controller is started with `--address-config-maps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_config_map: Option<AddressConfigMap>,

    /// The pool's ID in the marks that it writes to OpenStack. Set it so that a management cluster that is rebuilt from
    /// scratch finds every claim's previous address. If not set, an ID is generated and stored in an annotation. At most 20
    /// of `a-z`, `0-9` and `-`; unique in the namespace and among the pools that share a project. Immutable.
    #[serde(default, rename = "poolID", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::pool_id")]
    pub pool_id: Option<String>,
}

/// The ConfigMap with the pool's addresses.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
pub struct AddressConfigMap {
    /// The name of the ConfigMap in the pool's namespace. The controller creates it; it never changes one that it did not
    /// create. If the name is changed or removed, the ConfigMap of the former name is deleted.
    #[schemars(schema_with = "schema::config_map_name")]
    pub name: String,
}

/// References the credentials.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
pub struct IdentityRef {
    /// The kind of the referenced object. Default: `Secret`, a Secret in the pool's namespace.
    /// `ClusterIdentity` is an OpenStackClusterIdentity of CAPO, which names a Secret, and the namespaces that may use it.
    /// It works only if the controller is started with `--cluster-identity-namespaces`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::identity_type")]
    pub type_: Option<IdentityType>,
    /// The name of the Secret or of the OpenStackClusterIdentity.
    #[schemars(schema_with = "schema::identity_name")]
    pub name: String,
    /// The entry under `clouds` in the Secret's `clouds.yaml`.
    #[schemars(length(min = 1, max = 253))]
    pub cloud_name: String,
    /// The region whose Neutron is used. If not set, `region_name` of the cloud's entry applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub region: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentityType {
    /// A Secret in the pool's namespace.
    Secret,
    /// CAPO's `OpenStackClusterIdentity`.
    ClusterIdentity,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ReclaimPolicy {
    #[default]
    Delete,
    Retain,
}

/// Which unused floating IPs of the project may be used.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.policy) || self.policy != 'Tagged' || (has(self.tags) && size(self.tags) > 0)")
        .message("reuse.tags must name at least one tag when reuse.policy is Tagged"),
    validation = Rule::new("!has(self.tags) || size(self.tags) == 0 || (has(self.policy) && self.policy == 'Tagged')")
        .message("reuse.tags has a meaning only when reuse.policy is Tagged: set the policy, or remove the tags")
)]
pub struct Reuse {
    /// `Unmarked` (the default) uses those without any tag, description or DNS name; `Tagged` those that have all of
    /// `tags`; `Never` none.
    #[serde(default)]
    #[schemars(schema_with = "schema::reuse_policy")]
    pub policy: ReusePolicy,
    /// For `Tagged`: the tags that a floating IP must have, all of them. At most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tags")]
    pub tags: Vec<String>,
    /// Seconds since its last change before a floating IP may be used: its creator may be about to attach it. Default
    /// 300.
    #[serde(default = "default_idle")]
    #[schemars(range(min = 0, max = 604800))]
    pub min_idle_seconds: u32,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ReusePolicy {
    #[default]
    Unmarked,
    Tagged,
    Never,
}

/// What to do about floating IPs marked for a claim that does not exist or has another address.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Orphans {
    /// `Release` (the default) releases them like any other address; `Report` only reports them in the condition
    /// `OrphansDetected`.
    #[serde(default)]
    #[schemars(schema_with = "schema::orphan_policy")]
    pub policy: OrphanPolicy,
    /// Seconds for which a floating IP must be an orphan before it is released. Default 3600.
    #[serde(default = "default_orphan_grace")]
    #[schemars(range(min = 0, max = 604800))]
    pub grace_seconds: u32,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OrphanPolicy {
    #[default]
    Release,
    Report,
}

/// The observed state. Of it, the controller reads only the pool's ID.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Default)]
#[serde(rename_all = "camelCase")]
pub struct OpenStackFloatingIPPoolStatus {
    /// `Ready` is True if the pool can allocate addresses, even if none is available at the moment. Details are in
    /// `CredentialsValid`, `NetworkResolved`, `Exhausted`, `Paused`, `OrphansDetected`, `AddressesMaintained` and, with `addressConfigMap`,
    /// `AddressConfigMapCurrent`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The number of addresses by state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<AddressCounts>,
    /// The number of claims by state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims: Option<ClaimCounts>,
    /// The network that floating IPs are reused and created on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<ResolvedNetwork>,
    /// The pool's ID in the marks that it writes to OpenStack.
    #[serde(default, rename = "poolID", skip_serializing_if = "Option::is_none")]
    pub pool_id: Option<String>,
    /// Listed or marked addresses that cannot be allocated, with the reason; the first 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::failed")]
    pub failed: Vec<FailedAddress>,
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// The number of addresses by state.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AddressCounts {
    /// Listed or with the pool's mark; each counts once.
    pub total: u32,
    /// Allocated to claims.
    pub allocated: u32,
    /// Available without creating a floating IP.
    pub free: u32,
    /// Released, and not yet available again or deleted.
    pub cooling: u32,
    /// Cannot be allocated: see `failed`.
    pub failed: u32,
    /// Allocated, but the present spec would not provide them: excluded, or neither listed nor on the pool's network.
    #[serde(default, rename = "outOfRange", skip_serializing_if = "Option::is_none")]
    pub out_of_range: Option<u32>,
}

/// The number of claims by state.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ClaimCounts {
    /// Reference the pool, have no address yet, and are not being deleted.
    pub waiting: u32,
}

/// A Neutron network.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq, Default)]
pub struct ResolvedNetwork {
    /// The network's ID.
    pub id: String,
    /// The network's name.
    pub name: String,
}

/// An address that cannot be allocated.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq, Default)]
pub struct FailedAddress {
    /// The address.
    pub address: String,
    /// Why the address cannot be allocated, in one CamelCase word: `NotFound`, `Attached`, `MarkedByOther`,
    /// `MarkedByNewerVersion`, `NamedByIPAddress`, `Excluded`, `TooManyTags`,
    /// `TagsUnsupported` or `MarkCopied`. Later versions may have others.
    #[schemars(schema_with = "schema::reason")]
    pub reason: String,
    /// Why the address cannot be allocated, and what to do, for people.
    pub message: String,
}

impl Default for Reuse {
    fn default() -> Self {
        Self { policy: ReusePolicy::Unmarked, tags: Vec::new(), min_idle_seconds: default_idle() }
    }
}

impl Default for Orphans {
    fn default() -> Self {
        Self { policy: OrphanPolicy::Release, grace_seconds: default_orphan_grace() }
    }
}

impl IdentityRef {
    /// The name of the OpenStackClusterIdentity; none for a Secret.
    pub fn cluster_identity(&self) -> Option<&str> {
        (self.type_ == Some(IdentityType::ClusterIdentity)).then_some(self.name.as_str())
    }

    /// The name of the Secret in the pool's namespace; none for an OpenStackClusterIdentity.
    pub fn own_secret(&self) -> Option<&str> {
        (self.type_ != Some(IdentityType::ClusterIdentity)).then_some(self.name.as_str())
    }
}

impl OpenStackFloatingIPPoolSpec {
    /// Addresses that do not parse are left out; the API server accepts none.
    pub fn listed(&self) -> Vec<IpAddr> {
        self.pre_allocated_floating_ips.iter().filter_map(|address| address.parse().ok()).collect()
    }

    /// Whether the pool has only its list: no network to reuse or create floating IPs on.
    pub fn is_closed(&self) -> bool {
        !self.pre_allocated_floating_ips.is_empty() && self.floating_ip_network.is_none()
    }
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

fn default_idle() -> u32 {
    300
}

fn default_orphan_grace() -> u32 {
    3600
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A pool that cannot be read is not served.
    #[test]
    fn counts_of_a_version_that_did_not_have_all_of_them_can_be_read() {
        let earlier = json!({"total": 1, "allocated": 1, "free": 0, "cooling": 0, "failed": 0});
        let counts: AddressCounts = serde_json::from_value(earlier).expect("the first version wrote these");
        assert_eq!((counts.total, counts.out_of_range), (1, None));
    }
}
