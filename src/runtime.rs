//! The process around the controllers: flags, the connection to the API server, leader election, HTTP servers, logs and
//! traces, shutdown.
//!
//! Of pools and claims, only flags are known here. `main` puts the parts together.

pub mod client;
pub mod diagnostics;
pub mod flags;
pub mod health;
pub mod leader;
pub mod listen;
pub mod shutdown;
pub mod telemetry;
