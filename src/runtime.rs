//! What surrounds the controllers: flags, leader election, health, metrics, logs, shutdown.
//!
//! Nothing here knows what a claim is. `main` puts the parts together.

pub mod client;
pub mod diagnostics;
pub mod flags;
pub mod health;
pub mod leader;
pub mod listen;
pub mod metered;
pub mod metrics;
pub mod shutdown;
pub mod telemetry;
