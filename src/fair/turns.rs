//! Records by key, in the order in which their keys are served.

use std::collections::{BTreeMap, BTreeSet};

/// What one key uses and waits for.
pub(crate) trait Share: Default {
    /// Keys are served from the smallest to the largest.
    type Turn: Ord + Clone;

    /// None while nothing waits that may be served.
    fn turn(&self) -> Option<Self::Turn>;

    /// Whether it need not be kept.
    fn is_empty(&self) -> bool;
}

/// A record for each key that is not empty.
pub(crate) struct Turns<K, S: Share> {
    shares: BTreeMap<K, S>,
    /// The keys that have a turn.
    order: BTreeSet<(S::Turn, K)>,
}

impl<K, S: Share> Default for Turns<K, S> {
    fn default() -> Self {
        Self { shares: BTreeMap::new(), order: BTreeSet::new() }
    }
}

impl<K: Ord + Clone, S: Share> Turns<K, S> {
    /// The key that is served next.
    pub(crate) fn first(&self) -> Option<&(S::Turn, K)> {
        self.order.first()
    }

    /// How many keys have a record.
    pub(crate) fn len(&self) -> usize {
        self.shares.len()
    }

    /// The record of a key; none if it is empty.
    pub(crate) fn get(&self, key: &K) -> Option<&S> {
        self.shares.get(key)
    }

    /// Changes the record of a key, which is empty if there was none, and the key's place in the order.
    pub(crate) fn update<T>(&mut self, key: &K, change: impl FnOnce(&mut S) -> T) -> T {
        let share = self.shares.entry(key.clone()).or_default();
        let before = share.turn();
        let result = change(share);
        let (after, is_empty) = (share.turn(), share.is_empty());
        if before != after {
            self.order.extend(after.map(|turn| (turn, key.clone())));
            if let Some(turn) = before {
                self.order.remove(&(turn, key.clone()));
            }
        }
        if is_empty {
            self.shares.remove(key);
        }
        result
    }

    #[cfg(test)]
    pub(crate) fn shares(&self) -> &BTreeMap<K, S> {
        &self.shares
    }
}
