//! Histories from a seed: what users do, which faults occur, and how much time passes in between. A history that breaks a
//! law is shrunk.

use std::time::Duration;

use crate::wire::{Fault, Rejection, Side};
use crate::world::{Start, World};
use crate::{Outcome, simulate};

/// What a user does to a floating IP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tampering {
    Attach,
    Detach,
    Delete,
    /// Adds a tag that is no mark.
    Tag,
    Describe,
    /// Removes the tags and the description, marks included.
    Wipe,
    /// Adds the mark of another owner.
    Mark,
}

/// What a user changes in a pool's spec.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edit {
    Limit(u8),
    List(u8),
    Exclude(u8),
    Reserve(u8, u8),
    Preallocate(u8),
    Retain,
    Reuse(u8),
    Grace(u8),
    Network,
    Subnets,
    OrphanGrace(u8),
}

/// One thing that happens. Numbers choose among what is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// So many hundredths of a second pass.
    Pass(u16),
    CreatePool(u8),
    /// Whether in the foreground.
    DeletePool(u8, bool),
    Edit(u8, Edit),
    CreateClaim(u8),
    DeleteClaim(u8),
    /// A claim is deleted and its finalizers are removed by hand.
    ForceDeleteClaim(u8),
    /// CAPO adds its finalizer to a claim, or removes it.
    ToggleFinalizer(u8),
    DeleteAddress(u8),
    /// The machine of a bound claim starts.
    StartMachine(u8),
    /// The machine is deleted, and its port with it.
    StopMachine(u8),
    Tamper(u8, Tampering),
    CreateFloatingIp(u8),
    /// Another provider's IPAddress names an address, or no longer does.
    ToggleForeignAddress(u8, u8),
    /// A Cluster, pool or claim is paused, or no longer.
    TogglePause(u8, u8),
    /// The annotation with the pool's id is removed.
    WipeId(u8),
    /// The Secret with the credentials is deleted, or created again.
    ToggleSecret(u8),
    /// A fault at one of the calls to come.
    Fault(u8, u8, u8),
    /// Faults at a share of the calls to one side, for so many seconds.
    Outage(u8, u8, u8, u8),
    Kill(u8),
    /// A process gets a SIGTERM.
    Terminate(u8),
    /// The API server forgets its history, so that every watch must list again.
    ExpireWatches(u8),
    CutWatches(u8),
    /// The clock of a process is off by so many seconds from now on.
    JumpClock(u8, i8),
}

/// Which events a history is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scenario {
    /// Claims come and go, with every kind of fault.
    Faults,
    /// Users interfere too.
    Interference,
    /// Every pool of every management cluster lists the same addresses and reuses the same floating IPs.
    SharedAddresses,
}

pub fn call_fault(index: u8) -> Fault {
    let seconds = Duration::from_secs;
    match index % 20 {
        0 | 1 => Fault::CrashBefore,
        2 | 3 => Fault::CrashAfter,
        4 => Fault::CrashAndLand(seconds(1)),
        5 => Fault::CrashAndLand(seconds(8)),
        6 => Fault::CrashAndLand(seconds(29)),
        7 | 8 => Fault::ReplyLost,
        9 => Fault::RequestLost,
        10 => Fault::Refused(Rejection::Server),
        11 => Fault::Refused(Rejection::TooMany),
        12 => Fault::Refused(Rejection::Conflict),
        13 => Fault::Twice,
        14 | 15 => Fault::Late(seconds(7)),
        16 | 17 => Fault::Late(seconds(45)),
        18 => Fault::CutOff(seconds(14)),
        _ => Fault::CutOff(seconds(28)),
    }
}

/// An outage kills no process: one that dies at each call would do nothing at all.
pub fn outage_fault(index: u8) -> Fault {
    match index % 6 {
        0 => Fault::Refused(Rejection::Server),
        1 => Fault::Refused(Rejection::TooMany),
        2 => Fault::Refused(Rejection::Unreachable),
        3 => Fault::ReplyLost,
        4 => Fault::RequestLost,
        _ => Fault::Late(Duration::from_secs(3)),
    }
}

pub fn side(index: u8) -> Side {
    if index.is_multiple_of(3) { Side::Kubernetes } else { Side::OpenStack }
}

pub fn generate(seed: u64, scenario: Scenario) -> Vec<Event> {
    let mut random = fastrand::Rng::with_seed(seed ^ 0x5eed);
    let mut events: Vec<Event> = (0..4).map(Event::CreatePool).collect();
    if scenario == Scenario::SharedAddresses {
        (0..6).for_each(|index| events.push(Event::CreateFloatingIp(index)));
        for pool in 0..4 {
            let mut share = || random.u8(0..4) > 0;
            events.extend((0..4).filter(|_| share()).map(|index| Event::Edit(pool, Edit::List(index))));
            events.push(Event::Edit(pool, Edit::Reuse(random.u8(0..2))));
        }
        events.push(Event::Pass(6100));
    }
    let edits = if scenario == Scenario::SharedAddresses { 3 } else { 8 };
    for _ in 0..random.u8(0..edits) {
        events.push(Event::Edit(random.u8(..), edit(&mut random)));
    }
    if scenario == Scenario::Interference {
        (0..random.u8(0..5)).for_each(|_| events.push(Event::CreateFloatingIp(random.u8(..))));
    }
    for _ in 0..random.usize(4..40) {
        if random.u8(0..3) > 0 {
            let time = [3, 30, 120, 600, 3500, 7000, 20000];
            events.push(Event::Pass(time[random.usize(..time.len())]));
        }
        events.push(if scenario == Scenario::Interference && random.u8(0..4) == 0 {
            interference(&mut random)
        } else {
            operation(&mut random)
        });
    }
    events
}

fn operation(random: &mut fastrand::Rng) -> Event {
    let dice = random.u8(0..40);
    let mut any = || random.u8(..);
    match dice {
        0..=11 => Event::CreateClaim(any()),
        12..=18 => Event::DeleteClaim(any()),
        19 | 20 => Event::DeleteAddress(any()),
        21 | 22 => Event::StartMachine(any()),
        23 => Event::StopMachine(any()),
        24..=31 => Event::Fault(any(), any() % 48, any()),
        32..=34 => Event::Outage(any(), any(), any(), any() % 60),
        35 => Event::Kill(any()),
        36 => Event::Terminate(any()),
        37 => Event::ExpireWatches(any()),
        38 => Event::CutWatches(any()),
        _ => Event::JumpClock(any(), random.i8(..)),
    }
}

fn interference(random: &mut fastrand::Rng) -> Event {
    let dice = random.u8(0..24);
    match dice {
        0..=5 => Event::Tamper(random.u8(..), tampering(random)),
        6..=10 => Event::Edit(random.u8(..), edit(random)),
        11 | 12 => Event::CreateFloatingIp(random.u8(..)),
        13 => Event::ToggleForeignAddress(random.u8(..), random.u8(..)),
        14 | 15 => Event::TogglePause(random.u8(..), random.u8(..)),
        16 | 17 => Event::DeletePool(random.u8(..), random.bool()),
        18 => Event::CreatePool(random.u8(..)),
        19 | 20 => Event::ToggleFinalizer(random.u8(..)),
        21 => Event::ForceDeleteClaim(random.u8(..)),
        22 => Event::WipeId(random.u8(..)),
        _ => Event::ToggleSecret(random.u8(..)),
    }
}

fn tampering(random: &mut fastrand::Rng) -> Tampering {
    use Tampering::{Attach, Delete, Describe, Detach, Mark, Tag, Wipe};
    let all = [Attach, Attach, Detach, Detach, Delete, Tag, Describe, Wipe, Mark];
    all[random.usize(..all.len())]
}

fn edit(random: &mut fastrand::Rng) -> Edit {
    let dice = random.u8(0..11);
    let mut any = || random.u8(..);
    match dice {
        0 => Edit::Limit(any()),
        1 => Edit::List(any()),
        2 => Edit::Exclude(any()),
        3 => Edit::Reserve(any(), any()),
        4 => Edit::Preallocate(any()),
        5 => Edit::Retain,
        6 => Edit::Reuse(any()),
        7 => Edit::Grace(any()),
        8 => Edit::Subnets,
        9 => Edit::OrphanGrace(any()),
        _ => Edit::Network,
    }
}

/// Runs a history until it ends or breaks a law.
pub fn replay(start: &Start, events: &[Event]) -> Outcome {
    simulate(start, async |world: &World| {
        for event in events {
            world.apply(*event).await;
            if world.has_violations() {
                return;
            }
        }
    })
}

/// The shortest part that was found of a history that breaks a law, and still breaks one: pieces are left out, larger ones
/// first.
pub fn shrink(start: &Start, events: &[Event]) -> Vec<Event> {
    let mut core = events.to_vec();
    let (mut piece, mut tries) = (core.len().div_ceil(2), 0);
    while piece > 0 && tries < TRIES {
        let (mut at, before) = (0, core.len());
        while at < core.len() {
            let mut rest = core.clone();
            rest.drain(at..(at + piece).min(core.len()));
            tries += 1;
            if replay(start, &rest).violations.is_empty() { at += piece } else { core = rest }
        }
        // Once more with pieces of one, as long as that helps.
        piece = if piece == 1 && core.len() < before { 1 } else { piece / 2 };
    }
    core
}

/// More than a history needs to be shrunk to a readable length.
const TRIES: usize = 200;
