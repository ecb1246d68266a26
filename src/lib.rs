//! A Cluster API IPAM provider for OpenStack floating IPs. The flow is: watch → read → **decide** → act → report.
//!
//! | room | what is in it |
//! |---|---|
//! | [`api`] | the pool's CRD; Cluster API's claim and address, their versions; conditions and reasons |
//! | [`allocation`] | pure: what to do for a claim, for a pool, in a sweep; marks; the laws |
//! | [`openstack`] | the client for Keystone and Neutron |
//! | [`controllers`] | pool, claim and sweeper: read, decide, act, report |
//! | [`plugin`] | `kubectl fippool`: asks, explains, and helps to mend |
//! | [`metrics`] | Prometheus metrics of pools, claims and OpenStack calls |
//! | [`runtime`] | the process: flags, leader election, HTTP servers, logs and traces, shutdown; knows no pool and no claim |

pub mod allocation;
pub mod api;
pub mod clock;
pub mod controllers;
pub mod floating_ip;
pub mod metrics;
pub mod object_name;
pub mod openstack;
pub mod plugin;
pub mod runtime;
mod tls;
