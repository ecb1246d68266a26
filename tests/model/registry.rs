//! Identifies owners by small numbers. Two owners that the product cannot distinguish are one, and each transition is
//! computed only once, by the product's code. So a state takes a few bytes, and millions of them can be explored.
//!
//! The product never uses the value of a step, only the order of two, and never a time, only whether a limit has
//! passed. So a key contains orders and ages, and an age beyond every limit is one age.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use caip_openstack::allocation::ClaimKey;
use caip_openstack::allocation::ledger::{Hold, LedgerEntry, SETTLING, Viewer, YIELDS_FOR};
use jiff::Timestamp;

use crate::events::{Claim, Event, Lifecycle, Operation, OperationKind, Spec};
use crate::neutron::{CLAIMS, Call, ListedFip, Seat, claim_key, fip_index};
use crate::owner::{Owner, TIMEOUT};

pub type Id = u32;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Holder {
    Claim(usize),
    Sweep,
}

#[derive(PartialEq, Eq, Hash)]
struct EntryKey {
    fip: ListedFip,
    /// It was read since our last write.
    is_confirmed: bool,
    /// The listing in progress may still change it.
    may_change: bool,
    hold: Option<Holder>,
    uncertain_writes: BTreeSet<(Option<Holder>, i64)>,
    /// Each with whether it counts for no claim.
    disowned: Vec<(usize, bool)>,
    orphaned: Option<(i64, bool)>,
    yielded: Option<i64>,
}

/// All that an owner's future depends on: owners with equal keys are one.
#[derive(PartialEq, Eq, Hash)]
struct OwnerKey {
    seat: Seat,
    entries: Vec<Option<EntryKey>>,
    has_listed: bool,
    fence: Option<i64>,
    waiting: usize,
    claims: [Claim; CLAIMS],
    operations: Vec<(usize, Operation)>,
    listing_age: Option<i64>,
    must_list: bool,
}

/// What the world and the laws read from an owner.
#[derive(PartialEq, Eq, Debug)]
pub struct View {
    pub claims: [Claim; CLAIMS],
    /// The call in progress for each claim and each floating IP.
    pub calls: Vec<(usize, OperationKind, Call)>,
    pub known_fips: Vec<Option<ListedFip>>,
    pub must_list: bool,
    /// The next audit settles an uncertain write or ends the fence.
    pub is_audit_due: bool,
    /// How many timeouts ago the listing in progress began.
    pub listing_age: Option<i64>,
}

struct OwnerRecord {
    owner: Owner,
    view: Arc<View>,
    transitions: HashMap<Event, (Id, Option<(usize, u8)>)>,
}

pub struct Registry {
    fips: usize,
    records: Vec<OwnerRecord>,
    ids: HashMap<OwnerKey, Id>,
}

impl Registry {
    /// A registry, and the initial owner of each seat.
    pub fn new(fips: usize, spec: Spec, seats: &[Seat]) -> (Self, Vec<Id>) {
        let mut registry = Self { fips, records: vec![], ids: HashMap::new() };
        let first = seats.iter().map(|seat| registry.intern(Owner::new(spec, *seat))).collect();
        (registry, first)
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn view(&self, id: Id) -> Arc<View> {
        self.records[id as usize].view.clone()
    }

    /// The owner after the event, and the claim and floating IP that it published, if any.
    pub fn apply_event(&mut self, id: Id, event: Event) -> (Id, Option<(usize, u8)>) {
        if let Some(known) = self.records[id as usize].transitions.get(&event) {
            return *known;
        }
        let mut owner = self.records[id as usize].owner.clone();
        owner.apply_event(&event);
        let just_published = owner.just_published;
        let next = self.intern(owner);
        self.records[id as usize].transitions.insert(event, (next, just_published));
        (next, just_published)
    }

    fn intern(&mut self, owner: Owner) -> Id {
        let key = owner_key(&owner, self.fips);
        let next = self.records.len() as Id;
        let id = *self.ids.entry(key).or_insert(next);
        if id == next {
            let view = Arc::new(build_view(&owner, self.fips));
            self.records.push(OwnerRecord { owner, view, transitions: HashMap::new() });
        }
        id
    }
}

/// How many timeouts ago, where more than `limit` makes no difference.
fn age(now: Timestamp, then: Timestamp, limit: i64) -> i64 {
    (now.duration_since(then).as_secs() / TIMEOUT.as_secs()).min(limit)
}

fn owner_key(owner: &Owner, fips: usize) -> OwnerKey {
    // A listing in progress compares times with its beginning, so greater ages still make a difference.
    let lag = listing_age(owner).unwrap_or(0);
    let fence = owner.ledger.fence(&owner.policy);
    // A single claim has no other to wait for.
    let waiting = owner.queue.iter().map(|place| 1 << place.since.as_second());
    let mut entries: Vec<_> = (0..fips).map(|_| None).collect();
    for entry in owner.ledger.entries() {
        entries[fip_index(&entry.fip.id)] = Some(entry_key(owner, entry));
    }
    OwnerKey {
        seat: owner.seat,
        entries,
        has_listed: !owner.ledger.is_unlisted(Viewer::default()),
        fence: fence.map(|until| age(owner.now, until - TIMEOUT, lag + 1)),
        waiting: if owner.spec.claims > 1 { waiting.sum() } else { 0 },
        claims: owner.claims,
        operations: owner.operations.iter().map(|(slot, operation)| (*slot, operation.clone())).collect(),
        listing_age: listing_age(owner),
        must_list: owner.must_list,
    }
}

fn listing_age(owner: &Owner) -> Option<i64> {
    owner.listing_began.map(|began| age(owner.now, began.at, 2))
}

fn entry_key(owner: &Owner, entry: &LedgerEntry) -> EntryKey {
    let lag = listing_age(owner).unwrap_or(0);
    let orphaned = entry.orphaned_since.get(&owner.policy.id).map(|&since| {
        let is_seen_again =
            owner.ledger.listing_began(Viewer::default()).is_some_and(|from| from.at >= since + TIMEOUT);
        (age(owner.now, since, if is_seen_again { 0 } else { lag + 1 }), is_seen_again)
    });
    EntryKey {
        fip: ListedFip::from_product(&entry.fip, owner.seat),
        is_confirmed: entry.is_confirmed(),
        may_change: owner.listing_began.is_some_and(|began| entry.is_older_than(began)),
        hold: entry.hold.as_ref().map(holder),
        uncertain_writes: entry
            .uncertain_writes
            .iter()
            .map(|write| (write.by.as_ref().map(holder), age(owner.now, write.since, lag + 2)))
            .collect(),
        disowned: entry
            .disowned
            .iter()
            .filter(|((pool, _), _)| *pool == owner.policy.id)
            .map(|((_, claim), why)| (claim_index(claim), why.is_certain(owner.policy.fenced_until)))
            .collect(),
        orphaned,
        yielded: entry
            .yielded_until
            .filter(|until| owner.now < *until)
            .map(|until| age(owner.now, until - YIELDS_FOR, i64::MAX)),
    }
}

fn claim_index(claim: &ClaimKey) -> usize {
    (0..CLAIMS).find(|index| claim_key(*index) == *claim).expect("one of the model's")
}

fn holder(hold: &Hold) -> Holder {
    match hold {
        Hold::Claim { claim, .. } => Holder::Claim(claim_index(claim)),
        Hold::Cleanup => Holder::Sweep,
        Hold::Unwanted => panic!("the model creates no floating IPs"),
    }
}

fn build_view(owner: &Owner, fips: usize) -> View {
    let mut known_fips = vec![None; fips];
    for entry in owner.ledger.entries() {
        known_fips[fip_index(&entry.fip.id)] = Some(ListedFip::from_product(&entry.fip, owner.seat));
    }
    View {
        claims: owner.claims,
        calls: owner.operations.iter().map(|(slot, operation)| (*slot, operation.kind, operation.calls[0])).collect(),
        known_fips,
        must_list: owner.must_list,
        is_audit_due: owner.ledger.fence(&owner.policy).is_some_and(|until| owner.now >= until)
            || owner.ledger.entries().any(|entry| {
                entry.uncertain_writes.iter().any(|write| owner.now.duration_since(write.since) >= SETTLING)
            }),
        listing_age: listing_age(owner),
    }
}

impl View {
    /// What the owner's controllers may do next.
    pub fn own_events(&self) -> impl Iterator<Item = Event> {
        let is_idle = |slot: usize| !self.calls.iter().any(|(busy, ..)| *busy == slot);
        let claims =
            (0..CLAIMS).filter(move |claim| self.claims[*claim].lifecycle != Lifecycle::Absent && is_idle(*claim));
        claims.map(Event::Serve).chain([Event::Sweep])
    }

    pub fn call(&self, slot: usize) -> (OperationKind, Call) {
        let (_, kind, call) = self.calls.iter().find(|(busy, ..)| *busy == slot).expect("a call is in progress");
        (*kind, *call)
    }
}
