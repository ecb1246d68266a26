//! Migrations from CAPO's in-tree pool while machines run and some are recreated in the middle: the machines keep their
//! addresses, or get new ones. The commands are those that `kubectl fippool migrate` prints, which are those of
//! docs/migration.md.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::vec;

use futures::future::{Either, select};
use kube::ResourceExt;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::clusters;
use crate::kubelets::with_kubelets;
use crate::machines::{Machines, PATIENCE, await_attached_to, claim_of, identity_ref, is_from, machine_spec};
use crate::support::{Kind, Manifest, Namespace, consistently, eventually};

const CAPO: &str = "infrastructure.cluster.x-k8s.io";
/// The templates of the machines before and after the migration.
const OLD: &str = "workers";
const NEW: &str = "workers-ipam";
/// CAPO serves a claim of an open pool within this time.
const SERVED: Duration = Duration::from_secs(20);

pub async fn keep_addresses_while_a_machine_is_recreated(ns: &Namespace) {
    let machines = create_in_tree_machines(ns, 3).await;
    with_kubelets(ns, async {
        let addresses = machines.await_addresses(3).await;
        with_guard(ns, &addresses, keep_addresses(ns, &machines, &addresses)).await;
        machines.delete_cluster(&BTreeSet::new()).await;
        for address in &addresses {
            let found = ns.cloud().await.find(address).await.expect("a listed floating IP is never deleted");
            assert!(found.port.is_none() && found.tags.is_empty(), "{found:?}");
            ns.cloud().await.delete(&found.id).await;
        }
    })
    .await;
}

/// CAPO's pool stays open until the last machine is replaced.
pub async fn change_addresses_while_machines_are_recreated(ns: &Namespace) {
    let machines = create_in_tree_machines(ns, 3).await;
    with_kubelets(ns, async {
        machines.await_addresses(3).await;
        // CAPO deletes each address that a machine leaves.
        with_guard(ns, &BTreeSet::new(), change_addresses(ns, &machines)).await;
        let addresses = machines.await_addresses(3).await;
        machines.delete_cluster(&addresses).await;
    })
    .await;
}

/// No machine has an address of CAPO's pool.
pub async fn replace_a_bastion(ns: &Namespace) {
    ns.start_controller(&ns.world.account, &["--watch-filter="]);
    create_in_tree_pool(ns).await;
    let mut bastion = json!({"enabled": true, "spec": machine_spec()});
    bastion["spec"]["floatingIPPoolRef"] = in_tree_reference();
    let mut infrastructure = clusters::without_api_address();
    infrastructure["bastion"] = bastion;
    clusters::create_infrastructure(ns, infrastructure).await;
    clusters::create(ns).await;
    let had = ns.await_bound(&claim_of("prod-bastion"), PATIENCE).await;
    await_attached_to(ns, "prod-bastion", &had).await;
    let mut steps = Steps::of(&plan(ns, "--apply").await);
    run(ns, &steps.next("condition=Ready")).await;
    run(ns, &steps.next("enabled")).await;
    run(ns, &steps.next("wait --for=delete")).await;
    run(ns, &steps.next("enabled")).await;
    let address = ns.await_bound(&claim_of("prod-bastion"), PATIENCE).await;
    await_attached_to(ns, "prod-bastion", &address).await;
    assert_eq!(count_claims_of_capo(ns).await, 0);
    run(ns, &steps.next("delete openstackfloatingippools")).await;
    assert!(ns.get(Kind::InTreePool, "capo").await.is_none());
    steps.end();
    clusters::delete(ns).await;
}

async fn keep_addresses(ns: &Namespace, machines: &Machines<'_>, addresses: &BTreeSet<String>) {
    let planned = plan(ns, "--keep-addresses").await;
    assert!(ns.list(Kind::Pool).await.is_empty(), "without --apply nothing is written");
    let kept = planned["keptAddresses"].as_array().expect("it is a list").iter();
    assert_eq!(
        &kept.map(|address| address.as_str().expect("it is text").to_owned()).collect::<BTreeSet<_>>(),
        addresses
    );
    let mut steps = Steps::of(&plan(ns, "--keep-addresses --apply").await);
    run(ns, &steps.next("--wait=false")).await;
    run(ns, &steps.next("--keep-addresses --apply")).await;
    recreate_one_without_address(ns).await;
    run(ns, &steps.next("maxSurge")).await;
    run(ns, &steps.next("infrastructureRef")).await;
    await_new(ns, |new, all| (new, all) == (3, 3)).await;
    assert_eq!(&machines.await_addresses(3).await, addresses);
    run(ns, &steps.next("floatingIPNetwork")).await;
    run(ns, &steps.next("condition=Ready")).await;
    run(ns, &steps.next("delete openstackfloatingippools")).await;
    assert!(ns.get(Kind::InTreePool, "capo").await.is_none());
    run(ns, &steps.next("paused=")).await;
    run(ns, &steps.next("unset --tag")).await;
    run(ns, &steps.next("paused-")).await;
    steps.end();
    // The pool is open: one machine more gets an address that it creates.
    machines.scale(4).await;
    assert!(machines.await_addresses(4).await.is_superset(addresses));
}

async fn change_addresses(ns: &Namespace, machines: &Machines<'_>) {
    let mut steps = Steps::of(&plan(ns, "--apply").await);
    run(ns, &steps.next("condition=Ready")).await;
    // Still from the old template, and so with an address of CAPO's pool.
    delete_one(ns).await;
    machines.await_addresses(3).await;
    assert_eq!(count_claims_of_capo(ns).await, 3);
    run(ns, &steps.next("infrastructureRef")).await;
    await_new(ns, |new, _| new > 0).await;
    // Still an old one: while both pools are open.
    delete_one(ns).await;
    await_new(ns, |new, all| (new, all) == (3, 3)).await;
    eventually(PATIENCE, async || match count_claims_of_capo(ns).await {
        0 => Ok(()),
        left => Err(format!("{left} claims of CAPO's pool are left")),
    })
    .await;
    run(ns, &steps.next("delete openstackfloatingippools")).await;
    assert!(ns.get(Kind::InTreePool, "capo").await.is_none());
    steps.end();
}

async fn count_claims_of_capo(ns: &Namespace) -> usize {
    let claims = ns.list(Kind::Claim).await;
    claims.iter().filter(|claim| claim.data["spec"]["poolRef"]["apiGroup"] == CAPO).count()
}

/// A machine is deleted, as by a health check. The replacement is made from the old template: CAPO's pool gives it
/// nothing, although it lists the address that is free now.
async fn recreate_one_without_address(ns: &Namespace) {
    let address = delete_one(ns).await;
    eventually(PATIENCE, async || {
        let waiting = ns.list(Kind::Claim).await.iter().filter(|claim| is_waiting(claim)).count();
        if waiting == 1 { Ok(()) } else { Err(format!("{waiting} claims wait")) }
    })
    .await;
    consistently(SERVED, async || {
        let waiting = ns.list(Kind::Claim).await.iter().filter(|claim| is_waiting(claim)).count();
        let found = ns.cloud().await.find(&address).await.ok_or("CAPO deleted a kept address")?;
        if waiting == 1 && found.port.is_none() { Ok(()) } else { Err("CAPO's pool gave an address") }
    })
    .await;
}

/// Deletes a machine of the old template, and waits until its IPAddress is gone. Returns its address.
async fn delete_one(ns: &Namespace) -> String {
    let machines = ns.list(Kind::InfrastructureMachine).await;
    let is_old = |machine: &&DynamicObject| machine.metadata.deletion_timestamp.is_none() && is_from(machine, OLD);
    let first = machines.iter().find(is_old).map(ResourceExt::name_any).expect("there are old machines");
    let address = ns.await_bound(&claim_of(&first), PATIENCE).await;
    ns.delete(Kind::Machine, &first).await;
    ns.await_gone(Kind::Address, &claim_of(&first), PATIENCE).await;
    address
}

fn is_waiting(claim: &DynamicObject) -> bool {
    claim.data["status"]["addressRef"]["name"].is_null()
}

/// CAPO's pool `capo`, and a MachineDeployment whose machines have addresses of it; and a controller for the pool of the
/// plan, which has no label for the controller that the scenarios share.
async fn create_in_tree_machines(ns: &Namespace, count: usize) -> Machines<'_> {
    ns.start_controller(&ns.world.account, &["--watch-filter="]);
    create_in_tree_pool(ns).await;
    let mut machine = machine_spec();
    machine["floatingIPPoolRef"] = in_tree_reference();
    let template = json!({"metadata": {"name": OLD}, "spec": {"template": {"spec": machine}}});
    ns.create(Manifest::new(Kind::MachineTemplate, template)).await;
    let machines = Machines::create(ns, 0, json!({"maxSurge": 1, "maxUnavailable": 0})).await;
    let change = json!({"spec": {"template": {"spec": {"infrastructureRef": {"name": OLD}}}}});
    for deployment in ns.list(Kind::MachineDeployment).await {
        ns.patch(Kind::MachineDeployment, &deployment.name_any(), change.clone()).await;
    }
    machines.scale(count).await;
    machines
}

async fn create_in_tree_pool(ns: &Namespace) {
    let spec = json!({
        "identityRef": identity_ref(), "reclaimPolicy": "Delete", "floatingIPNetwork": {"filter": {"name": "public"}}
    });
    ns.create(Manifest::new(Kind::InTreePool, json!({"metadata": {"name": "capo"}, "spec": spec}))).await;
}

fn in_tree_reference() -> Value {
    json!({"apiGroup": CAPO, "kind": "OpenStackFloatingIPPool", "name": "capo"})
}

/// Waits for a number of machines of the new template, among all.
async fn await_new(ns: &Namespace, is_reached: impl Fn(usize, usize) -> bool) {
    let is_new = |machine: &&DynamicObject| is_from(machine, NEW);
    eventually(PATIENCE * 2, async || {
        let machines = ns.list(Kind::InfrastructureMachine).await;
        let (new, all) = (machines.iter().filter(is_new).count(), machines.len());
        if is_reached(new, all) { Ok(()) } else { Err(format!("{new} of {all} are new")) }
    })
    .await;
}

/// Runs the migration; meanwhile no address may have two IPAddresses, none of these may be deleted in Neutron, and no
/// server may lose its address before it is deleted itself.
async fn with_guard(ns: &Namespace, addresses: &BTreeSet<String>, migration: impl Future<Output = ()>) {
    let guard = async {
        let mut ports = BTreeMap::new();
        loop {
            check(ns, addresses, &mut ports).await;
            sleep(Duration::from_millis(250)).await;
        }
    };
    match select(Box::pin(migration), Box::pin(guard)).await {
        Either::Left(((), _guard)) => {}
        Either::Right((never, _migration)) => never,
    }
}

/// `ports` are those that the servers' addresses were seen on.
async fn check(ns: &Namespace, addresses: &BTreeSet<String>, ports: &mut BTreeMap<String, String>) {
    // Neutron first: a server that is not being deleted afterwards was not before.
    let found = ns.cloud().await.floating_ips().await;
    let found: BTreeMap<_, _> = found.into_iter().map(|found| (found.address, found.port)).collect();
    let lost: Vec<_> = addresses.iter().filter(|address| !found.contains_key(*address)).collect();
    assert!(lost.is_empty(), "deleted in Neutron: {lost:?}");
    let published = ns.list(Kind::Address).await;
    let published: Vec<_> = published
        .iter()
        .filter_map(|object| Some((object.name_any(), object.data["spec"]["address"].as_str()?)))
        .collect();
    let different: BTreeSet<_> = published.iter().map(|(_, address)| address).collect();
    assert_eq!(different.len(), published.len(), "given twice: {published:?}");
    for server in ns.list(Kind::Server).await {
        let name = server.name_any();
        let claim = claim_of(&name);
        let address = published.iter().find(|(object, _)| *object == claim).map(|(_, address)| *address);
        if server.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let port = address.and_then(|address| found.get(address)?.clone());
        match (ports.get(&name), port) {
            (Some(before), port) => assert_eq!(port.as_ref(), Some(before), "{name} lost {address:?}"),
            (None, Some(port)) => drop(ports.insert(name, port)),
            (None, None) => {}
        }
    }
}

/// The commands of a plan, in their order.
struct Steps(vec::IntoIter<String>);

impl Steps {
    fn of(plan: &Value) -> Self {
        let steps = plan["nextSteps"].as_array().expect("there are steps").iter().filter_map(Value::as_str);
        let commands: Vec<String> = steps.filter(|step| !step.starts_with('#')).map(str::to_owned).collect();
        Self(commands.into_iter())
    }

    /// The next command, which must contain this.
    fn next(&mut self, part: &str) -> String {
        let command = self.0.next().expect("there is another step");
        assert!(command.contains(part), "{command}");
        command
    }

    fn end(mut self) {
        assert_eq!(self.0.next(), None);
    }
}

/// What the plugin prints for CAPO's pool.
async fn plan(ns: &Namespace, flags: &str) -> Value {
    let plan = format!("kubectl fippool migrate capo -n {} -o json {flags}", ns.name);
    let plan: Value = serde_json::from_str(&run(ns, &plan).await).expect("the plugin prints JSON");
    assert_eq!(plan["obstacles"], json!([]));
    plan
}

/// Runs a command as a user would, and returns what it prints.
async fn run(ns: &Namespace, line: &str) -> String {
    let plugin = Path::new(env!("CARGO_BIN_EXE_kubectl-fippool")).parent().expect("a program is in a folder");
    let path = format!("{}:{}", plugin.display(), std::env::var("PATH").expect("there is a PATH"));
    let mut command = Command::new("bash");
    command.args(["-euc", line]).stdin(Stdio::null());
    command.env("PATH", path).env("KUBECONFIG", &ns.world.kubeconfig).env("OS_CLOUD", "demo");
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("it does not panic");
    let output = output.expect("bash starts");
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).expect("it prints UTF-8")
}
