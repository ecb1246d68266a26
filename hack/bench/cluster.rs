//! The management cluster: a namespace for each measurement, and everything in it gone at the end.

use std::net::IpAddr;
use std::sync::Mutex;

use anyhow::{Context as _, Result, ensure};
use caip_openstack::api::{IpamVersion, OpenStackFloatingIPPool};
use caip_openstack::clock::Clock;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, Config, Resource, ResourceExt};
use serde_json::{Value, json};

const CRD: &str = include_str!("../../crds/ipam.cluster.x-k8s.io_openstackfloatingippools.yaml");

/// The cluster that `KUBECONFIG` names.
pub struct Cluster {
    client: Client,
    version: IpamVersion,
    /// Pools of this run have it, so that other controllers leave them alone.
    pub watch_filter: String,
    // A plain mutex: held to add an entry, never across an await.
    namespaces: Mutex<Vec<String>>,
}

/// What is in one namespace.
#[derive(Clone)]
pub struct Place {
    pub pools: Api<OpenStackFloatingIPPool>,
    pub claims: Api<DynamicObject>,
    pub addresses: Api<DynamicObject>,
    pub events: Api<Event>,
}

impl Cluster {
    /// Connects, and applies our CRD. Refuses a cluster that is not on this machine.
    pub async fn connect() -> Result<Self> {
        ensure!(std::env::var_os("KUBECONFIG").is_some(), "KUBECONFIG is not set: see `make env-up`");
        let config = Config::infer().await?;
        let host = config.cluster_url.host().unwrap_or_default().trim_matches(['[', ']']);
        let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        ensure!(is_here, "KUBECONFIG names {host}: the benchmark loads only servers on this machine");
        let client = Client::try_from(config)?;
        let version = IpamVersion::discover(&client).await?.context("Cluster API's IPAM kinds are not served")?;
        let crd: CustomResourceDefinition = serde_saphyr::from_str(CRD)?;
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        let how = PatchParams::apply("kubectl").force();
        let name = crds.patch(&crd.name_any(), &how, &Patch::Apply(&crd)).await?.name_any();
        await_condition(crds, &name, conditions::is_crd_established()).await?;
        let watch_filter = format!("bench-{}", Clock::system().random_name(8));
        Ok(Self { client, version, watch_filter, namespaces: Mutex::default() })
    }

    /// A new namespace with the credentials' Secret, `cloud`.
    pub async fn place(&self, cloud: &Value) -> Result<Place> {
        let name = format!("bench-{}", Clock::system().random_name(8));
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        Api::<Namespace>::all(self.client.clone()).create(&PostParams::default(), &namespace).await?;
        self.namespaces.lock().expect("no code panics while it holds the list").push(name.clone());
        let clouds = json!({"clouds": {"openstack": cloud}}).to_string();
        let secret = json!({"metadata": {"name": "cloud"}, "stringData": {"clouds.yaml": clouds}});
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &name);
        secrets.create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
        Ok(Place {
            pools: Api::namespaced(self.client.clone(), &name),
            claims: Api::namespaced_with(self.client.clone(), &name, &self.claim_kind()),
            addresses: Api::namespaced_with(self.client.clone(), &name, &self.address_kind()),
            events: Api::namespaced(self.client.clone(), &name),
        })
    }

    /// Creates the pool `bench`.
    pub async fn create_pool(&self, place: &Place, mut spec: Value) -> Result<()> {
        spec["identityRef"] = json!({"name": "cloud", "cloudName": "openstack"});
        let labels = json!({"cluster.x-k8s.io/watch-filter": self.watch_filter});
        let pool = json!({
            "apiVersion": "ipam.cluster.x-k8s.io/v1alpha1", "kind": "OpenStackFloatingIPPool",
            "metadata": {"name": "bench", "labels": labels}, "spec": spec
        });
        place.pools.create(&PostParams::default(), &serde_json::from_value(pool)?).await?;
        Ok(())
    }

    fn claim_kind(&self) -> ApiResource {
        self.version.resource("IPAddressClaim", "ipaddressclaims")
    }

    /// Cluster API's IPAddress, as the cluster serves it.
    pub fn address_kind(&self) -> ApiResource {
        self.version.resource("IPAddress", "ipaddresses")
    }

    /// A claim as CAPO makes it, but for CAPO's finalizer.
    pub fn claim(&self, number: usize) -> Result<DynamicObject> {
        Ok(serde_json::from_value(json!({
            "apiVersion": self.claim_kind().api_version, "kind": "IPAddressClaim",
            "metadata": {"name": format!("server-{number:04}-floating-ip-address")},
            "spec": {"poolRef": {
                "apiGroup": "ipam.cluster.x-k8s.io", "kind": "OpenStackFloatingIPPool", "name": "bench"
            }}
        }))?)
    }

    /// Removes all namespaces of this run by force. The controller must have ended, or it would mend what is broken.
    pub async fn clean_up(&self) {
        let namespaces = std::mem::take(&mut *self.namespaces.lock().expect("no code panics while it holds the list"));
        for name in namespaces {
            if let Err(error) = self.remove(&name).await {
                eprintln!("left in Kubernetes: namespace {name}: {error:#}");
            }
        }
    }

    async fn remove(&self, namespace: &str) -> Result<()> {
        let pools = ApiResource::erase::<OpenStackFloatingIPPool>(&());
        let (claims, addresses) = (self.claim_kind(), self.address_kind());
        let secrets = ApiResource::erase::<Secret>(&());
        for kind in [claims, addresses, pools, secrets] {
            let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &kind);
            for object in api.list(&ListParams::default()).await? {
                if !object.finalizers().is_empty() {
                    let change = Patch::Merge(json!({"metadata": {"finalizers": null}}));
                    api.patch(&object.name_any(), &PatchParams::default(), &change).await?;
                }
            }
        }
        Api::<Namespace>::all(self.client.clone()).delete(namespace, &DeleteParams::background()).await?;
        Ok(())
    }
}

impl Place {
    /// The versions of all objects that the program writes, to see whether it wrote any.
    pub async fn versions(&self) -> Result<Vec<String>> {
        let mut versions = versions_of("pool", &self.pools).await?;
        versions.extend(versions_of("claim", &self.claims).await?);
        versions.extend(versions_of("address", &self.addresses).await?);
        versions.extend(versions_of("event", &self.events).await?);
        versions.sort();
        Ok(versions)
    }
}

async fn versions_of<K>(kind: &str, api: &Api<K>) -> Result<Vec<String>>
where
    K: Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let all = api.list(&ListParams::default()).await?;
    Ok(all
        .iter()
        .map(|object| format!("{kind} {} {}", object.name_any(), object.resource_version().unwrap_or_default()))
        .collect())
}
