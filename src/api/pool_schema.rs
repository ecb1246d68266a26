//! Schemas that a derive cannot say: list types, CEL rules on scalars, defaults that users should see.

use schemars::{Schema, SchemaGenerator, json_schema};

fn address_rules() -> serde_json::Value {
    serde_json::json!([
        {"rule": "isIP(self)", "message": "must be an IPv4 or IPv6 address, such as 203.0.113.10"},
        {"rule": "!isIP(self) || ip.isCanonical(self)", "message": "must be written as Neutron writes it: no leading zeros, IPv6 in short lower-case form"}
    ])
}

/// One address.
pub(super) fn address(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "minLength": 2, "maxLength": 39, "x-kubernetes-validations": address_rules()})
}

/// A set of addresses.
pub(super) fn address_list(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "maxItems": 1024, "x-kubernetes-list-type": "set",
        "items": {"type": "string", "minLength": 2, "maxLength": 39, "x-kubernetes-validations": address_rules()}
    })
}

/// A set of addresses and ranges.
pub(super) fn exclusions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "maxItems": 64, "x-kubernetes-list-type": "set",
        "items": {
            "type": "string", "minLength": 2, "maxLength": 43,
            "x-kubernetes-validations": [
                {"rule": "isIP(self) || isCIDR(self)", "message": "must be an address or a range, such as 203.0.113.66 or 203.0.113.128/28"},
                {"rule": "!isIP(self) || ip.isCanonical(self)", "message": "must be written as Neutron writes it: no leading zeros, IPv6 in short lower-case form"},
                {"rule": "!isCIDR(self) || cidr(self) == cidr(self).masked()", "message": "must name the range by its first address, such as 203.0.113.128/28"}
            ]
        }
    })
}

/// Reservations, one for a claim and one for an address.
pub(super) fn reservations(generator: &mut SchemaGenerator) -> Schema {
    let item = generator.subschema_for::<super::pool::Reservation>();
    json_schema!({
        "type": "array", "maxItems": 256, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["claim"],
        "items": item,
        "x-kubernetes-validations": [
            {"rule": "self.all(a, self.exists_one(b, a.address == b.address))", "message": "an address can be reserved for one claim only"}
        ]
    })
}

/// A set of Neutron tags: 60 characters in Neutron before 2021; a comma cannot be filtered, a slash cannot be deleted.
pub(super) fn tags(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "maxItems": 16, "x-kubernetes-list-type": "set",
        "items": {"type": "string", "minLength": 1, "maxLength": 255, "x-kubernetes-validations": [
            {"rule": "!self.contains(',')", "message": "a tag must not contain a comma: Neutron cannot filter by it"}
        ]}
    })
}

/// An id of Neutron.
pub(super) fn uuid(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "maxLength": 36, "x-kubernetes-validations": [
        {"rule": "self.matches('^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$')", "message": "must be an id of Neutron (a UUID in lower case); use filter.name for a name"}
    ]})
}

/// 4 or 6.
pub(super) fn ip_version(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "enum": [4, 6]})
}

/// See [`super::pool::IdentityType`].
pub(super) fn identity_type(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["Secret"]})
}

/// See [`super::pool::ReclaimPolicy`].
pub(super) fn reclaim_policy(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["Delete", "Retain"], "default": "Delete"})
}

/// See [`super::pool::ReusePolicy`].
pub(super) fn reuse_policy(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["Unmarked", "Tagged", "Never"], "default": "Unmarked"})
}

/// See [`super::pool::OrphanPolicy`].
pub(super) fn orphan_policy(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["Release", "Report"], "default": "Release"})
}

/// The pool's identity: it is part of a tag, which fits 60 characters in old Neutron.
pub(super) fn pool_id(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "minLength": 1, "maxLength": 20, "x-kubernetes-validations": [
        {"rule": "self.matches('^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$')", "message": "must be at most 20 of a-z, 0-9 and -, and start and end with a letter or digit"},
        {"rule": "self == oldSelf", "message": "poolID cannot be changed once the pool exists: make another pool"}
    ]})
}

/// Conditions, one of a type.
pub(super) fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let item = generator.subschema_for::<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>();
    json_schema!({
        "type": "array", "maxItems": 32, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
        "items": item
    })
}
