//! The installed objects without the parts that each installation method adds by design, so that they can be compared.

use std::collections::{BTreeMap, BTreeSet};

use caip_openstack::runtime::flags::Flags;
use serde_json::{Map, Value, json};

/// Objects by kind and name.
pub type Content = BTreeMap<String, Value>;

/// The objects without Helm's labels and annotations, clusterctl's label, and the Namespace (which only Helm's
/// `--create-namespace` creates). Flags and images are normalised.
pub fn content(documents: Vec<Value>) -> Content {
    let documents = documents.into_iter().filter(|document| document["kind"] != "Namespace");
    documents.map(|document| (name(&document), plain(document))).collect()
}

/// Panics with the first thing that is in one and not in the other.
pub fn assert_same(one: &Content, other: &Content) {
    assert_eq!(one.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
    for (name, object) in one {
        if let Some(difference) = difference("", object, &other[name]) {
            panic!("{name}: {difference}");
        }
    }
}

fn difference(path: &str, one: &Value, other: &Value) -> Option<String> {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let names: BTreeSet<_> = one.keys().chain(other.keys()).collect();
            let part = |fields: &Map<String, Value>, name: &String| fields.get(name).cloned().unwrap_or_default();
            names.iter().find_map(|name| difference(&format!("{path}.{name}"), &part(one, name), &part(other, name)))
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let pairs = one.iter().zip(other).enumerate();
            pairs.into_iter().find_map(|(at, (one, other))| difference(&format!("{path}[{at}]"), one, other))
        }
        _ => (one != other).then(|| format!("{path} is {one} and {other}")),
    }
}

fn name(document: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{} {}", text(&document["kind"]), text(&document["metadata"]["name"]))
}

fn plain(mut document: Value) -> Value {
    if document["kind"] != "CustomResourceDefinition" {
        labels(&mut document).remove("clusterctl.cluster.x-k8s.io");
    }
    if document["kind"] == "Deployment" {
        let manager = &mut document["spec"]["template"]["spec"]["containers"][0];
        manager["args"] = json!(format!("{:?}", flags(&manager["args"])));
        // clusterctl needs a registry in the image's name.
        let image = manager["image"].as_str().unwrap_or_default();
        manager["image"] = json!(image.trim_start_matches("localhost/"));
    }
    if document["kind"] == "ValidatingAdmissionPolicy" {
        // The chart knows the namespace; clusterctl and kustomize may change it.
        let condition = &mut document["spec"]["matchConditions"][0]["expression"];
        let user = condition.as_str().unwrap_or_default().rsplit_once("system:serviceaccount:").map(|(_, user)| user);
        let (_, account) = user.and_then(|user| user.split_once(':')).unwrap_or_else(|| panic!("{condition}"));
        *condition = json!(account.trim_end_matches(['\'', '$', ')']));
    }
    if document["kind"].as_str().is_some_and(|kind| kind.starts_with("ValidatingAdmissionPolicy")) {
        // clusterctl does not know that the kind is cluster-wide. The API server ignores it.
        document["metadata"].as_object_mut().expect("it is an object").remove("namespace");
    }
    // clusterctl adds an empty status.
    document.as_object_mut().expect("it is an object").remove("status");
    strip(&mut document);
    document
}

/// The flags as the program understands them; panics when it would refuse them.
pub fn flags(args: &Value) -> Flags {
    let line = args.as_array().expect("args are a list").iter().map(|arg| arg.as_str().expect("of strings"));
    let line = std::iter::once("caip-openstack").chain(line);
    Flags::read(line).unwrap_or_else(|error| panic!("the program refuses {args}: {error:?}"))
}

fn labels(document: &mut Value) -> &mut Map<String, Value> {
    let labels = &mut document["metadata"]["labels"];
    if labels.is_null() {
        *labels = json!({});
    }
    labels.as_object_mut().expect("labels are a map")
}

/// Fields that may be empty or absent, with the same meaning.
const OPTIONAL: [&str; 4] = ["labels", "annotations", "strategy", "status"];

/// Removes Helm's labels and annotations, selectors included, and empty fields. Helm parses all numbers of the CRD as
/// floats.
fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !name.starts_with("app.kubernetes.io/") && !name.starts_with("helm.sh/"));
            fields.values_mut().for_each(strip);
            fields.retain(|name, value| !(OPTIONAL.contains(&name.as_str()) && *value == json!({})));
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::Number(number) => *value = json!(number.as_f64()),
        _ => {}
    }
}
