//! The test clouds' `clouds.yaml`, whose entries also become the pools' credentials.

use serde_json::{Value, json};

use super::world::required;

/// The entry of a cloud in the file that `OS_CLIENT_CONFIG_FILE` names.
pub fn cloud_entry(cloud: &str) -> Value {
    let path = required("OS_CLIENT_CONFIG_FILE");
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("OS_CLIENT_CONFIG_FILE names {path}, which cannot be read: {error}"));
    let file: Value = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{path} is not YAML: {error}"));
    let entry = &file["clouds"][cloud];
    assert!(entry.is_object(), "{path} has no cloud `{cloud}`: run `make env-up`");
    entry.clone()
}

/// A `clouds.yaml` with one entry, `openstack`, for a pool's Secret. JSON is YAML.
pub fn clouds_yaml(entry: &Value) -> String {
    json!({"clouds": {"openstack": entry}}).to_string()
}
