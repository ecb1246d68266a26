//! What several users share, for as long as one of them keeps it.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

pub(super) struct Registry<K, T>(Mutex<BTreeMap<K, Weak<T>>>);

impl<K, T> Default for Registry<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord, T> Registry<K, T> {
    pub(super) fn get_or_create(&self, key: K, create: impl FnOnce(&K) -> T) -> Arc<T> {
        let mut all = self.0.lock();
        all.retain(|_, shared| shared.strong_count() > 0);
        if let Some(shared) = all.get(&key).and_then(Weak::upgrade) {
            return shared;
        }
        let shared = Arc::new(create(&key));
        all.insert(key, Arc::downgrade(&shared));
        shared
    }
}
