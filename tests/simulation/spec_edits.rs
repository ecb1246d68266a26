//! Pools are edited as their users may edit them: each property of the spec to each kind of value, every ordered pair of
//! such edits, and each edit made, followed by another, and made again.
//!
//! Within a minute an edited pool is as one that was created with that spec: its conditions and figures, its claims and
//! its floating IPs are the same, and so is what it decides next. Claims that have an address keep it. So a history is
//! played twice: once its last step is an edit, once the pool is created with the edited spec, with the same addresses
//! and under controllers that remember nothing.
//!
//! | file | what is in it |
//! |---|---|
//! | [`properties`] | the properties, from the CRD's schema |
//! | [`values`] | the edits of each property |
//! | [`admission`] | what the API server refuses |
//! | [`setting`] | the pool before the first edit, and how it is edited |
//! | [`observation`] | what is compared |
//! | [`differences`] | what may differ, and why |

mod admission;
mod differences;
mod observation;
mod properties;
mod setting;
mod values;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::objects::merge;
use crate::world::Start;
use crate::{is_due, simulate};
use admission::{REUSE_RULES, RULES, is_admitted};
use differences::{Difference, Excuse};
use observation::{Facts, Observer};
use setting::{Ids, Setting, first_spec};
use values::{Edit, IMMUTABLE, Sort, edits};

const START: Start = Start { seed: 11, sites: 1, replicas: 1, slowest: 20, is_logged: false };
/// An edit takes effect within this time.
const MINUTE: Duration = Duration::from_secs(60);
/// The controllers restart, wait until no call of their predecessor can land, and look for orphans twice.
const BEGINS_WITHIN: Duration = Duration::from_secs(180);
/// A plain run compares one of so many states after single edits, and of those after two.
const SHARE_OF_SINGLE: u64 = 11;
const SHARE_OF_PAIRS: u64 = 211;

/// How a pool gets its last spec.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastStep {
    Edit,
    Create,
}

/// Gives a pool these specs one after the other, and returns what is seen then.
fn play(specs: &[Value], last_step: LastStep) -> Facts {
    let facts = RefCell::new(Facts::new());
    let outcome = simulate(&START, async |world| {
        // Up to 1,024 spares are created at once.
        world.witness.rates().lift_limit();
        let Some(setting) = Setting::prepare(world).await else { return };
        let (last, before) = specs.split_last().unwrap();
        for spec in before {
            setting.edit(spec);
            world.advance(MINUTE).await;
        }
        let mut observer = Observer::new(&setting);
        match last_step {
            LastStep::Edit => {
                setting.edit(last);
                world.advance(MINUTE).await;
            }
            LastStep::Create => {
                setting.create_again(last);
                world.advance(BEGINS_WITHIN).await;
            }
        }
        observer.look();
        observer.ask().await;
        observer.release().await;
        world.judge(false);
        facts.replace(observer.facts);
    });
    assert!(outcome.violations.is_empty(), "{specs:#?}: {:?}", outcome.violations);
    facts.into_inner()
}

/// What the edits are made from.
struct Catalogue {
    schema: Value,
    edits: Vec<Edit>,
}

impl Catalogue {
    fn new() -> Self {
        let ids: RefCell<Option<Ids>> = RefCell::default();
        simulate(&START, async |world| {
            world.witness.rates().lift_limit();
            ids.replace(Setting::prepare(world).await.map(|setting| setting.ids));
        })
        .assert_lawful();
        let schema = properties::schema();
        let edits = edits(&ids.into_inner().unwrap(), &properties::optional(&schema));
        Self { schema, edits }
    }

    /// The spec after an edit; none if the API server refuses it, or nothing changes.
    fn edited(&self, spec: &Value, edit: &Edit) -> Option<Value> {
        let mut edited = spec.clone();
        merge(&mut edited, &edit.patch);
        (edited != *spec && is_admitted(&self.schema, &edited)).then_some(edited)
    }
}

/// Counts what was compared.
#[derive(Default)]
struct Figures {
    states: usize,
    compared: usize,
    excused: BTreeMap<Excuse, usize>,
    unexplained: Vec<String>,
}

impl Figures {
    /// Compares the state after these specs, if it is due.
    fn compare(&mut self, name: &str, specs: &[Value], share: u64) {
        self.states += 1;
        if !is_due(self.states - 1, share) {
            return;
        }
        self.compared += 1;
        let (edited, created) = (play(specs, LastStep::Edit), play(specs, LastStep::Create));
        for (difference, excuse) in Difference::between(&edited, &created) {
            let Difference { what, edited, created } = difference;
            match excuse {
                Some(excuse) => *self.excused.entry(excuse).or_default() += 1,
                None => self.unexplained.push(format!("{name}: {what}\n  edited:  {edited}\n  created: {created}")),
            }
        }
    }

    fn report(&self, what: &str, began: Instant) {
        let Self { states, compared, excused, unexplained } = self;
        let took = began.elapsed().as_secs_f64();
        println!("{what}: {compared} of {states} states compared, excused differences {excused:?}, {took:.1} s");
        assert!(*compared > 0, "no state was compared");
        let some: Vec<&str> = unexplained.iter().take(40).map(String::as_str).collect();
        assert!(some.is_empty(), "{} differences without an excuse:\n{}", unexplained.len(), some.join("\n"));
    }
}

fn name(edit: &Edit) -> String {
    format!("{} {:?} {}", edit.property, edit.sort, edit.patch)
}

#[test]
fn every_property_of_the_spec_has_edits() {
    let catalogue = Catalogue::new();
    let mut edited: BTreeSet<String> = IMMUTABLE.iter().map(|property| (*property).to_owned()).collect();
    let with_value = catalogue.edits.iter().filter(|edit| edit.sort != Sort::Removed);
    edited.extend(with_value.map(|edit| edit.property.clone()));
    assert_eq!(edited, properties::leaves(&catalogue.schema), "a property without edits, or edits without a property");
    let mut by_sort: BTreeMap<Sort, usize> = BTreeMap::new();
    for edit in &catalogue.edits {
        *by_sort.entry(edit.sort).or_default() += 1;
        let mut spec = first_spec();
        merge(&mut spec, &edit.patch);
        // Other properties may need one that is removed.
        let is_possible = edit.sort == Sort::Removed || is_admitted(&catalogue.schema, &spec);
        assert!(is_possible, "the API server refuses {}", name(edit));
    }
    println!("{} edits of {} properties: {by_sort:?}", catalogue.edits.len(), edited.len());
}

#[test]
fn every_rule_across_fields_is_stated() {
    let stated: BTreeSet<String> = RULES.iter().chain(&REUSE_RULES).map(|(message, _)| (*message).to_owned()).collect();
    assert_eq!(stated, properties::rules_across_fields(&properties::schema()));
}

#[test]
fn after_each_edit_a_pool_is_as_one_created_that_way() {
    let (began, catalogue, mut figures) = (Instant::now(), Catalogue::new(), Figures::default());
    for edit in &catalogue.edits {
        if let Some(spec) = catalogue.edited(&first_spec(), edit) {
            figures.compare(&name(edit), std::slice::from_ref(&spec), SHARE_OF_SINGLE);
            figures.compare(&format!("{}, and back", name(edit)), &[spec, first_spec()], SHARE_OF_SINGLE);
        }
    }
    figures.report("single edits, and those that are undone at once", began);
}

#[test]
fn after_each_pair_of_edits_a_pool_is_as_one_created_that_way() {
    let (began, catalogue, mut figures) = (Instant::now(), Catalogue::new(), Figures::default());
    for_each_pair(&catalogue, |name, once, twice| figures.compare(name, &[once, twice], SHARE_OF_PAIRS));
    figures.report("ordered pairs", began);
}

#[test]
fn after_an_edit_that_is_undone_a_pool_is_as_one_created_that_way() {
    let (began, catalogue, mut figures) = (Instant::now(), Catalogue::new(), Figures::default());
    for_each_pair(&catalogue, |name, once, twice| {
        figures.compare(&format!("{name}, and back"), &[once.clone(), twice, once], SHARE_OF_PAIRS);
    });
    figures.report("edits that are undone after another", began);
}

/// The network is full of spares, which are deleted again: nothing is used up any more.
#[test]
fn what_neutron_refused_before_an_edit_is_not_said_after_it() {
    let spec = |count: usize| {
        let mut spec = first_spec();
        spec["minFree"] = count.into();
        spec
    };
    let (began, mut figures) = (Instant::now(), Figures::default());
    figures.compare("minFree 1024, then 0", &[spec(1024), spec(0)], 1);
    figures.report("a refusal", began);
}

/// Neutron has only addresses that are excluded, and nothing but a spare asks for one.
#[test]
fn what_neutron_offers_for_a_spare_is_said_within_a_minute() {
    let mut excluding = first_spec();
    excluding["excludedAddresses"] = json!(["0.0.0.0/0"]);
    let mut with_spare = excluding.clone();
    with_spare["minFree"] = 1.into();
    let (began, mut figures) = (Instant::now(), Figures::default());
    figures.compare("everything is excluded, then minFree 1", &[excluding, with_spare], 1);
    figures.report("offers for a spare", began);
}

/// Every ordered pair of edits that the API server accepts, with the specs after the first and the second.
fn for_each_pair(catalogue: &Catalogue, mut act: impl FnMut(&str, Value, Value)) {
    for one in &catalogue.edits {
        let Some(once) = catalogue.edited(&first_spec(), one) else { continue };
        for other in &catalogue.edits {
            if let Some(twice) = catalogue.edited(&once, other) {
                act(&format!("{}, then {}", name(one), name(other)), once.clone(), twice);
            }
        }
    }
}
