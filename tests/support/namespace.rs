//! A scenario's own namespace, and what users and other controllers can do in it.

mod cleanup;
mod conditions;
mod objects;

use std::sync::{Arc, Mutex, MutexGuard};

use k8s_openapi::api::core::v1::Namespace as KubeNamespace;
use kube::Api;
use kube::api::PostParams;
use kube::core::DynamicObject;
use serde_json::json;
use tokio::sync::OnceCell;

use super::clouds::{cloud_entry, clouds_yaml};
use super::controller::{Controller, PROGRAM};
use super::manifest::{Kind, Manifest};
use super::openstack::{Cloud, FloatingIp};
use super::world::World;

pub use conditions::condition_of;

pub struct Namespace {
    pub name: String,
    /// The cluster that it is in.
    pub world: World,
    cloud: OnceCell<Cloud>,
    // A plain mutex: held to start or end a process, never across an await.
    controllers: Mutex<Vec<Arc<Controller>>>,
}

impl Namespace {
    /// Creates a namespace whose name was never used before.
    pub(super) async fn create_in(world: World, name: String) -> Self {
        let body: KubeNamespace =
            serde_json::from_value(json!({"metadata": {"name": name}})).expect("that is a namespace");
        let namespaces: Api<KubeNamespace> = Api::all(world.client.clone());
        namespaces.create(&PostParams::default(), &body).await.expect("a namespace of a new name can be created");
        Self { name, world, cloud: OnceCell::new(), controllers: Mutex::default() }
    }

    /// The objects of a kind in the namespace.
    pub fn api(&self, kind: Kind) -> Api<DynamicObject> {
        Api::namespaced_with(self.world.client.clone(), &self.name, &kind.resource(self.world.version))
    }

    /// OpenStack as the user `demo`, whose project the pools use.
    pub async fn cloud(&self) -> &Cloud {
        self.cloud.get_or_init(|| Cloud::named("demo")).await
    }

    /// Sees OpenStack as another user; to be called before [`Self::cloud`].
    pub fn use_cloud(&self, cloud: Cloud) {
        assert!(self.cloud.set(cloud).is_ok(), "`cloud` was called before");
    }

    /// Creates a floating IP as a user would; it is deleted when the scenario ends.
    pub async fn create_floating_ip(&self, network: &str) -> FloatingIp {
        self.cloud().await.create(network, "").await
    }

    /// The Secret `cloud`, which [`super::pool`] names, with the credentials of a cloud of `OS_CLIENT_CONFIG_FILE`.
    pub async fn create_secret_for(&self, cloud: &str) -> DynamicObject {
        self.apply_secret("cloud", &clouds_yaml(&cloud_entry(cloud))).await
    }

    /// A Secret with this `clouds.yaml`; replaces the one before.
    pub async fn apply_secret(&self, name: &str, clouds_yaml: &str) -> DynamicObject {
        self.apply(Manifest::new(
            Kind::Secret,
            json!({"metadata": {"name": name}, "stringData": {"clouds.yaml": clouds_yaml}}),
        ))
        .await
    }

    /// Kills the namespace's controllers, as a crash would, and starts one that serves the pools that are
    /// [`super::PoolBuilder::served_in`] this namespace. It ends with the scenario.
    pub fn restart_controller(&self) {
        self.kill_controllers();
        self.start_controller(&self.world.account, &[]);
    }

    /// Starts one more controller for the namespace, with more flags.
    pub fn start_controller(&self, kubeconfig: &str, flags: &[&str]) -> Arc<Controller> {
        self.start_build(PROGRAM, kubeconfig, flags)
    }

    /// The same with another build of the program.
    pub fn start_build(&self, program: &str, kubeconfig: &str, flags: &[&str]) -> Arc<Controller> {
        let own = [format!("--namespace={}", self.name), format!("--watch-filter={}", self.name)];
        // The last of two wins.
        let flags = [&own.each_ref().map(String::as_str), flags].concat();
        let controller = Arc::new(Controller::start_build(program, kubeconfig, &flags));
        self.controllers().push(controller.clone());
        controller
    }

    /// Kills the namespace's controllers, as a crash would.
    pub fn kill_controllers(&self) {
        self.controllers().drain(..).for_each(|controller| controller.kill());
    }

    fn controllers(&self) -> MutexGuard<'_, Vec<Arc<Controller>>> {
        self.controllers.lock().expect("no code panics while it holds the controllers")
    }
}
