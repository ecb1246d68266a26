//! The parts of Cluster API's schemas (v1beta2) that decide what is accepted here. Patterns of names are left out: every
//! caller writes valid ones.

use std::sync::LazyLock;

use serde_json::{Value, json};

pub static CLAIM: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "required": ["poolRef"],
                "properties": {"clusterName": text(1, 63), "poolRef": pool_ref()},
            },
            "status": {
                "type": "object",
                "minProperties": 1,
                "properties": {
                    "addressRef": named(),
                    "conditions": conditions(),
                    "deprecated": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                },
            },
        },
    })
});

pub static ADDRESS: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "required": ["address", "claimRef", "poolRef", "prefix"],
                "properties": {
                    "address": text(1, 39),
                    "claimRef": named(),
                    "gateway": text(1, 39),
                    "poolRef": pool_ref(),
                    "prefix": {"type": "integer", "minimum": 0, "maximum": 128},
                },
            },
        },
    })
});

/// Only whether it has a spec: nothing here depends on the rest.
pub static CLUSTER: LazyLock<Value> = LazyLock::new(|| {
    let any = json!({"type": "object", "minProperties": 1, "x-kubernetes-preserve-unknown-fields": true});
    json!({"type": "object", "required": ["spec"], "properties": {"spec": any, "status": any}})
});

fn text(shortest: u64, longest: u64) -> Value {
    json!({"type": "string", "minLength": shortest, "maxLength": longest})
}

fn named() -> Value {
    json!({"type": "object", "required": ["name"], "properties": {"name": text(1, 253)}})
}

fn pool_ref() -> Value {
    json!({
        "type": "object",
        "required": ["apiGroup", "kind", "name"],
        "properties": {"apiGroup": text(1, 253), "kind": text(1, 63), "name": text(1, 253)},
    })
}

fn conditions() -> Value {
    json!({
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {"type": "string"},
                "message": text(0, 32768),
                "observedGeneration": {"type": "integer", "minimum": 0},
                "reason": text(1, 1024),
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "type": text(0, 316),
            },
        },
    })
}
