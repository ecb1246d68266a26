//! Clouds that are not like others: the real ones by a wire that changes what they say.

use serde_json::Value;

use crate::support::{Fault, NEUTRON};

/// The project sees only the networks of these names.
pub(super) fn shows(names: &'static [&'static str]) -> [Fault; 1] {
    [Fault::edited("GET networks", |body| keep(body, "networks", |row| names.iter().any(|name| row["name"] == **name)))]
}

/// Neutron has no tags: as releases before 2018, or one with the plug-in switched off.
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
