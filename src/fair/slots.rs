//! A semaphore whose waiters are served fairly by key. tokio's serves them in the order in which they came, so that a
//! thousand waiters of one key delay those of all others.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::turns::{Share, Turns};

/// Slots that are shared by key.
///
/// A free slot is given at once. A slot that becomes free goes to the waiting key that has the fewest, among these to the
/// one that came, or last got or freed a slot, least recently, and there to the waiter that came first. So a key can use
/// all slots, or as many as a key may, while no other wants one, and a key that uses none gets one before any other is
/// served twice.
pub(crate) struct FairSlots<K: Ord + Clone> {
    // A plain mutex: held to change what is in memory, never across an await or while a waiter is woken.
    state: Mutex<State<K>>,
}

struct State<K: Ord + Clone> {
    limit: usize,
    /// The most slots of one key.
    key_limit: usize,
    in_use: usize,
    keys: Turns<K, KeyShare<K>>,
    /// Numbers waiters, and the times at which slots were given or freed.
    next: u64,
}

struct KeyShare<K: Ord + Clone> {
    in_use: usize,
    /// The most that it may use, if it has a limit of its own.
    own_limit: Option<usize>,
    /// When the key came, or last got or freed a slot. If one that comes were always first, keys that come and go could
    /// keep out one that stays.
    since: u64,
    waiters: BTreeMap<u64, oneshot::Sender<Slot<K>>>,
}

impl<K: Ord + Clone> Default for KeyShare<K> {
    fn default() -> Self {
        Self { in_use: 0, own_limit: None, since: 0, waiters: BTreeMap::new() }
    }
}

impl<K: Ord + Clone> Share for KeyShare<K> {
    type Turn = (usize, u64);

    fn turn(&self) -> Option<Self::Turn> {
        let may_use_more = self.own_limit.is_none_or(|limit| self.in_use < limit);
        (may_use_more && !self.waiters.is_empty()).then_some((self.in_use, self.since))
    }

    fn is_empty(&self) -> bool {
        self.is_idle() && self.own_limit.is_none()
    }
}

impl<K: Ord + Clone> KeyShare<K> {
    fn is_idle(&self) -> bool {
        self.in_use == 0 && self.waiters.is_empty()
    }
}

/// A slot in use. Dropping it frees it.
pub(crate) struct Slot<K: Ord + Clone> {
    slots: Arc<FairSlots<K>>,
    key: K,
}

/// Removes a waiter that is dropped before it got its slot.
struct Waiter<'a, K: Ord + Clone> {
    slots: &'a FairSlots<K>,
    key: &'a K,
    number: u64,
}

impl<K: Ord + Clone> FairSlots<K> {
    pub(crate) fn new(limit: usize) -> Self {
        Self::with_key_limit(limit, usize::MAX)
    }

    /// A key uses at most `key_limit` slots, also while others are free: for slots that their users may keep for long.
    pub(crate) fn with_key_limit(limit: usize, key_limit: usize) -> Self {
        Self { state: Mutex::new(State { limit, key_limit, in_use: 0, keys: Turns::default(), next: 0 }) }
    }

    /// The slots that a key uses.
    pub(crate) fn in_use(&self, key: &K) -> usize {
        self.state.lock().keys.get(key).map_or(0, |share| share.in_use)
    }

    /// Waits for a slot. If the future is dropped, also after a slot was given to it, the slot goes to the next.
    pub(crate) async fn acquire(self: &Arc<Self>, key: K) -> Slot<K> {
        let (sender, receiver) = oneshot::channel();
        let number = self.change(|state| state.enqueue(&key, sender));
        // If a slot has been sent to a waiter that is dropped, the slot frees itself.
        let _waiter = Waiter { slots: self, key: &key, number };
        #[expect(clippy::expect_used, reason = "the sender is dropped after it has sent a slot, or by the waiter")]
        receiver.await.expect("a waiter gets its slot")
    }

    /// Slots in use above a lower limit end with their users.
    pub(crate) fn set_limit(self: &Arc<Self>, limit: usize) {
        self.change(|state| state.limit = limit);
    }

    /// Limits the slots of one key, until it is called with none. Slots in use above a lower limit end with their users.
    pub(crate) fn set_key_limit(self: &Arc<Self>, key: &K, limit: Option<usize>) {
        self.change(|state| state.keys.update(key, |share| share.own_limit = limit));
    }

    fn change<T>(self: &Arc<Self>, change: impl FnOnce(&mut State<K>) -> T) -> T {
        let mut state = self.state.lock();
        let result = change(&mut state);
        let granted: Vec<_> = std::iter::from_fn(|| state.grant()).collect();
        drop(state);
        for (key, waiter) in granted {
            // A waiter that was dropped meanwhile returns its slot, which is freed.
            drop(waiter.send(Slot { slots: self.clone(), key }));
        }
        result
    }
}

impl<K: Ord + Clone> State<K> {
    fn enqueue(&mut self, key: &K, waiter: oneshot::Sender<Slot<K>>) -> u64 {
        let number = self.number();
        self.keys.update(key, |share| {
            if share.is_idle() {
                share.since = number;
            }
            share.waiters.insert(number, waiter);
        });
        number
    }

    /// Gives a free slot to the next waiter.
    fn grant(&mut self) -> Option<(K, oneshot::Sender<Slot<K>>)> {
        if self.in_use >= self.limit {
            return None;
        }
        let ((in_use, _), key) = self.keys.first()?.clone();
        // It has the fewest of those that wait.
        if in_use >= self.key_limit {
            return None;
        }
        let number = self.number();
        let waiter = self.keys.update(&key, |share| {
            let (_, waiter) = share.waiters.pop_first()?;
            share.in_use = share.in_use.saturating_add(1);
            share.since = number;
            Some(waiter)
        })?;
        self.in_use = self.in_use.saturating_add(1);
        Some((key, waiter))
    }

    fn free(&mut self, key: &K) {
        let number = self.number();
        self.in_use = self.in_use.saturating_sub(1);
        self.keys.update(key, |share| {
            share.in_use = share.in_use.saturating_sub(1);
            share.since = number;
        });
    }

    #[expect(clippy::arithmetic_side_effects, reason = "no process makes 2^64 calls")]
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl<K: Ord + Clone> Drop for Slot<K> {
    fn drop(&mut self) {
        self.slots.change(|state| state.free(&self.key));
    }
}

impl<K: Ord + Clone> Drop for Waiter<'_, K> {
    fn drop(&mut self) {
        let removed = self.slots.state.lock().keys.update(self.key, |share| share.waiters.remove(&self.number));
        // Without the lock, as it wakes its receiver.
        drop(removed);
    }
}

#[cfg(test)]
mod tests;
