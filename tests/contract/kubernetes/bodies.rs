//! Objects and changes of each kind, most of them valid.

use serde_json::{Value, json};

use super::generator::Generator;
use crate::memory_api::Kind;

/// A new object; its metadata has a name only.
pub fn new_object(by: &mut Generator<'_>, kind: Kind, name: &str) -> Value {
    let mut body = match kind {
        Kind::Claim => json!({"spec": claim_spec(by), "status": {"addressRef": {"name": "ignored"}}}),
        Kind::Address => json!({"spec": address_spec(by, name)}),
        Kind::Pool => json!({"spec": pool_spec(by), "status": {"poolID": "ignored"}}),
        Kind::InTreePool => json!({"spec": {"identityRef": {"name": "s0"}}, "status": {"kept": true}}),
        Kind::Secret => json!({"data": {"clouds.yaml": "e30="}}),
        Kind::ConfigMap => json!({"data": {"addresses": "203.0.113.10\n"}}),
        Kind::Lease => json!({"spec": lease_spec(by)}),
        Kind::Event => event(by),
        Kind::OpenStackCluster => json!({"spec": {"apiServerFloatingIP": "198.18.0.10"}}),
        Kind::ClusterIdentity => json!({"spec": identity_spec(by)}),
        Kind::Namespace | Kind::Cluster => json!({}),
    };
    body["apiVersion"] = kind.api_version().into();
    body["kind"] = kind.names().3.into();
    body["metadata"]["name"] = name.into();
    match by.random.u32(..60) {
        0 => drop(body.as_object_mut().expect("an object").remove("spec")),
        1 => body["unknown"] = json!({"field": 1}),
        _ => {}
    }
    body
}

/// Not a pool of ours, so that no controller on the servers is concerned.
fn pool_ref(by: &mut Generator<'_>) -> Value {
    json!({"apiGroup": "ipam.example.org", "kind": "Pool", "name": by.pick(&["p0", "p1"])})
}

fn claim_spec(by: &mut Generator<'_>) -> Value {
    let mut spec = json!({"poolRef": pool_ref(by)});
    match by.random.u32(..24) {
        0 => spec = json!({}),
        1 => spec["poolRef"]["name"] = "".into(),
        2 => drop(spec["poolRef"].as_object_mut().expect("an object").remove("kind")),
        3 => spec["unknown"] = "dropped".into(),
        4 => spec["clusterName"] = Value::Null,
        5 => spec["clusterName"] = 5.into(),
        6..10 => spec["clusterName"] = "c".into(),
        _ => {}
    }
    spec
}

fn address_spec(by: &mut Generator<'_>, name: &str) -> Value {
    let address = by.pick(&["198.18.0.10", "198.18.0.11", "2001:db8::10"]);
    let prefix = if address.contains(':') { 128 } else { 32 };
    let mut spec = json!({"address": address, "prefix": prefix, "claimRef": {"name": name}, "poolRef": pool_ref(by)});
    match by.random.u32(..40) {
        0 => spec["address"] = by.pick(&["not-an-address", "198.18.0.010", "198.18.0", ""]).into(),
        1 => spec["prefix"] = by.pick(&[33, 129, -1, 0, 128]).into(),
        2 => drop(spec.as_object_mut().expect("an object").remove("prefix")),
        3 => spec["gateway"] = by.pick(&["198.18.0.1", "nowhere", ""]).into(),
        4 => spec["claimRef"] = json!({"name": by.any_name(Kind::Claim)}),
        5 => spec["claimRef"] = json!({}),
        6 => spec["unknown"] = json!([1]),
        7 => spec["prefix"] = "32".into(),
        _ => {}
    }
    spec
}

fn pool_spec(by: &mut Generator<'_>) -> Value {
    let mut spec = json!({"identityRef": {"name": "s0", "cloudName": "openstack"}});
    for _ in 0..by.random.usize(..3) {
        let (field, value) = pool_field(by);
        spec[field] = value;
    }
    match by.random.u32(..16) {
        0 => spec["identityRef"] = json!({"name": "s0"}),
        1 => spec["poolID"] = by.pick(&["contract-one", "contract-two"]).into(),
        2 => spec["unknown"] = "dropped".into(),
        _ => {}
    }
    spec
}

/// A field of a pool's spec. No rule in CEL is broken by any of them together.
fn pool_field(by: &mut Generator<'_>) -> (&'static str, Value) {
    let (one, two) = ("198.18.0.10", "198.18.0.11");
    by.pick(&[
        ("maxIPs", json!(3)),
        ("maxIPs", json!(0)),
        ("maxIPs", json!(-1)),
        ("maxIPs", json!(70000)),
        ("maxIPs", Value::Null),
        ("reclaimPolicy", json!("Retain")),
        ("reclaimPolicy", json!("Delete")),
        ("reclaimPolicy", json!("Recycle")),
        ("reclaimPolicy", Value::Null),
        ("orphans", json!({})),
        ("orphans", json!({"policy": "Report"})),
        ("orphans", json!({"graceSeconds": 60})),
        ("orphans", Value::Null),
        ("reuse", json!({"policy": "Never", "tags": null})),
        ("reuse", json!({"policy": "Tagged", "tags": ["prod"]})),
        ("reuse", json!({"minIdleSeconds": 60})),
        ("preAllocatedFloatingIPs", json!([one])),
        ("preAllocatedFloatingIPs", json!([one, two])),
        ("preAllocatedFloatingIPs", json!([one, one])),
        ("preAllocatedFloatingIPs", json!([])),
        ("preAllocatedFloatingIPs", Value::Null),
        ("reservations", json!([{"claim": "c0", "address": one}, {"claim": "c1", "address": two}])),
        ("reservations", json!([{"claim": "c0", "address": one}, {"claim": "c0", "address": two}])),
        ("reservations", json!([{"claim": "c0"}])),
        ("minFree", json!(0)),
        ("minFree", json!("2")),
    ])
}

fn identity_spec(by: &mut Generator<'_>) -> Value {
    let mut spec = json!({"secretRef": {"name": "s0", "namespace": "elsewhere"}});
    match by.random.u32(..8) {
        0..3 => spec["namespaceSelector"] = json!({"matchLabels": {"example.org/kind": "one"}}),
        3 => {
            let expression = json!({"key": "example.org/kind", "operator": "In", "values": ["one"]});
            spec["namespaceSelector"] = json!({"matchExpressions": [expression]});
        }
        4 => spec["namespaceSelector"] = json!({"matchExpressions": [{"key": "example.org/kind"}]}),
        5 => spec = json!({}),
        _ => {}
    }
    spec
}

fn lease_spec(by: &mut Generator<'_>) -> Value {
    let mut spec = json!({
        "holderIdentity": by.pick(&["one", "two"]), "leaseDurationSeconds": 15,
        "acquireTime": "2026-11-21T09:00:00.000000Z", "leaseTransitions": by.random.u32(..3),
        "renewTime": format!("2026-11-21T09:00:{:02}.123456Z", by.random.u32(..60)),
    });
    if by.one_in(4) {
        // As a leader gives it back.
        drop(spec.as_object_mut().expect("an object").remove("holderIdentity"));
    }
    spec
}

/// As kube's recorder writes it.
fn event(by: &mut Generator<'_>) -> Value {
    let claim = by.any_name(Kind::Claim);
    json!({
        "action": "Allocate", "reason": "AddressAllocated", "type": "Normal", "note": "it has an address",
        "eventTime": "2026-11-21T09:00:00.123456Z", "reportingController": "caip-openstack",
        "reportingInstance": "caip-openstack-0",
        "regarding": {
            "apiVersion": Kind::Claim.api_version(), "kind": "IPAddressClaim", "name": claim,
            "namespace": by.memory.namespace,
        },
    })
}

/// A merge patch of what a kind is about.
pub fn change(by: &mut Generator<'_>, kind: Kind) -> Value {
    match kind {
        Kind::Claim => by.pick(&[
            json!({"spec": {"clusterName": "changed"}}),
            json!({"spec": {"poolRef": {"name": "p1"}}}),
            json!({"spec": {"poolRef": null}}),
            json!({"spec": {"unknown": "dropped"}}),
        ]),
        Kind::Address => by.pick(&[
            json!({"spec": {"address": "198.18.0.12"}}),
            json!({"spec": {"prefix": 32}}),
            json!({"spec": {"gateway": null}}),
            json!({"spec": {"prefix": 200}}),
        ]),
        Kind::Pool => {
            let (field, value) = pool_field(by);
            match by.random.u32(..12) {
                0 => json!({"spec": {"poolID": by.pick(&[json!("contract-one"), json!("contract-two"), Value::Null])}}),
                1 => json!({"spec": null}),
                _ => json!({"spec": {field: value}}),
            }
        }
        Kind::InTreePool => by.pick(&[
            json!({"spec": {"reclaimPolicy": "Delete"}}),
            json!({"spec": {"reclaimPolicy": null}}),
            json!({"status": {"kept": true}}),
            json!({"status": {"kept": false}}),
        ]),
        Kind::Secret => by.pick(&[
            json!({"data": {"clouds.yaml": "e30="}}),
            json!({"data": {"clouds.yaml": "W10="}}),
            json!({"data": {"cacert": "W10=", "clouds.yaml": null}}),
        ]),
        Kind::ConfigMap => by.pick(&[
            json!({"data": {"addresses": "203.0.113.10\n"}}),
            json!({"data": {"addresses": ""}}),
            json!({"data": {"addresses": null, "cidrs": "203.0.113.10/32\n"}}),
        ]),
        Kind::Lease => json!({"spec": lease_spec(by)}),
        Kind::Event => json!({
            "series": {"count": by.random.u32(2..9), "lastObservedTime": "2026-11-21T09:01:00.123456Z"},
        }),
        Kind::OpenStackCluster => by.pick(&[
            json!({"spec": {"apiServerFloatingIP": "198.18.0.11"}}),
            json!({"spec": {"apiServerFloatingIP": null, "bastion": {"floatingIP": "198.18.0.10"}}}),
            json!({"status": {"bastion": {"floatingIP": "198.18.0.11"}}}),
        ]),
        Kind::ClusterIdentity => by.pick(&[
            json!({"spec": {"namespaceSelector": {"matchLabels": {"example.org/kind": "two"}}}}),
            json!({"spec": {"namespaceSelector": {"matchLabels": {"example.org/kind": 2}}}}),
            json!({"spec": {"namespaceSelector": null}}),
            json!({"spec": {"secretRef": {"namespace": null}}}),
            json!({"spec": {"secretRef": {"name": "s1"}, "unknown": "dropped"}}),
            json!({"metadata": {"annotations": {"example.org/note": "one"}}}),
        ]),
        Kind::Namespace => by.pick(&[
            json!({"metadata": {"labels": {"example.org/kind": "one"}}}),
            json!({"metadata": {"labels": {"example.org/kind": null}}}),
            json!({"metadata": {"annotations": {"example.org/note": "one"}}}),
        ]),
        Kind::Cluster => json!({}),
    }
}

/// A status, as far as the kind has one.
pub fn status(by: &mut Generator<'_>, kind: Kind) -> Value {
    match kind {
        Kind::Pool => pool_status(by),
        _ => claim_status(by),
    }
}

fn condition(by: &mut Generator<'_>, kind: &str) -> Value {
    json!({
        "type": kind, "status": by.pick(&["True", "False"]), "reason": by.pick(&["AddressAllocated", "PoolExhausted"]),
        "message": "", "lastTransitionTime": "2026-11-21T09:00:00Z", "observedGeneration": 1,
    })
}

fn claim_status(by: &mut Generator<'_>) -> Value {
    let ready = condition(by, "Ready");
    match by.random.u32(..12) {
        0..5 => json!({"conditions": [ready]}),
        5 | 6 => json!({"addressRef": {"name": by.any_name(Kind::Address)}}),
        7 => json!({"addressRef": null}),
        8 => json!({"conditions": [ready, condition(by, "Ready")]}),
        9 => json!({"conditions": [{"type": "Ready"}], "unknown": 1}),
        10 => json!({"conditions": [], "addressRef": {"name": ""}}),
        _ => Value::Null,
    }
}

fn pool_status(by: &mut Generator<'_>) -> Value {
    let counts =
        json!({"allocated": 1, "cooling": 0, "failed": 0, "outOfRange": 0, "free": by.random.u32(..3), "total": 2});
    match by.random.u32(..12) {
        0..4 => json!({"conditions": [condition(by, "Ready"), condition(by, "Exhausted")], "addresses": counts}),
        4 | 5 => json!({"addresses": counts, "network": {"id": "n", "name": "public"}, "poolID": "abc"}),
        6 => json!({"addresses": null, "observedGeneration": 3}),
        7 => json!({"addresses": {"free": 1}}),
        8 => {
            json!({"failed": [{"address": "198.18.0.10", "reason": "Attached", "message": "it is attached"}], "unknown": 1})
        }
        9 => json!({"conditions": [condition(by, "Ready"), condition(by, "Ready")]}),
        10 => json!({"failed": null, "network": null}),
        _ => Value::Null,
    }
}
