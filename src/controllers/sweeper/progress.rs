//! What became of a plan's actions so far, and what is left to the next plan.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use crate::allocation::sweep::SweepAction;
use crate::openstack;

/// Shared by the actions that are performed at the same time.
#[derive(Default)]
pub(super) struct Progress {
    prefers_listing: bool,
    performed: AtomicUsize,
    refused: AtomicUsize,
    /// How many were outdated when their turn came, and were not left.
    outdated: AtomicUsize,
    leaves_deletions: AtomicBool,
}

impl Progress {
    /// Of actions of which some are left to a listing, if that is to be preferred to reading each floating IP.
    pub(super) fn new(prefers_listing: bool) -> Self {
        Self { prefers_listing, ..Self::default() }
    }

    pub(super) fn note(&self, result: &Result<bool, openstack::Error>) {
        match result {
            Ok(_) => self.performed.fetch_add(1, Relaxed),
            Err(error) if !error.is_unknown() => self.refused.fetch_add(1, Relaxed),
            Err(_) => 0,
        };
    }

    /// OpenStack has refused one and done none: it probably refuses all.
    pub(super) fn is_refused(&self) -> bool {
        self.performed.load(Relaxed) == 0 && self.refused.load(Relaxed) > 0
    }

    /// Whether an action that has not begun is left.
    pub(super) fn leaves(&self, action: &SweepAction) -> bool {
        self.is_refused() || self.leaves_deletions.load(Relaxed) && matches!(action, SweepAction::Delete(_))
    }

    /// Decides whether a floating IP that is outdated when its turn comes is left, and all further ones with it. Not if
    /// those that were listed just now were outdated as well: the next ones would be, too.
    pub(super) fn leave_outdated(&self) -> bool {
        let leaves = self.prefers_listing && self.performed.load(Relaxed) > self.outdated.load(Relaxed);
        match leaves {
            true => self.leaves_deletions.store(true, Relaxed),
            false => _ = self.outdated.fetch_add(1, Relaxed),
        }
        leaves
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocation::testing::id;
    use crate::openstack::ErrorKind;

    #[test]
    fn deletions_are_left_once_one_was_done_on_what_was_listed_and_another_is_outdated() {
        let (delete, rewrite) =
            (SweepAction::Delete(id(10)), SweepAction::Rewrite { id: id(11), description: None, tags: Vec::new() });
        let all_outdated = Progress::new(true);
        assert!(!all_outdated.leave_outdated());
        all_outdated.note(&Ok(true));
        assert!(!all_outdated.leave_outdated() && !all_outdated.leaves(&delete));
        let later = Progress::new(true);
        later.note(&Ok(true));
        assert!(later.leave_outdated() && later.leaves(&delete) && !later.leaves(&rewrite));
        let few = Progress::new(false);
        few.note(&Ok(true));
        assert!(!few.leave_outdated() && !few.leaves(&delete));
    }

    #[test]
    fn everything_is_left_once_one_was_refused_and_none_was_done() {
        let of = |kind| Err(openstack::Error::new(kind, "delete floating IP", "no"));
        let delete = SweepAction::Delete(id(10));
        for (results, leaves) in [
            (vec![of(ErrorKind::Forbidden)], true),
            (vec![of(ErrorKind::NoAnswer)], false),
            (vec![Ok(true), of(ErrorKind::Forbidden)], false),
        ] {
            let progress = Progress::new(false);
            results.iter().for_each(|result| progress.note(result));
            assert_eq!(progress.leaves(&delete), leaves, "{results:?}");
        }
    }
}
