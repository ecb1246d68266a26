//! Kubernetes objects: our pool, Cluster API's claim, address and cluster, CAPO's cluster identity, and conditions.

pub mod address;
pub mod claim;
pub mod cluster;
pub mod cluster_identity;
pub(crate) mod conditions;
pub(crate) mod guarded;
pub mod hands_off;
mod json_text;
mod metadata;
pub mod names;
pub mod pool;
pub mod pool_network;
mod pool_schema;
pub mod reservation;
pub mod version;

pub use address::{IpAddress, IpAddressSpec};
pub use claim::{IpAddressClaim, IpAddressClaimSpec, IpAddressClaimStatus};
pub use cluster::Cluster;
pub use pool::{OpenStackFloatingIPPool, OpenStackFloatingIPPoolSpec, OpenStackFloatingIPPoolStatus};
pub use version::IpamVersion;
