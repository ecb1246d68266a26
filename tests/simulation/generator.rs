//! Histories from a seed: what users do, which faults occur, and how much time passes in between.
//!
//! Single events rarely meet at the moment that matters, so a history also has [situations](crate::situations). Every other
//! one has only these, each with a pool of its own that was made for it, and little else.

use std::time::Duration;

use crate::history::{Edit, Event, Owners, Restoration, Scenario, Tampering};
use crate::situations::situation;
use crate::wire::{Fault, Rejection, Side};

pub fn call_fault(index: u8) -> Fault {
    let seconds = Duration::from_secs;
    match index % 20 {
        0 | 1 => Fault::CrashBefore,
        2 | 3 => Fault::CrashAfter,
        4 => Fault::CrashAndLand(seconds(1)),
        5 => Fault::CrashAndLand(seconds(8)),
        6 => Fault::CrashAndLand(seconds(29)),
        7 => Fault::Panic,
        8 => Fault::ReplyLost,
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
    match index % OUTAGES {
        0 => Fault::Refused(Rejection::Server),
        1 => Fault::Refused(Rejection::TooMany),
        2 => Fault::Refused(Rejection::Unreachable),
        REPLY_LOST => Fault::ReplyLost,
        REQUEST_LOST => Fault::RequestLost,
        5 => Fault::Late(Duration::from_secs(3)),
        _ => Fault::Late(Duration::from_secs(45)),
    }
}

const OUTAGES: u8 = 7;
pub const REPLY_LOST: u8 = 3;
pub const REQUEST_LOST: u8 = 4;
/// Later than a caller waits.
pub const LATE: u8 = 6;

/// In how many of eight calls an outage of this number has its fault.
pub fn outage_share(index: u8) -> u8 {
    1 + index % 8
}

/// The number of an outage that has the fault in every call.
pub fn complete_outage(fault: u8) -> u8 {
    let is_it = |index: &u8| index % OUTAGES == fault && outage_share(*index) == 8;
    (0..).find(is_it).expect("the two numbers have no common divisor")
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
    let mut events = generate_without_ids(seed, scenario);
    give_ids(&mut fastrand::Rng::with_seed(seed ^ 0x1d), &mut events);
    events
}

/// Some pools have their id from the spec. One that is created again has it from there again, as from the same manifest, or
/// now and then not.
fn give_ids(random: &mut fastrand::Rng, events: &mut [Event]) {
    // By the parity of a pool's number: of one management cluster, that is one of its pools; of two, all pools of one.
    let has_id: [bool; 2] = std::array::from_fn(|_| random.u8(0..3) == 0);
    for event in events {
        if let Event::CreatePool(pool) = *event {
            let is_the_same = random.u8(0..8) > 0;
            if has_id[usize::from(pool % 2)] == is_the_same {
                *event = Event::CreatePoolWithId(pool);
            }
        }
    }
}

fn generate_without_ids(seed: u64, scenario: Scenario) -> Vec<Event> {
    let mut random = fastrand::Rng::with_seed(seed ^ 0x5eed);
    let mut events: Vec<Event> = (0..4).map(Event::CreatePool).collect();
    let has_one_cause = matches!(scenario, Scenario::Faults | Scenario::Interference | Scenario::Restores);
    if has_one_cause && random.bool() {
        events.extend(situations_alone(&mut random, scenario));
        return events;
    }
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
    if random.u8(0..6) == 0 {
        events.push(Event::LimitQuota(random.u8(..)));
    }
    if scenario == Scenario::AlteredCloud && random.bool() {
        events.push(Event::Alter(random.u8(..)));
    }
    for _ in 0..random.usize(4..40) {
        // What is attached, so that the cloud can hide it.
        if scenario == Scenario::AlteredCloud && random.u8(0..8) == 0 {
            let how = [Tampering::Attach, Tampering::Detach, Tampering::Forward][random.usize(..3)];
            events.push(Event::Tamper(random.u8(..), how));
        }
        if random.u8(0..3) > 0 {
            events.push(pass(&mut random));
        }
        match (scenario, random.u8(0..24)) {
            (_, 0 | 1) => {
                let one = random.u8(0..12);
                events.extend(situation(&mut random, scenario, one).events);
            }
            (Scenario::Interference, 2..=7) => events.push(interference(&mut random)),
            (Scenario::Restores, 2 | 3) => events.push(Event::Restore(random.u8(..), restoration(&mut random))),
            (Scenario::AlteredCloud, 2 | 3) => events.push(Event::Alter(random.u8(..))),
            _ => events.push(operation(&mut random)),
        }
    }
    events
}

/// Two situations, of two pools.
fn situations_alone(random: &mut fastrand::Rng, scenario: Scenario) -> Vec<Event> {
    let situations = [0, 1].map(|odd| {
        let one = 2 * random.u8(0..6) + odd;
        situation(random, scenario, one)
    });
    let mut events: Vec<Event> = situations.iter().flat_map(|situation| situation.setup.clone()).collect();
    events.push(Event::Pass(1000));
    for situation in situations {
        events.extend(situation.events);
        if scenario == Scenario::Restores && random.bool() {
            events.push(Event::Restore(random.u8(..), restoration(random)));
        }
        (0..random.u8(0..3)).for_each(|_| events.extend([operation(random), pass(random)]));
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
    // Two pools of a management cluster know the project by different URLs, so that neither knows what the other begins.
    if random.u8(0..4) == 0 {
        let pool = random.u8(0..4);
        events.extend([Event::Edit(pool, Edit::Identity(0)), Event::MoveKeystone(pool)]);
    }
    events.push(Event::Pass(6100));
}

fn pass(random: &mut fastrand::Rng) -> Event {
    let time = [3, 30, 120, 600, 3500, 7000, 20000];
    Event::Pass(time[random.usize(..time.len())])
}

fn operation(random: &mut fastrand::Rng) -> Event {
    let dice = random.u8(0..49);
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
        46 => Event::MoveNeutron,
        47 => Event::Stall(any(), any() % 60, random.bool()),
        _ => Event::ToggleSkipping(any()),
    }
}

fn interference(random: &mut fastrand::Rng) -> Event {
    let dice = random.u8(0..37);
    match dice {
        0..=6 => Event::Tamper(random.u8(..), tampering(random)),
        7..=12 => Event::Edit(random.u8(..), edit(random)),
        13 | 14 => Event::CreateFloatingIp(random.u8(..)),
        15 => match random.u8(0..3) {
            0 => Event::ToggleForeignAddress(random.u8(..), random.u8(..)),
            1 => Event::ToggleCluster(random.u8(..), random.u8(..)),
            _ => Event::ToggleInTreePool(random.u8(..), random.u8(..)),
        },
        16 | 17 => Event::TogglePause(random.u8(..), random.u8(..)),
        18 | 19 => Event::DeletePool(random.u8(..), random.bool()),
        20 => match random.bool() {
            true => Event::CreatePool(random.u8(..)),
            false => Event::ToggleCopiedPool(random.u8(..)),
        },
        21 | 22 => Event::ToggleFinalizer(random.u8(..)),
        23 => Event::ForceDeleteClaim(random.u8(..)),
        24 => Event::WipeId(random.u8(..)),
        25 => Event::ToggleSecret(random.u8(..)),
        26 => Event::Revoke,
        27 => Event::RenewSecret(random.u8(..)),
        28 => Event::MisdirectSecret(random.u8(..), random.bool()),
        29 => Event::RenameNetwork,
        30 => match random.bool() {
            true => Event::CopyAddress(random.u8(..), random.u8(..)),
            false => Event::RestoreAddress(random.u8(..)),
        },
        31 => Event::MoveNeutron,
        32 => Event::MoveKeystone(random.u8(..)),
        33 => Event::EditConfigMap(random.u8(..), random.u8(..)),
        34 | 35 => Event::LimitQuota(random.u8(..)),
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
        AttachReleased,
        Detach,
        Detach,
        Forward,
        Delete,
        Tag,
        Describe,
        DescribeUnmarked,
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
    let dice = random.u8(0..21);
    let mut any = || random.u8(..);
    match dice {
        0 => Edit::Limit(any()),
        1 => Edit::List(any()),
        2 => Edit::Exclude(any()),
        3 => Edit::Reserve(any(), any()),
        4 => Edit::MinFree(any()),
        5 => Edit::Retain,
        6 => Edit::Reuse(any()),
        7 => Edit::Grace(any()),
        8 => Edit::Subnets,
        9 => Edit::OrphanGrace(any()),
        10 => Edit::OrphanPolicy,
        11 => Edit::ExcludeRange(any()),
        12..=14 => Edit::AddressConfigMap(any()),
        15 => Edit::Tags(any()),
        // Credentials that are good.
        16 => Edit::Identity(any() % 4),
        17 => Edit::NetworkId,
        18 | 19 => Edit::SubnetList(any()),
        _ => Edit::Network,
    }
}

fn edit(random: &mut fastrand::Rng) -> Edit {
    let dice = random.u8(0..20);
    let mut any = || random.u8(..);
    match dice {
        0 | 1 => Edit::ReserveHeld(any(), any()),
        2 => Edit::Unreserve(any()),
        3 => Edit::Region,
        4 => Edit::CloudName,
        5 => Edit::MissingSubnet,
        6 | 7 => Edit::Identity(any()),
        _ => first_edit(random),
    }
}

fn restoration(random: &mut fastrand::Rng) -> Restoration {
    let owners = [Owners::Kept, Owners::Kept, Owners::Dropped, Owners::Moved];
    let owners = owners[random.usize(..owners.len())];
    Restoration {
        order: random.u8(0..6),
        gap: random.u8(0..12),
        owners,
        has_status: owners != Owners::Moved && random.bool(),
        is_stopped: random.bool(),
    }
}
