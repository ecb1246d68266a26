//! What a pool can give next: from which source, within which limit, and why not. Choosing for a claim, counting,
//! creating spares and explaining all use it.
//!
//! | to change | open |
//! |---|---|
//! | the order of the sources, or add one | [`sources`] and a file for the source |
//! | which addresses a source has, and which of them a claim may keep | `list.rs`, `owned.rs`, `reuse.rs` |
//! | where and when a floating IP is created | `creation.rs` |
//! | why a claim is refused | [`Supply::refusal`], `creation.rs`, `reservation.rs`; the messages are in `../refusal.rs` |

mod creation;
mod list;
mod owned;
mod reservation;
mod reuse;
mod sources;

pub use creation::{CreationPlace, is_usable_spare};
pub(super) use list::is_listable;
pub(super) use owned::is_owned_and_free;

use super::ledger::{Ledger, LedgerEntry};
use super::mark::Ownership;
use super::origin::Origin;
use super::policy::PoolPolicy;
use super::refusal::Refusal;
use super::situation::Situation;
use sources::{Candidates, SOURCES, Source};

/// The addresses that a pool can give at one moment.
pub struct Supply<'a> {
    situation: Situation<'a>,
    /// How many addresses [count](Situation::count_towards_limit) under the limit, if there is one.
    counted: usize,
}

/// What a pool gives next.
#[derive(Clone, Debug)]
pub(super) enum NextAddress<'a> {
    Existing(Origin, &'a LedgerEntry),
    New(CreationPlace),
}

/// Why a pool gives nothing now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Unavailable {
    Refused(Refusal),
    /// Late writes of a previous process may still land: they could replace a mark, remove a tag, or exceed the limit.
    Fenced,
}

impl<'a> Supply<'a> {
    pub fn new(situation: Situation<'a>) -> Self {
        let counted = situation.pool.max_ips.map_or(0, |_| situation.count_towards_limit());
        Self { situation, counted }
    }

    /// What each source has, in the order of choice.
    fn existing(&self) -> impl Iterator<Item = (&'static Source, Candidates<'a>)> + use<'a> {
        let situation = self.situation;
        SOURCES.iter().map(move |source| (source, (source.candidates)(situation)))
    }

    /// What a claim without a reservation gets, with `older` claims before it.
    pub(super) fn next_for_any(&self, older: usize) -> Result<NextAddress<'a>, Unavailable> {
        // A creation may be refused: what exists is for the older ones.
        let existing = if self.has_more_than(older, 0) { self.first_existing() } else { None };
        // A new one is better than one that Neutron refused to mark.
        if existing.is_some_and(|(_, entry)| self.was_refused(entry))
            && self.creatable() > older
            && self.room() > older
            && let Ok(place) = self.creation_place()
        {
            return Ok(NextAddress::New(place));
        }
        let Some((origin, entry)) = existing else {
            return match self.has_more_than(older, self.creatable()) {
                true => self.creation_place().map(NextAddress::New),
                false => Err(Unavailable::Refused(self.refusal())),
            };
        };
        match self.situation.fence() {
            None => Ok(NextAddress::Existing(origin, entry)),
            // A listing is all that is missing.
            Some(until) if self.situation.now >= until => Err(Unavailable::Fenced),
            Some(_) if self.creatable() == 0 || self.room() == 0 => Err(Unavailable::Fenced),
            // A new one is safe: no previous process knows it.
            Some(_) => self.creation_place().map(NextAddress::New).map_err(|_| Unavailable::Fenced),
        }
    }

    /// The first address that no claim has reserved, of the first source that has one within the limit. One that Neutron
    /// refused to mark comes last: no claim waits for it while there is another one.
    fn first_existing(&self) -> Option<(Origin, &'a LedgerEntry)> {
        let first = |may_be_refused: bool| {
            self.existing().find_map(|(source, mut entries)| {
                let entry =
                    entries.find(|entry| (may_be_refused || !self.was_refused(entry)) && !self.is_reserved(entry))?;
                (source.is_counted || self.room() > 0).then_some((source.origin, entry))
            })
        };
        first(false).or_else(|| first(true))
    }

    fn was_refused(&self, entry: &LedgerEntry) -> bool {
        entry.was_refused(&self.situation.pool.id, self.situation.now)
    }

    /// Whether claims without a reservation could get more addresses than this, if so many could be created. No more are
    /// counted than that takes: a pool may have thousands.
    fn has_more_than(&self, count: usize, creatable: usize) -> bool {
        let Some(enough) = count.checked_add(1) else { return false };
        let unreserved = |entry: &&LedgerEntry| !self.is_reserved(entry);
        let owned = match self.surplus() {
            0 => self.owned().filter(unreserved).take(enough).count(),
            _ => self.owned().filter(unreserved).count().min(self.owned_within_limit(0)),
        };
        let Some(left) = enough.checked_sub(owned).filter(|left| *left > 0) else { return true };
        let others = if creatable >= left { 0 } else { self.others().filter(unreserved).take(left).count() };
        others.saturating_add(creatable).min(self.room()) >= left
    }

    /// How many addresses are ready to be given, reserved ones included. Released ones may be deleted instead.
    pub(super) fn free(&self) -> usize {
        self.count_ready(|_| true)
    }

    fn count_ready(&self, is_included: impl Fn(&LedgerEntry) -> bool) -> usize {
        let is_ready = |entry: &&LedgerEntry| self.situation.ownership(entry) == Ownership::Unclaimed;
        let within_limit = self.owned().filter(is_ready).count().saturating_sub(self.surplus());
        let owned = self.owned().filter(is_ready).filter(|entry| is_included(entry)).count();
        let others = self.others().filter(|entry| is_included(entry)).count();
        owned.min(within_limit).saturating_add(others.min(self.lasting_room()))
    }

    /// Why a claim without a reservation that came now would be refused; `None` while there is something to give.
    ///
    /// A creation that would only probe whether Neutron still refuses does not count. What comes and goes within seconds
    /// (a released address before its sweep, a subnet that is full while no claim waits, a spare address that is being
    /// created) does not count either, so that the pool's condition is stable.
    pub fn exhausted(&self) -> Option<Refusal> {
        let is_creatable = self.lasting_room() > 0 && self.may_create_without_probing();
        (self.count_ready(|entry| !self.is_reserved(entry)) == 0 && !is_creatable).then(|| self.refusal())
    }

    /// The limit that keeps a claim without a reservation from having an address.
    fn refusal(&self) -> Refusal {
        let Situation { ledger, pool, .. } = self.situation;
        let has_network = pool.network.is_some();
        match (pool.max_ips, ledger.creation_refusal(&pool.id)) {
            (Some(limit), _) if self.room_without(Ledger::count_attempts) == 0 => Refusal::LimitReached(limit),
            // A higher limit would not help, although unwanted addresses may fill it.
            _ if has_network && ledger.offers_only_unwanted(pool) => Refusal::OnlyUnwanted,
            (_, Some(refusal)) if has_network => refusal.clone(),
            _ if has_network && ledger.lacks_subnet(pool) => ledger.subnets_refusal(pool),
            _ if !has_network && !pool.has_tags => Refusal::NoTags,
            // With what is being created.
            (Some(limit), None) if has_network => Refusal::LimitReached(limit),
            _ => Refusal::ListUsedUp,
        }
    }

    /// How many more addresses `maxIPs` allows.
    pub(super) fn room(&self) -> usize {
        self.room_without(|_, _| 0)
    }

    /// How many more addresses `maxIPs` allows once what is being tried is over. The pool's status would otherwise change
    /// with each attempt, and back.
    fn lasting_room(&self) -> usize {
        self.room_without(Ledger::count_passing)
    }

    fn room_without(&self, count: impl Fn(&Ledger, &PoolPolicy) -> usize) -> usize {
        let Situation { ledger, pool, .. } = self.situation;
        let counted = || self.counted.saturating_sub(count(ledger, pool));
        pool.max_ips.map_or(usize::MAX, |limit| limit.saturating_sub(counted()))
    }

    /// How many addresses the pool has beyond its limit, which was lowered.
    pub(super) fn surplus(&self) -> usize {
        self.situation.pool.max_ips.map_or(0, |limit| self.counted.saturating_sub(limit))
    }

    /// How many of the pool's own free addresses may be given: all but the surplus. Otherwise a pool whose limit was
    /// lowered would never come down to it while claims wait. There are `at_least` so many.
    fn owned_within_limit(&self, at_least: usize) -> usize {
        self.owned().count().max(at_least).saturating_sub(self.surplus())
    }

    /// The addresses that count under the limit already.
    fn owned(&self) -> impl Iterator<Item = &'a LedgerEntry> {
        self.existing().filter(|(source, _)| source.is_counted).flat_map(|(_, entries)| entries)
    }

    /// The addresses that count under the limit only when a claim has them.
    fn others(&self) -> impl Iterator<Item = &'a LedgerEntry> {
        self.existing().filter(|(source, _)| !source.is_counted).flat_map(|(_, entries)| entries)
    }

    fn is_reserved(&self, entry: &LedgerEntry) -> bool {
        self.situation.pool.reserved_for(entry.fip.address).is_some()
    }
}

/// Whether any source, or its reservation, permits that a claim keeps an address that it has marked, as it was read back.
pub(super) fn is_permitted(situation: &Situation<'_>, entry: &LedgerEntry, claim: &str) -> bool {
    situation.pool.reservations.get(claim) == Some(&entry.fip.address)
        || SOURCES.iter().any(|source| (source.permits)(situation, entry))
}
