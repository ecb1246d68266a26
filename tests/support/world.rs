//! The servers that scenarios run against, which `make env-up` starts.

use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::Duration;

use caip_openstack::api::IpamVersion;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, Config};
use tokio::sync::OnceCell;

use super::service_account;

/// The CRD as it is committed.
pub const CRD_YAML: &str = include_str!("../../crds/ipam.cluster.x-k8s.io_openstackfloatingippools.yaml");

/// A management cluster. Each scenario has its own, since a client belongs to the runtime of its test.
#[derive(Clone)]
pub struct World {
    /// A client with all permissions.
    pub client: Client,
    /// The version of Cluster API's IPAM kinds that it serves.
    pub version: IpamVersion,
    /// The kubeconfig of an administrator.
    pub kubeconfig: String,
    /// The kubeconfig of the ServiceAccount of `config/rbac`, for controllers.
    pub account: String,
}

impl World {
    /// The cluster that `KUBECONFIG` names, with our CRD.
    pub async fn new() -> Self {
        static CRD_APPLIED: OnceCell<()> = OnceCell::const_new();
        Self::named("KUBECONFIG", &CRD_APPLIED).await
    }

    /// The second management cluster, which shares OpenStack with the first, with our CRD.
    pub async fn second() -> Self {
        static CRD_APPLIED: OnceCell<()> = OnceCell::const_new();
        Self::named("CAIP_SECOND_KUBECONFIG", &CRD_APPLIED).await
    }

    async fn named(variable: &'static str, crd_applied: &OnceCell<()>) -> Self {
        let (kubeconfig, client) = (required(variable), client(variable).await);
        let version = IpamVersion::discover(&client)
            .await
            .unwrap_or_else(|error| panic!("the API server of {variable} does not answer ({error}); run `make env-up`"))
            .expect("Cluster API's IPAM kinds are not served: run `make env-up`");
        crd_applied.get_or_init(|| apply_crd(client.clone())).await;
        Self { client, version, kubeconfig, account: service_account::kubeconfig(variable) }
    }
}

/// A client of the kubeconfig in `variable`. Refuses a cluster that is not on this machine, since scenarios change CRDs and
/// delete namespaces.
pub async fn client(variable: &str) -> Client {
    install_crypto_provider();
    let config = read(&required(variable))
        .await
        .unwrap_or_else(|error| panic!("{variable} cannot be read ({error:?}); run `make env-up`"));
    assert!(
        config.cluster_url.host().is_some_and(is_loopback),
        "{variable} names {}, which is not on this machine: scenarios run against `make env-up` only",
        config.cluster_url
    );
    Client::try_from(config).expect("a configuration that was read makes a client")
}

async fn read(kubeconfig: &str) -> Result<Config, kube::config::KubeconfigError> {
    Config::from_custom_kubeconfig(Kubeconfig::read_from(kubeconfig)?, &KubeConfigOptions::default()).await
}

/// Identifies this run of the tests among others on the same servers: its pools have it as their watch filter.
pub fn run_id() -> &'static str {
    static RUN: OnceLock<String> = OnceLock::new();
    RUN.get_or_init(|| super::unique("run"))
}

/// The value of an environment variable, which must be set.
pub fn required(variable: &str) -> String {
    std::env::var(variable).ok().filter(|value| !value.is_empty()).unwrap_or_else(|| {
        panic!("{variable} is not set: run `make test`, or `make env-up` and set {variable} as it says")
    })
}

/// Sets the provider of cryptography for TLS; later calls change nothing.
pub fn install_crypto_provider() {
    // An error means that it was chosen before.
    let _chosen_before = rustls::crypto::ring::default_provider().install_default();
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

async fn apply_crd(client: Client) {
    let crd: CustomResourceDefinition = serde_saphyr::from_str(CRD_YAML).expect("crds/ holds a CRD");
    let name = crd.metadata.name.clone().expect("the CRD has a name");
    let crds: Api<CustomResourceDefinition> = Api::all(client);
    crds.patch(&name, &PatchParams::apply("kubectl").force(), &Patch::Apply(&crd))
        .await
        .unwrap_or_else(|error| panic!("the API server refuses crds/: {error}"));
    tokio::time::timeout(Duration::from_secs(30), await_condition(crds, &name, conditions::is_crd_established()))
        .await
        .expect("the CRD is established within 30 s")
        .expect("the CRD can be watched");
}
