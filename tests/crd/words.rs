//! The CRD's labels, columns and descriptions as kubectl and clusterctl use them.

use std::process::Command;

use caip_openstack::api::OpenStackFloatingIPPool;
use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::{schema, unserved};
use crate::support::{Kind, Manifest, with_namespace};

#[test]
fn crd_has_the_labels_by_which_clusterctl_finds_and_moves_pools() {
    let labels = schema::crd()["metadata"]["labels"].clone();
    assert_eq!(labels["clusterctl.cluster.x-k8s.io"], "", "clusterctl looks only at kinds with this label");
    assert_eq!(labels["clusterctl.cluster.x-k8s.io/move-hierarchy"], "", "else IPAddresses stay behind");
    assert_eq!(labels["cluster.x-k8s.io/v1beta1"], "v1alpha1");
    assert_eq!(labels["cluster.x-k8s.io/v1beta2"], "v1alpha1");
    assert_eq!(schema::crd()["metadata"]["name"], "openstackfloatingippools.ipam.cluster.x-k8s.io");
}

#[test]
fn committed_crd_is_the_generated_one() {
    // Values, not text: running the generator from here would build everything again. CI compares the text.
    let mut generated = serde_json::to_value(OpenStackFloatingIPPool::crd()).expect("a CRD is JSON");
    use_known_formats(&mut generated);
    assert!(as_numbers(generated) == as_numbers(schema::crd()), "crds/ is not what src/api says: run `make generate`");
}

/// As `hack/crdgen.rs` does.
fn use_known_formats(value: &mut Value) {
    if let Some(fields) = value.as_object_mut() {
        if fields.get("format").is_some_and(|format| format == "uint32") {
            fields.insert("format".to_owned(), "int32".into());
        }
        fields.values_mut().for_each(use_known_formats);
    }
    value.as_array_mut().into_iter().flatten().for_each(use_known_formats);
}

/// To Kubernetes, 3 and 3.0 are the same number.
fn as_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.into_iter().map(as_numbers).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, as_numbers(value))).collect(),
        other => other,
    }
}

#[test]
fn every_field_is_explained() {
    let root = schema::root();
    let mut poor = Vec::new();
    let mut judge = |path: &str, schema: &Value| {
        let words = schema["description"].as_str().unwrap_or_default().trim();
        let is_item = path.ends_with("[]") && !schema["properties"].is_object();
        // At least one sentence.
        if !is_item && (words.is_empty() || !words.ends_with('.')) {
            poor.push(format!("{path}: {words:?}"));
        }
    };
    judge("(the kind)", &root);
    schema::walk(&root, "", &mut judge);
    assert!(poor.is_empty(), "without a sentence:\n{}", poor.join("\n"));
    let words = root["description"].as_str().unwrap_or_default();
    assert!(words.contains("floatingIPPoolRef"), "the kind says what it is for, not how it was made: {words:?}");
}

#[test]
fn descriptions_state_the_defaults() {
    let mut missing = Vec::new();
    schema::walk(&schema::root(), "", &mut |path, schema| {
        if schema["default"].is_null() {
            return;
        }
        let words = schema["description"].as_str().unwrap_or_default();
        let default = schema["default"].as_str().map_or_else(|| schema["default"].to_string(), str::to_owned);
        if !words.to_lowercase().contains("default") || !words.contains(&default) {
            missing.push(format!("{path} = {default}"));
        }
    });
    assert!(missing.is_empty(), "defaults without a description: {missing:?}");
}

#[tokio::test]
async fn table_has_the_expected_columns() {
    with_namespace(async |ns| {
        ns.create(unserved("public").network("public").max_ips(20)).await;
        ns.patch_status(Kind::Pool, "public", ready_status()).await;
        let url = format!("/apis/ipam.cluster.x-k8s.io/v1alpha1/namespaces/{}/openstackfloatingippools", ns.name);
        let request = http::Request::get(url)
            .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
            .body(Vec::new())
            .expect("that is a request");
        let table: Value = ns.world.client.request(request).await.expect("the API server makes a table");
        let columns = table["columnDefinitions"].as_array().cloned().unwrap_or_default();
        let cells = table["rows"][0]["cells"].as_array().cloned().unwrap_or_default();
        let shown: Vec<_> = columns
            .iter()
            .zip(&cells)
            .filter(|(column, _)| column["priority"] == 0)
            .map(|(column, cell)| (column["name"].as_str().unwrap_or_default(), cell.clone()))
            .collect();
        assert_eq!(
            shown[..8],
            [
                ("Name", json!("public")),
                ("Ready", json!("True")),
                ("Reason", json!("Available")),
                ("Allocated", json!(3)),
                ("Free", json!(2)),
                ("Waiting", json!(1)),
                ("Limit", json!(20)),
                ("Network", json!("public")),
            ]
        );
        assert_eq!((shown.len(), shown[8].0), (9, "Age"));
        let wide = columns.iter().find(|column| column["name"] == "Message");
        assert!(wide.is_some_and(|column| column["priority"] == 1), "`-o wide` says what to do");
    })
    .await;
}

#[tokio::test]
async fn kubectl_waits_for_ready_and_explains_and_finds_pools_by_short_name_and_category() {
    with_namespace(async |ns| {
        let manifest: Manifest = unserved("public").network("public").into();
        ns.create(manifest).await;
        let wait = ["wait", "--for=condition=Ready", "fippool/public", "--timeout=0", "-n", &ns.name];
        assert!(kubectl(&wait).is_err(), "not ready without a status");
        ns.patch_status(Kind::Pool, "public", ready_status()).await;
        kubectl(&wait).expect("ready");
        let names = kubectl(&["get", "cluster-api", "-n", &ns.name, "-o", "name"]).expect("the category is known");
        assert!(names.contains("openstackfloatingippool.ipam.cluster.x-k8s.io/public"), "{names}");
        let words = kubectl(&["explain", "fippool.spec.maxIPs"]).expect("fields are explained");
        assert!(words.contains("pool's mark"), "{words}");
    })
    .await;
}

fn ready_status() -> Value {
    json!({"status": {
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "Available", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"
        }],
        "addresses": {"total": 5, "allocated": 3, "free": 2, "cooling": 0, "failed": 0, "outOfRange": 0},
        "claims": {"waiting": 1},
        "network": {"id": "b146e3b3-b18e-4467-b997-c4d16ef37365", "name": "public"},
        "observedGeneration": 1
    }})
}

/// The standard output, or the standard error on failure.
fn kubectl(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("kubectl")
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("kubectl cannot be run ({error}): `make env-up` says where it is"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}
