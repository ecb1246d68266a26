//! A Keystone and a Neutron of a hostile tenant, over HTTP, and the tenants that bring them.
//!
//! In a shared management cluster each tenant's Secret names a Keystone, and its catalogue a Neutron. These lie in
//! everything that they send, down to the bytes: `answers.rs` has what would be right, and the other files each way in
//! which it is wrong. The simulation has liars too (`tests/simulation/liar.rs`), above HTTP: they return values that were
//! already parsed.

mod answers;
mod bodies;
mod fields;
mod headers;
mod liar;
mod server;
mod statuses;
mod tenants;
mod tokens;
mod victim;
mod wire;

pub use liar::Attack;
pub use tenants::{CLAIMS, HostileTenants, SECRETS, with_hostile_tenants};
pub use victim::{Victim, rows};
