//! What a pool's ConfigMap of addresses must contain, and what to do about the one that is there. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use crate::address_format;
use crate::api::OpenStackFloatingIPPool;
use crate::api::names::{ADDRESS_CONFIG_MAP_LABEL, GROUP, POOL_KIND};
use crate::controllers::patch;

/// The most that a ConfigMap may hold: the API server counts the bytes of its values.
const LONGEST_DATA: usize = 1024 * 1024;

/// The next thing to do for the ConfigMap.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Step {
    /// It is as it must be.
    Nothing,
    Create(Box<ConfigMap>),
    /// Fails if the ConfigMap has changed since it was read.
    Patch(Value),
    /// It is not the pool's, and stays as it is.
    LeaveForeign,
    /// The addresses do not fit, and the ConfigMap stays as it is: a part of them would look complete.
    LeaveOld,
}

pub(super) fn plan(
    pool: &OpenStackFloatingIPPool,
    name: &str,
    found: Option<&ConfigMap>,
    addresses: &BTreeSet<IpAddr>,
) -> Step {
    if found.is_some_and(|found| !is_of(pool, found)) {
        return Step::LeaveForeign;
    }
    let data = data(addresses);
    if data.values().map(String::len).sum::<usize>() > LONGEST_DATA {
        return Step::LeaveOld;
    }
    match found {
        None => Step::Create(Box::new(config_map(pool, name, data))),
        Some(found) => change(pool, found, &data).map_or(Step::Nothing, Step::Patch),
    }
}

/// Whether the ConfigMap was made for the pool: its UID may be another one, after a restore from a backup.
pub(super) fn is_of(pool: &OpenStackFloatingIPPool, found: &ConfigMap) -> bool {
    let is_owner = |owner: &OwnerReference| is_pool(owner) && owner.name == pool.name_any();
    found.labels().contains_key(ADDRESS_CONFIG_MAP_LABEL) && found.owner_references().iter().any(is_owner)
}

/// Whether an owner reference is that of a pool to what it controls.
fn is_pool(owner: &OwnerReference) -> bool {
    let group = owner.api_version.split_once('/').map(|(group, _)| group);
    owner.controller == Some(true) && owner.kind == POOL_KIND && group == Some(GROUP)
}

fn data(addresses: &BTreeSet<IpAddr>) -> BTreeMap<String, String> {
    let formats = [("addresses", address_format::lines(addresses)), ("cidrs", address_format::cidrs(addresses))];
    formats.into_iter().map(|(key, text)| (key.to_owned(), text)).collect()
}

fn config_map(pool: &OpenStackFloatingIPPool, name: &str, data: BTreeMap<String, String>) -> ConfigMap {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: pool.namespace(),
        labels: Some([(ADDRESS_CONFIG_MAP_LABEL.to_owned(), String::new())].into()),
        owner_references: pool.controller_owner_ref(&()).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    };
    ConfigMap { metadata, data: Some(data), ..ConfigMap::default() }
}

/// The patch that makes a ConfigMap of the pool current; keys of others stay.
fn change(pool: &OpenStackFloatingIPPool, found: &ConfigMap, data: &BTreeMap<String, String>) -> Option<Value> {
    let current = found.data.as_ref();
    let differs = |(key, text): &(&String, &String)| current.and_then(|current| current.get(*key)) != Some(*text);
    let changed: BTreeMap<_, _> = data.iter().filter(differs).collect();
    let owners = owners(pool, found);
    if changed.is_empty() && owners.is_none() {
        return None;
    }
    let mut change = json!({"metadata": {"resourceVersion": found.metadata.resource_version}, "data": changed});
    if let Some(owners) = owners {
        patch::set_metadata(&mut change, "ownerReferences", json!(owners));
    }
    Some(change)
}

/// The owner references with the pool's present UID, where that is another one. The garbage collector would delete the
/// ConfigMap otherwise.
fn owners(pool: &OpenStackFloatingIPPool, found: &ConfigMap) -> Option<Vec<OwnerReference>> {
    let present = pool.controller_owner_ref(&())?;
    let renewed = |owner: &OwnerReference| if is_pool(owner) { present.clone() } else { owner.clone() };
    let renewed: Vec<OwnerReference> = found.owner_references().iter().map(renewed).collect();
    (renewed != found.owner_references()).then_some(renewed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(uid: &str) -> OpenStackFloatingIPPool {
        let mut pool = OpenStackFloatingIPPool::default();
        pool.metadata.name = Some("public".into());
        pool.metadata.namespace = Some("team".into());
        pool.metadata.uid = Some(uid.into());
        pool
    }

    fn addresses(last: impl IntoIterator<Item = u8>) -> BTreeSet<IpAddr> {
        last.into_iter().map(|last| IpAddr::from([203, 0, 113, last])).collect()
    }

    fn step(found: Option<&ConfigMap>, last: impl IntoIterator<Item = u8>) -> Step {
        plan(&pool("1"), "public-addresses", found, &addresses(last))
    }

    fn created(last: impl IntoIterator<Item = u8>) -> ConfigMap {
        let Step::Create(mut created) = step(None, last) else { panic!("it does not exist") };
        created.metadata.resource_version = Some("7".into());
        *created
    }

    #[test]
    fn a_new_config_map_has_the_addresses_and_belongs_to_the_pool() {
        let created = created([30, 9]);
        assert_eq!(
            serde_json::to_value(created).unwrap(),
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {
                    "name": "public-addresses", "namespace": "team", "resourceVersion": "7",
                    "labels": {"openstackfloatingippool.ipam.cluster.x-k8s.io/addresses": ""},
                    "ownerReferences": [{
                        "apiVersion": "ipam.cluster.x-k8s.io/v1alpha1", "kind": "OpenStackFloatingIPPool", "name": "public",
                        "uid": "1", "controller": true
                    }]
                },
                "data": {
                    "addresses": "203.0.113.9\n203.0.113.30\n", "cidrs": "203.0.113.9/32\n203.0.113.30/32\n"
                }
            })
        );
    }

    #[test]
    fn a_current_config_map_is_not_written() {
        assert_eq!(step(Some(&created([9])), [9]), Step::Nothing);
        assert_eq!(step(Some(&created([])), []), Step::Nothing);
    }

    #[test]
    fn only_what_differs_is_written_and_only_over_what_was_read() {
        let data = json!({"addresses": "203.0.113.9\n", "cidrs": "203.0.113.9/32\n"});
        let change = |data: &Value| Step::Patch(json!({"metadata": {"resourceVersion": "7"}, "data": data}));
        assert_eq!(step(Some(&created([8])), [9]), change(&data));
        let mut edited = created([9]);
        let keys = edited.data.as_mut().unwrap();
        keys.insert("theirs".into(), "kept".into());
        keys.remove("cidrs");
        assert_eq!(step(Some(&edited), [9]), change(&json!({"cidrs": "203.0.113.9/32\n"})));
    }

    #[test]
    fn another_owners_config_map_stays_as_it_is() {
        type Change = fn(&mut ConfigMap);
        let changes: [Change; 5] = [
            |it| it.metadata.labels = None,
            |it| it.metadata.owner_references = None,
            |it| it.owner_references_mut()[0].name = "other".into(),
            |it| it.owner_references_mut()[0].controller = None,
            |it| it.owner_references_mut()[0].api_version = "infrastructure.cluster.x-k8s.io/v1alpha1".into(),
        ];
        for change in changes {
            let mut found = created([8]);
            change(&mut found);
            assert_eq!(step(Some(&found), [9]), Step::LeaveForeign, "{:?}", found.metadata);
        }
    }

    #[test]
    fn a_pool_that_was_restored_is_the_owner_again() {
        let mut found = created([9]);
        let other = OwnerReference { name: "other".into(), ..OwnerReference::default() };
        found.owner_references_mut().push(other.clone());
        let Step::Patch(change) = plan(&pool("2"), "public-addresses", Some(&found), &addresses([9])) else {
            panic!("it names another UID")
        };
        let owners: Vec<OwnerReference> =
            serde_json::from_value(change["metadata"]["ownerReferences"].clone()).unwrap();
        assert_eq!((owners[0].uid.as_str(), &owners[1]), ("2", &other));
    }

    #[test]
    fn what_does_not_fit_is_not_cut() {
        // 39 characters each, in lines of 40 and 44.
        let address = |last: u16| IpAddr::from([0x2001, 0xdb80, 0x1000, 0x1000, 0x1000, 0x1000, 0x1000, 0x1000 + last]);
        let step = |count| plan(&pool("1"), "public-addresses", None, &(0..count).map(address).collect());
        let most = u16::try_from(1024 * 1024 / 84).unwrap();
        assert!(matches!(step(most), Step::Create(_)));
        assert!(matches!(step(most + 1), Step::LeaveOld));
    }
}
