//! The words that scenarios are written in. A scenario reads as what a person would do and see:
//!
//! ```ignore
//! #[tokio::test]
//! async fn claim_gets_an_address_of_its_own() {
//!     with_namespace(async |ns| {
//!         ns.secret_for("demo").await;
//!         ns.create(pool("public").network("public").max_ips(3)).await;
//!         let address = ns.bind(claim("web-0").from("public")).await;
//!         assert!(ns.cloud().await.find(&address).await.is_some());
//!     })
//!     .await;
//! }
//! ```
//!
//! Nothing here uses the room `openstack` of the program: what a scenario sees in Neutron is a second opinion.

mod account;
mod clouds;
mod clusterctl;
mod controller;
mod fault;
mod laws;
mod line;
mod manifest;
mod namespace;
mod openstack;
mod pair;
mod project;
mod prometheus;
mod tls;
mod verdict;
mod wait;
mod wire;
mod world;

pub use account::SYSTEM_NAMESPACE;
pub use clouds::{cloud_entry, clouds_yaml};
pub use clusterctl::Move;
pub use controller::{Controller, controller};
pub use fault::{EVERYTHING, Fault, NEUTRON, TOKEN};
pub use line::Line;
pub use manifest::{ClaimBuilder, Kind, Manifest, PoolBuilder, claim, owner_reference, pool};
pub use namespace::{Namespace, condition_of, with_namespace};
pub use openstack::{Cloud, ExternalNetwork, FloatingIp};
pub use pair::with_two_clusters;
pub use project::Project;
pub use prometheus::Prometheus;
pub use tls::Tls;
pub use verdict::await_lawful;
pub use wait::{HEALS, SOON, eventually, stays};
pub use wire::Wire;
pub use world::{CRD_YAML, World, run_id};

/// `prefix` and a few random characters: what scenarios that run at once are told apart by.
pub fn unique(prefix: &str) -> String {
    format!("{prefix}-{}", caip_openstack::clock::Clock::system().random_name(8))
}
