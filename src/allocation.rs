//! What to do: pure decisions over what was observed. No I/O, no clock, no async, no kube, no HTTP.
//!
//! | file | answers |
//! |---|---|
//! | [`identity`] | who owns: pools, claims, nonces |
//! | [`mark`] | how ownership is written into Neutron, and read back |
//! | [`policy`] | what a pool may do |
//! | [`ledger`] | what is known of a project's floating IPs, and which writes are under way |
//! | [`published`] | which addresses Kubernetes names |
//! | [`index`] | which entries have one key: for the ledger and the published addresses |
//! | [`situation`] | all of this at the moment of a decision |
//! | [`origin`] | where an address came from |
//! | [`supply`] | what a pool can give next, from which source, and why not |
//! | [`claim`] | what to do for a claim that needs an address |
//! | [`release`] | what to do for a claim that is being deleted |
//! | [`sweep`] | what to do about everything else that carries our mark |
//! | [`address_list`] | which addresses are the pool's, for a firewall |
//! | [`usage`] | how many addresses a pool has, and in which state |
//! | [`refusal`] | why a claim has no address |
//!
//! Three things keep it pure: the lints below (`clippy.toml`), a test of its imports (`tests/docs/core.rs`), and
//! `make mutants`, which compiles it without kube, tokio and HTTP.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod address_list;
pub mod claim;
pub mod identity;
mod index;
pub mod ledger;
pub mod mark;
pub mod origin;
pub mod policy;
pub mod published;
pub mod refusal;
pub mod release;
pub mod situation;
pub mod supply;
pub mod sweep;
#[cfg(test)]
pub(crate) mod testing;
pub mod usage;

pub use identity::{ClaimKey, Nonce, PoolId};
pub use ledger::Ledger;
pub use policy::PoolPolicy;
pub use published::{CapoAddresses, InTreePools, PublishedAddresses};
pub use refusal::Refusal;
pub use situation::Situation;
