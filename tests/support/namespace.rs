//! A scenario's own namespace, and what a person can do in it.

mod ending;

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::core::v1::Namespace as KubeNamespace;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::clouds::{cloud_entry, clouds_yaml};
use super::controller::Controller;
use super::manifest::{Kind, Manifest};
use super::openstack::{Cloud, FloatingIp};
use super::verdict::await_lawful;
use super::wait::HEALS;
use super::world::World;

/// Runs a scenario in a namespace of its own.
///
/// When the scenario has passed, the laws must hold; then its claims and its pools are deleted and must be gone within
/// 30 s, and nothing in Neutron may carry a mark of its pools: every scenario shows that nothing leaks. When it has
/// panicked, what it saw is printed, and everything is removed by force.
pub async fn with_namespace(scenario: impl AsyncFnOnce(&Namespace)) {
    let ns = Namespace::create_in(World::new().await, super::unique("t")).await;
    let judged = async {
        scenario(&ns).await;
        await_lawful(&[&ns]).await;
    };
    let outcome = AssertUnwindSafe(judged).catch_unwind().await;
    if outcome.is_err() {
        ns.print_state().await;
    }
    let ended = ns.end(outcome.is_ok()).await;
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
    if let Err(reason) = ended {
        panic!("the scenario passed, but {reason}");
    }
}

/// The namespace, and what a person can do in it.
pub struct Namespace {
    /// Its name.
    pub name: String,
    /// The cluster that it is in.
    pub world: World,
    cloud: OnceCell<Cloud>,
    // A plain mutex: held to add an entry, never across an await.
    leftovers: Mutex<Option<String>>,
    // The same: held to start or end a process.
    controllers: Mutex<Vec<Arc<Controller>>>,
}

impl Namespace {
    /// Creates a namespace of a name that nobody has used before.
    pub(super) async fn create_in(world: World, name: String) -> Self {
        let body: KubeNamespace =
            serde_json::from_value(json!({"metadata": {"name": name}})).expect("that is a namespace");
        let namespaces: Api<KubeNamespace> = Api::all(world.client.clone());
        namespaces.create(&PostParams::default(), &body).await.expect("a namespace of a new name can be created");
        Self { name, world, cloud: OnceCell::new(), leftovers: Mutex::default(), controllers: Mutex::default() }
    }

    /// The objects of a kind in the namespace.
    pub fn api(&self, kind: Kind) -> Api<DynamicObject> {
        Api::namespaced_with(self.world.client.clone(), &self.name, &kind.resource(self.world.version))
    }

    /// OpenStack as the user `demo`, whose project the pools use.
    pub async fn cloud(&self) -> &Cloud {
        self.cloud.get_or_init(|| Cloud::named("demo")).await
    }

    /// OpenStack is seen as another user sees it; to be said before it is looked at.
    pub fn sees(&self, cloud: Cloud) {
        assert!(self.cloud.set(cloud).is_ok(), "OpenStack was looked at already");
    }

    /// The Secret `cloud`, which [`super::pool`] names, with the credentials of a cloud of `OS_CLIENT_CONFIG_FILE`.
    pub async fn secret_for(&self, cloud: &str) -> DynamicObject {
        self.secret("cloud", &clouds_yaml(&cloud_entry(cloud))).await
    }

    /// A Secret with this `clouds.yaml`; replaces the one before.
    pub async fn secret(&self, name: &str, clouds_yaml: &str) -> DynamicObject {
        self.apply(Manifest::new(
            Kind::Secret,
            json!({"metadata": {"name": name}, "stringData": {"clouds.yaml": clouds_yaml}}),
        ))
        .await
    }

    /// Creates an object.
    pub async fn create(&self, manifest: impl Into<Manifest>) -> DynamicObject {
        let manifest = manifest.into();
        let name = manifest.name();
        self.try_create(manifest).await.unwrap_or_else(|error| panic!("{name} is refused: {error}"))
    }

    /// Creates an object that the API server may refuse.
    pub async fn try_create(&self, manifest: impl Into<Manifest>) -> Result<DynamicObject, kube::Error> {
        self.post(manifest.into(), &PostParams::default()).await
    }

    /// Asks the API server what it would make of an object.
    pub async fn dry_run(&self, manifest: impl Into<Manifest>) -> Result<DynamicObject, kube::Error> {
        self.post(manifest.into(), &PostParams { dry_run: true, field_manager: None }).await
    }

    async fn post(&self, manifest: Manifest, how: &PostParams) -> Result<DynamicObject, kube::Error> {
        let object = manifest.object(self.world.version, &self.name);
        self.api(manifest.kind).create(how, &object).await
    }

    /// Applies an object, server-side, as `kubectl apply` does.
    pub async fn apply(&self, manifest: impl Into<Manifest>) -> DynamicObject {
        let manifest = manifest.into();
        let object = manifest.object(self.world.version, &self.name);
        self.api(manifest.kind)
            .patch(&manifest.name(), &PatchParams::apply("scenario").force(), &Patch::Apply(&object))
            .await
            .unwrap_or_else(|error| panic!("{} is refused: {error}", manifest.name()))
    }

    /// Changes an object by a JSON merge patch.
    pub async fn patch(&self, kind: Kind, name: &str, change: Value) -> DynamicObject {
        self.api(kind)
            .patch(name, &PatchParams::default(), &Patch::Merge(&change))
            .await
            .unwrap_or_else(|error| panic!("{kind:?} {name} cannot be changed: {error}"))
    }

    /// Changes the status of an object by a JSON merge patch of the whole object.
    pub async fn patch_status(&self, kind: Kind, name: &str, change: Value) -> DynamicObject {
        self.api(kind)
            .patch_status(name, &PatchParams::default(), &Patch::Merge(&change))
            .await
            .unwrap_or_else(|error| panic!("the status of {kind:?} {name} cannot be changed: {error}"))
    }

    /// The machine of a claim is gone: takes CAPO's finalizer off, as CAPO does, and leaves the others.
    pub async fn let_go(&self, claim: &str) {
        self.drop_finalizers(Kind::Claim, claim, |finalizer| {
            finalizer.starts_with("openstackmachine.infrastructure.cluster.x-k8s.io/")
        })
        .await;
    }

    /// Deletes an object, and does not wait. Nothing happens when there is none.
    pub async fn delete(&self, kind: Kind, name: &str) {
        match self.api(kind).delete(name, &DeleteParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => panic!("{kind:?} {name} cannot be deleted: {error}"),
        }
    }

    /// Releases a claim as CAPO does: deletes it and takes CAPO's finalizer off. Does not wait.
    pub async fn release(&self, claim: &str) {
        self.delete(Kind::Claim, claim).await;
        self.let_go(claim).await;
    }

    /// An object, if it is there.
    pub async fn get(&self, kind: Kind, name: &str) -> Option<DynamicObject> {
        self.api(kind).get_opt(name).await.unwrap_or_else(|error| panic!("{kind:?} {name} cannot be read: {error}"))
    }

    /// All objects of a kind.
    pub async fn list(&self, kind: Kind) -> Vec<DynamicObject> {
        let listed = self.api(kind).list(&ListParams::default()).await;
        listed.unwrap_or_else(|error| panic!("{kind:?} cannot be listed: {error}")).items
    }

    /// Watches an object until it is as wanted, for as long as `within`; then panics with what it is instead.
    pub async fn await_object(
        &self,
        kind: Kind,
        name: &str,
        within: Duration,
        what: &str,
        wanted: impl Fn(Option<&DynamicObject>) -> bool,
    ) -> Option<DynamicObject> {
        let watch = await_condition(self.api(kind), name, |object: Option<&DynamicObject>| wanted(object));
        match tokio::time::timeout(within, watch).await {
            Ok(object) => object.unwrap_or_else(|error| panic!("{kind:?} {name} cannot be watched: {error}")),
            Err(_) => {
                let found = self.get(kind, name).await;
                panic!("{kind:?} {name} is not {what} within {within:?}; it is {}", describe(found.as_ref()))
            }
        }
    }

    /// Waits until the condition `condition` is `status` for `reason`, and returns its message.
    pub async fn await_condition(
        &self,
        kind: Kind,
        name: &str,
        condition: &str,
        status: &str,
        reason: &str,
        within: Duration,
    ) -> String {
        let wanted = |object: Option<&DynamicObject>| {
            object
                .and_then(|object| condition_of(object, condition))
                .is_some_and(|found| found["status"] == status && found["reason"] == reason)
        };
        let what = format!("{condition}={status} ({reason})");
        let object = self.await_object(kind, name, within, &what, wanted).await.expect("only an object has conditions");
        let message = condition_of(&object, condition).and_then(|found| found["message"].as_str().map(str::to_owned));
        message.unwrap_or_default()
    }

    /// Waits until an object is gone.
    pub async fn await_gone(&self, kind: Kind, name: &str, within: Duration) {
        self.await_object(kind, name, within, "gone", |object| object.is_none()).await;
    }

    /// Waits until a claim is bound, and returns its address.
    pub async fn await_bound(&self, claim: &str, within: Duration) -> String {
        let claimed = self
            .await_object(Kind::Claim, claim, within, "bound", |object| {
                object.is_some_and(|claim| claim.data["status"]["addressRef"]["name"].is_string())
            })
            .await
            .expect("only a claim that is there is bound");
        let name = claimed.data["status"]["addressRef"]["name"].as_str().expect("a bound claim names its address");
        let address = self.get(Kind::Address, name).await.expect("an IPAddress is there before a claim names it");
        address.data["spec"]["address"].as_str().expect("an IPAddress has an address").to_owned()
    }

    /// Creates a claim, waits until it is bound, and returns its address.
    pub async fn bind(&self, claim: impl Into<Manifest>) -> String {
        self.bind_within(claim, HEALS).await
    }

    /// The same, where it may take longer.
    pub async fn bind_within(&self, claim: impl Into<Manifest>, within: Duration) -> String {
        let claim = claim.into();
        let name = claim.name();
        self.create(claim).await;
        self.await_bound(&name, within).await
    }

    /// The reasons and notes of the events about an object, oldest first.
    pub async fn events(&self, kind: Kind, name: &str) -> Vec<(String, String)> {
        let kind = kind.resource(self.world.version).kind;
        let mut events = self.list(Kind::Event).await;
        events.retain(|event| {
            event.data["regarding"]["kind"] == kind.as_str() && event.data["regarding"]["name"] == name
        });
        events.sort_by_key(|event| event.data["eventTime"].as_str().map(str::to_owned));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        events.iter().map(|event| (text(&event.data["reason"]), text(&event.data["note"]))).collect()
    }

    /// A floating IP that somebody made by hand on a network; it is deleted when the scenario ends.
    pub async fn floating_ip(&self, network: &str) -> FloatingIp {
        self.cloud().await.create(network, "").await
    }

    /// Says that the scenario ends with claims or pools that cannot go by themselves, and why.
    pub fn leaves_behind(&self, why: &str) {
        *self.leftovers.lock().expect("no code panics while it holds the note") = Some(why.to_owned());
    }

    async fn drop_finalizers(&self, kind: Kind, name: &str, which: impl Fn(&str) -> bool) {
        let api = self.api(kind);
        // Others change finalizers at the same time, so the patch names the version that it was made from.
        for _ in 0..20 {
            let Ok(Some(object)) = api.get_opt(name).await else { return };
            let kept: Vec<_> = object.finalizers().iter().filter(|finalizer| !which(finalizer)).collect();
            if kept.len() == object.finalizers().len() {
                return;
            }
            let version = object.resource_version();
            let change = json!({"metadata": {"finalizers": kept, "resourceVersion": version}});
            match api.patch(name, &PatchParams::default(), &Patch::Merge(&change)).await {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(kube::Error::Api(status)) if status.code == 404 => return,
                Err(error) => panic!("the finalizers of {kind:?} {name} cannot be changed: {error}"),
                Ok(_) => return,
            }
        }
        panic!("the finalizers of {kind:?} {name} change all the time");
    }

    /// Starts a controller for this namespace alone, until the namespace ends. It serves the pools that are
    /// [`super::PoolBuilder::served_in`] it. Others that ran are ended first, as by a crash.
    pub fn serve(&self) {
        self.crash();
        self.serve_by(&self.world.account, &[]);
    }

    /// The same by a kubeconfig and with flags of the scenario's own, beside those that run.
    pub fn serve_by(&self, kubeconfig: &str, flags: &[&str]) -> Arc<Controller> {
        let own = [format!("--namespace={}", self.name), format!("--watch-filter={}", self.name)];
        // The last of two wins.
        let flags = [&own.each_ref().map(String::as_str), flags].concat();
        let controller = Arc::new(Controller::start_in(kubeconfig, &flags));
        self.running().push(controller.clone());
        controller
    }

    /// The namespace's controllers die, those that run.
    pub fn crash(&self) {
        self.running().drain(..).for_each(|controller| controller.kill());
    }

    fn running(&self) -> MutexGuard<'_, Vec<Arc<Controller>>> {
        self.controllers.lock().expect("no code panics while it holds the controllers")
    }

    /// Takes all objects of these kinds away by force, as when the cluster is lost: whoever holds them is not asked.
    pub async fn lose(&self, kinds: &[Kind]) {
        for kind in kinds {
            for object in self.list(*kind).await {
                self.delete(*kind, &object.name_any()).await;
                self.drop_finalizers(*kind, &object.name_any(), |_| true).await;
                self.await_gone(*kind, &object.name_any(), HEALS).await;
            }
        }
    }
}

/// A condition of an object, where its version keeps those with a reason and a message.
pub fn condition_of<'a>(object: &'a DynamicObject, condition: &str) -> Option<&'a Value> {
    let status = &object.data["status"];
    [&status["v1beta2"]["conditions"], &status["conditions"]]
        .into_iter()
        .filter_map(Value::as_array)
        .flatten()
        .find(|found| found["type"] == condition)
}

fn describe(object: Option<&DynamicObject>) -> String {
    match object {
        None => "not there".to_owned(),
        Some(object) => json!({
            "spec": object.data["spec"],
            "status": object.data["status"],
            "finalizers": object.finalizers(),
            "annotations": object.annotations(),
            "deletionTimestamp": object.metadata.deletion_timestamp,
        })
        .to_string(),
    }
}
