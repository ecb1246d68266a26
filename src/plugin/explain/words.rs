//! What a verdict means, in words for whoever waits for a machine.

use std::net::IpAddr;

use crate::allocation::claim::{Decision, Origin};
use crate::controllers::inspect::{NextStep, SkipReason, Verdict};
use crate::floating_ip::FloatingIpId;

/// A verdict in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Said {
    pub(super) why: String,
    pub(super) next: Option<String>,
}

/// Puts a verdict into words; `address` knows the addresses of floating IPs.
pub(super) fn of(verdict: &Verdict, address: impl Fn(&FloatingIpId) -> Option<IpAddr>) -> Said {
    let named = |id: &FloatingIpId| address(id).map_or_else(|| id.to_string(), |address| address.to_string());
    let says = |why: &str| Said { why: why.into(), next: None };
    let does = |why: String, next: &str| Said { why, next: Some(next.into()) };
    match verdict {
        Verdict::Foreign(message) => says(message),
        Verdict::Due(course) => due(course),
        Verdict::Next(decision) => match decision {
            Decision::Keep(id) => says(&format!("{} carries its mark, and is its own for certain", named(id))),
            Decision::Mark(id, Origin::Recovered, _) => does(
                format!("{} is its own, but the mark is not as it should be", named(id)),
                "the mark is written again",
            ),
            Decision::Mark(id, origin, _) => does(
                format!("{} is to be had ({})", named(id), source(*origin)),
                "the controller marks it and publishes it",
            ),
            Decision::TakeBack(id, _) => {
                does(format!("a claim of its name gave {} back a moment ago", named(id)), "it is taken back")
            }
            Decision::Confirm(id) => {
                does(format!("{} is marked for it", named(id)), "it is looked at once more, and published")
            }
            Decision::Withdraw(id, _) => does(
                format!("{} carries its mark beside another owner's, or has a port that is not its own", named(id)),
                "its mark comes off, and another address is chosen",
            ),
            Decision::Create(..) => does(
                "there is no free address, and the pool may create one".into(),
                "the controller asks Neutron for a new one; what Neutron said to that last is below, if it refused",
            ),
            Decision::Settle => does("the outcome of a call is not known yet".into(), "the controller looks again"),
            Decision::Fenced(until) => {
                does(format!("calls of a previous controller may still land until {until}"), "it is decided then")
            }
            Decision::Refuse(refusal) => {
                does(refusal.to_string(), "it is served by itself when there is one, oldest first")
            }
            Decision::Lost(loss) => says(&loss.to_string()),
        },
    }
}

fn due(course: &NextStep) -> Said {
    let (why, next) = match course {
        NextStep::Leave(left) => (left.to_string(), left_alone(left).map(str::to_owned)),
        NextStep::Tell(_, message) => (message.clone(), None),
        NextStep::Release => {
            ("it is being deleted, and nobody else needs it".into(), Some("its address is given back".into()))
        }
        NextStep::GiveUp(message) => (message.clone(), Some("what was marked for it is given back".into())),
        NextStep::Recover => (
            "its IPAddress was deleted, and its pool is being deleted".into(),
            Some("the IPAddress comes back with the address that it had".into()),
        ),
        NextStep::Serve => ("it is to be served".into(), Some("the controller looks at its pool first".into())),
    };
    Said { why, next }
}

fn left_alone(left: &SkipReason) -> Option<&'static str> {
    match left {
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

fn source(origin: Origin) -> &'static str {
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

    fn said(decision: Decision) -> Said {
        of(&Verdict::Next(decision), |id| (id.as_str() == "known").then(|| "203.0.113.10".parse().expect("an address")))
    }

    #[test]
    fn a_refusal_is_told_in_its_own_words() {
        let refusal = Refusal::LimitReached(3);
        assert_eq!(said(Decision::Refuse(refusal.clone())).why, refusal.to_string());
        let loss = LostAddress::Deleted("203.0.113.10".parse().expect("an address"));
        assert_eq!(said(Decision::Lost(loss.clone())), Said { why: loss.to_string(), next: None });
    }

    #[test]
    fn an_address_is_named_and_an_unknown_one_by_its_id() {
        let mark = |id: &str| Decision::Mark(FloatingIpId::new(id), Origin::List, MarkWrite::Tag("t".into()));
        assert_eq!(said(mark("known")).why, "203.0.113.10 is to be had (from the pool's list)");
        assert_eq!(said(mark("gone")).why, "gone is to be had (from the pool's list)");
    }

    #[test]
    fn a_claim_that_is_left_alone_says_what_it_waits_for() {
        let left = |left| of(&Verdict::Due(NextStep::Leave(left)), |_| None);
        assert!(left(SkipReason::PausedCluster).next.is_some_and(|next| next.contains("Cluster")));
        assert!(left(SkipReason::Held("capo/ip-claim".into())).why.contains("capo/ip-claim"));
        assert_eq!(left(SkipReason::Unknown).next, None);
    }
}
