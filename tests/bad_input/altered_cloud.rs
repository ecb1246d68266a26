//! Unusual clouds: the real one behind a proxy that changes its answers.

use serde_json::Value;

use crate::support::{Fault, NEUTRON};

/// The project sees only the networks with these names.
pub(super) fn only_networks(names: &'static [&'static str]) -> [Fault; 1] {
    [Fault::edited("GET networks", |body| keep(body, "networks", |row| names.iter().any(|name| row["name"] == **name)))]
}

/// Neutron without tags, as before 2018 or with the service plug-in disabled.
pub(super) fn no_tags() -> [Fault; 3] {
    let edit = |body: &mut Value| {
        let of_tags = ["standard-attr-tag", "tag-creation"];
        keep(body, "extensions", |row| of_tags.iter().all(|alias| row["alias"] != **alias));
        let untag = |row: &mut Value| drop(row.as_object_mut().map(|row| row.remove("tags")));
        body.get_mut("floatingips").and_then(Value::as_array_mut).into_iter().flatten().for_each(untag);
        body.get_mut("floatingip").into_iter().for_each(untag);
    };
    let of_tags = ["PUT floatingips/ID/tags/TAG", "DELETE floatingips/ID/tags/TAG"].map(|call| Fault::page(call, 404));
    let [put, delete] = of_tags;
    [put, delete, Fault::edited(NEUTRON, edit)]
}

fn keep(body: &mut Value, rows: &str, which: impl Fn(&Value) -> bool) {
    if let Some(rows) = body.get_mut(rows).and_then(Value::as_array_mut) {
        rows.retain(which);
    }
}
