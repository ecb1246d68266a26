//! What follows a panic in a reconcile: a bug, which a tenant's objects or cloud may be able to cause.
//!
//! The controllers start again without any memory, as after a crash, since shared state may be half written. Nothing in
//! the object's namespace is reconciled for a while, longer after each panic. So a tenant who can cause panics rarely
//! delays other tenants.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use crate::object_name::ObjectName;
use crate::time::after;

/// For how long a namespace is held back after the first panic; twice as long after each further one.
const FIRST_PAUSE: SignedDuration = SignedDuration::from_mins(1);
/// The longest pause, and how long afterwards the panics before are forgotten.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_hours(1);

/// A reconcile panicked.
#[derive(Debug)]
pub(super) struct Panicked {
    pub(super) controller: &'static str,
    pub(super) object: ObjectName,
}

/// The namespaces in which a reconcile panicked. It outlives the controllers.
#[derive(Clone, Default)]
pub(super) struct HeldBack(Arc<Mutex<BTreeMap<String, HoldBack>>>);

struct HoldBack {
    /// Of the last panic.
    object: ObjectName,
    until: Timestamp,
    pause: SignedDuration,
}

impl HeldBack {
    /// Returns for how long the object's namespace is held back.
    pub(super) fn note(&self, object: &ObjectName, now: Timestamp) -> SignedDuration {
        let mut all = self.0.lock();
        all.retain(|_, held| now.duration_since(held.until) < LONGEST_PAUSE);
        let before = all.get(&object.namespace).map(|held| held.pause);
        let pause = before.map_or(FIRST_PAUSE, |pause| pause.saturating_mul(2).min(LONGEST_PAUSE));
        let until = after(now, pause);
        all.insert(object.namespace.clone(), HoldBack { object: object.clone(), until, pause });
        pause
    }

    /// Until when nothing in the namespace is reconciled, and what the conditions say of it.
    pub(super) fn find(&self, namespace: &str, now: Timestamp) -> Option<(std::time::Duration, String)> {
        let all = self.0.lock();
        let held = all.get(namespace).filter(|held| now < held.until)?;
        let message = format!(
            "the controller has a bug that {} in this namespace triggers, so it leaves the namespace alone for a while, up to an hour: report the bug with the controller's log, which says panicked",
            held.object.name
        );
        Some((held.until.duration_since(now).unsigned_abs(), message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes)
    }

    #[test]
    fn a_namespace_is_held_back_longer_each_time() {
        let (held_back, object) = (HeldBack::default(), ObjectName::new("team", "web"));
        let minutes = [0, 1, 3, 7, 15, 31, 63, 123];
        let pauses = minutes.map(|minute| held_back.note(&object, at(minute)).as_mins());
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert!(
            held_back
                .find("team", at(182))
                .is_some_and(|(rest, message)| rest.as_secs() == 60 && message.contains("web"))
        );
        assert!(held_back.find("team", at(183)).is_none());
        assert!(held_back.find("other", at(182)).is_none(), "others are not held back");
        assert_eq!(held_back.note(&object, at(242)).as_mins(), 60, "it is remembered for an hour");
        assert_eq!(held_back.note(&object, at(242 + 60 + 60)).as_mins(), 1, "then it is forgotten");
        assert_eq!(held_back.0.lock().len(), 1);
    }
}
