//! The tests that need more than the library, in one binary, so that it is linked once and shares one controller.

mod bad_input;
#[path = "laws/checker.rs"]
mod checker;
mod contract;
mod crd;
mod docs;
mod examples;
mod failure_modes;
mod install;
#[allow(dead_code, reason = "the simulation asks more of it")]
#[path = "support/laws.rs"]
mod laws;
mod life;
#[allow(dead_code, reason = "the simulation asks more of it")]
#[path = "support/memory/mod.rs"]
mod memory;
mod observe;
#[path = "laws/oracle.rs"]
mod oracle;
mod plugin;
mod runtime;
mod session;
#[allow(dead_code, unused_imports, reason = "a vocabulary: not every scenario uses every word")]
mod support;
mod vocabulary;
