//! What the controllers' verdict on a claim means, in words for the user.

use std::net::IpAddr;

use crate::allocation::claim::Decision;
use crate::allocation::origin::Origin;
use crate::controllers::inspect::{NextStep, SkipReason, Verdict};
use crate::floating_ip::FloatingIpId;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct VerdictText {
    pub(super) why: String,
    /// What the controller does next, if anything.
    pub(super) next: Option<String>,
}

impl VerdictText {
    fn new(why: impl Into<String>, next: Option<&str>) -> Self {
        Self { why: why.into(), next: next.map(str::to_owned) }
    }
}

/// `find_address` knows the addresses of floating IPs.
pub(super) fn describe(verdict: &Verdict, find_address: impl Fn(&FloatingIpId) -> Option<IpAddr>) -> VerdictText {
    match verdict {
        Verdict::Foreign(message) => VerdictText::new(message, None),
        Verdict::Due(step) => describe_step(step),
        Verdict::Next(decision) => describe_decision(decision, |id| {
            find_address(id).map_or_else(|| id.to_string(), |address| address.to_string())
        }),
    }
}

fn describe_decision(decision: &Decision, name: impl Fn(&FloatingIpId) -> String) -> VerdictText {
    let (why, next) = match decision {
        Decision::Keep(id) => (format!("{} carries the claim's mark, and is confirmed", name(id)), None),
        Decision::Mark(id, Origin::Recovered, _) => (
            format!("{} belongs to the claim, but its mark is incomplete", name(id)),
            Some("the controller writes the mark again"),
        ),
        Decision::Mark(id, origin, _) => (
            format!("{} is available ({})", name(id), describe_origin(*origin)),
            Some("the controller marks and publishes it"),
        ),
        Decision::TakeBack(id, _) => (
            format!("a claim of the same name released {} a moment ago", name(id)),
            Some("the controller takes it back"),
        ),
        Decision::Confirm(id) => (
            format!("{} is marked for the claim", name(id)),
            Some("the controller reads it once more, and publishes it"),
        ),
        Decision::Withdraw(id, _) => (
            format!("{} also carries another owner's mark, or is attached to a foreign port", name(id)),
            Some("the controller removes the mark, and chooses another address"),
        ),
        Decision::AwaitOwner(id) => (
            format!("the claim had {}, which also carries another owner's mark", name(id)),
            Some("the controller waits for up to a minute until that mark is removed"),
        ),
        Decision::AwaitMark(id) => (
            format!("the claim had {}, whose mark is about to be cleaned up, or has been copied", name(id)),
            Some("the controller waits until that clean-up has ended, or the copy is cleared"),
        ),
        Decision::ForgetAddress => (
            "the address that it had is gone, and no floating IP carries its mark".into(),
            Some("the controller chooses another address"),
        ),
        Decision::Create(..) => (
            "there is no free address, and the pool may create one".into(),
            Some("the controller asks Neutron to create one; Neutron's last refusal, if any, is shown below"),
        ),
        Decision::Settle => {
            ("the outcome of an OpenStack call is not known yet".into(), Some("the controller reads the project again"))
        }
        Decision::Fenced(until) => (
            format!("calls of a previous controller may still take effect until {until}"),
            Some("the controller decides then"),
        ),
        Decision::Refuse(refusal) => {
            (refusal.to_string(), Some("an address is allocated automatically when one is free, oldest claim first"))
        }
        Decision::Lost(loss) => (loss.to_string(), None),
    };
    VerdictText::new(why, next)
}

fn describe_step(step: &NextStep) -> VerdictText {
    match step {
        NextStep::Skip(reason) => VerdictText::new(reason.to_string(), end_of_wait(reason)),
        NextStep::Report(_, message) => VerdictText::new(message, None),
        NextStep::Release => VerdictText::new(
            "it is being deleted, and its address is no longer needed",
            Some("the controller releases its address"),
        ),
        NextStep::ReleaseAndWait(message) => {
            VerdictText::new(message, Some("the controller releases what was marked for it"))
        }
        NextStep::Recover => VerdictText::new(
            "its IPAddress was deleted, and its pool is being deleted",
            Some("the controller recreates the IPAddress with the same address"),
        ),
        NextStep::Serve => {
            VerdictText::new("it is waiting for an address", Some("the controller resolves its pool first"))
        }
    }
}

/// What must happen before the controller continues with a claim that it skips.
fn end_of_wait(reason: &SkipReason) -> Option<&'static str> {
    match reason {
        SkipReason::NotOurs => Some("another provider serves it, as the group and kind of its poolRef say"),
        SkipReason::PausedCluster => {
            Some("nothing until spec.paused and the paused annotation are removed from the Cluster")
        }
        SkipReason::PausedClaim | SkipReason::PausedPool => Some("nothing until the annotation is removed"),
        SkipReason::Moving => Some("nothing here; the other management cluster continues with it"),
        SkipReason::FilteredPool => Some("nothing; the pool's label names the controller that serves it"),
        SkipReason::HeldByFinalizer(_) => {
            Some("its address is released when that finalizer is removed: CAPO removes its own with the VM")
        }
        SkipReason::Released | SkipReason::Bound(_) | SkipReason::AddressAwaited | SkipReason::UnknownPool => None,
    }
}

fn describe_origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Recovered => "it already belonged to the claim",
        Origin::Reserved => "reserved for the claim",
        Origin::List => "from the pool's list",
        Origin::Owned => "already owned by the pool",
        Origin::Reuse => "a free floating IP of the project",
        Origin::Created => "created",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocation::Refusal;
    use crate::allocation::claim::{LostAddress, MarkWrite};

    fn text(decision: Decision) -> VerdictText {
        describe(&Verdict::Next(decision), |id| {
            (id.as_str() == "known").then(|| "203.0.113.10".parse().expect("an address"))
        })
    }

    #[test]
    fn a_refusal_is_told_in_its_own_words() {
        let refusal = Refusal::LimitReached(3);
        assert_eq!(text(Decision::Refuse(refusal.clone())).why, refusal.to_string());
        let loss = LostAddress::Deleted("203.0.113.10".parse().expect("an address"));
        assert_eq!(text(Decision::Lost(loss.clone())), VerdictText { why: loss.to_string(), next: None });
    }

    #[test]
    fn an_address_is_named_and_an_unknown_one_by_its_id() {
        let mark = |id: &str| Decision::Mark(FloatingIpId::new(id), Origin::List, MarkWrite::Tag("t".into()));
        assert_eq!(text(mark("known")).why, "203.0.113.10 is available (from the pool's list)");
        assert_eq!(text(mark("gone")).why, "gone is available (from the pool's list)");
    }

    #[test]
    fn a_claim_that_is_left_alone_says_what_it_waits_for() {
        let text = |reason| describe(&Verdict::Due(NextStep::Skip(reason)), |_| None);
        assert!(text(SkipReason::PausedCluster).next.is_some_and(|next| next.contains("Cluster")));
        assert!(text(SkipReason::HeldByFinalizer("capo/ip-claim".into())).why.contains("capo/ip-claim"));
        assert_eq!(text(SkipReason::UnknownPool).next, None);
    }
}
