//! What is asked for, beside what was measured.

use serde::Serialize;

#[derive(Clone, Serialize)]
pub struct Requirement {
    what: String,
    asked: String,
    measured: f64,
    pub is_met: bool,
}

impl Requirement {
    pub fn at_most(what: impl Into<String>, most: f64, measured: f64) -> Self {
        Self { what: what.into(), asked: format!("<= {most}"), measured, is_met: measured <= most }
    }

    pub fn at_least(what: impl Into<String>, least: f64, measured: f64) -> Self {
        Self { what: what.into(), asked: format!(">= {least}"), measured, is_met: measured >= least }
    }
}

/// Prints a table. Returns whether all are met.
pub fn print_requirements(requirements: &[Requirement]) -> bool {
    println!("{:<64} {:>10} {:>10}", "", "asked", "measured");
    for Requirement { what, asked, measured, is_met } in requirements {
        println!("{what:<64} {asked:>10} {measured:>10.2}  {}", if *is_met { "PASS" } else { "MISS" });
    }
    requirements.iter().all(|requirement| requirement.is_met)
}
