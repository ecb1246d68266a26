//! The memory that the floating IPs of each namespace may take, so that no tenant takes that of the others: a pool
//! lists what a server of its tenant's choosing sends.

use std::sync::Arc;

use parking_lot::Mutex;

use super::registry::Registry;
use crate::openstack::{Error, ErrorKind, ROW_SIZE};

pub(super) struct MemoryLimit {
    namespace: String,
    /// In bytes.
    limit: usize,
    used: Mutex<usize>,
}

/// What the listing of one project takes of it, until this is dropped.
pub(super) struct MemoryUse {
    limit: Arc<MemoryLimit>,
    size: usize,
}

impl MemoryLimit {
    /// Puts `size` in the place of what was charged before. An error if the namespace would take more than its limit.
    pub(super) fn replace(self: &Arc<Self>, in_use: &mut Option<MemoryUse>, size: usize) -> Result<(), Error> {
        let before = in_use.as_ref().filter(|before| Arc::ptr_eq(&before.limit, self)).map_or(0, |before| before.size);
        let mut used = self.used.lock();
        if used.saturating_sub(before).saturating_add(size) > self.limit {
            return Err(self.exceeded());
        }
        *used = used.saturating_add(size);
        drop(used);
        *in_use = Some(MemoryUse { limit: self.clone(), size });
        Ok(())
    }

    fn exceeded(&self) -> Error {
        let (namespace, kib) = (&self.namespace, self.limit >> 10);
        let message = format!(
            "the pools of namespace {namespace} list floating IPs that take more than {kib} KiB of memory: if that is right, raise --max-floating-ips and the controller's memory"
        );
        Error::new(ErrorKind::Malformed, "list floating IPs", message)
    }
}

impl Drop for MemoryUse {
    #[expect(clippy::arithmetic_side_effects, reason = "its size was added before")]
    fn drop(&mut self) {
        *self.limit.used.lock() -= self.size;
    }
}

/// The limits of the namespaces that have pools.
pub(super) struct MemoryLimits {
    limit: usize,
    by_namespace: Registry<String, MemoryLimit>,
}

impl MemoryLimits {
    /// For as many floating IPs in each namespace.
    pub(super) fn new(max_floating_ips: usize) -> Self {
        Self { limit: max_floating_ips.saturating_mul(ROW_SIZE), by_namespace: Registry::default() }
    }

    pub(super) fn of(&self, namespace: &str) -> Arc<MemoryLimit> {
        let create = |namespace: &String| MemoryLimit {
            namespace: namespace.clone(),
            limit: self.limit,
            used: Mutex::default(),
        };
        self.by_namespace.get_or_create(namespace.to_owned(), create)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_takes_no_memory_of_anothers() {
        let limits = MemoryLimits::new(2);
        let (mut one, mut other, mut elsewhere) = (None, None, None);
        limits.of("a").replace(&mut one, 2 * ROW_SIZE).unwrap();
        let refused = limits.of("a").replace(&mut other, 1).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "list floating IPs: the pools of namespace a list floating IPs that take more than 2 KiB of memory: if that is right, raise --max-floating-ips and the controller's memory"
        );
        limits.of("b").replace(&mut elsewhere, 2 * ROW_SIZE).unwrap();
        limits.of("a").replace(&mut one, ROW_SIZE).unwrap();
        limits.of("a").replace(&mut other, ROW_SIZE).unwrap();
        drop(one);
        limits.of("a").replace(&mut other, 2 * ROW_SIZE).unwrap();
    }

    #[test]
    fn a_project_that_another_namespace_lists_is_charged_to_that_one() {
        let limits = MemoryLimits::new(1);
        let (a, b) = (limits.of("a"), limits.of("b"));
        let (mut shared, mut own) = (None, None);
        a.replace(&mut shared, ROW_SIZE).unwrap();
        b.replace(&mut shared, ROW_SIZE).unwrap();
        a.replace(&mut own, ROW_SIZE).unwrap();
        assert!(b.replace(&mut own, ROW_SIZE).is_err());
        assert!(shared.is_some_and(|in_use| Arc::ptr_eq(&in_use.limit, &b)));
    }
}
