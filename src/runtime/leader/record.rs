//! The Lease's record, and what a candidate does about it. Pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::ResourceExt;
use tokio::time::Instant;

use crate::clock::instant_after;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LeaseAction {
    /// This candidate holds it already.
    Keep,
    /// It has no holder, or its holder did not renew it in time.
    Acquire {
        /// The previous holder gave it back, or there was none.
        was_vacant: bool,
    },
    /// Another candidate holds it, for at least this long from now.
    Wait(Duration),
}

/// The record, and since when it has been unchanged according to this machine's monotonic clock.
///
/// The times in the record come from another machine's clock and are not used.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct ObservedLease {
    pub(super) spec: LeaseSpec,
    pub(super) since: Instant,
    /// Its resource version.
    version: Option<u64>,
    /// It is older than one that was seen before: the API server's data were restored from a backup. Whoever held the later
    /// one may still be at work, even if this one has no holder.
    is_restored: bool,
}

impl ObservedLease {
    /// Only a changed record shows that the holder is alive.
    pub(super) fn observe(before: Option<Self>, lease: &Lease, now: Instant) -> Self {
        let (spec, version) = (lease.spec.clone().unwrap_or_default(), version(lease));
        match before {
            Some(before) if before.spec == spec && before.version <= version => before,
            before => {
                let is_restored = before.is_some_and(|before| is_older(lease, before.version));
                Self { spec, since: now, version, is_restored }
            }
        }
    }
}

fn version(lease: &Lease) -> Option<u64> {
    lease.resource_version()?.parse().ok()
}

fn is_older(lease: &Lease, than: Option<u64>) -> bool {
    version(lease).zip(than).is_some_and(|(version, than)| version < than)
}

/// Whether `found` is an earlier version of the Lease than one that this process has written.
pub(super) fn went_back(written: &Lease, found: &Lease) -> bool {
    is_older(found, version(written))
}

pub(super) fn holder(spec: &LeaseSpec) -> Option<&str> {
    spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// What the candidate `me` does about the Lease; `observed` is `None` if it does not exist.
pub(super) fn decide(observed: Option<&ObservedLease>, now: Instant, me: &str, own_duration: Duration) -> LeaseAction {
    let Some(observed) = observed else { return LeaseAction::Acquire { was_vacant: true } };
    match holder(&observed.spec) {
        None if !observed.is_restored => LeaseAction::Acquire { was_vacant: true },
        Some(holder) if holder == me => LeaseAction::Keep,
        holder => {
            // A restored record without a holder does not say for how long the later one was granted the Lease.
            let granted = holder.and(observed.spec.lease_duration_seconds);
            let granted = granted.and_then(|seconds| u64::try_from(seconds).ok());
            let end = instant_after(observed.since, granted.map_or(own_duration, Duration::from_secs));
            match end.saturating_duration_since(now) {
                Duration::ZERO => LeaseAction::Acquire { was_vacant: false },
                left => LeaseAction::Wait(left),
            }
        }
    }
}

/// The record with `me` as the holder, newly acquired or renewed.
pub(super) fn held(before: &LeaseSpec, me: &str, duration: Duration, now: Timestamp) -> LeaseSpec {
    let is_renewal = holder(before) == Some(me);
    let is_first = before.acquire_time.is_none();
    let transitions = before.lease_transitions.unwrap_or(0);
    LeaseSpec {
        holder_identity: Some(me.to_owned()),
        // Rounded up: others may wait longer, never shorter.
        lease_duration_seconds: Some(i32::try_from(duration.as_millis().div_ceil(1000)).unwrap_or(i32::MAX)),
        renew_time: Some(MicroTime(now)),
        acquire_time: if is_renewal { before.acquire_time.clone() } else { Some(MicroTime(now)) },
        lease_transitions: Some(if is_renewal || is_first { transitions } else { transitions.saturating_add(1) }),
        ..before.clone()
    }
}

/// The record after the Lease was given back.
pub(super) fn vacant(before: &LeaseSpec, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: None,
        // client-go waits this long even if there is no holder.
        lease_duration_seconds: Some(1),
        renew_time: Some(MicroTime(now)),
        ..before.clone()
    }
}

#[cfg(test)]
mod tests {
    use kube::api::ObjectMeta;

    use super::*;

    const LEASE: Duration = Duration::from_secs(15);

    fn by(holder: &str) -> LeaseSpec {
        held(&LeaseSpec::default(), holder, LEASE, Timestamp::UNIX_EPOCH)
    }

    fn lease(spec: LeaseSpec, version: u64) -> Lease {
        let metadata = ObjectMeta { resource_version: Some(version.to_string()), ..ObjectMeta::default() };
        Lease { metadata, spec: Some(spec) }
    }

    fn seen(spec: LeaseSpec, since: Instant) -> Option<ObservedLease> {
        Some(ObservedLease::observe(None, &lease(spec, 1), since))
    }

    #[test]
    fn a_lease_without_a_holder_is_acquired_as_vacant() {
        let now = Instant::now();
        let acquire = LeaseAction::Acquire { was_vacant: true };
        assert_eq!(decide(None, now, "a", LEASE), acquire);
        assert_eq!(decide(seen(LeaseSpec::default(), now).as_ref(), now, "a", LEASE), acquire);
        assert_eq!(decide(seen(vacant(&by("b"), Timestamp::UNIX_EPOCH), now).as_ref(), now, "a", LEASE), acquire);
        let empty = LeaseSpec { holder_identity: Some(String::new()), ..by("b") };
        assert_eq!(decide(seen(empty, now).as_ref(), now, "a", LEASE), acquire);
    }

    #[test]
    fn a_holder_that_does_not_renew_expires_by_the_local_clock() {
        let begin = Instant::now();
        let observed = seen(by("b"), begin);
        assert_eq!(decide(observed.as_ref(), begin, "a", LEASE), LeaseAction::Wait(LEASE));
        let almost = begin + LEASE - Duration::from_millis(1);
        assert_eq!(decide(observed.as_ref(), almost, "a", LEASE), LeaseAction::Wait(Duration::from_millis(1)));
        assert_eq!(decide(observed.as_ref(), begin + LEASE, "a", LEASE), LeaseAction::Acquire { was_vacant: false });
    }

    #[test]
    fn only_a_changed_record_extends_the_lease() {
        let begin = Instant::now();
        let later = begin + Duration::from_secs(10);
        let first = ObservedLease::observe(None, &lease(by("b"), 1), begin);
        assert_eq!(ObservedLease::observe(Some(first.clone()), &lease(by("b"), 2), later).since, begin);
        let renewed = held(&by("b"), "b", LEASE, Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_millis(1));
        assert_eq!(ObservedLease::observe(Some(first), &lease(renewed, 2), later).since, later);
    }

    #[test]
    fn a_record_that_was_restored_without_a_holder_is_not_vacant_until_the_later_holder_must_have_stopped() {
        let begin = Instant::now();
        let later = begin + Duration::from_secs(10);
        let before = ObservedLease::observe(None, &lease(by("b"), 9), begin);
        let given_back = || vacant(&by("b"), Timestamp::UNIX_EPOCH);
        let restored = Some(ObservedLease::observe(Some(before.clone()), &lease(given_back(), 8), later));
        assert_eq!(decide(restored.as_ref(), later, "a", LEASE), LeaseAction::Wait(LEASE));
        let again = restored.clone().map(|it| ObservedLease::observe(Some(it), &lease(given_back(), 8), later + LEASE));
        for observed in [restored, again] {
            let expired = LeaseAction::Acquire { was_vacant: false };
            assert_eq!(decide(observed.as_ref(), later + LEASE, "a", LEASE), expired);
        }
        let now = ObservedLease::observe(Some(before), &lease(given_back(), 10), later);
        assert_eq!(decide(Some(&now), later, "a", LEASE), LeaseAction::Acquire { was_vacant: true });
    }

    #[test]
    fn a_restored_record_shows_that_its_later_holder_was_alive() {
        let begin = Instant::now();
        let later = begin + Duration::from_secs(10);
        let before = ObservedLease::observe(None, &lease(by("b"), 9), begin);
        for holder in ["b", "c"] {
            let restored = ObservedLease::observe(Some(before.clone()), &lease(by(holder), 8), later);
            assert_eq!(decide(Some(&restored), later, "a", LEASE), LeaseAction::Wait(LEASE));
        }
    }

    #[test]
    fn times_of_other_machines_are_ignored() {
        let now = Instant::now();
        let future = held(&LeaseSpec::default(), "b", LEASE, Timestamp::MAX);
        assert_eq!(
            decide(seen(future, now).as_ref(), now + LEASE, "a", LEASE),
            LeaseAction::Acquire { was_vacant: false }
        );
    }

    #[test]
    fn a_renewal_counts_no_transition() {
        let now = Instant::now();
        assert_eq!(decide(seen(by("a"), now).as_ref(), now + LEASE * 9, "a", LEASE), LeaseAction::Keep);
        let renewed = held(&by("a"), "a", LEASE, Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(2));
        assert_eq!((renewed.lease_transitions, &renewed.acquire_time), (Some(0), &by("a").acquire_time));
        assert_eq!(held(&renewed, "b", LEASE, Timestamp::UNIX_EPOCH).lease_transitions, Some(1));
    }
}
