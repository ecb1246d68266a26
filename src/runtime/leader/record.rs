//! PURE: what a lease says, how long it has said so, and what follows.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use tokio::time::Instant;

/// What a candidate does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// The lease is ours already.
    Keep,
    /// Nobody holds it, or its holder went silent.
    Take {
        /// Nobody held it: the previous holder gave it back, or there never was one.
        was_vacant: bool,
    },
    /// Somebody holds it, for so long from now if nothing more is heard.
    Wait(Duration),
}

/// A lease's record, and since when it has been the same by our own clock.
///
/// The times in the record are another machine's and never looked at.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Observed {
    pub(super) spec: LeaseSpec,
    pub(super) since: Instant,
}

impl Observed {
    /// What was known, after one more look at `now`: only a changed record is a sign of life.
    pub(super) fn look(before: Option<Self>, spec: &LeaseSpec, now: Instant) -> Self {
        match before {
            Some(before) if before.spec == *spec => before,
            _ => Self { spec: spec.clone(), since: now },
        }
    }
}

/// Who holds the lease, if anybody.
pub(super) fn holder(spec: &LeaseSpec) -> Option<&str> {
    spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// What `me` does about a lease that was last looked at as `observed`, `None` when there is none.
pub(super) fn decide(observed: Option<&Observed>, now: Instant, me: &str, own_duration: Duration) -> Step {
    let Some(observed) = observed else { return Step::Take { was_vacant: true } };
    match holder(&observed.spec) {
        None => Step::Take { was_vacant: true },
        Some(holder) if holder == me => Step::Keep,
        Some(_) => {
            let granted = observed.spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
            let end = observed.since + granted.map_or(own_duration, Duration::from_secs);
            match end.saturating_duration_since(now) {
                Duration::ZERO => Step::Take { was_vacant: false },
                left => Step::Wait(left),
            }
        }
    }
}

/// The record of `me` as the holder, taken over from `before` or renewed.
pub(super) fn held(before: &LeaseSpec, me: &str, duration: Duration, now: Timestamp) -> LeaseSpec {
    let is_renewal = holder(before) == Some(me);
    let is_first = before.acquire_time.is_none();
    let transitions = before.lease_transitions.unwrap_or(0);
    LeaseSpec {
        holder_identity: Some(me.to_owned()),
        // Whole seconds, rounded up: others may wait longer, never shorter.
        lease_duration_seconds: Some(i32::try_from(duration.as_millis().div_ceil(1000)).unwrap_or(i32::MAX)),
        renew_time: Some(MicroTime(now)),
        acquire_time: if is_renewal { before.acquire_time.clone() } else { Some(MicroTime(now)) },
        lease_transitions: Some(if is_renewal || is_first { transitions } else { transitions.saturating_add(1) }),
        ..before.clone()
    }
}

/// The record of a lease that was given back.
pub(super) fn vacant(before: &LeaseSpec, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: None,
        // For Go's clients, which wait this long even for a lease without a holder.
        lease_duration_seconds: Some(1),
        renew_time: Some(MicroTime(now)),
        ..before.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(15);

    fn by(holder: &str) -> LeaseSpec {
        held(&LeaseSpec::default(), holder, LEASE, Timestamp::UNIX_EPOCH)
    }

    fn seen(spec: LeaseSpec, since: Instant) -> Option<Observed> {
        Some(Observed { spec, since })
    }

    #[test]
    fn a_lease_that_nobody_holds_is_taken_as_vacant() {
        let now = Instant::now();
        let take = Step::Take { was_vacant: true };
        assert_eq!(decide(None, now, "a", LEASE), take);
        assert_eq!(decide(seen(LeaseSpec::default(), now).as_ref(), now, "a", LEASE), take);
        assert_eq!(decide(seen(vacant(&by("b"), Timestamp::UNIX_EPOCH), now).as_ref(), now, "a", LEASE), take);
        let empty = LeaseSpec { holder_identity: Some(String::new()), ..by("b") };
        assert_eq!(decide(seen(empty, now).as_ref(), now, "a", LEASE), take);
    }

    #[test]
    fn a_silent_holder_is_waited_out_by_our_own_clock() {
        let begin = Instant::now();
        let observed = seen(by("b"), begin);
        assert_eq!(decide(observed.as_ref(), begin, "a", LEASE), Step::Wait(LEASE));
        let almost = begin + LEASE - Duration::from_millis(1);
        assert_eq!(decide(observed.as_ref(), almost, "a", LEASE), Step::Wait(Duration::from_millis(1)));
        assert_eq!(decide(observed.as_ref(), begin + LEASE, "a", LEASE), Step::Take { was_vacant: false });
    }

    #[test]
    fn only_a_changed_record_is_a_sign_of_life() {
        let begin = Instant::now();
        let later = begin + Duration::from_secs(10);
        let first = Observed::look(None, &by("b"), begin);
        assert_eq!(Observed::look(Some(first.clone()), &by("b"), later).since, begin);
        let renewed = held(&by("b"), "b", LEASE, Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_millis(1));
        assert_eq!(Observed::look(Some(first), &renewed, later).since, later);
    }

    #[test]
    fn times_of_another_machine_do_not_matter() {
        let now = Instant::now();
        let future = held(&LeaseSpec::default(), "b", LEASE, Timestamp::MAX);
        assert_eq!(decide(seen(future, now).as_ref(), now + LEASE, "a", LEASE), Step::Take { was_vacant: false });
    }

    #[test]
    fn the_holder_keeps_what_it_holds_and_counts_no_transition() {
        let now = Instant::now();
        assert_eq!(decide(seen(by("a"), now).as_ref(), now + LEASE * 9, "a", LEASE), Step::Keep);
        let renewed = held(&by("a"), "a", LEASE, Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(2));
        assert_eq!((renewed.lease_transitions, &renewed.acquire_time), (Some(0), &by("a").acquire_time));
        assert_eq!(held(&renewed, "b", LEASE, Timestamp::UNIX_EPOCH).lease_transitions, Some(1));
    }
}
