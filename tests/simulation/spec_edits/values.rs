//! The edits: for each property of the spec its default, values at its limits, others, and values that only OpenStack or
//! another object shows to be wrong, so that the API server accepts them.

use serde_json::{Value, json};

use super::setting::{
    ATTACHED, BOUND_FROM_LIST, FREE, IDENTITY, Ids, MISSING, OTHER_CLOUD, OTHER_SECRET, OTHER_SUBNET, RESERVING, TAG,
    TAKEN,
};

/// What a value is to its property.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Sort {
    /// The property means the same as before.
    Default,
    /// At a limit of what the schema allows.
    Edge,
    Changed,
    Removed,
    /// Wrong, and the schema cannot refuse it.
    Invalid,
}

/// One edit of a spec by a user.
#[derive(Clone, Debug)]
pub struct Edit {
    /// The path of the property that it is about, as in [`leaves`](super::properties::leaves).
    pub property: String,
    pub sort: Sort,
    /// A merge patch of the spec.
    pub patch: Value,
}

/// No edit: the API server refuses each.
pub const IMMUTABLE: [&str; 1] = ["poolID"];

/// Everything that a user may change, one property at a time.
pub fn edits(ids: &Ids, optional: &[String]) -> Vec<Edit> {
    let mut edits = Vec::new();
    edits.extend(identity());
    edits.extend(list());
    edits.extend(network(ids));
    edits.extend(subnets(ids));
    edits.extend(limits());
    edits.extend(reuse());
    edits.extend(particular_addresses());
    edits.extend(config_map());
    edits.extend(removals(optional));
    edits
}

fn edit(property: &str, sort: Sort, patch: Value) -> Edit {
    Edit { property: property.to_owned(), sort, patch }
}

/// Sets the property at a path of names.
fn set(property: &str, sort: Sort, value: Value) -> Edit {
    let patch = property.rsplit('.').fold(value, |inner, name| json!({ name: inner }));
    edit(property, sort, patch)
}

fn identity() -> Vec<Edit> {
    let of_cluster = |name: &str| json!({"identityRef": {"type": "ClusterIdentity", "name": name}});
    vec![
        set("identityRef.type", Sort::Default, json!("Secret")),
        edit("identityRef.type", Sort::Changed, of_cluster(IDENTITY)),
        edit("identityRef.type", Sort::Invalid, of_cluster("missing")),
        set("identityRef.name", Sort::Changed, json!(OTHER_SECRET)),
        set("identityRef.name", Sort::Invalid, json!("missing")),
        set("identityRef.cloudName", Sort::Changed, json!(OTHER_CLOUD)),
        set("identityRef.cloudName", Sort::Invalid, json!("nowhere")),
        set("identityRef.region", Sort::Default, json!("RegionOne")),
        set("identityRef.region", Sort::Invalid, json!("RegionTwo")),
    ]
}

fn list() -> Vec<Edit> {
    let of = |sort, list: &[&str]| set("preAllocatedFloatingIPs", sort, json!(list));
    vec![
        of(Sort::Edge, &[]),
        of(Sort::Changed, &[BOUND_FROM_LIST, FREE]),
        of(Sort::Changed, &[FREE]),
        of(Sort::Invalid, &[BOUND_FROM_LIST, MISSING]),
        of(Sort::Invalid, &[BOUND_FROM_LIST, ATTACHED]),
    ]
}

fn network(ids: &Ids) -> Vec<Edit> {
    let by_id =
        |sort, id: &str| edit("floatingIPNetwork.id", sort, json!({"floatingIPNetwork": {"id": id, "filter": null}}));
    let by_filter = |field: &str, sort, value: Value| {
        let patch = json!({"floatingIPNetwork": {"id": null, "filter": {field: value}}});
        edit(&format!("floatingIPNetwork.filter.{field}"), sort, patch)
    };
    let mut edits = vec![
        by_id(Sort::Default, ids.network.as_str()),
        by_id(Sort::Changed, ids.other_network.as_str()),
        by_id(Sort::Invalid, ids.inner_network.as_str()),
        by_id(Sort::Invalid, UNKNOWN_ID),
        by_filter("name", Sort::Changed, json!("second")),
        by_filter("name", Sort::Invalid, json!("nowhere")),
        by_filter("projectID", Sort::Default, json!(ids.project.as_str())),
    ];
    edits.extend(common_filter_values().map(|(field, sort, value)| by_filter(field, sort, value)));
    edits
}

fn subnets(ids: &Ids) -> Vec<Edit> {
    let by_id = |sort, id: &str| edit("subnets[].id", sort, json!({"subnets": [{"id": id}]}));
    let by_filter = |field: &str, sort, filter: Value| {
        edit(&format!("subnets[].filter.{field}"), sort, json!({"subnets": [{"filter": filter}]}))
    };
    let both = json!({"subnets": [{"filter": {"name": OTHER_SUBNET}}, {"filter": {"name": "v4"}}]});
    let mut edits = vec![
        edit("subnets[].id", Sort::Edge, json!({"subnets": []})),
        by_id(Sort::Changed, ids.other_subnet.as_str()),
        by_id(Sort::Invalid, ids.subnet_elsewhere.as_str()),
        by_id(Sort::Invalid, UNKNOWN_ID),
        by_filter("name", Sort::Changed, json!({"name": OTHER_SUBNET})),
        edit("subnets[].filter.name", Sort::Changed, both),
        by_filter("name", Sort::Invalid, json!({"name": "nowhere"})),
        by_filter("ipVersion", Sort::Changed, json!({"name": OTHER_SUBNET, "ipVersion": 4})),
        by_filter("ipVersion", Sort::Invalid, json!({"ipVersion": 6})),
        by_filter("cidr", Sort::Invalid, json!({"cidr": "10.0.0.0/8"})),
        by_filter("projectID", Sort::Invalid, json!({"projectID": ids.project.as_str()})),
    ];
    let common = common_filter_values();
    edits.extend(
        common
            .filter(|(field, ..)| *field != "projectID")
            .map(|(field, sort, value)| by_filter(field, sort, json!({"name": OTHER_SUBNET, field: value}))),
    );
    edits
}

/// What networks and subnets are filtered by. None here has a description or tags.
fn common_filter_values() -> impl Iterator<Item = (&'static str, Sort, Value)> {
    [
        ("description", Sort::Invalid, json!("no such")),
        ("projectID", Sort::Invalid, json!("no such")),
        ("tags", Sort::Invalid, json!(["no such"])),
        ("tagsAny", Sort::Invalid, json!(["no such"])),
        ("notTags", Sort::Changed, json!(["no such"])),
        ("notTagsAny", Sort::Changed, json!(["no such"])),
    ]
    .into_iter()
}

fn limits() -> Vec<Edit> {
    vec![
        set("maxIPs", Sort::Edge, json!(0)),
        // The pool has five addresses.
        set("maxIPs", Sort::Changed, json!(5)),
        set("maxIPs", Sort::Changed, json!(6)),
        set("maxIPs", Sort::Edge, json!(65536)),
        set("minFree", Sort::Default, json!(0)),
        set("minFree", Sort::Changed, json!(1)),
        set("minFree", Sort::Edge, json!(1024)),
        set("tags", Sort::Changed, json!(["cost-a"])),
        set("reclaimPolicy", Sort::Default, json!("Delete")),
        set("reclaimPolicy", Sort::Changed, json!("Retain")),
        set("reuseGracePeriodSeconds", Sort::Edge, json!(0)),
        set("reuseGracePeriodSeconds", Sort::Edge, json!(604_800)),
        set("orphans.policy", Sort::Default, json!("Release")),
        set("orphans.policy", Sort::Changed, json!("Report")),
        set("orphans.graceSeconds", Sort::Edge, json!(0)),
        set("orphans.graceSeconds", Sort::Default, json!(3600)),
        set("orphans.graceSeconds", Sort::Edge, json!(604_800)),
    ]
}

fn reuse() -> Vec<Edit> {
    let tagged = |tags: Value| json!({"reuse": {"policy": "Tagged", "tags": tags}});
    vec![
        set("reuse.policy", Sort::Default, json!("Unmarked")),
        edit("reuse.policy", Sort::Changed, json!({"reuse": {"policy": "Never", "tags": null}})),
        edit("reuse.policy", Sort::Changed, tagged(json!([TAG]))),
        edit("reuse.tags", Sort::Invalid, tagged(json!([TAG, "no such"]))),
        set("reuse.minIdleSeconds", Sort::Edge, json!(0)),
        set("reuse.minIdleSeconds", Sort::Default, json!(300)),
        set("reuse.minIdleSeconds", Sort::Edge, json!(604_800)),
    ]
}

fn particular_addresses() -> Vec<Edit> {
    let excluded = |sort, ranges: &[&str]| set("excludedAddresses", sort, json!(ranges));
    let reserved = |field: &str, sort, claim: &str, address: &str| {
        let patch = json!({"reservations": [{"claim": claim, "address": address}]});
        edit(&format!("reservations[].{field}"), sort, patch)
    };
    vec![
        excluded(Sort::Edge, &[]),
        excluded(Sort::Changed, &[FREE]),
        excluded(Sort::Changed, &[BOUND_FROM_LIST]),
        excluded(Sort::Changed, &["203.0.113.0/24"]),
        excluded(Sort::Edge, &["0.0.0.0/0"]),
        edit("reservations[].claim", Sort::Edge, json!({"reservations": []})),
        reserved("claim", Sort::Changed, RESERVING, FREE),
        // A claim that has another address already.
        reserved("claim", Sort::Changed, "web-2", FREE),
        reserved("address", Sort::Changed, RESERVING, BOUND_FROM_LIST),
        reserved("address", Sort::Invalid, RESERVING, MISSING),
        reserved("address", Sort::Invalid, RESERVING, ATTACHED),
    ]
}

fn config_map() -> Vec<Edit> {
    let named = |sort, name: &str| set("addressConfigMap.name", sort, json!(name));
    vec![named(Sort::Changed, "public-addresses"), named(Sort::Edge, &"a".repeat(253)), named(Sort::Invalid, TAKEN)]
}

fn removals(optional: &[String]) -> impl Iterator<Item = Edit> {
    let mutable = optional.iter().filter(|name| !IMMUTABLE.contains(&name.as_str()));
    mutable.map(|name| set(name, Sort::Removed, Value::Null))
}

/// An id that nothing in Neutron has.
const UNKNOWN_ID: &str = "b146e3b3-b18e-4467-b997-c4d16ef37365";
