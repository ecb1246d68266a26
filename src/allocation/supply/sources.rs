//! The sources of addresses that exist already, in the order of choice.

use super::{list, owned, reuse};
use crate::allocation::ledger::LedgerEntry;
use crate::allocation::origin::Origin;
use crate::allocation::situation::Situation;

/// Existing addresses, found one by one: mostly only the first is asked for.
pub(super) type Candidates<'a> = Box<dyn Iterator<Item = &'a LedgerEntry> + 'a>;

pub(super) struct Source {
    pub(super) origin: Origin,
    /// Whether its addresses count under `maxIPs` before a claim has them.
    pub(super) is_counted: bool,
    /// The addresses that it can give now, in the order in which they are given.
    pub(super) candidates: for<'a> fn(Situation<'a>) -> Candidates<'a>,
    /// Whether a claim that has marked an address may keep it, as it was read back: a user, or the pool's spec, may have
    /// changed it after it was listed.
    pub(super) permits: fn(&Situation<'_>, &LedgerEntry) -> bool,
}

/// An address that exists is preferred to creating one.
pub(super) const SOURCES: [Source; 3] = [
    Source { origin: Origin::List, is_counted: false, candidates: list::candidates, permits: list::permits },
    Source { origin: Origin::Owned, is_counted: true, candidates: owned::candidates, permits: owned::permits },
    Source { origin: Origin::Reuse, is_counted: false, candidates: reuse::candidates, permits: reuse::permits },
];
