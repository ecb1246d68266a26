//! Machines and servers as users of CAPO declare them, and what they must come to.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::ResourceExt;
use kube::core::DynamicObject;
use reqwest::Method;
use serde_json::{Value, json};

use crate::clusters::{self, NAME};
use crate::support::{FloatingIp, Kind, Manifest, Namespace, eventually};

/// How long machines may take: Nova boots and deletes them one after another, in seconds each, or minutes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(600);
/// How soon an address must be gone in Neutron after its claim.
const RELEASED: Duration = Duration::from_secs(2);

/// The name that CAPO gives the claim of a server.
pub fn claim_of(server: &str) -> String {
    format!("{server}-floating-ip-address")
}

pub fn pool_ref() -> Value {
    json!({"apiGroup": "ipam.cluster.x-k8s.io", "kind": "OpenStackFloatingIPPool", "name": "public"})
}

pub fn identity_ref() -> Value {
    json!({"name": "cloud", "cloudName": "openstack"})
}

/// The spec of an `OpenStackMachine`, without an address.
pub fn machine_spec() -> Value {
    json!({"flavor": "m1.tiny", "image": {"filter": {"name": "tiny"}}, "sshKeyName": "demo"})
}

/// A server of its own, with an address from the pool `public`.
pub fn server(name: &str) -> Manifest {
    Manifest::new(
        Kind::Server,
        json!({"metadata": {"name": name}, "spec": {
            "identityRef": identity_ref(), "flavor": "m1.tiny", "image": {"filter": {"name": "tiny"}},
            "sshKeyName": "demo", "ports": [{"network": {"filter": {"name": "private"}}}],
            "floatingIPPoolRef": pool_ref()
        }}),
    )
}

/// A Cluster with one MachineDeployment, each of whose machines has an address from the pool `public`.
pub struct Machines<'a> {
    ns: &'a Namespace,
}

impl<'a> Machines<'a> {
    /// Those of the Cluster that exists.
    pub fn of_cluster(ns: &'a Namespace) -> Self {
        Self { ns }
    }

    /// Creates them, with a strategy for rolling updates. No machine joins the Cluster, and it has no control plane: its
    /// kubeconfig leads to the management cluster, where [`crate::kubelets`] creates the Nodes.
    pub async fn create(ns: &'a Namespace, replicas: usize, rolling_update: Value) -> Self {
        let machines = Self::of_cluster(ns);
        clusters::create_infrastructure(ns, clusters::without_api_address()).await;
        clusters::create(ns).await;
        clusters::await_control_plane(ns).await;
        machines.create_template("first").await;
        let deployment = json!({"metadata": {"name": NAME}, "spec": {
            "clusterName": NAME, "replicas": replicas, "selector": {"matchLabels": {}},
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": rolling_update}},
            "template": {"spec": {
                "clusterName": NAME, "version": "v1.36.3", "bootstrap": {"dataSecretName": "bootstrap"},
                "infrastructureRef": template_ref("first")
            }}
        }});
        ns.create(Manifest::new(Kind::MachineDeployment, deployment)).await;
        machines
    }

    async fn create_template(&self, name: &str) {
        let mut body = json!({"metadata": {"name": name}, "spec": {"template": {"spec": machine_spec()}}});
        body["spec"]["template"]["spec"]["floatingIPPoolRef"] = pool_ref();
        self.ns.create(Manifest::new(Kind::MachineTemplate, body)).await;
    }

    pub async fn scale(&self, replicas: usize) {
        self.ns.patch(Kind::MachineDeployment, NAME, json!({"spec": {"replicas": replicas}})).await;
    }

    /// Begins a rolling update of all machines, by another template.
    pub async fn replace_all(&self) {
        self.create_template("second").await;
        let spec = json!({"template": {"spec": {"infrastructureRef": template_ref("second")}}});
        self.ns.patch(Kind::MachineDeployment, NAME, json!({"spec": spec})).await;
    }

    /// Waits until the rolling update is complete, and returns the addresses of the new machines.
    pub async fn await_replaced(&self, count: usize) -> BTreeSet<String> {
        eventually(PATIENCE * 2, async || match self.count_new().await {
            new if new == (count, count) => Ok(()),
            (new, all) => Err(format!("{new} of {all} are new")),
        })
        .await;
        self.await_addresses(count).await
    }

    /// Waits until the rolling update has created so many machines.
    pub async fn await_new(&self, count: usize) {
        eventually(PATIENCE, async || match self.count_new().await {
            (new, _) if new >= count => Ok(()),
            (new, all) => Err(format!("{new} of {all} are new")),
        })
        .await;
    }

    /// How many machines are of the other template, and how many there are.
    async fn count_new(&self) -> (usize, usize) {
        let machines = self.ns.list(Kind::InfrastructureMachine).await;
        (machines.iter().filter(|machine| is_from(machine, "second")).count(), machines.len())
    }

    /// Waits until so many machines run, and no others exist; each must have the address of its claim, attached. Returns
    /// the addresses.
    pub async fn await_addresses(&self, count: usize) -> BTreeSet<String> {
        await_running(self.ns, count).await;
        await_ready_servers(self.ns, count).await;
        await_attached(self.ns, count).await
    }

    /// Deletes the Cluster, and waits until its machines are gone. Soon after the last claim is gone, Neutron has none of
    /// the addresses that the pool has created for them.
    pub async fn delete_cluster(&self, created: &BTreeSet<String>) {
        let claims_are_gone = async {
            eventually(PATIENCE, async || {
                let claims = self.ns.list(Kind::Claim).await.len();
                if claims == 0 { Ok(()) } else { Err(format!("{claims} claims are left")) }
            })
            .await;
            await_released(self.ns, created).await;
        };
        tokio::join!(clusters::delete(self.ns), claims_are_gone);
    }
}

/// Whether an `OpenStackMachine` was made from this template.
pub fn is_from(machine: &DynamicObject, template: &str) -> bool {
    machine.annotations().get("cluster.x-k8s.io/cloned-from-name").is_some_and(|name| name == template)
}

fn template_ref(name: &str) -> Value {
    json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachineTemplate", "name": name})
}

/// Waits until so many machines run, and no others exist.
pub async fn await_running(ns: &Namespace, count: usize) {
    eventually(PATIENCE, async || {
        let machines = ns.list(Kind::Machine).await;
        let running = machines.iter().filter(|machine| machine.data["status"]["phase"] == "Running").count();
        let phases: Vec<_> = machines.iter().map(|machine| &machine.data["status"]["phase"]).collect();
        if (running, machines.len()) == (count, count) {
            Ok(())
        } else {
            Err(format!("{phases:?}, not {count} Running"))
        }
    })
    .await;
}

/// Waits until the machine of this name runs.
pub async fn await_running_machine(ns: &Namespace, name: &str) {
    let is_running =
        |machine: Option<&DynamicObject>| machine.is_some_and(|machine| machine.data["status"]["phase"] == "Running");
    ns.await_object(Kind::Machine, name, PATIENCE, "Running", is_running).await;
}

/// Waits until so many servers exist and all are ready.
pub async fn await_ready_servers(ns: &Namespace, count: usize) {
    eventually(PATIENCE, async || {
        let servers = ns.list(Kind::Server).await;
        let ready = servers.iter().filter(|server| server.data["status"]["ready"] == true).count();
        if (ready, servers.len()) == (count, count) {
            return Ok(());
        }
        let states: Vec<_> = servers.iter().map(|server| server.data["status"]["conditions"].to_string()).collect();
        Err(format!("{ready} of {} servers are ready, not {count}: {states:?}", servers.len()))
    })
    .await;
}

/// Waits until each server has the address of its claim on its port in Neutron, and returns the addresses.
pub async fn await_attached(ns: &Namespace, count: usize) -> BTreeSet<String> {
    let addresses: BTreeSet<_> = await_attached_by_server(ns).await.into_values().collect();
    assert_eq!(addresses.len(), count, "{addresses:?}");
    addresses
}

/// The same, by the server's name.
pub async fn await_attached_by_server(ns: &Namespace) -> BTreeMap<String, String> {
    let mut addresses = BTreeMap::new();
    for server in ns.list(Kind::Server).await {
        let name = server.name_any();
        let address = ns.await_bound(&claim_of(&name), PATIENCE).await;
        await_attached_to(ns, &name, &address).await;
        addresses.insert(name, address);
    }
    addresses
}

/// Waits until a server exists that has this address on its port in Neutron.
pub async fn await_attached_to(ns: &Namespace, server: &str, address: &str) {
    eventually(PATIENCE, async || {
        let found = ns.get(Kind::Server, server).await.ok_or(format!("there is no server {server}"))?;
        let floating_ip = ns.cloud().await.find(address).await.ok_or(format!("{address} is not in Neutron"))?;
        let port = floating_ip.port.ok_or(format!("{address} of {server} is not attached"))?;
        let (_, answer) = ns.cloud().await.call(Method::GET, &format!("ports/{port}"), None).await;
        let device = &answer["port"]["device_id"];
        if device.is_string() && *device == found.data["status"]["instanceID"] {
            return Ok(());
        }
        Err(format!("{address} is on {device}, not on {server}"))
    })
    .await;
}

/// Waits until a claim waits.
pub async fn await_waiting_claim(ns: &Namespace) {
    eventually(PATIENCE, async || {
        let claims = ns.list(Kind::Claim).await;
        let is_waiting = |claim: &DynamicObject| claim.data["status"]["addressRef"]["name"].is_null();
        if claims.iter().any(is_waiting) { Ok(()) } else { Err("every claim has its address") }
    })
    .await;
}

/// The claims are gone: soon Neutron has none of the addresses, which the pool had created, and nothing else that has a mark
/// of a pool here, but for the claims that are left.
pub async fn await_released(ns: &Namespace, addresses: &BTreeSet<String>) {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let id_of = |pool: &DynamicObject| text(&pool.data["status"]["poolID"]).expect("the pool has served");
    let pools: Vec<_> = ns.list(Kind::Pool).await.iter().map(id_of).collect();
    assert!(!pools.is_empty(), "their marks have the id of a pool");
    eventually(RELEASED, async || {
        let published = ns.list(Kind::Address).await;
        let kept: BTreeSet<_> = published.iter().filter_map(|found| text(&found.data["spec"]["address"])).collect();
        let is_left = |found: &FloatingIp| {
            let marks = || found.tags.iter().chain([&found.description]);
            addresses.contains(&found.address)
                || !kept.contains(&found.address) && pools.iter().any(|id| marks().any(|mark| mark.contains(id)))
        };
        let left: Vec<_> = ns.cloud().await.floating_ips().await.into_iter().filter(is_left).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?} are left")) }
    })
    .await;
}
