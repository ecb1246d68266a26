//! The metadata of Cluster API's objects, without `managedFields`. Any user may write a time there that cannot be
//! represented here; then the object could not be read, and would keep its finalizer.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, OwnerReference, Time};
use serde::Deserialize;

/// The fields of [`ObjectMeta`], for `#[serde(deserialize_with)]`.
#[derive(Deserialize)]
#[serde(remote = "ObjectMeta", rename_all = "camelCase")]
pub(super) struct Metadata {
    annotations: Option<BTreeMap<String, String>>,
    creation_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    deletion_timestamp: Option<Time>,
    finalizers: Option<Vec<String>>,
    generate_name: Option<String>,
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    #[serde(skip)]
    managed_fields: Option<Vec<ManagedFieldsEntry>>,
    name: Option<String>,
    namespace: Option<String>,
    owner_references: Option<Vec<OwnerReference>>,
    resource_version: Option<String>,
    self_link: Option<String>,
    uid: Option<String>,
}

#[cfg(test)]
mod tests {
    use kube::Resource;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;
    use crate::api::{Cluster, IpAddress, IpAddressClaim};

    fn read<K: Resource + DeserializeOwned>(metadata: &Value) -> ObjectMeta {
        let object = json!({"apiVersion": "v1", "kind": "K", "metadata": metadata}).to_string();
        serde_json::from_str::<K>(&object).expect("an object").meta().clone()
    }

    #[test]
    fn all_is_read_but_managed_fields() {
        let owner = json!({"apiVersion": "v1", "kind": "K", "name": "n", "uid": "o", "controller": true});
        let kept = json!({
            "annotations": {"a": "b"}, "creationTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0,
            "deletionTimestamp": "2026-01-02T00:00:00Z", "finalizers": ["f"], "generateName": "g", "generation": 7,
            "labels": {"c": "d"}, "name": "n", "namespace": "ns", "ownerReferences": [owner], "resourceVersion": "8",
            "selfLink": "s", "uid": "u",
        });
        let mut metadata = kept.clone();
        metadata["managedFields"] = json!([{"manager": "x", "operation": "Update", "time": "9999-12-31T00:00:00Z"}]);
        metadata["newer"] = json!({"a": 1});
        assert!(ObjectMeta::deserialize(&metadata).is_err());
        for read in [read::<IpAddress>, read::<IpAddressClaim>, read::<Cluster>] {
            assert_eq!(serde_json::to_value(read(&metadata)).expect("it is data"), kept);
            assert_eq!(read(&json!({})), ObjectMeta::default());
        }
    }
}
