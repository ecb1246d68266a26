//! What may differ between a pool that was edited and one that was created with the same spec, and why. Every other
//! difference fails the test.

use std::collections::BTreeSet;

use super::observation::Facts;

/// One fact that is not the same.
pub struct Difference {
    pub what: String,
    pub edited: String,
    pub created: String,
}

/// Why a difference is right.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Excuse {
    /// A pool that cannot serve does not look at its addresses. What its status said of them before stays, and so does its
    /// ConfigMap of them; of a new pool they say nothing.
    FiguresOfBefore,
    /// The Secret is missing or its content is wrong. A session that was opened before goes on working for what its claims
    /// release; without one, they wait.
    SessionOfBefore,
}

impl Difference {
    /// The differences, each with its excuse if it has one.
    pub fn between(edited: &Facts, created: &Facts) -> Vec<(Self, Option<Excuse>)> {
        let fact = |facts: &Facts, what: &String| facts.get(what).cloned().unwrap_or_default();
        let all: BTreeSet<&String> = edited.keys().chain(created.keys()).collect();
        let differing = all.into_iter().filter(|what| edited.get(*what) != created.get(*what)).map(|what| {
            let (edited, created) = (fact(edited, what), fact(created, what));
            Self { what: what.clone(), edited, created }
        });
        differing
            .map(|difference| {
                let excuse = difference.excuse(created);
                (difference, excuse)
            })
            .collect()
    }

    fn excuse(&self, created: &Facts) -> Option<Excuse> {
        let is_true = |condition: &str| created.get(condition).is_some_and(|status| status.starts_with("True"));
        let is_about_status = STATUS.contains(&self.what.as_str())
            || ["condition ", "ConfigMap "].iter().any(|part| self.what.starts_with(part));
        let is_left_over = ["", "null"].contains(&self.created.as_str());
        let is_about_release = self.what.starts_with("released ") || self.what.ends_with(" is gone");
        match () {
            () if is_about_status && is_left_over && !is_true("condition Ready") => Some(Excuse::FiguresOfBefore),
            () if is_about_release && !is_true("condition CredentialsValid") => Some(Excuse::SessionOfBefore),
            () => None,
        }
    }
}

/// The parts of a status that only a pool that serves writes.
const STATUS: [&str; 4] = ["addresses", "network", "failed", "poolID"];
