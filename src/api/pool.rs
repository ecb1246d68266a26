//! `OpenStackFloatingIPPool`: what a platform engineer declares. Whatever can be checked without OpenStack, the API
//! server checks by the schema and the CEL rules that are written here.

use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pool_network::{NetworkParam, SubnetParam};
use super::pool_schema as schema;

/// A pool of OpenStack floating IPs, for the machines whose template names it in `floatingIPPoolRef`.
///
/// Each IPAddressClaim that points at the pool gets a floating IP of its own: one of `preAllocatedFloatingIPs`, a free
/// one of the project (`reuse`), or a new one from `floatingIPNetwork`.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Default)]
#[kube(
    group = "ipam.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "OpenStackFloatingIPPool",
    plural = "openstackfloatingippools",
    doc = "A pool of OpenStack floating IPs, for the machines whose template names it in `floatingIPPoolRef`.",
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
        description = "Whether claims can be served in principle"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].reason",
        description = "Why it is ready, or not"
    ),
    printcolumn(
        name = "Allocated",
        type_ = "integer",
        json_path = ".status.addresses.allocated",
        description = "Addresses that claims hold"
    ),
    printcolumn(
        name = "Free",
        type_ = "integer",
        json_path = ".status.addresses.free",
        description = "Addresses that can be given without creating one"
    ),
    printcolumn(name = "Limit", type_ = "integer", json_path = ".spec.maxIPs", description = "spec.maxIPs"),
    printcolumn(
        name = "Network",
        type_ = "string",
        json_path = ".status.network.name",
        description = "The network that new addresses come from"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Since the pool was created"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].message",
        description = "What to do",
        priority = 1
    )
)]
#[expect(clippy::duplicated_attributes, reason = "each column has a type; clippy looks across columns")]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.poolID) == has(oldSelf.poolID)")
        .message("poolID cannot be added or removed once the pool exists: make another pool"),
    validation = Rule::new("!has(self.reservations) || !has(self.excludedAddresses) || self.reservations.all(r, !self.excludedAddresses.exists(e, e.contains('/') ? isIP(r.address) && isCIDR(e) && cidr(e).containsIP(r.address) : e == r.address))")
        .message("reservations and excludedAddresses name the same address: take it out of one of them"),
    validation = Rule::new("!has(self.preallocate) || self.preallocate == 0 || !has(self.maxIPs) || self.preallocate <= self.maxIPs")
        .message("preallocate must not be more than maxIPs"),
    validation = Rule::new("!has(self.subnets) || has(self.floatingIPNetwork) || !has(self.preAllocatedFloatingIPs)")
        .message("subnets has no meaning for a pool that only has a list: name the floatingIPNetwork too, or remove subnets"),
    validation = Rule::new("!has(self.preallocate) || self.preallocate == 0 || has(self.floatingIPNetwork) || !has(self.preAllocatedFloatingIPs)")
        .message("preallocate has no meaning for a pool that only has a list: name the floatingIPNetwork too, or remove preallocate")
)]
pub struct OpenStackFloatingIPPoolSpec {
    /// The credentials: a Secret in the pool's namespace with the key `clouds.yaml`, and `cacert` where the cloud has a
    /// CA of its own. They must be of the same project as the machines, since CAPO looks the address up with theirs.
    pub identity_ref: IdentityRef,

    /// Floating IPs of the project that the pool hands out first, in this order; they must exist. Without
    /// `floatingIPNetwork` the list is closed: the pool never gives anything else. They are tagged while in use, never
    /// deleted, and lose the tag when released. One that is attached, missing or somebody else's is passed over and
    /// named in `status.failed`. At most 1024.
    #[serde(default, rename = "preAllocatedFloatingIPs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::address_list")]
    pub pre_allocated_floating_ips: Vec<String>,

    /// The external network to reuse and create floating IPs on. With neither this nor a list, it is the only external
    /// network of the cloud; where there are several, it must be named.
    #[serde(default, rename = "floatingIPNetwork", skip_serializing_if = "Option::is_none")]
    pub floating_ip_network: Option<NetworkParam>,

    /// Subnets of the network to take new addresses from, in order of preference: the next one when one is full.
    /// Without it Neutron chooses. At most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub subnets: Vec<SubnetParam>,

    /// The most addresses that may carry the pool's mark at once: bound, on their way out, resting, retained,
    /// preallocated and being created. Listed addresses that nobody claims do not count. No limit when absent; set
    /// below what is in use it takes nothing away, but nothing more is given.
    #[serde(default, rename = "maxIPs", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65536))]
    pub max_ips: Option<u32>,

    /// What becomes of a floating IP that the pool created, once it is released: `Delete` (the default) deletes it in
    /// Neutron, `Retain` keeps it as a free one of the pool until the pool goes. Listed and reused ones are never deleted.
    #[serde(default)]
    #[schemars(schema_with = "schema::reclaim_policy")]
    pub reclaim_policy: ReclaimPolicy,

    /// Which free floating IPs of the project, on the pool's network, may be used before a new one is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse: Option<Reuse>,

    /// Addresses and ranges (CIDR) that are never given, even when Neutron offers them. At most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::exclusions")]
    pub excluded_addresses: Vec<String>,

    /// Addresses that are kept for one claim each; that claim waits for its address and gets no other. At most 256.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::reservations")]
    pub reservations: Vec<Reservation>,

    /// Keep this many free floating IPs ready, so that a claim is bound without waiting for Neutron to create one.
    /// Within `maxIPs`. Default 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0, max = 1024))]
    pub preallocate: u32,

    /// Seconds that a released address rests before it is given again or deleted. Default 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0, max = 604800))]
    pub reuse_grace_period_seconds: u32,

    /// What is done about floating IPs that carry the pool's mark but belong to no claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orphans: Option<Orphans>,

    /// The pool's identity in OpenStack's marks. Give one to let a management cluster that is rebuilt from nothing find
    /// every claim's old address; otherwise one is made and kept in an annotation. At most 20 of `a-z`, `0-9` and `-`,
    /// unique among the pools that share a project. Cannot be changed.
    #[serde(default, rename = "poolID", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::pool_id")]
    pub pool_id: Option<String>,
}

/// Where the credentials are.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
pub struct IdentityRef {
    /// What `name` is the name of. Only `Secret`, which it also is when absent; CAPO writes it into its own pools.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::identity_type")]
    pub type_: Option<IdentityType>,
    /// The Secret's name, in the pool's namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The entry under `clouds` of the Secret's `clouds.yaml`.
    #[schemars(length(min = 1, max = 253))]
    pub cloud_name: String,
    /// The region whose Neutron is used; `region_name` of the cloud's entry when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub region: Option<String>,
}

/// What holds the credentials.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentityType {
    /// A Secret in the pool's namespace. CAPO's `ClusterIdentity` is not supported.
    Secret,
}

/// What becomes of a floating IP that the pool created.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ReclaimPolicy {
    /// It is deleted in Neutron.
    #[default]
    Delete,
    /// It stays, as a free one of the pool.
    Retain,
}

/// Which free floating IPs of the project may be used.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.policy) || self.policy != 'Tagged' || (has(self.tags) && size(self.tags) > 0)")
        .message("reuse.tags must name at least one tag when reuse.policy is Tagged"),
    validation = Rule::new("!has(self.tags) || size(self.tags) == 0 || (has(self.policy) && self.policy == 'Tagged')")
        .message("reuse.tags has a meaning only when reuse.policy is Tagged: set the policy, or remove the tags")
)]
pub struct Reuse {
    /// `Unmarked` (the default) takes those with no tag, description or DNS name; `Tagged` those that have all of
    /// `tags`; `Never` takes none.
    #[serde(default)]
    #[schemars(schema_with = "schema::reuse_policy")]
    pub policy: ReusePolicy,
    /// For `Tagged`: a floating IP must have all of these. At most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tags")]
    pub tags: Vec<String>,
    /// Seconds for which a floating IP must not have changed before it is taken, since somebody who has just created
    /// it may be about to attach it. Default 300.
    #[serde(default = "default_idle")]
    #[schemars(range(min = 0, max = 604800))]
    pub min_idle_seconds: u32,
}

/// Which free floating IPs of the project may be used.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ReusePolicy {
    /// Those with no tag, description or DNS name.
    #[default]
    Unmarked,
    /// Those that have all of the given tags.
    Tagged,
    /// None.
    Never,
}

/// An address that is kept for one claim.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
pub struct Reservation {
    /// The claim's name. CAPO names it `<server>-floating-ip-address`.
    #[schemars(length(min = 1, max = 253))]
    pub claim: String,
    /// The address; a floating IP of the project.
    #[schemars(schema_with = "schema::address")]
    pub address: String,
}

/// What is done about floating IPs that carry the pool's mark but belong to no claim.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Orphans {
    /// `Release` (the default) gives them back like any released address; `Report` only says so in the condition
    /// `OrphansDetected`.
    #[serde(default)]
    #[schemars(schema_with = "schema::orphan_policy")]
    pub policy: OrphanPolicy,
    /// Seconds for which a floating IP must be seen without a claim before it is released. Default 3600.
    #[serde(default = "default_orphan_grace")]
    #[schemars(range(min = 0, max = 604800))]
    pub grace_seconds: u32,
}

/// What is done about an orphan.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OrphanPolicy {
    /// It is released like any other address.
    #[default]
    Release,
    /// It is reported.
    Report,
}

/// What the controller found. Output only: no decision reads it back.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Default)]
#[serde(rename_all = "camelCase")]
pub struct OpenStackFloatingIPPoolStatus {
    /// `Ready`: claims can be served in principle. `CredentialsValid`, `NetworkResolved`, `Exhausted`, `Paused` and
    /// `OrphansDetected` explain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// How many addresses there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<AddressCounts>,
    /// The network that addresses are reused and created on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<ResolvedNetwork>,
    /// The pool's identity in OpenStack's marks.
    #[serde(default, rename = "poolID", skip_serializing_if = "Option::is_none")]
    pub pool_id: Option<String>,
    /// Listed or marked addresses that cannot be given, with the reason; the first 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub failed: Vec<FailedAddress>,
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// How many addresses a pool has.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AddressCounts {
    /// Listed, and carrying the pool's mark.
    pub total: u32,
    /// Held by claims.
    pub allocated: u32,
    /// Can be given without creating one.
    pub free: u32,
    /// Released, and not yet free or gone.
    pub cooling: u32,
    /// Cannot be given: see `failed`.
    pub failed: u32,
}

/// A network of Neutron.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq, Default)]
pub struct ResolvedNetwork {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
}

/// An address that cannot be given.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq, Default)]
pub struct FailedAddress {
    /// The address.
    pub address: String,
    /// Why it cannot be given, and what to do.
    pub reason: String,
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

impl OpenStackFloatingIPPoolSpec {
    /// The list, parsed. What the API server let through parses; anything else is left out.
    pub fn listed(&self) -> Vec<IpAddr> {
        self.pre_allocated_floating_ips.iter().filter_map(|address| address.parse().ok()).collect()
    }

    /// Whether the list is all there is: no network to reuse or create on.
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
