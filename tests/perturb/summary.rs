//! The state in which a run ends, without what differs between runs: which address, which ids, when.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::request::short_name;
use crate::support::{Cloud, FloatingIp, Kind, Namespace, condition_of};

const KINDS: [(Kind, &str); 5] = [
    (Kind::Pool, "pools"),
    (Kind::Claim, "claims"),
    (Kind::Address, "addresses"),
    (Kind::Cluster, "clusters"),
    (Kind::Secret, "secrets"),
];

/// Everything of a run's namespaces, and its floating IPs by their state.
pub async fn summarize(sides: &[&Namespace], pool_ids: &BTreeSet<String>) -> Value {
    let mut summary = json!({});
    for (side, ns) in sides.iter().enumerate() {
        let mut objects: BTreeMap<&str, BTreeMap<String, Value>> = BTreeMap::new();
        for (kind, name) in KINDS {
            let listed = ns.list(kind).await;
            let described = listed.iter().map(|object| (short_name(&object.name_any()), describe(kind, object)));
            objects.insert(name, described.collect());
        }
        summary[["cluster", "target cluster"][side]] = json!(objects);
    }
    let cloud = sides.first().expect("a run has a namespace").cloud().await;
    summary["floating IPs"] = json!(floating_ips(cloud, pool_ids).await);
    summary
}

fn describe(kind: Kind, object: &DynamicObject) -> Value {
    let mut finalizers: Vec<&str> = object.finalizers().iter().map(|name| generic(name)).collect();
    finalizers.sort_unstable();
    let mut text = json!({"finalizers": finalizers, "is deleted": object.metadata.deletion_timestamp.is_some()});
    let owners: BTreeSet<&str> = object.owner_references().iter().map(|owner| owner.kind.as_str()).collect();
    match kind {
        Kind::Claim => {
            text["ready"] = condition(object, "Ready");
            text["is bound"] = object.data["status"]["addressRef"]["name"].is_string().into();
        }
        Kind::Pool => {
            text["addresses"] = object.data["status"]["addresses"].clone();
            text["failed"] = object.data["status"]["failed"].as_array().map_or(0, Vec::len).into();
            let conditions = object.data["status"]["conditions"].as_array().into_iter().flatten();
            let names = conditions.filter_map(|condition| condition["type"].as_str());
            text["conditions"] = names.map(|name| (name, condition(object, name))).collect();
        }
        _ => text["owners"] = json!(owners),
    }
    text
}

/// The finalizer of a Secret is a hash of its pool's name and namespace.
fn generic(finalizer: &str) -> &str {
    match finalizer.split_once('/') {
        Some((group @ "openstackfloatingippool.ipam.cluster.x-k8s.io", _)) => group,
        _ => finalizer,
    }
}

fn condition(object: &DynamicObject, name: &str) -> Value {
    condition_of(object, name).map_or(Value::Null, |found| json!([found["status"], found["reason"]]))
}

/// How many floating IPs of the run's are in each state.
async fn floating_ips(cloud: &Cloud, pool_ids: &BTreeSet<String>) -> BTreeMap<String, usize> {
    let listed = cloud.created_floating_ips();
    let mut counts = BTreeMap::new();
    for fip in cloud.floating_ips().await {
        let is_marked = pool_ids
            .iter()
            .any(|id| fip.description.contains(id.as_str()) || fip.tags.iter().any(|tag| tag.contains(id.as_str())));
        let origin = if listed.contains(&fip.id) { "listed" } else { "created" };
        if is_marked || origin == "listed" {
            *counts.entry(format!("{origin}, {}", state(&fip))).or_default() += 1;
        }
    }
    counts
}

fn state(fip: &FloatingIp) -> &'static str {
    let has_tag = |prefix: &str| fip.tags.iter().any(|tag| tag.starts_with(prefix));
    match () {
        () if has_tag("caip-out.") => "released",
        () if has_tag("caip.") || fip.description.contains(" claim=") => "held",
        () if fip.description.starts_with("caip-openstack ") => "free",
        () => "without mark",
    }
}
