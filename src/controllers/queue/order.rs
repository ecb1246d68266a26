//! The order in which requested objects are reconciled: that of the requests, but fair between namespaces.
//!
//! Of the objects that are due, the next is one of the namespace that has the fewest reconciles in progress, so that a
//! thousand claims of one namespace do not delay a claim of another.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::{Action, FAR};
use crate::clock::instant_after;
use crate::fair::{Share, Turns};
use crate::object_name::ObjectName;

/// How many objects are reconciled at a time: the namespaces with something to do share them equally. Claims that wait for
/// a listing share it, so that more at a time take fewer listings of their project; but each has 12 KiB of memory, and
/// calls that wait. With this many, 10,000 claims of one namespace take 53 rounds.
pub(super) const MAX_RECONCILES: usize = 192;
/// The least share of a namespace, however many there are: as many as its cloud gets calls at a time.
const MIN_RECONCILES: usize = 8;

/// When an object is due, and the number of its request: the order within a namespace.
type Position = (Instant, u64);

/// The requested objects.
#[derive(Default)]
pub(super) struct Queue {
    positions: BTreeMap<ObjectName, Position>,
    /// Those that were not due when an object was last taken.
    later: BTreeMap<Position, ObjectName>,
    namespaces: Turns<String, Namespace>,
    /// The objects; each namespace counts its own.
    running: BTreeSet<ObjectName>,
    /// Requested during their reconcile, and when they are due.
    again: BTreeMap<ObjectName, Instant>,
    next: u64,
    /// How many are due and wait.
    waiting: usize,
    /// How many became due since [`Self::take_added`] was last called.
    added: u64,
}

/// A namespace with objects that are due or reconciled.
#[derive(Default)]
struct Namespace {
    due: BTreeMap<Position, ObjectName>,
    running: usize,
}

impl Share for Namespace {
    type Turn = (usize, Position);

    fn turn(&self) -> Option<Self::Turn> {
        let (first, _) = self.due.first_key_value()?;
        Some((self.running, *first))
    }

    fn is_empty(&self) -> bool {
        self.running == 0 && self.due.is_empty()
    }
}

impl Queue {
    #[expect(clippy::arithmetic_side_effects, reason = "no process makes 2^64 requests")]
    pub(super) fn request(&mut self, name: ObjectName, when: Instant) {
        if self.running.contains(&name) {
            if self.again.get(&name).is_none_or(|at| when < *at) {
                self.again.insert(name, when);
            }
            return;
        }
        if let Some(at) = self.positions.get(&name) {
            if at.0 <= when {
                return;
            }
            if self.later.remove(at).is_none() {
                self.namespaces.update(&name.namespace, |namespace| namespace.due.remove(at));
                self.waiting = self.waiting.saturating_sub(1);
            }
        }
        self.next += 1;
        self.positions.insert(name.clone(), (when, self.next));
        self.later.insert((when, self.next), name);
    }

    /// The next object that is due and may be reconciled, and how long it has been due; its reconcile lasts until
    /// [`Self::end`].
    pub(super) fn take(&mut self, now: Instant) -> Option<(ObjectName, Duration)> {
        self.find_due(now);
        let namespace = self.first_with_room()?.1.clone();
        let ((due, _), name) = self.namespaces.update(&namespace, |namespace| {
            namespace.running = namespace.running.saturating_add(1);
            namespace.due.pop_first()
        })?;
        self.positions.remove(&name);
        self.running.insert(name.clone());
        self.waiting = self.waiting.saturating_sub(1);
        Some((name, now.saturating_duration_since(due)))
    }

    /// The namespace that is next, unless it has its share: then all have.
    #[expect(clippy::arithmetic_side_effects, reason = "at least 1 is not 0")]
    fn first_with_room(&self) -> Option<&((usize, Position), String)> {
        let share = (MAX_RECONCILES / self.namespaces.len().max(1)).max(MIN_RECONCILES);
        self.namespaces.first().filter(|((running, _), _)| *running < share)
    }

    /// How many objects wait to be reconciled. It is up to date after [`Self::find_due`].
    pub(super) fn depth(&self) -> usize {
        self.waiting.saturating_add(self.again.len())
    }

    pub(super) fn take_added(&mut self) -> u64 {
        std::mem::take(&mut self.added)
    }

    /// Finds the objects that have become due. It changes nothing but the figures: [`Self::take`] begins with it.
    pub(super) fn find_due(&mut self, now: Instant) {
        while let Some(first) = self.later.first_entry().filter(|first| first.key().0 <= now) {
            let (position, name) = first.remove_entry();
            let namespace = name.namespace.clone();
            self.namespaces.update(&namespace, |namespace| namespace.due.insert(position, name));
            (self.waiting, self.added) = (self.waiting.saturating_add(1), self.added.saturating_add(1));
        }
    }

    pub(super) fn end(&mut self, name: &ObjectName) {
        if self.running.remove(name) {
            self.namespaces
                .update(&name.namespace, |namespace| namespace.running = namespace.running.saturating_sub(1));
        }
        if let Some(when) = self.again.remove(name) {
            self.request(name.clone(), when);
        }
    }

    pub(super) fn conclude(&mut self, (name, Action(again)): (ObjectName, Action)) {
        self.end(&name);
        if let Some(after) = again {
            self.request(name, instant_after(Instant::now(), after.min(FAR)));
        }
    }

    /// When [`Self::take`] will find an object, unless a reconcile ends before.
    pub(super) fn due(&self) -> Option<Instant> {
        let next = self.first_with_room().map(|((_, (when, _)), _)| *when);
        next.or_else(|| self.later.first_key_value().map(|((when, _), _)| *when))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> ObjectName {
        ObjectName::new("ns", name)
    }

    fn taken(queue: &mut Queue, now: Instant) -> Vec<String> {
        std::iter::from_fn(|| queue.take(now)).map(|(name, _)| name.name).collect()
    }

    #[test]
    fn objects_are_taken_in_the_order_of_the_requests() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for each in ["c", "a", "b", "a"] {
            queue.request(name(each), now);
        }
        assert_eq!(taken(&mut queue, now), ["c", "a", "b"]);
    }

    #[test]
    fn the_earlier_of_two_due_times_counts() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let later = now + Duration::from_secs(9);
        queue.request(name("a"), later);
        queue.request(name("b"), now);
        assert_eq!(taken(&mut queue, now), ["b"]);
        assert_eq!(queue.due(), Some(later));
        queue.request(name("a"), now);
        queue.request(name("a"), later);
        assert_eq!(taken(&mut queue, now), ["a"]);
        assert_eq!(queue.due(), None);
    }

    #[test]
    fn the_figures_count_each_object_that_is_due_once() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let later = now + Duration::from_secs(9);
        queue.request(name("later"), later);
        ["a", "a", "b"].into_iter().for_each(|each| queue.request(name(each), now));
        queue.find_due(now);
        assert_eq!((queue.depth(), queue.take_added()), (2, 2), "what is due later does not wait yet");
        let first = queue.take(now + Duration::from_secs(2));
        assert_eq!(first.map(|(name, waited)| (name.name, waited.as_secs())), Some(("a".into(), 2)));
        queue.request(name("a"), now);
        assert_eq!((queue.depth(), queue.take_added()), (2, 0), "requested during its reconcile");
        queue.end(&name("a"));
        queue.find_due(later);
        assert_eq!((queue.depth(), queue.take_added()), (3, 2));
        assert_eq!(taken(&mut queue, later), ["b", "a", "later"]);
        assert_eq!(queue.depth(), 0);
    }

    #[test]
    fn an_object_requested_during_its_reconcile_is_reconciled_once_more() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.request(name("a"), now);
        assert_eq!(taken(&mut queue, now), ["a"]);
        queue.request(name("a"), now);
        queue.request(name("a"), now);
        assert_eq!(taken(&mut queue, now), Vec::<String>::new(), "once at a time");
        queue.end(&name("a"));
        assert_eq!(taken(&mut queue, now), ["a"]);
        queue.end(&name("a"));
        assert_eq!(taken(&mut queue, now), Vec::<String>::new());
    }

    fn requested(queue: &mut Queue, namespace: &str, count: usize, when: Instant) {
        for number in 0..count {
            queue.request(ObjectName::new(namespace, format!("{number:05}")), when);
        }
    }

    #[test]
    fn a_namespace_with_many_requests_does_not_delay_another() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        requested(&mut queue, "loud", 1000, now);
        requested(&mut queue, "quiet", 1, now);
        let next: Vec<_> = (0..4).filter_map(|_| queue.take(now)).map(|(name, _)| name.to_string()).collect();
        assert_eq!(next, ["loud/00000", "quiet/00000", "loud/00001", "loud/00002"]);
    }

    #[test]
    fn the_namespace_with_the_fewest_reconciles_is_next_and_then_the_earlier_request() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for namespace in ["b", "c", "a"] {
            requested(&mut queue, namespace, 2, now);
        }
        let mut next = |ended: Option<&str>| {
            if let Some(namespace) = ended {
                queue.end(&ObjectName::new(namespace, "00000"));
            }
            queue.take(now).map(|(name, _)| name.to_string())
        };
        let order = [None, None, None, Some("c"), None, None, None].map(|ended| next(ended).unwrap_or_default());
        assert_eq!(order, ["b/00000", "c/00000", "a/00000", "c/00001", "b/00001", "a/00001", ""]);
    }

    #[test]
    fn the_reconciles_of_one_namespace_are_limited() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let later = now + Duration::from_secs(9);
        requested(&mut queue, "loud", MAX_RECONCILES + 2, now);
        queue.request(name("later"), later);
        assert_eq!(taken(&mut queue, now).len(), MAX_RECONCILES);
        assert_eq!(queue.due(), Some(later), "the others wait for the end of a reconcile");
        queue.end(&ObjectName::new("loud", "00007"));
        assert_eq!(queue.due(), Some(now));
        assert_eq!(taken(&mut queue, now), [format!("{MAX_RECONCILES:05}")], "the next in order");
        assert_eq!(taken(&mut queue, later), ["later"]);
    }

    #[test]
    fn the_reconciles_of_all_namespaces_are_limited_and_each_has_some() {
        let taken_of = |namespaces: usize| {
            let (mut queue, now) = (Queue::default(), Instant::now());
            (0..namespaces).for_each(|number| requested(&mut queue, &format!("team-{number}"), 1000, now));
            taken(&mut queue, now).len()
        };
        assert_eq!([1, 2, 4, 20, 100].map(taken_of), [192, 192, 192, 180, 800]);
    }

    #[test]
    fn an_object_that_is_due_keeps_its_place_until_it_is_taken() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let later = now + Duration::from_secs(9);
        requested(&mut queue, "loud", MAX_RECONCILES, later);
        assert_eq!(taken(&mut queue, later).len(), MAX_RECONCILES);
        queue.request(ObjectName::new("loud", "x"), later);
        queue.request(ObjectName::new("loud", "y"), later);
        assert_eq!(taken(&mut queue, later), Vec::<String>::new());
        queue.request(ObjectName::new("loud", "x"), later);
        queue.request(ObjectName::new("loud", "y"), now);
        for ended in ["00000", "00001", "00002"] {
            queue.end(&ObjectName::new("loud", ended));
        }
        assert_eq!(taken(&mut queue, later), ["y", "x"], "each once, and the earlier due time counts");
    }

    #[test]
    fn ten_thousand_objects_of_a_namespace_leave_no_record() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        requested(&mut queue, "loud", 10_000, now);
        let mut rounds = 0;
        while let names = taken(&mut queue, now)
            && !names.is_empty()
        {
            names.iter().for_each(|name| queue.end(&ObjectName::new("loud", name)));
            rounds += 1;
        }
        assert_eq!(rounds, 10_000_usize.div_ceil(MAX_RECONCILES));
        assert!(queue.positions.is_empty() && queue.running.is_empty() && queue.namespaces.shares().is_empty());
    }
}
