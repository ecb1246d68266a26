//! What the controllers' verdict on a claim means, in words for the user.

use std::net::IpAddr;

use crate::allocation::claim::{Decision, Origin};
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
        Decision::Keep(id) => (format!("{} carries its mark, and is its own for certain", name(id)), None),
        Decision::Mark(id, Origin::Recovered, _) => {
            (format!("{} is its own, but the mark is not as it should be", name(id)), Some("the mark is written again"))
        }
        Decision::Mark(id, origin, _) => (
            format!("{} is to be had ({})", name(id), describe_origin(*origin)),
            Some("the controller marks it and publishes it"),
        ),
        Decision::TakeBack(id, _) => {
            (format!("a claim of its name gave {} back a moment ago", name(id)), Some("it is taken back"))
        }
        Decision::Confirm(id) => {
            (format!("{} is marked for it", name(id)), Some("it is looked at once more, and published"))
        }
        Decision::Withdraw(id, _) => (
            format!("{} carries its mark beside another owner's, or has a port that is not its own", name(id)),
            Some("its mark comes off, and another address is chosen"),
        ),
        Decision::Create(..) => (
            "there is no free address, and the pool may create one".into(),
            Some("the controller asks Neutron for a new one; what Neutron said to that last is below, if it refused"),
        ),
        Decision::Settle => ("the outcome of a call is not known yet".into(), Some("the controller looks again")),
        Decision::Fenced(until) => {
            (format!("calls of a previous controller may still land until {until}"), Some("it is decided then"))
        }
        Decision::Refuse(refusal) => {
            (refusal.to_string(), Some("it is served by itself when there is one, oldest first"))
        }
        Decision::Lost(loss) => (loss.to_string(), None),
    };
    VerdictText::new(why, next)
}

fn describe_step(step: &NextStep) -> VerdictText {
    match step {
        NextStep::Leave(reason) => VerdictText::new(reason.to_string(), end_of_wait(reason)),
        NextStep::Tell(_, message) => VerdictText::new(message, None),
        NextStep::Release => {
            VerdictText::new("it is being deleted, and nobody else needs it", Some("its address is given back"))
        }
        NextStep::GiveUp(message) => VerdictText::new(message, Some("what was marked for it is given back")),
        NextStep::Recover => VerdictText::new(
            "its IPAddress was deleted, and its pool is being deleted",
            Some("the IPAddress comes back with the address that it had"),
        ),
        NextStep::Serve => VerdictText::new("it is to be served", Some("the controller looks at its pool first")),
    }
}

/// What must happen before the controller continues with a claim that it skips.
fn end_of_wait(reason: &SkipReason) -> Option<&'static str> {
    match reason {
        SkipReason::NotOurs => Some("another provider serves it, by the group and kind of its poolRef"),
        SkipReason::PausedCluster => Some("nothing until spec.paused and the paused annotation are off the Cluster"),
        SkipReason::PausedClaim | SkipReason::PausedPool => Some("nothing until the annotation is taken off"),
        SkipReason::Moving => Some("nothing here; the other management cluster goes on with it"),
        SkipReason::Filtered => Some("nothing by this controller; the pool's label says which one serves it"),
        SkipReason::Held(_) => {
            Some("its address is given back when that finalizer is off: CAPO takes its own off with the VM")
        }
        SkipReason::LetGo | SkipReason::Bound(_) | SkipReason::Published | SkipReason::Unknown => None,
    }
}

fn describe_origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Recovered => "it was its own already",
        Origin::Reserved => "reserved for it",
        Origin::List => "from the pool's list",
        Origin::Owned => "the pool has it ready",
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
        assert_eq!(text(mark("known")).why, "203.0.113.10 is to be had (from the pool's list)");
        assert_eq!(text(mark("gone")).why, "gone is to be had (from the pool's list)");
    }

    #[test]
    fn a_claim_that_is_left_alone_says_what_it_waits_for() {
        let text = |reason| describe(&Verdict::Due(NextStep::Leave(reason)), |_| None);
        assert!(text(SkipReason::PausedCluster).next.is_some_and(|next| next.contains("Cluster")));
        assert!(text(SkipReason::Held("capo/ip-claim".into())).why.contains("capo/ip-claim"));
        assert_eq!(text(SkipReason::Unknown).next, None);
    }
}
