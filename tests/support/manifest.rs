//! Objects that scenarios create, in JSON as users write them, not in the program's types.

mod kind;

use caip_openstack::api::IpamVersion;
use kube::core::DynamicObject;
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use super::world::run_id;
use kind::INFRASTRUCTURE;

pub use kind::Kind;

/// An object to create or apply; its namespace is the scenario's.
#[derive(Clone, Debug)]
pub struct Manifest {
    pub kind: Kind,
    /// `metadata`, `spec` and the rest; `apiVersion` and `kind` are filled in.
    pub body: Value,
}

impl Manifest {
    pub fn new(kind: Kind, body: Value) -> Self {
        Self { kind, body }
    }

    pub fn name(&self) -> String {
        self.body["metadata"]["name"].as_str().expect("a manifest has a name").to_owned()
    }

    /// The object in a namespace.
    pub fn object(&self, version: IpamVersion, namespace: &str) -> DynamicObject {
        let resource = self.kind.resource(version);
        let mut body = self.body.clone();
        body["apiVersion"] = resource.api_version.into();
        body["kind"] = resource.kind.into();
        // A Cluster of v1beta1 names its infrastructure by version, and is never deleted without.
        if let (Self { kind: Kind::Cluster, .. }, IpamVersion::V1Beta1) = (self, version)
            && let Some(reference) = body["spec"]["infrastructureRef"].as_object_mut()
            && reference.remove("apiGroup").is_some()
        {
            reference.insert("apiVersion".into(), format!("{INFRASTRUCTURE}/v1beta1").into());
        }
        let mut object: DynamicObject = serde_json::from_value(body).expect("a manifest is an object");
        object.meta_mut().namespace = Some(namespace.to_owned());
        object
    }
}

/// A pool under construction. It starts with the Secret `cloud`, no network and no list, and takes no free addresses of
/// the project (`reuse: Never`), since scenarios that run at once share a project.
#[derive(Clone, Debug)]
pub struct PoolBuilder(Value);

pub fn pool(name: &str) -> PoolBuilder {
    PoolBuilder(json!({
        "metadata": {"name": name, "labels": {"cluster.x-k8s.io/watch-filter": run_id()}},
        "spec": {"identityRef": {"name": "cloud", "cloudName": "openstack"}, "reuse": {"policy": "Never"}}
    }))
}

impl PoolBuilder {
    /// Replaces a field of the spec.
    pub fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.0["spec"][field] = value.into();
        self
    }

    /// Removes a field of the spec.
    pub fn without(mut self, field: &str) -> Self {
        self.0["spec"].as_object_mut().expect("a spec is an object").remove(field);
        self
    }

    pub fn annotation(mut self, name: &str, value: &str) -> Self {
        self.0["metadata"]["annotations"][name] = value.into();
        self
    }

    /// A label; the watch filter decides which run's controller serves the pool.
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.0["metadata"]["labels"][name] = value.into();
        self
    }

    /// Served by the controllers of [`super::Namespace::serve`] in namespaces of this name, instead of the run's.
    pub fn served_in(self, namespace: &str) -> Self {
        self.label("cluster.x-k8s.io/watch-filter", namespace)
    }

    /// New addresses from the network of this name.
    pub fn network(self, name: &str) -> Self {
        self.with("floatingIPNetwork", json!({"filter": {"name": name}}))
    }

    /// Predefined addresses.
    pub fn list<S: Into<String>>(self, addresses: impl IntoIterator<Item = S>) -> Self {
        self.with("preAllocatedFloatingIPs", strings(addresses))
    }

    pub fn max_ips(self, most: u32) -> Self {
        self.with("maxIPs", most)
    }

    pub fn reclaim(self, policy: &str) -> Self {
        self.with("reclaimPolicy", policy)
    }

    /// Free addresses of the project that have all of these tags, whenever they last changed.
    pub fn reuse_tagged(self, tags: &[&str]) -> Self {
        self.with("reuse", json!({"policy": "Tagged", "tags": tags, "minIdleSeconds": 0}))
    }

    /// Free addresses of the project without tag, description and DNS name. Only for a network of the scenario's own.
    pub fn reuse_unmarked(self) -> Self {
        self.with("reuse", json!({"policy": "Unmarked", "minIdleSeconds": 0}))
    }

    pub fn excluded<S: Into<String>>(self, addresses: impl IntoIterator<Item = S>) -> Self {
        self.with("excludedAddresses", strings(addresses))
    }

    /// Reserves an address for the claim of this name.
    pub fn reserve(mut self, claim: &str, address: &str) -> Self {
        let reservation = json!({"claim": claim, "address": address});
        match self.0["spec"]["reservations"].as_array_mut() {
            Some(all) => all.push(reservation),
            None => self.0["spec"]["reservations"] = json!([reservation]),
        }
        self
    }

    pub fn min_free(self, count: u32) -> Self {
        self.with("minFree", count)
    }

    pub fn pool_id(self, id: &str) -> Self {
        self.with("poolID", id)
    }
}

impl From<PoolBuilder> for Manifest {
    fn from(pool: PoolBuilder) -> Self {
        Self::new(Kind::Pool, pool.0)
    }
}

fn strings<S: Into<String>>(values: impl IntoIterator<Item = S>) -> Vec<Value> {
    values.into_iter().map(|value| Value::String(value.into())).collect()
}

/// A claim under construction.
#[derive(Clone, Debug)]
pub struct ClaimBuilder(Value);

/// The claim that CAPO creates for a server, with its name and finalizer, of the pool `public`. It has no owner, since
/// there is no `OpenStackServer`.
pub fn claim(server: &str) -> ClaimBuilder {
    ClaimBuilder(json!({
        "metadata": {
            "name": format!("{server}-floating-ip-address"),
            "finalizers": ["openstackmachine.infrastructure.cluster.x-k8s.io/ip-claim"]
        },
        "spec": {"poolRef": {
            "apiGroup": "ipam.cluster.x-k8s.io", "kind": "OpenStackFloatingIPPool", "name": "public"
        }}
    }))
}

impl ClaimBuilder {
    pub fn from(mut self, pool: &str) -> Self {
        self.0["spec"]["poolRef"]["name"] = pool.into();
        self
    }

    /// Any field of the pool's reference.
    pub fn pool_ref(mut self, field: &str, value: &str) -> Self {
        self.0["spec"]["poolRef"][field] = value.into();
        self
    }

    /// The Cluster, by the label that CAPO sets.
    pub fn of_cluster(mut self, cluster: &str) -> Self {
        self.0["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] = cluster.into();
        self
    }

    /// Owned by its server, as CAPO writes it.
    pub fn owned_by(mut self, owner: &DynamicObject) -> Self {
        self.0["metadata"]["ownerReferences"] = json!([owner_reference(owner)]);
        self
    }

    pub fn annotation(mut self, name: &str, value: &str) -> Self {
        self.0["metadata"]["annotations"][name] = value.into();
        self
    }

    /// As if the machine were gone already, so that deleting the claim releases it.
    pub fn without_capo_finalizer(mut self) -> Self {
        self.0["metadata"].as_object_mut().expect("metadata is an object").remove("finalizers");
        self
    }

    pub fn name(&self) -> String {
        self.0["metadata"]["name"].as_str().expect("a claim has a name").to_owned()
    }
}

impl From<ClaimBuilder> for Manifest {
    fn from(claim: ClaimBuilder) -> Self {
        Self::new(Kind::Claim, claim.0)
    }
}

/// A reference to an owner that is neither the controller nor blocks deletion.
pub fn owner_reference(owner: &DynamicObject) -> Value {
    let types = owner.types.as_ref().expect("what the API server sends has a kind");
    json!({"apiVersion": types.api_version, "kind": types.kind, "name": owner.name_any(), "uid": owner.uid()})
}
