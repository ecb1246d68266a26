//! From what there is to what is to be created, what changes for each machine, and what stands in the way. Pure.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::facts::{CAPO_GROUP, Claim, Facts, Template, successor};
use crate::api::names::{GROUP, POOL_KIND};

/// The fields that mean the same in both pools, by design.
const SAME: [&str; 5] = ["identityRef", "floatingIPNetwork", "preAllocatedFloatingIPs", "maxIPs", "reclaimPolicy"];

/// What is to be done.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(super) struct Plan {
    pub(super) namespace: String,
    /// CAPO's pool.
    pub(super) from: String,
    /// Ours.
    pub(super) to: String,
    /// To be created, in this order.
    pub(super) objects: Vec<Object>,
    /// What changes for each machine that has an address of CAPO's pool.
    pub(super) machines: Vec<Machine>,
    /// What must be mended first.
    pub(super) obstacles: Vec<String>,
    /// What should be known.
    pub(super) remarks: Vec<String>,
    /// What a person does then: each is a command, or begins with `#`.
    pub(super) then: Vec<String>,
    /// Whether the objects are there now.
    pub(super) is_applied: bool,
}

/// An object to be created.
#[derive(Serialize, Clone, Debug)]
pub(super) struct Object {
    pub(super) state: State,
    pub(super) manifest: Value,
}

/// How an object stands.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Not there yet.
    New,
    /// There, as it should be.
    Unchanged,
    /// There, and another.
    Different,
    /// Created by this command.
    Created,
}

/// A machine that has an address of CAPO's pool, or waits for one.
#[derive(Serialize, Debug)]
pub(super) struct Machine {
    /// What the claim is for; its name where its owner does not tell.
    pub(super) machine: String,
    pub(super) claim: String,
    pub(super) cluster: Option<String>,
    pub(super) address: Option<String>,
    pub(super) change: String,
}

impl Object {
    fn new(manifest: Value, existing: Option<&Value>) -> Self {
        let state = match existing {
            None => State::New,
            Some(existing) if is_within(&manifest["spec"], &existing["spec"]) => State::Unchanged,
            Some(_) => State::Different,
        };
        Self { state, manifest }
    }

    /// Its kind and name.
    pub(super) fn title(&self) -> String {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        format!("{} {}", text(&self.manifest["kind"]), text(&self.manifest["metadata"]["name"]))
    }
}

/// Makes the plan.
pub(super) fn make(facts: &Facts, from: &str, to: &str) -> Plan {
    let (pool, mut remarks) = pool(facts, to);
    let mut objects = vec![Object::new(pool, facts.our_pool.as_ref())];
    let own: Vec<&Template> = facts.templates.iter().filter(|template| !template.is_generated).collect();
    objects.extend(own.iter().map(|it| Object::new(template(&it.object, &facts.namespace, to), it.successor.as_ref())));
    let generated = facts.templates.iter().filter(|template| template.is_generated);
    remarks.extend(generated.map(|template| {
        format!(
            "template {} is made from a ClusterClass: set apiGroup {GROUP} and name {to} in floatingIPPoolRef of the class's template (or its patch); the roll-out follows by itself",
            name(&template.object)
        )
    }));
    remarks.extend(left_behind(facts));
    if facts.templates.is_empty() {
        remarks.push("no OpenStackMachineTemplate of the namespace points to the pool".into());
    }
    let obstacles = obstacles(facts, &objects, from, to);
    Plan {
        namespace: facts.namespace.clone(),
        from: from.into(),
        to: to.into(),
        machines: facts.claims.iter().map(|claim| machine(claim, facts)).collect(),
        obstacles,
        remarks,
        then: then(facts, from),
        is_applied: false,
        objects,
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Our pool, with what CAPO's says; and what it says that ours cannot.
fn pool(facts: &Facts, to: &str) -> (Value, Vec<String>) {
    let empty = Map::new();
    let theirs = facts.pool["spec"].as_object().unwrap_or(&empty);
    let mut spec: Map<String, Value> =
        SAME.iter().filter_map(|field| Some(((*field).to_owned(), theirs.get(*field)?.clone()))).collect();
    let mut remarks: Vec<String> = theirs
        .keys()
        .filter(|field| !SAME.contains(&field.as_str()))
        .map(|field| format!("spec.{field} of CAPO's pool has no counterpart, and is left out"))
        .collect();
    if let Some(Value::Array(list)) = spec.get_mut("preAllocatedFloatingIPs") {
        let before = list.len();
        let mut seen = std::collections::BTreeSet::new();
        list.retain(|address| seen.insert(address.to_string()));
        if list.len() < before {
            remarks.push("spec.preAllocatedFloatingIPs named an address twice: once is enough".into());
        }
        // CAPO takes an empty list for none, which is what leaving it out says.
        if list.is_empty() {
            spec.remove("preAllocatedFloatingIPs");
        }
    }
    // CAPO creates where its list is used up, network or not; a list of ours without a network is closed.
    if spec.contains_key("preAllocatedFloatingIPs") && !spec.contains_key("floatingIPNetwork") {
        let network = facts.pool.pointer("/status/floatingIPNetwork/id").and_then(Value::as_str);
        match network {
            Some(id) => drop(spec.insert("floatingIPNetwork".into(), json!({"id": id}))),
            None => remarks.push(
                "the pool has a list and names no floatingIPNetwork: CAPO creates addresses when the list is used up, ours then does not; name the network to go on with that".into(),
            ),
        }
    }
    // CAPO's pool takes no free floating IPs of the project.
    spec.insert("reuse".into(), json!({"policy": "Never"}));
    let manifest = json!({
        "apiVersion": format!("{GROUP}/v1alpha1"), "kind": POOL_KIND,
        "metadata": {"name": to, "namespace": facts.namespace}, "spec": spec,
    });
    (manifest, remarks)
}

/// The same template under another name, pointing to our pool: a template's spec cannot be changed.
fn template(old: &Value, namespace: &str, to: &str) -> Value {
    let mut spec = old["spec"].clone();
    spec["template"]["spec"]["floatingIPPoolRef"] = json!({"apiGroup": GROUP, "kind": POOL_KIND, "name": to});
    let mut metadata = json!({"name": successor(name(old)), "namespace": namespace});
    if let Some(labels) = old["metadata"]["labels"].as_object() {
        metadata["labels"] = labels.clone().into();
    }
    json!({"apiVersion": old["apiVersion"], "kind": old["kind"], "metadata": metadata, "spec": spec})
}

fn obstacles(facts: &Facts, objects: &[Object], from: &str, to: &str) -> Vec<String> {
    let mut obstacles = Vec::new();
    if from == to {
        obstacles.push(format!(
            "two pools named {to} would serve the same claims, since CAPO looks at kind and name alone: give ours another name by --to"
        ));
    }
    let identity = &facts.pool["spec"]["identityRef"];
    if identity["type"].as_str().is_some_and(|kind| kind != "Secret") {
        obstacles.push(
            "spec.identityRef.type is not Secret: put its clouds.yaml into a Secret of the namespace, and create our pool by hand with that".into(),
        );
    } else if facts.has_secret == Some(false) {
        obstacles.push(format!(
            "the Secret {} (spec.identityRef.name) is not there: create it with the key clouds.yaml",
            identity["name"].as_str().unwrap_or_default()
        ));
    }
    if facts.pool["metadata"]["deletionTimestamp"].is_string() {
        obstacles.push("CAPO's pool is being deleted".into());
    }
    let different = objects.iter().filter(|object| object.state == State::Different);
    obstacles.extend(different.map(|object| {
        format!("{} is there already, and is another one: delete it, or choose another name by --to", object.title())
    }));
    obstacles
}

/// Addresses that CAPO's pool has free and would delete with itself.
fn left_behind(facts: &Facts) -> Option<String> {
    let list = |path: &str| facts.pool.pointer(path).and_then(Value::as_array).cloned().unwrap_or_default();
    let listed = list("/spec/preAllocatedFloatingIPs");
    let free: Vec<String> = list("/status/availableIPs")
        .iter()
        .filter(|address| !listed.contains(address))
        .filter_map(|address| address.as_str().map(str::to_owned))
        .collect();
    (!free.is_empty()).then(|| {
        format!(
            "CAPO deletes these free addresses in OpenStack when its pool is deleted: {}; to keep them, add them to spec.preAllocatedFloatingIPs of both pools first",
            free.join(", ")
        )
    })
}

fn machine(claim: &Claim, facts: &Facts) -> Machine {
    let listed = facts.pool.pointer("/spec/preAllocatedFloatingIPs").and_then(Value::as_array);
    let is_listed = |address: &str| listed.is_some_and(|list| list.iter().any(|it| it == address));
    let deletes = facts.pool["spec"]["reclaimPolicy"] == "Delete";
    let change = match &claim.address {
        None => "waits for CAPO's pool; the machine that replaces it waits for ours".to_owned(),
        Some(address) if is_listed(address) => {
            "keeps its address until it is replaced; the address is then free for our pool, and the new machine gets one of the list".into()
        }
        Some(_) if deletes => {
            "keeps its address until it is replaced; CAPO deletes the address then, and the new machine has another one".into()
        }
        Some(_) => "keeps its address until it is replaced; CAPO's pool retains it then, and the new machine has another one".into(),
    };
    Machine {
        machine: claim.owner.clone().unwrap_or_else(|| claim.name.clone()),
        claim: claim.name.clone(),
        cluster: claim.cluster.clone(),
        address: claim.address.clone(),
        change,
    }
}

/// What a person does, one after the other: machines are replaced under her eyes.
fn then(facts: &Facts, from: &str) -> Vec<String> {
    let namespace = &facts.namespace;
    let mut then = Vec::new();
    let old = |template: &str| facts.templates.iter().any(|it| name(&it.object) == template && !it.is_generated);
    let users: Vec<_> = facts.users.iter().filter(|user| old(&user.template) && !user.is_generated).collect();
    if !users.is_empty() {
        then.push("# each replaces its machines, one after the other".into());
    }
    for user in users {
        let mut patch = Value::String(successor(&user.template));
        for part in user.path.split('/').skip(1).collect::<Vec<_>>().into_iter().rev() {
            patch = json!({ part: patch });
        }
        then.push(format!("kubectl -n {namespace} patch {} {} --type merge -p '{patch}'", user.resource, user.name));
    }
    then.push("# when no claim of the old pool is left".into());
    then.push(format!("kubectl -n {namespace} delete openstackfloatingippools.{CAPO_GROUP} {from}"));
    then
}

/// Whether all that is wanted is there; defaults and what others added may be there too.
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
