//! Clusters as users of CAPO declare them: with a control plane machine, with a bastion, and by the examples.

use std::fs;
use std::path::Path;

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::machines::{PATIENCE, identity_ref, machine_spec, pool_ref};
use crate::support::{Kind, Manifest, Namespace, cluster, condition_of, eventually};

/// The name of each Cluster here, as in the examples.
pub const NAME: &str = "prod";

const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
const MOVE: &str = "clusterctl.cluster.x-k8s.io/move";

/// An API endpoint that CAPO does not manage. Nothing answers there.
pub fn without_api_address() -> Value {
    json!({"disableAPIServerFloatingIP": true, "controlPlaneEndpoint": {"host": "10.1.0.250", "port": 6443}})
}

/// A bastion with an existing floating IP, which CAPO attaches.
pub fn bastion(address: &str) -> Value {
    json!({"enabled": true, "floatingIP": address, "spec": machine_spec()})
}

/// The spec of an `OpenStackCluster` on the network `private`, with more fields.
pub fn infrastructure(more: Value) -> Value {
    let mut spec = json!({
        "identityRef": identity_ref(),
        "externalNetwork": {"filter": {"name": "public"}},
        "network": {"filter": {"name": "private"}},
        "subnets": [{"filter": {"name": "private-v4"}}],
        "router": {"filter": {"name": "r1"}}
    });
    let more = more.as_object().cloned().expect("more fields are an object");
    spec.as_object_mut().expect("a spec is an object").extend(more);
    spec
}

/// Creates the `OpenStackCluster`. CAPO does nothing with it before [`create`].
pub async fn create_infrastructure(ns: &Namespace, more: Value) {
    let body = json!({"metadata": {"name": NAME}, "spec": infrastructure(more)});
    ns.create(Manifest::new(Kind::InfrastructureCluster, body)).await;
}

/// Creates the Cluster, and the Secrets that the kubeadm providers would create.
pub async fn create(ns: &Namespace) {
    create_secrets(ns).await;
    ns.create(cluster(NAME, json!({"clusterNetwork": {"pods": {"cidrBlocks": ["192.168.0.0/16"]}}}))).await;
}

/// Machines boot with nothing, and the Cluster's kubeconfig leads to the management cluster: see [`crate::kubelets`].
pub async fn create_secrets(ns: &Namespace) {
    let kubeconfig = fs::read_to_string(&ns.world.kubeconfig).expect("the kubeconfig can be read");
    let secrets = [
        ("bootstrap".to_owned(), json!({"value": "#cloud-config", "format": "cloud-config"})),
        (format!("{NAME}-kubeconfig"), json!({"value": kubeconfig})),
    ];
    for (name, data) in secrets {
        let labels = json!({"cluster.x-k8s.io/cluster-name": NAME, MOVE: "true"});
        let body = json!({"metadata": {"name": name, "labels": labels},
            "type": "cluster.x-k8s.io/secret", "stringData": data});
        ns.create(Manifest::new(Kind::Secret, body)).await;
    }
}

/// Waits until the Cluster is ready for machines. It has no control plane, so the test says that there is one; Cluster API
/// writes the whole status as well, so that is said until it stays.
pub async fn await_control_plane(ns: &Namespace) {
    let mut seen = 0;
    eventually(PATIENCE, async || {
        let found = ns.get(Kind::Cluster, NAME).await.expect("the Cluster is there");
        let status = &found.data["status"];
        let is_initialized =
            condition_of(&found, "ControlPlaneInitialized").is_some_and(|condition| condition["status"] == "True");
        if is_initialized && status["initialization"]["controlPlaneInitialized"] == true {
            seen += 1;
        } else if status["initialization"]["infrastructureProvisioned"] == true {
            seen = 0;
            let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            conditions.retain(|condition| condition["type"] != "ControlPlaneInitialized");
            conditions.push(json!({"type": "ControlPlaneInitialized", "status": "True", "reason": "Initialized",
                "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}));
            let status = json!({"initialization": {"controlPlaneInitialized": true}, "conditions": conditions});
            ns.patch_status(Kind::Cluster, NAME, json!({"status": status})).await;
        }
        if seen < 10 { Err(format!("the Cluster is not ready for machines: {status}")) } else { Ok(()) }
    })
    .await;
}

/// Creates a control plane machine without a `KubeadmControlPlane`, which would create another one in its place; `more` are
/// fields of its `OpenStackMachine`.
pub async fn create_control_plane_machine(ns: &Namespace, name: &str, more: Value) {
    let metadata = json!({"name": name, "labels": {"cluster.x-k8s.io/cluster-name": NAME, CONTROL_PLANE: ""}});
    let mut spec = machine_spec();
    let more = more.as_object().cloned().expect("more fields are an object");
    spec.as_object_mut().expect("a spec is an object").extend(more);
    ns.create(Manifest::new(Kind::InfrastructureMachine, json!({"metadata": metadata, "spec": spec}))).await;
    let group = "infrastructure.cluster.x-k8s.io";
    let spec = json!({
        "clusterName": NAME, "version": "v1.36.3", "bootstrap": {"dataSecretName": "bootstrap"},
        "infrastructureRef": {"apiGroup": group, "kind": "OpenStackMachine", "name": name}
    });
    ns.create(Manifest::new(Kind::Machine, json!({"metadata": metadata, "spec": spec}))).await;
}

/// The field of a machine that has an address from the pool `public`.
pub fn with_address() -> Value {
    json!({"floatingIPPoolRef": pool_ref()})
}

/// Deletes a machine, and waits until it is gone.
pub async fn delete_machine(ns: &Namespace, name: &str) {
    ns.delete(Kind::Machine, name).await;
    ns.await_gone(Kind::Machine, name, PATIENCE).await;
}

/// Adds or changes the bastion, or removes it.
pub async fn set_bastion(ns: &Namespace, bastion: Value) {
    ns.patch(Kind::InfrastructureCluster, NAME, json!({"spec": {"bastion": bastion}})).await;
}

/// Deletes the Cluster, and waits until it is gone.
pub async fn delete(ns: &Namespace) {
    ns.delete(Kind::Cluster, NAME).await;
    ns.await_gone(Kind::Cluster, NAME, PATIENCE).await;
}

/// Waits until the pool gives this reason for an address that it cannot give.
pub async fn await_failure(ns: &Namespace, address: &str, reason: &str) {
    let says_so = |failed: &Value| failed["address"] == address && failed["reason"] == reason;
    ns.await_object(Kind::Pool, "public", PATIENCE, &format!("saying of {address}: {reason}"), |pool| {
        let failed = pool.and_then(|pool| pool.data["status"]["failed"].as_array());
        failed.is_some_and(|failed| failed.iter().any(says_so))
    })
    .await;
}

/// Applies a file of the examples, after `change` has put in what belongs to this cloud.
pub async fn apply_example(ns: &Namespace, file: &str, change: impl Fn(&mut Value)) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let manifests: Vec<Value> =
        serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    for mut manifest in manifests {
        change(&mut manifest);
        ns.apply_any(&manifest, &PatchParams::apply("kubectl").force())
            .await
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

/// Creates the Cluster of `examples/cluster-class` as it is, and the templates that its ClusterClass names.
pub async fn create_from_class(ns: &Namespace) {
    create_secrets(ns).await;
    let (machine, kubeadm) = (json!({"template": {"spec": machine_spec()}}), json!({"template": {"spec": {}}}));
    let infrastructure = json!({"template": {"spec": infrastructure(without_api_address())}});
    for (version, kind, name, spec) in [
        ("infrastructure.cluster.x-k8s.io/v1beta1", "OpenStackClusterTemplate", "openstack", &infrastructure),
        ("infrastructure.cluster.x-k8s.io/v1beta1", "OpenStackMachineTemplate", "openstack-control-plane", &machine),
        ("infrastructure.cluster.x-k8s.io/v1beta1", "OpenStackMachineTemplate", "openstack-workers", &machine),
        ("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlaneTemplate", "openstack-control-plane", &kubeadm),
        ("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfigTemplate", "openstack-workers", &kubeadm),
    ] {
        let template = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec});
        ns.apply_any(&template, &PatchParams::apply("kubectl").force())
            .await
            .unwrap_or_else(|error| panic!("{name} is refused: {error}"));
    }
    apply_example(ns, "cluster-class/cluster-class.yaml", |_| {}).await;
    apply_example(ns, "cluster-class/cluster.yaml", |_| {}).await;
}

/// Sets how many workers the Cluster of [`create_from_class`] has, and from which pool.
pub async fn change_workers(ns: &Namespace, replicas: usize, pool: &str) {
    let change = json!([
        {"op": "replace", "path": "/spec/topology/workers/machineDeployments/0/replicas", "value": replicas},
        {"op": "replace", "path": "/spec/topology/variables/0/value", "value": pool}
    ]);
    let change: Patch<Value> = Patch::Json(serde_json::from_value(change).expect("that is a patch"));
    ns.api(Kind::Cluster).patch(NAME, &PatchParams::default(), &change).await.expect("the Cluster can be changed");
}

/// Waits until so many claims exist, all of this pool.
pub async fn await_claims_of(ns: &Namespace, pool: &str, count: usize) {
    eventually(PATIENCE, async || {
        let claims = ns.list(Kind::Claim).await;
        let of_pool = claims.iter().filter(|claim| claim.data["spec"]["poolRef"]["name"] == pool).count();
        if (of_pool, claims.len()) == (count, count) {
            Ok(())
        } else {
            Err(format!("{of_pool} of {} claims are of the pool {pool}, not {count}", claims.len()))
        }
    })
    .await;
}

/// Lets clusterctl move the Secret of the pool.
pub async fn make_secret_movable(ns: &Namespace) {
    ns.patch(Kind::Secret, "cloud", json!({"metadata": {"labels": {MOVE: "true"}}})).await;
}

/// What a move leaves behind.
pub async fn objects_left_in(ns: &Namespace) -> Vec<String> {
    let mut left = Vec::new();
    for kind in [
        Kind::Address,
        Kind::Claim,
        Kind::Pool,
        Kind::Server,
        Kind::InfrastructureMachine,
        Kind::InfrastructureCluster,
        Kind::MachineTemplate,
        Kind::MachineDeployment,
        Kind::Machine,
        Kind::Cluster,
        Kind::Secret,
    ] {
        left.extend(ns.list(kind).await.iter().map(|object| format!("{kind:?} {}", object.name_any())));
    }
    left
}
