//! Situations: a few events in an order in which they have something to do with each other.

use crate::generator::{LATE, REPLY_LOST, REQUEST_LOST, complete_outage};
use crate::history::{Edit, Event, Scenario, Tampering};
use crate::world::ADDRESSES;

/// Long enough for a claim to be served.
const SERVED: Event = Event::Pass(1500);
/// Longer than the listings of a pool without trouble are apart.
const LISTED: Event = Event::Pass(7000);
/// A pool may have one address.
const ONE_ADDRESS: Edit = Edit::Limit(1);

#[derive(Default)]
pub struct Situation {
    /// What makes the pool what it should be. Only where nothing has happened yet.
    pub setup: Vec<Event>,
    pub events: Vec<Event>,
}

/// Who takes part in a situation, and when.
struct Cast {
    /// A claim; as a number of a pool, its pool.
    one: u8,
    /// Another claim of its pool, and a third one.
    other: u8,
    third: u8,
    /// The leader of its management cluster, or sometimes the other process.
    process: u8,
    /// An address.
    address: u8,
    /// Up to three seconds.
    moment: Event,
    /// Up to a minute.
    minute: Event,
}

/// A situation of a claim.
pub fn situation(random: &mut fastrand::Rng, scenario: Scenario, one: u8) -> Situation {
    // Claims of one pool and one management cluster differ by a multiple of 4, whether there are one or two of these.
    let (other, third) = if random.bool() { (one + 4, one + 8) } else { (one + 8, one + 4) };
    let leader = Event::LEADER + one % 2;
    let cast = Cast {
        one,
        other,
        third,
        process: if random.u8(0..4) > 0 { leader } else { one % 2 + 2 * random.u8(0..2) },
        address: random.u8(0..9),
        moment: Event::Pass(random.u16(0..300)),
        minute: Event::Pass(random.u16(0..6000)),
    };
    if scenario != Scenario::Interference || random.u8(0..5) == 0 {
        return match random.u8(0..9) {
            dice @ 0..4 => of_calls(random, dice, cast),
            dice => of_processes(random, dice, cast),
        };
    }
    match random.u8(0..15) {
        14 => endpoints(random, cast),
        dice @ 0..4 => of_operators(random, dice, cast),
        dice @ 4..7 => of_claims(random, dice, cast),
        dice => of_floating_ips(random, dice, cast),
    }
}

/// A process ends, or dies, with calls under way.
fn of_calls(random: &mut fastrand::Rng, dice: u8, cast: Cast) -> Situation {
    let Cast { one, other, process, moment, minute, .. } = cast;
    match dice {
        // It ends with a call in doubt.
        0 => {
            let outage = Event::Outage(process, 1, [3, 4, 5][random.usize(..3)], 12);
            let events = vec![outage, Event::CreateClaim(one), moment, Event::Terminate(process)];
            Situation { setup: Vec::new(), events }
        }
        // It ends after it has given up a call that takes effect later still.
        1 => Situation {
            setup: vec![Event::Edit(one, ONE_ADDRESS)],
            events: vec![
                Event::Outage(process, 1, complete_outage(LATE), 5),
                Event::CreateClaim(one),
                Event::Pass(3050 + random.u16(0..300)),
                Event::Terminate(process),
                Event::Pass(2000),
            ],
        },
        // It dies with a call under way, and its claim goes. The pool releases no orphans.
        2 => Situation {
            setup: vec![Event::Edit(one, Edit::OrphanPolicy)],
            events: vec![
                Event::FaultInWrite(process, 4 + random.u8(0..3)),
                Event::CreateClaim(one),
                Event::Pass(random.u16(0..600)),
                Event::DeleteClaim(one),
                minute,
            ],
        },
        // It dies while the pool has addresses that its successor may not give yet.
        _ => Situation {
            setup: Vec::new(),
            events: vec![
                Event::CreateClaim(one),
                SERVED,
                Event::DeleteClaim(one),
                Event::Pass(random.u16(0..100)),
                Event::Kill(process),
                Event::CreateClaim(other),
                minute,
            ],
        },
    }
}

/// A process does not do, or does not see, everything in time.
fn of_processes(random: &mut fastrand::Rng, dice: u8, cast: Cast) -> Situation {
    let Cast { one, other, process, moment, minute, .. } = cast;
    let events = match dice {
        // It stands still and goes on.
        4 => {
            vec![Event::CreateClaim(one), moment, Event::Freeze(process, random.u8(16..90)), Event::DeleteClaim(other)]
        }
        // Its watches show an old state of a claim that is created again.
        5 => {
            let stall = Event::Stall(process, random.u8(5..50), random.bool());
            let skipping = Event::ToggleSkipping(process);
            vec![stall, skipping, Event::DeleteClaim(one), moment, Event::CreateClaim(one), minute]
        }
        // It waits for a webhook.
        6 => {
            let hang = Event::Hang(process, random.u8(..), random.u8(20..90));
            vec![hang, Event::CreateClaim(one), Event::DeleteClaim(other), minute]
        }
        // An address that another claim waits for is released.
        7 => vec![
            Event::CreateClaim(one),
            SERVED,
            Event::Edit(one, Edit::ReserveHeld(one, other)),
            moment,
            Event::CreateClaim(other),
            Event::Pass(2500),
            Event::DeleteClaim(one),
            minute,
        ],
        // A claim that waits goes, and then the one that it waited for.
        _ => {
            let claims = [Event::CreateClaim(one), SERVED, Event::CreateClaim(other), SERVED];
            let deletions = [Event::DeleteClaim(other), moment, Event::DeleteClaim(one), minute];
            let setup = vec![Event::Edit(one, ONE_ADDRESS)];
            return Situation { setup, events: [claims, deletions].concat() };
        }
    };
    Situation { setup: Vec::new(), events }
}

/// Credentials, networks and pools change while claims have addresses.
fn of_operators(random: &mut fastrand::Rng, dice: u8, cast: Cast) -> Situation {
    let Cast { one, other, process, moment, minute, .. } = cast;
    let mut setup = Vec::new();
    let mut events = vec![Event::CreateClaim(one), SERVED];
    match dice {
        // The credentials of a pool that is being deleted change.
        0 => {
            let change = match random.u8(0..6) {
                0 => Event::MisdirectSecret(one, true),
                1 => Event::MisdirectSecret(one, false),
                2 | 3 => Event::Edit(one, Edit::Identity(random.u8(..))),
                _ => Event::Revoke,
            };
            events.extend([Event::DeletePool(one, random.bool()), moment, change, minute, Event::DeleteClaim(one)]);
            events.push(Event::RenewSecret(one));
        }
        // The credentials lead to another region, and back.
        1 => {
            let (there, back) = match random.bool() {
                true => (Event::MisdirectSecret(one, false), Event::RenewSecret(one)),
                false => (Event::Edit(one, Edit::Region), Event::Edit(one, Edit::Region)),
            };
            events.extend([there, Event::Pass(3000), Event::DeleteClaim(one), minute, back]);
        }
        // A process that never saw the pool work must release.
        2 => {
            let problem = if random.bool() { Event::RenameNetwork } else { Event::Edit(one, Edit::MissingSubnet) };
            events.extend([problem, Event::Kill(process), minute, Event::DeleteClaim(one), moment]);
        }
        // A pool goes while claims have its addresses, or wait for one, and comes back.
        _ => {
            setup.push(Event::Edit(one, ONE_ADDRESS));
            let claims = [Event::CreateClaim(other), SERVED, Event::DeletePool(one, random.bool()), minute];
            let deletions = [Event::DeleteClaim(one), SERVED, Event::DeleteClaim(other), moment];
            let rest = [Event::CreatePool(one), Event::Edit(one, ONE_ADDRESS), SERVED];
            events.extend([claims.as_slice(), &deletions, &rest].concat());
        }
    }
    Situation { setup, events }
}

/// Neutron or Keystone gets another URL while a call is under way.
fn endpoints(random: &mut fastrand::Rng, cast: Cast) -> Situation {
    let Cast { one, other, process, moment, minute, .. } = cast;
    let change = if random.bool() { Event::MoveNeutron } else { Event::MoveKeystone(one) };
    let outage = Event::Outage(process, 1, complete_outage([LATE, REPLY_LOST][random.usize(..2)]), random.u8(3..20));
    let begin = [Event::CreateClaim(other), SERVED, outage, Event::CreateClaim(one)];
    let then = [Event::DeleteClaim(one), Event::DeleteClaim(other), Event::Kill(process)][random.usize(..3)];
    let events = begin.into_iter().chain([moment, change, Event::Pass(random.u16(0..4000)), then, minute]).collect();
    let setup = if random.bool() { vec![Event::Edit(one, ONE_ADDRESS)] } else { Vec::new() };
    Situation { setup, events }
}

/// Users write or remove objects of Kubernetes.
fn of_claims(random: &mut fastrand::Rng, dice: u8, cast: Cast) -> Situation {
    let Cast { one, other, third, process, address, minute, .. } = cast;
    match dice {
        // A claim that could not be marked is given up.
        4 => {
            let fault = if random.bool() { REPLY_LOST } else { REQUEST_LOST };
            let outage = Event::Outage(process, 1, complete_outage(fault), 40);
            let events = vec![outage, Event::CreateClaim(one), minute, Event::ForceDeleteClaim(one)];
            Situation { setup: closed_list(one, &[address]), events }
        }
        // A claim is created whose IPAddress is a copy of another's.
        5 => {
            let events = vec![
                Event::CreateClaim(one),
                SERVED,
                Event::CopyAddress(one, other),
                Event::CreateClaim(other),
                SERVED,
            ];
            Situation { setup: Vec::new(), events }
        }
        // The machines of a pool that is deleted in the foreground stay for a while.
        _ => {
            let claims = [Event::CreateClaim(one), Event::CreateClaim(other), Event::CreateClaim(third), SERVED];
            let events = claims.into_iter().chain([Event::DeletePool(one, true), minute]).collect();
            Situation { setup: Vec::new(), events }
        }
    }
}

/// Users write to floating IPs, or attach them, at the moment that matters.
fn of_floating_ips(random: &mut fastrand::Rng, dice: u8, cast: Cast) -> Situation {
    let Cast { one, address, minute, .. } = cast;
    let tamper = |how| Event::Tamper(address, how);
    let served = [Event::CreateClaim(one), SERVED];
    match dice {
        // A released address is attached before it is deleted, and its claim may come back.
        7 => {
            let attached =
                [Event::DeleteClaim(one), Event::Pass(random.u16(100..5000)), tamper(Tampering::AttachReleased)];
            let next = if random.bool() { Event::CreateClaim(one) } else { Event::Pass(0) };
            Situation {
                setup: vec![Event::Edit(one, Edit::Grace(random.u8(30..60)))],
                events: served.into_iter().chain(attached).chain([next, Event::Pass(4000)]).collect(),
            }
        }
        // An address is described that is about to be reused.
        8 => Situation {
            setup: vec![Event::CreateFloatingIp(address), Event::Edit(one, Edit::Reuse(1))],
            events: [LISTED, LISTED, tamper(Tampering::DescribeUnmarked)].into_iter().chain(served).collect(),
        },
        // An address whose claim was removed by force says that it was released at the end of time.
        9 => {
            let forged = [Event::ForceDeleteClaim(one), tamper(Tampering::MarkReleased(random.bool())), LISTED];
            Situation {
                setup: vec![Event::Edit(one, Edit::Grace(random.u8(1..60)))],
                events: served.into_iter().chain(forged).collect(),
            }
        }
        // A floating IP that something is attached to is marked for a claim that does not exist.
        10 => Situation {
            setup: vec![Event::CreateFloatingIp(address)],
            events: vec![tamper(Tampering::Attach), tamper(Tampering::MarkForNobody), LISTED],
        },
        // An object of CAPO names an address that is about to be reused.
        11 => {
            let naming = match random.bool() {
                true => Event::ToggleCluster(one, address),
                false => Event::ToggleInTreePool(one, address),
            };
            Situation {
                setup: vec![Event::CreateFloatingIp(address), Event::Edit(one, Edit::Reuse(1))],
                events: [LISTED, LISTED, naming].into_iter().chain(served).collect(),
            }
        }
        // A full network gets addresses back that the pool does not want, and offers them again and again.
        12 => {
            let others = (0..ADDRESSES).map(Event::CreateFloatingIp);
            let exclusions = (0..ADDRESSES).step_by(2).map(Edit::ExcludeRange);
            let edits = exclusions.chain([Edit::SubnetList(random.u8(..)), Edit::Limit(random.u8(..))]);
            let events =
                [Event::CreateClaim(one), minute, tamper(Tampering::Delete), LISTED, tamper(Tampering::Delete)];
            Situation { setup: others.chain(edits.map(|edit| Event::Edit(one, edit))).collect(), events: events.into() }
        }
        // Addresses have as many tags as they can have: before they are chosen, and before they are released.
        _ => {
            let full = [tamper(Tampering::Fill), LISTED];
            let deletion = [tamper(Tampering::FillMarked), Event::DeleteClaim(one), minute];
            Situation {
                setup: closed_list(one, &[address, address + 1]),
                events: full.into_iter().chain(served).chain(deletion).collect(),
            }
        }
    }
}

/// A pool of these addresses, and no others.
fn closed_list(pool: u8, addresses: &[u8]) -> Vec<Event> {
    let floating_ips = addresses.iter().map(|address| Event::CreateFloatingIp(*address));
    let list = addresses.iter().map(|address| Event::Edit(pool, Edit::List(*address)));
    floating_ips.chain(list).chain([Event::Edit(pool, Edit::Network)]).collect()
}
