//! What a pool has to do beside its claims, and fails at: releasing and creating addresses, tags, knowing what is in use.

use std::collections::BTreeMap;

use super::Problem;

/// How many sweeps must fail before the pool's condition says so, without one in between that left nothing to do. A cloud
/// that fails now and then would otherwise change the condition each time.
const FAILED_SWEEPS: u32 = 3;

/// A part of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::controllers) enum UpkeepPart {
    /// What a sweep does with released addresses, orphans and spares.
    Sweep,
    /// The tags of `spec.tags`.
    Tags,
    /// Reading what CAPO's clusters name, which `spec.reuse` needs.
    Clusters,
}

/// The parts that fail.
#[derive(Clone, Default)]
pub(in crate::controllers) struct Upkeep {
    failed_sweeps: u32,
    problems: BTreeMap<UpkeepPart, Problem>,
}

impl Upkeep {
    /// What the part failed with, if it did. Returns whether the pool's condition changes.
    pub(in crate::controllers) fn note(&mut self, part: UpkeepPart, problem: Option<Problem>) -> bool {
        if part == UpkeepPart::Sweep {
            self.failed_sweeps = if problem.is_some() { self.failed_sweeps.saturating_add(1) } else { 0 };
        }
        let is_passing = part == UpkeepPart::Sweep && self.failed_sweeps < FAILED_SWEEPS;
        let before = self.problem().cloned();
        match problem.filter(|_| !is_passing) {
            Some(problem) => self.problems.insert(part, problem),
            None => self.problems.remove(&part),
        };
        before.as_ref() != self.problem()
    }

    pub(in crate::controllers) fn problem_of(&self, part: UpkeepPart) -> Option<&Problem> {
        self.problems.get(&part)
    }

    /// The first of the problems.
    pub(in crate::controllers) fn problem(&self) -> Option<&Problem> {
        self.problems.values().next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(message: &str) -> Problem {
        Problem { reason: "OpenStackRefused", message: message.to_owned() }
    }

    #[test]
    fn a_sweep_that_fails_now_and_then_is_not_reported() {
        let (mut upkeep, failed) = (Upkeep::default(), || Some(problem("no")));
        let mut note = |problem| upkeep.note(UpkeepPart::Sweep, problem);
        assert_eq!([note(failed()), note(failed()), note(None), note(failed()), note(failed())], [false; 5]);
        assert!(note(failed()), "three in a row");
        assert!(!note(failed()), "the same");
        assert!(note(Some(problem("not now"))) && note(None));
        assert_eq!([note(failed()), note(failed())], [false; 2]);
        assert!(upkeep.problem().is_none());
    }

    #[test]
    fn what_a_sweep_fails_at_comes_first() {
        let mut upkeep = Upkeep::default();
        assert!(upkeep.note(UpkeepPart::Tags, Some(problem("tags"))), "these are tried seldom");
        assert!((0..3).any(|_| upkeep.note(UpkeepPart::Sweep, Some(problem("sweep")))));
        assert_eq!(upkeep.problem(), Some(&problem("sweep")));
        assert!(!upkeep.note(UpkeepPart::Tags, None), "the condition stays");
        assert!(upkeep.note(UpkeepPart::Sweep, None) && upkeep.problem().is_none());
    }
}
