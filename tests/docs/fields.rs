//! docs/pool.md explains every field of the CRD, and no other.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::markdown::Page;
use super::root;

#[test]
fn every_field_of_the_pool_is_on_its_page_and_no_other() {
    let path = root().join("crds/ipam.cluster.x-k8s.io_openstackfloatingippools.yaml");
    let crd = std::fs::read_to_string(path).expect("the CRD is there");
    let crd: Value = serde_saphyr::from_str(&crd).expect("the CRD is YAML");
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let mut fields = BTreeSet::new();
    walk(&schema["properties"]["spec"], "spec", &mut fields);
    walk(&schema["properties"]["status"], "status", &mut fields);
    assert!(fields.len() > 60, "the fields are found: {}", fields.len());

    let page = Page::read(root(), Path::new("docs/pool.md"));
    let named = page.code_spans().into_iter().filter(|code| code.starts_with("spec.") || code.starts_with("status."));
    let named: BTreeSet<String> = named.collect();
    let missing: Vec<_> = fields.difference(&named).collect();
    assert!(missing.is_empty(), "not on docs/pool.md: {missing:#?}");
    let unknown: Vec<_> = named.difference(&fields).collect();
    assert!(unknown.is_empty(), "on docs/pool.md, and no field: {unknown:#?}");
}

/// `spec.subnets`, `spec.subnets[].id`: each field, and what is within.
fn walk(schema: &Value, path: &str, fields: &mut BTreeSet<String>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        walk(field, &path, fields);
        walk(&field["items"], &format!("{path}[]"), fields);
        fields.insert(path);
    }
}
