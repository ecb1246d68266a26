//! The objects that a migration writes.

use serde_json::{Map, Value, json};

use super::super::input::{MigrationInput, successor_name};
use super::{LIST, object_name};
use crate::api::names::{CAPO_GROUP, GROUP, POOL_KIND};

/// The fields with the same meaning in CAPO's pool and in ours.
const COMMON_FIELDS: [&str; 5] = ["identityRef", "floatingIPNetwork", LIST, "maxIPs", "reclaimPolicy"];

/// A pool of ours like CAPO's that lists these addresses, and remarks on the differences.
pub(super) fn create_pool(input: &MigrationInput, kept: &[String], to: &str) -> (Value, Vec<String>) {
    let empty = Map::new();
    let theirs = input.pool.get("spec").and_then(Value::as_object).unwrap_or(&empty);
    let mut spec: Map<String, Value> =
        COMMON_FIELDS.iter().filter_map(|field| Some(((*field).to_owned(), theirs.get(*field)?.clone()))).collect();
    let mut remarks: Vec<String> = theirs
        .keys()
        .filter(|field| !COMMON_FIELDS.contains(&field.as_str()))
        .map(|field| format!("spec.{field} of CAPO's pool has no equivalent, and is omitted"))
        .collect();
    if let (Some(secret), Some(Value::Object(identity))) = (&input.secret, spec.get_mut("identityRef")) {
        identity.remove("type");
        identity.insert("name".into(), secret.clone().into());
    }
    if let Some(Value::Array(list)) = spec.remove(LIST)
        && !input.keeps_addresses
        && kept.len() < list.len()
    {
        remarks.push(format!("spec.{LIST} contained duplicates, which are omitted"));
    }
    if !kept.is_empty() {
        spec.insert(LIST.into(), json!(kept));
        if input.keeps_addresses {
            // Without a network the list is closed: a new machine waits for the address of the one that it replaces.
            spec.remove("floatingIPNetwork");
        } else if !spec.contains_key("floatingIPNetwork") {
            // CAPO creates addresses when its list is used up, even without a network.
            let network = input.pool.pointer("/status/floatingIPNetwork/id").and_then(Value::as_str);
            match network {
                Some(id) => drop(spec.insert("floatingIPNetwork".into(), json!({"id": id}))),
                None => remarks.push(
                    "the pool has a list and no floatingIPNetwork: CAPO creates addresses when the list is used up, the new pool does not; set spec.floatingIPNetwork to have it create addresses too".into(),
                ),
            }
        }
    }
    remarks.extend(raise_limit(input, kept, &mut spec));
    // CAPO's pool never reuses free floating IPs of the project.
    spec.insert("reuse".into(), json!({"policy": "Never"}));
    let manifest = json!({
        "apiVersion": format!("{GROUP}/v1alpha1"), "kind": POOL_KIND,
        "metadata": {"name": to, "namespace": input.namespace}, "spec": spec,
    });
    (manifest, remarks)
}

/// CAPO's `maxIPs` limits what the pool creates, ours all addresses that claims have. An existing pool keeps its own.
fn raise_limit(input: &MigrationInput, kept: &[String], spec: &mut Map<String, Value>) -> Option<String> {
    let theirs = spec.remove("maxIPs").and_then(|limit| limit.as_u64());
    let needed = u64::try_from(kept.len().max(input.claims.len())).unwrap_or(u64::MAX);
    let limit = match &input.our_pool {
        Some(pool) => pool.pointer("/spec/maxIPs").and_then(Value::as_u64),
        None => theirs.map(|theirs| theirs.max(needed)),
    }?;
    spec.insert("maxIPs".into(), limit.into());
    if limit < needed {
        return Some(format!(
            "raise spec.maxIPs of the new pool to {needed}: it also limits the addresses of the list"
        ));
    }
    theirs.filter(|theirs| *theirs < limit).map(|theirs| {
        format!("spec.maxIPs is {limit}, and not {theirs} as in CAPO's pool: it also limits the addresses of the list")
    })
}

/// CAPO's pool with these addresses in its list: then CAPO does not delete them when their machine or the pool is deleted.
pub(super) fn list_in_capos_pool(input: &MigrationInput, kept: &[String], from: &str) -> Value {
    json!({
        "apiVersion": format!("{CAPO_GROUP}/v1alpha1"), "kind": POOL_KIND,
        "metadata": {"name": from, "namespace": input.namespace}, "spec": {LIST: kept},
    })
}

/// A template's spec is immutable: so this is a copy under another name, which points to our pool.
pub(super) fn copy_template(old: &Value, namespace: &str, to: &str) -> Value {
    let mut spec = old["spec"].clone();
    if let Some(reference) = spec.pointer_mut("/template/spec/floatingIPPoolRef") {
        *reference = pool_reference(to);
    }
    let name = successor_name(object_name(old));
    let metadata = match old.pointer("/metadata/labels") {
        Some(labels) => json!({"name": name, "namespace": namespace, "labels": labels}),
        None => json!({"name": name, "namespace": namespace}),
    };
    json!({"apiVersion": old["apiVersion"], "kind": old["kind"], "metadata": metadata, "spec": spec})
}

/// The `floatingIPPoolRef` of the new pool.
pub(super) fn pool_reference(to: &str) -> Value {
    json!({"apiGroup": GROUP, "kind": POOL_KIND, "name": to})
}
