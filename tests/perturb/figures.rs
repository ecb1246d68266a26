//! The figures of a run: `docs/guarantees.md` has those of the last complete one.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::plan::{Class, Derivation};
use super::run::Outcome;
use super::workloads::Workload;

#[derive(Clone, Copy, Default)]
struct Row {
    generated: usize,
    pruned: usize,
    run: usize,
    not_reached: usize,
    failed: usize,
}

#[derive(Default)]
pub struct Figures {
    rows: BTreeMap<(Workload, Class), Row>,
    seconds: u64,
    /// What the perturbations did.
    effects: BTreeMap<String, usize>,
    problems: Vec<String>,
}

impl Figures {
    pub fn add(&mut self, workload: Workload, plans: &Derivation, outcomes: &BTreeMap<String, (Outcome, u64)>) {
        for class in Class::ALL {
            let row = self.rows.entry((workload, class)).or_default();
            row.generated = plans.generated.get(&class).copied().unwrap_or_default();
            row.pruned = row.generated - plans.plans.iter().filter(|plan| plan.class() == class).count();
        }
        for plan in &plans.plans {
            let id = plan.to_string();
            let Some((outcome, seconds)) = outcomes.get(&id) else { continue };
            let row = self.rows.entry((workload, plan.class())).or_default();
            row.run += 1;
            self.seconds += seconds;
            match outcome {
                Outcome::Passed(effect) => *self.effects.entry(effect.clone()).or_default() += 1,
                Outcome::NotReached => {
                    row.not_reached += 1;
                    self.problems.push(format!("not reached: {id}"));
                }
                Outcome::Failed(reason) => {
                    row.failed += 1;
                    self.problems.push(format!("FAILED: {id}: {reason}"));
                }
            }
        }
    }

    pub fn print(&self) {
        let mut text = String::new();
        let mut line = |name: &str, class: &str, row: &Row| {
            let Row { generated, pruned, run, not_reached, failed } = row;
            let _ = writeln!(text, "{name:16} {class:10} {generated:9} {pruned:6} {run:5} {not_reached:11} {failed:6}");
        };
        for ((workload, class), row) in &self.rows {
            line(workload.name(), class.name(), row);
        }
        for class in Class::ALL {
            let of_class = self.rows.iter().filter(|((_, other), _)| *other == class).map(|(_, row)| row);
            let sum = of_class.fold(Row::default(), |sum, row| Row {
                generated: sum.generated + row.generated,
                pruned: sum.pruned + row.pruned,
                run: sum.run + row.run,
                not_reached: sum.not_reached + row.not_reached,
                failed: sum.failed + row.failed,
            });
            line("all", class.name(), &sum);
        }
        eprintln!("workload         class      generated pruned   run not reached failed\n{text}");
        eprintln!("effects: {:?}; the runs lasted {} s in total", self.effects, self.seconds);
        self.problems.iter().for_each(|problem| eprintln!("{problem}"));
    }

    pub fn failures(&self) -> usize {
        self.rows.values().map(|row| row.failed).sum()
    }

    /// Whether plans ran, and the moments of most of them came: else the perturbations miss what they are meant for.
    pub fn reached_most(&self) -> bool {
        let (run, missed) =
            self.rows.values().fold((0, 0), |(run, missed), row| (run + row.run, missed + row.not_reached));
        missed * 2 < run
    }
}
