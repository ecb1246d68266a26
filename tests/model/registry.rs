//! Owners as small numbers. Two owners that the core cannot tell apart are one; what happens to one is worked out once, by
//! the product's code, and remembered: so a state of the whole world is a few bytes, and millions of them can be looked at.
//!
//! The core never asks for the value of a step, only which of two came first, and never for a time, only whether a bound
//! has passed. So an entry is: what is on it, whether it was seen since our last write, whether the listing under way
//! may still change it, its hold, its doubts and its orphanhood by age. An age beyond every bound is one age.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use caip_openstack::allocation::ClaimKey;
use caip_openstack::allocation::ledger::{Hold, LedgerEntry, SETTLING};
use jiff::Timestamp;

use crate::events::{Claim, Event, Job, Life, Spec, Work};
use crate::neutron::{CLAIMS, Call, Seen, fip_index, key};
use crate::owner::{Owner, TIMEOUT};

/// An owner, by number.
pub type Id = u32;

/// Who is at work: a claim, or the sweep.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Holder {
    Claim(usize),
    Sweep,
}

#[derive(PartialEq, Eq, Hash)]
struct Known {
    seen: Seen,
    is_confirmed: bool,
    is_open: bool,
    hold: Option<Holder>,
    doubts: BTreeSet<(Option<Holder>, i64)>,
    disowned: usize,
    orphaned: Option<(i64, bool)>,
}

/// All that an owner's future depends on.
#[derive(PartialEq, Eq, Hash)]
struct Whole {
    known: Vec<Option<Known>>,
    has_listed: bool,
    fence: Option<i64>,
    waiting: usize,
    claims: [Claim; CLAIMS],
    jobs: Vec<(usize, Job)>,
    look: Option<i64>,
    must_look: bool,
}

/// What the world and the laws need to know of an owner.
#[derive(PartialEq, Eq, Debug)]
pub struct View {
    pub claims: [Claim; CLAIMS],
    /// The call under way for each claim and each floating IP.
    pub calls: Vec<(usize, Work, Call)>,
    pub knows: Vec<Option<Seen>>,
    pub must_look: bool,
    /// The next audit settles a doubt, or ends the fence.
    pub is_due: bool,
    /// How many timeouts ago the listing under way began.
    pub look: Option<i64>,
}

struct Kept {
    owner: Owner,
    view: Arc<View>,
    moves: HashMap<Event, (Id, Option<(usize, u8)>)>,
}

/// Every owner that was ever seen.
pub struct Registry {
    fips: usize,
    kept: Vec<Kept>,
    ids: HashMap<Whole, Id>,
    /// How often the core was asked.
    pub asked: usize,
}

impl Registry {
    /// A registry, and the owner of the beginning.
    pub fn new(fips: usize, spec: Spec) -> (Self, Id) {
        let mut registry = Self { fips, kept: vec![], ids: HashMap::new(), asked: 0 };
        let first = registry.keep(Owner::new(spec));
        (registry, first)
    }

    pub fn len(&self) -> usize {
        self.kept.len()
    }

    pub fn view(&self, id: Id) -> Arc<View> {
        self.kept[id as usize].view.clone()
    }

    /// What becomes of an owner, and what it publishes thereby.
    pub fn happen(&mut self, id: Id, event: Event) -> (Id, Option<(usize, u8)>) {
        if let Some(known) = self.kept[id as usize].moves.get(&event) {
            return *known;
        }
        self.asked += 1;
        let mut owner = self.kept[id as usize].owner.clone();
        owner.happen(&event);
        let gave = owner.gave;
        let next = self.keep(owner);
        self.kept[id as usize].moves.insert(event, (next, gave));
        (next, gave)
    }

    fn keep(&mut self, owner: Owner) -> Id {
        let whole = whole(&owner, self.fips);
        let next = self.kept.len() as Id;
        let id = *self.ids.entry(whole).or_insert(next);
        if id == next {
            let view = Arc::new(view(&owner, self.fips));
            self.kept.push(Kept { owner, view, moves: HashMap::new() });
        }
        id
    }
}

/// How many timeouts ago, where more than `most` makes no difference.
fn age(now: Timestamp, then: Timestamp, most: i64) -> i64 {
    (now.duration_since(then).as_secs() / TIMEOUT.as_secs()).min(most)
}

fn whole(owner: &Owner, fips: usize) -> Whole {
    let looking = looking(owner);
    let fence = owner.ledger.fence(&owner.policy);
    // A claim that is alone stands behind nobody.
    let waiting = owner.waiting.iter().map(|place| 1 << place.since.as_second());
    let mut known: Vec<Option<Known>> = (0..fips).map(|_| None).collect();
    for entry in owner.ledger.entries() {
        known[fip_index(&entry.fip.id)] = Some(entry_of(owner, entry));
    }
    Whole {
        known,
        has_listed: owner.ledger.listed().is_some(),
        fence: fence.map(|until| age(owner.now, until - TIMEOUT, looking + 1)),
        waiting: if owner.spec.claims > 1 { waiting.sum() } else { 0 },
        claims: owner.claims,
        jobs: owner.jobs.iter().map(|(slot, job)| (*slot, job.clone())).collect(),
        look: owner.look.map(|began| age(owner.now, began.at, 2)),
        must_look: owner.must_look,
    }
}

/// The age of the listing under way: what it makes of an age, one that begins now makes of a lesser one.
fn looking(owner: &Owner) -> i64 {
    owner.look.map_or(0, |began| age(owner.now, began.at, 2))
}

fn entry_of(owner: &Owner, entry: &LedgerEntry) -> Known {
    let orphaned = entry.orphaned_since.get(&owner.policy.id).map(|&since| {
        let is_seen_again = owner.ledger.listed_from().is_some_and(|from| from >= since + TIMEOUT);
        (age(owner.now, since, if is_seen_again { 0 } else { looking(owner) + 1 }), is_seen_again)
    });
    Known {
        seen: Seen::read(&entry.fip),
        is_confirmed: entry.is_confirmed(),
        is_open: owner.look.is_some_and(|began| entry.is_older_than(began)),
        hold: entry.hold.as_ref().map(holder),
        doubts: entry
            .uncertain_writes
            .iter()
            .map(|write| (write.by.as_ref().map(holder), age(owner.now, write.since, looking(owner) + 2)))
            .collect(),
        disowned: entry
            .disowned
            .iter()
            .filter(|(pool, _)| *pool == owner.policy.id)
            .map(|(_, claim)| 1 << claim_index(claim))
            .sum(),
        orphaned,
    }
}

fn claim_index(claim: &ClaimKey) -> usize {
    (0..CLAIMS).find(|index| key(*index) == *claim).expect("one of the model's")
}

fn holder(hold: &Hold) -> Holder {
    match hold {
        Hold::Claim { claim, .. } => Holder::Claim(claim_index(claim)),
        Hold::GivingBack => Holder::Sweep,
        Hold::Unwanted => panic!("nothing is created here"),
    }
}

fn view(owner: &Owner, fips: usize) -> View {
    let mut knows = vec![None; fips];
    for entry in owner.ledger.entries() {
        knows[fip_index(&entry.fip.id)] = Some(Seen::read(&entry.fip));
    }
    View {
        claims: owner.claims,
        calls: owner.jobs.iter().map(|(slot, job)| (*slot, job.work, job.calls[0])).collect(),
        knows,
        must_look: owner.must_look,
        is_due: owner.ledger.fence(&owner.policy).is_some_and(|until| owner.now >= until)
            || owner
                .ledger
                .entries()
                .any(|entry| entry.uncertain_writes.iter().any(|it| owner.now.duration_since(it.since) >= SETTLING)),
        look: owner.look.map(|began| age(owner.now, began.at, 2)),
    }
}

impl View {
    /// What may happen to the owner by itself.
    pub fn own_events(&self) -> impl Iterator<Item = Event> {
        let is_idle = |slot: usize| !self.calls.iter().any(|(busy, ..)| *busy == slot);
        let living = (0..CLAIMS).filter(move |claim| self.claims[*claim].life != Life::Absent && is_idle(*claim));
        living.map(Event::Serve).chain([Event::Sweep])
    }

    pub fn call(&self, slot: usize) -> (Work, Call) {
        let (_, work, call) = self.calls.iter().find(|(busy, ..)| *busy == slot).expect("a call is under way");
        (*work, *call)
    }
}
