//! The share of each namespace in the memory for floating IPs, so that no tenant takes the memory of the others: a pool
//! lists what a server of its tenant's choosing sends.

use std::sync::Arc;

use parking_lot::Mutex;

use super::registry::Registry;
use crate::openstack::{Error, ErrorKind, ROW_SIZE};

pub(super) struct Share {
    namespace: String,
    /// In bytes.
    limit: usize,
    used: Mutex<usize>,
}

/// What the listing of one project takes of a share, until it is dropped.
pub(super) struct Charge {
    share: Arc<Share>,
    size: usize,
}

impl Share {
    /// Puts `size` in the place of what was charged before. An error if the namespace would have more than its share.
    pub(super) fn replace(self: &Arc<Self>, charge: &mut Option<Charge>, size: usize) -> Result<(), Error> {
        let before = charge.as_ref().filter(|charge| Arc::ptr_eq(&charge.share, self)).map_or(0, |charge| charge.size);
        let mut used = self.used.lock();
        if *used - before + size > self.limit {
            return Err(self.exceeded());
        }
        *used += size;
        drop(used);
        *charge = Some(Charge { share: self.clone(), size });
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

impl Drop for Charge {
    fn drop(&mut self) {
        *self.share.used.lock() -= self.size;
    }
}

/// The shares of the namespaces that have pools.
pub(super) struct Shares {
    limit: usize,
    by_namespace: Registry<String, Share>,
}

impl Shares {
    /// For as many floating IPs in each namespace.
    pub(super) fn new(max_floating_ips: usize) -> Self {
        Self { limit: max_floating_ips.saturating_mul(ROW_SIZE), by_namespace: Registry::default() }
    }

    pub(super) fn of(&self, namespace: &str) -> Arc<Share> {
        let create =
            |namespace: &String| Share { namespace: namespace.clone(), limit: self.limit, used: Mutex::default() };
        self.by_namespace.get_or_create(namespace.to_owned(), create)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a panic fails the test")]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_a_share_and_takes_nothing_of_anothers() {
        let shares = Shares::new(2);
        let (mut one, mut other, mut elsewhere) = (None, None, None);
        shares.of("a").replace(&mut one, 2 * ROW_SIZE).unwrap();
        let refused = shares.of("a").replace(&mut other, 1).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "list floating IPs: the pools of namespace a list floating IPs that take more than 2 KiB of memory: if that is right, raise --max-floating-ips and the controller's memory"
        );
        shares.of("b").replace(&mut elsewhere, 2 * ROW_SIZE).unwrap();
        shares.of("a").replace(&mut one, ROW_SIZE).unwrap();
        shares.of("a").replace(&mut other, ROW_SIZE).unwrap();
        drop(one);
        shares.of("a").replace(&mut other, 2 * ROW_SIZE).unwrap();
    }

    #[test]
    fn a_project_that_another_namespace_lists_is_charged_to_that_one() {
        let shares = Shares::new(1);
        let (a, b) = (shares.of("a"), shares.of("b"));
        let (mut shared, mut own) = (None, None);
        a.replace(&mut shared, ROW_SIZE).unwrap();
        b.replace(&mut shared, ROW_SIZE).unwrap();
        a.replace(&mut own, ROW_SIZE).unwrap();
        assert!(b.replace(&mut own, ROW_SIZE).is_err());
        assert!(shared.is_some_and(|charge| Arc::ptr_eq(&charge.share, &b)));
    }
}
