//! What to do: pure decisions over what was observed. No I/O, no clock, no async, no kube, no HTTP.
//!
//! | file | answers |
//! |---|---|
//! | [`identity`] | who owns: pools, claims, nonces |
//! | [`mark`] | how ownership is written into Neutron, and read back |
//! | [`ledger`] | what we know of a project's floating IPs, and what is under way |
//! | [`published`] | which addresses Kubernetes names |
//! | [`claim`] | what to do for a claim that wants an address |
//! | [`release`] | what to do for a claim that goes |
//! | [`sweep`] | what to do about everything else that carries our mark |
//! | [`count`] | what a pool has |

pub mod claim;
pub mod count;
pub mod identity;
pub mod ledger;
pub mod mark;
pub mod policy;
pub mod published;
pub mod refusal;
pub mod release;
pub mod sweep;
#[cfg(test)]
mod vocabulary;

pub use identity::{ClaimKey, Nonce, PoolId};
pub use ledger::Ledger;
pub use policy::PoolPolicy;
pub use published::PublishedAddresses;
pub use refusal::Refusal;
