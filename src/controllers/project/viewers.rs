//! The credentials that the pools of a project have. What one role may see says nothing about another, so that each lists for
//! itself.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::allocation::ledger::Viewer;
use crate::openstack::credentials::Fingerprint;

/// The viewer of each credentials, and how many resolutions of pools have them.
#[derive(Default)]
pub(super) struct ViewerRegistry(Mutex<BTreeMap<Fingerprint, (Viewer, usize)>>);

impl ViewerRegistry {
    #[expect(clippy::arithmetic_side_effects, reason = "it counts what is in memory")]
    pub(super) fn join(&self, credentials: Fingerprint) -> Viewer {
        let mut all = self.0.lock();
        let is_free = |viewer: &Viewer| all.values().all(|(other, _)| other != viewer);
        let free = Viewer::all().find(is_free).unwrap_or(Viewer::LAST);
        let (viewer, pools) = all.entry(credentials).or_insert((free, 0));
        *pools += 1;
        *viewer
    }

    /// Returns the viewer if no pool has its credentials any more.
    pub(super) fn leave(&self, credentials: &Fingerprint) -> Option<Viewer> {
        let mut all = self.0.lock();
        let (viewer, pools) = all.get_mut(credentials)?;
        *pools = pools.saturating_sub(1);
        let left = (*pools == 0).then_some(*viewer)?;
        all.remove(credentials);
        all.values().all(|(other, _)| *other != left).then_some(left)
    }
}
