//! docs/monitoring.md describes the metrics correctly.

use std::collections::BTreeMap;

use super::families::{Family, families};
use super::{is_metric, text};

/// Kind and labels of the documented metrics, by name.
fn documented() -> BTreeMap<String, Family> {
    let document = text("docs/monitoring.md");
    let rows = document.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split('|').map(str::trim);
        let name = cells.next()?.strip_suffix('`')?.to_owned();
        let (kind, labels) = (cells.next()?.to_owned(), cells.next()?);
        let labels = labels.split(", ").filter(|label| !label.is_empty()).map(str::to_owned).collect();
        is_metric(&name).then_some((name, Family { kind, labels }))
    });
    rows.collect()
}

#[test]
fn the_documented_metrics_are_those_that_the_program_exposes() {
    let (written, shown) = (documented(), families());
    let names = |all: &BTreeMap<String, Family>| all.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&written), names(&shown));
    for (name, family) in &shown {
        assert_eq!(&written[name], family, "{name}");
    }
}
