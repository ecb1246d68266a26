//! What the API server refuses of an edited spec: the rules across fields, which are CEL in the CRD and are stated here
//! again, and the schema.

use ipnet::IpNet;
use serde_json::Value;

use super::properties::conforms;

/// A rule of the CRD: its message, and whether a spec that conforms to the schema keeps it.
type Rule = (&'static str, fn(&Value) -> bool);

/// Every CEL rule of an object or of a list of objects. That poolID cannot be added or removed is no rule about one spec.
pub const RULES: [Rule; 9] = [
    ("poolID cannot be added or removed once the pool exists: create another pool", |_| true),
    ("reservations and excludedAddresses name the same address: remove it from one of them", |spec| {
        !reserved(spec).any(|address| excludes(spec, address))
    }),
    ("minFree must not be more than maxIPs", |spec| {
        let limit = spec["maxIPs"].as_u64();
        limit.is_none_or(|limit| min_free(spec) == 0 || min_free(spec) <= limit)
    }),
    ("subnets needs a floatingIPNetwork where there is a list: add one, or remove subnets", |spec| {
        spec.get("subnets").is_none() || !is_closed(spec)
    }),
    ("minFree needs a floatingIPNetwork where there is a list: add one, or remove minFree", |spec| {
        min_free(spec) == 0 || !is_closed(spec)
    }),
    ("name the network by exactly one of id and filter", |spec| {
        spec.get("floatingIPNetwork").is_none_or(names_exactly_one)
    }),
    ("name the subnet by exactly one of id and filter", |spec| subnets(spec).all(names_exactly_one)),
    ("filter must have at least one field", |spec| {
        let mut named = subnets(spec).chain(spec.get("floatingIPNetwork"));
        named.all(|it| it["filter"].as_object().is_none_or(|filter| !filter.is_empty()))
    }),
    ("an address can be reserved for one claim only", |spec| {
        let mut addresses: Vec<&str> = reserved(spec).collect();
        addresses.sort_unstable();
        addresses.windows(2).all(|pair| pair[0] != pair[1])
    }),
];

/// The rules of `reuse`, which speak of its policy and its tags.
pub const REUSE_RULES: [Rule; 2] = [
    ("reuse.tags must name at least one tag when reuse.policy is Tagged", |spec| !is_tagged(spec) || has_tags(spec)),
    ("reuse.tags has a meaning only when reuse.policy is Tagged: set the policy, or remove the tags", |spec| {
        is_tagged(spec) || !has_tags(spec)
    }),
];

/// Whether the API server accepts the spec of a pool that exists already.
pub fn is_admitted(schema: &Value, spec: &Value) -> bool {
    conforms(schema, spec, "spec").is_ok() && RULES.iter().chain(&REUSE_RULES).all(|(_, is_kept)| is_kept(spec))
}

fn is_closed(spec: &Value) -> bool {
    spec.get("preAllocatedFloatingIPs").is_some() && spec.get("floatingIPNetwork").is_none()
}

fn min_free(spec: &Value) -> u64 {
    spec["minFree"].as_u64().unwrap_or_default()
}

fn names_exactly_one(reference: &Value) -> bool {
    reference.get("id").is_some() != reference.get("filter").is_some()
}

fn subnets(spec: &Value) -> impl Iterator<Item = &Value> {
    spec["subnets"].as_array().into_iter().flatten()
}

fn reserved(spec: &Value) -> impl Iterator<Item = &str> {
    let reservations = spec["reservations"].as_array().into_iter().flatten();
    reservations.filter_map(|reservation| reservation["address"].as_str())
}

fn excludes(spec: &Value, address: &str) -> bool {
    let mut excluded = spec["excludedAddresses"].as_array().into_iter().flatten().filter_map(Value::as_str);
    excluded.any(|range| match range.parse::<IpNet>() {
        Ok(range) => range.contains(&address.parse::<std::net::IpAddr>().unwrap()),
        Err(_) => range == address,
    })
}

fn is_tagged(spec: &Value) -> bool {
    spec["reuse"]["policy"] == "Tagged"
}

fn has_tags(spec: &Value) -> bool {
    spec["reuse"]["tags"].as_array().is_some_and(|tags| !tags.is_empty())
}
