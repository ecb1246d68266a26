//! One row per validation rule: a valid value, at the limit if there is one, and an invalid one.

use std::iter::repeat_n;

use serde_json::{Value, json};

pub struct Row {
    /// The rule's field, such as `spec.reservations[].claim`.
    pub path: String,
    /// A keyword of the schema, or the start of a CEL rule's message.
    pub rule: &'static str,
    pub good: Value,
    pub bad: Value,
}

/// Placeholder for an absent field.
pub fn absent() -> Value {
    json!({"absent": true})
}

fn row(path: impl Into<String>, rule: &'static str, good: Value, bad: Value) -> Row {
    Row { path: path.into(), rule, good, bad }
}

fn long(length: usize) -> Value {
    "a".repeat(length).into()
}

fn addresses(count: u32) -> Value {
    (0..count).map(|n| format!("198.18.{}.{}", n / 256, n % 256)).collect()
}

pub fn rows() -> Vec<Row> {
    let mut rows = vec![row("spec", "required", json!({}), absent())];
    rows.extend(identity());
    rows.extend(lists_and_numbers());
    rows.extend(network_and_subnets());
    rows.extend(reuse_and_orphans());
    rows.extend(identity_in_neutron());
    rows.extend(across_fields());
    rows.extend(status());
    rows
}

fn bounded(path: &str, most: usize) -> [Row; 2] {
    [row(path, "minLength", long(1), "".into()), row(path, "maxLength", long(most), long(most + 1))]
}

fn number(path: &str, most: u32) -> [Row; 2] {
    [row(path, "minimum", 0.into(), (-1).into()), row(path, "maximum", most.into(), (most + 1).into())]
}

fn address(path: &str) -> [Row; 4] {
    [
        row(path, "minLength", "::".into(), "".into()),
        row(path, "maxLength", "2001:db8:1111:2222:3333:4444:5555:6666".into(), long(40)),
        row(path, "must be an IPv4 or IPv6 address", "203.0.113.10".into(), "203.0.113.256".into()),
        row(path, "must be written as Neutron writes it", "2001:db8::1".into(), "2001:DB8:0::1".into()),
    ]
}

fn tag_list(count: usize) -> Value {
    (0..count).map(|n| format!("t{n}")).collect()
}

fn tags(path: &str) -> Vec<Row> {
    let item = format!("{path}[]");
    let mut rows = vec![
        row(path, "maxItems", tag_list(16), tag_list(17)),
        row(&item, "set", json!(["a", "b"]), json!(["a", "a"])),
        row(&item, "a tag must not contain a comma", "a:b".into(), "a,b".into()),
    ];
    rows.extend(bounded(&item, 255));
    rows
}

fn identity() -> Vec<Row> {
    let mut rows = vec![
        row("spec.identityRef", "required", json!({"name": "cloud", "cloudName": "openstack"}), absent()),
        row("spec.identityRef.name", "required", "cloud".into(), absent()),
        row("spec.identityRef.cloudName", "required", "openstack".into(), absent()),
        row("spec.identityRef.type", "enum", "ClusterIdentity".into(), "ServiceAccount".into()),
    ];
    rows.extend(bounded("spec.identityRef.name", 253));
    rows.extend(bounded("spec.identityRef.cloudName", 253));
    rows.extend(bounded("spec.identityRef.region", 255));
    rows
}

fn lists_and_numbers() -> Vec<Row> {
    let list = "spec.preAllocatedFloatingIPs";
    let excluded = "spec.excludedAddresses";
    let mut rows = vec![
        row(list, "maxItems", addresses(1024), addresses(1025)),
        row(
            format!("{list}[]"),
            "set",
            json!(["203.0.113.10", "203.0.113.11"]),
            json!(["203.0.113.10", "203.0.113.10"]),
        ),
        row(excluded, "maxItems", addresses(64), addresses(65)),
        row(format!("{excluded}[]"), "set", json!(["203.0.113.10", "203.0.113.0/24"]), json!(["::1", "::1"])),
        row(format!("{excluded}[]"), "minLength", "::".into(), "".into()),
        row(format!("{excluded}[]"), "maxLength", "2001:db8:1111:2222:3333:4444:5555:6666/128".into(), long(44)),
        row(format!("{excluded}[]"), "must be an address or a range", "203.0.113.66".into(), "203.0.113".into()),
        row(format!("{excluded}[]"), "must be written as Neutron writes it", "2001:db8::".into(), "2001:DB8::".into()),
        row(
            format!("{excluded}[]"),
            "must name the range by its first",
            "203.0.113.128/28".into(),
            "203.0.113.130/28".into(),
        ),
        row(
            format!("{excluded}[]"),
            "must name the range by its first",
            "2001:db8::/64".into(),
            "2001:DB8::/64".into(),
        ),
        row("spec.tags", "maxItems", tag_list(16), tag_list(17)),
        row("spec.tags[]", "set", json!(["a", "b"]), json!(["a", "a"])),
        row("spec.tags[]", "a tag of spec.tags must consist of letters", "Cost:a_b~c=d@e+f.g-1".into(), "a/b".into()),
        row("spec.tags[]", "a tag of spec.tags must not look like a mark", "caip-team".into(), "Caip2-out.x".into()),
        row("spec.reclaimPolicy", "enum", "Retain".into(), "Recycle".into()),
    ];
    rows.extend(bounded("spec.tags[]", 60));
    rows.extend(address(&format!("{list}[]")));
    rows.extend(number("spec.maxIPs", 65536));
    rows.extend(number("spec.minFree", 1024));
    rows.extend(number("spec.reuseGracePeriodSeconds", 604800));
    rows
}

fn network_and_subnets() -> Vec<Row> {
    const ID: &str = "b146e3b3-b18e-4467-b997-c4d16ef37365";
    let by_name = json!({"filter": {"name": "public"}});
    let mut rows = Vec::new();
    for (path, exactly_one) in [
        ("spec.floatingIPNetwork", "name the network by exactly one of id and filter"),
        ("spec.subnets[]", "name the subnet by exactly one of id and filter"),
    ] {
        rows.extend([
            row(path, exactly_one, by_name.clone(), json!({})),
            row(path, exactly_one, json!({"id": ID}), json!({"id": ID, "filter": {"name": "public"}})),
            row(format!("{path}.id"), "must be an id of Neutron", ID.into(), "public".into()),
            row(format!("{path}.id"), "maxLength", ID.into(), long(37)),
            row(format!("{path}.filter"), "filter must have at least one field", json!({"tags": ["a"]}), json!({})),
        ]);
        for field in ["name", "description", "projectID"] {
            rows.extend(bounded(&format!("{path}.filter.{field}"), 255));
        }
        for field in ["tags", "tagsAny", "notTags", "notTagsAny"] {
            rows.extend(tags(&format!("{path}.filter.{field}")));
        }
    }
    let subnets = |count| -> Value { repeat_n(&by_name, count).cloned().collect() };
    rows.push(row("spec.subnets", "maxItems", subnets(16), subnets(17)));
    rows.extend(bounded("spec.subnets[].filter.cidr", 43));
    rows.push(row("spec.subnets[].filter.ipVersion", "enum", 6.into(), 5.into()));
    rows
}

fn reuse_and_orphans() -> Vec<Row> {
    let mut rows = vec![
        row("spec.reuse.policy", "enum", "Never".into(), "Always".into()),
        row(
            "spec.reuse",
            "reuse.tags must name at least one",
            json!({"policy": "Tagged", "tags": ["a"]}),
            json!({"policy": "Tagged"}),
        ),
        row("spec.reuse", "reuse.tags has a meaning only", json!({"policy": "Unmarked"}), json!({"tags": ["a"]})),
        row("spec.orphans.policy", "enum", "Report".into(), "Delete".into()),
    ];
    rows.extend(tags("spec.reuse.tags"));
    rows.extend(number("spec.reuse.minIdleSeconds", 604800));
    rows.extend(number("spec.orphans.graceSeconds", 604800));
    rows
}

fn identity_in_neutron() -> Vec<Row> {
    let reservations = |count: u32| -> Value {
        (0..count)
            .map(|n| json!({"claim": format!("c{n}"), "address": format!("198.18.{}.{}", n / 256, n % 256)}))
            .collect()
    };
    let two = |claims: [&str; 2], addresses: [&str; 2]| json!([{"claim": claims[0], "address": addresses[0]}, {"claim": claims[1], "address": addresses[1]}]);
    let good = two(["a", "b"], ["203.0.113.10", "203.0.113.11"]);
    let mut rows = vec![
        row("spec.reservations", "maxItems", reservations(256), reservations(257)),
        row("spec.reservations[]", "map", good.clone(), two(["a", "a"], ["203.0.113.10", "203.0.113.11"])),
        row(
            "spec.reservations",
            "an address can be reserved for one claim only",
            good,
            two(["a", "b"], ["203.0.113.10", "203.0.113.10"]),
        ),
        row("spec.reservations[].claim", "required", "a".into(), absent()),
        row("spec.reservations[].address", "required", "203.0.113.12".into(), absent()),
        row("spec.poolID", "minLength", long(1), "".into()),
        row("spec.poolID", "maxLength", long(20), long(21)),
        row(
            "spec.identityRef.name",
            "must be the name of a Secret",
            "cloud.example".into(),
            "../../b/secrets/cloud".into(),
        ),
        row("spec.poolID", "must be at most 20 of a-z", "prod-eu-1".into(), "prod-".into()),
        row("spec.addressConfigMap.name", "required", "public-addresses".into(), absent()),
        row(
            "spec.addressConfigMap.name",
            "must be the name of a ConfigMap",
            "public.addresses".into(),
            "Public".into(),
        ),
    ];
    rows.extend(bounded("spec.addressConfigMap.name", 253));
    rows.extend(bounded("spec.reservations[].claim", 253));
    rows.extend(address("spec.reservations[].address"));
    rows
}

fn across_fields() -> Vec<Row> {
    let reserved = json!([{"claim": "a", "address": "203.0.113.12"}]);
    let both = "reservations and excludedAddresses name the same address";
    let list = json!(["203.0.113.10"]);
    let network = json!({"filter": {"name": "public"}});
    vec![
        row(
            "spec",
            both,
            json!({"reservations": reserved, "excludedAddresses": ["203.0.113.13"]}),
            json!({"reservations": reserved, "excludedAddresses": ["203.0.113.12"]}),
        ),
        row(
            "spec",
            both,
            json!({"reservations": reserved, "excludedAddresses": ["203.0.113.16/28"]}),
            json!({"reservations": reserved, "excludedAddresses": ["203.0.113.0/28"]}),
        ),
        row(
            "spec",
            "minFree must not be more than maxIPs",
            json!({"minFree": 2, "maxIPs": 2}),
            json!({"minFree": 3, "maxIPs": 2}),
        ),
        row(
            "spec",
            "subnets needs a floatingIPNetwork",
            json!({"subnets": [network], "preAllocatedFloatingIPs": list, "floatingIPNetwork": network}),
            json!({"subnets": [network], "preAllocatedFloatingIPs": list}),
        ),
        row(
            "spec",
            "minFree needs a floatingIPNetwork",
            json!({"minFree": 1, "preAllocatedFloatingIPs": list, "floatingIPNetwork": network}),
            json!({"minFree": 1, "preAllocatedFloatingIPs": list}),
        ),
    ]
}

fn status() -> Vec<Row> {
    let mut rows = Vec::new();
    for count in ["total", "allocated", "free", "cooling", "failed", "outOfRange"] {
        let path = format!("status.addresses.{count}");
        // What earlier versions have written does not have the later ones.
        if count != "outOfRange" {
            rows.push(row(&path, "required", 0.into(), absent()));
        }
        rows.push(row(&path, "minimum", 0.into(), (-1).into()));
    }
    rows.push(row("status.claims.waiting", "required", 0.into(), absent()));
    rows.push(row("status.claims.waiting", "minimum", 0.into(), (-1).into()));
    for field in ["id", "name"] {
        rows.push(row(format!("status.network.{field}"), "required", "a".into(), absent()));
    }
    for field in ["address", "reason", "message"] {
        rows.push(row(format!("status.failed[].{field}"), "required", "a".into(), absent()));
    }
    for reason in ["status.failed[].reason", "status.conditions[].reason"] {
        rows.push(row(reason, "minLength", "A".into(), "".into()));
        rows.push(row(reason, "maxLength", long(1024), long(1025)));
        rows.push(row(reason, "pattern", "NotFound".into(), "is not found".into()));
    }
    rows.push(row("status.conditions[].type", "maxLength", long(316), long(317)));
    rows.push(row("status.conditions[].type", "pattern", "Ready".into(), "is ready".into()));
    rows.push(row("status.conditions[].status", "enum", "Unknown".into(), "true".into()));
    rows.push(row("status.conditions[].message", "maxLength", long(32768), long(32769)));
    rows.push(row("status.conditions[].observedGeneration", "minimum", 0.into(), (-1).into()));
    for field in ["type", "status", "reason", "message"] {
        rows.push(row(format!("status.conditions[].{field}"), "required", "True".into(), absent()));
    }
    rows.push(row("status.conditions[].lastTransitionTime", "required", "2026-01-01T00:00:00Z".into(), absent()));
    let missing = json!({"address": "203.0.113.10", "reason": "NotFound", "message": "create it"});
    let failed = |count| -> Value { repeat_n(missing.clone(), count).collect() };
    rows.push(row("status.failed", "maxItems", failed(16), failed(17)));
    let conditions = |types: Vec<String>| -> Value {
        types.iter().map(|type_| {
            json!({"type": type_, "status": "True", "reason": "A", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"})
        }).collect()
    };
    let many = |count: u32| conditions((0..count).map(|n| format!("C{n}")).collect());
    rows.push(row("status.conditions", "maxItems", many(32), many(33)));
    rows.push(row("status.conditions[]", "map", many(2), conditions(vec!["Ready".into(), "Ready".into()])));
    rows
}
