//! The ways to install it, by the programs that users have: helm, kubectl, clusterctl.
//!
//! There is no kubelet here, so no pod runs: what is shown is what the API server makes of it all. What installs things
//! into the whole cluster gives them names of its own, and keeps the CRD, which every scenario needs.

mod admission;
mod chart;
mod clusterctl;
mod content;
mod lifecycle;
mod namespaced;
mod overlays;
mod pods;
mod programs;
mod scratch;
mod user_roles;
mod values;
