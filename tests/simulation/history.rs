//! Histories from a seed: what users do, what goes wrong, and how much time passes in between. One that breaks a law is
//! shrunk to its core.

use std::time::Duration;

use crate::wire::{No, Side, Trouble};
use crate::world::{Start, World};
use crate::{Outcome, live};

/// What a user does to a floating IP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tampering {
    Attach,
    Detach,
    Delete,
    /// A tag of their own.
    Tag,
    Describe,
    /// All that we wrote is wiped.
    Wipe,
    /// The mark of another owner.
    Mark,
}

/// What is changed in a pool's spec.
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
}

/// One thing that happens. Numbers choose among what there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// So many hundredths of a second.
    Pass(u16),
    CreatePool(u8),
    DeletePool(u8),
    Edit(u8, Edit),
    CreateClaim(u8),
    DeleteClaim(u8),
    /// The claim's finalizers are taken by force, and it is deleted.
    ForceClaim(u8),
    /// CAPO's finalizer comes or goes.
    Keep(u8),
    DeleteAddress(u8),
    /// The machine of a bound claim is started.
    Boot(u8),
    /// The machine is gone, and its port with it.
    Stop(u8),
    Tamper(u8, Tampering),
    UserCreates(u8),
    /// Another provider's IPAddress names an address, or no longer does.
    Foreign(u8, u8),
    /// Cluster, pool or claim is paused, or no longer.
    Pause(u8, u8),
    /// The annotation with the pool's id is wiped.
    WipeId(u8),
    /// The credentials go, or come back.
    Secret(u8),
    /// Trouble with the call that comes after so many.
    Trouble(u8, u8, u8),
    /// Trouble with a share of the calls to one side for so many seconds.
    Weather(u8, u8, u8, u8),
    Kill(u8),
    /// The API server has forgotten its history; or cuts watches off.
    Forget(u8),
    Cut(u8),
    /// The clock of a process jumps, and is off by so many seconds from now on.
    Skew(u8, i8),
}

/// What a history is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cast {
    /// Claims come and go, and everything goes wrong that can.
    Trouble,
    /// Users interfere too.
    People,
    /// Every pool of every management cluster lists the same addresses and reuses the same floating IPs.
    Rivals,
}

/// Twenty kinds of trouble.
pub fn trouble(index: u8) -> Trouble {
    let seconds = Duration::from_secs;
    match index % 20 {
        0 | 1 => Trouble::DieBefore,
        2 | 3 => Trouble::DieAfter,
        4 => Trouble::DieAndLand(seconds(1)),
        5 => Trouble::DieAndLand(seconds(8)),
        6 => Trouble::DieAndLand(seconds(29)),
        7 | 8 => Trouble::ReplyLost,
        9 => Trouble::RequestLost,
        10 => Trouble::Refused(No::Server),
        11 => Trouble::Refused(No::TooMany),
        12 => Trouble::Refused(No::Conflict),
        13 => Trouble::Twice,
        14 | 15 => Trouble::Late(seconds(7)),
        16 | 17 => Trouble::Late(seconds(45)),
        18 => Trouble::CutOff(seconds(14)),
        _ => Trouble::CutOff(seconds(28)),
    }
}

/// Trouble that lasts does not kill: a process that dies at each call does nothing at all.
pub fn weather(index: u8) -> Trouble {
    match index % 6 {
        0 => Trouble::Refused(No::Server),
        1 => Trouble::Refused(No::TooMany),
        2 => Trouble::Refused(No::Unreachable),
        3 => Trouble::ReplyLost,
        4 => Trouble::RequestLost,
        _ => Trouble::Late(Duration::from_secs(3)),
    }
}

pub fn side(index: u8) -> Side {
    if index.is_multiple_of(3) { Side::Kubernetes } else { Side::OpenStack }
}

/// A history of a seed.
pub fn history(seed: u64, cast: Cast) -> Vec<Event> {
    let mut chance = fastrand::Rng::with_seed(seed ^ 0x5eed);
    let mut events: Vec<Event> = (0..4).map(Event::CreatePool).collect();
    if cast == Cast::Rivals {
        (0..6).for_each(|index| events.push(Event::UserCreates(index)));
        for pool in 0..4 {
            let mut share = || chance.u8(0..4) > 0;
            events.extend((0..4).filter(|_| share()).map(|index| Event::Edit(pool, Edit::List(index))));
            events.push(Event::Edit(pool, Edit::Reuse(chance.u8(0..2))));
        }
        events.push(Event::Pass(6100));
    }
    let edits = if cast == Cast::Rivals { 3 } else { 8 };
    for _ in 0..chance.u8(0..edits) {
        events.push(Event::Edit(chance.u8(..), edit(&mut chance)));
    }
    if cast == Cast::People {
        (0..chance.u8(0..5)).for_each(|_| events.push(Event::UserCreates(chance.u8(..))));
    }
    for _ in 0..chance.usize(4..40) {
        if chance.u8(0..3) > 0 {
            let time = [3, 30, 120, 600, 3500, 7000, 20000];
            events.push(Event::Pass(time[chance.usize(..time.len())]));
        }
        events.push(if cast == Cast::People && chance.u8(0..4) == 0 { people(&mut chance) } else { work(&mut chance) });
    }
    events
}

fn work(chance: &mut fastrand::Rng) -> Event {
    let dice = chance.u8(0..40);
    let mut any = || chance.u8(..);
    match dice {
        0..=11 => Event::CreateClaim(any()),
        12..=18 => Event::DeleteClaim(any()),
        19 | 20 => Event::DeleteAddress(any()),
        21 | 22 => Event::Boot(any()),
        23 => Event::Stop(any()),
        24..=31 => Event::Trouble(any(), any() % 48, any()),
        32..=34 => Event::Weather(any(), any(), any(), any() % 60),
        35 | 36 => Event::Kill(any()),
        37 => Event::Forget(any()),
        38 => Event::Cut(any()),
        _ => Event::Skew(any(), chance.i8(..)),
    }
}

fn people(chance: &mut fastrand::Rng) -> Event {
    let dice = chance.u8(0..24);
    match dice {
        0..=5 => Event::Tamper(chance.u8(..), tampering(chance)),
        6..=10 => Event::Edit(chance.u8(..), edit(chance)),
        11 | 12 => Event::UserCreates(chance.u8(..)),
        13 => Event::Foreign(chance.u8(..), chance.u8(..)),
        14 | 15 => Event::Pause(chance.u8(..), chance.u8(..)),
        16 | 17 => Event::DeletePool(chance.u8(..)),
        18 => Event::CreatePool(chance.u8(..)),
        19 | 20 => Event::Keep(chance.u8(..)),
        21 => Event::ForceClaim(chance.u8(..)),
        22 => Event::WipeId(chance.u8(..)),
        _ => Event::Secret(chance.u8(..)),
    }
}

fn tampering(chance: &mut fastrand::Rng) -> Tampering {
    use Tampering::{Attach, Delete, Describe, Detach, Mark, Tag, Wipe};
    let all = [Attach, Attach, Detach, Detach, Delete, Tag, Describe, Wipe, Mark];
    all[chance.usize(..all.len())]
}

fn edit(chance: &mut fastrand::Rng) -> Edit {
    let dice = chance.u8(0..9);
    let mut any = || chance.u8(..);
    match dice {
        0 => Edit::Limit(any()),
        1 => Edit::List(any()),
        2 => Edit::Exclude(any()),
        3 => Edit::Reserve(any(), any()),
        4 => Edit::Preallocate(any()),
        5 => Edit::Retain,
        6 => Edit::Reuse(any()),
        7 => Edit::Grace(any()),
        _ => Edit::Network,
    }
}

/// Lives through a history.
pub fn lived(start: &Start, events: &[Event]) -> Outcome {
    live(start, async |world: &World| {
        for event in events {
            world.happen(*event).await;
            if world.is_broken() {
                return;
            }
        }
    })
}

/// The part of a broken history without which it would not be broken: pieces are left out, larger ones first, as long as
/// some law is still broken.
pub fn shrunk(start: &Start, events: &[Event]) -> Vec<Event> {
    let mut core = events.to_vec();
    let (mut piece, mut tries) = (core.len().div_ceil(2), 0);
    while piece > 0 && tries < TRIES {
        let (mut at, before) = (0, core.len());
        while at < core.len() {
            let mut rest = core.clone();
            rest.drain(at..(at + piece).min(core.len()));
            tries += 1;
            if lived(start, &rest).broken.is_empty() { at += piece } else { core = rest }
        }
        // Once more with pieces of one, as long as that helps.
        piece = if piece == 1 && core.len() < before { 1 } else { piece / 2 };
    }
    core
}

/// More than a history needs to be shrunk to what can be read.
const TRIES: usize = 200;
