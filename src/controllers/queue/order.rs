//! The order in which requested objects are reconciled.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use super::{Action, FAR};
use crate::clock::instant_after;
use crate::object_name::ObjectName;

/// The requested objects, by when they are due and in the order of the requests.
pub(super) struct Queue<R> {
    due: BTreeMap<(Instant, u64), (ObjectName, R)>,
    keys: BTreeMap<ObjectName, (Instant, u64)>,
    running: BTreeSet<ObjectName>,
    /// Requested during their reconcile, and when they are due.
    again: BTreeMap<ObjectName, (Instant, R)>,
    next: u64,
}

impl<R> Default for Queue<R> {
    fn default() -> Self {
        Self { due: BTreeMap::new(), keys: BTreeMap::new(), running: BTreeSet::new(), again: BTreeMap::new(), next: 0 }
    }
}

impl<R> Queue<R> {
    #[expect(clippy::arithmetic_side_effects, reason = "no process makes 2^64 requests")]
    pub(super) fn request(&mut self, name: ObjectName, reference: R, when: Instant) {
        if self.running.contains(&name) {
            if self.again.get(&name).is_none_or(|(at, _)| when < *at) {
                self.again.insert(name, (when, reference));
            }
            return;
        }
        if let Some(at) = self.keys.get(&name) {
            if at.0 <= when {
                return;
            }
            self.due.remove(at);
        }
        self.next += 1;
        self.keys.insert(name.clone(), (when, self.next));
        self.due.insert((when, self.next), (name, reference));
    }

    /// The first object that is due; its reconcile lasts until [`Self::end`].
    pub(super) fn take(&mut self, now: Instant) -> Option<(ObjectName, R)> {
        let first = self.due.first_entry().filter(|first| first.key().0 <= now)?;
        let (name, reference) = first.remove();
        self.keys.remove(&name);
        self.running.insert(name.clone());
        Some((name, reference))
    }

    pub(super) fn end(&mut self, name: &ObjectName) {
        self.running.remove(name);
        if let Some((when, reference)) = self.again.remove(name) {
            self.request(name.clone(), reference, when);
        }
    }

    pub(super) fn conclude(&mut self, (name, reference, Action(again)): (ObjectName, R, Action)) {
        self.end(&name);
        if let Some(after) = again {
            self.request(name, reference, instant_after(Instant::now(), after.min(FAR)));
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due.first_key_value().map(|((when, _), _)| *when)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn name(name: &str) -> ObjectName {
        ObjectName::new("ns", name)
    }

    fn taken(queue: &mut Queue<()>, now: Instant) -> Vec<String> {
        std::iter::from_fn(|| queue.take(now)).map(|(name, ())| name.name).collect()
    }

    #[test]
    fn objects_are_taken_in_the_order_of_the_requests() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for each in ["c", "a", "b", "a"] {
            queue.request(name(each), (), now);
        }
        assert_eq!(taken(&mut queue, now), ["c", "a", "b"]);
    }

    #[test]
    fn the_earlier_of_two_due_times_counts() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let later = now + Duration::from_secs(9);
        queue.request(name("a"), (), later);
        queue.request(name("b"), (), now);
        assert_eq!(taken(&mut queue, now), ["b"]);
        assert_eq!(queue.due(), Some(later));
        queue.request(name("a"), (), now);
        queue.request(name("a"), (), later);
        assert_eq!(taken(&mut queue, now), ["a"]);
        assert_eq!(queue.due(), None);
    }

    #[test]
    fn an_object_requested_during_its_reconcile_is_reconciled_once_more() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.request(name("a"), (), now);
        assert_eq!(taken(&mut queue, now), ["a"]);
        queue.request(name("a"), (), now);
        queue.request(name("a"), (), now);
        assert_eq!(taken(&mut queue, now), Vec::<String>::new(), "once at a time");
        queue.end(&name("a"));
        assert_eq!(taken(&mut queue, now), ["a"]);
        queue.end(&name("a"));
        assert_eq!(taken(&mut queue, now), Vec::<String>::new());
    }
}
