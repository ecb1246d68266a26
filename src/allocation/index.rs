//! Sets of values by key, without empty sets.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
pub(super) struct Index<K, V>(BTreeMap<K, Values<V>>);

/// Most keys have one value. A set of one takes as much memory as one of eleven, and there are thousands of keys.
#[derive(Clone, Debug)]
enum Values<V> {
    One(V),
    Several(BTreeSet<V>),
}

impl<K, V> Default for Index<K, V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord, V: Ord> Index<K, V> {
    pub(super) fn insert(&mut self, key: K, value: V) {
        match self.0.entry(key) {
            Entry::Vacant(entry) => drop(entry.insert(Values::One(value))),
            Entry::Occupied(mut entry) => entry.get_mut().insert(value),
        }
    }

    pub(super) fn remove(&mut self, key: &K, value: &V) {
        if self.0.get_mut(key).is_some_and(|values| values.remove(value)) {
            self.0.remove(key);
        }
    }

    pub(super) fn get<'a>(&'a self, key: &K) -> impl Iterator<Item = &'a V> + use<'a, K, V> {
        self.0.get(key).into_iter().flat_map(Values::iter)
    }

    pub(super) fn count(&self, key: &K) -> usize {
        self.0.get(key).map_or(0, Values::len)
    }

    /// From this key on, in the order of the keys.
    pub(super) fn from(&self, key: K) -> impl Iterator<Item = (&K, &V)> {
        self.0.range(key..).flat_map(|(key, values)| values.iter().map(move |value| (key, value)))
    }
}

impl<V: Ord> Values<V> {
    fn insert(&mut self, value: V) {
        let mut values = match std::mem::replace(self, Self::Several(BTreeSet::new())) {
            Self::One(only) if only == value => return *self = Self::One(only),
            Self::One(only) => BTreeSet::from([only]),
            Self::Several(values) => values,
        };
        values.insert(value);
        *self = Self::Several(values);
    }

    /// True if no value is left.
    fn remove(&mut self, value: &V) -> bool {
        match self {
            Self::One(only) => only == value,
            Self::Several(values) => {
                values.remove(value);
                values.is_empty()
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = &V> {
        let (one, several) = match self {
            Self::One(only) => (Some(only), None),
            Self::Several(values) => (None, Some(values)),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }

    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Several(values) => values.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_each_of_its_values_once_and_is_gone_with_the_last() {
        let mut index = Index::default();
        let values = |index: &Index<u8, u8>, key| index.get(&key).copied().collect::<Vec<_>>();
        for value in [7, 7, 3, 9, 3] {
            index.insert(1, value);
        }
        index.insert(2, 7);
        assert_eq!((values(&index, 1), values(&index, 2), values(&index, 3)), (vec![3, 7, 9], vec![7], vec![]));
        assert_eq!((index.count(&1), index.count(&2), index.count(&3)), (3, 1, 0));
        index.remove(&2, &9);
        assert_eq!(values(&index, 2), [7], "another value is removed");
        for value in [3, 9, 7] {
            index.remove(&1, &value);
        }
        index.remove(&2, &7);
        assert!(index.0.is_empty());
    }

    #[test]
    fn the_keys_from_one_on_come_in_order() {
        let mut index = Index::default();
        for (key, value) in [(3, 'c'), (1, 'a'), (2, 'y'), (2, 'b')] {
            index.insert(key, value);
        }
        assert_eq!(index.from(2).collect::<Vec<_>>(), [(&2, &'b'), (&2, &'y'), (&3, &'c')]);
    }
}
