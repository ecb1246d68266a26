//! When each viewer last listed the project, and what its listings take away.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::viewers::Viewers;
use super::{CallStart, Ledger, Viewer};
use crate::allocation::mark::Marks;
use crate::floating_ip::{FloatingIp, FloatingIpId};

/// How long a project is not listed again for the sake of releases: so many times as long as the last listing took, and at
/// most so long. Listing thousands of floating IPs takes a share of a core, and one listing confirms many releases.
const REST_AFTER_LISTING: i32 = 3;
const LONGEST_REST: SignedDuration = SignedDuration::from_secs(5);
/// A fifth of the time for which a view is fresh enough for a DELETE.
const QUICK_LISTING: SignedDuration = SignedDuration::from_secs(1);

/// Credentials that work list the project more often than this: about once a minute.
const LISTS_WITHIN: SignedDuration = SignedDuration::from_mins(5);

/// A listing of the project that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listing {
    pub(super) began: CallStart,
    ended: Timestamp,
    /// Another viewer does not see something that it showed: perhaps that is gone.
    is_outdated: bool,
}

/// Records what listings show.
impl Ledger {
    /// A listing begins. Credentials that have expired list nothing any more: they would keep what is deleted known for ever.
    pub fn begin_listing(&mut self, viewer: Viewer, now: Timestamp) -> CallStart {
        let has_stopped =
            |listing: &Listing| listing.began.viewer != viewer && now.duration_since(listing.ended) >= LISTS_WITHIN;
        let stopped = self.listings.values().filter(|listing| has_stopped(listing)).map(|listing| listing.began.viewer);
        for viewer in stopped.collect::<Vec<_>>() {
            self.forget_viewer(viewer);
        }
        self.begin_as(viewer, now)
    }

    /// A listing of the project with the viewer's credentials has ended. A floating IP that it does not show is forgotten if
    /// only pools with these credentials have marked it, or once no viewer sees it any more.
    pub fn record_listing(&mut self, began: CallStart, fips: Vec<FloatingIp>, now: Timestamp) {
        let listed: BTreeSet<FloatingIpId> = fips.iter().map(|fip| fip.id.clone()).collect();
        self.listings.insert(began.viewer, Listing { began, ended: now, is_outdated: false });
        let (served, mut is_seen_by_others) = (&self.served, false);
        // What a pool has marked, its credentials show.
        let is_its_own = |marks: &Marks| {
            let pools = marks.pools().into_iter().filter_map(|pool| served.get(pool));
            let mut viewers = pools.map(|pool| pool.viewer).peekable();
            viewers.peek().is_some() && viewers.all(|viewer| viewer == began.viewer && viewer != Viewer::LAST)
        };
        let unlisted = self.entries.values_mut().filter(|entry| entry.is_older_than(began));
        let unlisted = unlisted.filter(|entry| !listed.contains(&entry.fip.id)).filter_map(|entry| {
            let was_seen = entry.viewers.include(began.viewer);
            entry.viewers.remove(began.viewer);
            let is_gone = match was_seen {
                true => entry.viewers.is_empty() || is_its_own(&entry.marks),
                // Those who saw it have stopped or left. Their calls may still land.
                false => entry.viewers.is_empty() && !entry.has_writes(),
            };
            is_seen_by_others |= was_seen && !is_gone;
            is_gone.then(|| entry.fip.id.clone())
        });
        let unlisted: Vec<FloatingIpId> = unlisted.collect();
        for id in &unlisted {
            self.note_missing(id);
            self.forget(id);
        }
        if is_seen_by_others {
            let others = self.listings.values_mut().filter(|listing| listing.began.viewer != began.viewer);
            others.for_each(|listing| listing.is_outdated = true);
        }
        self.note_listed(&listed);
        for fip in fips {
            self.record_read(fip, began);
        }
        self.deleted.retain(|_, deleted| *deleted >= began.sequence);
        self.settle(began);
        self.has_listing_failed = false;
    }

    /// The memory of the floating IPs that stay known beside those that a listing with the viewer's credentials shows, in
    /// bytes.
    pub fn size_kept_beside(&self, viewer: Viewer, listed: &[FloatingIp]) -> usize {
        let mut kept: BTreeMap<&FloatingIpId, usize> = BTreeMap::new();
        let others = self.entries.values().filter(|entry| entry.viewers.include_others_than(viewer));
        kept.extend(others.map(|entry| (&entry.fip.id, entry.fip.memory_size())));
        for fip in listed {
            kept.remove(&fip.id);
        }
        kept.into_values().fold(0, usize::saturating_add)
    }

    /// No pool has the viewer's credentials any more.
    pub fn forget_viewer(&mut self, viewer: Viewer) {
        self.listings.remove(&viewer);
        self.entries.values_mut().for_each(|entry| entry.viewers.remove(viewer));
    }

    /// The viewer, if it lists the project. Otherwise nothing would take back what it shows.
    pub(super) fn shown_by(&self, viewer: Viewer) -> Viewers {
        if self.is_unlisted(viewer) { Viewers::default() } else { Viewers::one(viewer) }
    }
}

/// Queries.
impl Ledger {
    /// Whether the viewer has not listed the project: then a missing floating IP may exist.
    pub fn is_unlisted(&self, viewer: Viewer) -> bool {
        !self.listings.contains_key(&viewer)
    }

    /// When the viewer's last listing began.
    pub fn listing_began(&self, viewer: Viewer) -> Option<CallStart> {
        self.listings.get(&viewer).map(|listing| listing.began)
    }

    /// When the viewer's last listing ended.
    pub fn listing_ended(&self, viewer: Viewer) -> Option<Timestamp> {
        self.listings.get(&viewer).map(|listing| listing.ended)
    }

    /// Whether the viewer's last listing ended since then, and shows nothing that others do not see any more.
    pub fn is_listed_since(&self, viewer: Viewer, since: Timestamp) -> bool {
        self.listings.get(&viewer).is_some_and(|listing| !listing.is_outdated && listing.ended >= since)
    }

    fn last_listing(&self) -> Option<&Listing> {
        self.listings.values().max_by_key(|listing| listing.began.sequence)
    }

    /// Whether the last listing succeeded, and was so quick that what it showed was recent when it ended.
    pub fn lists_quickly(&self) -> bool {
        let is_quick = |last: &Listing| last.ended.duration_since(last.began.at) <= QUICK_LISTING;
        !self.has_listing_failed && self.last_listing().is_some_and(is_quick)
    }

    pub fn note_failed_listing(&mut self) {
        self.has_listing_failed = true;
    }

    /// How long to wait before the project is listed again to confirm releases.
    pub fn rest_before_listing(&self, now: Timestamp) -> SignedDuration {
        let Some(Listing { began, ended, .. }) = self.last_listing() else { return SignedDuration::ZERO };
        let rest = ended.duration_since(began.at).saturating_mul(REST_AFTER_LISTING).min(LONGEST_REST);
        rest.saturating_sub(now.duration_since(*ended)).max(SignedDuration::ZERO)
    }
}
