//! What the generated requests were answered: a comparison says little about what was never asked.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter, Result};

use super::request::Verb;
use crate::memory_api::Kind;

#[derive(Default)]
pub struct Coverage(BTreeMap<(Kind, &'static str), BTreeMap<u16, usize>>);

impl Coverage {
    pub fn add(&mut self, kind: Kind, verb: Verb, code: u16) {
        *self.0.entry((kind, name(verb))).or_default().entry(code).or_default() += 1;
    }

    pub fn merge(&mut self, other: &Self) {
        for (what, codes) in &other.0 {
            for (code, count) in codes {
                *self.0.entry(*what).or_default().entry(*code).or_default() += count;
            }
        }
    }

    pub fn total(&self) -> usize {
        self.0.values().flat_map(BTreeMap::values).sum()
    }

    pub fn by_code(&self) -> BTreeMap<u16, usize> {
        let mut codes = BTreeMap::new();
        for (code, count) in self.0.values().flatten() {
            *codes.entry(*code).or_default() += count;
        }
        codes
    }
}

fn name(verb: Verb) -> &'static str {
    match verb {
        Verb::Create => "create",
        Verb::Get => "get",
        Verb::List(_) | Verb::NextPage(_) | Verb::ListMetadata => "list",
        Verb::Patch => "patch",
        Verb::PatchStatus => "patch status",
        Verb::Update => "update",
        Verb::Delete => "delete",
    }
}

impl Display for Coverage {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for ((kind, verb), codes) in &self.0 {
            let kind = format!("{kind:?}");
            let codes: Vec<String> = codes.iter().map(|(code, count)| format!("{code}: {count}")).collect();
            writeln!(f, "{kind:10} {verb:12} {}", codes.join(", "))?;
        }
        write!(f, "all {}: {:?}", self.total(), self.by_code())
    }
}
