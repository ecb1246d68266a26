//! Schemas that cannot be derived: list types, CEL rules on scalars, visible defaults.

use schemars::{Schema, SchemaGenerator, json_schema};

use super::pool::FailedAddress;
use super::pool_network::SubnetParam;

fn address_rules() -> serde_json::Value {
    serde_json::json!([
        {"rule": "isIP(self)", "message": "must be an IPv4 or IPv6 address, such as 203.0.113.10"},
        {"rule": "!isIP(self) || ip.isCanonical(self)", "message": "must be written as Neutron writes it: no leading zeros, IPv6 in short lower-case form"}
    ])
}

pub(super) fn address(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "minLength": 2, "maxLength": 39, "x-kubernetes-validations": address_rules()})
}

pub(super) fn address_list(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "maxItems": 1024, "x-kubernetes-list-type": "set",
        "items": {"type": "string", "minLength": 2, "maxLength": 39, "x-kubernetes-validations": address_rules()}
    })
}

pub(super) fn exclusions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "maxItems": 64, "x-kubernetes-list-type": "set",
        "items": {
            "type": "string", "minLength": 2, "maxLength": 43,
            "x-kubernetes-validations": [
                {"rule": "isIP(self) || isCIDR(self)", "message": "must be an address or a range, such as 203.0.113.66 or 203.0.113.128/28"},
                {"rule": "!isIP(self) || ip.isCanonical(self)", "message": "must be written as Neutron writes it: no leading zeros, IPv6 in short lower-case form"},
                {"rule": "!isCIDR(self) || string(cidr(self).masked()) == self", "message": "must name the range by its first address, as Neutron writes it, such as 203.0.113.128/28"}
            ]
        }
    })
}

/// Neutron cannot filter by a tag that contains a comma.
pub(super) fn tags(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "maxItems": 16, "x-kubernetes-list-type": "set",
        "items": {"type": "string", "minLength": 1, "maxLength": 255, "x-kubernetes-validations": [
            {"rule": "!self.contains(',')", "message": "a tag must not contain a comma: Neutron cannot filter by it"}
        ]}
    })
}

/// Older versions of Neutron limit tags to 60 characters, and its requests for single tags do not accept every character.
pub(super) fn own_tags(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "maxItems": 16, "x-kubernetes-list-type": "set",
        "items": {"type": "string", "minLength": 1, "maxLength": 60, "x-kubernetes-validations": [
            {"rule": "self.matches('^[A-Za-z0-9_~:=@+.-]+$') && self != '.' && self != '..'", "message": "a tag of spec.tags must consist of letters, digits and any of -_.~:=@+"},
            {"rule": "!self.matches('(?i)^caip[0-9]*(-out)?[.]')", "message": "a tag of spec.tags must not look like a mark: caip. and caip-out. are the controller's"}
        ]}
    })
}

pub(super) fn uuid(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "maxLength": 36, "x-kubernetes-validations": [
        {"rule": "self.matches('^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$')", "message": "must be an id of Neutron (a UUID in lower case); use filter.name for a name"}
    ]})
}

pub(super) fn ip_version(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "enum": [4, 6]})
}

pub(super) fn identity_type(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["Secret", "ClusterIdentity"], "default": "Secret"})
}

pub(super) fn reclaim_policy(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["Delete", "Retain"], "default": "Delete"})
}

pub(super) fn reuse_policy(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["Unmarked", "Tagged", "Never"], "default": "Unmarked"})
}

pub(super) fn orphan_policy(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["Release", "Report"], "default": "Release"})
}

/// A DNS subdomain. The controller reads an object of this name.
pub(super) fn identity_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "minLength": 1, "maxLength": 253, "x-kubernetes-validations": [
        {"rule": "self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')", "message": "must be the name of a Secret or an OpenStackClusterIdentity: lowercase letters, digits, - and ., with a letter or digit at both ends"}
    ]})
}

pub(super) fn config_map_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "minLength": 1, "maxLength": 253, "x-kubernetes-validations": [
        {"rule": "self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')", "message": "must be the name of a ConfigMap: lowercase letters, digits, - and ., with a letter or digit at both ends"}
    ]})
}

/// Short, because it is part of a tag, and older versions of Neutron limit tags to 60 characters.
pub(super) fn pool_id(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "minLength": 1, "maxLength": 20, "x-kubernetes-validations": [
        {"rule": "self.matches('^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$')", "message": "must be at most 20 of a-z, 0-9 and -, and start and end with a letter or digit"},
        {"rule": "self == oldSelf", "message": "poolID cannot be changed once the pool exists: create another pool"}
    ]})
}

pub(super) fn subnets(generator: &mut SchemaGenerator) -> Schema {
    let item = generator.subschema_for::<SubnetParam>();
    json_schema!({"type": "array", "maxItems": 16, "x-kubernetes-list-type": "atomic", "items": item})
}

/// Two floating IPs of different networks may have the same address, so it is no key.
pub(super) fn failed(generator: &mut SchemaGenerator) -> Schema {
    let item = generator.subschema_for::<FailedAddress>();
    json_schema!({"type": "array", "maxItems": 16, "x-kubernetes-list-type": "atomic", "items": item})
}

/// As Kubernetes has it for conditions.
pub(super) fn reason(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "minLength": 1, "maxLength": 1024, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
    })
}

/// `metav1.Condition` with its validation, which the Rust type lacks.
pub(super) fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let mut reason = reason(generator);
    reason.insert("description".to_owned(), "The reason of the last transition, in one CamelCase word.".into());
    json_schema!({
        "type": "array", "maxItems": 32, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object", "description": "One aspect of the pool's state.",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "type": {
                    "type": "string", "maxLength": 316, "description": "The condition's type, in CamelCase.",
                    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
                },
                "status": {
                    "type": "string", "enum": ["True", "False", "Unknown"],
                    "description": "Whether the condition holds."
                },
                "reason": reason,
                "message": {
                    "type": "string", "maxLength": 32768, "description": "The reason, and what to do, for people."
                },
                "lastTransitionTime": {
                    "type": "string", "format": "date-time", "description": "When the status last changed."
                },
                "observedGeneration": {
                    "type": "integer", "format": "int64", "minimum": 0,
                    "description": "The generation of the spec that the condition describes."
                }
            }
        }
    })
}
