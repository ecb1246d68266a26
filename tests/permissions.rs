//! `config/rbac`, `config/cluster-identities` and `config/address-config-maps` grant the minimum permissions: the API
//! servers' audit logs, which `CAIP_AUDIT_LOGS` names, have a use of each and no refused request. `hack/test.sh` runs it
//! after all scenarios.

#![allow(clippy::restriction, reason = "a panic fails the test")]
#![warn(clippy::dbg_macro, clippy::todo, clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};

use serde_json::Value;

/// Checked by the admission plug-in `OwnerReferencesPermissionEnforcement`, and so in no log.
const CHECKED_BY_ADMISSION: [&str; 2] = ["openstackfloatingippools/finalizers", "ipaddressclaims/finalizers"];

/// Needed only after a lost reply, which no scenario can cause: to check whether an existing IPAddress is the one that was
/// to be created.
const RARELY_NEEDED: [(&str, &str); 1] = [("ipaddresses", "get")];

/// API group, resource with its subresource, verb.
type Permission = (String, String, String);

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn granted() -> BTreeSet<Permission> {
    let roles = [
        include_str!("../config/rbac/role.yaml"),
        include_str!("../config/cluster-identities/role.yaml"),
        include_str!("../config/address-config-maps/role.yaml"),
    ]
    .join("---\n");
    let documents: Vec<Value> = serde_saphyr::from_multiple(&roles).expect("the roles are YAML");
    let mut granted = BTreeSet::new();
    for rule in documents.iter().filter_map(|role| role["rules"].as_array()).flatten() {
        let list = |key: &str| rule[key].as_array().expect("a rule has it").iter().filter_map(Value::as_str);
        for group in list("apiGroups") {
            for resource in list("resources") {
                granted.extend(list("verbs").map(|verb| (group.into(), resource.into(), verb.into())));
            }
        }
    }
    granted
}

fn requests() -> impl Iterator<Item = Value> {
    let logs = std::env::var("CAIP_AUDIT_LOGS").expect("CAIP_AUDIT_LOGS is not set: run `make test`");
    let logs: Vec<File> = logs
        .split(':')
        .map(|log| File::open(log).unwrap_or_else(|error| panic!("the audit log {log} cannot be read: {error}")))
        .collect();
    logs.into_iter().flat_map(|log| BufReader::new(log).lines()).map(|line| {
        let line = line.expect("an audit log can be read");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("not a line of an audit log ({error}): {line}"))
    })
}

#[test]
fn every_permission_is_used_and_none_is_missing() {
    let (mut used, mut refused) = (BTreeSet::new(), BTreeSet::new());
    for request in requests() {
        let resource = match text(&request, "/objectRef/subresource") {
            "" => text(&request, "/objectRef/resource").to_owned(),
            subresource => format!("{}/{subresource}", text(&request, "/objectRef/resource")),
        };
        let what = (text(&request, "/objectRef/apiGroup").to_owned(), resource, text(&request, "/verb").to_owned());
        let is_allowed = request["annotations"]["authorization.k8s.io/decision"] == "allow";
        if is_allowed { &mut used } else { &mut refused }.insert(what);
    }
    let unused: Vec<_> = granted()
        .into_iter()
        .filter(|permission| !used.contains(permission) && !CHECKED_BY_ADMISSION.contains(&permission.1.as_str()))
        .filter(|permission| !RARELY_NEEDED.contains(&(permission.1.as_str(), permission.2.as_str())))
        .collect();
    assert!(!used.is_empty(), "there were no requests: did the scenarios run?");
    assert!(refused.is_empty(), "requested without permission: {refused:?}");
    assert!(unused.is_empty(), "granted by config/ and never used: {unused:?}");
}
