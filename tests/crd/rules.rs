//! Every validation rule, with a valid and an invalid value.

use std::fmt::Write;

use futures::{StreamExt, stream};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::table::{Row, absent, rows};
use super::{schema, unserved};
use crate::support::{Kind, Manifest, Namespace, with_namespace};

/// Transition rules; `updates.rs` tests them.
const ABOUT_CHANGES: [&str; 2] = ["poolID cannot be added or removed", "poolID cannot be changed"];

#[test]
fn every_rule_of_the_crd_has_a_row_and_every_row_a_rule() {
    let mut missing = String::new();
    let rows = rows();
    let stated: Vec<_> = schema::rules()
        .into_iter()
        .filter(|(_, rule)| !ABOUT_CHANGES.iter().any(|change| rule.starts_with(change)))
        .collect();
    for (path, rule) in &stated {
        if !rows.iter().any(|row| row.path == *path && rule.starts_with(row.rule)) {
            writeln!(missing, "no row for {path}: {rule}").expect("writing to a String cannot fail");
        }
    }
    for row in &rows {
        if !stated.iter().any(|(path, rule)| row.path == *path && rule.starts_with(row.rule)) {
            writeln!(missing, "no rule for the row {}: {}", row.path, row.rule)
                .expect("writing to a String cannot fail");
        }
    }
    assert!(missing.is_empty(), "{missing}");
}

/// It estimates the cost of comparing two of them as infinite, and refuses the CRD: `make compat` has the real one.
#[test]
fn no_rule_compares_addresses_or_ranges_in_a_way_that_kubernetes_1_31_refuses() {
    let mut compared = Vec::new();
    schema::walk(&schema::root(), "", &mut |path, schema| {
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            let rule = rule["rule"].as_str().expect("each has one").replace(' ', "");
            let is_compared = ["==ip(", "==cidr(", "!=ip(", "!=cidr("].iter().any(|part| rule.contains(part));
            compared.extend(is_compared.then(|| format!("{path}: {rule}")));
        }
    });
    assert!(compared.is_empty(), "{compared:?}");
}

#[tokio::test]
async fn valid_values_are_accepted_and_invalid_ones_refused_with_field_and_message() {
    with_namespace(async |ns| {
        ns.create(unserved("with-status").network("public")).await;
        let checks = rows().into_iter().map(async |row| check(ns, &row).await);
        let complaints: Vec<String> = stream::iter(checks).buffer_unordered(16).concat().await;
        assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    })
    .await;
}

/// The problems with a row.
async fn check(ns: &Namespace, row: &Row) -> Vec<String> {
    let mut complaints = Vec::new();
    if let Err(error) = submit(ns, &row.path, &row.good).await {
        complaints.push(format!("{} ({}) = {}: refused: {}", row.path, row.rule, row.good, message(&error)));
    }
    match submit(ns, &row.path, &row.bad).await {
        Err(kube::Error::Api(status)) if status.code == 422 => {
            let causes = status.details.as_ref().map(|details| details.causes.clone()).unwrap_or_default();
            // The API server adds this when CEL is not tried after the schema has failed.
            let counts = |cause: &&kube::core::response::StatusCause| cause.field != "<nil>";
            let said: Vec<_> = causes.iter().filter(counts).collect();
            let names_only_the_field = said.iter().all(|cause| without_indices(&cause.field) == row.path);
            let says_why = said.iter().any(|cause| cause.message.contains(message_of(row.rule)));
            if !(names_only_the_field && says_why) {
                complaints.push(format!("{} ({}) = {}: says {}", row.path, row.rule, row.bad, status.message));
            }
        }
        Err(error) => complaints.push(format!("{} ({}) = {}: {}", row.path, row.rule, row.bad, message(&error))),
        Ok(_) => complaints.push(format!("{} ({}) = {}: accepted", row.path, row.rule, row.bad)),
    }
    complaints
}

fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        error => error.to_string(),
    }
}

async fn submit(ns: &Namespace, path: &str, value: &Value) -> Result<(), kube::Error> {
    let mut body = json!({});
    place(&mut body, path, value);
    add_what_else_is_required(&mut body, path, value);
    if path.starts_with("status") {
        let how = PatchParams { dry_run: true, ..PatchParams::default() };
        ns.api(Kind::Pool).patch_status("with-status", &how, &Patch::Merge(&body)).await?;
    } else {
        body["metadata"]["name"] = "p".into();
        ns.dry_run(Manifest::new(Kind::Pool, body)).await?;
    }
    Ok(())
}

/// Puts a value at a path; an item becomes a list of one. A row about a list's items as a whole gives all of them.
fn place(body: &mut Value, path: &str, value: &Value) {
    let mut at = body;
    let mut steps = path.split('.').peekable();
    while let Some(step) = steps.next() {
        let (name, is_item) = step.strip_suffix("[]").map_or((step, false), |name| (name, true));
        let whole_list = is_item && value.is_array() && steps.peek().is_none();
        at = &mut at[name];
        if is_item && !whole_list {
            *at = json!([{}]);
            at = &mut at[0];
        }
    }
    if *value != absent() {
        *at = value.clone();
    }
}

fn add_what_else_is_required(body: &mut Value, path: &str, value: &Value) {
    // `within` is the path of the object that is filled.
    let fill = |at: &mut Value, within: &str, defaults: Value| {
        for (name, default) in defaults.as_object().into_iter().flatten() {
            let is_meant_to_be_absent = path == format!("{within}.{name}") && *value == absent();
            match is_meant_to_be_absent {
                true => drop(at.as_object_mut().map(|fields| fields.remove(name))),
                false if at[name].is_null() => at[name] = default.clone(),
                false => {}
            }
        }
    };
    if path == "spec" && *value == absent() {
        drop(body.as_object_mut().map(|fields| fields.remove("spec")));
    } else if path.starts_with("spec") {
        fill(&mut body["spec"], "spec", json!({"identityRef": {"name": "cloud", "cloudName": "openstack"}}));
        if body["spec"]["identityRef"].is_object() {
            let identity = json!({"name": "cloud", "cloudName": "openstack"});
            fill(&mut body["spec"]["identityRef"], "spec.identityRef", identity);
        }
    }
    if path.starts_with("spec.reservations[].") {
        let reservation = json!({"claim": "a", "address": "203.0.113.12"});
        fill(&mut body["spec"]["reservations"][0], "spec.reservations[]", reservation);
    } else if path.starts_with("spec.reuse.tags") || (path == "spec.reuse.policy" && value == "Tagged") {
        fill(&mut body["spec"]["reuse"], "spec.reuse", json!({"policy": "Tagged", "tags": ["a"]}));
    } else if path.starts_with("status.addresses.") {
        let none = json!({"total": 0, "allocated": 0, "free": 0, "cooling": 0, "failed": 0});
        fill(&mut body["status"]["addresses"], "status.addresses", none);
    } else if path.starts_with("status.claims.") {
        fill(&mut body["status"]["claims"], "status.claims", json!({"waiting": 0}));
    } else if path.starts_with("status.network.") {
        fill(&mut body["status"]["network"], "status.network", json!({"id": "a", "name": "a"}));
    } else if path.starts_with("status.failed[].") {
        let failed = json!({"address": "a", "reason": "A", "message": "a"});
        fill(&mut body["status"]["failed"][0], "status.failed[]", failed);
    } else if path.starts_with("status.conditions[].") {
        let condition = json!({
            "type": "Ready", "status": "True", "reason": "A", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"
        });
        fill(&mut body["status"]["conditions"][0], "status.conditions[]", condition);
    }
}

/// The API server's message for a violated keyword; a CEL rule has its own.
fn message_of(rule: &'static str) -> &'static str {
    match rule {
        "minLength" => "should be at least",
        "maxLength" => "may not be more than",
        "minimum" => "should be greater than or equal to",
        "maximum" => "should be less than or equal to",
        "maxItems" => "must have at most",
        "pattern" => "should match",
        "enum" => "supported values",
        "required" => "Required value",
        "set" | "map" => "Duplicate value",
        message => message,
    }
}

fn without_indices(field: &str) -> String {
    let mut inside = false;
    field
        .chars()
        .filter(|&letter| {
            inside = (inside || letter == '[') && letter != ']';
            !inside || letter == '['
        })
        .collect()
}
