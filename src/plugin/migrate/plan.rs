//! Plans a migration from what exists: the objects to write, the effect on each machine, and the obstacles. Pure.

mod addresses;
mod manifests;
mod steps;

use serde::Serialize;
use serde_json::Value;

use super::input::{Bastion, MachineTemplate, MigrationInput, successor_name};
use crate::api::names::GROUP;

/// The field of both pools for addresses that the pool gives and never deletes.
pub(super) const LIST: &str = "preAllocatedFloatingIPs";

#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(super) struct Plan {
    pub(super) namespace: String,
    /// The name of CAPO's pool.
    pub(super) from: String,
    /// The name of ours.
    pub(super) to: String,
    /// The addresses that the new pool lists.
    pub(super) kept_addresses: Vec<String>,
    /// In the order in which they are written.
    pub(super) objects: Vec<PlannedObject>,
    /// The machines that have an address of CAPO's pool, or wait for one.
    pub(super) machines: Vec<MachineChange>,
    /// Nothing is written while there is one.
    pub(super) obstacles: Vec<String>,
    pub(super) remarks: Vec<String>,
    /// For the user: each is a command, or a comment that begins with `#`. None while there is an obstacle.
    pub(super) next_steps: Vec<String>,
    /// The command that writes the objects.
    #[serde(skip)]
    pub(super) apply_command: String,
    /// Whether the objects exist now.
    pub(super) is_applied: bool,
}

#[derive(Serialize, Clone, Debug)]
pub(super) struct PlannedObject {
    pub(super) state: ObjectState,
    pub(super) manifest: Value,
}

#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ObjectState {
    New,
    /// It exists as planned.
    Unchanged,
    /// It exists; addresses are to be added to its list.
    Incomplete,
    /// An object of this name exists, and is not as planned.
    Different,
    /// By this command.
    Created,
    /// By this command.
    Completed,
}

#[derive(Serialize, Debug)]
pub(super) struct MachineChange {
    /// `Kind name` of the claim's owner, or else the claim's name.
    pub(super) machine: String,
    pub(super) claim: String,
    pub(super) cluster: Option<String>,
    pub(super) address: Option<String>,
    pub(super) change: String,
}

impl PlannedObject {
    fn new(mut manifest: Value, existing: Option<&Value>) -> Self {
        let state = match existing {
            None => ObjectState::New,
            Some(existing) => match complete_list(&mut manifest, existing) {
                _ if !has_fields_of(&manifest, existing) => ObjectState::Different,
                true => ObjectState::Incomplete,
                false => ObjectState::Unchanged,
            },
        };
        Self { state, manifest }
    }

    /// Kind and name.
    pub(super) fn title(&self) -> String {
        format!("{} {}", text(&self.manifest, "/kind").unwrap_or_default(), self.name())
    }

    pub(super) fn name(&self) -> &str {
        object_name(&self.manifest)
    }
}

impl Plan {
    pub(super) fn new(input: &MigrationInput, from: &str, to: &str) -> Self {
        let kept = addresses::list_kept(input);
        let (pool, mut remarks) = manifests::create_pool(input, &kept, to);
        let keeps_addresses = input.keeps_addresses && !kept.is_empty();
        let (generated, own): (Vec<_>, Vec<_>) = input.templates.iter().partition(|template| template.is_generated);
        let mut objects = vec![PlannedObject::new(pool, input.our_pool.as_ref())];
        objects.extend(own.into_iter().map(|template| {
            let copy = manifests::copy_template(&template.object, &input.namespace, to);
            PlannedObject::new(copy, template.successor.as_ref())
        }));
        if keeps_addresses {
            let listing = manifests::list_in_capos_pool(input, &kept, from);
            objects.push(PlannedObject::new(listing, Some(&input.pool)));
        }
        remarks.extend(generated.into_iter().map(|template| describe_generated(template, to, keeps_addresses)));
        remarks.extend(describe_unused(input));
        remarks.extend(input.why_not_ready().map(|why| format!("pool {to} is not ready: {why}")));
        remarks.extend(addresses::describe_lost(input, &kept));
        remarks.extend(describe_risks(input, &kept));
        remarks.extend(input.servers.iter().map(|server| describe_server(server, to)));
        remarks.extend(
            input.bastions.iter().filter(|bastion| bastion.is_generated).map(|bastion| describe_bastion(bastion, to)),
        );
        if input.templates.is_empty() && input.bastions.is_empty() && input.servers.is_empty() {
            remarks.push("no OpenStackMachineTemplate of the namespace points to the pool".into());
        }
        Self {
            namespace: input.namespace.clone(),
            from: from.into(),
            to: to.into(),
            machines: input.claims.iter().map(|claim| addresses::describe_machine(claim, input, &kept)).collect(),
            obstacles: find_obstacles(input, &kept, &objects, from, to),
            remarks,
            next_steps: steps::list_steps(input, &kept, from, to),
            apply_command: steps::apply_command(input, from, to),
            is_applied: false,
            kept_addresses: kept,
            objects,
        }
    }
}

impl Plan {
    /// Nothing is to be done while there is an obstacle; otherwise first what is not done yet.
    pub(super) fn complete_steps(&mut self) {
        if !self.obstacles.is_empty() {
            self.next_steps.clear();
        } else if self.objects.iter().any(|object| matches!(object.state, ObjectState::New | ObjectState::Incomplete)) {
            let first =
                ["# write these objects; the command prints the steps again".into(), self.apply_command.clone()];
            self.next_steps.splice(0..0, first);
        }
    }
}

fn object_name(object: &Value) -> &str {
    text(object, "/metadata/name").unwrap_or_default()
}

fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer)?.as_str()
}

impl MigrationInput {
    /// Whether the plan copies the template of this name.
    fn has_copy_of(&self, template: &str) -> bool {
        self.templates.iter().any(|it| object_name(&it.object) == template && !it.is_generated)
    }
}

fn describe_generated(template: &MachineTemplate, to: &str, keeps_addresses: bool) -> String {
    let first = if keeps_addresses {
        "first set maxSurge: 0 and maxUnavailable: 1 in the rollout strategy of its MachineDeployments, and maxSurge: 0 in that of a control plane of three or more machines, since a new machine waits for the address of an old one; then "
    } else {
        ""
    };
    format!(
        "template {} is generated from a ClusterClass: {first}set apiGroup {GROUP} and name {to} in floatingIPPoolRef of the class's template (or its patch); Cluster API then rolls out the change",
        object_name(&template.object)
    )
}

/// Templates for which the plan has no command: what uses them is of another kind.
fn describe_unused(input: &MigrationInput) -> impl Iterator<Item = String> {
    let own = input.templates.iter().filter(|template| !template.is_generated).map(|it| object_name(&it.object));
    // Of one that uses the copy already, the old template is left.
    let is_used =
        |name: &str| input.users.iter().any(|user| user.template == name || user.template == successor_name(name));
    let unused = own.filter(move |name| !is_used(name));
    unused.map(|name| {
        format!("no MachineDeployment or KubeadmControlPlane uses template {name}: if something else does, such as a MachineSet, change its reference yourself")
    })
}

fn describe_bastion(bastion: &Bastion, to: &str) -> String {
    format!(
        "the bastion of {} is generated from a ClusterClass: disable it there, wait until its claim is gone, and enable it with apiGroup {GROUP} and name {to} in floatingIPPoolRef",
        bastion.cluster
    )
}

fn describe_server(server: &str, to: &str) -> String {
    format!(
        "OpenStackServer {server} belongs to no machine, and its spec cannot be changed: delete it, and create it with apiGroup {GROUP} and name {to} in floatingIPPoolRef"
    )
}

/// What may still change an address that is to be kept.
fn describe_risks(input: &MigrationInput, kept: &[String]) -> Vec<String> {
    let mut risks = Vec::new();
    if input.has_cluster_identity() && input.uses_identities.is_none() {
        risks.push(
            "it is not known whether the controller uses cluster identities: it needs the flag --cluster-identity-namespaces with the namespace of the identity's Secret".into(),
        );
    }
    if !input.keeps_addresses {
        return risks;
    }
    if kept.is_empty() {
        risks.push("CAPO's pool has no address to keep".into());
        return risks;
    }
    let waiting: Vec<&str> =
        input.claims.iter().filter(|claim| claim.address.is_none()).map(|claim| claim.name.as_str()).collect();
    if !waiting.is_empty() && !input.is_closed() {
        risks.push(format!(
            "these claims wait for CAPO's pool: {}; before you close it, let them get an address, or delete their machines",
            waiting.join(", ")
        ));
    }
    if input.our_pool.as_ref().is_some_and(|pool| pool.pointer("/spec/floatingIPNetwork").is_some()) {
        risks.push(
            "the new pool has a floatingIPNetwork: a new machine gets an address that is not of the list while none of the list is free; remove it until the machines are replaced".into(),
        );
    }
    let is_copied = |template: &str| input.has_copy_of(template);
    if input.users.iter().any(|user| user.is_control_plane() && is_copied(&user.template)) {
        risks.push(
            "CAPO deletes the floating IP of a control plane machine with the machine, listed or not, unless the OpenStackCluster has a managed load balancer or names a floating IP for the API server".into(),
        );
    }
    if !input.bastions.is_empty() {
        risks.push(
            "CAPO deletes the floating IP of a bastion with the bastion, listed or not, unless bastion.floatingIP of the OpenStackCluster names it".into(),
        );
    }
    risks
}

fn find_obstacles(
    input: &MigrationInput,
    kept: &[String],
    objects: &[PlannedObject],
    from: &str,
    to: &str,
) -> Vec<String> {
    let mut obstacles = Vec::new();
    if from == to {
        obstacles.push(format!(
            "two pools named {to} would serve the same claims, since CAPO compares only kind and name: choose another name with --to"
        ));
    }
    if input.has_cluster_identity() {
        if input.uses_identities == Some(false) {
            obstacles.push(
                "spec.identityRef.type is ClusterIdentity, and the controller uses none: start it with --cluster-identity-namespaces; or copy the clouds.yaml into a Secret of the namespace, and name it with --secret".into(),
            );
        }
    } else if input.has_secret == Some(false) {
        obstacles.push(format!(
            "the Secret {} does not exist: create it with the key clouds.yaml, or name another one with --secret",
            input.secret_name().unwrap_or_default()
        ));
    }
    if !kept.is_empty() && input.has_our_claims && !input.is_closed() {
        obstacles.push(format!(
            "claims use pool {to} already, and CAPO's pool could give them listed addresses of each other's machines: choose another name with --to, or delete CAPO's pool first"
        ));
    }
    let different = objects.iter().filter(|object| object.state == ObjectState::Different);
    obstacles.extend(different.map(|object| {
        format!("{} already exists, and is different: delete it, or choose another name with --to", object.title())
    }));
    obstacles
}

/// Whether the existing object is as planned, apart from the list.
fn has_fields_of(manifest: &Value, existing: &Value) -> bool {
    is_within(&manifest["spec"], &existing["spec"], &[LIST])
}

/// Lists in the manifest what the existing object lists too, in its order. Returns whether that lacked anything.
fn complete_list(manifest: &mut Value, existing: &Value) -> bool {
    let Some(Value::Array(wanted)) = manifest.pointer_mut(&format!("/spec/{LIST}")) else { return false };
    let mut list = existing.pointer(&format!("/spec/{LIST}")).and_then(Value::as_array).cloned().unwrap_or_default();
    wanted.retain(|address| !list.contains(address));
    let is_incomplete = !wanted.is_empty();
    list.append(wanted);
    *wanted = list;
    is_incomplete
}

/// Whether all `wanted` fields but the `omitted` ones are there; others, such as defaults, may be there too.
fn is_within(wanted: &Value, found: &Value, omitted: &[&str]) -> bool {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            let mut compared = wanted.iter().filter(|(key, _)| !omitted.contains(&key.as_str()));
            compared.all(|(key, value)| found.get(key).is_some_and(|found| is_within(value, found, &[])))
        }
        (wanted, found) => wanted == found,
    }
}

#[cfg(test)]
mod tests;
