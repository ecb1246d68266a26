//! The credentials that the pools of a project have, and when each last listed it. What one role may see says nothing about
//! another, so that each lists for itself.

use std::collections::BTreeMap;

use jiff::Timestamp;
use parking_lot::Mutex;

use crate::allocation::ledger::{Sequence, Viewer};
use crate::openstack::credentials::Fingerprint;

/// A listing that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listing {
    pub(super) began: Sequence,
    pub(super) ended: Timestamp,
}

struct Use {
    viewer: Viewer,
    /// How many resolutions of pools have them.
    pools: usize,
    listing: Option<Listing>,
}

#[derive(Default)]
pub(super) struct ViewerRegistry(Mutex<BTreeMap<Fingerprint, Use>>);

impl ViewerRegistry {
    #[expect(clippy::arithmetic_side_effects, reason = "it counts what is in memory")]
    pub(super) fn join(&self, credentials: Fingerprint) -> Viewer {
        let mut all = self.0.lock();
        let is_free = |viewer: &Viewer| all.values().all(|other| other.viewer != *viewer);
        let free = Viewer::all().find(is_free).unwrap_or(Viewer::LAST);
        let entry = all.entry(credentials).or_insert(Use { viewer: free, pools: 0, listing: None });
        entry.pools += 1;
        entry.viewer
    }

    /// Returns the viewer if nobody has the credentials any more.
    pub(super) fn leave(&self, credentials: &Fingerprint) -> Option<Viewer> {
        let mut all = self.0.lock();
        let entry = all.get_mut(credentials)?;
        entry.pools = entry.pools.saturating_sub(1);
        let left = (entry.pools == 0).then_some(entry.viewer)?;
        all.remove(credentials);
        all.values().all(|other| other.viewer != left).then_some(left)
    }

    /// The last listing with these credentials.
    pub(super) fn listing(&self, credentials: &Fingerprint) -> Option<Listing> {
        self.0.lock().get(credentials)?.listing
    }

    /// Unless it `is_complete`, the others list again soon: only they know of what they alone see whether it still exists.
    pub(super) fn note_listing(&self, credentials: &Fingerprint, listing: Listing, is_complete: bool) {
        for (other, entry) in &mut *self.0.lock() {
            if other == credentials {
                entry.listing = Some(listing);
            } else if !is_complete {
                entry.listing = None;
            }
        }
    }

    pub(super) fn forget_listings(&self) {
        self.0.lock().values_mut().for_each(|entry| entry.listing = None);
    }
}
