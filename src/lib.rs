//! A Cluster API IPAM provider for OpenStack floating IPs. The flow is: watch → read → **decide** → act → report.
//!
//! | module | what is in it |
//! |---|---|
//! | [`api`] | the pool's CRD; Cluster API's claim and address, their versions; conditions and reasons |
//! | [`allocation`] | pure: what to do for a claim, for a pool, in a sweep; marks |
//! | [`openstack`] | the client for Keystone and Neutron |
//! | [`controllers`] | pool, claim and sweeper: read, decide, act, report |
//! | [`plugin`] | `kubectl fippool`: explains pools and claims, and helps to repair them |
//! | [`metrics`] | Prometheus metrics of pools, claims, reconciles and calls |
//! | `fuzzing` | the parsers of received data, for `make fuzz` |
//! | [`runtime`] | the process: flags, leader election, HTTP servers, logs and traces, shutdown |

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a panic fails the test"))]

mod address_format;
pub mod allocation;
pub mod api;
pub mod clock;
pub mod controllers;
mod fair;
pub mod floating_ip;
#[cfg(any(fuzzing, test))]
#[allow(clippy::indexing_slicing, reason = "a panic is a find")]
pub mod fuzzing;
pub mod metrics;
pub mod object_name;
pub mod openstack;
mod parts_hash;
pub mod plugin;
pub mod runtime;
mod text;
mod time;
mod tls;
