//! Clusters, machines and servers as users of CAPO declare them, and what they must come to.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::ResourceExt;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Kind, Manifest, Namespace, cluster, eventually};

/// How long machines may take: Nova boots and deletes them one after another.
pub const PATIENCE: Duration = Duration::from_secs(240);
/// How soon an address must be gone in Neutron after its claim.
const RELEASED: Duration = Duration::from_secs(2);

const NAME: &str = "e2e";

/// The name that CAPO gives the claim of a server.
pub fn claim_of(server: &str) -> String {
    format!("{server}-floating-ip-address")
}

fn pool_ref() -> Value {
    json!({"apiGroup": "ipam.cluster.x-k8s.io", "kind": "OpenStackFloatingIPPool", "name": "public"})
}

fn identity_ref() -> Value {
    json!({"name": "cloud", "cloudName": "openstack"})
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
    /// Creates them, with a strategy for rolling updates. No machine joins the Cluster, and it has no control plane: its
    /// kubeconfig leads to the management cluster, where [`crate::kubelets`] creates the Nodes.
    pub async fn create(ns: &'a Namespace, replicas: usize, rolling_update: Value) -> Self {
        let machines = Self { ns };
        let kubeconfig = std::fs::read_to_string(&ns.world.kubeconfig).expect("the kubeconfig can be read");
        let secrets = [
            ("bootstrap".to_owned(), json!({"value": "#cloud-config", "format": "cloud-config"})),
            (format!("{NAME}-kubeconfig"), json!({"value": kubeconfig})),
        ];
        for (name, data) in secrets {
            let labels = json!({"cluster.x-k8s.io/cluster-name": NAME});
            let body = json!({"metadata": {"name": name, "labels": labels},
                "type": "cluster.x-k8s.io/secret", "stringData": data});
            ns.create(Manifest::new(Kind::Secret, body)).await;
        }
        let infrastructure = json!({"metadata": {"name": NAME}, "spec": {
            "identityRef": identity_ref(),
            "externalNetwork": {"filter": {"name": "public"}},
            "network": {"filter": {"name": "private"}},
            "subnets": [{"filter": {"name": "private-v4"}}],
            "router": {"filter": {"name": "r1"}},
            "disableAPIServerFloatingIP": true,
            "controlPlaneEndpoint": {"host": "10.1.0.250", "port": 6443}
        }});
        ns.create(Manifest::new(Kind::InfrastructureCluster, infrastructure)).await;
        ns.create(cluster(NAME, json!({"clusterNetwork": {"pods": {"cidrBlocks": ["192.168.0.0/16"]}}}))).await;
        machines.await_control_plane().await;
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

    async fn await_control_plane(&self) {
        eventually(PATIENCE, async || {
            let found = self.ns.get(Kind::Cluster, NAME).await.expect("the Cluster is there");
            let status = &found.data["status"];
            if status["initialization"]["controlPlaneInitialized"] == true {
                return Ok(());
            }
            // Cluster API writes the whole status as well, at the same time.
            if status["initialization"]["infrastructureProvisioned"] == true {
                let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
                conditions.retain(|condition| condition["type"] != "ControlPlaneInitialized");
                conditions.push(json!({"type": "ControlPlaneInitialized", "status": "True", "reason": "Initialized",
                    "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}));
                let status = json!({"initialization": {"controlPlaneInitialized": true}, "conditions": conditions});
                self.ns.patch_status(Kind::Cluster, NAME, json!({"status": status})).await;
            }
            Err(format!("the Cluster is not ready for machines: {status}"))
        })
        .await;
    }

    async fn create_template(&self, name: &str) {
        let spec = json!({"template": {"spec": {
            "flavor": "m1.tiny", "image": {"filter": {"name": "tiny"}}, "sshKeyName": "demo",
            "floatingIPPoolRef": pool_ref()
        }}});
        let body = json!({"metadata": {"name": name}, "spec": spec});
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
        eventually(PATIENCE * 2, async || {
            let machines = self.ns.list(Kind::InfrastructureMachine).await;
            let template = "cluster.x-k8s.io/cloned-from-name";
            let new =
                machines.iter().filter(|machine| machine.annotations().get(template).is_some_and(|of| of == "second"));
            let new = new.count();
            if (new, machines.len()) == (count, count) {
                Ok(())
            } else {
                Err(format!("{new} of {} are new", machines.len()))
            }
        })
        .await;
        self.await_addresses(count).await
    }

    /// Waits until so many machines run, and no others exist; each must have the address of its claim, attached. Returns
    /// the addresses.
    pub async fn await_addresses(&self, count: usize) -> BTreeSet<String> {
        eventually(PATIENCE, async || {
            let machines = self.ns.list(Kind::Machine).await;
            let running = machines.iter().filter(|machine| machine.data["status"]["phase"] == "Running").count();
            let phases: Vec<_> = machines.iter().map(|machine| &machine.data["status"]["phase"]).collect();
            if (running, machines.len()) == (count, count) {
                Ok(())
            } else {
                Err(format!("{phases:?}, not {count} Running"))
            }
        })
        .await;
        await_ready_servers(self.ns, count).await;
        await_attached(self.ns, count).await
    }

    /// Deletes the Cluster, and waits until its machines and their claims are gone.
    pub async fn delete_cluster(&self) {
        self.ns.delete(Kind::Cluster, NAME).await;
        self.ns.await_gone(Kind::Cluster, NAME, PATIENCE).await;
        eventually(PATIENCE, async || {
            let claims = self.ns.list(Kind::Claim).await.len();
            if claims == 0 { Ok(()) } else { Err(format!("{claims} claims are left")) }
        })
        .await;
    }
}

fn template_ref(name: &str) -> Value {
    json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachineTemplate", "name": name})
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
    eventually(PATIENCE, async || {
        let mut addresses = BTreeSet::new();
        for server in ns.list(Kind::Server).await {
            let name = server.name_any();
            let address = ns.await_bound(&claim_of(&name), PATIENCE).await;
            let floating_ip = ns.cloud().await.find(&address).await.ok_or(format!("{address} is not in Neutron"))?;
            let port = floating_ip.port.ok_or(format!("{address} of {name} is not attached"))?;
            let (_, answer) = ns.cloud().await.call(Method::GET, &format!("ports/{port}"), None).await;
            if answer["port"]["device_id"] != server.data["status"]["instanceID"] {
                return Err(format!("{address} is on {}, not on {name}", answer["port"]["device_id"]));
            }
            addresses.insert(address);
        }
        if addresses.len() == count { Ok(addresses) } else { Err(format!("{addresses:?} are not {count}")) }
    })
    .await
}

/// The claims are gone: soon Neutron has none of the addresses, which the pool had created.
pub async fn await_released(ns: &Namespace, addresses: &BTreeSet<String>) {
    eventually(RELEASED, async || {
        let found = ns.cloud().await.floating_ips().await;
        let left: Vec<_> = found.into_iter().filter(|found| addresses.contains(&found.address)).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?} are left")) }
    })
    .await;
}
