//! Plans: one perturbation of one workload each, derived from the trace of an undisturbed run. As in Sieve (OSDI '22).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::trace::{Entry, Point, changes};
use super::workloads::Workload;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    Crash,
    Unobserved,
    Stale,
}

impl Class {
    pub const ALL: [Self; 3] = [Self::Crash, Self::Unobserved, Self::Stale];

    pub fn name(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::Unobserved => "unobserved",
            Self::Stale => "stale",
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Perturbation {
    /// The controller is killed when a server has done this write, before it gets the answer. Another one follows.
    Crash { at: Point },
    /// This event is not delivered. It is dropped when a later event of its object is, or else delivered late.
    Unobserved { event: Point },
    /// When a server has done this write, the view of a kind goes back to what it was before.
    Stale { at: Point, resource: String, age: Age, how: How },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Age {
    /// Before the latest change.
    OneChange,
    /// When the workload began.
    Beginning,
}

/// How a view is turned back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// The controller is killed, and its successor lists the older state.
    Restart,
    /// The watch breaks, and the controller lists the older state. No API server does that, since the controller's lists
    /// are quorum reads; one whose etcd was restored from a backup does.
    Relist,
}

/// In the order of the identifiers' parts.
const AGES: [(Age, &str); 2] = [(Age::OneChange, "one-change"), (Age::Beginning, "beginning")];
const WAYS: [(How, &str); 2] = [(How::Restart, "restart"), (How::Relist, "relist")];

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    pub workload: Workload,
    pub perturbation: Perturbation,
}

impl Plan {
    pub fn class(&self) -> Class {
        match self.perturbation {
            Perturbation::Crash { .. } => Class::Crash,
            Perturbation::Unobserved { .. } => Class::Unobserved,
            Perturbation::Stale { .. } => Class::Stale,
        }
    }
}

/// Its stable identifier, such as `bind/crash/PATCH-ipaddressclaims-web-0#2`.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/", self.workload.name(), self.class().name())?;
        match &self.perturbation {
            Perturbation::Crash { at } | Perturbation::Unobserved { event: at } => write!(f, "{at}"),
            Perturbation::Stale { at, resource, age, how } => {
                let age = AGES.iter().find(|(each, _)| each == age).map_or("", |(_, name)| name);
                let how = WAYS.iter().find(|(each, _)| each == how).map_or("", |(_, name)| name);
                write!(f, "{}-{age}-{how}/{at}", resource.replace(':', "-"))
            }
        }
    }
}

/// The plans for a workload.
#[derive(Default)]
pub struct Derivation {
    /// How many there are of each class before pruning.
    pub generated: BTreeMap<Class, usize>,
    pub plans: Vec<Plan>,
}

impl Derivation {
    pub fn of(workload: Workload, trace: &[Entry]) -> Self {
        let begin = trace.iter().position(|entry| matches!(entry, Entry::Begin)).map_or(0, |begin| begin + 1);
        let mut derivation = Self::default();
        for at in begin..trace.len() {
            let (seen, entry) = (&trace[..=at], &trace[at]);
            let candidates = match entry {
                Entry::Begin => Vec::new(),
                Entry::Write { point, .. } => {
                    let crash = (Perturbation::Crash { at: point.clone() }, is_seen(entry));
                    [vec![crash], stale_views(seen, &watched(trace), point)].concat()
                }
                Entry::Delivered { point, .. } if point.what.starts_with("LISTED") => Vec::new(),
                Entry::Delivered { point, .. } => {
                    vec![(Perturbation::Unobserved { event: point.clone() }, is_distinct(trace, at))]
                }
            };
            for (perturbation, can_differ) in candidates {
                derivation.add(Plan { workload, perturbation }, can_differ);
            }
        }
        derivation
    }

    fn add(&mut self, plan: Plan, can_differ: bool) {
        *self.generated.entry(plan.class()).or_default() += 1;
        if can_differ {
            self.plans.push(plan);
        }
    }
}

/// Whether a write changed something that a controller may read: Events are only for people.
fn is_seen(entry: &Entry) -> bool {
    matches!(entry, Entry::Write { point, is_effective: true, .. } if !point.what.ends_with("events"))
}

/// Whether a delivered object differs from what was delivered of it before and after.
fn is_distinct(trace: &[Entry], at: usize) -> bool {
    let Some(version) = trace[at].version() else { return false };
    let delivered = |entry: &&Entry| {
        matches!(entry, Entry::Delivered { version: other, .. }
            if other.object == version.object && other.resource == version.resource)
    };
    let before = trace[..at].iter().rev().find(delivered);
    let after = trace[at + 1..].iter().find(delivered);
    let is_same = |entry: &Entry| entry.version().is_some_and(|other| other.digest == version.digest);
    ![before, after].into_iter().flatten().any(is_same)
}

/// The kinds that the controller watches, as far as there are objects of them.
fn watched(trace: &[Entry]) -> BTreeSet<&str> {
    let delivered = trace.iter().filter(|entry| matches!(entry, Entry::Delivered { .. }));
    delivered.filter_map(|entry| Some(entry.version()?.resource.as_str())).collect()
}

/// Every older view at a write, and whether it differs from the present one and from the other.
fn stale_views(seen: &[Entry], resources: &BTreeSet<&str>, at: &Point) -> Vec<(Perturbation, bool)> {
    let is_effective = seen.last().is_some_and(is_seen);
    let mut views = Vec::new();
    let is_of_target = |text: &str| text.contains("to:");
    // Of the management cluster that it is in; a write to Neutron may be of either.
    let is_near =
        |resource: &&&str| at.what.contains("floatingips/") || is_of_target(resource) == is_of_target(&at.what);
    for resource in resources.iter().filter(is_near) {
        let count = changes(seen, resource).len();
        for (age, _) in AGES {
            let differs = is_effective && if age == Age::OneChange { count > 0 } else { count > 1 };
            for (how, _) in WAYS {
                let (at, resource) = (at.clone(), (*resource).to_owned());
                views.push((Perturbation::Stale { at, resource, age, how }, differs));
            }
        }
    }
    views
}
