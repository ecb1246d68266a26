//! The properties of a pool's spec, as the generated CRD has them, and whether a spec conforms to its schema.

use std::collections::BTreeSet;

use caip_openstack::api::OpenStackFloatingIPPool;
use kube::CustomResourceExt;
use serde_json::Value;

/// The schema of a pool's spec.
pub fn schema() -> Value {
    let crd = serde_json::to_value(OpenStackFloatingIPPool::crd()).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone()
}

/// The paths of all properties that have no properties of their own, such as `maxIPs` and `subnets[].filter.name`.
pub fn leaves(schema: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect_leaves(schema, "", &mut found);
    found
}

fn collect_leaves(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    if let Some(properties) = schema["properties"].as_object() {
        for (name, property) in properties {
            collect_leaves(property, &inner_path(path, name), found);
        }
    } else if schema["items"].get("properties").is_some() {
        collect_leaves(&schema["items"], &format!("{path}[]"), found);
    } else {
        found.insert(path.to_owned());
    }
}

/// The paths of the properties that their object need not have, but for those in lists.
pub fn optional(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect_optional(schema, "", &mut found);
    found
}

fn collect_optional(schema: &Value, path: &str, found: &mut Vec<String>) {
    let is_required = |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|it| it == name));
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let inner = inner_path(path, name);
        if !is_required(name) {
            found.push(inner.clone());
        }
        collect_optional(property, &inner, found);
    }
}

fn inner_path(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// The CEL rules of all objects in the schema, by their messages: those that relate several fields. Rules of single texts
/// and numbers are left out.
pub fn rules_across_fields(schema: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let is_compound = schema.get("properties").is_some() || schema["items"].get("properties").is_some();
    if is_compound {
        let rules = schema["x-kubernetes-validations"].as_array().into_iter().flatten();
        found.extend(rules.map(|rule| rule["message"].as_str().unwrap().to_owned()));
    }
    let properties = schema["properties"].as_object().into_iter().flatten().map(|(_, property)| property);
    for inner in properties.chain(schema.get("items")) {
        found.extend(rules_across_fields(inner));
    }
    found
}

/// # Errors
///
/// The path at which the value does not conform to the schema: an unknown property, a missing one, a wrong type, a value
/// out of range. CEL rules are not evaluated.
pub fn conforms(schema: &Value, value: &Value, path: &str) -> Result<(), String> {
    let fail = |what: &str| Err(format!("{path}: {what}: {value}"));
    let limit = |keyword: &str| schema[keyword].as_f64();
    let is_within = |size: f64, least: &str, most: &str| {
        limit(least).is_none_or(|least| size >= least) && limit(most).is_none_or(|most| size <= most)
    };
    if schema["enum"].as_array().is_some_and(|allowed| !allowed.contains(value)) {
        return fail("not one of the enumeration");
    }
    match (schema["type"].as_str().unwrap(), value) {
        ("object", Value::Object(fields)) => {
            let required = schema["required"].as_array().into_iter().flatten();
            if let Some(missing) = required.filter_map(Value::as_str).find(|name| !fields.contains_key(*name)) {
                return fail(&format!("{missing} is missing"));
            }
            for (name, field) in fields {
                let Some(property) = schema["properties"].get(name) else { return fail(&format!("{name} is unknown")) };
                conforms(property, field, &format!("{path}.{name}"))?;
            }
            Ok(())
        }
        ("array", Value::Array(items)) if is_within(items.len() as f64, "minItems", "maxItems") => {
            items.iter().try_for_each(|item| conforms(&schema["items"], item, &format!("{path}[]")))
        }
        ("string", Value::String(text)) if is_within(text.chars().count() as f64, "minLength", "maxLength") => Ok(()),
        ("integer", Value::Number(number)) if is_within(number.as_f64().unwrap(), "minimum", "maximum") => Ok(()),
        ("array" | "string" | "integer", _) => fail("of another type or out of range"),
        (other, _) => fail(&format!("should be of type {other}")),
    }
}
