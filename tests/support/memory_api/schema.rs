//! What a CustomResourceDefinition's schema does to an object: unknown fields are dropped, defaults set, and what is left
//! is checked. The pool's schema is the one of `crds/`.
//!
//! Not here: patterns and formats, and the CEL rules but for the immutable `spec.poolID`. `tests/crd` tests those on a
//! real API server, and nobody breaks them elsewhere.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::Kind;
use super::cluster_api::{ADDRESS, CLAIM, CLUSTER};

static POOL: LazyLock<Value> = LazyLock::new(|| {
    let yaml = include_str!("../../../crds/ipam.cluster.x-k8s.io_openstackfloatingippools.yaml");
    let crd: Value = serde_saphyr::from_str(yaml).expect("crds/ holds a CRD");
    of_crd(&crd)
});

static CLUSTER_IDENTITY: LazyLock<Value> = LazyLock::new(|| {
    let yaml = include_str!("../../../hack/env/capo-kinds.yaml");
    let crds = serde_saphyr::from_multiple::<Value>(yaml).expect("it holds CRDs");
    let is_meant = |crd: &Value| crd["spec"]["names"]["kind"] == Kind::ClusterIdentity.names().3;
    of_crd(&crds.into_iter().find(is_meant).expect("it has CAPO's cluster identity"))
});

/// That of its only version.
fn of_crd(crd: &Value) -> Value {
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// The parts of an Event.
const EVENT: [&str; 9] = [
    "action",
    "eventTime",
    "note",
    "reason",
    "regarding",
    "reportingController",
    "reportingInstance",
    "series",
    "type",
];

/// The schema of a kind, if it has one.
pub fn of(kind: Kind) -> Option<&'static Value> {
    match kind {
        Kind::Pool => Some(&POOL),
        Kind::Claim => Some(&CLAIM),
        Kind::Address => Some(&ADDRESS),
        Kind::Cluster => Some(&CLUSTER),
        Kind::ClusterIdentity => Some(&CLUSTER_IDENTITY),
        Kind::Namespace
        | Kind::Secret
        | Kind::InTreePool
        | Kind::OpenStackCluster
        | Kind::Event
        | Kind::Lease
        | Kind::ConfigMap => None,
    }
}

/// Drops the fields that the kind does not know, and sets the defaults of its schema.
pub fn decode(kind: Kind, object: &mut Value) {
    match of(kind) {
        Some(schema) => complete_object(schema, object),
        None => drop_unknown(kind, object),
    }
}

/// Of the kinds that Kubernetes itself defines, only whole parts are dropped.
fn drop_unknown(kind: Kind, object: &mut Value) {
    let parts: &[&str] = match kind {
        Kind::Secret => &["data", "immutable", "stringData", "type"],
        Kind::ConfigMap => &["binaryData", "data", "immutable"],
        Kind::Event => &EVENT,
        Kind::Lease => &["spec"],
        Kind::Namespace => &["spec", "status"],
        _ => return,
    };
    let Some(fields) = object.as_object_mut() else { return };
    let is_known = |name: &str| matches!(name, "apiVersion" | "kind" | "metadata") || parts.contains(&name);
    fields.retain(|name, value| is_known(name) && !value.is_null());
    if kind == Kind::Lease {
        // It is written even if it is empty.
        fields.entry("spec").or_insert_with(|| Value::Object(Map::new()));
    }
}

fn complete_object(schema: &Value, object: &mut Value) {
    let Some(fields) = object.as_object_mut() else { return };
    let known = &schema["properties"];
    let is_known = |name: &str| matches!(name, "apiVersion" | "kind" | "metadata") || known.get(name).is_some();
    fields.retain(|name, _| is_known(name));
    for part in ["spec", "status"] {
        if let Some(value) = fields.get_mut(part) {
            complete(&known[part], value);
        }
    }
}

fn complete(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let Some(properties) = schema["properties"].as_object() else { return };
            complete_fields(properties, fields);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| complete(&schema["items"], item)),
        _ => {}
    }
}

fn complete_fields(properties: &Map<String, Value>, fields: &mut Map<String, Value>) {
    fields.retain(|name, _| properties.contains_key(name));
    for (name, schema) in properties {
        // A null that the schema does not permit is as no field.
        if fields.get(name).is_some_and(Value::is_null) && schema["nullable"] != true {
            fields.remove(name);
        }
        if let Some(default) = schema.get("default")
            && !fields.contains_key(name)
        {
            fields.insert(name.clone(), default.clone());
        }
        if let Some(value) = fields.get_mut(name) {
            complete(schema, value);
        }
    }
}

/// Why the value does not fit the schema.
pub fn problem(schema: &Value, value: &Value) -> Option<String> {
    if value.is_null() && schema["nullable"] == true {
        return None;
    }
    if let Some(kind) = schema["type"].as_str()
        && !is_of_type(kind, value)
    {
        return Some(format!("{value} is not of the type {kind}"));
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        return Some(format!("{value} is not supported"));
    }
    match value {
        Value::Object(fields) => problem_of_object(schema, fields),
        Value::Array(items) => problem_of_list(schema, items),
        Value::String(text) => is_outside(schema, "minLength", "maxLength", text.chars().count() as f64),
        Value::Number(number) => is_outside(schema, "minimum", "maximum", number.as_f64().unwrap_or_default()),
        Value::Null | Value::Bool(_) => None,
    }
}

fn is_of_type(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        other => panic!("no schema here has the type {other}"),
    }
}

fn is_outside(schema: &Value, least: &str, most: &str, size: f64) -> Option<String> {
    let is_low = schema[least].as_f64().is_some_and(|least| size < least);
    let is_high = schema[most].as_f64().is_some_and(|most| size > most);
    (is_low || is_high).then(|| format!("{size} is out of the bounds {} and {}", schema[least], schema[most]))
}

fn problem_of_object(schema: &Value, fields: &Map<String, Value>) -> Option<String> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let Some(name) = required.into_iter().find(|name| !fields.contains_key(*name)) {
        return Some(format!("{name} is required"));
    }
    is_outside(schema, "minProperties", "maxProperties", fields.len() as f64).or_else(|| {
        let known = |name: &String| schema["properties"].get(name).or_else(|| schema.get("additionalProperties"));
        fields.iter().find_map(|(name, value)| problem(known(name)?, value))
    })
}

fn problem_of_list(schema: &Value, items: &[Value]) -> Option<String> {
    let keys: Vec<&str> =
        schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let is_same = |one: &Value, other: &Value| match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => one == other,
        Some("map") => keys.iter().all(|key| one.get(key) == other.get(key)),
        _ => false,
    };
    let is_doubled = |(at, item): (usize, &Value)| items[..at].iter().any(|other| is_same(other, item));
    if items.iter().enumerate().any(is_doubled) {
        return Some("an item of the list is doubled".into());
    }
    is_outside(schema, "minItems", "maxItems", items.len() as f64)
        .or_else(|| items.iter().find_map(|item| problem(&schema["items"], item)))
}
