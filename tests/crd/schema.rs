//! Collects all validation rules of the CRD's schema, so that none is left untested.

use serde_json::Value;

use crate::support::CRD_YAML;

/// The committed CRD.
pub fn crd() -> Value {
    serde_saphyr::from_str(CRD_YAML).expect("crds/ holds YAML")
}

/// The schema of the only version.
pub fn root() -> Value {
    crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// Calls `visit` with every field and item of a schema and its path: `spec.reservations[].claim`.
pub fn walk(schema: &Value, path: &str, visit: &mut impl FnMut(&str, &Value)) {
    if !path.is_empty() {
        visit(path, schema);
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        walk(field, &path, visit);
    }
    if schema["items"].is_object() {
        walk(&schema["items"], &format!("{path}[]"), visit);
    }
}

/// Every rule of the schema as path and keyword; a CEL rule's keyword is its message.
pub fn rules() -> Vec<(String, String)> {
    let mut rules = Vec::new();
    let root = root();
    for required in root["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        rules.push((required.to_owned(), "required".to_owned()));
    }
    walk(&root, "", &mut |path, schema| {
        for keyword in ["minLength", "maxLength", "minimum", "maximum", "maxItems", "enum", "pattern"] {
            if !schema[keyword].is_null() {
                rules.push((path.to_owned(), keyword.to_owned()));
            }
        }
        for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            rules.push((format!("{path}.{required}"), "required".to_owned()));
        }
        if let Some(kind @ ("set" | "map")) = schema["x-kubernetes-list-type"].as_str() {
            rules.push((format!("{path}[]"), kind.to_owned()));
        }
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            rules
                .push((path.to_owned(), rule["message"].as_str().unwrap_or("a CEL rule without a message").to_owned()));
        }
    });
    rules
}
