//! The CRD in a real API server: validation rules, defaults, updates, and kubectl's output.

mod rules;
mod schema;
mod table;
mod updates;
mod words;

use crate::support::{PoolBuilder, pool};

/// A pool that no controller reconciles.
fn unserved(name: &str) -> PoolBuilder {
    pool(name).label("cluster.x-k8s.io/watch-filter", "nobody")
}
