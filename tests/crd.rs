//! The CRD as the API server applies it: every rule both ways, defaults, updates, what `kubectl` shows.

mod rules;
mod schema;
mod table;
mod updates;
mod words;

use crate::support::{PoolBuilder, pool};

/// A pool that no controller serves: the test itself writes its status, or wants it as it was created.
fn unserved(name: &str) -> PoolBuilder {
    pool(name).label("cluster.x-k8s.io/watch-filter", "nobody")
}
