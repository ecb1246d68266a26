//! Histories from a seed: what users do, which faults occur, and how much time passes in between.
//!
//! Single events rarely meet at the moment that matters, so a history also has [situations](situation): a few events in an
//! order in which they have something to do with each other.

use std::time::Duration;

use crate::history::{Edit, Event, Owners, Restoration, Scenario, Tampering};
use crate::wire::{Fault, Rejection, Side};

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

/// The writes that hang, and what becomes of them: the API server waits 10 s for a webhook by default, and at most 30 s.
pub fn hang(index: u8) -> (&'static str, Fault) {
    let plurals = ["ipaddresses", "ipaddressclaims", "openstackfloatingippools", "secrets"];
    let fault = match index / 4 % 4 {
        0 | 1 => Fault::RefusedLate(Duration::from_secs(10)),
        2 => Fault::Late(Duration::from_secs(11)),
        _ => Fault::Late(Duration::from_secs(29)),
    };
    (plurals[usize::from(index % 4)], fault)
}

pub fn side(index: u8) -> Side {
    if index.is_multiple_of(3) { Side::Kubernetes } else { Side::OpenStack }
}

pub fn generate(seed: u64, scenario: Scenario) -> Vec<Event> {
    let mut random = fastrand::Rng::with_seed(seed ^ 0x5eed);
    let mut events: Vec<Event> = (0..4).map(Event::CreatePool).collect();
    if scenario == Scenario::SharedAddresses {
        share_addresses(&mut random, &mut events);
    }
    let edits = if scenario == Scenario::SharedAddresses { 3 } else { 8 };
    for _ in 0..random.u8(0..edits) {
        events.push(Event::Edit(random.u8(..), first_edit(&mut random)));
    }
    if matches!(scenario, Scenario::Interference | Scenario::AlteredCloud) {
        (0..random.u8(0..5)).for_each(|_| events.push(Event::CreateFloatingIp(random.u8(..))));
    }
    if scenario == Scenario::AlteredCloud && random.bool() {
        events.push(Event::Alter(random.u8(..)));
    }
    for _ in 0..random.usize(4..40) {
        if random.u8(0..3) > 0 {
            events.push(pass(&mut random));
        }
        match (scenario, random.u8(0..24)) {
            (_, 0 | 1) => events.extend(situation(&mut random, scenario)),
            (Scenario::Interference, 2..=7) => events.push(interference(&mut random)),
            (Scenario::Restores, 2 | 3) => events.push(Event::Restore(random.u8(..), restoration(&mut random))),
            (Scenario::AlteredCloud, 2 | 3) => events.push(Event::Alter(random.u8(..))),
            _ => events.push(operation(&mut random)),
        }
    }
    events
}

fn share_addresses(random: &mut fastrand::Rng, events: &mut Vec<Event>) {
    (0..6).for_each(|index| events.push(Event::CreateFloatingIp(index)));
    for pool in 0..4 {
        let mut share = || random.u8(0..4) > 0;
        events.extend((0..4).filter(|_| share()).map(|index| Event::Edit(pool, Edit::List(index))));
        events.push(Event::Edit(pool, Edit::Reuse(random.u8(0..2))));
    }
    events.push(Event::Pass(6100));
}

fn pass(random: &mut fastrand::Rng) -> Event {
    let time = [3, 30, 120, 600, 3500, 7000, 20000];
    Event::Pass(time[random.usize(..time.len())])
}

fn operation(random: &mut fastrand::Rng) -> Event {
    let dice = random.u8(0..48);
    let mut any = || random.u8(..);
    match dice {
        0..=12 => Event::CreateClaim(any()),
        13..=20 => Event::DeleteClaim(any()),
        21 | 22 => Event::DeleteAddress(any()),
        23 | 24 => Event::StartMachine(any()),
        25 => Event::StopMachine(any()),
        26..=33 => Event::Fault(any(), any() % 48, any()),
        34..=36 => Event::Outage(any(), any(), any(), any() % 60),
        37 => Event::Kill(any()),
        38 | 39 => Event::Terminate(any()),
        40 => Event::ExpireWatches(any()),
        41 => Event::CutWatches(any()),
        42 => Event::JumpClock(any(), random.i8(..)),
        43 => Event::Freeze(any(), any() % 100),
        44 | 45 => Event::Hang(any(), any(), 10 + any() % 60),
        46 => Event::Stall(any(), any() % 60, random.bool()),
        _ => Event::ToggleSkipping(any()),
    }
}

fn interference(random: &mut fastrand::Rng) -> Event {
    let dice = random.u8(0..32);
    match dice {
        0..=6 => Event::Tamper(random.u8(..), tampering(random)),
        7..=12 => Event::Edit(random.u8(..), edit(random)),
        13 | 14 => Event::CreateFloatingIp(random.u8(..)),
        15 => Event::ToggleForeignAddress(random.u8(..), random.u8(..)),
        16 | 17 => Event::TogglePause(random.u8(..), random.u8(..)),
        18 | 19 => Event::DeletePool(random.u8(..), random.bool()),
        20 => Event::CreatePool(random.u8(..)),
        21 | 22 => Event::ToggleFinalizer(random.u8(..)),
        23 => Event::ForceDeleteClaim(random.u8(..)),
        24 => Event::WipeId(random.u8(..)),
        25 => Event::ToggleSecret(random.u8(..)),
        26 => Event::Revoke,
        27 => Event::RenewSecret(random.u8(..)),
        28 => Event::MisdirectSecret(random.u8(..), random.bool()),
        29 => Event::RenameNetwork,
        30 => Event::CopyAddress(random.u8(..), random.u8(..)),
        _ => match random.bool() {
            true => Event::EditAnnotation(random.u8(..), random.u8(..)),
            false => Event::ForceDeletePool(random.u8(..)),
        },
    }
}

fn tampering(random: &mut fastrand::Rng) -> Tampering {
    use Tampering::*;
    let all = [
        Attach,
        Attach,
        Attach,
        Detach,
        Detach,
        Delete,
        Tag,
        Describe,
        Wipe,
        Mark,
        Fill,
        Fill,
        Empty,
        MarkForNobody,
        MarkReleased(random.bool()),
        CopyDescription,
        Garble,
    ];
    all[random.usize(..all.len())]
}

/// What a pool has from the beginning.
fn first_edit(random: &mut fastrand::Rng) -> Edit {
    let dice = random.u8(0..13);
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
        10 => Edit::OrphanPolicy,
        11 => Edit::ExcludeRange(any()),
        _ => Edit::Network,
    }
}

fn edit(random: &mut fastrand::Rng) -> Edit {
    let dice = random.u8(0..18);
    let mut any = || random.u8(..);
    match dice {
        0 | 1 => Edit::ReserveHeld(any(), any()),
        2 => Edit::Unreserve(any()),
        3 => Edit::Region,
        4 => Edit::CloudName,
        5 => Edit::MissingSubnet,
        _ => first_edit(random),
    }
}

fn restoration(random: &mut fastrand::Rng) -> Restoration {
    let owners = [Owners::Kept, Owners::Kept, Owners::Dropped, Owners::Moved];
    Restoration {
        order: random.u8(0..6),
        gap: random.u8(0..12),
        owners: owners[random.usize(..owners.len())],
        is_stopped: random.bool(),
    }
}

/// Who takes part in a situation, and when.
struct Cast {
    /// A claim; as a number of a pool, its pool.
    one: u8,
    /// Another claim of its pool.
    other: u8,
    /// A process of its management cluster.
    process: u8,
    /// Up to three seconds.
    moment: Event,
    /// Up to a minute.
    minute: Event,
}

/// A few events that have something to do with each other.
fn situation(random: &mut fastrand::Rng, scenario: Scenario) -> Vec<Event> {
    // Claims of one pool and one management cluster differ by a multiple of 4, whether there are one or two of these.
    let one = random.u8(0..12);
    let cast = Cast {
        one,
        other: one + 4 + 4 * random.u8(0..2),
        process: one % 2 + 2 * random.u8(0..2),
        moment: Event::Pass(random.u16(0..300)),
        minute: Event::Pass(random.u16(0..6000)),
    };
    match random.u8(0..11) {
        dice @ 7.. if scenario == Scenario::Interference => situation_of_users(random, dice, cast),
        dice => situation_of_processes(random, dice % 6, cast),
    }
}

fn situation_of_processes(random: &mut fastrand::Rng, dice: u8, cast: Cast) -> Vec<Event> {
    let Cast { one, other, process, moment, minute } = cast;
    match dice {
        // It ends with a call in doubt.
        0 => {
            let fault = [3, 4, 5][random.usize(..3)];
            vec![Event::Outage(process, 1, fault, 12), Event::CreateClaim(one), moment, Event::Terminate(process)]
        }
        // It stands still and goes on.
        1 => {
            vec![Event::CreateClaim(one), moment, Event::Freeze(process, random.u8(16..90)), Event::DeleteClaim(other)]
        }
        // It dies with a call under way, and its claim goes.
        2 => {
            let fault = Event::Fault(process, random.u8(0..8), 4 + random.u8(0..3));
            vec![Event::CreateClaim(one), fault, moment, Event::DeleteClaim(one)]
        }
        // Its watches show an old state of a claim that is created again.
        3 => {
            let stall = Event::Stall(process, random.u8(5..50), random.bool());
            let skipping = Event::ToggleSkipping(process);
            vec![stall, skipping, Event::DeleteClaim(one), moment, Event::CreateClaim(one), minute]
        }
        // It waits for a webhook.
        4 => {
            let hang = Event::Hang(process, random.u8(..), random.u8(20..90));
            vec![hang, Event::CreateClaim(one), Event::DeleteClaim(other), minute]
        }
        // An address that another claim waits for is released.
        _ => vec![
            Event::CreateClaim(one),
            Event::Pass(1500),
            Event::Edit(one, Edit::ReserveHeld(one, other)),
            moment,
            Event::CreateClaim(other),
            Event::Pass(2500),
            Event::DeleteClaim(one),
            minute,
        ],
    }
}

fn situation_of_users(random: &mut fastrand::Rng, dice: u8, cast: Cast) -> Vec<Event> {
    let Cast { one, process, moment, minute, .. } = cast;
    match dice {
        // A released address is attached before it is deleted.
        7 => {
            let grace = Event::Edit(one, Edit::Grace(random.u8(20..60)));
            vec![grace, Event::DeleteClaim(one), minute, Event::Tamper(random.u8(..), Tampering::Attach)]
        }
        // The credentials of a pool that is being deleted change.
        8 => {
            let change = match random.u8(0..4) {
                0 => Event::MisdirectSecret(one, true),
                1 => Event::MisdirectSecret(one, false),
                _ => Event::Revoke,
            };
            let (deletion, renewal) = (Event::DeletePool(one, random.bool()), Event::RenewSecret(one));
            vec![
                Event::CreateClaim(one),
                Event::Pass(1500),
                deletion,
                moment,
                change,
                minute,
                Event::DeleteClaim(one),
                renewal,
            ]
        }
        // A claim that could not be marked is given up.
        9 => {
            let outage = Event::Outage(process, 1, 3 + random.u8(0..2), 40);
            vec![outage, Event::CreateClaim(one), minute, Event::ForceDeleteClaim(one)]
        }
        // A user takes an address that is about to be reused.
        _ => vec![
            Event::CreateFloatingIp(random.u8(..)),
            Event::Edit(one, Edit::Reuse(1)),
            Event::Pass(7500),
            Event::Tamper(random.u8(..), Tampering::Describe),
            Event::CreateClaim(one),
        ],
    }
}
