//! Plans a migration from what exists: the objects to create, the effect on each machine, and the obstacles. Pure.

mod manifests;

use serde::Serialize;
use serde_json::{Value, json};

use super::input::{CAPO_GROUP, InTreeClaim, MachineTemplate, MigrationInput, successor_name};
use crate::api::names::GROUP;

#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(super) struct Plan {
    pub(super) namespace: String,
    /// The name of CAPO's pool.
    pub(super) from: String,
    /// The name of ours.
    pub(super) to: String,
    /// In the order of their creation.
    pub(super) objects: Vec<PlannedObject>,
    /// The machines that have an address of CAPO's pool, or wait for one.
    pub(super) machines: Vec<MachineChange>,
    /// Nothing is created while there is one.
    pub(super) obstacles: Vec<String>,
    pub(super) remarks: Vec<String>,
    /// For the user: each is a command, or a comment that begins with `#`.
    pub(super) next_steps: Vec<String>,
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
    /// An object of this name exists, and is not as planned.
    Different,
    /// By this command.
    Created,
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
    fn new(manifest: Value, existing: Option<&Value>) -> Self {
        let is_same = |existing: &Value| manifest.get("spec").is_none_or(|spec| is_within(spec, &existing["spec"]));
        let state = match existing {
            None => ObjectState::New,
            Some(existing) if is_same(existing) => ObjectState::Unchanged,
            Some(_) => ObjectState::Different,
        };
        Self { state, manifest }
    }

    /// Kind and name.
    pub(super) fn title(&self) -> String {
        format!("{} {}", text(&self.manifest, "/kind").unwrap_or_default(), object_name(&self.manifest))
    }
}

impl Plan {
    pub(super) fn new(input: &MigrationInput, from: &str, to: &str) -> Self {
        let (pool, mut remarks) = manifests::create_pool(input, to);
        let (generated, own): (Vec<_>, Vec<_>) = input.templates.iter().partition(|template| template.is_generated);
        let mut objects = vec![PlannedObject::new(pool, input.our_pool.as_ref())];
        objects.extend(own.into_iter().map(|template| {
            let copy = manifests::copy_template(&template.object, &input.namespace, to);
            PlannedObject::new(copy, template.successor.as_ref())
        }));
        remarks.extend(generated.into_iter().map(|template| describe_generated(template, to)));
        remarks.extend(describe_free_addresses(input));
        if input.templates.is_empty() {
            remarks.push("no OpenStackMachineTemplate of the namespace points to the pool".into());
        }
        Self {
            namespace: input.namespace.clone(),
            from: from.into(),
            to: to.into(),
            machines: input.claims.iter().map(|claim| describe_machine(claim, input)).collect(),
            obstacles: find_obstacles(input, &objects, from, to),
            remarks,
            next_steps: list_next_steps(input, from),
            is_applied: false,
            objects,
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

fn describe_generated(template: &MachineTemplate, to: &str) -> String {
    format!(
        "template {} is generated from a ClusterClass: set apiGroup {GROUP} and name {to} in floatingIPPoolRef of the class's template (or its patch); Cluster API then rolls out the change",
        object_name(&template.object)
    )
}

fn find_obstacles(input: &MigrationInput, objects: &[PlannedObject], from: &str, to: &str) -> Vec<String> {
    let mut obstacles = Vec::new();
    if from == to {
        obstacles.push(format!(
            "two pools named {to} would serve the same claims, since CAPO compares only kind and name: choose another name with --to"
        ));
    }
    if text(&input.pool, "/spec/identityRef/type").is_some_and(|kind| kind != "Secret") {
        obstacles.push(
            "spec.identityRef.type is not Secret: put its clouds.yaml into a Secret of the namespace, and create the new pool manually with that".into(),
        );
    } else if input.has_secret == Some(false) {
        obstacles.push(format!(
            "the Secret {} (spec.identityRef.name) does not exist: create it with the key clouds.yaml",
            text(&input.pool, "/spec/identityRef/name").unwrap_or_default()
        ));
    }
    if text(&input.pool, "/metadata/deletionTimestamp").is_some() {
        obstacles.push("CAPO's pool is being deleted".into());
    }
    let different = objects.iter().filter(|object| object.state == ObjectState::Different);
    obstacles.extend(different.map(|object| {
        format!("{} already exists, and is different: delete it, or choose another name with --to", object.title())
    }));
    obstacles
}

/// CAPO deletes the free addresses of its pool with the pool, except for listed ones.
fn describe_free_addresses(input: &MigrationInput) -> Option<String> {
    let list = |path: &str| input.pool.pointer(path).and_then(Value::as_array).cloned().unwrap_or_default();
    let listed = list("/spec/preAllocatedFloatingIPs");
    let free: Vec<String> = list("/status/availableIPs")
        .iter()
        .filter(|address| !listed.contains(address))
        .filter_map(|address| address.as_str().map(str::to_owned))
        .collect();
    (!free.is_empty()).then(|| {
        format!(
            "CAPO deletes these free addresses in OpenStack with its pool: {}; to keep them, first add them to spec.preAllocatedFloatingIPs of both pools",
            free.join(", ")
        )
    })
}

fn describe_machine(claim: &InTreeClaim, input: &MigrationInput) -> MachineChange {
    let listed = input.pool.pointer("/spec/preAllocatedFloatingIPs").and_then(Value::as_array);
    let is_listed = |address: &str| listed.is_some_and(|list| list.iter().any(|it| it == address));
    let deletes = text(&input.pool, "/spec/reclaimPolicy") == Some("Delete");
    let change = match &claim.address {
        None => "waits for CAPO's pool; its replacement uses the new pool".to_owned(),
        Some(address) if is_listed(address) => {
            "keeps its address until it is replaced; the address is then free for the new pool, and the new machine gets one of the list".into()
        }
        Some(_) if deletes => {
            "keeps its address until it is replaced; CAPO then deletes the address, and the new machine gets another one".into()
        }
        Some(_) => "keeps its address until it is replaced; CAPO's pool then retains it, and the new machine gets another one".into(),
    };
    MachineChange {
        machine: claim.owner.clone().unwrap_or_else(|| claim.name.clone()),
        claim: claim.name.clone(),
        cluster: claim.cluster.clone(),
        address: claim.address.clone(),
        change,
    }
}

fn list_next_steps(input: &MigrationInput, from: &str) -> Vec<String> {
    let namespace = &input.namespace;
    let mut steps = Vec::new();
    for user in input.users.iter().filter(|user| input.has_copy_of(&user.template) && !user.is_generated) {
        if steps.is_empty() {
            steps.push("# each command replaces machines, one after the other".into());
        }
        let mut patch = Value::String(successor_name(&user.template));
        for part in user.path.rsplit('/').filter(|part| !part.is_empty()) {
            patch = json!({ part: patch });
        }
        steps.push(format!("kubectl -n {namespace} patch {} {} --type merge -p '{patch}'", user.resource, user.name));
    }
    steps.push("# when no claim of the old pool is left".into());
    steps.push(format!("kubectl -n {namespace} delete openstackfloatingippools.{CAPO_GROUP} {from}"));
    steps
}

/// Whether all `wanted` fields are there; others, such as defaults, may be there too.
fn is_within(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            wanted.iter().all(|(key, value)| found.get(key).is_some_and(|found| is_within(value, found)))
        }
        (wanted, found) => wanted == found,
    }
}

#[cfg(test)]
mod tests;
