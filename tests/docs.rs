//! The documents on real servers: every manifest is taken by the API server, and commands do what the pages say.

mod commands;
mod manifests;
#[allow(dead_code, reason = "the checks without servers ask more of it")]
mod markdown;
#[allow(dead_code, reason = "the checks without servers ask more of it")]
mod pages;

pub use manifests::{documents, taken};
