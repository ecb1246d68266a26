//! The commands that remain for a person, in their order. Where the new pool lists addresses, CAPO's pool is closed before
//! the first machine is replaced: otherwise both pools could give an address that a machine leaves.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::super::input::{Bastion, MigrationInput, TemplateUser, successor_name};
use super::manifests::pool_reference;
use crate::api::names::CAPO_GROUP;
use crate::plugin::cli::quoted;

/// CAPO's tag on the addresses of a pool, before the pool's name.
const TAG: &str = "cluster-api-provider-openstack-fip-pool-";
/// A control plane cannot delete a machine first when it has fewer.
const SMALLEST_SCALED_IN: u64 = 3;

pub(super) fn list_steps(input: &MigrationInput, kept: &[String], from: &str, to: &str) -> Vec<String> {
    let kubectl = format!("kubectl -n {}{}", input.namespace, input.connection);
    let await_ready = format!("{kubectl} wait --for=condition=Ready fippool/{to} --timeout=60s");
    let in_tree = format!("openstackfloatingippools.{CAPO_GROUP}");
    let keeps_addresses = input.keeps_addresses && !kept.is_empty();
    let users = input.users.iter().filter(|user| input.has_copy_of(&user.template) && !user.is_generated);
    let (early, late): (Vec<_>, Vec<_>) = users.partition(|user| !keeps_addresses || can_delete_first(user));
    let mut steps: Vec<String> = Vec::new();
    if kept.is_empty() || input.is_closed() {
        steps.push(await_ready.clone());
    } else {
        steps.push(
            "# close CAPO's pool, for good: it gives no address from now on, and is gone after its last machine".into(),
        );
        steps.push(format!("{await_ready} && {kubectl} delete {in_tree} {from} --wait=false"));
    }
    if keeps_addresses {
        steps.push("# add what CAPO gave in the meantime; repeat until all is unchanged".into());
        steps.push(apply_command(input, from, to));
    }
    if !early.is_empty() {
        steps.push("# run these one at a time: wait until the machines are replaced".into());
    }
    for user in early {
        if keeps_addresses {
            steps.push(format!("# {} deletes a machine before it creates one, which gets the address", user.name));
            steps.push(patch(&kubectl, user, user.rolling_update, rolling_update(user)));
        }
        steps.push(replace(&kubectl, user));
    }
    if input.templates.iter().any(|template| template.is_generated) {
        steps.push("# change the ClusterClass, as remarked above".into());
    }
    if let Some(network) = network(&input.pool).filter(|_| keeps_addresses) {
        steps
            .push("# when these machines are replaced: the new pool creates addresses when its list is used up".into());
        let change = json!({"spec": {"floatingIPNetwork": network}});
        steps.push(merge(&kubectl, "fippool", to, &change));
        steps.push(await_ready);
    }
    for user in late {
        steps.push(format!("# {} creates a machine, with another address, before it deletes one", user.name));
        steps.push(replace(&kubectl, user));
    }
    for bastion in input.bastions.iter().filter(|bastion| !bastion.is_generated) {
        steps.extend(replace_bastion(&kubectl, bastion, to));
    }
    if !input.servers.is_empty() {
        steps.push("# replace the OpenStackServers, as remarked above".into());
    }
    steps.push("# when no claim of the old pool is left; returns when the pool is gone".into());
    steps.push(format!("{kubectl} delete {in_tree} {from} --ignore-not-found"));
    if keeps_addresses {
        steps.push("# a pool of CAPO with the same name would take the addresses that have its tag".into());
        steps.push("# openstack writes all tags of an address: the new pool must not change one meanwhile".into());
        let addresses: Vec<&str> =
            kept.iter().map(String::as_str).filter(|address| address.parse::<IpAddr>().is_ok()).collect();
        steps.push(format!("{kubectl} annotate fippool {to} cluster.x-k8s.io/paused= && sleep 60"));
        steps.push(format!(
            "for address in {}; do openstack floating ip unset --tag {TAG}{from} $address; done",
            addresses.join(" ")
        ));
        steps.push(format!("{kubectl} annotate fippool {to} cluster.x-k8s.io/paused-"));
    }
    steps
}

/// The network on which CAPO's pool creates addresses.
fn network(pool: &Value) -> Option<Value> {
    let found = || Some(json!({"id": pool.pointer("/status/floatingIPNetwork/id")?}));
    pool.pointer("/spec/floatingIPNetwork").cloned().or_else(found)
}

fn can_delete_first(user: &TemplateUser) -> bool {
    !user.is_control_plane() || user.replicas >= SMALLEST_SCALED_IN
}

fn rolling_update(user: &TemplateUser) -> Value {
    if user.is_control_plane() { json!({"maxSurge": 0}) } else { json!({"maxSurge": 0, "maxUnavailable": 1}) }
}

fn replace(kubectl: &str, user: &TemplateUser) -> String {
    patch(kubectl, user, user.path, successor_name(&user.template).into())
}

/// CAPO gives the claim of each bastion the same name: the old one has to be gone first.
fn replace_bastion(kubectl: &str, bastion: &Bastion, to: &str) -> Vec<String> {
    let Bastion { infrastructure, cluster, .. } = bastion;
    let clusters = format!("openstackclusters.{CAPO_GROUP}");
    let change = |bastion: Value| merge(kubectl, &clusters, infrastructure, &json!({"spec": {"bastion": bastion}}));
    let spec = json!({"floatingIPPoolRef": pool_reference(to)});
    if !bastion.is_enabled {
        return vec![format!("# the bastion of {cluster} is not enabled"), change(json!({"spec": spec}))];
    }
    vec![
        format!("# the bastion of {cluster} is replaced, and gets another address"),
        change(json!({"enabled": false})),
        format!("{kubectl} wait --for=delete ipaddressclaim/{cluster}-bastion-floating-ip-address --timeout=10m"),
        change(json!({"enabled": true, "spec": spec})),
    ]
}

fn patch(kubectl: &str, user: &TemplateUser, path: &str, value: Value) -> String {
    let nest = |value: Value, part: &str| json!({ part: value });
    let change: Value = path.rsplit('/').filter(|part| !part.is_empty()).fold(value, nest);
    merge(kubectl, user.resource, &user.name, &change)
}

fn merge(kubectl: &str, resource: &str, name: &str, change: &Value) -> String {
    format!("{kubectl} patch {resource} {name} --type merge -p {}", quoted(&change.to_string()))
}

/// The command of this plan, which writes its objects.
pub(super) fn apply_command(input: &MigrationInput, from: &str, to: &str) -> String {
    let mut flags = input.connection.clone();
    if to != super::super::default_name(from) {
        flags += &format!(" --to {}", quoted(to));
    }
    if input.keeps_addresses {
        flags += " --keep-addresses";
    }
    if let Some(secret) = &input.secret {
        flags += &format!(" --secret {}", quoted(secret));
    }
    format!("kubectl fippool migrate {from} -n {}{flags} --apply", input.namespace)
}
