//! The vocabulary of the scenarios, which reads like what a user does and sees:
//!
//! ```ignore
//! #[tokio::test]
//! async fn claim_gets_an_address() {
//!     with_namespace(async |ns| {
//!         ns.create_secret_for("demo").await;
//!         ns.create(pool("public").network("public").max_ips(3)).await;
//!         let address = ns.bind(claim("web-0").from("public")).await;
//!         assert!(ns.cloud().await.find(&address).await.is_some());
//!     })
//!     .await;
//! }
//! ```
//!
//! Nothing here uses the program's module `openstack`: what a scenario sees in Neutron is a second opinion.

mod api_server_proxy;
mod clouds;
mod cluster;
mod cluster_identity;
mod clusterctl;
mod controller;
mod fault;
pub mod hostile;
pub mod kubeconfig;
pub mod laws;
mod laws_hold;
mod lease;
mod manifest;
mod namespace;
mod openstack;
mod openstack_proxy;
mod project;
mod prometheus;
mod scenario;
mod service_account;
mod tls_listener;
mod wait;
mod world;

pub use api_server_proxy::ApiServerProxy;
pub use clouds::{cloud_entry, clouds_yaml};
pub use cluster::cluster;
pub use cluster_identity::{apply_identity, delete_identity, label_namespace};
pub use clusterctl::Move;
pub use controller::{Controller, PROGRAM, controller, previous_program};
pub use fault::{EVERYTHING, Fault, NEUTRON, TOKEN};
pub use laws_hold::await_laws_hold;
pub use lease::{LeaseHistory, LeaseObserver, RENEW_DEADLINE, leader_election_flags};
pub use manifest::{ClaimBuilder, Kind, Manifest, PoolBuilder, claim, owner_reference, pool};
pub use namespace::{Namespace, condition_of};
pub use openstack::{Cloud, ExternalNetwork, FloatingIp};
pub use openstack_proxy::{NeutronWrite, OpenStackProxy, call_name};
pub use project::Project;
pub use prometheus::Prometheus;
pub use scenario::{text_of_panic, with_external_network, with_namespace, with_two_clusters};
pub use service_account::SYSTEM_NAMESPACE;
pub use tls_listener::Tls;
pub use wait::{RECOVERY, SOON, consistently, eventually};
pub use world::{CRD_YAML, World, client, required, run_id};

/// `prefix` and a few random characters, so that scenarios that run at once do not collide.
pub fn unique(prefix: &str) -> String {
    format!("{prefix}-{}", caip_openstack::clock::Clock::system().random_name(8))
}
