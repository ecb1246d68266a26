//! The promises of the design, as laws that generated histories try to break.
//!
//! A history is a list of events in a small world: two management clusters that share a project, three pools, nine
//! claims, nine addresses; calls that fail, whose replies are lost, or that land late; crashes; users who interfere. The
//! laws are looked at after every event, and once more when everything has come to rest.
//!
//! `PROPTEST_CASES=20000 cargo test --test laws` looks longer.

mod checker;
mod neutron;
mod oracle;
mod shell;
mod world;

use proptest::prelude::*;
use proptest::test_runner::Config;
use world::{Edit, Event, Fate, POOLS, Tampering, World, policy};

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        8 => Just(Fate::Done),
        1 => Just(Fate::Failed),
        1 => Just(Fate::ReplyLost),
        1 => Just(Fate::RequestLost),
        2 => Just(Fate::Late),
    ]
}

/// What controllers, Neutron and time do by themselves.
fn work() -> impl Strategy<Value = Event> {
    prop_oneof![
        16 => any::<u8>().prop_map(Event::Reconcile),
        20 => (any::<u8>(), fate()).prop_map(|(call, fate)| Event::Progress(call, fate)),
        8 => any::<u8>().prop_map(Event::Look),
        6 => any::<u8>().prop_map(Event::Sweep),
        3 => prop::sample::select(vec![1u16, 20, 61, 400, 4000]).prop_map(Event::Pass),
        2 => any::<u8>().prop_map(Event::Land),
        6 => any::<u8>().prop_map(Event::CreateClaim),
        3 => any::<u8>().prop_map(Event::DeleteClaim),
        2 => any::<u8>().prop_map(Event::Boot),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(site, landing)| Event::Crash(site, landing)),
        1 => any::<u8>().prop_map(Event::DeleteAddress),
    ]
}

fn tampering() -> impl Strategy<Value = Tampering> {
    prop_oneof![
        4 => Just(Tampering::Attach),
        4 => Just(Tampering::Detach),
        2 => Just(Tampering::Delete),
        1 => Just(Tampering::Tag),
        1 => Just(Tampering::Describe),
        1 => Just(Tampering::Wipe),
        2 => Just(Tampering::Mark),
        1 => any::<u8>().prop_map(Tampering::Copy),
    ]
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        prop::option::of(0..4u8).prop_map(Edit::Limit),
        any::<u8>().prop_map(Edit::List),
        any::<u8>().prop_map(Edit::Exclude),
        (any::<u8>(), any::<u8>()).prop_map(|(claim, address)| Edit::Reserve(claim, address)),
        any::<u8>().prop_map(Edit::Preallocate),
        Just(Edit::Reclaim),
        Just(Edit::Reuse),
        (0..120u8).prop_map(Edit::Grace),
        Just(Edit::Network),
    ]
}

/// What people do.
fn interference() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (any::<u8>(), tampering()).prop_map(|(fip, how)| Event::Tamper(fip, how)),
        2 => Just(Event::UserCreates),
        4 => (any::<u8>(), edit()).prop_map(|(pool, edit)| Event::Edit(pool, edit)),
        1 => any::<u8>().prop_map(Event::Foreign),
        1 => any::<u8>().prop_map(Event::Keep),
        1 => any::<u8>().prop_map(Event::DeletePool),
        1 => prop::option::of(2..9u8).prop_map(Event::Quota),
    ]
}

/// How the world begins: edits of three plain pools, and what users have.
fn beginning() -> impl Strategy<Value = (Vec<(u8, Edit)>, u8)> {
    (prop::collection::vec((any::<u8>(), edit()), 0..10), 0..6u8)
}

fn begin((edits, users): &(Vec<(u8, Edit)>, u8)) -> World {
    let mut world = World::new(std::array::from_fn::<_, POOLS, _>(policy), *users);
    for (pool, edit) in edits {
        world.happen(Event::Edit(*pool, *edit));
    }
    world
}

/// The history, then rest; the first broken law ends it.
fn live(world: &mut World, events: &[Event]) -> Result<(), String> {
    for (index, event) in events.iter().enumerate() {
        world.happen(*event);
        if let Some(broken) = world.broken.first() {
            return Err(format!("after event {index}, {event:?}: {broken}"));
        }
    }
    world.settle();
    world.broken.first().map_or(Ok(()), |broken| Err(format!("at rest: {broken}")))
}

/// A history that breaks a law is lived once more and written down.
fn check(start: &(Vec<(u8, Edit)>, u8), events: &[Event]) -> Result<(), TestCaseError> {
    live(&mut begin(start), events).map_err(|_| {
        let mut world = begin(start);
        world.story = Some(vec![]);
        let broken = live(&mut world, events).expect_err("it was broken before");
        TestCaseError::fail(format!("{broken}\n{}\n", world.story.unwrap_or_default().join("\n")))
    })
}

fn config() -> Config {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(512);
    Config { cases, ..Config::default() }
}

proptest! {
    #![proptest_config(config())]

    /// Everything goes wrong that can go wrong with calls and processes, and nobody interferes.
    #[test]
    fn the_laws_hold_whatever_is_lost(
        start in beginning(),
        events in prop::collection::vec(work(), 0..120),
    ) {
        check(&start, &events)?;
    }

    /// Users interfere too.
    #[test]
    fn the_laws_hold_whatever_people_do(
        start in beginning(),
        events in prop::collection::vec(prop_oneof![3 => work(), 1 => interference()], 0..120),
    ) {
        check(&start, &events)?;
    }
}
