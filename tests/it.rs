//! The tests that need more than the library, in one binary, so that it is linked once and shares one controller.

#![allow(clippy::restriction, reason = "a panic fails the test")]
#![warn(clippy::dbg_macro, clippy::todo, clippy::unwrap_used)]

mod bad_input;
mod contract;
mod crd;
mod docs;
mod examples;
mod failure_modes;
mod install;
mod life;
#[allow(dead_code, reason = "the simulation asks more of it")]
#[path = "support/memory/mod.rs"]
mod memory;
#[allow(dead_code, reason = "the simulation asks more of it")]
#[path = "support/memory_api/mod.rs"]
mod memory_api;
mod observe;
mod plugin;
mod runtime;
mod session;
#[allow(dead_code, unused_imports, reason = "a vocabulary: not every scenario uses every word")]
mod support;
mod support_works;
#[allow(dead_code, reason = "the benchmark asks more of it")]
#[path = "bench/usage.rs"]
mod usage;
