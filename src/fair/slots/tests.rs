use std::pin::Pin;

use futures::FutureExt;
use proptest::prelude::*;

use super::*;

type Slots = Arc<FairSlots<u8>>;

/// One that asked for a slot.
enum Call {
    Waiting(Pin<Box<dyn Future<Output = Slot<u8>>>>),
    Running { _slot: Slot<u8> },
}

impl Call {
    /// Asks for a slot.
    fn begin(slots: &Slots, key: u8) -> Self {
        let slots = slots.clone();
        let mut call = Self::Waiting(Box::pin(async move { slots.acquire(key).await }));
        call.is_running();
        call
    }

    /// Takes the slot if it was given.
    fn is_running(&mut self) -> bool {
        if let Self::Waiting(future) = self
            && let Some(slot) = future.now_or_never()
        {
            *self = Self::Running { _slot: slot };
        }
        matches!(self, Self::Running { .. })
    }
}

fn begin<const N: usize>(slots: &Slots, keys: [u8; N]) -> [Call; N] {
    keys.map(|key| Call::begin(slots, key))
}

fn running(calls: &mut [Call]) -> Vec<bool> {
    calls.iter_mut().map(Call::is_running).collect()
}

/// Of each key: the slots in use, and the waiters.
fn records(slots: &Slots) -> BTreeMap<u8, (usize, usize)> {
    let state = slots.state.lock();
    state.keys.shares().iter().map(|(key, share)| (*key, (share.in_use, share.waiters.len()))).collect()
}

#[test]
fn free_slots_are_given_at_once_and_then_in_the_order_of_a_keys_waiters() {
    let slots = Slots::new(FairSlots::new(2));
    let [first, second, mut rest @ ..] = begin(&slots, [1; 5]);
    assert_eq!(running(&mut rest), [false; 3]);
    drop(first);
    assert_eq!(running(&mut rest), [true, false, false]);
    drop(second);
    assert_eq!(running(&mut rest), [true, true, false]);
}

#[test]
fn a_slot_goes_to_the_key_with_the_fewest() {
    let slots = Slots::new(FairSlots::new(3));
    let [first, second, _third, mut waiting @ ..] = begin(&slots, [1, 1, 1, 1, 1, 2, 2]);
    drop(first);
    assert_eq!(running(&mut waiting), [false, false, true, false], "it has none");
    drop(second);
    assert_eq!(running(&mut waiting), [false, false, true, true], "both have one, and the first has just freed one");
}

#[test]
fn a_key_gets_no_more_than_its_share_while_slots_are_free() {
    let slots = Slots::new(FairSlots::with_key_limit(4, 2));
    let [first, mut own @ ..] = begin(&slots, [1; 4]);
    let mut others = begin(&slots, [2; 3]);
    assert_eq!((running(&mut own), running(&mut others)), (vec![true, false, false], vec![true, true, false]));
    assert_eq!([1, 2, 3].map(|key| slots.in_use(&key)), [2, 2, 0]);
    drop(others);
    assert_eq!(running(&mut own), [true, false, false]);
    drop(first);
    assert_eq!(running(&mut own), [true, true, false]);
}

#[test]
fn keys_take_turns_at_a_single_slot() {
    let slots = Slots::new(FairSlots::new(1));
    let [mut current, mut waiting @ ..] = begin(&slots, [1, 1, 1, 2, 2, 3]);
    let mut order = Vec::new();
    for _ in 0..waiting.len() {
        drop(current);
        let next = waiting.iter_mut().position(Call::is_running).expect("one has the slot");
        order.push(next);
        current = std::mem::replace(&mut waiting[next], Call::Waiting(Box::pin(std::future::pending())));
    }
    // By key: 2, 3, 1, 2, 1.
    assert_eq!(order, [2, 4, 0, 3, 1]);
}

#[test]
fn a_key_that_waits_is_not_kept_out_by_keys_that_come_and_go() {
    let slots = Slots::new(FairSlots::new(1));
    let [first, mut patient] = begin(&slots, [1, 1]);
    let mut others = begin(&slots, [2, 3]);
    drop(first);
    assert_eq!(running(&mut others), [true, false], "the first key was served");
    let [two, three] = others;
    drop(two);
    let _again = Call::begin(&slots, 2);
    drop(three);
    assert!(patient.is_running());
}

#[test]
fn a_waiter_that_is_dropped_is_passed_over_and_leaves_no_record() {
    let slots = Slots::new(FairSlots::new(1));
    let [first, second, mut third] = begin(&slots, [1, 2, 3]);
    drop(second);
    assert_eq!(records(&slots), [(1, (1, 0)), (3, (0, 1))].into());
    drop(first);
    assert!(third.is_running());
    drop(third);
    assert_eq!(records(&slots), [].into());
}

#[test]
fn a_slot_that_was_given_to_a_waiter_that_is_dropped_goes_to_the_next() {
    let slots = Slots::new(FairSlots::new(1));
    let [first, second, mut third] = begin(&slots, [1, 2, 3]);
    drop(first);
    assert_eq!(records(&slots), [(2, (1, 0)), (3, (0, 1))].into(), "it was given, and not taken yet");
    drop(second);
    assert!(third.is_running());
    drop(third);
    assert_eq!(records(&slots), [].into());
}

#[test]
fn a_higher_limit_is_used_at_once_and_a_lower_one_as_slots_are_freed() {
    let slots = Slots::new(FairSlots::new(1));
    let mut calls = Vec::from(begin(&slots, [1; 6]));
    slots.set_limit(4);
    assert_eq!(running(&mut calls), [true, true, true, true, false, false]);
    slots.set_limit(2);
    calls.drain(..2);
    assert_eq!(running(&mut calls), [true, true, false, false]);
    calls.drain(..1);
    assert_eq!(running(&mut calls), [true, true, false]);
}

#[tokio::test]
async fn a_waiter_is_woken() {
    let slots = Slots::new(FairSlots::new(1));
    let first = slots.acquire(1).await;
    let (other, done) = (slots.clone(), oneshot::channel());
    tokio::spawn(async move {
        let _slot = other.acquire(2).await;
        done.0.send(()).expect("it is awaited");
    });
    tokio::task::yield_now().await;
    drop(first);
    done.1.await.expect("it got the slot");
}

/// The rule in its plainest form: looks through all calls for the next one.
#[derive(Default)]
struct Model {
    limit: usize,
    key_limits: BTreeMap<u8, usize>,
    /// Key, and whether it has a slot, in the order in which they came.
    calls: Vec<(u8, bool)>,
    since: BTreeMap<u8, usize>,
    time: usize,
}

impl Model {
    fn count(&self, key: u8, has_slot: bool) -> usize {
        self.calls.iter().filter(|call| **call == (key, has_slot)).count()
    }

    fn touch(&mut self, key: u8) {
        self.time += 1;
        self.since.insert(key, self.time);
    }

    fn begin(&mut self, key: u8) {
        if self.calls.iter().all(|call| call.0 != key) {
            self.touch(key);
        }
        self.calls.push((key, false));
    }

    fn end(&mut self, index: usize) {
        let (key, had_slot) = self.calls.remove(index);
        if had_slot {
            self.touch(key);
        }
    }

    fn settle(&mut self) {
        while self.calls.iter().filter(|call| call.1).count() < self.limit {
            let may_use_more = |key| self.key_limits.get(&key).is_none_or(|limit| self.count(key, true) < *limit);
            let waiting =
                (0..self.calls.len()).filter(|index| !self.calls[*index].1 && may_use_more(self.calls[*index].0));
            let rank = |index: &usize| {
                let key = self.calls[*index].0;
                (self.count(key, true), self.since[&key], *index)
            };
            let Some(next) = waiting.min_by_key(rank) else { return };
            self.calls[next].1 = true;
            self.touch(self.calls[next].0);
        }
    }

    fn records(&self) -> BTreeMap<u8, (usize, usize)> {
        let keys = self.calls.iter().map(|(key, _)| key).chain(self.key_limits.keys());
        keys.map(|key| (*key, (self.count(*key, true), self.count(*key, false)))).collect()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Begin(u8),
    /// The end of a call, or of its waiting.
    End(usize),
    Limit(usize),
    LimitKey(u8, Option<usize>),
    /// All take the slots that they were given.
    Take,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4_u8).prop_map(Step::Begin),
        4 => (0..64_usize).prop_map(Step::End),
        1 => (0..5_usize).prop_map(Step::Limit),
        1 => (0..4_u8, proptest::option::of(0..3_usize)).prop_map(|(key, limit)| Step::LimitKey(key, limit)),
        2 => Just(Step::Take),
    ]
}

proptest! {
    #[test]
    fn every_history_gives_the_slots_that_the_rule_says(steps in proptest::collection::vec(step(), 0..80)) {
        let slots = Slots::new(FairSlots::new(2));
        let (mut calls, mut model) = (Vec::new(), Model { limit: 2, ..Model::default() });
        for step in steps {
            match step {
                Step::Begin(key) => {
                    calls.push(Call::begin(&slots, key));
                    model.begin(key);
                }
                Step::End(index) if !calls.is_empty() => {
                    let index = index % calls.len();
                    drop(calls.remove(index));
                    model.end(index);
                }
                Step::Limit(limit) => {
                    slots.set_limit(limit);
                    model.limit = limit;
                }
                Step::LimitKey(key, limit) => {
                    slots.set_key_limit(&key, limit);
                    model.key_limits.remove(&key);
                    model.key_limits.extend(limit.map(|limit| (key, limit)));
                }
                Step::Take => {
                    let expected: Vec<_> = model.calls.iter().map(|call| call.1).collect();
                    prop_assert_eq!(running(&mut calls), expected);
                }
                Step::End(_) => {}
            }
            model.settle();
            prop_assert_eq!(records(&slots), model.records());
        }
        drop(calls);
        (0..4).for_each(|key| slots.set_key_limit(&key, None));
        prop_assert!(records(&slots).is_empty());
        prop_assert_eq!(slots.state.lock().in_use, 0);
    }
}
