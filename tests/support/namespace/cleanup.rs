//! The end of a scenario's namespace: everything in it is removed, in Kubernetes and in Neutron, also after a panic.

use std::time::Duration;

use caip_openstack::api::names::{ADDRESS_FINALIZER, SECRET_FINALIZER_PREFIX};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Namespace as KubeNamespace;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::core::DynamicObject;
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt};
use serde_json::json;

use super::Namespace;
use super::conditions::describe;
use crate::support::manifest::Kind;
use crate::support::openstack::FloatingIp;
use crate::support::wait::{RECOVERY, try_for};

/// A pool whose process or session is new waits for what the one before may have sent: 30 s, and 5 s until it looks again.
const CLEANUP: Duration = Duration::from_secs(30 + 5).saturating_add(RECOVERY);

impl Namespace {
    pub(in crate::support) async fn print_state(&self) {
        for kind in [Kind::Pool, Kind::Claim, Kind::Address] {
            for object in self.api(kind).list(&ListParams::default()).await.map(|all| all.items).unwrap_or_default() {
                eprintln!("{kind:?} {}: {}", object.name_any(), describe(Some(&object)));
                for (reason, note) in self.events(kind, &object.name_any()).await {
                    eprintln!("    event {reason}: {note}");
                }
            }
        }
    }

    /// Removes everything. `Err` says what had to be removed by force.
    pub(in crate::support) async fn clean_up(&self, passed: bool) -> Result<(), String> {
        let pools = self.list(Kind::Pool).await;
        let mut marks: Vec<String> = Vec::new();
        for pool in &pools {
            let id = pool.data["status"]["poolID"].as_str().or_else(|| pool.data["spec"]["poolID"].as_str());
            marks.extend(id.map(str::to_owned));
        }
        let mut outcome = Ok(());
        for kind in [Kind::Claim, Kind::Pool] {
            for object in self.list(kind).await {
                self.delete(kind, &object.name_any()).await;
                if kind == Kind::Claim {
                    self.remove_capo_finalizer(&object.name_any()).await;
                }
            }
            // Objects that no controller has seen have no finalizers, so that a scenario without one ends at once.
            let patience = if passed { CLEANUP } else { Duration::from_secs(3) };
            outcome = outcome.and(self.await_none(kind, patience).await);
        }
        if passed && outcome.is_ok() {
            outcome = self.await_no_finalizers().await;
        }
        for kind in [Kind::Claim, Kind::Address, Kind::Pool, Kind::Secret, Kind::Cluster] {
            for object in self.list(kind).await {
                self.remove_finalizers(kind, &object.name_any(), |_| true).await;
            }
        }
        self.kill_controllers();
        let namespaces: Api<KubeNamespace> = Api::all(self.world.client.clone());
        // Kubernetes does the rest; the name is never used again, so there is no need to wait.
        let _deleted = namespaces.delete(&self.name, &DeleteParams::background()).await;
        if let Some(cloud) = self.cloud.get() {
            cloud.clean_up().await;
        }
        if !marks.is_empty() {
            outcome = outcome.and(self.remove_marked(&marks).await);
        }
        outcome
    }

    /// Removes all objects without waiting for a controller, and nothing in Neutron.
    pub(in crate::support) async fn remove_by_force(&self) {
        let remove = async |kind: Kind, name: String| {
            self.delete(kind, &name).await;
            let change = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            // An error means that it is gone.
            let _gone = self.api(kind).patch(&name, &PatchParams::default(), &change).await;
        };
        let namespaces: Api<KubeNamespace> = Api::all(self.world.client.clone());
        // Twice: a reconcile that is still running may create an IPAddress. In a namespace that is being deleted it cannot.
        for _ in 0..2 {
            for kind in [Kind::Pool, Kind::Claim, Kind::Address, Kind::Secret] {
                join_all(self.list(kind).await.iter().map(|object| remove(kind, object.name_any()))).await;
            }
            let _deleted = namespaces.delete(&self.name, &DeleteParams::background()).await;
        }
    }

    async fn await_none(&self, kind: Kind, within: Duration) -> Result<(), String> {
        for object in self.list(kind).await {
            let name = object.name_any();
            let gone = await_condition(self.api(kind), &name, |object: Option<&DynamicObject>| object.is_none());
            if tokio::time::timeout(within, gone).await.is_err() {
                return Err(format!("{kind:?} {name} is still there {within:?} after it was deleted"));
            }
        }
        Ok(())
    }

    /// Our finalizers are gone with the claims and the pools. Otherwise the namespace could not be deleted.
    async fn await_no_finalizers(&self) -> Result<(), String> {
        let is_ours = |it: &String| it == ADDRESS_FINALIZER || it.starts_with(SECRET_FINALIZER_PREFIX);
        try_for(CLEANUP, async || {
            let objects = [self.list(Kind::Address).await, self.list(Kind::Secret).await].concat();
            match objects.iter().find(|object| object.finalizers().iter().any(is_ours)) {
                Some(held) => Err(format!("{} still has {}", held.name_any(), held.finalizers().join(", "))),
                None => Ok(()),
            }
        })
        .await
    }

    /// Deletes what the pools left in Neutron. `Err` names it.
    async fn remove_marked(&self, marks: &[String]) -> Result<(), String> {
        let cloud = self.cloud().await;
        let is_marked = |floating_ip: &FloatingIp| {
            marks.iter().any(|mark| {
                floating_ip.description.contains(mark) || floating_ip.tags.iter().any(|tag| tag.contains(mark))
            })
        };
        let left: Vec<_> = cloud.floating_ips().await.into_iter().filter(is_marked).collect();
        for floating_ip in &left {
            cloud.delete(&floating_ip.id).await;
        }
        if left.is_empty() {
            return Ok(());
        }
        let left: Vec<_> =
            left.iter().map(|left| format!("{} {:?} {:?}", left.address, left.description, left.tags)).collect();
        Err(format!("its pools are gone and these still carry their marks: {}", left.join(", ")))
    }
}
